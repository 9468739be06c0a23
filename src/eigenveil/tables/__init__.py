"""Tables: what the user has, opened and read in batches. Names are loaded when they are asked for."""

from typing import TYPE_CHECKING

from .. import lazily

if TYPE_CHECKING:
    from .base import Source
    from .frames import TableSource
    from .open import collect, draft_schema, on_engine, open_source, open_table, open_with_engine, second_moments
    from .schema import Column, Schema


__all__ = [
    "Column",
    "Schema",
    "Source",
    "TableSource",
    "collect",
    "draft_schema",
    "on_engine",
    "open_source",
    "open_table",
    "open_with_engine",
    "second_moments",
]

_HOMES = {
    "Column": "schema",
    "Schema": "schema",
    "Source": "base",
    "TableSource": "frames",
    "collect": "open",
    "draft_schema": "open",
    "on_engine": "open",
    "open_source": "open",
    "open_table": "open",
    "open_with_engine": "open",
    "second_moments": "open",
}

__getattr__, __dir__ = lazily(__name__, _HOMES)
