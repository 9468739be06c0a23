"""`eigenveil export` and `eigenveil sample`: a release for other tools, and synthetic rows from it; neither costs."""

import csv
import importlib.util
import io
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ..errors import InvalidParameterError, NoiseWarning
from .options import Force, Quiet, check_output, note_console, opened_release, whole_file

File = Annotated[Path, typer.Argument(help="Release file (.npz).")]


def export(
    release: File,
    to: Annotated[
        Literal["json", "onnx"],
        typer.Option("--to", help="json: all that left and what it says; onnx: a model that projects rows."),
    ] = "json",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write; by default the name of the release with the new suffix."),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write a release in another form: JSON for any language, or an ONNX model that projects rows. It costs nothing."""
    target = release.with_suffix(f".{to}") if output is None else output
    check_output(target, force, [release])
    content = _quietly(lambda: _content(opened_release(release), to))
    with whole_file(target) as file:
        file.write(content)
    note_console(quiet).print(f"Written to {target}; it holds released values only.", soft_wrap=True)


def sample(
    release: File,
    rows: Annotated[int, typer.Option("--rows", "-n", help="How many synthetic rows.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Table to write: .csv, or .parquet.")] = Path(
        "synthetic.csv"
    ),
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write synthetic rows with the mean and covariance of a release, in its declared categories and ranges."""
    if output.suffix not in (".csv", ".parquet"):
        raise InvalidParameterError("The name of the output must end in .csv or .parquet.")
    check_output(output, force, [release])
    if output.suffix == ".parquet":
        _check_parquet()
    columns = _quietly(lambda: opened_release(release).sample_table(rows))
    content = _parquet(columns) if output.suffix == ".parquet" else _csv(columns)
    with whole_file(output) as file:
        file.write(content)
    note_console(quiet).print(
        f"Written to {output}: {rows:,} synthetic rows, none of which is a person's.", soft_wrap=True
    )


def _content(release: Any, to: str) -> bytes:
    return bytes(release.to_onnx() if to == "onnx" else release.to_json().encode("utf-8"))


def _quietly(make: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)  # which `show` tells
        return make()


def _csv(columns: dict[str, list[Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))  # nothing stands for None
    return text.getvalue().encode("utf-8")


def _check_parquet() -> None:
    if importlib.util.find_spec("pyarrow") is None:
        raise InvalidParameterError("Parquet needs pyarrow; run pip install 'eigenveil[files]', or write a .csv.")


def _parquet(columns: dict[str, list[Any]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet

    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), buffer)
    return buffer.getvalue()
