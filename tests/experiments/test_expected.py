"""Every experiment, at its quick size, gives what its expected.json says."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(path.parent.name for path in (ROOT / "experiments").glob("*/expected.json"))


# The slowest of them is left to the long run.
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.heavy) if name == "jiang2016" else name for name in NAMES]
)
def test_a_rerun_gives_what_is_expected(name, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from experiments import common, expected

    if sentence := common.missing_data(name):
        pytest.skip(sentence)
    results = common.run(name, quick=True, cache=tmp_path)
    assert expected.disagreements(common.experiment(name).findings(results), expected.load_expected(name)) == []
    pytest.importorskip("matplotlib", reason="sections draw figures")
    text = common.experiment(name).section(results, tmp_path / "images")
    assert text
    assert not re.search(r"\bnan\b", text)
