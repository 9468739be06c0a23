"""A renaming under way, for `tools/oracle.py --translate`; empty where none is.

Keys and values are told by the old names, with the keys above them where one name has several meanings:
``KEYS = {"text.origin.rows": "row_rule", "rows.rows": "statistic"}``, ``VALUES = {"rows.rows": {"clip": "clipped"}}``.
"""

from typing import Any

KEYS: dict[str, str | None] = {}
VALUES: dict[str, dict[str, Any]] = {}
