"""One PCA by diffprivlib or OpenDP, in a process of its own that ends after a limit of processor time.

diffprivlib needs an older scikit-learn than ours, so it runs under the interpreter of another environment.
"""

import inspect
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np


def peer_worker(package: str, source: str, target: str, limit: str) -> None:
    """Fit one peer on the rows in `source`; runs by its source text under another interpreter, without eigenveil."""
    import math
    import resource
    import time

    import numpy as np

    with np.load(source) as given:
        X, k, epsilon = given["X"], int(given["k"]), float(given["epsilon"])
    if package == "diffprivlib":
        import diffprivlib
        from diffprivlib.models import PCA

        # The rows are taken as they are, about the origin, so that all of epsilon goes to the directions.
        model = PCA(k, epsilon=epsilon, data_norm=1.0, centered=True)
        release, version = lambda: model.fit(X).components_, diffprivlib.__version__
    else:
        import importlib.metadata

        import opendp.prelude as dp
        from opendp.extras.sklearn.decomposition import make_private_pca

        dp.enable_features("contrib", "idealized-numerics", "honest-but-curious")
        # Its class would spend a third on a mean; the function behind it takes 0 as the centre.
        origin = np.zeros(X.shape[1])
        domain = dp.numpy.array2_domain(origin=origin, norm=1.0, p=2, size=len(X), num_columns=X.shape[1], T=float)
        measurement = make_private_pca(domain, dp.symmetric_distance(), epsilon, num_components=k)
        # Replacing a row is a symmetric distance of 2.
        assert measurement.map(2) <= epsilon * (1 + 1e-9)
        release, version = lambda: measurement(X).Vt[:k], importlib.metadata.version("opendp")
    # Importing is not fitting. The limit is on the time of the processor, so that a busy machine is no handicap.
    start, cpu_start = time.perf_counter(), time.process_time()
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(cpu_start + float(limit)), resource.RLIM_INFINITY))
    components = np.array(release())
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    np.savez(target, components=components, seconds=seconds, cpu_seconds=cpu_seconds, version=version)


def peer_fit(python: str, package: str, X: np.ndarray, k: int, epsilon: float, limit: float) -> dict[str, Any] | str:
    """Return the result of one fit, or in words why there is none; `limit` is in seconds of the processor."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = (str(Path(folder) / name) for name in ("rows.npz", "result.npz"))
        np.savez(source, X=X, k=k, epsilon=epsilon)
        script = f"{inspect.getsource(peer_worker)}\nimport sys\npeer_worker(*sys.argv[1:])"
        done = subprocess.run(
            [python, "-W", "ignore", "-c", script, package, source, target, str(limit)], capture_output=True, text=True
        )
        if done.returncode == -signal.SIGXCPU:
            return "did not finish"
        if done.returncode != 0:
            return "failed: " + (done.stderr.strip().splitlines() or ["no message"])[-1][:120]
        with np.load(target) as result:
            return {name: result[name].tolist() for name in ("components", "seconds", "cpu_seconds", "version")}
