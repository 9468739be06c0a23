"""The table of local mechanisms: facts that each declares, and what each says of sums."""

import numpy as np
import pytest

from eigenveil.errors import InvalidParameterError
from eigenveil.guarantee import Numerics
from eigenveil.local import LocalProtocol, mechanism_of
from eigenveil.local.simulation import simulated_totals
from eigenveil.mechanisms import Mechanism
from eigenveil.mechanisms.local import LOCAL_MECHANISMS, LocalMechanism, local_mechanism_from
from helpers import refused

ALL = {name: (1e-6 if kind.needs_delta else 0.0) for name, kind in LOCAL_MECHANISMS.items()}


def protocol_for(mechanism: str, **more) -> LocalProtocol:
    return LocalProtocol(5, 2.0, ALL[mechanism], mechanism=mechanism, **more)


@pytest.mark.parametrize("name", LOCAL_MECHANISMS)
def test_every_mechanism_declares_its_facts(name):
    kind = LOCAL_MECHANISMS[name]
    assert issubclass(kind, LocalMechanism)
    assert issubclass(kind, Mechanism)
    assert kind.name == name
    assert kind.releases == "matrix"
    assert isinstance(kind.numerics, Numerics)
    assert kind.numerics == mechanism_of(protocol_for(name)).guarantee().numerics
    assert not kind.adds_noise
    for text in (kind.source, kind.use_when):
        assert 0 < len(text) < 100
    assert kind.privacy() == ("(epsilon, delta)" if kind.needs_delta else "epsilon")
    assert "Formal guarantee" in (kind.__doc__ or "")


@pytest.mark.parametrize("name", LOCAL_MECHANISMS)
@pytest.mark.parametrize("row_norms", ["any", "unit"])
def test_a_mechanism_comes_back_from_its_parameters_and_from_a_protocol(name, row_norms):
    protocol = protocol_for(name, row_norms=row_norms, norm_bound=3.0, shift=[0.1] * 5, purpose="trial")
    mechanism = mechanism_of(protocol)
    for again in (local_mechanism_from(mechanism.parameters()), local_mechanism_from(protocol.to_dict())):
        assert type(again) is type(mechanism)
        assert again.parameters() == mechanism.parameters()
        assert again.guarantee() == mechanism.guarantee()
        assert again.off_diagonal_sd == mechanism.off_diagonal_sd
    assert name in mechanism.parameters().values()


@pytest.mark.parametrize(
    "parameters",
    [{}, {"mechanism": "laplace"}, {"mechanism": None}, {"mechanism": "gaussian"}, {"mechanism": ["one_bit"]}],
)
def test_an_unknown_distribution_is_refused(parameters):
    with refused(InvalidParameterError):
        local_mechanism_from({"n_features": 5, "epsilon": 1.0, **parameters})


@pytest.mark.parametrize("name", LOCAL_MECHANISMS)
def test_second_moment_of_released_values(name):
    protocol = protocol_for(name)
    mechanism, generator = mechanism_of(protocol), np.random.default_rng(0)
    totals = simulated_totals(protocol, generator.standard_normal((400, 5)), generator)
    values = {"sums": totals.sums.astype(float), "ones": np.array(float(totals.ones))}
    moment = mechanism.second_moment(values, 400)
    assert np.array_equal(moment, mechanism.estimate(totals))
    assert mechanism.noise_sd(400) == pytest.approx(mechanism.off_diagonal_sd / 20)
    assert mechanism.directions(values) is mechanism.variances(values, 400) is None


def test_privacy_curves():
    for name in LOCAL_MECHANISMS:
        mechanism = mechanism_of(protocol_for(name))
        stated = mechanism.guarantee()
        assert mechanism.epsilon_at(stated.delta) <= stated.epsilon
        assert mechanism.epsilon_at(1e-3) < stated.epsilon
    # The paper's noise has no finite epsilon without a delta, and more at a smaller one, by its exact curve.
    paper = mechanism_of(protocol_for("gaussian_paper"))
    assert paper.epsilon_at(0.0) == np.inf
    assert np.isfinite(paper.epsilon_at(1e-9))
    assert paper.epsilon_at(1e-9) > paper.guarantee().epsilon
