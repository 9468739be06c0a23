"""docs/how_to/federation.md, run as written, with all sites and with one that is missing."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from eigenveil import PrivacyLedger, load_release
from eigenveil.errors import InvalidParameterError
from eigenveil.federation import FederationError
from helpers import invoked
from made_rounds import needs_cryptography

needs_cryptography()

# A reader of small examples is told that the noise hides some of what they ask for.
pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")

GUIDE = (Path(__file__).parents[2] / "docs" / "how_to" / "federation.md").read_text(encoding="utf-8")
SITES = ("north", "south", "east")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, flags=re.DOTALL)


LINES = [line for block in blocks("bash") for line in block.strip().splitlines()]


def line_of(*words):
    """Return a command of the guide, by its first words."""
    found = [line for line in LINES if line.startswith(" ".join(("eigenveil federation", *words)))]
    assert found, words
    return shlex.split(found[0])[1:]


def contributing(site, fingerprint, agreed="round.json", tag=""):
    """Return the guide's command for a site."""
    words = [word.replace("north", site + tag).replace("FINGERPRINT", fingerprint) for word in line_of("contribute")]
    words = [word.replace("round.json", agreed).replace(f"{site}{tag}.ledger", f"{site}.ledger") for word in words]
    return [f"{site}.csv" if word == f"{site}{tag}.csv" else word for word in words]


@pytest.fixture
def hospitals(tmp_path, monkeypatch):
    """Three tables, three ledgers and the schema of the guide, in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.yaml").write_text(blocks("yaml")[0])
    for place, site in enumerate(SITES):
        rows = np.random.default_rng(place).normal([50, 130, 27], [15, 18, 5], (400, 3))
        np.savetxt(f"{site}.csv", rows, "%.1f", ",", header="age,systolic,bmi", comments="")
        PrivacyLedger.create(f"{site}.ledger", epsilon=2.0, delta=1e-5, data_set=site)
    return tmp_path


def spends(site):
    return len(PrivacyLedger(f"{site}.ledger").entries())


def joined(draft, sites, tag=""):
    for line in (line for line in LINES if line.startswith("eigenveil federation join")):
        site = shlex.split(line)[shlex.split(line).index("--site") + 1]
        if site in sites:
            named = [word.replace(f"{site}.", f"{site}{tag}.") for word in shlex.split(line)[1:]]
            invoked(*[draft if word == "draft.json" else word for word in named])


@pytest.fixture
def agreed(hospitals):
    """Return the fingerprint of the round of the guide, which all sites have joined."""
    invoked(*line_of("invite", "--schema"))
    joined("draft.json", SITES)
    invoked(*line_of("close"))
    return json.loads(Path("round.json").read_text())["fingerprint"]


def test_the_guide_runs(agreed):
    for site in SITES:
        invoked(*contributing(site, agreed))
    invoked(*line_of("combine"))
    release = load_release("release.npz")
    assert release.n_rows == 1200
    assert release.guarantee.is_private
    assert len(release.components) == 2
    assert [spends(site) for site in SITES] == [1, 1, 1]


def test_the_round_is_repeated_without_a_site_that_is_missing(agreed):
    for site in ("north", "south"):
        invoked(*contributing(site, agreed))
    missing = [word for word in line_of("combine") if word != "east.contribution"]
    assert "east" in invoked(*missing, fails=FederationError)
    invoked(*line_of("invite", "--again"))
    joined("draft-2.json", ("north", "south"), tag="-2")
    invoked("federation", "close", "north-2.json", "south-2.json", "-o", "round-2.json")
    again = json.loads(Path("round-2.json").read_text())["fingerprint"]
    assert again != agreed
    Path("north.contribution").rename("sent.contribution")
    assert "fresh keys" in invoked(*contributing("north", again, "round-2.json"), fails=FederationError)
    changed = contributing("north", agreed, "round-2.json", tag="-2")
    assert "fingerprint" in invoked(*changed, fails=InvalidParameterError)
    for site in ("north", "south"):
        invoked(*contributing(site, again, "round-2.json", tag="-2"))
    invoked("federation", "combine", "round-2.json", "north-2.contribution", "south-2.contribution", "-o", "two.npz")
    assert load_release("two.npz").n_rows == 800
    assert load_release("two.npz").origin.collection.sites == ("north", "south")
    assert [spends(site) for site in SITES] == [2, 2, 0]


def test_the_python_of_the_guide_runs(hospitals, capsys):
    exec(blocks("python")[0], {})
    assert "-DP (pure)" in capsys.readouterr().out


def test_the_apps_for_flower_of_the_guide_are_made(hospitals):
    pytest.importorskip("flwr", reason="Flower is an extra: flower")
    known = {}
    exec(blocks("python")[0], known)
    exec(blocks("python")[1], known)
    assert type(known["client"]).__name__ == "ClientApp"
    assert type(known["server"]).__name__ == "ServerApp"
