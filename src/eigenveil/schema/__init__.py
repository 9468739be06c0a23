"""What is publicly known of a table: columns, ranges, categories, missing values, who declared it and when.

All of it is public and nothing is read off the rows. It travels: a release made with a schema holds it, so that whoever
reads the release knows which ranges were declared, and by whom.
"""

from .columns import Column
from .table import Schema

__all__ = ["Column", "Schema"]
