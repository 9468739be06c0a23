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
SAME = ("kddcup99", "census", "insurance")  # those whose rows are the paper's
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
# The kernels of libSVM: the one that the paper names, and the one that libSVM takes unless it is told otherwise.
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
        # What an indicator has become tells the largest squared norm before the division by it.
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
        # PPCA at 100 % has a mechanism too skewed for an error bar.
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
    for row in results.select(part="table 1"):
        name, mean = row.cell["data"], row.mean
        n, d, best, k, ratio = PRINTED_1[name]
        lines.append(
            [
                name + (" and a constant" if row.cell["constant"] else ""),
                f"{mean['n']:,.0f} ({n:,})",
                f"{mean['d']:.0f} ({d})",
                str(k),
                f"{mean['qF']:.4f} ({best:.4f})",
                f"{mean['of trace']:.3f} ({ratio})",
                f"{mean['of frobenius']:.2f}",
            ]
        )
    header = [
        "data (the paper in brackets)",
        "n",
        "d",
        "k",
        "$qF(V_k)$",
        r"$qF/\operatorname{tr} A$",
        r"$qF/\lVert A\rVert_F$",
    ]
    rows = {row.cell["data"]: row.mean for row in results.select(part="table 1", constant=False)}
    census = rows["census"]["of trace"]
    moved = ", ".join(f"{rows[name]['qF, features from 0 to 1']:.4f} on {name}" for name in SAME)
    return [
        "### Table 1: the data sets\n",
        table(header, lines),
        prose(f"""**Agreement: yes for kddcup99, census and insurance**: the same dimensions, qF 1.0 to 1.5 %
            above the printed value. {_needed(results)} That is arithmetic and no evidence: one free factor fits
            any one number. It leaves the last column as it is, which agrees on kddcup99 and insurance; on
            census our share is {census:.3f}, which rounds to 0.82. What we tried and what it gives: features
            moved to the range from 0 to 1 instead of divided by their largest value ({moved}, no help on the
            first two); centring and unit rows (far off); one component less (0.6405, 0.7313 and 0.5120, near on
            two sets and equal on none); the longest row of the census taken from its test file as well (it is
            shorter). Which features count as nominal is only told by d: we found one way for each set, and
            other ways may exist. The reason is not found. The last column is headed $qF/\\lVert A\\rVert_F$ in the
            paper; its numbers are $qF/\\operatorname{{tr}} A$, and cannot be $qF/\\lVert A\\rVert_F$: for rows of
            norm at most 1 that ratio is at least
            $\\min(1, \\sqrt{{k\\cdot qF}})$, which is 1 for all four sets ([why](theory.md#table-1-of-jmlr-2013)).
            Not yet
            discussed with the authors. **No for localization.** Our copy is not the paper's: of its five
            persons only A and B are original, the coordinates of C to E are partly reconstructed, to 0.3 mm,
            and have no timestamp, so it is left out and d is 43; divided by its largest value a timestamp is
            nearly 1 in every row, and with such a constant d is 44 and qF comes nearer to the printed value
            without reaching it. Both count the 11 indicators of the activity label."""),
    ]


def _needed(results: Results) -> str:
    """Return what the largest squared norm would have to be for the printed qF."""
    parts = []
    for name in SAME:
        mean = results.one(part="table 1", data=name).mean
        parts.append(f"{mean['largest'] * mean['qF'] / PRINTED_1[name][2]:.2f} for {mean['largest']:.2f} on {name}")
    return f"A common factor cannot be excluded: a largest squared norm, before the division, of {', '.join(parts)}."


def spread(row: Row, key: str) -> str:
    """Return the mean and the standard deviation over all rounds, as the paper prints them."""
    mean = row.mean[key]
    deviation = max(row.mean[f"{key} squared"] - mean**2, 0.0) ** 0.5
    return f"{mean:.2f} ± {deviation:.2f}"


def table_2(results: Results) -> list[str]:
    """Return Table 2, and the second look at localization."""
    lines = []
    for row in results.select(part="table 2"):
        name = row.cell["data"]
        for task in TASKS[name]:
            how = "" if name != "localization" else ", label a feature" if row.cell["label"] else ", label left out"
            columns = [spread(row, f"{task}: {one}") for one in CLASSIFIED]
            lines.append([f"{name}, {task}{how}", f"{row.mean[f'{task}: majority']:.2f}", *columns])
        if name == "kddcup99":
            columns = [spread(row, f"normal: {one}, {DEFAULT}") for one in CLASSIFIED]
            lines.append([f"{name}, normal, libSVM's default kernel", "", *columns])
        if name != "localization" or not row.cell["label"]:
            lines.append([f"*{name}, printed*", "", *(PRINTED_2[name].get(one, "") for one in CLASSIFIED)])
    kdd = results.one(part="table 2", data="kddcup99")
    rounds = ", ".join(f"{row.repeats} on {row.cell['data']}" for row in results.select(part="table 2"))
    return [
        "### Table 2: a linear SVM in the projected space\n",
        prose(f"""Test accuracy in percent, with libSVM's hinge loss. Half of the rows for the projection (ε =
            0.1, δ = 0.01, which the paper does not repeat here), a tenth of the other half for training and the
            choice of the penalty, the rest for testing; {PROJECTIONS} projections on each permutation,
            permutations: {rounds} (the paper: 5). ± is one standard deviation over all rounds, as in the paper.
            Of the training rows the first {TRAINED["kddcup99"]:,} and {TRAINED["localization"]:,} are used, as
            libSVM's time grows with their square. The default kernel, $\\exp(-\\lVert x - y\\rVert^2/k)$, has
            {DEFAULT_PROJECTIONS} projections on each permutation."""),
        table(["one label against all", "majority", *CLASSIFIED], lines),
        prose(f"""**Agreement: kddcup99 yes in order, localization no.** On kddcup99 non-private PCA and PPCA
            are equal and a random projection is worse, by more than printed. The loss is a part of it: with the
            hinge loss a linear classifier has {spread(kdd, "normal: random_projection")} in a random subspace,
            with the squared hinge loss it had 95.41 in an earlier run (other permutations, more training rows),
            and on five projections tried with both the hinge loss was better each time. 98.23 ± 0.49 is
            printed, so more than a point is left, and so is the smaller spread. In search of it we tried, on
            those five projections, three penalties, scaled and standardized inputs, and libSVM's default
            kernel, the Gaussian one, with three penalties: ten readings, of which only the last kernel with the
            largest penalty came near, and it was then run as the second line. It gives
            {spread(kdd, f"normal: random_projection, {DEFAULT}")} in random subspaces and
            {spread(kdd, f"normal: none, {DEFAULT}")} after PCA, but
            {spread(kdd, f"normal: mod_sulq, {DEFAULT}")} for MOD-SULQ, where 98.18 ± 0.65 is printed. It was
            chosen because it came near, so this is a guess and no finding; libSVM was stopped after 300,000
            iterations there. What the authors ran we cannot tell. On localization the printed numbers do not
            fit the printed task. Falling is 1.8 % of the rows: predicting "no" always is right in 98.2 %, more
            than two of the four printed accuracies, and so rare an activity is not in the first ten directions
            whether or not its indicator is a feature. A frequent activity is: with lying against all and the
            label among the features, PCA and PPCA reach the printed 100 ± 0 and the others fall below it with a
            large spread, as printed. Without the label among the features nothing beats the majority. So we get
            the printed 100 % only with the label among the features **and** a more frequent activity than
            falling, where it says nothing about private PCA. Not yet discussed with the authors."""),
    ]
