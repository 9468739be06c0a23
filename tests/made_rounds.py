"""Rounds of several sites, made in one process: for the tests of federation."""

import numpy as np
import pytest

from eigenveil import PrivatePCA, Schema
from eigenveil.federation import SiteKeys, contribute, invite

D = 4
GAUSSIAN = {"mechanism": "gaussian", "delta": 1e-6}


def needs_cryptography():
    """Skip a test file where the extra is missing, with the reason."""
    pytest.importorskip("cryptography", reason="rounds of several sites need the package cryptography")


def schema_of(d=D, reach=4.0):
    return Schema.from_dict({"version": 1, "columns": {str(i): {"range": [-reach, reach]} for i in range(d)}})


def drafted(n_sites=3, n_colluding=1, d=D, quorum=None, schema=None, purpose="", **parameters):
    given = {"epsilon": 1.0, "schema": schema or schema_of(d), **parameters}
    names = [f"site {number}" for number in range(n_sites)]
    return invite(PrivatePCA(None, **given), names, n_colluding=n_colluding, quorum=quorum, purpose=purpose)


def joined(draft, folder, sites=None):
    """Return the closed round of some sites, all by default, and the files of their keys by site."""
    copies, keys = [], {}
    for site in sites or draft.terms.invited:
        own = SiteKeys.create(site, draft.terms)
        keys[site] = own.save(folder / f"{site} {draft.fingerprint[:8]}.key")
        copies.append(own.join(draft))
    return copies[0].close(copies[1:]), keys


def site_rows(n_sites=3, d=D, n=50, seed=5):
    generator = np.random.default_rng(seed)
    return [generator.normal(size=(n + 7 * place, d)) / np.arange(1, d + 1) for place in range(n_sites)]


def contributions(agreed, keys, folder, rows, **options):
    """Return the files of contributions of all sites, by site."""
    return {
        name: contribute(agreed, keys[name], part, folder / f"{name}.contribution", **options)
        for name, part in zip(agreed.sites, rows, strict=True)
    }
