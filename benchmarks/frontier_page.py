"""The tables of `frontier.py` as Markdown, and a page with marks into which they are put."""

import re
from typing import Any

import numpy as np

OURS, SAME = "eigenveil", "eigenveil, same inputs"
TITLES = {"1": "Loss of the first direction", "5": "Loss of five directions", "matrix": "Error of the matrix"}
KINDS = {"approximate": "δ = 1e-6", "pure": "δ = 0"}
CLEAR = 2.0  # standard errors of a difference that counts
SMALLEST = 1e-12  # below it a loss is rounding

# A sentence for everybody who is lower somewhere; those who are not are left out of the page.
REASONS = {
    "Gaussian": "has our directions where no map is taken: in four rows tried with 60 draws of each and one radius the "
    "losses did not differ clearly, so a lower loss is mostly chance, in the draws or in a radius chosen from few "
    "pilots: at equal radius ours was the lower in 11 of 12 further comparisons of the matrix (airfoil, wine, "
    "breast_cancer). A lower error of the matrix can be real at a radius so small that nearly all rows are clipped "
    "(kddcup99): clipped rows are too small already, and ours are shrunk further.",
    "Laplace": "is below ours by chance where both are near a random subspace.",
    "SeparateCov": "knows its eigenvalues better than directions that drown in noise, which helps an error of the "
    "matrix where most of the spectrum is hidden. Its directions are ours with a part of the budget.",
    "AdaptiveCov": "chooses its clip radius for the error of the matrix, and may go below the oracle's list.",
    "CoinPress": "measures again and again in the metric of its last estimate, and clips in it: where a spectrum is "
    "steep, or a few rows are far longer than the rest (raw units, census, kddcup99), small eigenvalues get small "
    "noise. Our second stage does that once, after a tenth of the budget, and takes a map only where its forecast "
    "promises a fifth; for a matrix it does not try. An oracle chooses the steps, the clip factor and the start of "
    "CoinPress for every row: at one fixed choice (factor 0.5, 5 steps) it lost to ours on digits, wine and "
    "breast_cancer.",
    "power method": "asks for k columns in place of a whole matrix, and needs few steps where the first eigenvalues "
    "stand far above the rest.",
    "DP-Oja": "asks for k columns in place of a whole matrix.",
    "PPCA": "spends all on the directions and none on a matrix, which pays where n epsilon / d is small; for k > 1 its "
    "privacy rests on a Markov chain, so that `auto` leaves it alone.",
    "eigenvector sampling": "spends all on the directions and none on a matrix, which pays where n epsilon / d is "
    "small.",
    "nothing": "is lower where the noise is larger than what there is to see: a random subspace by chance, the zero "
    "matrix because shrinking a noisy matrix stops short of all of it.",
}

Row = dict[str, Any]


def sections(found: list[Row], names: list[str]) -> dict[str, str]:
    """Return the parts of the page by the names of their marks."""
    parts = {"sets": set_table(found)}
    for kind in KINDS:
        mine = [row for row in found if (row["delta"] > 0) == (kind == "approximate")]
        for measure in TITLES:
            parts[f"{kind}-{measure}"] = measure_table(mine, measure, names)
        parts[f"{kind}-summary"] = summary(mine, names)
        parts[f"{kind}-lower"] = lower_list(mine, names)
        parts[f"{kind}-why"] = why(mine, names)
    return parts


def filled(page: str, parts: dict[str, str], of: str = "frontier") -> str:
    """Return the page with every part between its marks; `of` is the script that makes them."""
    for name, text in parts.items():
        begin, end = f"<!-- {of}: {name} -->", "<!-- end -->"
        pattern = re.compile(rf"{re.escape(begin)}\n.*?{re.escape(end)}", re.DOTALL)
        if not pattern.search(page):
            raise ValueError(f"The page has no mark {begin}.")
        before, after = pattern.split(page)
        page = f"{before}{begin}\n{text}\n{end}{after}"
    return page


def markdown(header: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows))


def set_table(found: list[Row]) -> str:
    """Return the shapes of the sets, and how many runs their rows have (fewer where a draw takes long)."""
    shapes: dict[tuple[str, str], tuple[int, int]] = {}
    runs: dict[str, set[int]] = {}
    for row in found:
        shapes[row["set"], row["form"]] = (row["n"], row["d"])
        for results in row["contestants"].values():
            runs.setdefault(row["set"], set()).update(len(result["errors"]) for result in results.values())
    rows = []
    for name in dict.fromkeys(name for name, _ in shapes):
        (n, d), standard = shapes[name, "raw"], shapes.get((name, "standardized"))
        number_of_runs = " to ".join(str(end) for end in sorted({min(runs[name]), max(runs[name])}))
        rows.append([name, f"{n:,}", f"{d:,}", f"{standard[1]:,}" if standard else "", number_of_runs])
    return markdown(["set", "n", "d, raw", "d, standardized", "runs"], rows)


def errors_of(row: Row, name: str, measure: str) -> np.ndarray | None:
    """Return the errors of a contestant; five directions are three where there are five features."""
    results = row["contestants"].get(name, {})
    result = results.get(measure) or (results.get("3") if measure == "5" else None)
    return None if result is None else np.maximum(result["errors"], SMALLEST)


def standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else 0.0


def clearly_below(errors: np.ndarray, others: np.ndarray) -> bool:
    """Return whether the mean is lower, and clearly so by the means or by the ranks (Mann and Whitney).

    One wild error makes a mean that no difference is clear against; among ranks it is one of many.
    """
    gap = others.mean() - errors.mean()
    if gap <= 0:
        return False
    pairs = np.sign(others[:, None] - errors).sum() / 2  # wins above what chance expects
    chance = (errors.size * others.size * (errors.size + others.size + 1) / 12) ** 0.5
    return bool(gap > CLEAR * np.hypot(standard_error(errors), standard_error(others)) or pairs > CLEAR * chance)


def lower(row: Row, measure: str, ours: str, names: list[str]) -> list[tuple[str, float]]:
    """Return who is clearly lower than `ours` and by which mean, the lowest first."""
    mine = errors_of(row, ours, measure)
    others = {name: errors_of(row, name, measure) for name in names if not name.startswith(OURS)}
    found = [
        (name, float(errors.mean()))
        for name, errors in others.items()
        if mine is not None and errors is not None and clearly_below(errors, mine)
    ]
    return sorted(found, key=lambda each: each[1])


def number(errors: np.ndarray | None, bold: bool) -> str:
    if errors is None:
        return ""
    spread = standard_error(errors)
    text = f"{errors.mean():.3g}" + (f" ± {spread:.1g}" if spread else "")
    return f"**{text}**" if bold else text


def measure_table(found: list[Row], measure: str, names: list[str]) -> str:
    used = [name for name in names if any(errors_of(row, name, measure) is not None for row in found)]
    rows = []
    for row in found:
        results = [errors_of(row, name, measure) for name in used]
        means = [each.mean() for each in results if each is not None]
        if means:
            cells = [number(each, each is not None and each.mean() == min(means)) for each in results]
            cells[0] = cells[0] or "refused"  # eigenveil by its defaults, which takes part everywhere
            rows.append([row["set"], row["form"], f"{row['epsilon']:g}", *cells])
    return markdown(["set", "form", "ε", *used], rows)


def summary(found: list[Row], names: list[str]) -> str:
    """Return a line a measure: how often each of ours is the lowest or not clearly above it."""
    lines = []
    for measure, title in TITLES.items():
        rows = [row for row in found if errors_of(row, SAME, measure) is not None]
        answered = [row for row in rows if errors_of(row, OURS, measure) is not None]
        count = {
            ours: sum(not lower(row, measure, ours, names) for row in each)
            for ours, each in ((SAME, rows), (OURS, answered))
        }
        lines.append(
            f"- {title}: nobody is clearly lower than eigenveil with the same inputs in {count[SAME]} of {len(rows)} "
            f"rows, and than eigenveil by its defaults in {count[OURS]} of the {len(answered)} that it does not refuse."
        )
    return "\n".join(lines)


def lower_list(found: list[Row], names: list[str]) -> str:
    """Return a line for every row in which eigenveil with the same inputs is clearly not the lowest."""
    lines = []
    for measure, title in TITLES.items():
        for row in found:
            others = lower(row, measure, SAME, names)
            if others:
                mine = errors_of(row, SAME, measure)
                text = ", ".join(f"{name} {mean:.3g}" for name, mean in others)
                lines.append([title, row["set"], row["form"], f"{row['epsilon']:g}", number(mine, False), text])
    return markdown(["measure", "set", "form", "ε", "ours", "lower"], lines) if lines else "In no row."


def why(found: list[Row], names: list[str]) -> str:
    """Return a sentence about everybody who is clearly lower in some row, with how many rows they are."""
    counts = dict.fromkeys(names, 0)
    for row in found:
        for measure in TITLES:
            for name, _ in lower(row, measure, SAME, names):
                counts[name] += 1
    return "\n".join(f"- {name} ({count}) {REASONS[name]}" for name, count in counts.items() if count)
