"""Rows in files of JSON lines: one object a line."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from ..errors import InvalidDataError
from .base import FileReader, one_sentence, opened

_BLOCK = 2**22
_LONGEST_ROW = 2**25
_NO_OBJECT = re.compile(rb"^[ \t\r]*[^{ \t\r\n]", re.MULTILINE)


class JsonLinesFile(FileReader):
    """A file with one JSON object a line, plain or compressed; a key that a line does not have is a missing value.

    The columns are the keys of the first lines; a key that comes later only is not read.
    """

    needs_arrow = True
    takes_text_format = True

    def _read_schema(self) -> Sequence[str]:
        import pyarrow as pa

        if self.text_format.delimiter is not None or self.text_format.decimal != ".":
            raise InvalidDataError(f"{self.path} holds JSON, which has no delimiter and no decimal comma.")
        with opened(self.path, self.suffix, self.text_format.encoding) as stream:
            block = next(_whole_lines(stream, self.where), b"")
        if not block.strip():
            raise InvalidDataError(f"{self.path} is empty; each line must be a JSON object.")
        table = self._parse(block)
        self._schema = pa.schema([(field.name, self._read_as(field)) for field in table.schema])
        return list(table.column_names)

    def _parse(self, block: bytes, schema: Any = None) -> Any:
        import pyarrow as pa
        from pyarrow import json

        if _NO_OBJECT.search(block):  # PyArrow may crash on lines of null alone
            raise InvalidDataError(f"{self.path} has a line that is no JSON object; each line must be one.")
        options = json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="infer" if schema is None else "ignore"
        )
        return json.read_json(
            pa.BufferReader(block), read_options=json.ReadOptions(block_size=len(block) + 1), parse_options=options
        )

    def _read_as(self, field: Any) -> Any:
        """Return the type to read a column as: the first lines do not tell whether a fraction comes later."""
        import pyarrow as pa

        is_unit_column = field.name == self._privacy_unit
        if pa.types.is_null(field.type):
            return pa.string() if is_unit_column or field.name in self._text else pa.float64()
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type):
            return field.type if is_unit_column else pa.float64()
        return pa.string() if pa.types.is_timestamp(field.type) else field.type  # a later text may be none

    def read(self, columns: Sequence[str], step: int) -> Iterator[Any]:
        """Yield PyArrow tables: a block of lines each, or slices of it."""
        import pyarrow as pa

        chosen = pa.schema([self._schema.field(name) for name in columns])
        with one_sentence(self.where), opened(self.path, self.suffix, self.text_format.encoding) as stream:
            for block in _whole_lines(stream, self.where):
                table = self._parse(block, chosen)
                for start in range(0, table.num_rows, step):
                    yield table.slice(start, step)


def _whole_lines(stream: BinaryIO, where: str) -> Iterator[bytes]:
    rest = b""
    while piece := stream.read(_BLOCK):
        rest += piece
        cut = rest.rfind(b"\n") + 1
        if rest[:cut].strip():
            yield rest[:cut]
        rest = rest[cut:]
        if len(rest) > _LONGEST_ROW:
            raise InvalidDataError(
                f"{where} has a line of more than {_LONGEST_ROW} bytes; it must hold one row a line."
            )
    if rest.strip():
        yield rest + b"\n"
