"""Whatever the parameters are: a fit works, or it is refused in one sentence and nothing was spent.

There is one set of parameters for every seed: sensible ones, of which a few are replaced by some that nobody should
give.
"""

import inspect
import itertools
import json
import math
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from eigenveil import PrivacyLedger, gate
from eigenveil.errors import EigenveilError, InvalidParameterError
from eigenveil.estimators import (
    LocalPCA,
    LocalSparsePCA,
    PrivateCovariance,
    PrivatePCA,
    PrivateRidge,
    PrivateScaler,
    PrivateSparsePCA,
)
from eigenveil.mechanisms import MECHANISMS, mechanism_with
from eigenveil.mechanisms.local import LOCAL_MECHANISMS, local_mechanism_from
from helpers import assert_one_sentence, refused, scales

ROWS = np.random.default_rng(20).normal(size=(60, 3))
ESTIMATORS = (
    *(PrivatePCA, PrivatePCA, PrivateCovariance, PrivateSparsePCA, PrivateRidge, PrivateScaler),
    *(LocalPCA, LocalSparsePCA),
)
NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 2, 3, 4, 7, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63), 10**30, 10**400, -(10**400)),
    *(0.0, -0.0, 0.5, 1.0, 2.5, 1e-320, 5e-324, 1e-300, 1e-155, 1e-100, 1e-59, 1e-12, 1e12, 1e59, 1e100, 1e155, 1e250),
    *(1e300, 1e308, -1e308, math.nan, math.inf, -math.inf, math.nextafter(1, 0), math.nextafter(0, 1)),
    *(Fraction(1, 3), Fraction(10**400, 3), Decimal("0.1"), np.float32(1e30), np.float64(0.3), np.int64(2)),
)  # fmt: skip
OTHERS: tuple[Any, ...] = (
    *(None, True, False, np.bool_(True), "", "1", "nan", "x", "auto", b"1", 1j, object(), int, lambda: 1),
    *([], [1], [1, 2, 3], [[1], [2, 3]], (), (1, 2), {}, {"a": 1}, {0: (0, 1)}, {1, 2}, range(3), np.zeros(0)),
    *(np.ones(3), np.ones((3, 3)), np.array(1.0), np.array(["a"]), np.array([None])),
)  # fmt: skip
BOUNDS: tuple[Any, ...] = (
    *((0, 1), (1, 0), (0, 0), (-1e308, 1e308), (0, 1e-320), (0, math.inf), (math.nan, 1), (0,), (0, 1, 2), ("a", "b")),
    *(([0, 0, 0], [1, 1, 1]), ([0, 0], [1, 1]), ([[0]], [[1]]), (None, 1), ([0, 0, None], 1), {0: (0, 1)}, {9: (0, 1)}),
    *({0: (0, 1), 1: (0, 1), 2: (0, 1)}, {0: (1, 0), 1: (0, 1), 2: (0, 1)}, {"a": (0, 1)}, {0: 1}, {None: (0, 1)}),
    *({0: (0, 1e300), 1: (0, 1), 2: (0, 1)}, {0: (0, 1e-300), 1: (0, 1), 2: (0, 1)}, (1e20, 1e20 + 1e5)),
)  # fmt: skip
OPTIONS: tuple[Any, ...] = (
    *({"unknown": 1}, {"epsilon": 2.0}, {"delta": 0.1}, {"n_features": 9}, {"n_components": 99}, {"adjacency": "x"}),
    *({"calibration": "x"}, {"calibration": 7}, {"calibration": []}, {"calibration": "paper"}, {"accept_inexact": "x"}),
    *({"share": 0.5}, {"share": -1}, {"share": "x"}, {"share": 1e-300}, {"allow_unsound": "x"}),
    *({"updates": 0}, {"updates": "x"}, {"updates": 10**30}, {"updates": 1.5}, {"method": "x"}, {"method": []}),
    *({"eigenvalue_share": 0}, {"eigenvalue_share": 2}, {"eigenvalue_share": "x"}, {"eigenvalue_share": math.nan}),
    *({1: 2}, {"": 1}, {"self": 1}, [("epsilon", 1)], "x", 7, [1], {"calibration": None}, {"share": None}),
    *({"eigenvalue_share": 1e-300}, {"eigenvalue_share": 1e-12}, {"accept_inexact": True, "calibration": "paper"}),
)  # fmt: skip
SIZES = (5e-324, 1e-300, 1e-155, 1e-100, 1e-59, 1e-30, 1e-12, 1e-4, 40.0, 1e4, 1e12, 1e30, 1e59, 1e100, 1e155, 1e300)
SCHEMAS = tuple(scales(first, 1.0, *more) for first in SIZES for more in ((first,), (1.0,), ()))
# Those that reach deepest.
OFTEN = ("epsilon", "delta", "norm_bound", "bounds", "schema", "mechanism_options", "n_components", "alpha", "penalty")
OFTEN += ("tol", "max_iter", "trace_share", "rank", "screen")
SENSIBLE: dict[str, tuple[Any, ...]] = {
    "epsilon": (0.1, 1.0, 5.0),
    "delta": (0.0, 0.0, 1e-9),
    "n_components": (1, 2, None),
    "statistic": ("auto", "clipped", "normalized", "spatial_sign", "kendall"),
    "center": (True, False),
    "fit_intercept": (True, False),
    "whiten": (False, False, True),
    "standardize": (False, False, True),
    "norm_bound": (None, 1.0, 3.0),
    "adjacency": ("replace_one", "add_or_remove_one"),
    "unit_weight": ("equal", "by_rows"),
    "row_norms": ("any", "unit"),
    "stages": ("auto", 1, 2),
    "target": (0, 2),
}


def _pick(generator: np.random.Generator, choices: Any) -> Any:
    return choices[int(generator.integers(len(choices)))]


def _odd(name: str, generator: np.random.Generator) -> Any:
    special = {"bounds": BOUNDS, "mechanism_options": OPTIONS, "schema": SCHEMAS}.get(name)
    if special is not None and generator.integers(4):
        return _pick(generator, special)
    if name in OFTEN and generator.integers(2):
        return _pick(generator, SIZES)
    return _pick(generator, NUMBERS if generator.integers(3) else OTHERS)


def odd_estimator(seed: int) -> tuple[str, Any, Callable[[], Any]]:
    """Return what is odd about an estimator, the estimator, and its fit."""
    generator = np.random.default_rng([4, seed])
    kind = _pick(generator, ESTIMATORS)
    known = [name for name in inspect.signature(kind).parameters if name not in ("ledger", "random_state")]
    mechanisms = LOCAL_MECHANISMS if kind in (LocalPCA, LocalSparsePCA) else MECHANISMS
    options: dict[str, Any] = {"norm_bound": 3.0} if "norm_bound" in known else {"bounds": (-3.0, 3.0)}
    if "target" in known:
        options["target"] = 0
    for name, values in SENSIBLE.items():
        if name in known and generator.random() < 0.25:
            options[name] = _pick(generator, values)
    if generator.random() < 0.6:
        options["mechanism"] = _pick(generator, list(mechanisms))
        if mechanisms[options["mechanism"]].needs_delta:
            options["delta"] = 1e-9
        if "mechanism_options" in known and generator.random() < 0.7:
            options["mechanism_options"] = {"accept_inexact": True}
    odd = {}
    for _ in range(1 + int(generator.random() < 0.3)):
        name = _pick(generator, [name for name in known for _ in range(8 if name in OFTEN else 1)])
        odd[name] = _odd(name, generator)
        if isinstance(odd[name], dict) and name == "mechanism_options" and "mechanism" in options:
            odd[name] = {"accept_inexact": True, **odd[name]}
    told = f"{kind.__name__}({options | odd})"
    if generator.random() < 0.1 and kind not in (LocalPCA, LocalSparsePCA):
        odd_rows = _odd("rows", generator)
        return f"{told}.plan({odd_rows!r})", kind(**options | odd), lambda: kind(**options | odd).plan(odd_rows)
    model = kind(**options | odd)
    return told, model, lambda: model.fit(ROWS)


READ = ("explained_variance_", "explained_variance_interval_", "covariance_", "correlation_", "mean_", "above_noise_")


def tried(seed):
    """Return whether a fit with odd parameters works."""
    paid, pay = [], gate.pay

    def noted(*args):
        paid.append(True)
        return pay(*args)

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of noise, and of numbers far beyond any table
        patch.setattr(gate, "pay", noted)
        told, model, fit = odd_estimator(seed)
        try:
            fit()
            for name in READ:
                getattr(model, name, None)
        except EigenveilError as error:
            assert_one_sentence(error)
            assert not paid, f"seed {seed} spent and raised: {told}"
            return False
        except Exception as error:
            raise AssertionError(f"seed {seed}: {told}") from error
    return True


@pytest.mark.parametrize(
    "seeds",
    [
        range(240),
        *(pytest.param(range(start, start + 400), marks=pytest.mark.heavy) for start in range(1000, 81_000, 400)),
    ],
    ids=str,
)
def test_a_fit_works_or_is_refused_before_the_spend(seeds):
    assert set(map(tried, seeds)) == {True, False}


@pytest.mark.parametrize(
    "options",
    [
        *({"norm_bound": 1e250}, {"norm_bound": 1e-320}, {"epsilon": 1e300}, {"epsilon": 1e-300}, {"delta": 1e-320}),
        *({"bounds": (-1e300, 1e300), "norm_bound": None}, {"schema": scales(1e-320, 1.0, 1.0)}, {"schema": "x"}),
        *({"mechanism_options": {"unknown": 1}}, {"mechanism_options": {"epsilon": 2.0}}, {"mechanism_options": [1]}),
        *({"mechanism_options": {1: 2}}, {"mechanism": "laplace", "epsilon": 1e100}, {"adjacency": np.ones((2, 2))}),
    ],
)
def test_what_was_found_stays_refused(options, tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "ledger", epsilon=10.0, data_set="rows")
    with refused(InvalidParameterError):
        PrivateCovariance(**{"norm_bound": 1.0, "ledger": ledger, **options}).fit(ROWS)
    assert ledger.entries() == []


# The degrees of freedom of a Wishart distribution take a while to find.
@pytest.mark.parametrize(
    "mechanism", [pytest.param(name, marks=pytest.mark.heavy) if name == "wishart" else name for name in MECHANISMS]
)
def test_a_mechanism_is_made_or_refused(mechanism):
    """One parameter at a time, over all that is odd."""
    good = {"epsilon": 1.0, "n_features": 4, "delta": 1e-6 if MECHANISMS[mechanism].needs_delta else 0.0}
    names = ("epsilon", "delta", "n_features", "n_components", "adjacency", "calibration", "accept_inexact")
    names += ("share", "updates", "method", "eigenvalue_share", "allow_unsound")
    made = 0
    for name, value in itertools.product(names, (*NUMBERS[::3], *OTHERS[::3], *SIZES[::3])):
        fixed = {**good, name: value} if name in (*good, "n_components", "adjacency") else good
        options = None if fixed is not good else {name: value}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = mechanism_with(mechanism, options, **fixed)
                found.guarantee()
                json.dumps(found.parameters())
                found.check_grid(2**32)
            made += 1
        except EigenveilError as error:
            assert_one_sentence(error)
    assert made


@pytest.mark.parametrize("mechanism", LOCAL_MECHANISMS)
def test_a_local_mechanism_is_made_or_refused(mechanism):
    good = {
        "mechanism": mechanism,
        "epsilon": 1.0,
        "n_features": 4,
        "delta": 1e-6 if LOCAL_MECHANISMS[mechanism].needs_delta else 0.0,
    }
    for name in ("mechanism", "epsilon", "delta", "n_features", "row_norms", "trace_share", "rank"):
        for value in (*NUMBERS, *OTHERS, *SIZES):
            if name == "n_features" and isinstance(value, int) and value > 100:
                continue  # may be made, and takes its time
            try:
                local_mechanism_from({**good, name: value}).guarantee()
            except EigenveilError as error:
                assert_one_sentence(error)


def test_control_a_raw_error_is_noticed(monkeypatch):
    def broken(self, X):
        raise ZeroDivisionError

    monkeypatch.setattr(PrivatePCA, "fit", broken)
    monkeypatch.setitem(globals(), "ESTIMATORS", (PrivatePCA,))
    with pytest.raises(AssertionError, match="seed"):
        list(map(tried, range(20)))
