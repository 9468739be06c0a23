"""Adjacency, Numerics and Guarantee: a record of public numbers that survives files and other accountants."""

import copy
import dataclasses
import json
import math
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigenveil.accounting import compose
from eigenveil.errors import InvalidParameterError
from eigenveil.guarantee import (
    ORDER_ASSUMPTION,
    Adjacency,
    Assumption,
    Guarantee,
    Numerics,
    Unit,
)
from helpers import refused


@pytest.mark.parametrize("value", ["Replace", "add-remove", "", None, 1, b"replace", ["replace"]])
def test_unknown_relations_are_refused_by_name(value):
    with refused(InvalidParameterError) as info:
        Adjacency.parse(value)
    assert repr(value) in str(info.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"epsilon": -0.1},
        {"epsilon": math.nan},
        {"epsilon": -math.inf},
        {"epsilon": 1.0, "delta": -1e-9},
        {"epsilon": 1.0, "delta": 1.0},
        {"epsilon": 1.0, "delta": math.nan},
        {"epsilon": 1.0, "rho": -0.1},
        {"epsilon": 1.0, "rho": math.nan},
        {"epsilon": 1.0, "rho": math.inf},
        {"epsilon": 1.0, "mu": -0.1},
    ],
)
def test_numbers_that_are_no_privacy_parameters_are_refused(fields):
    with refused(InvalidParameterError):
        Guarantee(**fields)


number = st.floats(0, 1e6)
leaf = st.builds(
    Guarantee,
    epsilon=number | st.just(math.inf),
    delta=st.floats(0, 1, exclude_max=True),
    adjacency=st.sampled_from(Adjacency),
    numerics=st.sampled_from(Numerics),
    rho=st.none() | number,
    mu=st.none() | number,
    assumptions=st.lists(st.text() | st.builds(Assumption, st.text(), st.text()), max_size=3).map(tuple),
    claimed=st.none() | st.tuples(number, number),
    reproducible=st.booleans(),
    unit=st.sampled_from(Unit),
)
nested = st.builds(Guarantee, epsilon=number, parts=st.lists(leaf, max_size=3).map(tuple))


def test_an_assumption_is_its_sentence_and_keeps_its_short_form_in_copies():
    for again in (copy.deepcopy(ORDER_ASSUMPTION), pickle.loads(pickle.dumps(ORDER_ASSUMPTION))):
        assert again == str(ORDER_ASSUMPTION)
        assert again.short == ORDER_ASSUMPTION.short


def test_mu_is_known_of_gaussian_parts_alone():
    gaussian = Guarantee(1.0, 1e-6, rho=0.045, mu=0.3)
    assert compose([gaussian]).mu == 0.3
    assert compose([gaussian, Guarantee(1.0, 1e-6, rho=0.08, mu=0.4)]).mu == pytest.approx(0.5)
    assert compose([gaussian, Guarantee(0.1)]).mu is None
    assert compose([Guarantee(0.1)], delta=1e-6).mu is None


@settings(max_examples=100)
@given(leaf | nested)
def test_a_guarantee_survives_json(guarantee):
    text = json.dumps(guarantee.to_dict(), allow_nan=False)
    again = Guarantee.from_dict(json.loads(text))
    assert again == guarantee
    assert str(again) == str(guarantee)


def test_a_guarantee_is_frozen_and_its_changes_are_copies():
    plain = Guarantee(1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        plain.epsilon = 0.1
    noted = plain.with_assumption("Read this.").with_assumption("And this.")
    assert noted.assumptions == ("Read this.", "And this.")
    assert plain.assumptions == ()
    marked = noted.marked_reproducible()
    assert marked.reproducible
    assert not noted.reproducible
    assert marked.assumptions == noted.assumptions


def test_the_text_says_what_is_promised():
    assert str(Guarantee(0.5)) == "0.5-DP (pure), replace-one adjacency, unit: one row; idealized sampling"
    text = str(Guarantee(0.5, 1e-6, Adjacency.ADD_OR_REMOVE_ONE, Numerics.EXACT))
    assert text == "(0.5, 1e-06)-DP, add-or-remove-one adjacency, unit: one row; exact sampling"
    gaussian = Guarantee(1.0, 1e-6, numerics=Numerics.EXACT, rho=0.01838, mu=0.19174, unit=Unit.PERSON)
    assert str(gaussian) == (
        "(1, 1e-06)-DP, rho = 0.0184, mu = 0.192, replace-one adjacency, unit: all rows of one privacy unit; exact "
        "sampling"
    )
    ordered = Guarantee(1.0, numerics=Numerics.EXACT).of_compared_units()
    assert str(ordered) == (
        "1-DP (pure), replace-one adjacency, unit: one row; assumes row order independent of values; exact sampling"
    )
    assert "; weak (epsilon > 10);" in str(Guarantee(50.0))
    foreign = Guarantee(1.0).with_assumption("Rows are public.").with_assumption("Columns too.")
    assert str(foreign) == "1-DP (pure), replace-one adjacency, unit: one row; see assumptions; idealized sampling"
    assert str(Guarantee(math.inf)) == "not private"
    assert str(Guarantee(0.5).marked_reproducible()).startswith("NOT PRIVATE")


def test_a_guarantee_lists_its_mechanisms():
    one, other = Guarantee(0.3), Guarantee(0.4, 1e-6, rho=0.01, mu=0.14)
    assert one.mechanisms == (one,)
    assert compose([compose([one, other]), one]).mechanisms == (one, other, one)
