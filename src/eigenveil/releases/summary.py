"""The summary of a release: its tables with the error of every number, facts and notes, to print or to convert."""

import html
import json
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import numpy as np

from ..errors import InvalidDataError, InvalidParameterError, NoiseWarning, integer_between, one_of
from ..notebook import notebook_grid, notebook_table, printable
from ..numerics import FloatArray
from ..uncertainty import MAY_BE_NOISE, for_readers, holds_zero
from .origin import ComponentsRequest, RegressionRequest, SparseRequest
from .regression import Regression

if TYPE_CHECKING:
    from .record import Release


_Result = TypeVar("_Result")
MAY_BE_ZERO, NOT_DETERMINED_MARK = "may be 0", "not determined"
Value: TypeAlias = str | float | bool | tuple[float, float] | None
# Rows of a table that are printed; the other formats have all.
_PRINTED = 40
_DIGITS = 4
_LEFT = ("text", "yes")
_BACKENDS = ("pandas", "polars", "pyarrow")


@dataclass(frozen=True)
class Column:
    """A column of a summary table.

    Parameters
    ----------
    name : str
        Name in JSON and in frames.
    heading : str
        Heading for readers.
    kind : {"text", "number", "error", "p", "share", "angle", "yes", "interval", "shares"}
        What the values are; intervals, also those of shares, are pairs of numbers.
    """

    name: str
    heading: str
    kind: str = "number"


@dataclass(frozen=True)
class Table:
    """Rows of typed values under columns; None where a value is not known.

    Parameters
    ----------
    title : str
    columns : tuple of Column
    rows : tuple of tuple
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]

    def lines(self, most: int | None = None) -> tuple[tuple[Column, ...], list[list[str]]]:
        """Return the columns that have values, and the values of the first rows, or of all, as text for readers.

        Numbers have as many decimals as the smallest standard error of their row needs for two digits.
        """
        known = [place for place in range(len(self.columns)) if any(row[place] is not None for row in self.rows)]
        columns = tuple(self.columns[place] for place in known)
        cells = []
        for row in self.rows[:most]:
            errors = [value for value, column in zip(row, self.columns, strict=True) if column.kind == "error"]
            sizes = [one for one in errors[:1] if isinstance(one, float) and math.isfinite(one) and one > 0]
            places = max(0, 1 - math.floor(math.log10(sizes[0]))) if sizes and 1e-6 < sizes[0] < 1e9 else None
            cells.append([_text(row[place], self.columns[place].kind, places) for place in known])
        return columns, cells

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: a number that is not finite is None."""
        names = [column.name for column in self.columns]
        rows = [dict(zip(names, map(_plain, row), strict=True)) for row in self.rows]
        return {"title": self.title, "columns": names, "rows": rows}

    def values(self) -> dict[str, list[Any]]:
        """Return the values by column; an interval becomes two columns, and a number that is not known NaN."""
        found: dict[str, list[Any]] = {}
        for place, column in enumerate(self.columns):
            given = [row[place] for row in self.rows]
            if column.kind in ("interval", "shares"):
                ends = [(math.nan, math.nan) if one is None else one for one in given]
                for side, name in enumerate(("low", "high")):
                    found[f"{column.name}_{name}"] = [float(pair[side]) for pair in ends]  # type: ignore[index]
            elif column.kind in ("text", "yes"):
                found[column.name] = given
            else:
                found[column.name] = [math.nan if one is None else float(one) for one in given]  # type: ignore[arg-type]
        return found


@dataclass(frozen=True)
class Summary:
    """Tables of a release with the error of every number, its facts, and notes on assumptions.

    Print it, show it in a notebook, or convert it: `to_dict`, `to_json`, `to_latex`, `to_frame`. Spends no budget.

    Parameters
    ----------
    title : str
    facts : mapping of str to str or int
        Number of rows, guarantee, mechanism, statistic and the like.
    tables : tuple of Table
    notes : tuple of str
    """

    title: str
    facts: Mapping[str, str | int]
    tables: tuple[Table, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        blocks = [table.lines(_PRINTED) for table in self.tables]
        grids = [[[column.heading for column in columns], *cells] for columns, cells in blocks]
        all_widths = [[max(map(len, column)) for column in zip(*lines, strict=True)] for lines in grids]
        whole = max([len(self.title), 60, *(sum(widths) + 2 * (len(widths) - 1) for widths in all_widths)])
        wide, thin = "=" * whole, "-" * whole
        name = max((len(key) for key in self.facts), default=0) + 1
        written = [self.title.center(whole).rstrip(), wide]
        for key, value in self._fact_texts().items():
            written += _wrapped(value, whole, f"{key}:".ljust(name + 1))
        for table, (columns, _), lines, widths in zip(self.tables, blocks, grids, all_widths, strict=True):
            written += [wide, table.title, thin]
            for at, line in enumerate(lines):
                padded = [
                    cell.ljust(width) if column.kind in _LEFT else cell.rjust(width)
                    for cell, width, column in zip(line, widths, columns, strict=True)
                ]
                written += ["  ".join(padded).rstrip(), *([thin] if at == 0 else [])]
            if len(table.rows) > _PRINTED:
                written.append(f"{_PRINTED} of {len(table.rows):,} rows; to_frame() and to_dict() have all.")
        written.append(wide)
        for at, note in enumerate(self.notes, 1):
            written += _wrapped(note, whole, f"[{at}] ")
        return "\n".join(written)

    def _repr_html_(self) -> str:
        """Return the summary as HTML for a notebook."""
        grids = []
        for table in self.tables:
            columns, cells = table.lines()
            plain = [column.kind == "text" for column in columns]
            rows = [
                [cell if text else for_readers(cell) for cell, text in zip(line, plain, strict=True)] for line in cells
            ]
            grids.append(f"<p><strong>{html.escape(table.title)}</strong></p>")
            grids.append(notebook_grid([column.heading for column in columns], rows))
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        more = "".join(grids) + (f"<ul>{notes}</ul>" if notes else "")
        return notebook_table(self.title, self._fact_texts(), more=more)

    def to_html(self) -> str:
        """Return the summary as an HTML page of its own."""
        head = f'<meta charset="utf-8"><title>{html.escape(self.title)}</title>'
        return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{self._repr_html_()}</body></html>\n'

    def to_latex(self) -> str:
        """Return the tables as LaTeX; needs the package booktabs."""
        facts = [f"{key}: {value}" for key, value in self._fact_texts().items()]
        below = " ".join(f"{text.rstrip('.')}." for text in (*facts, *self.notes))
        written = [f"% {' '.join(self.title.split())}"]
        for table in self.tables:
            columns, cells = table.lines()
            layout = "".join("l" if column.kind in _LEFT else "r" for column in columns)
            body = [
                [
                    _latex_text(cell) if column.kind == "text" else _latex_text(cell).replace("-", "$-$")
                    for cell, column in zip(line, columns, strict=True)
                ]
                for line in cells
            ]
            head, *lines = (
                rf"{' & '.join(line)} \\" for line in ([_latex_text(one.heading) for one in columns], *body)
            )
            written += [r"\begin{table}", rf"\caption{{{_latex_text(f'{self.title}: {table.title}')}}}"]
            written += [rf"\begin{{tabular}}{{{layout}}}", r"\toprule", head, r"\midrule", *lines, r"\bottomrule"]
            written += [r"\end{tabular}", r"\end{table}"]
        return "\n".join([*written, rf"{{\footnotesize {_latex_text(below)}\par}}", ""])

    def _fact_texts(self) -> dict[str, str]:
        return {key: f"{value:,}" if isinstance(value, int) else value for key, value in self.facts.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON. Intervals are [low, high]; a number that is not finite is None."""
        tables = [table.to_dict() for table in self.tables]
        return {"title": self.title, "facts": dict(self.facts), "tables": tables, "notes": list(self.notes)}

    def to_json(self) -> str:
        """Return `to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False, ensure_ascii=False)

    def to_frame(self, table: int = 0, *, backend: Literal["pandas", "polars", "pyarrow"] = "pandas") -> Any:
        """Return one table as a data frame.

        Parameters
        ----------
        table : int
            Its position in `tables`.
        backend : {"pandas", "polars", "pyarrow"}
            The package of the frame, which has to be installed.
        """
        import narwhals as nw

        chosen = self.tables[integer_between("table", table, 0, len(self.tables) - 1)]
        one_of("backend", backend, _BACKENDS)
        try:
            return nw.from_dict(chosen.values(), backend=backend).to_native()
        except ImportError:
            raise InvalidParameterError(f"backend={backend!r} needs the package {backend}; install it.") from None


# Values as text.


def _text(value: Value, kind: str, places: int | None = None) -> str:
    """Return a value for readers; numbers with so many decimals, or with four digits."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        if kind == "shares":
            return f"[{100 * value[0]:.1f}, {100 * value[1]:.1f}] %"
        return f"[{_number(value[0], places)}, {_number(value[1], places)}]"
    if not math.isfinite(value):
        return _number(value)
    match kind:
        case "share":
            return f"{100 * value:.1f} %"
        case "angle":
            return f"{value:.1f}°"
        case "p":
            return f"{value:.4f}" if value >= 1e-4 else "<0.0001"
        case "error":
            return _number(value, digits=2)
    return _number(value, places)


def _number(value: float, places: int | None = None, digits: int = _DIGITS) -> str:
    if not math.isfinite(value):
        return "unknown" if math.isnan(value) else "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if places is None and not -5 <= size < 9:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(0, digits - 1 - size) if places is None else places}f}"


def _plain(value: Value) -> Any:
    if isinstance(value, tuple):
        return [_plain(end) for end in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _wrapped(text: str, width: int, first: str) -> list[str]:
    """Return lines of a text behind a heading; lines after the first are indented alike."""
    lines, line = [], first
    for word in text.split(" "):
        if len(line) + len(word) > width and line.strip() and line not in (first, " " * len(first)):
            lines.append(line.rstrip())
            line = " " * len(first)
        line += f"{word} "
    return [*lines, line.rstrip()]


_LATEX = {
    **{sign: rf"\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "∞": r"$\infty$",
    "°": r"$^\circ$",
    "²": r"$^2$",
    "ε": r"$\varepsilon$",
    "δ": r"$\delta$",
    "±": r"$\pm$",
    "≤": r"$\leq$",
}


def _latex_text(text: str) -> str:
    """Return a text with everything escaped that LaTeX would obey."""
    return "".join(_LATEX.get(sign, sign) for sign in text)


# Which tables a release has.


def shown_names(release: "Release") -> tuple[str, ...]:
    """Return the names of the features as they are shown; x0, x1, ... where the release has none."""
    names, width = release.feature_names, release.n_features
    if names is None or len(names) != width:
        return tuple(f"x{position}" for position in range(width))
    return tuple(map(printable, names))


def noted(release: "Release", read: Callable[["Release"], _Result]) -> tuple[_Result, tuple[str, ...]]:
    """Read something of a release, and return it with the warnings about noise as notes that name the features."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NoiseWarning)
        found = read(release)
    heard = dict.fromkeys(str(one.message) for one in caught if issubclass(one.category, NoiseWarning))
    return found, tuple(by_name(warning, shown_names(release)) for warning in heard)


def by_name(warning: str, names: tuple[str, ...]) -> str:
    """Return a warning with feature names in place of x0, x1, ...: a table shows all names anyway."""
    if any(re.fullmatch(r"x\d+", name) for name in names):
        return warning
    return re.sub(r"\bx(\d+)\b", lambda at: names[int(at[1])] if int(at[1]) < len(names) else at[0], warning)


def summarize(
    release: "Release",
    target: int | str | Sequence[int | str] | None = None,
    features: Sequence[int | str] | None = None,
    *,
    alpha: float | None = None,
    base: Mapping[str, str] | None = None,
) -> Summary:
    """Return the tables of a release with the error of every number. Spends no budget.

    With `target`, and for `PrivateRidge`, a regression; for components, their variances and loadings; otherwise means,
    standard deviations and correlations.

    Parameters
    ----------
    target : int, str or list of these, optional
        The column to predict. For a list, there is a regression of each of them, and none is among the features.
    features : sequence, optional
        The columns to predict from; all others by default. A column of the schema stands for its features.
    alpha : float, optional
        Regularization, as in `regress`; 0, least squares, by default, and for `PrivateRidge` that of the fit.
    base : mapping, optional
        Base level of categorical columns, by name; for least squares the first category by default. Coefficients of the
        other categories are differences from it.

    Examples
    --------
    >>> from eigenveil import PrivateCovariance
    >>> rows = np.random.default_rng(0).normal(size=(50_000, 2)) @ [[1.0, 0.5], [0.0, 1.0]]
    >>> release = PrivateCovariance(epsilon=1.0, bounds=(-5, 5)).fit(rows).release_
    >>> [table.title.partition(",")[0] for table in release.summary().tables]
    ['Means', 'Standard deviations', 'Correlations']
    >>> release.summary(1).tables[0].rows[0][0]
    'x0'
    """
    request = release.origin.request
    asked = not (features is None and alpha is None and base is None)
    if target is None and isinstance(request, RegressionRequest) and release.matrix.has_known_noise:
        target, alpha = request.targets(release.n_features), request.alpha if alpha is None else alpha
        base = base if asked else {}  # as `release.regression` has it
    elif target is not None and alpha is None:
        alpha = 0.0
    elif target is None and asked:
        raise InvalidParameterError("features, alpha and base are for a regression; give target too.")
    if target is not None:
        regressions = _asked(release, target, features, alpha, base)
        parts, heard = noted(release, lambda one: _regressions(one, regressions))
    elif isinstance(request, ComponentsRequest | SparseRequest) or not release.matrix.has_matrix:
        parts, heard = noted(release, _components)
    else:
        parts, heard = noted(release, _matrix)
    title, own_facts, tables, notes = parts
    origin = release.origin
    facts: dict[str, str | int | None] = {
        release.guarantee.unit.counted.capitalize(): release.n_rows,
        "Privacy": str(release.guarantee),
        "Mechanism": origin.mechanism,
        "Statistic": origin.row_rule.statistic,
        "Released": origin.created or None,
    }
    known = {name: value for name, value in facts.items() if value is not None}
    return Summary(title, {**known, **own_facts}, tables, tuple(dict.fromkeys((*notes, *heard))))


_Parts: TypeAlias = tuple[str, dict[str, str | int], tuple[Table, ...], list[str]]
_NOISE, _POPULATION = "95 % noise only", "95 % population"
_ERRORS = (
    Column("estimate", "estimate"),
    Column("noise_error", "s.e. noise", "error"),
    Column("sampling_error", "s.e. sampling", "error"),
    Column("noise_interval", _NOISE, "interval"),
    Column("population_interval", _POPULATION, "interval"),
)
_MARK = Column("mark", "note", "text")


def _knows_sampling(release: "Release") -> bool:
    return release.intervals.unavailable is None and release.n_rows is not None


def _notes(release: "Release") -> Iterator[str]:
    """Yield the notes on the meaning of the columns and on their assumptions."""
    intervals = release.intervals
    if intervals.unavailable is not None:
        yield f"No standard errors and intervals: {intervals.unavailable[0].lower()}{intervals.unavailable[1:]}"
        return
    population = (
        "Population: also covers sampling error, assuming independent rows and the fourth moments of a Gaussian "
        "distribution."
        if _knows_sampling(release)
        else f"The number of {release.matrix.counted} is not known, so sampling error is not either."
    )
    yield f"Noise only: for {intervals.about}; covers the privacy noise. {population}"
    yield f"{MAY_BE_NOISE}: the noise-only interval contains 0. {MAY_BE_ZERO}: the population interval does."
    if release.origin.may_clip:
        yield "Rows may have been clipped. Clipping is not noise: intervals do not cover its bias."


_SHRUNK = "Estimates are shrunk to reduce noise. Standard errors are those before; intervals hold the estimate."


def _pair(ends: Any) -> tuple[float, float] | None:
    return None if ends is None else (float(ends[0]), float(ends[1]))


def _at(values: Any, place: Any) -> Any:
    return None if values is None else values[place]


def _real(value: Any) -> float | None:
    return None if value is None else float(value)


def _mark(noise: Any, population: Any) -> str:
    """Return the mark of a value that is not distinguishable from 0."""
    if noise is None:
        return ""
    if not np.isfinite(noise).all():
        return NOT_DETERMINED_MARK
    if holds_zero(noise):
        return MAY_BE_NOISE
    return MAY_BE_ZERO if population is not None and holds_zero(population) else ""


def _errors_of(estimate: Any, errors: Any, noise: Any, population: Any) -> tuple[Value, ...]:
    """Return the cells of `_ERRORS`; `errors` is a pair of standard errors."""
    first, second = (None, None) if errors is None else errors
    return _real(estimate), _real(first), _real(second), _pair(noise), _pair(population)


# The matrix: means, standard deviations, correlations.


def _matrix(release: "Release") -> _Parts:
    names, matrix, tables, notes = shown_names(release), release.matrix, [], list(_notes(release))
    release.spectrum.warn_of_features()
    if matrix.centred and release.origin.row_rule.keeps_lengths:
        tables.append(_means(release, names))
    if release.origin.row_rule.keeps_lengths:
        tables.append(_spreads(release, names))
    if len(names) > 1:
        tables.append(_correlations(release, names))
        if release.intervals.unavailable is None:
            notes.append(
                "Intervals of correlations are simultaneous: all together hold the true values with probability 95 %. "
                "Their factor is the quantile of the largest standardized error (max-t), simulated from the known "
                "distribution of the noise."
            )
            tested = "that Kendall's tau, and so its sine, is 0" if matrix.of_signs else "that the correlation is 0"
            notes.append(
                f"Adjusted p: test {tested} in the {'population' if _knows_sampling(release) else 'data'}. Among the "
                "pairs with at most 0.05, an expected share of at most 5 % are false discoveries (Benjamini and "
                "Yekutieli, for any dependence)."
            )
    if release.intervals.unavailable is None:
        notes.insert(1, _SHRUNK)
    centred = "covariance" if matrix.centred else "second moments about the origin"
    what = "correlations" if not release.origin.row_rule.keeps_lengths else centred
    return f"Private {what} of {len(names)} features", {"Features": release.features_counted}, tuple(tables), notes


def _means(release: "Release", names: Sequence[str]) -> Table:
    view, known = release.intervals, _knows_sampling(release)
    errors, noise = view.standard_errors("mean"), view.mean()
    population = view.mean(of="population") if known else None
    rows = [
        (name, *_errors_of(release.mean[i], _both(errors, i), _at(noise, i), _at(population, i)))
        for i, name in enumerate(names)
    ]
    return Table("Means", (Column("feature", "feature", "text"), *_ERRORS), tuple(rows))


def _both(errors: tuple[FloatArray, FloatArray | None] | None, place: Any) -> Any:
    return None if errors is None else (errors[0][place], _at(errors[1], place))


def _spreads(release: "Release", names: Sequence[str]) -> Table:
    """Return standard deviations: roots of variances and of the ends of their intervals."""
    view, below = release.intervals, release.spectrum.features_below_noise
    variances = np.maximum(np.diag(np.asarray(release.covariance)), 0.0)
    errors, noise = view.standard_errors("covariance"), view.covariance()
    population = view.covariance(of="population") if _knows_sampling(release) else None
    rows = []
    for i, name in enumerate(names):
        size = math.sqrt(variances[i])
        both = _both(errors, (i, i))
        # The root of a variance that may be 0 has no standard error.
        unknown = i in below or size == 0
        roots = None
        if both is not None:
            roots = [None if one is None else math.nan if unknown else float(one) / (2 * size) for one in both]
        ends = [None if one is None else np.sqrt(np.maximum(one[i, i], 0.0)) for one in (noise, population)]
        rows.append((name, *_errors_of(size, roots, *ends), MAY_BE_NOISE if i in below else ""))
    title = "Standard deviations" if release.matrix.centred else "Root mean squares"
    return Table(title, (Column("feature", "feature", "text"), *_ERRORS, _MARK), tuple(rows))


def _correlations(release: "Release", names: Sequence[str]) -> Table:
    """Return the correlations of all pairs, those with the largest first."""
    view, known = release.intervals, _knows_sampling(release)
    correlation, errors = np.asarray(release.correlation), view.standard_errors("correlation")
    noise = view.correlation(simultaneous=True)
    population = view.correlation(of="population", simultaneous=True) if known else None
    tests = view.correlation_tests(of="population" if known else "data")
    places = np.transpose(np.triu_indices(len(names), 1))
    order = np.argsort(-np.abs(correlation[tuple(places.T)]), kind="stable")
    rows = []
    for i, j in (tuple(map(int, places[at])) for at in order):
        ends = _at(noise, (i, j)), _at(population, (i, j))
        cells = _errors_of(correlation[i, j], _both(errors, (i, j)), *ends)
        adjusted = None if tests is None else float(tests.adjusted_p_values[i, j])
        rows.append((names[i], names[j], *cells, adjusted, _mark(*ends)))
    about = "" if noise is None else ", simultaneous intervals"
    return Table(
        f"Correlations{about}",
        (
            Column("feature", "feature", "text"),
            Column("with", "with", "text"),
            *_ERRORS,
            Column("adjusted_p_value", "adjusted p", "p"),
            _MARK,
        ),
        tuple(rows),
    )


# Components.


def _components(release: "Release") -> _Parts:
    names, spectrum, request = shown_names(release), release.spectrum, release.origin.request
    notes, sparse = list(_notes(release)), isinstance(request, SparseRequest)
    facts: dict[str, str | int] = {"Features": release.features_counted}
    title = f"Private {'sparse ' if sparse else ''}principal components of {len(names)} features"
    try:
        components = release.components
    except (InvalidDataError, InvalidParameterError):
        if release.mechanism is not None:
            raise
        return title, facts, (), [*notes, "This version of eigenveil cannot compute components from this release."]
    errors, known = spectrum.loading_errors(), _knows_sampling(release)
    population = spectrum.loading_errors(of="population") if known else None
    if not spectrum.ordered:
        notes.append("The directions span the released subspace and have no order of importance.")
    if release.explained_variance is None:
        notes.append("Only directions were released, so there are no variances.")
    elif release.explained_variance_interval is not None:
        notes.append("Intervals of variances and shares are for the privacy noise, each by itself.")
    if release.above_noise is not None:
        notes.append(
            "Above the noise: noise alone would not give such an eigenvalue; too many in at most 1 of 20 releases. "
            "Determined: the 95 % bound of the angle to the true component is below 45°; angle is the expected one."
        )
    if errors is not None:
        notes.append(
            "Bands of loadings are simultaneous, for all loadings of the components that are determined: max-t, "
            "simulated from the known distribution of the noise. The sign of a whole component has no meaning."
        )
    else:
        why = "sparse" if sparse else "sampled" if spectrum.drawn_directions is not None else "these"
        notes.append(f"The errors of {why} directions and of their loadings are not known.")
    tables = (_scree(release, errors, population), _loadings(release, names, components, errors, population))
    return title, facts, tables, notes


def _scree(release: "Release", errors: Any, population: Any) -> Table:
    spectrum = release.spectrum
    columns = (
        Column("component", "component", "text"),
        Column("variance", "variance"),
        Column("variance_interval", _NOISE, "interval"),
        Column("share", "share", "share"),
        Column("share_interval", _NOISE, "shares"),
        Column("above_noise", "above noise", "yes"),
        Column("angle", "angle", "angle"),
        Column("angle_bound", "bound", "angle"),
        Column("angle_bound_population", "bound, pop.", "angle"),
        Column("determined", "determined", "yes"),
    )
    variances, ends = release.explained_variance, release.explained_variance_interval
    shares, share_ends = release.explained_variance_ratio, spectrum.explained_variance_ratio_interval
    rows = []
    for i in range(len(release.components)):
        above = _at(release.above_noise, i)
        rows.append(
            (
                str(i + 1),
                _real(_at(variances, i)),
                _pair(_at(ends, i)),
                _real(_at(shares, i)),
                _pair(_at(share_ends, i)),
                None if above is None else bool(above),
                None if errors is None else float(errors.angle[i]),
                None if errors is None else float(errors.angle_bound[i]),
                None if population is None else float(population.angle_bound[i]),
                None if errors is None else not bool(errors.undetermined[i]),
            )
        )
    return Table("Components", columns, tuple(rows))


def _loadings(release: "Release", names: Sequence[str], components: FloatArray, errors: Any, population: Any) -> Table:
    """Return the loadings of every component, the largest first; of sparse components those that are not 0."""
    bands = release.spectrum.loading_bands()
    wider = None if population is None else release.spectrum.loading_bands(of="population")
    sparse, rows = isinstance(release.origin.request, SparseRequest), []
    for i, direction in enumerate(components):
        for j in np.argsort(-np.abs(direction), kind="stable"):
            if sparse and direction[j] == 0:
                continue
            lost = errors is not None and bool(errors.undetermined[i])
            both: tuple[float, float | None] | None = None
            if lost:
                both = math.nan, math.nan
            elif errors is not None:
                both = errors.standard_errors[i, j], None if population is None else math.nan
                if population is not None and not population.undetermined[i]:
                    # What sampling adds to the error of the noise.
                    square = population.standard_errors[i, j] ** 2 - errors.standard_errors[i, j] ** 2
                    both = errors.standard_errors[i, j], math.sqrt(max(0.0, square))
            ends = _at(bands, (i, j)), _at(wider, (i, j))
            cells = _errors_of(direction[j], both, *ends)
            rows.append((str(i + 1), names[j], *cells, NOT_DETERMINED_MARK if lost else _mark(*ends)))
    columns = (Column("component", "component", "text"), Column("feature", "feature", "text"), *_ERRORS, _MARK)
    return Table("Loadings" if bands is None else "Loadings, simultaneous bands", columns, tuple(rows))


# Regressions.


def _asked(
    release: "Release",
    target: int | str | Sequence[int | str],
    features: Sequence[int | str] | None,
    alpha: float | None,
    base: Mapping[str, str] | None,
) -> Callable[[str], tuple[Regression, ...]]:
    """Return the regressions that were asked for, as a function of what their intervals are about."""
    each = [target] if isinstance(target, str) or not isinstance(target, Sequence) else target
    positions, names = [release.matrix.position(one) for one in each], release.feature_names or ()
    used = () if release.origin.schema is None else release.origin.schema.used
    predicted = {names[position] for position in positions} if names else set()
    own = {name for one in used if len(one.features) > 1 and predicted & {*one.features} for name in one.features}
    if features is None and own:  # the features of one column determine each other
        features = [name for name in names if name not in own | predicted]
    if base and not alpha:  # columns that are not named have a base level too
        chosen = range(release.n_features) if features is None else release.matrix.positions(features)
        there = {names[one] for one in chosen} if names else set()
        first = {one.name: one.categories[0] for one in used if one.kind == "category" and {*one.features} <= there}
        base = {**first, **base}
    return lambda of: release.regress(positions, features, alpha=alpha, of=of, base=base)


def _regressions(release: "Release", regressions: Callable[[str], tuple[Regression, ...]]) -> _Parts:
    names, known = shown_names(release), _knows_sampling(release)
    fits = regressions("data")
    wider: Sequence[Regression | None] = regressions("population") if known else [None] * len(fits)
    targets, several = ", ".join(names[fit.target] for fit in fits), len(fits) > 1
    alphas = dict.fromkeys(f"{fit.alpha:.4g}" for fit in fits if fit.alpha)
    facts: dict[str, str | int] = {
        "Targets" if several else "Target": targets,
        "Method": f"ridge, alpha = {', '.join(alphas)} on the scale of one row" if alphas else "least squares",
    }
    tables: list[Table] = []
    notes: list[list[str]] = []
    explained, of_all = [], [*_notes(release)]
    for fit, other in zip(fits, wider, strict=True):
        of_target = f" of {names[fit.target]}" if several else ""
        tables.append(_coefficients(release, f"Coefficients{of_target}", fit, other, names))
        if fit.reduced is not None:
            wider_reduced = None if other is None else other.reduced
            if wider_reduced is not None and wider_reduced.features != fit.reduced.features:
                wider_reduced = None
            title = f"Regression{of_target} on the features that can be resolved"
            tables.append(_coefficients(release, title, fit.reduced, wider_reduced, names))
        ends = [None if one is None else _pair(one.r2_interval) for one in (fit, other)]
        explained.append((f"R²{of_target}", float(fit.r2), *ends))
        own = [*fit.notes, *(() if fit.reduced is None else fit.reduced.notes)]
        said = {_without_numbers(note) for note in [*of_all, *own]}
        own += [] if other is None else [note for note in other.notes if _without_numbers(note) not in said]
        notes.append(own)
    shared = {*notes[0]}.intersection(*notes)
    of_all += [note for note in notes[0] if note in shared]
    for fit, own in zip(fits, notes, strict=True):
        of_all += [f"{names[fit.target]}: {note}" for note in own if note not in shared]
    columns = (Column("quantity", "quantity", "text"), *(_ERRORS[place] for place in (0, 3, 4)))
    tables.append(Table("Fit", columns, tuple(explained)))
    return f"Private regression of {targets}", facts, tuple(tables), of_all


def _without_numbers(note: str) -> str:
    return re.sub(r"\d[\d.e-]*", "", note)


def _coefficients(
    release: "Release", title: str, fit: Regression, wider: Regression | None, names: Sequence[str]
) -> Table:
    rows: list[tuple[Value, ...]] = []
    for place, feature in enumerate(fit.features):
        ends = fit.coef_interval[place], None if wider is None else wider.coef_interval[place]
        errors = fit.noise_error[place], None if wider is None else wider.sampling_error[place]
        rows.append((names[feature], *_errors_of(fit.coef[place], errors, *ends), _mark(*ends)))
    if release.matrix.centred:
        at, of_all = fit.fitted_mean(np.zeros(len(fit.features))), None
        if wider is not None:
            of_all = wider.fitted_mean(np.zeros(len(fit.features)))
        ends = at.interval, None if of_all is None else of_all.interval
        errors = at.noise_error, None if of_all is None else of_all.sampling_error
        rows.append(("intercept", *_errors_of(fit.intercept, errors, *ends), _mark(*ends)))
    return Table(title, (Column("feature", "feature", "text"), *_ERRORS, _MARK), tuple(rows))
