"""The secure generator: never the same stream twice, and the right mechanisms; the seeded one: always the same."""

import copy
import os
import pickle

import numpy as np
import pytest
import scipy.stats

from eigenveil.errors import InvalidParameterError
from eigenveil.sampling.randomness import (
    SecureGenerator,
    generator_from,
    is_secure,
    secure_generator,
    seeded_generator,
)
from helpers import in_child, refused
from statistical.constants import ALPHA, PERTURB, N

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


def draws(generator):
    """Numbers of every width: 64-bit words, buffered halves of words, and the floats made of them."""
    return (
        generator.integers(0, 2**63, size=8).tolist()
        + generator.integers(0, 2**32, size=7, dtype=np.uint32).tolist()
        + generator.random(5).tolist()
        + generator.random(5, dtype=np.float32).tolist()
        + generator.normal(size=5).tolist()
    )


def streams_after_fork(generator):
    """What a parent and two children draw from one generator after two forks."""
    generator.random(3, dtype=np.float32)  # an odd number of half words: one is left in the buffer
    first = in_child(lambda: draws(generator))
    second = in_child(lambda: draws(generator))
    return draws(generator), first, second


def repeats(streams):
    """Whether any two streams share a number at the same place (by chance: below 1e-5 for one half word)."""
    pairs = [(a, b) for i, a in enumerate(streams) for b in streams[i + 1 :]]
    return any(sum(x == y for x, y in zip(a, b, strict=True)) > 2 for a, b in pairs)


def test_spawned_and_rekeyed_streams_differ():
    generator = secure_generator()
    children = generator.spawn(3)
    assert all(is_secure(child) for child in children)
    streams = [draws(child) for child in children] + [draws(generator)]
    generator.rekey()
    assert not repeats([*streams, draws(generator)])


def test_a_fork_never_repeats_the_stream():
    assert not repeats(streams_after_fork(secure_generator()))


def test_control_a_plain_generator_does_repeat_after_a_fork():
    parent, first, second = streams_after_fork(np.random.default_rng())
    assert parent == first == second
    assert repeats([parent, first, second])


def test_a_grandchild_and_a_method_taken_before_the_fork_do_not_repeat():
    generator = secure_generator()
    method = generator.random
    grandchild = in_child(lambda: in_child(lambda: method(8).tolist()))
    child = in_child(lambda: method(8).tolist())
    assert not repeats([method(8).tolist(), child, grandchild])


@pytest.mark.parametrize("protocol", [0, pickle.HIGHEST_PROTOCOL])
def test_a_secure_generator_cannot_be_pickled(protocol):
    with refused(TypeError):
        pickle.dumps(secure_generator(), protocol)


@pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy, lambda g: copy.deepcopy({"inside": [g]})])
def test_a_secure_generator_cannot_be_copied(copier):
    with refused(TypeError):
        copier(secure_generator())


def test_a_seed_always_gives_the_same_stream():
    assert draws(seeded_generator(7)) == draws(seeded_generator(7))
    assert draws(seeded_generator(7)) != draws(seeded_generator(8))
    assert not is_secure(seeded_generator(7))


def test_secure_draws_have_their_distribution_and_a_change_of_scale_is_seen():
    sample = secure_generator().random(N)
    assert scipy.stats.kstest(sample, "uniform").pvalue > ALPHA
    assert scipy.stats.kstest(sample * (1 - PERTURB), "uniform").pvalue < ALPHA


def serial_z(sample):
    """The standard score of the correlation of neighbours in the stream."""
    return np.corrcoef(sample[:-1], sample[1:])[0, 1] * np.sqrt(len(sample) - 1)


def test_neighbours_in_the_stream_are_uncorrelated():
    limit = scipy.stats.norm.isf(ALPHA / 2)
    sample = secure_generator().normal(size=N)
    assert abs(serial_z(sample)) < limit
    # The control: every draw used twice, as a careless buffer would.
    assert abs(serial_z(np.repeat(sample[: N // 2], 2))) > limit


def test_no_random_state_is_secure_and_any_given_one_is_not():
    assert isinstance(generator_from(None), SecureGenerator)
    assert is_secure(generator_from(None))
    assert draws(generator_from(5)) == draws(seeded_generator(5))
    assert draws(generator_from(np.int64(5))) == draws(seeded_generator(5))
    assert not is_secure(generator_from(0))
    plain = np.random.default_rng(1)
    assert generator_from(plain) is plain
    secure = secure_generator()
    assert generator_from(secure) is secure


def test_the_random_state_of_scikit_learn_is_a_seed():
    first, second = (generator_from(np.random.RandomState(3)) for _ in range(2))
    assert draws(first) == draws(second)
    assert not is_secure(first)
    state = np.random.RandomState(3)
    assert draws(generator_from(state)) != draws(generator_from(state))


@pytest.mark.parametrize("value", [-1, True, 1.5, "5"])
def test_other_random_states_are_refused(value):
    with refused(InvalidParameterError):
        generator_from(value)
