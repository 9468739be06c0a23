"""Tables 1 and 2 of Chaudhuri et al. (2013): the data sets, and linear classifiers in the projected space."""

import numpy as np

from ..common import Cell, Results, number, prose, table
from .utility import CONTESTANTS, EPSILON, rows_of, second_moment, subspaces

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
PENALTIES = (1.0, 100.0)


def table_cells(quick: bool) -> list[tuple[Cell, int]]:
    """Return the data sets, and the classification tasks with a repeat for each permutation."""
    found: list[tuple[Cell, int]] = []
    for name in PRINTED_1:
        for constant in (False, True) if name == "localization" else (False,):
            found.append(({"part": "table 1", "data": name, "all rows": not quick, "constant": constant}, 1))
    for name, label in (("kddcup99", False), ("localization", True), ("localization", False)):
        found.append(({"part": "table 2", "data": name, "all rows": not quick, "label": label}, 1 if quick else 5))
    return found


def describe(cell: Cell, generator: np.random.Generator) -> dict[str, float]:
    """Return n, d, qF(V_k), and its ratios to the trace and to the Frobenius norm of A."""
    del generator
    data = rows_of(cell["data"], cell["all rows"])
    X = _with_constant(data.X) if cell["constant"] else data.X
    eigenvalues = np.linalg.eigvalsh(second_moment(X) / len(X))[::-1]
    best = eigenvalues[: data.k].sum()
    return {
        "n": len(X),
        "d": X.shape[1],
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
    for name in CONTESTANTS:
        scores: dict[str, list[float]] = {task: [] for task in TASKS[cell["data"]]}
        for V in subspaces(name, C, data.k, generator, PROJECTIONS, EPSILON, 0.01):
            inputs, outputs = data.X[train] @ V.T, data.X[test] @ V.T
            for task, code in TASKS[cell["data"]].items():
                y = data.y == code
                scores[task].append(100 * _accuracy(inputs, y[train], outputs, y[test]))
        for task, values in scores.items():
            found |= {f"{task}: {name}": np.mean(values), f"{task}: {name} sd": np.std(values)}
    return found


def _accuracy(inputs: np.ndarray, labels: np.ndarray, tests: np.ndarray, truths: np.ndarray) -> float:
    """Return the test accuracy of a linear SVM, its penalty chosen on the last quarter of the training rows."""
    from sklearn.svm import LinearSVC

    def fitted(C: float, rows: slice) -> LinearSVC:
        return LinearSVC(C=C, dual=False).fit(inputs[rows], labels[rows])

    kept = len(labels) * 3 // 4
    scores = [fitted(C, slice(kept)).score(inputs[kept:], labels[kept:]) for C in PENALTIES]
    return float(fitted(PENALTIES[int(np.argmax(scores))], slice(None)).score(tests, truths))


def table_findings(results: Results) -> dict[str, float]:
    """Return qF and its share of the trace, and accuracies."""
    found = {}
    for row in results.select(part="table 1"):
        key = f"table 1, {row.cell['data']}{', constant' if row.cell['constant'] else ''}"
        found |= {f"{key}, {metric}": row.mean[metric] for metric in ("qF", "of trace")}
    for row in results.select(part="table 2"):
        key = f"table 2, {row.cell['data']}{', label' if row.cell['label'] else ''}"
        # PPCA at 100 % has a law too skewed for an error bar.
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
    header = ["data (the paper in brackets)", "n", "d", "k", "qF(V_k)", "qF/tr A", "qF/‖A‖_F"]
    return [
        "### Table 1: the data sets\n",
        table(header, lines),
        prose("""**Agreement: yes for kddcup99, census and insurance**: the same dimensions, qF within 1.5 %, always a
            little above the printed value, for which we found no reason. The last column is headed qF/‖A‖_F in the
            paper; its numbers are qF/tr A, and cannot be qF/‖A‖_F: for rows of norm at most 1 that ratio is at least
            min(1, √(k·qF)), which is 1 for all four sets ([why](theory.md#table-1-of-jmlr-2013)). Not yet discussed
            with the authors. **No for localization.** Our copy has no timestamp for three of the five
            persons, so it is left out and d is 43; divided by its largest value a timestamp is nearly 1 in every
            row, and with such a constant d is 44 and qF comes nearer to the printed value without reaching
            it. Both count the 11 indicators of the activity label."""),
    ]


def table_2(results: Results) -> list[str]:
    """Return Table 2, and the second look at localization."""
    lines = []
    for row in results.select(part="table 2"):
        name = row.cell["data"]
        for task in TASKS[name]:
            how = "" if name != "localization" else ", label a feature" if row.cell["label"] else ", label left out"
            columns = [number(row.mean[f"{task}: {one}"], row.se[f"{task}: {one}"]) for one in CONTESTANTS]
            lines.append([f"{name}, {task}{how}", f"{row.mean[f'{task}: majority']:.2f}", *columns])
        if name != "localization" or not row.cell["label"]:
            lines.append([f"*{name}, printed*", "", *(PRINTED_2[name].get(one, "") for one in CONTESTANTS)])
    rounds = results.select(part="table 2")[0].repeats
    return [
        "### Table 2: a linear SVM in the projected space\n",
        prose(f"""Test accuracy in percent. Half of the rows for the projection (ε = 0.1, δ = 0.01, which the paper
            does not repeat here), a tenth of the other half for training and the choice of the penalty, the rest
            for testing; {PROJECTIONS} projections on {rounds} permutations. ± is one standard error over
            permutations here, and in the paper a standard deviation over rounds. Our SVM has the squared hinge
            loss."""),
        table(["one label against all", "majority", *CONTESTANTS], lines),
        prose("""**Agreement: kddcup99 yes in order, localization no.** On kddcup99 non-private PCA and PPCA are
            equal and a random projection is worse, by more than printed. On localization the printed numbers do not
            fit the printed task. Falling is 1.8 % of the rows: predicting "no" always is right in 98.2 %, more than
            two of the four printed accuracies, and so rare an activity is not in the first ten directions whether
            or not its indicator is a feature: random projections even do better than PCA there, against the printed
            order. A frequent activity is: with lying against all and the label among the features, PCA and PPCA
            reach the printed 100 ± 0 and the others fall below it with a large spread, as printed. Without the
            label among the features nothing beats the majority. So we get the printed 100 % only with the label
            among the features **and** a more frequent activity than falling, where it says nothing about private
            PCA. Not yet discussed with the authors."""),
    ]
