"""A release: the record, its origin, its file, and the views that read it."""

from typing import TYPE_CHECKING

from .. import lazily

if TYPE_CHECKING:
    from .origin import Origin
    from .record import Release, load_release
    from .score_map import ScoreMap, load_score_map


__all__ = ["Origin", "Release", "ScoreMap", "load_release", "load_score_map"]

_HOMES = {
    "Origin": "origin",
    "Release": "record",
    "ScoreMap": "score_map",
    "load_release": "record",
    "load_score_map": "score_map",
}

__getattr__, __dir__ = lazily(__name__, _HOMES)
