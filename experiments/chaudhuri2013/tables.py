"""Tables 1 and 2 of Chaudhuri et al. (2013): the data sets, and linear classifiers in the projected space."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..common import Cell, Results, Row, prose, table
from .utility import EPSILON, rows_of, second_moment, subspaces

# Table 1 as printed: n, d, qF(V_k), k, last column.
PRINTED_1 = {
    "kddcup99": (494_021, 116, 0.6587, 4, 0.96),
    "census": (199_523, 513, 0.7321, 8, 0.81),
    "localization": (164_860, 44, 0.5672, 10, 0.81),
    "insurance": (9_822, 150, 0.5118, 11, 0.81),
}
# Table 2 as printed, in percent.
PRINTED_2 = {
    "kddcup99": {
        "none": "98.97 ± 0.05",
        "ppca": "98.95 ± 0.05",
        "mod_sulq": "98.18 ± 0.65",
        "random_projection": "98.23 ± 0.49",
    },
    "localization": {
        "none": "100 ± 0",
        "ppca": "100 ± 0",
        "mod_sulq": "97.06 ± 2.17",
        "random_projection": "96.28 ± 2.34",
    },
}
# A label's code is its place among the sorted labels.
TASKS = {"kddcup99": {"normal": 11}, "localization": {"falling": 0, "lying": 1}}
PROJECTIONS = 5
CLASSIFIED = ("none", "ppca", "mod_sulq", "random_projection", "gaussian")
# The kernels of libSVM: the one that the paper names, and the default of libSVM.
LINEAR, DEFAULT = "linear", "default kernel"
PENALTIES = {LINEAR: (1.0, 100.0), DEFAULT: (100.0, 10_000.0)}
# libSVM's time grows with the square of the training rows: the first so many of the tenth are taken, for kddcup99 of
# 24,701. The default kernel is tried with fewer projections and tested on fewer rows.
TRAINED = {"kddcup99": 6_000, "localization": 4_000}
DEFAULT_PROJECTIONS, DEFAULT_TESTED = 2, 40_000


def table_cells(quick: bool) -> list[tuple[Cell, int]]:
    """Return the data sets, and the classification tasks with a repeat for each permutation."""
    found: list[tuple[Cell, int]] = []
    for name in PRINTED_1:
        for constant in (False, True) if name == "localization" else (False,):
            found.append(({"part": "table 1", "data": name, "all rows": not quick, "constant": constant}, 1))
    tasks = (("kddcup99", False), ("localization", True), ("localization", False))
    for name, label in tasks[:2] if quick else tasks:
        rounds = 1 if quick or not (label or name == "kddcup99") else 5 if name == "kddcup99" else 3
        found.append(({"part": "table 2", "data": name, "all rows": not quick, "label": label}, rounds))
    return found


def describe(cell: Cell, generator: np.random.Generator) -> dict[str, float]:
    """Return n, d, qF(V_k), and its ratios to the trace and to the Frobenius norm of A."""
    del generator
    data = rows_of(cell["data"], cell["all rows"])
    X = _with_constant(data.X) if cell["constant"] else data.X
    eigenvalues = np.linalg.eigvalsh(second_moment(X) / len(X))[::-1]
    best = eigenvalues[: data.k].sum()
    shifted = X - X.min(axis=0)
    shifted = shifted / np.maximum(shifted.max(axis=0), 1e-300)
    shifted = np.linalg.eigvalsh(second_moment(shifted / np.linalg.norm(shifted, axis=1).max()) / len(X))[::-1]
    return {
        "n": len(X),
        "d": X.shape[1],
        # The value of an indicator gives the largest squared norm before the division by it.
        "largest": 1 / X.max() ** 2,
        "qF, features from 0 to 1": shifted[: data.k].sum(),
        "qF": best,
        "of trace": best / eigenvalues.sum(),
        "of frobenius": best / np.linalg.norm(eigenvalues),
    }


def _with_constant(X: np.ndarray) -> np.ndarray:
    """Return the rows with one more feature that is always 1, as a timestamp over its largest value nearly is."""
    indicator = X[:, -1].max()  # what a set indicator has become
    X = np.hstack([X, np.full((len(X), 1), indicator)])
    return X / np.linalg.norm(X, axis=1).max()


def classify(cell: Cell, generator: np.random.Generator) -> dict[str, float]:
    """Return the accuracy in percent for one permutation of the rows, the mean over the projections."""
    data = rows_of(cell["data"], cell["all rows"], cell["label"])
    assert data.y is not None
    order = generator.permutation(len(data.X))
    held, rest = np.split(order, [len(order) // 2])
    train, test = np.split(rest, [len(rest) // 10])
    C = second_moment(data.X[held])
    found = {}
    for task, code in TASKS[cell["data"]].items():
        share = (data.y[test] == code).mean()
        found[f"{task}: majority"] = 100 * max(share, 1 - share)
    train = train[: TRAINED[cell["data"]]]
    for name in CLASSIFIED:
        scores: dict[str, list[float]] = {}
        for number_of, V in enumerate(subspaces(name, C, data.k, generator, PROJECTIONS, EPSILON, 0.01)):
            inputs, outputs = data.X[train] @ V.T, data.X[test] @ V.T
            for task, code in TASKS[cell["data"]].items():
                y = data.y == code
                score = 100 * _accuracy(LINEAR, inputs, y[train], outputs, y[test])
                scores.setdefault(f"{task}: {name}", []).append(score)
                if cell["data"] == "kddcup99" and number_of < DEFAULT_PROJECTIONS:
                    few = slice(DEFAULT_TESTED)
                    score = 100 * _accuracy(DEFAULT, inputs, y[train], outputs[few], y[test][few])
                    scores.setdefault(f"{task}: {name}, {DEFAULT}", []).append(score)
        for key, values in scores.items():
            # Of the squares, so that the spread over all rounds can be had from the means over permutations.
            found |= {key: np.mean(values), f"{key} squared": np.mean(np.square(values))}
    return found


def _accuracy(kernel: str, inputs: np.ndarray, labels: np.ndarray, tests: np.ndarray, truths: np.ndarray) -> float:
    """Return the test accuracy of libSVM, its penalty chosen on the last quarter of the training rows."""
    from sklearn.svm import SVC  # which is libSVM

    options = {"kernel": "linear"} if kernel == LINEAR else {"kernel": "rbf", "gamma": 1 / inputs.shape[1]}

    def fitted(C: float, rows: slice) -> SVC:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return SVC(C=C, max_iter=300_000, cache_size=300, **options).fit(inputs[rows], labels[rows])

    kept = len(labels) * 3 // 4
    scores = [fitted(C, slice(kept)).score(inputs[kept:], labels[kept:]) for C in PENALTIES[kernel]]
    chosen = fitted(PENALTIES[kernel][int(np.argmax(scores))], slice(None))
    if kernel == LINEAR:  # without the support vectors, of which there may be thousands
        return float(((tests @ chosen.coef_[0] + chosen.intercept_[0] > 0) == truths).mean())
    return float(chosen.score(tests, truths))


def table_findings(results: Results) -> dict[str, float]:
    """Return qF and its share of the trace, and accuracies."""
    found = {}
    for row in results.select(part="table 1"):
        key = f"table 1, {row.cell['data']}{', constant' if row.cell['constant'] else ''}"
        found |= {f"{key}, {metric}": row.mean[metric] for metric in ("qF", "of trace")}
    for row in results.select(part="table 2"):
        key = f"table 2, {row.cell['data']}{', label' if row.cell['label'] else ''}"
        # PPCA at 100 % has a distribution too skewed for an error bar.
        names = (
            ("none", "ppca", "random_projection") if row.cell["data"] == "kddcup99" else ("none", "random_projection")
        )
        found |= {
            f"{key}, {task}, {name}": row.mean[f"{task}: {name}"] for task in TASKS[row.cell["data"]] for name in names
        }
    return found


def table_1(results: Results) -> list[str]:
    """Return Table 1."""
    lines = []
    for row in results.some(part="table 1"):
        name, mean = row.cell["data"], row.mean
        _, d, best, _, ratio = PRINTED_1[name]
        numbers = f"{mean['d']:.0f} ({d})", f"{mean['qF']:.4f} ({best:.4f})", f"{mean['of trace']:.3f} ({ratio})"
        lines.append([name + (", constant for timestamp" if row.cell["constant"] else ""), *numbers])
    return [
        "### Table 1: the data sets\n",
        table(["data (printed)", "d", "$qF(V_k)$", r"$qF/\operatorname{tr} A$"], lines),
        prose("""**Agreement: yes for kddcup99, census and insurance**, with qF 1.0 to 1.5 % above the
            printed value. The last column is headed $qF/\\lVert A\\rVert_F$ in the paper, but its
            numbers are $qF/\\operatorname{tr} A$ ([proof](theory.md)). **No for localization:** our copy has no
            timestamp, and the coordinates of three of its five people are partly reconstructed."""),
    ]


def spread(row: Row, key: str) -> str:
    """Return the mean and the standard deviation over all rounds, as the paper prints them."""
    mean = row.mean[key]
    deviation = max(row.mean[f"{key} squared"] - mean**2, 0.0) ** 0.5
    return f"{mean:.2f} ± {deviation:.2f}"


def table_2(results: Results) -> list[str]:
    """Return Table 2, for localization also with another activity and without the label among the features."""
    kdd = results.one(part="table 2", data="kddcup99")
    lines = []
    for row in results.some(part="table 2"):
        name = row.cell["data"]
        if name != "localization" or row.cell["label"]:
            for task in TASKS[name]:
                columns = [spread(row, f"{task}: {one}") for one in PRINTED_2[name]]
                lines.append([f"{name}, {task}", f"{row.mean[f'{task}: majority']:.2f}", *columns])
            lines.append([f"*{name}, printed*", "", *PRINTED_2[name].values()])
    projected, sulq = (spread(kdd, f"normal: {name}, {DEFAULT}") for name in ("random_projection", "mod_sulq"))
    return [
        "### Table 2: a linear SVM in the projected space\n",
        prose("""Test accuracy in percent, one label against all others, ε = 0.1, δ = 0.01. On localization the label
            is also a feature. ± is one standard deviation."""),
        table(["task", "majority", *PRINTED_2["kddcup99"]], lines),
        prose(f"""**Agreement: kddcup99 yes in order, localization no.** On kddcup99 a random projection is worse
            than printed; of ten variants only a Gaussian kernel comes near ({projected}), but with {sulq} for
            MOD-SULQ. On localization always predicting "no" is right in 98.2 % for the printed task, falling. We get
            100 % only for a frequent activity (lying) with the label as a feature."""),
    ]
