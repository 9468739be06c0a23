"""expected.json: what a rerun of the quick size must give, with error bars from runs with other seeds."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .common import CACHE, HERE, experiment, run

# A rerun may differ by this many standard deviations of one run: far beyond chance for a mean of a few draws.
SPREADS = 6
LOOSE = 0.2
"""A tolerance of more than this share of its value has its "reason" beside it; a rerun of `write_expected` keeps it."""

Expected = dict[str, dict[str, Any]]


def load_expected(name: str, without: Sequence[str] = ()) -> Expected:
    """Return the expected findings of an experiment, but for those that name a data set which is not here."""
    loaded: Expected = json.loads((HERE / name / "expected.json").read_text())
    return {key: value for key, value in loaded.items() if not any(data in key for data in without)}


def write_expected(name: str, replications: int, *, cache: Path = CACHE, fresh: bool = False) -> None:
    """Run the quick size with seeds other than the default ones, and write the mean and the spread of its findings."""
    found = [
        experiment(name).findings(run(name, quick=True, entropy=entropy, cache=cache, fresh=fresh))
        for entropy in range(1, replications + 1)
    ]
    path, expected = HERE / name / "expected.json", {}
    earlier: Expected = json.loads(path.read_text()) if path.exists() else {}
    for key in found[0]:
        values = np.array([one[key] for one in found])
        # The last term is for findings without noise, whose rounding may differ between machines.
        bar = SPREADS * values.std(ddof=1) * (1 + 1 / replications) ** 0.5 + 1e-6 * abs(values.mean())
        expected[key] = {"value": float(f"{values.mean():.9g}"), "tolerance": float(f"{bar:.3g}")}
        if "reason" in earlier.get(key, {}):
            expected[key]["reason"] = earlier[key]["reason"]
    path.write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")


def disagreements(found: Mapping[str, float], expected: Expected) -> list[str]:
    """Return a sentence for every finding that is missing, new, or outside its error bar."""
    wrong = [f"{key} is only in one of the two." for key in sorted(set(found) ^ set(expected))]
    for key in sorted(set(found) & set(expected)):
        value, bar = expected[key]["value"], expected[key]["tolerance"]
        if not abs(found[key] - value) <= bar:
            wrong.append(f"{key} is {found[key]:.6g}, expected {value:.6g} ± {bar:.3g}.")
    return wrong
