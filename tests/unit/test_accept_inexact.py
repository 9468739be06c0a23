"""Nothing is released by a law that is not exact unless its user says so; plans of losses and audits need no word."""

import numpy as np
import pytest
from typer.testing import CliRunner

from contract.catalogue import CASES, IDS, make, some_moments
from eigenveil import PrivacyLedger, PrivateCovariance, PrivatePCA, Relation, load_release, release
from eigenveil.audit import audit
from eigenveil.cli import app
from eigenveil.errors import InvalidParameterError
from eigenveil.guarantee import Numerics
from eigenveil.mechanisms import LAWS, choose_law, law_from
from helpers import assert_one_sentence, drawn_directions, refused

INEXACT = {"law": "ppca", "norm_bound": 4.0}  # with more than one component, a Markov chain
ROWS = np.random.default_rng(0).normal(size=(300, 4))


def chain(**options):
    return LAWS["ppca"](epsilon=1.0, n_features=5, n_components=2, updates=20, **options)


def test_a_release_needs_the_word_and_nothing_is_spent_without_it(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "l", epsilon=1.0, data_set="study")
    with refused(InvalidParameterError) as info:
        release(chain(), some_moments(), ledger=ledger)
    assert "accept_inexact=True" in str(info.value)
    assert ledger.entries() == []
    drawn = release(chain(accept_inexact=True), some_moments(), ledger=ledger)
    assert drawn.guarantee.numerics is Numerics.EMPIRICAL
    assert drawn.guarantee.caveats
    assert len(ledger.entries()) == 1


def test_an_estimator_needs_the_word_to_plan_and_to_fit(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "l", epsilon=1.0, data_set="study")
    model = PrivatePCA(2, **INEXACT, center=False, ledger=ledger)
    for attempt in (lambda: model.plan(4), lambda: model.fit(ROWS), lambda: model.plan(4, n_rows=300)):
        with refused(InvalidParameterError):
            attempt()
    model.set_params(law_options={"accept_inexact": True, "updates": 20})
    assert model.plan(4).guarantee.numerics is Numerics.EMPIRICAL
    assert model.fit(ROWS).guarantee_.numerics is Numerics.EMPIRICAL
    assert len(ledger.entries()) == 1


def test_a_saved_release_is_read_without_the_word(tmp_path):
    drawn = release(chain(accept_inexact=True), some_moments())
    loaded = load_release(drawn.save(tmp_path / "r.npz"))
    assert loaded.origin.parameters["accept_inexact"] is True
    assert loaded.law.accept_inexact
    assert loaded.law.parameters() == drawn.law.parameters()
    assert np.array_equal(loaded.components, drawn.components)
    # A file of an earlier version has no such parameter, and is read all the same.
    old = {name: value for name, value in drawn.law.parameters().items() if name != "accept_inexact"}
    assert not law_from("ppca", old).accept_inexact


@pytest.mark.parametrize(("name", "calibration", "relation"), CASES, ids=IDS)
def test_every_law_tells_whether_it_is_exact(name, calibration, relation):
    law = make(name, calibration, relation)
    guarantee = law.guarantee()
    assert law.exact == (guarantee.numerics is Numerics.EXACT)
    assert guarantee.numerics.gap <= LAWS[name].numerics.gap  # the class declares the worst
    plain = type(law)(**{key: value for key, value in law.parameters().items() if key != "accept_inexact"})
    assert "accept_inexact" not in plain.parameters()
    assert plain.guarantee() == guarantee  # the word changes nothing that is drawn or promised
    if law.exact:
        plain.check_accepted()
        return
    law.check_accepted()
    with refused(InvalidParameterError):
        plain.check_accepted()
    assert guarantee.caveats, "an inexact guarantee says which attack applies"
    for caveat in guarantee.caveats:
        assert_one_sentence(ValueError(caveat))


def test_baselines_need_nothing():
    for name in ("random_projection", "none"):
        make(name).check_accepted()
        assert make(name).exact


def test_plans_and_audits_of_laws_need_no_word():
    law = LAWS["ppca"](epsilon=1.0, n_features=2, n_components=1, updates=20)
    assert audit(law, draws=200).verdict == "consistent"
    assert drawn_directions(chain(), np.eye(5), np.random.default_rng(0), 2).shape == (2, 2, 5)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("k", [None, 1, 2, 5])
def test_auto_chooses_exact_laws_only(relation, delta, k):
    for n_rows in (0, 10, 100, 10**6):
        for epsilon in (0.01, 1.0, 20.0):
            setting = {"epsilon": epsilon, "n_features": 20, "relation": relation}
            chosen = LAWS[choose_law(n_rows=n_rows, n_components=k, delta=delta, **setting)]
            law = chosen(delta=delta if chosen.needs_delta else 0.0, n_components=k, **setting)
            assert law.exact


def test_accepting_does_not_change_what_auto_chooses():
    plain = PrivatePCA(1, norm_bound=1.0, center=False).plan(20)
    accepting = PrivatePCA(1, norm_bound=1.0, center=False, law_options={"accept_inexact": True}).plan(20)
    assert [(rows, law.name) for rows, law in plain.laws] == [(rows, law.name) for rows, law in accepting.laws]
    assert PrivateCovariance(norm_bound=1.0).plan(20).guarantee.numerics is Numerics.EXACT


def test_the_command_line_has_a_word_for_it(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("a,b,c\n" + "1,0,0\n0,1,0\n0,0,1\n" * 50)
    words = [
        "pca",
        str(table),
        "-k",
        "2",
        "--epsilon",
        "1",
        "--norm-bound",
        "1",
        "--no-center",
        "--law",
        "ppca",
        "-y",
        "-q",
    ]
    output = tmp_path / "out.npz"
    result = CliRunner().invoke(app, [*words, "--output", str(output)])
    assert isinstance(result.exception, InvalidParameterError)
    assert not output.exists()
    result = CliRunner().invoke(app, [*words, "--accept-inexact", "--output", str(output)])
    assert result.exit_code == 0, result.output
    assert load_release(output).law.accept_inexact
