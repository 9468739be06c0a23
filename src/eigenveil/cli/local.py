"""`eigenveil local params | encode | aggregate`: the local model on files and standard streams."""

import csv
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ..errors import InvalidDataError, InvalidParameterError
from ..files import open_regular
from .ledger import ask, guarantee_fields, somebody_answers
from .messages import facts_table, note_console, output_console, print_json, print_table
from .options import AsJson, Force, Quiet, Yes, check_output, whole_file
from .terminal import busy, standard_input, write_data

_ROWS_AT_ONCE = 1000
STANDARD = Path("-")


def params(
    features: Annotated[int, typer.Option(help="Number of features.")],
    epsilon: Annotated[float, typer.Option(help="Privacy budget ε of one report.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Protocol file to write (.json).")],
    delta: Annotated[float, typer.Option(help="Privacy budget δ of one report, for Gaussian mechanisms.")] = 0.0,
    norm_bound: Annotated[float, typer.Option(help="Public clipping bound on the norm of a row.")] = 1.0,
    mechanism: Annotated[str, typer.Option(help="auto, or a mechanism of docs/research/local.md.")] = "double_cap",
    row_norms: Annotated[
        Literal["any", "unit"], typer.Option(help="any, or unit, which scales every row to the bound.")
    ] = "any",
    rank: Annotated[int | None, typer.Option(help="For one_bit: dimension of the public subspace.")] = None,
    purpose: Annotated[str, typer.Option(help="Public name of the collection.")] = "",
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write the public protocol of a collection. Shows its guarantee and accuracy."""
    from ..local.protocol import LocalProtocol, mechanism_of

    protocol = LocalProtocol(
        features,
        epsilon,
        delta,
        norm_bound,
        mechanism=mechanism,
        row_norms=row_norms,
        purpose=purpose,
        rank=rank,
    )
    entry_sd, pull = (
        size * norm_bound**2 for size in (mechanism_of(protocol).off_diagonal_sd, mechanism_of(protocol).pull)
    )
    check_output(output, force)
    with whole_file(output) as file:
        file.write(protocol.to_json().encode())
    if as_json:
        print_json(
            {
                "protocol": str(output),
                "fingerprint": protocol.fingerprint,
                "mechanism": protocol.mechanism,
                "rank": protocol.rank,
                "guarantee": guarantee_fields(protocol.guarantee()),
                "report_bytes": protocol.report_bytes,
                "entry_sd_times_root_n": entry_sd,
                "pull_of_one_report_times_n": pull,
            }
        )
    if as_json or quiet:
        return
    ranked = f", rank {protocol.rank}" if mechanism_of(protocol).largest_rank > 1 else ""
    facts = [
        ("Mechanism", f"{protocol.mechanism}{ranked}"),
        ("Privacy of a report", str(protocol.guarantee())),
        *(("Assumes", assumption) for assumption in protocol.guarantee().assumptions),
        ("Size of a report", f"{protocol.report_bytes} bytes"),
        ("Standard deviation", f"{entry_sd:.4g} / √n for every entry of the matrix, with n reports"),
        ("Effect of a bad report", f"at most {pull:.4g} / n"),
        ("Protocol", str(output)),
    ]
    print_table(output_console(), f"Local protocol {protocol.fingerprint[:16]}", facts_table(facts))


def encode(
    protocol: Annotated[Path, typer.Argument(help="Protocol file.")],
    rows: Annotated[Path, typer.Argument(help="Rows as CSV; - is standard input.")] = STANDARD,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File for the reports. Default: standard output.")
    ] = STANDARD,
    header: Annotated[bool, typer.Option("--header", help="The first line has column names; skip it.")] = False,
    force: Force = False,
    yes: Yes = False,
) -> None:
    """Encode rows as private reports, one line each. Encoding a row again spends its budget again.

    A row with text or a missing value is encoded as the zero row: leaving it out would reveal it.
    """
    import numpy as np

    from ..local.client import encode_many
    from ..local.protocol import LocalProtocol, to_line

    agreed = LocalProtocol.load(protocol)
    if output != STANDARD:
        check_output(output, force, [protocol, rows])
    if rows != STANDARD and not yes and somebody_answers():
        guarantee = agreed.guarantee()
        weakness = "" if guarantee.weakness is None else f". Warning: {guarantee.weakness}"
        note_console().print(f"Privacy of every row: {guarantee}{weakness}", soft_wrap=True)
        ask()
    waiting = busy("encoding rows", STANDARD in (rows, output))
    with _text_rows(rows, header) as source, _sink(output) as write, waiting:
        while block := list(islice(source, _ROWS_AT_ONCE)):
            write(b"".join(to_line(report) for report in encode_many(agreed, np.array(block))))


def aggregate(
    reports: Annotated[
        list[Path] | None, typer.Argument(help="Files of reports: lines, or Parquet. Default: standard input.")
    ] = None,
    protocol: Annotated[Path | None, typer.Option(help="Protocol file; required without --merge.")] = None,
    column: Annotated[str, typer.Option(help="Column of a Parquet file that has the reports.")] = "report",
    merge: Annotated[
        list[Path] | None,
        typer.Option(help="Saved totals to go on from. May be repeated. Their reports are refused as repeated."),
    ] = None,
    refuse_seeded: Annotated[
        bool, typer.Option("--refuse-seeded", help="Refuse reports marked as drawn from a seed.")
    ] = False,
    totals: Annotated[Path | None, typer.Option(help="Totals file to write, to go on from later.")] = None,
    release: Annotated[Path | None, typer.Option(help="Release file to write (.npz).")] = None,
    components: Annotated[
        int | None, typer.Option("--components", "-k", help="Number of components to release.")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Aggregate reports and write the release. Invalid reports are counted by reason and skipped."""
    from ..local.protocol import LocalProtocol
    from ..local.server import Aggregate
    from ..local.server import aggregate as aggregated

    for option, file in (("--totals", totals), ("--release", release)):
        if file is not None:
            check_output(file, force, reports or [], option)
    earlier = None
    for saved in map(Aggregate.load, merge or []):
        earlier = saved if earlier is None else earlier + saved
    if protocol is not None:
        agreed = LocalProtocol.load(protocol)
    elif earlier is not None:
        agreed = earlier.protocol
    else:
        raise InvalidParameterError("The protocol is missing; give --protocol, or --merge with saved totals.")
    options: dict[str, Any] = {"column": column, "earlier": earlier, "refuse_seeded": refuse_seeded}
    # Merging alone reads no reports; without it, standard input is meant.
    if reports == [STANDARD] or not (reports or merge):
        found = aggregated(agreed, standard_input(), **options)
    else:
        with busy("adding up reports", quiet or as_json):
            found = aggregated(agreed, reports or [], **options)
    counts = {reason.replace("_", " "): count for reason, count in found.refused.items()}
    console = note_console(quiet or as_json)
    console.print(f"{found.n_reports} reports accepted")
    for reason, count in counts.items():
        console.print(f"{count} refused: {reason}")
    result: dict[str, object] = {"accepted": found.n_reports, "refused": counts, "totals": None, "release": None}
    if totals is not None:
        found.save(totals)
        result["totals"] = str(totals)
        console.print(f"Totals: {totals}", soft_wrap=True)
    if release is not None:
        released = found.release(components)
        released.save(release)
        result |= {"release": str(release), "guarantee": guarantee_fields(released.guarantee)}
        console.print(f"Privacy of every report: {released.guarantee}", soft_wrap=True)
        console.print(f"Release: {release} (eigenveil show {release})", soft_wrap=True)
    if as_json:
        print_json(result)


@contextmanager
def _text_rows(path: Path, header: bool) -> Iterator[Iterator[list[float]]]:
    try:
        if path == STANDARD:
            text = TextIOWrapper(standard_input(), encoding="utf-8-sig", newline="")
            yield _numbers(csv.reader(text), header)
            text.detach()  # it would be closed with the text
            return
        with TextIOWrapper(open_regular(path), encoding="utf-8-sig", newline="") as file:
            yield _numbers(csv.reader(file), header)
    except OSError as error:
        raise InvalidDataError(f"The file of rows {path} cannot be read: {error.strerror}.") from error
    except (UnicodeDecodeError, csv.Error):  # whose text quotes what was read
        raise InvalidDataError(f"The rows in {path} are not UTF-8 text; save them as CSV.") from None


def _numbers(lines: Iterator[list[str]], header: bool) -> Iterator[list[float]]:
    width = None
    for number, line in enumerate(filter(None, lines)):
        if width not in (None, len(line)):
            raise InvalidDataError(
                "The rows have different numbers of fields; give a CSV file with one number per feature."
            )
        width = len(line)
        if number == 0 and header:
            continue
        row = [_number(entry) for entry in line]
        # Shown on the device only. The header is declared, so that the data do not decide whether a row is reported.
        if number == 0 and all(map(math.isnan, row)):
            note_console().print(
                "eigenveil: warning: the first line has no number and is encoded as a row; if it has names, add "
                "--header.",
                soft_wrap=True,
            )
        yield row


def _number(entry: str) -> float:
    try:
        return float(entry)
    except ValueError:
        return math.nan


@contextmanager
def _sink(path: Path) -> Iterator[Callable[[bytes], object]]:
    """Yield the function that writes reports, to one file or block by block to standard output."""
    if path == STANDARD:
        yield _to_standard_output
        return
    with whole_file(path) as file:
        yield file.write


def _to_standard_output(content: bytes) -> None:
    try:
        write_data(content)
    except OSError as error:  # before more is drawn
        raise InvalidParameterError(
            f"The reports cannot be written to standard output: {error.strerror}; reports already written stay spent, "
            "and encoding a row again spends its budget again."
        ) from error
