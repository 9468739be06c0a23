"""What a release file may say: the types, the shapes and the ranges of all that it holds, checked before it is used.

A checksum tells damage and not intent, so a file may have the right one and say anything. What is read off a release
divides by its numbers and decomposes its matrices; whatever could make that fail is refused here.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .guarantee import Guarantee
from .laws.base import IN_UNITS_OF_C
from .origin import Collection, ComponentsRequest, Origin, RegressionRequest, Request, SparseRequest

IntArray = NDArray[np.int64]

SQUARE, NUMBER, VECTOR = ("matrix", "map"), ("trace", "count", "slack", "ones"), ("mean", "mean_again")
NAMES = frozenset({*SQUARE, *NUMBER, *VECTOR, "directions", "quotients", "sums"})
"""What leaves, by name, and so the arrays of a file."""
_GO_WITH = {
    "quotients": "directions",
    "trace": "matrix",
    "slack": "matrix",
    "map": "matrix",
    "ones": "sums",
    "mean": "matrix",
    "mean_again": "mean",
}
_LONGEST_TEXT = 10_000
_SMALLEST, _LARGEST = 1e-40, 1e40
_MOST_COUNT = 2**62
_MOST_SHIFT = 64


def check_content(
    integers: Mapping[str, IntArray], unit: Mapping[str, float], guarantee: Guarantee, origin: Origin
) -> None:
    """Raise `ValueError` where a file does not follow the format."""
    _check_origin(origin)
    width = _check_shapes(integers, origin)
    n_features = width - origin.centred
    _must(n_features >= 1, "there are features")
    _check_units(unit, origin)
    names = origin.feature_names
    _must(names is None or len(names) == n_features, "every feature has a name")
    origin.rows.check_width(n_features)
    _must(all(_whole(one, 0, n_features - 1) for one in origin.without_range), "ranges are those of features")
    _check_request(origin.request, n_features)
    _must(origin.parameters.get("n_features", width) == width, "the law is about these features")
    _must(guarantee.unit is origin.rows.unit or origin.model == "local", "the promise is about the unit of the rows")
    count = integers.get("count")
    _must(count is None or 1 <= int(count) <= _MOST_COUNT, "a number of rows is at least 1")


def _must(holds: bool, rule: str) -> None:
    if not holds:
        raise ValueError(rule)


def _check_shapes(integers: Mapping[str, IntArray], origin: Origin) -> int:
    """Return the width of the matrix or of directions, if all arrays have the shapes that go with it."""
    leading = [name for name in ("matrix", "directions", "sums") if name in integers]
    _must(len(leading) == 1, "a matrix, directions or sums of reports left")
    _must(all(needed in integers for name, needed in _GO_WITH.items() if name in integers), "arrays come with others")
    width = integers[leading[0]].shape[-1] if integers[leading[0]].ndim else 0
    drawn = integers.get("directions")
    shapes: dict[str, tuple[int, ...]] = {
        **dict.fromkeys(SQUARE, (width, width)),
        **dict.fromkeys(NUMBER, ()),
        **dict.fromkeys(VECTOR, (width - origin.centred,)),
    }
    if drawn is not None:
        _must(drawn.ndim == 2 and len(drawn) <= width and bool((drawn != 0).any(axis=1).all()), "directions are rows")
        # One for each direction, and one for what is left of the trace where they are not all.
        shapes |= {"directions": drawn.shape, "quotients": (len(drawn) + 1,)}
        if integers.get("quotients", drawn).shape == (len(drawn),):
            shapes["quotients"] = (len(drawn),)
    if "sums" in integers:
        shapes["sums"] = (min(integers["sums"].shape[0], 2), width, width)
    for name, value in integers.items():
        _must(value.shape == shapes.get(name), "an array has the shape of its kind")
        # The least int64 has no opposite, and a sum with it may wrap around.
        _must(bool((value > np.iinfo(np.int64).min).all()), "integers have an opposite")
    for name in ("matrix", "map", "sums"):
        if name in integers:
            value = integers[name]
            _must(np.array_equal(value, np.swapaxes(value, -1, -2)), "matrices are symmetric")
    return int(width)


def _check_units(unit: Mapping[str, float], origin: Origin) -> None:
    """Check that units are that of the rows, or 1, but for the rounding of a law; that of a mean has any size."""
    for name, one in unit.items():
        _must(_SMALLEST**3 <= one <= _LARGEST**3, "a unit is a number above 0")
        if name not in VECTOR:
            usual = origin.rows.unit_squared if name in IN_UNITS_OF_C else 1.0
            _must(abs(math.log2(one / usual)) <= _MOST_SHIFT, "a unit is that of the rows")


def _check_origin(origin: Origin) -> None:
    _must(origin.model in ("central", "local", "federated"), "the model is known")
    texts = (origin.law, origin.created, origin.package_version, *origin.chosen_privately)
    _must(all(map(_text, texts)) and (origin.estimator is None or _text(origin.estimator)), "names are texts")
    _must(all(map(_text, origin.feature_names or ())), "names of features are texts")
    _must(all(map(_text, origin.parameters)), "parameters have names")
    _must(origin.n_rows is None or _whole(origin.n_rows, 0, _MOST_COUNT), "n_rows is a whole number")
    _must(origin.ledger_entry is None or _whole(origin.ledger_entry, 0, _MOST_COUNT), "an entry has a number")
    _must(origin.total_weight is None or _number(origin.total_weight, _SMALLEST), "total_weight is above 0")
    _must(origin.mean_sd is None or _number(origin.mean_sd, 0.0), "mean_sd is a number")
    origin.rows.check_sizes()
    if origin.collection is not None:
        _check_collection(origin.collection)


def _check_collection(collection: Collection) -> None:
    _must(_text(collection.fingerprint) and type(collection.simulated) is bool, "a collection has a fingerprint")
    _must(all(map(_text, collection.sites)), "names of sites are texts")
    _must(isinstance(collection.refused, Mapping), "refusals have names")
    counts = collection.refused.items()
    _must(all(_text(name) and _whole(one, 0, _MOST_COUNT) for name, one in counts), "refusals are counted")


def _check_request(request: Request, d: int) -> None:
    _must(type(request.correlation) is bool and type(request.own_units) is bool, "what is asked for is true or false")
    if isinstance(request, ComponentsRequest):
        k = request.n_components
        share = isinstance(k, float) and 0 < k < 1
        _must(k is None or k == "above_noise" or share or _whole(k, 1, d), "so many components there are")
    elif isinstance(request, SparseRequest):
        _must(request.n_components <= d and (request.penalty or 0.0) <= _LARGEST, "so many components there are")
    elif isinstance(request, RegressionRequest):
        _must(_whole(request.target, -d, d - 1), "the target is a feature")
        _must(request.alpha is None or _number(request.alpha, 0.0), "alpha is a number")


def _text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_TEXT


def _whole(value: Any, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def _number(value: Any, low: float) -> bool:
    return type(value) in (int, float) and low <= value <= _LARGEST
