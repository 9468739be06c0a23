"""Whatever the parameters are: a fit works, or it is refused in one sentence and nothing was spent."""

import itertools
import json
import os
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

from eigenveil import PrivacyLedger, PrivateCovariance, PrivatePCA, gate
from eigenveil.cli import app
from eigenveil.errors import EigenveilError, EngineError, InvalidParameterError
from eigenveil.mechanisms import MECHANISMS, mechanism_with
from eigenveil.mechanisms.local import LOCAL_MECHANISMS, local_mechanism_from
from helpers import assert_one_sentence, refused, scales
from odd_parameters import NUMBERS, OTHERS, ROWS, SIZES, odd_estimator

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


ODD_PARAMETERS = "odd parameters of a fit"


@pytest.mark.parametrize("part", range(4))
def test_a_fit_works_or_is_refused_before_the_spend(part, campaign):
    assert {*campaign(ODD_PARAMETERS, tried, range(60 * part, 60 * part + 60))} == {True, False}


@pytest.mark.heavy
@pytest.mark.parametrize("part", range(200))
def test_a_fit_works_or_is_refused_before_the_spend_in_tens_of_thousands(part, campaign):
    campaign(ODD_PARAMETERS, tried, range(1000 + 400 * part, 1400 + 400 * part))


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


def test_a_regression_without_noise_to_speak_of_is_delivered():
    from eigenveil import PrivateRidge

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # noise that vanishes has no shape
        model = PrivateRidge(target=0, epsilon=1e12, norm_bound=3.0, mechanism="laplace").fit(ROWS)
    assert np.isfinite(model.coef_).all()


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


# Commands.

ODD = ("0", "nan", "1e300", "9" * 30)
MORE_ODD = ("-1", "inf", "1e-300", "x", "")
FIT = ("--epsilon", "1", "--norm-bound", "3", "--yes", "--quiet", "--output", "OUT")
COMMANDS = {
    "plan": ("plan", "--rows", "1000", "--features", "3", "-k", "1", "--epsilon", "1", "--repeats", "1", "--quiet"),
    "pca": ("pca", "DATA", "-k", "1", *FIT),
    "covariance": ("covariance", "DATA", *FIT),
    "ridge": ("ridge", "DATA", "--target", "a", *FIT),
    "sparse-pca": ("sparse-pca", "DATA", "-k", "1", *FIT),
    "local params": ("local", "params", "OUT", "--features", "3", "--epsilon", "1"),
    "ledger create": ("ledger", "create", "OUT", "--epsilon", "1", "--data-set", "rows"),
    "audit": ("audit", "laplace", "--epsilon", "1", "--features", "2", "--draws", "200", "--workers", "1"),
}
OPTIONS = {
    "plan": ("--rows", "--features", "-k", "--epsilon", "--delta", "--energy", "--target-loss", "--spectrum"),
    "pca": ("-k", "--epsilon", "--delta", "--norm-bound", "--bounds", "--mechanism", "--stages"),
    "covariance": ("--epsilon", "--delta", "--bounds"),
    "ridge": ("--target", "--alpha", "--epsilon", "--norm-bound"),
    "sparse-pca": ("-k", "--penalty", "--epsilon"),
    "local params": ("--features", "--epsilon", "--delta", "--norm-bound", "--mechanism"),
    "ledger create": ("--epsilon", "--delta"),
    "audit": (
        "--epsilon",
        "--delta",
        "--features",
        "--components",
        "--at-delta",
        "--draws",
        "--confidence",
        "--workers",
    ),
}


@pytest.mark.parametrize("values", [ODD, pytest.param(MORE_ODD, marks=pytest.mark.heavy)], ids=["some", "more"])
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_end_in_an_exit_code_and_one_sentence(command, values, tmp_path):
    words, options = COMMANDS[command], OPTIONS[command]
    data = tmp_path / "rows.csv"
    data.write_text("a,b,c\n" + "\n".join(",".join(map(str, row)) for row in ROWS) + "\n")
    for number, (option, value) in enumerate(itertools.product(options, values)):
        places = {"DATA": str(data), "OUT": str(tmp_path / f"out{number}")}
        said = [places.get(word, word) for word in words]
        if option in said:
            said[said.index(option) + 1] = value
        else:
            said += [option, value]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = CliRunner().invoke(app, said)
        error = result.exception
        if isinstance(error, EigenveilError):
            assert_one_sentence(error)
            assert not (tmp_path / f"out{number}").exists()
        else:
            assert error is None or (isinstance(error, SystemExit) and error.code in (0, 2, 3)), (option, value, error)


def end_without_a_word(*args):
    os._exit(1)


@pytest.mark.heavy  # processes are started anew
def test_an_audit_whose_processes_end_is_one_sentence(monkeypatch):
    from eigenveil.audit import audit, run

    monkeypatch.setattr(run, "_scores", end_without_a_word)
    with refused(EngineError):
        audit(MECHANISMS["laplace"](epsilon=1.0, n_features=2), draws=4000, block=100, workers=2)


def test_control_a_raw_error_is_noticed(monkeypatch):
    def broken(self, X):
        raise ZeroDivisionError

    monkeypatch.setattr(PrivatePCA, "fit", broken)
    monkeypatch.setattr("odd_parameters.ESTIMATORS", (PrivatePCA,))
    with pytest.raises(AssertionError, match="seed"):
        list(map(tried, range(20)))
