"""What experiments need beyond the library: chains that go on where they were killed, and Algorithm 2 made smaller."""

from pathlib import Path

import numpy as np
import pytest

from eigenveil.metrics import subspace_distance
from eigenveil.postprocess.fantope import fantope_components

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def project(monkeypatch):
    if not (ROOT / "experiments").exists():
        pytest.skip("the experiments are not part of this installation")
    monkeypatch.syspath_prepend(str(ROOT))


def test_a_killed_chain_goes_on_inside(tmp_path, monkeypatch):
    from experiments.chaudhuri2013 import hoff

    monkeypatch.setattr(hoff, "SAVED_EVERY", 4)
    eigenvalues = np.linspace(40.0, 0.0, 6)

    def chain(passes, folder):
        return hoff.run_chain(eigenvalues, 2, passes, np.random.default_rng(1), folder / "chain.npz")

    whole = chain(30, tmp_path / "whole")
    update, calls = hoff.HoffKernel.update, []

    def dies(self, states, generator):
        calls.append(1)
        if len(calls) == 19:
            raise KeyboardInterrupt
        return update(self, states, generator)

    monkeypatch.setattr(hoff.HoffKernel, "update", dies)
    with pytest.raises(KeyboardInterrupt):
        chain(30, tmp_path / "killed")
    calls.clear()
    monkeypatch.setattr(hoff.HoffKernel, "update", lambda *given: calls.append(1) or update(*given))
    resumed = chain(30, tmp_path / "killed")
    assert len(calls) == 30 - 16
    np.testing.assert_array_equal(resumed, whole)
    assert not list((tmp_path / "killed").iterdir())


def test_diagnostics_tell_chains_that_agree_from_chains_that_do_not():
    from experiments.chaudhuri2013.diagnostics import block_traces, effective_sample_size, split_r_hat

    generator = np.random.default_rng(9)
    noise = generator.standard_normal((4, 4000))
    series = np.zeros_like(noise)
    for t in range(1, 4000):
        series[:, t] = 0.8 * series[:, t - 1] + noise[:, t]
    # An autoregression with coefficient rho is worth (1 - rho)/(1 + rho) of its length.
    assert effective_sample_size(series) == pytest.approx(16_000 / 9, rel=0.3)
    assert split_r_hat(series) < 1.05
    settled = block_traces(1e5 * 0.7 ** np.arange(30), 4, generator, chains=8, updates=100)
    assert split_r_hat(settled.scores[:, 50:]) < 1.1
    assert settled.mean_norms[:, -1].max() < 0.5
    elsewhere = settled.scores + 10 * settled.scores[:, 50:].std() * np.arange(8)[:, np.newaxis]
    assert split_r_hat(elsewhere[:, 50:]) > 1.5
    assert effective_sample_size(elsewhere[:, 50:]) < 30


def test_algorithm_2_made_smaller_is_algorithm_2():
    from experiments.wang_xu2019.algorithm2 import relevant, solution

    generator = np.random.default_rng(2)
    matrix = generator.normal(size=(40, 40)) * 0.1
    matrix = (matrix + matrix.T) / 2
    matrix[:6, :6] += 1.0
    matrix[6:10, 6:10] += 0.7
    matrix[np.diag_indices(40)] += 0.3
    beside = np.abs(matrix) - np.diag(np.abs(np.diag(matrix)))
    penalty = 0.3
    assert relevant(matrix, beside, 3, penalty).size < 20
    whole = fantope_components(matrix, 3, penalty=penalty, tol=1e-6, max_iter=2000).projection
    # The third direction is one of many alike: compare what both agree on by the value that they reach.
    found = solution(matrix, beside, 3, penalty)
    reached = np.trace(found @ matrix @ found.T)
    assert reached == pytest.approx(float(np.sum(matrix * whole)), rel=0.05)
    two = fantope_components(matrix, 2, penalty=penalty, tol=1e-6, max_iter=2000).components
    assert subspace_distance(two, solution(matrix, beside, 2, penalty)) < 0.02
