"""Seeded releases are what they were, to the bit: `tools/oracle.py` has the rest."""

import numpy as np
import pytest

import oracle

# Every mechanism, statistic, adjacency, privacy unit, estimator and model, and most kinds of sources.
QUICK = [
    "PrivateCovariance/bounds/add_or_remove_one/delta",
    "PrivateRidge/bounds/replace_one/pure",
    "PrivateScaler/bounds/replace_one/delta",
    "PrivateSparsePCA/bounds/replace_one/pure",
    "covariance/ranges/replace_one/pure",
    "federation/gaussian/replace_one/1",
    "federation/matrix_laplace/add_or_remove_one/1",
    "gate/eigenvector_sampling/tight/replace_one/2",
    "gate/frobenius/tight/add_or_remove_one/2",
    "gate/gaussian/paper/replace_one/2",
    "gate/gaussian/traced/add_or_remove_one/2",
    "gate/laplace/paper/replace_one/2",
    "gate/matrix_laplace/balanced/add_or_remove_one/2",
    "gate/none/None/replace_one/2",
    "gate/ppca/tight/replace_one/1",
    "gate/random_projection/None/replace_one/2",
    "local/pca/double_cap/any",
    "local/pca/gaussian_paper/unit",
    "local/reports/gaussian/any",
    "local/reports/one_bit/unit",
    "pca/auto/add_or_remove_one/pure/origin",
    "pca/bounds/replace_one/delta/centred",
    "pca/components/above_noise",
    "pca/components/share/delta",
    "pca/kendall/replace_one/pure/centred",
    "pca/mod_sulq/paper/replace_one",
    "pca/normalized/replace_one/pure/origin",
    "pca/ranges/standardized/replace_one/delta",
    "pca/standardized/norm_found/pure",
    "pca/wishart/tight/add_or_remove_one",
    "refused/unit_weight",
    "refused/unsound",
    "schema/pca/csv",
    "score_map/groups",
    "source/csr/bounds",
    "source/float32/auto",
    "source/in_parts/pandas/spatial_sign/pure",
    "source/parquet/bounds",
    "source/polars/auto",
    "stages/2/centred/PrivatePCA",
    "unit/beside",
    "unit/by_rows/replace_one/delta/norm_found",
    "unit/equal/add_or_remove_one/pure/bounds",
    "weighted/bounds/delta",
]
FROZEN = oracle.read_frozen()


def check(name):
    configuration = oracle.CONFIGURATIONS[name]
    for needed in oracle.configurations.packages(configuration):
        pytest.importorskip(needed, reason="the configuration needs an extra")
    assert oracle.difference(FROZEN[name], oracle.recorded(configuration)) is None


@pytest.mark.parametrize("name", QUICK)
def test_what_is_released_is_what_was(name):
    check(name)


@pytest.mark.heavy
@pytest.mark.parametrize("name", sorted(oracle.CONFIGURATIONS.keys() - set(QUICK)))
def test_what_is_released_is_what_was_in_all_other_configurations(name):
    check(name)


@pytest.mark.heavy
@pytest.mark.parametrize("name", oracle.said.NAMES)
def test_what_surfaces_say_is_what_they_said(name):
    for needed in oracle.configurations.packages(oracle.CONFIGURATIONS[name]):
        pytest.importorskip(needed, reason="the configuration needs an extra")
    assert oracle.difference_of_surfaces(name) is None


def test_every_configuration_is_frozen_and_every_frozen_one_is_run():
    assert oracle.CONFIGURATIONS.keys() == FROZEN.keys()
    assert set(QUICK) <= oracle.CONFIGURATIONS.keys()


def test_a_difference_is_found_in_any_fact():
    name = "pca/bounds/replace_one/delta/centred"
    facts = FROZEN[name]
    assert oracle.difference(facts, facts) is None
    text = {**facts["text"], "unit": {**facts["text"]["unit"], "matrix": facts["text"]["unit"]["matrix"] * 2}}
    assert oracle.difference(facts, {**facts, "text": text}).startswith("text.unit.matrix: ")
    views = {**facts["views"], "mean": [number * (1 + 1e-9) for number in facts["views"]["mean"]]}
    assert oracle.difference(facts, {**facts, "views": views}) is None
    views["mean"] = [number * 1.01 for number in facts["views"]["mean"]]
    assert oracle.difference(facts, {**facts, "views": views}).startswith("views.mean: ")
    assert oracle.difference(facts, {"refused": "InvalidDataError"}) == "canonical: gone"


@pytest.mark.parametrize(("factor", "same"), [(1 + 4e-16, True), (1 + 1e-6, False)])
def test_numbers_computed_from_a_release_may_differ_in_their_last_digits(factor, same):
    facts = FROZEN["score_map/groups"]
    for name in ("factor", "unit"):
        grid = facts["text"]["grid"]
        grid = {**grid, name: (np.array(grid[name]) * factor).tolist()}
        told = oracle.difference(facts, {**facts, "text": {**facts["text"], "grid": grid}})
        assert (told is None) is same


def test_a_renaming_changes_names_and_nothing_else():
    facts = {
        "origin": {"rows": {"rows": "clip", "n": 3}, "gone": 1, "mechanism": "clip"},
        "made": ["clip", "other"],
    }
    keys = {"origin.rows": "rule", "rows.rows": "statistic", "gone": None}
    values = {"rows.rows": {"clip": "clipped"}, "made": {"other": "another"}}
    assert oracle.translated(facts, keys, values) == {
        "origin": {"rule": {"statistic": "clipped", "n": 3}, "mechanism": "clip"},
        "made": ["clip", "another"],
    }
    assert oracle.translated(FROZEN, {}, {}) == FROZEN
