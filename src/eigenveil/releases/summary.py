"""`Summary`: tables that can be published, with the error of every number; one function for each format."""

import html
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ..display import for_readers, notebook_grid, notebook_table
from ..errors import InvalidParameterError, integer_between, one_of

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
        return _as_text(self)

    def _repr_html_(self) -> str:
        """Return the summary as HTML for a notebook."""
        return _as_html(self)

    def to_html(self) -> str:
        """Return the summary as an HTML page of its own."""
        head = f'<meta charset="utf-8"><title>{html.escape(self.title)}</title>'
        return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{_as_html(self)}</body></html>\n'

    def to_latex(self) -> str:
        """Return the tables as LaTeX; needs the package booktabs."""
        return _as_latex(self)

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
    """Return a value for readers; numbers with so many decimals, or with four digits.

    Examples
    --------
    >>> _text(0.123456, "number"), _text(math.inf, "number"), _text(math.nan, "number"), _text(None, "number")
    ('0.1235', '∞', 'unknown', '')
    >>> _text((-math.inf, 12345.6), "interval"), _text((0.1, 0.25), "shares"), _text(0.123, "share")
    ('[-∞, 12,346]', '[10.0, 25.0] %', '12.3 %')
    >>> _text(0.123456, "number", 2), _text(0.0123456, "error"), _text(1e-9, "p"), _text(12.3456, "angle")
    ('0.12', '0.012', '<0.0001', '12.3°')
    """
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


# One function for each format.


def _as_text(summary: Summary) -> str:
    blocks = [table.lines(_PRINTED) for table in summary.tables]
    grids = [[[column.heading for column in columns], *cells] for columns, cells in blocks]
    all_widths = [[max(map(len, column)) for column in zip(*lines, strict=True)] for lines in grids]
    whole = max([len(summary.title), 60, *(sum(widths) + 2 * (len(widths) - 1) for widths in all_widths)])
    wide, thin = "=" * whole, "-" * whole
    name = max((len(key) for key in summary.facts), default=0) + 1
    written = [summary.title.center(whole).rstrip(), wide]
    for key, value in _fact_texts(summary).items():
        written += _wrapped(value, whole, f"{key}:".ljust(name + 1))
    for table, (columns, _), lines, widths in zip(summary.tables, blocks, grids, all_widths, strict=True):
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
    for at, note in enumerate(summary.notes, 1):
        written += _wrapped(note, whole, f"[{at}] ")
    return "\n".join(written)


def _fact_texts(summary: Summary) -> dict[str, str]:
    return {key: f"{value:,}" if isinstance(value, int) else value for key, value in summary.facts.items()}


def _wrapped(text: str, width: int, first: str) -> list[str]:
    """Return lines of a text behind a heading; lines after the first are indented alike."""
    lines, line = [], first
    for word in text.split(" "):
        if len(line) + len(word) > width and line.strip() and line not in (first, " " * len(first)):
            lines.append(line.rstrip())
            line = " " * len(first)
        line += f"{word} "
    return [*lines, line.rstrip()]


def _as_html(summary: Summary) -> str:
    grids = []
    for table in summary.tables:
        columns, cells = table.lines()
        plain = [column.kind == "text" for column in columns]
        rows = [[cell if text else for_readers(cell) for cell, text in zip(line, plain, strict=True)] for line in cells]
        grids.append(f"<p><strong>{html.escape(table.title)}</strong></p>")
        grids.append(notebook_grid([column.heading for column in columns], rows))
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in summary.notes)
    more = "".join(grids) + (f"<ul>{notes}</ul>" if notes else "")
    return notebook_table(summary.title, _fact_texts(summary), more=more)


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
    r"""Return a text with everything escaped that LaTeX would obey.

    Examples
    --------
    >>> print(_latex_text("50 % of a_b & $x"))
    50 \% of a\_b \& \$x
    """
    return "".join(_LATEX.get(sign, sign) for sign in text)


def _as_latex(summary: Summary) -> str:
    facts = [f"{key}: {value}" for key, value in _fact_texts(summary).items()]
    below = " ".join(f"{text.rstrip('.')}." for text in (*facts, *summary.notes))
    written = [f"% {' '.join(summary.title.split())}"]
    for table in summary.tables:
        columns, cells = table.lines()
        layout = "".join("l" if column.kind in _LEFT else "r" for column in columns)
        body = [[_latex_cell(cell, column.kind) for cell, column in zip(line, columns, strict=True)] for line in cells]
        head, *lines = (rf"{' & '.join(line)} \\" for line in ([_latex_text(one.heading) for one in columns], *body))
        written += [r"\begin{table}", rf"\caption{{{_latex_text(f'{summary.title}: {table.title}')}}}"]
        written += [rf"\begin{{tabular}}{{{layout}}}", r"\toprule", head, r"\midrule", *lines, r"\bottomrule"]
        written += [r"\end{tabular}", r"\end{table}"]
    return "\n".join([*written, rf"{{\footnotesize {_latex_text(below)}\par}}", ""])


def _latex_cell(cell: str, kind: str) -> str:
    text = _latex_text(cell)
    return text if kind == "text" else text.replace("-", "$-$")
