"""The tables of docs/research/utility.md, made from `frontier_results.json`: `python benchmarks/frontier_page.py`.

`frontier.py` measures, and `summarized` turns what it measured into the saved results. A page has a pair of marks for
each part that is written into it.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).with_name("frontier_results.json")
PAGE = Path(__file__).resolve().parents[1] / "docs" / "research" / "utility.md"
OURS, SAME, NOTHING = "eigenveil", "eigenveil, same inputs", "nothing"
MEASURES = {"1": "first direction", "5": "five directions", "matrix": "matrix"}
KINDS = {"approximate": "δ = 1e-6", "pure": "δ = 0"}
HEADER = ["set", "form", "eigenveil", "same inputs", "lowest other"]
SHOWN = 1.0  # the epsilon whose errors are in the page
CLEAR = 2.0  # standard errors of a difference that counts
SMALLEST = 1e-12  # below it a loss is rounding
NOTE = (
    "Means and standard errors of the errors that benchmarks/frontier.py measured, by measure and method, with three "
    'and one significant digits; "lower" has the methods that are clearly lower than eigenveil with the same inputs.'
)

# Why a method can be lower; only methods that are lower in some case get into the page.
REASONS = {
    "Gaussian": "adds the same noise as eigenveil's `gaussian`, without preconditioning and shrinkage. In four cases "
    "repeated with 60 draws and one radius the losses did not differ clearly, so most of the lower losses are chance. "
    "At equal radius eigenveil had the lower matrix error in 11 of 12 further comparisons (airfoil, wine, "
    "breast_cancer). A lower matrix error can be real where nearly all rows are clipped (kddcup99): clipping already "
    "makes the matrix too small, and eigenveil shrinks it further.",
    "Laplace": "is lower by chance where both are near a random subspace.",
    "SeparateCov": "measures the eigenvalues separately, which helps the matrix error where most directions are not "
    "distinguishable from noise.",
    "AdaptiveCov": "chooses its clip radius for the matrix error, and may choose one below the oracle's list.",
    "CoinPress": "measures several times, each time in the metric of its last estimate, and clips in it. Small "
    "eigenvalues get little noise where the spectrum is steep or a few rows are much longer than the rest (raw units, "
    "census, kddcup99). eigenveil's preconditioning measures twice, applies only where its forecast gain is at least a "
    "fifth, and is not used for a matrix. The oracle also chooses the start, the steps and the clip factor of "
    "CoinPress for every case. At one fixed choice (factor 0.5, 5 steps) CoinPress had higher errors than eigenveil "
    "on digits, wine and breast_cancer.",
    "power method": "measures k columns instead of a whole matrix, and needs few steps where the first eigenvalues are "
    "well separated.",
    "DP-Oja": "measures k columns instead of a whole matrix.",
    "PPCA": "spends the whole budget on directions, which pays where nε/d is small. For k > 1 its privacy rests on a "
    "Markov chain, so `auto` does not choose it.",
    "eigenvector sampling": "spends the whole budget on directions, which pays where nε/d is small.",
    NOTHING: "uses no data. It is lower where the noise is larger than the signal.",
}

Row = dict[str, Any]
Case = dict[str, Any]


# From single errors to the saved results.


def summarized(found: list[Row], names: list[str]) -> dict[str, Any]:
    """Return what is saved: means and standard errors, who is clearly lower, and how often nobody is."""
    cases = [_case(row, names) for row in found]
    unbeaten = {}
    for kind in KINDS:
        rows = [row for row in found if (row["delta"] > 0) == (kind == "approximate")]
        unbeaten[kind] = {
            measure: {ours: _unbeaten(rows, measure, ours, names) for ours in (SAME, OURS)} for measure in MEASURES
        }
    return {"note": NOTE, "unbeaten": unbeaten, "cases": cases}


def _case(row: Row, names: list[str]) -> Case:
    errors: dict[str, dict[str, list[float]]] = {}
    counts: set[int] = set()
    for measure in MEASURES:
        for name in names:
            values = errors_of(row, name, measure)
            if values is not None:
                mean, spread = float(f"{values.mean():.3g}"), float(f"{standard_error(values):.1g}")
                errors.setdefault(measure, {})[name] = [mean, spread]
                counts.add(len(values))
    lower_names = {measure: lower(row, measure, SAME, names) for measure in MEASURES}
    return {
        **{key: row[key] for key in ("set", "form", "epsilon", "delta", "n", "d")},
        "runs": [min(counts), max(counts)],
        "errors": errors,
        "lower": {measure: below for measure, below in lower_names.items() if below},
    }


def _unbeaten(rows: list[Row], measure: str, ours: str, names: list[str]) -> list[int]:
    measured = [row for row in rows if errors_of(row, ours, measure) is not None]
    return [sum(not lower(row, measure, ours, names) for row in measured), len(measured)]


def errors_of(row: Row, name: str, measure: str) -> np.ndarray | None:
    """Return the errors of a method; five directions are three where there are five features."""
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


def lower(row: Row, measure: str, ours: str, names: list[str]) -> list[str]:
    """Return who is clearly lower than `ours`, the lowest first."""
    mine = errors_of(row, ours, measure)
    others = {name: errors_of(row, name, measure) for name in names if not name.startswith(OURS)}
    found = [
        (float(errors.mean()), name)
        for name, errors in others.items()
        if mine is not None and errors is not None and clearly_below(errors, mine)
    ]
    return [name for _, name in sorted(found)]


# From the saved results to the page.


def save(results: dict[str, Any], path: Path = RESULTS) -> None:
    """Write the results as JSON, a case a line."""
    head = json.dumps({key: results[key] for key in ("note", "unbeaten")}, indent=1)
    lines = ",\n".join(json.dumps(case) for case in results["cases"])
    path.write_text(f'{head[:-2]},\n "cases": [\n{lines}\n]}}\n', encoding="utf-8")


def sections(results: dict[str, Any]) -> dict[str, str]:
    """Return the parts of the page by the names of their marks."""
    parts = {"sets": set_table(results["cases"]), "summary": summary(results["unbeaten"])}
    for kind in KINDS:
        cases = [case for case in results["cases"] if (case["delta"] > 0) == (kind == "approximate")]
        parts[f"{kind}-lower"] = lower_table(cases)
        if kind == "approximate":
            parts |= {f"{kind}-{measure}": markdown(HEADER, measure_rows(cases, measure)[0]) for measure in MEASURES}
        else:
            parts[f"{kind}-errors"] = not_lowest(cases)
    parts["why"] = why(results["cases"])
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


def markdown(header: list[str], rows: list[list[str]], around: str = "") -> str:
    """Return a table; blanks around its cells, for those who read the plain text, would count as words of the docs."""
    lines = (header, ["---"] * len(header), *rows)
    return "\n".join("|".join(["", *(f"{around}{cell}{around}" for cell in cells), ""]) for cells in lines)


def fold(title: str, text: str) -> str:
    """Return the text as a collapsed block, with blank lines around it."""
    return f'\n??? note "{title}"\n\n' + "\n".join(f"    {line}" for line in text.splitlines()) + "\n"


def set_table(cases: list[Case]) -> str:
    """Return the shapes of the sets, and how many runs their cases have (fewer where a draw takes long)."""
    shapes = {(case["set"], case["form"]): (case["n"], case["d"]) for case in cases}
    rows = []
    for name in dict.fromkeys(name for name, _ in shapes):
        (n, d), standard = shapes[name, "raw"], shapes.get((name, "standardized"))
        counts = [count for case in cases if case["set"] == name for count in case["runs"]]
        runs = " to ".join(str(end) for end in sorted({min(counts), max(counts)}))
        rows.append([name, f"{n:,}", f"{d:,}", f"{standard[1]:,}" if standard else "", runs])
    return fold("Data sets", markdown(["set", "n", "d, raw", "d, standardized", "runs"], rows))


def summary(unbeaten: dict[str, dict[str, dict[str, list[int]]]]) -> str:
    """Return how often no other method is clearly lower, by measure and privacy."""
    rows = []
    for measure, title in MEASURES.items():
        counts = [unbeaten[kind][measure][ours] for kind in KINDS for ours in (SAME, OURS)]
        rows.append([title, *(f"{unbeaten_in} of {total}" for unbeaten_in, total in counts)])
    header = [f"{privacy}, {ours}" for privacy in KINDS.values() for ours in ("same inputs", "defaults")]
    return markdown(["measure", *header], rows)


def measure_rows(cases: list[Case], measure: str) -> tuple[list[list[str]], list[bool]]:
    """Return both of ours and the lowest other at one epsilon, the lowest bold, and whether both of ours are lower."""
    rows, ahead = [], []
    for case in cases:
        errors = case["errors"].get(measure, {})
        if case["epsilon"] != SHOWN or SAME not in errors:
            continue
        others = {name: mean for name, (mean, _) in errors.items() if name not in (OURS, SAME, NOTHING)}
        best = min(others, key=lambda name: others[name]) if others else None
        means = [errors[OURS][0] if OURS in errors else None, errors[SAME][0], others[best] if best else None]
        least = min(mean for mean in means if mean is not None)
        cells = [_bold(mean, mean == least) for mean in means]
        cells[0] = cells[0] or "refused"
        rows.append([case["set"], case["form"], *cells[:2], f"{cells[2]} {best}" if best else "none"])
        ahead.append(means[0] is not None and (best is None or max(means[:2]) < others[best]))
    return rows, ahead


def not_lowest(cases: list[Case]) -> str:
    """Return the rows in which the defaults refuse, or another method is lower than one of ours, clearly or not."""
    by_measure = {measure: measure_rows(cases, measure) for measure in MEASURES}
    rows = [
        [MEASURES[measure], *row]
        for measure, (of_measure, ahead) in by_measure.items()
        for row, both in zip(of_measure, ahead, strict=True)
        if not both
    ]
    total = sum(len(ahead) for _, ahead in by_measure.values())
    said = f"In {total - len(rows)} of {total} cases both columns of eigenveil are lower than every other method."
    return f"{said} The rest:\n\n{markdown(['measure', *HEADER], rows)}"


def _bold(mean: float | None, bold: bool) -> str:
    if mean is None:
        return ""
    return f"**{mean:.3g}**" if bold else f"{mean:.3g}"


def lower_table(cases: list[Case]) -> str:
    """Return every case in which another method is clearly lower than eigenveil with the same inputs, and how much."""
    epsilons = sorted({case["epsilon"] for case in cases})
    found: dict[tuple[str, str, str], dict[float, str]] = {}
    for measure in MEASURES:
        for case in cases:
            if measure in case["lower"]:
                errors, name = case["errors"][measure], case["lower"][measure][0]
                ratio = errors[SAME][0] / errors[name][0]
                cell = f"{name} {ratio:.2f}" if ratio < 10 else f"{name} {ratio:,.0f}"
                found.setdefault((measure, case["set"], case["form"]), {})[case["epsilon"]] = cell
    rows = [
        [MEASURES[measure], name, form, *(cells.get(epsilon, "") for epsilon in epsilons)]
        for (measure, name, form), cells in found.items()
    ]
    header = ["measure", "set", "form", *(f"ε = {epsilon:g}" for epsilon in epsilons)]
    return markdown(header, rows) if rows else "In no case."


def why(cases: list[Case]) -> str:
    """Return a sentence about every method that is clearly lower in some case, most cases first."""
    counts = dict.fromkeys(REASONS, 0)
    for case in cases:
        for names in case["lower"].values():
            for name in names:
                counts[name] += 1
    order = sorted(counts, key=lambda name: -counts[name])
    in_words = {name: f"{count} case{'s' if count > 1 else ''}" for name, count in counts.items()}
    return "\n".join(f"- **{name}** ({in_words[name]}) {REASONS[name]}" for name in order if counts[name])


def main() -> None:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), sections(results)), encoding="utf-8")


if __name__ == "__main__":
    main()
