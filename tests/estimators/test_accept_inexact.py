"""Nothing is released by a mechanism that is not exact unless its user says so; forecasts and audits need no word."""

import numpy as np
import pytest
from typer.testing import CliRunner

from contract.catalogue import CASES, IDS, make, some_moments
from eigenveil import Adjacency, PrivacyLedger, PrivatePCA, load_release, release
from eigenveil.cli import app
from eigenveil.errors import InvalidParameterError
from eigenveil.guarantee import Numerics
from eigenveil.mechanisms import MECHANISMS, choose_mechanism, mechanism_from
from helpers import assert_one_sentence, refused

INEXACT = {"mechanism": "ppca", "norm_bound": 4.0}  # with more than one component, a Markov chain
ROWS = np.random.default_rng(0).normal(size=(300, 4))


def chain(**options):
    return MECHANISMS["ppca"](epsilon=1.0, n_features=5, n_components=2, updates=20, **options)


def test_a_release_needs_the_word_and_nothing_is_spent_without_it(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "l", epsilon=1.0, data_set="study")
    with refused(InvalidParameterError) as info:
        release(chain(), some_moments(), ledger=ledger)
    assert "accept_inexact=True" in str(info.value)
    assert ledger.entries() == []
    drawn = release(chain(accept_inexact=True), some_moments(), ledger=ledger)
    assert drawn.guarantee.numerics is Numerics.EMPIRICAL
    assert drawn.guarantee.assumptions
    assert len(ledger.entries()) == 1


def test_an_estimator_needs_the_word_to_plan_and_to_fit(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "l", epsilon=1.0, data_set="study")
    model = PrivatePCA(2, **INEXACT, center=False, ledger=ledger)
    for attempt in (lambda: model.plan(4), lambda: model.fit(ROWS), lambda: model.plan(4, n_rows=300)):
        with refused(InvalidParameterError):
            attempt()
    model.set_params(mechanism_options={"accept_inexact": True, "updates": 20})
    assert model.plan(4).guarantee.numerics is Numerics.EMPIRICAL
    assert model.fit(ROWS).guarantee_.numerics is Numerics.EMPIRICAL
    assert len(ledger.entries()) == 1


def test_a_saved_release_is_read_without_the_word(tmp_path):
    drawn = release(chain(accept_inexact=True), some_moments())
    loaded = load_release(drawn.save(tmp_path / "r.npz"))
    assert loaded.origin.parameters["accept_inexact"] is True
    assert loaded.mechanism.accept_inexact
    assert loaded.mechanism.parameters() == drawn.mechanism.parameters()
    assert np.array_equal(loaded.components, drawn.components)
    # A file of an earlier version has no such parameter, and is read all the same.
    old = {name: value for name, value in drawn.mechanism.parameters().items() if name != "accept_inexact"}
    assert not mechanism_from("ppca", old).accept_inexact


@pytest.mark.parametrize(("name", "calibration", "adjacency"), CASES, ids=IDS)
def test_every_mechanism_tells_whether_it_is_exact(name, calibration, adjacency):
    mechanism = make(name, calibration, adjacency)
    guarantee = mechanism.guarantee()
    assert mechanism.exact == (guarantee.numerics is Numerics.EXACT)
    assert guarantee.numerics.gap <= MECHANISMS[name].numerics.gap  # the class declares the worst
    plain = type(mechanism)(**{key: value for key, value in mechanism.parameters().items() if key != "accept_inexact"})
    assert "accept_inexact" not in plain.parameters()
    assert plain.guarantee() == guarantee  # the word changes nothing that is drawn or promised
    if mechanism.exact:
        plain.check_accepted()
        return
    mechanism.check_accepted()
    with refused(InvalidParameterError):
        plain.check_accepted()
    assert guarantee.assumptions, "an inexact guarantee says which attack applies"
    for assumption in guarantee.assumptions:
        assert_one_sentence(ValueError(assumption))


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("k", [None, 1, 2, 5])
def test_auto_chooses_exact_mechanisms_only(adjacency, delta, k):
    for n_rows in (0, 10, 100, 10**6):
        for epsilon in (0.01, 1.0, 20.0):
            setting = {"epsilon": epsilon, "n_features": 20, "adjacency": adjacency}
            chosen = MECHANISMS[choose_mechanism(n_rows=n_rows, n_components=k, delta=delta, **setting)]
            mechanism = chosen(delta=delta if chosen.needs_delta else 0.0, n_components=k, **setting)
            assert mechanism.exact


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
        "--mechanism",
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
    assert load_release(output).mechanism.accept_inexact
