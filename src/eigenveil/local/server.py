"""`Aggregator`: what runs on the server. It adds reports, refuses what it must, and never stops for a bad one."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import TextIOBase
from itertools import islice
from os import PathLike
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np

from .. import __version__
from ..errors import InvalidDataError, InvalidParameterError, integer_between, truth_value
from ..files import given_path, open_regular
from ..guarantee import Assumption
from ..mechanisms.local.base import Totals
from ..releases.origin import Collection, ComponentsRequest, Origin, Request
from ..releases.record import Release
from .protocol import LocalProtocol, check_protocol, mechanism_of, row_rule_of
from .store import CollectionError, Store
from .wire import Refusal, read_lines, unpack

# One transaction holds at most this many reports, and at most this many bytes of them.
_BATCH_REPORTS = 2000
_BATCH_BYTES = 2**25


@dataclass
class Tally:
    """How many reports a call accepted, and how many it refused for which reason."""

    accepted: int = 0
    refused: Counter[str] = field(default_factory=Counter)


class Aggregator:
    """Adds up the reports of one protocol, exactly, and survives crashes.

    A report is *accepted* when its identifier and its contribution are committed together: `add` and its kin return
    after that. What was not acknowledged may be sent again; a report that was counted before is refused as repeated.
    Several threads may share an aggregator, and several processes a file, each with an aggregator of its own. A file
    that is damaged, emptied, replaced or set back is refused.

    Parameters
    ----------
    protocol : LocalProtocol
    path : path, optional
        The folder where the collection is kept; made if it is not there, resumed if it is. Without one the
        collection lives in a temporary file and ends with the object.
    refuse_seeded : bool
        Whether reports that say they were drawn from a seed are refused. They are not private, and one of them marks
        the whole release as such. This aggregator's own rule: it is not kept in the file.

    Examples
    --------
    >>> from eigenveil.local import encode
    >>> protocol = LocalProtocol(3, epsilon=4.0)
    >>> reports = [encode(protocol, [0.0, 1.0, 0.0]) for _ in range(50)]
    >>> collection = Aggregator(protocol)
    >>> [collection.add(report) for report in (reports[0], reports[0], b"noise")]
    [None, <Refusal.REPEATED: 'repeated'>, <Refusal.MALFORMED: 'malformed'>]
    >>> collection.add_many(reports).accepted, collection.n_reports
    (49, 50)
    >>> collection.release(n_components=1).components.shape
    (1, 3)
    """

    protocol: LocalProtocol

    def __init__(
        self, protocol: LocalProtocol, path: str | PathLike[str] | None = None, *, refuse_seeded: bool = False
    ) -> None:
        check_protocol(protocol)
        self.refuse_seeded: bool = truth_value("refuse_seeded", refuse_seeded)
        self._store, self.protocol = Store(path, protocol), protocol

    @classmethod
    def open(cls, path: str | PathLike[str], *, refuse_seeded: bool = False) -> Self:
        """Return the collection kept in a folder, with the protocol it was started for."""
        aggregator = cls.__new__(cls)
        aggregator.refuse_seeded = truth_value("refuse_seeded", refuse_seeded)
        aggregator._store = Store(given_path(path), None)
        aggregator.protocol = aggregator._store.protocol
        return aggregator

    def add(self, report: bytes) -> Refusal | None:
        """Add one report, durably; return None, or why it was refused."""
        return self._commit([_as_bytes(report)])[0]

    def add_many(self, reports: Iterable[bytes]) -> Tally:
        """Add reports in batches, each committed as one."""
        if isinstance(reports, bytes | bytearray | str) or not isinstance(reports, Iterable):
            raise InvalidDataError(f"add_many takes a list of reports, not {type(reports).__name__}.")
        return self._add((_as_bytes(report), 0) for report in reports)

    def add_stream(self, stream: BinaryIO, on_batch: Callable[[int, int], None] | None = None) -> Tally:
        """Add the reports of a binary stream, one line of base64 each.

        Parameters
        ----------
        stream : binary file object
        on_batch : callable, optional
            Called after each commit with the numbers of reports and of bytes of the stream it took.
        """
        if not hasattr(stream, "readline") or isinstance(stream, TextIOBase):
            raise InvalidDataError("Reports are read from a binary stream; open the file with mode 'rb'.")
        longest = max(4 * self.protocol.report_bytes, 2**16)
        return self._add(read_lines(stream, longest), on_batch)

    def add_file(self, path: str | PathLike[str], on_batch: Callable[[int, int], None] | None = None) -> Tally:
        """Add the reports of a regular file, one line of base64 each."""
        try:
            with open_regular(given_path(path)) as stream:
                return self.add_stream(stream, on_batch)
        except OSError as error:
            raise InvalidDataError(f"The file of reports {path} cannot be read: {error.strerror}.") from error

    def _add(self, reports: Iterable[tuple[bytes, int]], on_batch: Callable[[int, int], None] | None = None) -> Tally:
        tally = Tally()
        size = max(1, min(_BATCH_REPORTS, _BATCH_BYTES // self.protocol.report_bytes))
        source: Iterator[tuple[bytes, int]] = iter(reports)
        while batch := list(islice(source, size)):
            outcomes = self._commit([report for report, _ in batch])
            tally.accepted += outcomes.count(None)
            tally.refused.update(str(outcome) for outcome in outcomes if outcome is not None)
            if on_batch is not None:
                on_batch(len(batch), sum(taken for _, taken in batch))
        return tally

    def _commit(self, reports: list[bytes]) -> list[Refusal | None]:
        """Judge and add a batch in one transaction."""
        mechanism = mechanism_of(self.protocol)
        batch = unpack(reports, self.protocol.tag, mechanism.payload_bytes)
        honest = mechanism.in_range(batch.payloads) if len(batch.payloads) else np.zeros(0, dtype=bool)
        outcomes = list(batch.refusals)
        places = [place for place, refusal in enumerate(outcomes) if refusal is None]
        fresh = np.zeros(len(places), dtype=bool)
        with self._store.transaction():
            for number, place in enumerate(places):
                if not honest[number]:
                    outcomes[place] = Refusal.OUT_OF_RANGE
                elif self.refuse_seeded and batch.seeded[number]:
                    outcomes[place] = Refusal.SEEDED
                elif self._store.claim(batch.ids[number].tobytes()):
                    fresh[number] = True
                else:
                    outcomes[place] = Refusal.REPEATED
            if fresh.any():
                before = self._store.totals()
                mechanism.check_capacity(before.n_reports + int(fresh.sum()))
                added = mechanism.totals_of(batch.payloads[fresh], batch.ids[fresh], int(batch.seeded[fresh].sum()))
                self._store.write_totals(before + added)
            refused = Counter(str(outcome) for outcome in outcomes if outcome is not None)
            if refused:
                self._store.add_refused(refused)
        return outcomes

    @property
    def n_reports(self) -> int:
        """The number of accepted reports."""
        return self.totals.n_reports

    @property
    def refused(self) -> dict[str, int]:
        """The number of refused reports, by reason."""
        return self._store.refused()

    @property
    def totals(self) -> Totals:
        """The exact totals of all accepted reports."""
        return self._store.totals()

    def merge(self, other: "Aggregator") -> Self:
        """Add another collection of the same protocol to this one, durably and all at once.

        Two collections that share a report are refused, because the report would count twice. Counts of refused reports
        come along with accepted ones: nothing would tell that a collection without any was merged before, so it adds
        nothing.
        """
        if not isinstance(other, Aggregator):
            raise InvalidParameterError(f"Only another Aggregator can be merged, not {type(other).__name__}.")
        if other.protocol != self.protocol:
            raise CollectionError("Collections of different protocols cannot be merged.")
        if other is self:
            raise CollectionError("A collection cannot be merged with itself.")
        with self._store.transaction(), other._store.snapshot():
            other._store.check_whole()
            before, added = self._store.totals(), other.totals
            if added.n_reports == 0:
                return self
            if self.refuse_seeded and added.n_seeded:
                raise CollectionError(
                    "The collection to merge has reports that were drawn from a seed, which this one refuses."
                )
            mechanism_of(self.protocol).check_capacity(before.n_reports + added.n_reports)
            claimed = [self._store.claim(identifier) for identifier in other._store.identifiers()]
            if not all(claimed):
                shared = claimed.count(False)
                raise CollectionError(
                    f"The collections share {shared} reports, which would count twice; nothing was merged."
                )
            self._store.write_totals(before + added)
            self._store.add_refused(other.refused)
        return self

    def __add__(self, other: "Aggregator") -> "Aggregator":
        if not isinstance(other, Aggregator):
            return NotImplemented
        return Aggregator(self.protocol, refuse_seeded=self.refuse_seeded).merge(self).merge(other)

    def release(self, n_components: int | None = None) -> Release:
        """Return the estimate of the second moment, its components and the guarantee; it costs nothing more."""
        request = components_request(n_components, self.protocol.n_features)
        with self._store.snapshot():
            self._store.check_whole()
            return released(self.protocol, self.totals, request, refused=self.refused)

    def close(self) -> None:
        """Close the collection's file."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Aggregator({self.protocol.mechanism}, {self.n_reports} reports, {self._store.path or 'temporary'})"


def _as_bytes(report: object) -> bytes:
    if not isinstance(report, bytes | bytearray | memoryview):
        raise InvalidDataError(f"A report must be bytes, not {type(report).__name__}.")
    return bytes(report)


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
    if totals.n_reports == 0:
        raise InvalidDataError("There are no accepted reports to release anything from.")
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
