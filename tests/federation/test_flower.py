"""A round inside Flower's simulation: the same bits as a round by files, and what happens where a site refuses."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from eigenveil import PrivateCovariance, Schema, load_release
from eigenveil.federation import SiteKeys, combine, contribute, invite
from made_rounds import needs_cryptography

needs_cryptography()
pytest.importorskip("flwr", reason="Flower is an extra: flower")
pytest.importorskip("ray", reason="Flower's simulation needs ray")
pytestmark = pytest.mark.heavy  # a simulation starts several processes

SITES = ("north", "south", "east")
ROUND = """
import json, sys
import numpy as np
from flwr.simulation import run_simulation
from eigenveil import PrivateCovariance, Schema
from eigenveil.federation import invite
from eigenveil.interop.flower import client_app, server_app

SITES = ("north", "south", "east")
folder, refusing = sys.argv[1], sys.argv[2]
schema = Schema.from_dict(json.loads(open(folder + "/schema.json").read()))


def place(context):
    return int(context.node_config["partition-id"])


def confirmed(agreed):
    return agreed.sites == SITES and refusing != "all"


client = client_app(
    lambda context: SITES[place(context)],
    lambda context: f"{folder}/{SITES[place(context)]}.csv",
    folder=folder + "/keys",
    confirm=confirmed,
    generator=lambda context: np.random.default_rng(place(context)),
)
draft = invite(PrivateCovariance(epsilon=1.0, delta=1e-6, schema=schema), list(SITES))
resources = {"client_resources": {"num_cpus": 1}, "init_args": {"num_cpus": 2, "include_dashboard": False}}
if __name__ == "__main__":
    server = server_app(draft, folder + "/release.npz", timeout=300)
    run_simulation(server, client, num_supernodes=3, backend_config=resources)
"""


@pytest.fixture
def sites(tmp_path):
    columns = {name: {"range": [-4.0, 4.0]} for name in ("a", "b", "c")}
    (tmp_path / "schema.json").write_text(json.dumps({"version": 1, "columns": columns}))
    for place, site in enumerate(SITES):
        rows = np.random.default_rng(10 + place).normal(size=(200, 3))
        np.savetxt(tmp_path / f"{site}.csv", rows, "%.6f", ",", header="a,b,c", comments="")
    return tmp_path


def simulated(folder, refusing="none"):
    script = folder / "round.py"
    script.write_text(ROUND)
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "FLWR_HOME": str(folder / "flower")}
    command = [sys.executable, str(script), str(folder), refusing]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **quiet}, check=False, cwd=folder)


def by_files(folder):
    """The same round by files: the same rows, and the same noise."""
    schema = Schema.from_dict(json.loads((folder / "schema.json").read_text()))
    draft = invite(PrivateCovariance(epsilon=1.0, delta=1e-6, schema=schema), list(SITES))
    keys = {site: SiteKeys.create(site, draft.terms) for site in SITES}
    joined = [own.join(draft) for own in keys.values()]
    agreed, files = joined[0].close(joined[1:]), []
    for place, (site, own) in enumerate(keys.items()):
        own.save(folder / f"{site}.key")
        output, seeded = folder / f"{site}.contribution", np.random.default_rng(place)
        files.append(contribute(agreed, folder / f"{site}.key", folder / f"{site}.csv", output, generator=seeded))
    return combine(agreed, files)


def test_a_round_in_flower_is_a_round_by_files_to_the_bit(sites):
    done = simulated(sites)
    assert Path(sites, "release.npz").exists(), done.stderr[-3000:]
    release, expected = load_release(sites / "release.npz"), by_files(sites)
    assert release.integers.keys() == expected.integers.keys()
    for name, value in release.integers.items():
        assert np.array_equal(value, expected.integers[name])
    assert release.guarantee == expected.guarantee
    assert release.origin.collection.sites == SITES
    used = sorted(path.name for path in (sites / "keys").glob("*.key*"))
    assert len(used) == 3
    assert all(name.endswith(".used") for name in used)


def test_sites_that_do_not_confirm_spend_nothing_and_there_is_no_release(sites):
    done = simulated(sites, "all")
    assert not (sites / "release.npz").exists()
    assert "Contributions are missing" in done.stderr + done.stdout
    assert not list((sites / "keys").glob("*.contribution"))
    assert len(list((sites / "keys").glob("*.key"))) == 3
