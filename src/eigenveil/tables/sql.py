"""Rows in a database, summed where they are: one generated statement returns the exact integers of `SecondMoments`.

The statement does what `RowBound` and `SecondMoments` do, step by step, in the arithmetic that databases share: float64
with one rounding an operation, and whole numbers. What databases do not share is avoided:

- Constants are whole numbers times powers of two, since some databases read one decimal in 500 wrongly.
- ``floor`` of sizes, with the sign multiplied back: a cast to an integer rounds in some databases and truncates in
  others.
- No product underflows and none overflows, since PostgreSQL raises an error for either: rows are first put on a grid so
  coarse that nothing overflows, and sizes that will become 0 are raised to the smallest that still does.
- The power of two below a number is found by Rump's formula; there is no ``frexp``.
- Each step is a query of its own in a flat list; where a database would put the steps into one another again, which
  doubles expressions at every step, a ``LIMIT`` above all numbers of rows keeps them apart.
- What comes back are whole numbers. A sum that came back as a float is refused.

Before a database is used for the first time, hard rows go through the same statement and are compared with
`SecondMoments`; a database that gives another sum is refused. Ibis is not imported unless the data are a table of Ibis.
"""

import math
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from operator import add, and_
from typing import Any

import numpy as np

from ..errors import EigenveilError, EngineError, InvalidDataError, InvalidParameterError, quoted
from ..moments.bound import NOT_FINITE, RowBound, target_exponent
from ..moments.second_moments import SecondMoments
from ..moments.units import Blocks
from .base import Engine, EngineSource
from .encoder import Declared

# Columns of one SELECT, where few are allowed; more become rows of a UNION ALL. Databases that put stages into one
# another, unless there is a LIMIT between them.
_MOST_COLUMNS = {"sqlite": 1900, "postgres": 1600}
_NO_LIMIT = 2**62
# Rows of one privacy unit: sums of two limbs of their squared norms are exact up to here.
_MOST_ROWS_OF_UNIT = 2**26
_LIMB = 2.0**26

_FETCH = "fetch the rows, for example by table.to_pyarrow_batches(), and give these"


class SqlSource(EngineSource):
    """The rows of an Ibis table, which stay in its database.

    Parameters
    ----------
    table : ibis.expr.types.Table
        A table or a query.
    declared : Declared
        Which columns to read.
    """

    reads_once = True  # one statement for the matrix; nothing is measured before it

    def __init__(self, table: Any, declared: Declared) -> None:
        available, where = list(table.columns), "the table"
        names = declared.resolve(available, where)[0]
        self.feature_names = tuple(names)
        self.n_features = len(names)
        self.columns_listed = declared.columns is not None
        unit = declared.unit_in(available, where)
        self.by_unit = unit is not None
        for name in names:
            kind = table[name].type()
            if not (kind.is_integer() or kind.is_floating() or kind.is_boolean()):
                raise InvalidDataError(
                    f"The column {quoted(name)} has the type {kind}, and a database adds up integers, floats and "
                    "truth values; cast it in the query, or leave it out."
                )
        if unit is not None and not table[unit].type().is_integer():
            raise InvalidDataError(
                f"The column {quoted(unit)} of the privacy unit must hold integers: databases differ in which texts "
                f"they take for the same. Cast it in the query, or {_FETCH}."
            )
        self._table, self._names, self._unit = table, names, unit

    def collect(self, make: Callable[[], Any]) -> Any:
        """Return the second moments of all rows, added up by the database; other statistics are refused."""
        empty = make()
        if not isinstance(empty, SecondMoments):
            raise InvalidDataError(
                "A database adds up rows within public bounds, and nothing else; give bounds or norm_bound and "
                f"stages=1, or {_FETCH}."
            )
        backend = self._table.get_backend()
        _check_backend(backend, empty.bound)
        return Statement(self._table, empty.bound, self._names, backend, self._unit).moments(self._names)

    def mapped(self, function: Callable[[Any], Any], names: Sequence[str]) -> Any:
        """Refuse: what is made of single rows does not stay in the database."""
        raise InvalidDataError(f"Rows in a database are added up there, and not transformed; {_FETCH}.")


class Statement:
    """The one query that returns the sums of integer rows.

    Parameters
    ----------
    table : ibis.expr.types.Table
    bound : RowBound
    columns : sequence of str
    backend : ibis backend
    unit : str, optional
        The column of the privacy unit, where it is the unit of `bound`.
    """

    def __init__(self, table: Any, bound: RowBound, columns: Sequence[str], backend: Any, unit: str | None) -> None:
        if bound.statistic != "clipped" or bound.most_weight is not None or bound.mapped_from is not None:
            raise InvalidParameterError("Only clipped rows without weights are added up in a database.")
        self.bound, self.d, self.backend, self.unit = bound, len(columns), backend, unit
        rows = self._integer_rows(table, columns)
        self.rows = rows if unit is None else self._units_together(rows)

    def moments(self, feature_names: Sequence[str]) -> SecondMoments:
        """Return the moments of all rows."""
        try:
            answer: list[tuple[Any, ...]] = self.backend.raw_sql(self.sql()).fetchall()
        except (EigenveilError, MemoryError):
            raise
        except Exception:  # whose text may quote a cell
            raise EngineError(
                "The database could not add up the rows; run the query without eigenveil to see why."
            ) from None
        found = [entry for row in sorted(answer) for entry in row[1:]]
        if found[0] == 0:  # whether there are rows may be private: sums of none are 0, where a database has no number
            found = [0] * len(found)
        if any(entry is None or isinstance(entry, float) or entry != int(entry) for entry in found):
            raise EngineError("The database did not return whole numbers.")
        d, triangle = self.d, self.d * (self.d + 1) // 2
        n, invalid, *rest = map(int, found)
        entries, columns, of_units = rest[:triangle], rest[triangle : triangle + d], rest[triangle + d :]
        if invalid and self.bound.on_invalid == "error":
            raise InvalidDataError(NOT_FINITE)
        corner = 0
        if self.unit is not None:
            n, unfit, corner = of_units[:3]
            if unfit:
                raise InvalidDataError(
                    "The identifier of the privacy unit is missing in at least one row, or one unit has more than 67 "
                    "million rows; leave such rows out."
                )
        gram = np.zeros((d + 1, d + 1), dtype=object)
        gram[np.tril_indices(d)] = entries
        gram[d, :d] = columns
        # Truncated constants of a privacy unit fall short of the whole one, which is public.
        gram[d, d] = n * self.bound.constant_units**2 if self.bound.knows_corner else corner
        gram += np.tril(gram, -1).T
        width = d + (self.bound.constant is not None)
        return SecondMoments.from_sums(self.bound, n, gram[:width, :width], feature_names)

    def sql(self) -> str:
        """Return the text of the query, in the dialect of the database."""
        import ibis
        from sqlglot.optimizer.eliminate_subqueries import eliminate_subqueries

        rows, d, dialect = self.rows, self.d, self.backend.name
        constant, of_units = ibis.literal(self.bound.constant_units, "int64"), []
        if self.unit is not None:
            constant, unfit = rows.k, rows.unit.isnull() | (rows.many > _MOST_ROWS_OF_UNIT)
            of_units = [rows.unit.nunique(), ibis.ifelse(unfit, 1, 0).sum(), (rows.k * rows.k).sum()]
        triangle = [(rows[f"q{i}"] * rows[f"q{j}"]).sum() for i in range(d) for j in range(i + 1)]
        columns = [(rows[f"q{j}"] * constant).sum() for j in range(d)]
        wanted = [rows.count(), ibis.ifelse(rows.ok, 0, 1).sum(), *triangle, *columns, *of_units]
        most = _MOST_COLUMNS.get(dialect, len(wanted))
        parts = [wanted[low : low + most] for low in range(0, len(wanted), most)]
        parts[-1] += [rows.count()] * (len(parts[0]) - len(parts[-1]))  # all of one width
        queries = [
            rows.aggregate(part=ibis.literal(at), **{f"s{place}": entry for place, entry in enumerate(part)})
            for at, part in enumerate(parts)
        ]
        compiler = self.backend.compiler
        nested = compiler.to_sqlglot(ibis.union(*queries) if len(queries) > 1 else queries[0])
        return str(eliminate_subqueries(nested).sql(dialect=compiler.dialect))

    def _stage(self, rows: Any, kept: str, **made: Any) -> Any:
        """Return a query of these columns, and of those before whose names begin with one of the letters `kept`."""
        after = rows.select(*(name for name in rows.columns if name[0] in kept and name not in made), **made)
        return after.limit(_NO_LIMIT) if self.backend.name in _MOST_COLUMNS else after

    def _integer_rows(self, table: Any, columns: Sequence[str]) -> Any:
        """Return q0, q1, ..., what `RowBound.single_integers` makes of rows, whether a row is `ok`, and its `unit`."""
        import ibis

        floor = _floor()
        bound, d, bits, stage = self.bound, self.d, self.bound.single_bits, self._stage
        zero, one, half = _exact(0.0), _exact(1.0), _exact(0.5)
        factor, shift = np.broadcast_to(bound.grid_factor, d).tolist(), bound.shift or (0.0,) * d
        down = max(0, *(math.frexp(each)[1] for each in factor)) + 60  # on a grid 2^down times coarser all is finite
        grid, cap = _exact(2.0**-down), _exact(2.0 ** (27 - down))

        def each(make: Callable[[int, Any], Any], letter: str = "x") -> dict[str, Any]:
            return {f"{letter}{j}": make(j, rows[f"x{j}"]) for j in range(d)}

        def squared(letter: str = "x") -> Any:  # of integers: exact below 2^53, else not below it, in any order
            return _tree(add, [rows[f"{letter}{j}"] * rows[f"{letter}{j}"] for j in range(d)])

        made = {f"x{j}": table[name].cast("float64") for j, name in enumerate(columns)}
        made |= {} if self.unit is None else {"unit": table[self.unit]}
        rows = stage(table, "", big=_exact(sys.float_info.max), **made)
        # NaN is above all numbers for some databases and beside them for others: for none of them at most `big`.
        finite = [(rows[f"x{j}"].abs() <= rows.big).fill_null(False) for j in range(d)]
        rows = stage(rows, "ux", ok=_tree(and_, finite))
        rows = stage(rows, "uo", **each(lambda j, x: ibis.ifelse(rows.ok, x - _exact(shift[j]), zero)))
        # From here on sizes, of which floor is trunc, on the coarse grid, with their signs apart.
        low = [_exact(0.5 ** (math.frexp(one_factor)[1] + 1)) for one_factor in factor]
        step = [_exact(math.ldexp(one_factor, -down)) for one_factor in factor]
        signs = each(lambda j, x: ibis.ifelse(x < 0, -one, one), "n")
        rows = stage(rows, "uo", **each(lambda j, x: _at_least(x.abs(), low[j]) * step[j]), **signs)
        rows = stage(rows, "uonx", **each(lambda j, x: floor(ibis.ifelse(x > cap, cap, x) / grid), "r"))
        rows = stage(rows, "uonx", squares=squared("r"))
        # Rows whose squares float64 cannot add exactly are brought below 2^e by a power of two.
        grown = _tree(ibis.greatest, [rows[f"x{j}"] for j in range(d)]) * _exact(2.0**52 + 1)
        power = (grown - grown * _exact(1 - 2.0**-53)).abs() * _exact(2.0 ** (1 - target_exponent(d)))
        long = rows.squares >= _exact(2.0**53)
        rows = stage(rows, "uonx", long=long, by=ibis.ifelse(long, power, grid))
        rows = stage(rows, "uonl", **each(lambda j, x: floor(_at_least(x, rows.by * half) / rows.by)))
        rows = stage(rows, "uonlx", squares=squared())
        shorter = _exact(2.0**bits) / _at_least(rows.squares, one).sqrt()
        rows = stage(rows, "uonx", by=ibis.ifelse(rows.long | (rows.squares > _exact(4.0**bits)), shorter, one))
        rows = stage(rows, "uon", **each(lambda j, x: floor(x * rows.by)))
        rows = stage(rows, "uonx", less=ibis.ifelse(squared() > _exact(4.0**bits), one, zero))
        # Not by sign(), which is a double in PostgreSQL, so that sums would be doubles.
        signed = each(lambda j, x: (rows[f"n{j}"] * _at_least(x - rows.less, zero)).cast("int64"), "q")
        return stage(rows, "uo", **signed)

    def _units_together(self, rows: Any) -> Any:
        """Return the rows of every privacy unit shortened together: `k` is the constant of each, `many` how many."""
        import ibis

        floor, bound, d, stage = _floor(), self.bound, self.d, self._stage
        constant, average, own = bound.constant_units, bound.unit_weight == "equal", ibis.window(group_by="unit")
        squares = _tree(add, [rows[f"q{j}"].cast("float64") * rows[f"q{j}"].cast("float64") for j in range(d)])
        rows = stage(rows, "uoq", squares=squares + _exact(0.0 if average else float(constant**2)))
        high = floor(rows.squares / _exact(_LIMB))  # two limbs, so that a sum is rounded once
        limbs = {"high": high.cast("int64"), "low": (rows.squares - high * _exact(_LIMB)).cast("int64")}
        rows = stage(rows, "uoq", **limbs)
        sums = {"high": rows.high.sum().over(own), "low": rows.low.sum().over(own), "many": rows.count().over(own)}
        rows = stage(rows, "uoq", **sums)
        total = rows.high.cast("float64") * _exact(_LIMB) + rows.low.cast("float64")
        rows = stage(rows, "uoqm", total=_at_least(total, _exact(1.0)), root=rows.many.cast("float64").sqrt())
        limit = _exact(float(4**bound.bits + (0 if average else constant**2)))
        shorter, alone = limit.sqrt() / rows.total.sqrt(), _exact(1.0) / rows.root
        by = (
            ibis.ifelse(shorter < alone, shorter, alone)
            if average
            else ibis.ifelse(rows.total > limit, shorter, _exact(1.0))
        )
        rows = stage(rows, "uoqmr", by=by)
        sizes = [floor(rows[f"q{j}"].abs().cast("float64") * rows.by).cast("int64") for j in range(d)]
        signed = {f"q{j}": ibis.ifelse(rows[f"q{j}"] < 0, -size, size) for j, size in enumerate(sizes)}
        whole = _exact(float(constant))
        k = floor(whole / rows.root if average else whole * rows.by).cast("int64")
        return stage(rows, "uom", k=k, **signed)


def _exact(value: float) -> Any:
    """Return a float64 made of whole numbers and powers of two."""
    import ibis

    fraction = Fraction(value)
    shift = max(0, abs(fraction.numerator).bit_length() - 53)
    number = ibis.literal(fraction.numerator >> shift, "int64").cast("float64")
    for power, more in ((shift, True), (fraction.denominator.bit_length() - 1, False)):
        while power:
            step = ibis.literal(2 ** min(power, 62), "int64").cast("float64")
            number, power = number * step if more else number / step, power - min(power, 62)
    return number


def _at_least(value: Any, least: Any) -> Any:
    import ibis

    return ibis.ifelse(value < least, least, value)  # the greatest() of DuckDB takes four times as long


def _tree(join: Callable[[Any, Any], Any], parts: Sequence[Any]) -> Any:
    """Join parts by halves, so that no expression is deep."""
    half = len(parts) // 2
    return parts[0] if len(parts) == 1 else join(_tree(join, parts[:half]), _tree(join, parts[half:]))


def _floor() -> Callable[[Any], Any]:
    """Return the database's own floor: that of Ibis casts to an integer."""
    import ibis

    def floor(value: float) -> float:
        raise NotImplementedError

    made: Callable[[Any], Any] = ibis.udf.scalar.builtin(floor)
    return made


# Where a connection keeps which kinds of bounds gave the sums of `SecondMoments`. On the connection itself: those of
# Ibis are equal where their databases have the same name, which two in memory have.
_CHECKED = "_eigenveil_checked"


def _check_backend(backend: Any, bound: RowBound) -> None:
    """Refuse a database that does not add up hard rows as `SecondMoments` does; asked once for each kind of bound."""
    kind = bound.unit_weight, bound.constant is not None
    done: set[tuple[str | None, bool]] = vars(backend).setdefault(_CHECKED, set())
    if kind in done:
        return
    shift, scale = (0.1, -3.0, 1e-9), (1 / 3, 1e4, 16 / 0.7)
    constant = None if bound.constant is None else 0.3
    ours = RowBound(0.7, shift=shift, scale=scale, constant=constant, unit_weight=bound.unit_weight, bits=bound.bits)
    rows, units = _hard_rows(ours)
    expected = SecondMoments(ours, 3)
    if bound.unit_weight is None:
        expected.update(rows)
        unit = None
    else:
        starts = np.flatnonzero(np.diff(units, prepend=-1))
        keys = np.column_stack([np.unique(units), np.zeros(starts.size)]).astype(np.uint64)
        expected.update(Blocks(rows, starts, keys))
        unit = "unit"
    names = ["a", "b", "c"]
    found = Statement(_made_table(rows, units, names), ours, names, backend, unit).moments(names)
    if found != expected:
        raise EngineError(
            f"This database ({backend.name}) rounds or adds in another way than eigenveil, so that the guarantee would "
            f"not hold there; {_FETCH}."
        )
    done.add(kind)


def _hard_rows(bound: RowBound) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return rows at the edges of the grid and of float64, and the privacy unit of each."""
    factor, shift = np.asarray(bound.grid_factor), np.asarray(bound.shift)
    whole = np.array([[1, 2, 3], [-5, 4, -1], [40_000, 3, 5], [2**15, 2**15, -(2**15)], [10**6, 10**6, 7]])
    beside = 1 + np.arange(-1, 2)[:, None, None] * 2.0**-52
    near = ((whole / factor + shift) * beside).reshape(-1, 3)
    extreme = [[0.0, -0.0, 5e-324], [1e308, -1e308, 1.0], [2.0**52 + 0.5, 1e-310, -1e300], [1e17, 0.3, -0.7]]
    rows = np.vstack([near, extreme, shift[None, :]])
    return rows, np.arange(len(rows)) // 3


def _made_table(rows: Any, units: Any, names: Sequence[str]) -> Any:
    """Return a query that holds these rows and reads no table, so that nothing is written to the database."""
    import ibis

    def one(row: Any, unit: int) -> Any:
        literals = {name: _exact(float(entry)) for name, entry in zip(names, row, strict=True)}
        return ibis.literal(1).name("one").as_table().select(unit=ibis.literal(int(unit), "int64"), **literals)

    return ibis.union(*(one(row, unit) for row, unit in zip(rows, units, strict=True)))


def _open(data: Any, declared: Declared) -> SqlSource | None:
    """Return the source of a table of Ibis, or None for anything else."""
    types = sys.modules.get("ibis.expr.types")
    if types is None or not isinstance(data, types.Table):
        return None
    return SqlSource(data, declared)


SQL = Engine("sql", _open, {}, package="ibis")
