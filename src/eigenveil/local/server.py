"""What runs on the server: reports are added up from where they are kept, and become a release.

The files or tables of reports are the durable copy. Whatever receives reports appends them to one, and may do so twice:
`aggregate` counts a report once. Totals are exact integers, so the order of reports does not matter.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from io import TextIOBase
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..errors import (
    InvalidDataError,
    InvalidParameterError,
    ReleaseFileError,
    integer_between,
    iterated_in_own_words,
    quoted,
    truth_value,
)
from ..files import given_path, open_regular, whole_file
from ..guarantee import Assumption
from ..mechanisms.local.base import Totals
from ..releases.file import MAX_BYTES, archive_bytes, arrays_of, read_archive
from ..releases.origin import Collection, ComponentsRequest, Origin, Request
from ..releases.record import Release
from .protocol import (
    ID_BYTES,
    LocalProtocol,
    Refusal,
    check_protocol,
    from_line,
    mechanism_of,
    read_lines,
    row_rule_of,
    unpack,
)

FORMAT = 1
KIND = "totals of local reports"
# So many reports, and so many bytes of them, are added up at once.
_BATCH_REPORTS, _BATCH_BYTES = 2000, 2**25


@dataclass(frozen=True, eq=False)
class Aggregate:
    """Exact totals of the reports of one protocol, with the identifiers of the reports in them.

    Two of them are added by ``+``, in any order. They must not share a report, which would count twice.

    Attributes
    ----------
    protocol : LocalProtocol
    totals : Totals
    refused : dict of str to int
        The number of refused reports, by reason (see `Refusal`).
    identifiers : frozenset of bytes
        The random identifiers of all accepted reports.
    """

    protocol: LocalProtocol
    totals: Totals
    refused: Mapping[str, int]
    identifiers: frozenset[bytes]

    @property
    def n_reports(self) -> int:
        """The number of accepted reports."""
        return self.totals.n_reports

    def __add__(self, other: "Aggregate") -> "Aggregate":
        if not isinstance(other, Aggregate):
            return NotImplemented
        _check_same_protocol(self.protocol, other)
        shared = len(self.identifiers & other.identifiers)
        if shared:
            raise InvalidDataError(
                f"The totals share reports, {shared} in number, which would count twice; aggregate the files of one of "
                "them with earlier= the other."
            )
        mechanism_of(self.protocol).check_capacity(self.n_reports + other.n_reports)
        return Aggregate(
            self.protocol,
            self.totals + other.totals,
            dict(Counter(self.refused) + Counter(other.refused)),
            self.identifiers | other.identifiers,
        )

    def release(self, n_components: int | None = None) -> Release:
        """Return the estimate of the second moment, its components and the guarantee; it costs nothing more."""
        request = components_request(n_components, self.protocol.n_features)
        return released(self.protocol, self.totals, request, refused=self.refused)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the totals of at least one report to a sealed file, whole or not at all."""
        target, totals = given_path(path), self.totals
        _check_some(totals)
        header = {
            "format": FORMAT,
            "kind": KIND,
            "protocol": self.protocol.to_json(),
            "ones": totals.ones,
            "n_seeded": totals.n_seeded,
            "refused": dict(self.refused),
        }
        identifiers = np.frombuffer(b"".join(sorted(self.identifiers)), dtype="<i8").reshape(totals.n_reports, -1)
        try:
            with whole_file(target) as file:
                file.write(archive_bytes(header, {"sums": totals.sums, "identifiers": identifiers}))
        except OSError as error:
            raise ReleaseFileError(f"The totals cannot be written to {target}: {error.strerror}.") from error
        return target

    @staticmethod
    def load(path: str | PathLike[str]) -> "Aggregate":
        """Read totals from a file that `save` wrote; raise `ReleaseFileError` if it is damaged or was changed."""

        def read(header: dict[str, Any], members: dict[str, bytes], source: Path) -> Aggregate:
            if header.get("kind") != KIND or header["format"] != FORMAT:
                raise ReleaseFileError(f"The file {source} does not hold totals that this version reads.")
            protocol, refused = LocalProtocol.from_json(header["protocol"]), header["refused"]
            arrays = arrays_of(members, {"sums", "identifiers"})
            sums, held = arrays["sums"], np.ascontiguousarray(arrays["identifiers"], dtype="<i8")
            found = frozenset(row.tobytes() for row in held)
            n, mechanism = len(found), mechanism_of(protocol)
            mechanism.check_capacity(n)
            integer_between("ones", header["ones"], 0, n)
            integer_between("n_seeded", header["n_seeded"], 0, n)
            for reason, count in refused.items():
                integer_between(Refusal(reason), count, 0)
            shape = (mechanism.n_matrices, protocol.n_features, protocol.n_features)
            most = n * mechanism.entry_limit
            shapes = sums.shape == shape and held.shape == (n, ID_BYTES // 8)
            if not shapes or sums.max() > most or sums.min() < -most:
                raise ValueError("sums are of the width of the protocol, and every report has its own identifier")
            return Aggregate(protocol, Totals(sums, header["ones"], n, header["n_seeded"]), refused, found)

        return read_archive(given_path(path), read, MAX_BYTES)

    def __repr__(self) -> str:
        return f"Aggregate({self.protocol.mechanism}, {self.n_reports} reports, refused: {dict(self.refused)})"


def aggregate(
    protocol: LocalProtocol,
    reports: Any,
    *,
    column: str = "report",
    earlier: Aggregate | None = None,
    refuse_seeded: bool = False,
) -> Aggregate:
    """Add up reports in one pass, each once; refused ones are counted by reason and never stop it.

    Memory is needed for the identifiers alone, about 100 bytes a report.

    Parameters
    ----------
    protocol : LocalProtocol
    reports : path, binary file, table, column or iterable
        A text file has a report a line, in base64; a Parquet file has them in a column. A column of pandas, Polars,
        PyArrow, Dask or Spark, or a table with one, holds bytes or base64 text. An iterable holds bytes, or paths of
        files.
    column : str
        The column of a table or of a Parquet file that has the reports.
    earlier : Aggregate, optional
        Totals to go on from. A report that is in them is refused as repeated.
    refuse_seeded : bool
        Whether reports that say they were drawn from a seed are refused. They are not private, and one of them marks
        the whole release as such.

    Examples
    --------
    >>> from eigenveil.local import encode_many
    >>> protocol = LocalProtocol(3, epsilon=4.0)
    >>> reports = encode_many(protocol, [[0.0, 1.0, 0.0]] * 50)
    >>> monday = aggregate(protocol, [*reports[:40], reports[0], b"noise"])
    >>> monday.n_reports, monday.refused
    (40, {'malformed': 1, 'repeated': 1})
    >>> week = aggregate(protocol, reports, earlier=monday)
    >>> week.n_reports, week.refused["repeated"]
    (50, 41)
    >>> week.release(n_components=1).components.shape
    (1, 3)
    """
    check_protocol(protocol)
    refuse_seeded = truth_value("refuse_seeded", refuse_seeded)
    mechanism = mechanism_of(protocol)
    totals, refused = Totals.empty(mechanism.n_matrices, protocol.n_features), Counter[str]()
    identifiers: set[bytes] = set()
    if earlier is not None:
        if not isinstance(earlier, Aggregate):
            raise InvalidParameterError(f"earlier must be an Aggregate, not {type(earlier).__name__}.")
        _check_same_protocol(protocol, earlier)
        totals, identifiers = earlier.totals, set(earlier.identifiers)
        refused.update(earlier.refused)
    size = max(1, min(_BATCH_REPORTS, _BATCH_BYTES // protocol.report_bytes))
    source = iterated_in_own_words(_read(reports, column, max(4 * protocol.report_bytes, 2**16)), _UNREADABLE)
    while block := list(islice(source, size)):
        batch = unpack(block, protocol.tag, mechanism.payload_bytes)
        refused.update(refusal.value for refusal in batch.refusals if refusal is not None)
        in_range = mechanism.in_range(batch.payloads).tolist() if len(batch.payloads) else []
        accepted = []
        for number, (identifier, honest) in enumerate(zip(map(bytes, batch.ids), in_range, strict=True)):
            if not honest:
                refused[Refusal.OUT_OF_RANGE.value] += 1
            elif refuse_seeded and batch.seeded[number]:
                refused[Refusal.SEEDED.value] += 1
            elif identifier in identifiers:
                refused[Refusal.REPEATED.value] += 1
            else:
                identifiers.add(identifier)
                accepted.append(number)
        if accepted:
            mechanism.check_capacity(len(identifiers))
            n_seeded = int(batch.seeded[accepted].sum())
            totals += mechanism.totals_of(batch.payloads[accepted], batch.ids[accepted], n_seeded)
    return Aggregate(protocol, totals, dict(sorted(refused.items())), frozenset(identifiers))


_UNREADABLE = "The reports cannot be read; give files, a table with a column of reports, or a list of reports."


def _read(reports: Any, column: str, longest: int) -> Iterator[bytes]:
    """Yield every report as bytes; what is no report becomes bytes that are refused as malformed."""
    if isinstance(reports, str | PathLike):
        yield from _read_file(given_path(reports), column, longest)
    elif hasattr(reports, "readline"):
        if isinstance(reports, TextIOBase):
            raise InvalidDataError("Reports are read from a binary file; open it with mode 'rb'.")
        yield from read_lines(reports, longest)
    elif hasattr(reports, "toLocalIterator"):  # of Spark, a partition at a time
        _check_column(column, reports.columns)
        yield from _in_column(row[0] for row in reports.select(column).toLocalIterator())
    elif hasattr(reports, "to_delayed"):  # of Dask
        if reports.ndim == 2:
            _check_column(column, reports.columns)
            reports = reports[column]
        for part in reports.to_delayed():
            yield from _in_column(part.compute())
    elif isinstance(reports, np.ndarray) and reports.dtype != object:
        raise InvalidDataError("A NumPy array cuts zeros off the end of bytes; give the reports as a list of bytes.")
    else:
        import narwhals as nw

        table: Any = nw.from_native(reports, eager_only=True, allow_series=True, pass_through=True)
        if isinstance(table, nw.DataFrame):
            _check_column(column, table.columns)
            yield from _in_column(table[column].to_list())
        elif isinstance(table, nw.Series):
            yield from _in_column(table.to_list())
        elif isinstance(reports, bytes | bytearray) or not isinstance(reports, Iterable):
            raise InvalidDataError(_UNREADABLE)
        else:
            for one in reports:
                if isinstance(one, str | PathLike):
                    yield from _read_file(given_path(one), column, longest)
                elif isinstance(one, bytes | bytearray | memoryview):
                    yield bytes(one)
                else:
                    raise InvalidDataError(f"A report must be bytes, not {type(one).__name__}.")


def _read_file(path: Path, column: str, longest: int) -> Iterator[bytes]:
    try:
        with open_regular(path) as stream:
            if path.suffix != ".parquet":
                yield from read_lines(stream, longest)
                return
            from pyarrow.parquet import ParquetFile

            file = ParquetFile(stream)
            _check_column(column, file.schema_arrow.names)
            for batch in file.iter_batches(_BATCH_REPORTS, columns=[column]):
                yield from _in_column(batch.column(0).to_pylist())
    except OSError as error:
        raise InvalidDataError(f"The file of reports {path} cannot be read: {error.strerror}.") from error


def _check_column(column: str, columns: Iterable[Any]) -> None:
    if column not in list(columns):
        raise InvalidDataError(f"The table has no column {quoted(column)} of reports; name it with column=.")


def _in_column(values: Iterable[Any]) -> Iterator[bytes]:
    for value in values:
        if isinstance(value, str):
            yield from_line(value.encode(errors="replace"))
        else:
            yield bytes(value) if isinstance(value, bytes | bytearray | memoryview) else b""


def _check_same_protocol(protocol: LocalProtocol, other: Aggregate) -> None:
    if other.protocol != protocol:
        raise InvalidDataError("Totals of different protocols cannot be added.")


def _check_some(totals: Totals) -> None:
    if totals.n_reports == 0:
        raise InvalidDataError("There are no accepted reports to release anything from.")


def released(
    protocol: LocalProtocol,
    totals: Totals,
    request: Request,
    *,
    refused: Mapping[str, int] | None = None,
    simulated: bool = False,
    estimator: str | None = None,
    feature_names: tuple[str, ...] | None = None,
) -> Release:
    """Return the release of a collection; everything here is post-processing of private reports.

    Parameters
    ----------
    protocol : LocalProtocol
    totals : Totals
        Of at least one report.
    request : Request
        What the release is for.
    refused : mapping, optional
        Counts of refused reports.
    simulated : bool
        Whether one process held all rows and played all clients.
    estimator : str, optional
        The estimator that asked.
    feature_names : tuple of str, optional
        Public names of the features.
    """
    _check_some(totals)
    guarantee = protocol.guarantee().with_assumption(
        Assumption(
            "Local model: the guarantee covers one report of one person and also holds against the server. A person "
            "who reports twice spends the budget twice.",
            "local model, one report per person",
        )
    )
    if totals.n_seeded:
        guarantee = guarantee.marked_reproducible()
    origin = Origin(
        mechanism=protocol.mechanism,
        parameters=protocol.to_dict(),
        row_rule=row_rule_of(protocol),
        n_rows=totals.n_reports,
        feature_names=feature_names,
        model="local",
        estimator=estimator,
        request=request,
        collection=Collection(protocol.fingerprint, dict(refused or {}), simulated),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        package_version=__version__,
    )
    integers = {"sums": totals.sums, "ones": np.array(totals.ones)}
    return Release(integers, dict.fromkeys(integers, 1.0), guarantee, origin)


def components_request(n_components: int | None, n_features: int) -> ComponentsRequest:
    """Return the request for so many components, all by default; a number that cannot be is refused."""
    k = n_features if n_components is None else n_components
    return ComponentsRequest(integer_between("n_components", k, 1, n_features))
