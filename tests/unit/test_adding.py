"""`a + b` is the inverse-variance mean of two releases of one table, in integers; what both promise adds up."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from eigenveil import PrivateCovariance, PrivatePCA, Release, RowBound, SecondMoments, load_release, release
from eigenveil.accounting.composition import compose
from eigenveil.errors import InvalidParameterError
from eigenveil.laws import LAWS
from eigenveil.laws.averaged import Averaged
from eigenveil.origin import RegressionRequest
from helpers import refused
from made_releases import drawn, local_release, moments_of, table, with_origin

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
ADDITIVE = [name for name, law in LAWS.items() if law.adds_noise]
BOUNDS = RowBound(8.0), RowBound(8.0, constant=4.0)


def pair(law="gaussian", relation="replace", epsilons=(1.0, 2.0), bound=BOUNDS[1], **options):
    return [drawn(law, bound=bound, relation=relation, epsilon=epsilon, **options) for epsilon in epsilons]


def in_c(one):
    """Return the released numbers in units of C, exactly."""
    return {
        name: [Fraction(int(k)) * Fraction(one.unit[name]) for k in one.integers[name].ravel()] for name in one.unit
    }


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("law", ADDITIVE)
def test_the_sum_is_the_weighted_mean_of_integers(law, relation):
    first, second = pair(law, relation)
    total = first + second
    made = total.law
    assert isinstance(made, Averaged)
    share = made.weights[0] / sum(made.weights)
    precisions = [one.law.off_diagonal_sd**-2 for one in (first, second)]
    assert share == pytest.approx(precisions[0] / sum(precisions), abs=0.01)
    values = [in_c(one) for one in (first, second, total)]
    for name, sums in values[2].items():
        expected = [share * a + (1 - share) * b for a, b in zip(values[0][name], values[1][name], strict=True)]
        near = 0.5 + 1e-6 if name == "count" else 1e-9 * max(map(abs, expected)) + 1e-12
        assert max(abs(float(a - b)) for a, b in zip(sums, expected, strict=True)) <= near
        assert total.integers[name].dtype == np.int64
    assert made.off_diagonal_sd == pytest.approx(sum(precisions) ** -0.5, rel=1e-3)


def test_what_is_read_off_the_sum_is_the_mean_of_what_is_read_off_both():
    first, second = pair(epsilons=(1.0, 1.0))
    total = first + second
    np.testing.assert_allclose(total._bordered, (first._bordered + second._bordered) / 2, atol=1e-9)
    assert total.noise_sd == pytest.approx(first.noise_sd / np.sqrt(2), rel=1e-6)
    widths = [np.diff(one.entry_interval(), axis=-1) for one in (first, total)]
    np.testing.assert_allclose(widths[1], widths[0] / np.sqrt(2), rtol=0.1)


def test_budgets_add_up_and_caveats_stay():
    first, second = pair("laplace")
    total = first + second
    assert total.guarantee == compose([first.guarantee, second.guarantee])
    assert total.guarantee.epsilon == 3.0
    seeded = first + drawn("laplace", bound=BOUNDS[1], seed=1)
    assert not seeded.guarantee.is_private
    assert total.origin.ledger_entry is None


def test_a_sum_is_a_release_that_can_be_saved_and_added_to(tmp_path):
    first, second = pair("matrix_laplace", epsilons=(1.0, 1.0))
    third = drawn("matrix_laplace", bound=BOUNDS[1])
    total = first + second + third
    assert total.law.weights == (1, 1, 1)
    again = load_release(total.save(tmp_path / "sum.npz"))
    assert isinstance(again, Release)
    np.testing.assert_allclose(again.covariance, total.covariance)
    np.testing.assert_allclose(
        total._bordered,
        (first._bordered + second._bordered + third._bordered) / 3,
        atol=1e-6 * np.abs(total._bordered).max(),
    )
    assert total.guarantee.epsilon == 3.0
    other = first + (second + third)
    np.testing.assert_allclose(other._bordered, total._bordered, atol=1e-9)


def test_numbers_that_would_overflow_lose_their_last_bits_and_no_more():
    first, second = pair("laplace", epsilons=(1.0, 1.0))
    shift = 2**61 * np.eye(len(first.integers["matrix"]), dtype=np.int64)
    large = [replace(one, integers={"matrix": one.integers["matrix"] + shift}) for one in (first, second)]
    total = large[0] + large[1] + replace(large[0], integers={"matrix": large[0].integers["matrix"] + 9})
    ends = [in_c(one)["matrix"] for one in (*large, total)]
    for one, other, mean in zip(*ends, strict=True):
        expected = (2 * one + other) / 3
        assert abs(mean - expected) <= 20 * Fraction(first.unit["matrix"]) + abs(expected) * Fraction(1, 2**50)


def coverage(sums):
    """Return how often the intervals of entries hold the truth, over many releases."""
    moments = moments_of(table(), BOUNDS[0])
    law = LAWS["gaussian"](epsilon=1.0, delta=1e-6, n_features=6)
    truth = release(LAWS["none"](epsilon=1.0, n_features=6), moments).row_matrix
    hits = []
    for _ in range(60):
        one = sums(*(release(law, moments) for _ in range(2)))
        ends = one.entry_interval()
        hits.append((ends[..., 0] <= truth) & (truth <= ends[..., 1]))
    return np.mean(hits)


def test_intervals_of_a_sum_are_right_in_95_of_100_entries():
    assert 0.91 < coverage(lambda first, second: first + second) < 0.985


def test_control_intervals_of_half_the_noise_would_be_wrong():
    def pretending(first, second):
        total = first + second
        parts = [
            part | {"parameters": part["parameters"] | {"epsilon": 2.0}} for part in total.law.parameters()["parts"]
        ]
        return with_origin(total, parameters={"parts": parts})

    assert coverage(pretending) < 0.9


def test_what_cannot_be_added_is_refused_in_one_sentence(monkeypatch):
    first, second = pair()
    rows = table()
    directions = drawn("eigenvector_sampling", bound=BOUNDS[0])
    others = [
        first,  # itself
        first + second,
        drawn("laplace", bound=BOUNDS[1]),
        drawn(bound=BOUNDS[1], calibration="paper", accept_inexact=True)
        if False
        else drawn("frobenius", bound=BOUNDS[1]),
        drawn(bound=BOUNDS[0]),
        drawn(bound=RowBound(9.0, constant=4.0)),
        drawn(bound=BOUNDS[1], relation="add_remove"),
        drawn(bound=BOUNDS[1], names=None),
        drawn(rows=rows[:-1], bound=BOUNDS[1]),
        directions,
        drawn("none", bound=BOUNDS[1]),
        local_release(monkeypatch),
    ]
    for other in others:
        with refused(InvalidParameterError):
            first + other
        with refused(InvalidParameterError):
            other + first
    with pytest.raises(TypeError):
        first + 1


def test_what_was_asked_for_may_differ():
    first, second = pair()
    total = first + with_origin(second, request=RegressionRequest(target=0))
    assert total.origin.request == first.origin.request


def test_fits_with_public_bounds_add_up_and_those_with_private_ones_do_not():
    rows = table()
    fits = [PrivateCovariance(epsilon=5.0, bounds=(-20, 20)).fit(rows).release_ for _ in range(2)]
    assert (fits[0] + fits[1]).guarantee.epsilon == 10.0
    found = [
        PrivatePCA(2, epsilon=5.0, delta=1e-6, bounds=(-20, 20), law="gaussian").fit(rows).release_ for _ in range(2)
    ]
    assert "mean" in found[0].integers  # measured first, so that rows were shifted differently
    with refused(InvalidParameterError):
        found[0] + found[1]


def test_persons_and_rows_do_not_add_up():
    from eigenveil import Guarantee
    from eigenveil.guarantee import Unit

    first = drawn("laplace", bound=BOUNDS[1])
    person = Release(first.integers, first.unit, Guarantee(1.0, unit=Unit.PERSON), first.origin)
    with refused(InvalidParameterError):
        first + person


def test_the_law_of_an_average_is_read_and_never_drawn():
    law = (pair()[0] + pair()[1]).law
    with refused(InvalidParameterError):
        release(law, SecondMoments(RowBound(1.0), 7).update(np.eye(7)))
    part = law.parameters()["parts"][0]
    for wrong in ([], [part | {"weight": 0}], [part, part | {"law": "none"}]):
        with refused(InvalidParameterError):
            Averaged(parts=wrong)
