"""`Origin`: where a release comes from, typed, so that whoever has it knows everything that `fit` knew.

All of it is public. The records are written to release files: a field may be added with a default that says what a
file without it meant, and none may change its meaning. A field that this version does not know is ignored, and
`load_release` says so. What no file could hold is refused before anything is paid for, by `Origin.check_writable`.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeAlias

from ..errors import InvalidParameterError, integer_between, number_from_zero, positive_number
from ..files import check_json, parsed_json
from ..moments.row_rule import RowRule
from ..tables.schema import Schema

# A file may ask for so many, and is to be read in this life.
_MOST_STEPS = 10**5
HEADER_BYTES = 2**22
"""The longest text of a file; the origin leaves some of it for the guarantee and units."""
_BESIDE_ORIGIN = 2**16
# Lines of their own make a text at most so many times longer: values may be nested 64 deep.
_INDENTED = 32
_NOT_SAVED = "This release could not be saved, since in a release file {rule}; nothing was spent."
_LONGEST_TEXT = 10_000
SMALLEST, LARGEST = 1e-40, 1e40
MOST_COUNT = 2**62


@dataclass(frozen=True)
class Request:
    """The purpose of a release: here the matrix, or all directions.

    Parameters
    ----------
    correlation : bool
        Whether the request is for the correlation matrix.
    own_units : bool
        Whether the request is for the features in their original units, although rows were scaled by ranges.
    """

    kind: ClassVar[str] = "matrix"
    correlation: bool = field(default=False, kw_only=True)
    own_units: bool = field(default=False, kw_only=True)

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for JSON."""
        return {"kind": self.kind, **vars(self)}


@dataclass(frozen=True)
class ComponentsRequest(Request):
    """Principal components.

    Parameters
    ----------
    n_components : int, float, "above_noise" or None
        As in `PrivatePCA`.
    whiten : bool
        Whether projections are scaled to variance 1.
    """

    kind: ClassVar[str] = "components"
    n_components: int | float | str | None = None
    whiten: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for JSON; without `whiten`, the file is one that earlier versions know whole."""
        told = super().to_dict()
        return told if self.whiten else {name: value for name, value in told.items() if name != "whiten"}


@dataclass(frozen=True)
class SparseRequest(Request):
    """Sparse principal components, by Fantope projection.

    Parameters
    ----------
    n_components : int
    penalty : float, optional
        Weight of the l1 norm; by default from the known noise.
    tol, max_iter : float, int
        Accuracy of the optimization.
    screen : int, optional
        Solve on this many features only, those with the largest entries beside the diagonal.
    """

    kind: ClassVar[str] = "sparse_components"
    n_components: int = 1
    penalty: float | None = None
    tol: float = 1e-4
    max_iter: int = 500
    screen: int | None = None

    def __post_init__(self) -> None:
        # Made before anything is drawn, so what the solver could not use is refused before it is paid for.
        # Kept as plain numbers, so that it can be written to a file afterwards.
        penalty, screen = self.penalty, self.screen
        for name, value in {
            "n_components": integer_between("n_components", self.n_components, 1),
            "penalty": penalty if penalty is None else number_from_zero("penalty", penalty),
            "tol": positive_number("tol", self.tol),
            "max_iter": integer_between("max_iter", self.max_iter, 1, _MOST_STEPS),
            "screen": screen if screen is None else integer_between("screen", screen, 1),
        }.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class RegressionRequest(Request):
    """A ridge regression of one column, or of several, on all others.

    Parameters
    ----------
    target : int or tuple of int
        Position of the column to predict; a tuple for a table of targets, also for one with a single column.
    alpha : float, optional
        Regularization on the scale of one row; by default from the known noise.
    """

    kind: ClassVar[str] = "regression"
    target: int | tuple[int, ...] = -1
    alpha: float | None = None

    def targets(self, n_features: int) -> tuple[int, ...]:
        """Return the positions of all targets among so many columns, counted from 0."""
        each = self.target if isinstance(self.target, tuple) else (self.target,)
        return tuple(position % n_features for position in each)

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for JSON."""
        return _lists(super().to_dict())


REQUESTS = {kind.kind: kind for kind in (Request, ComponentsRequest, SparseRequest, RegressionRequest)}


@dataclass(frozen=True)
class Collection:
    """Facts about a collection in the local model, or about a round of several sites.

    Parameters
    ----------
    fingerprint : str
        Of the protocol that clients and server agreed on, or of the round.
    refused : mapping of str to int
        Reports that were not counted, by reason.
    simulated : bool
        Whether one process held all rows and played all clients.
    sites : tuple of str
        The sites of a round; none for clients.
    """

    fingerprint: str
    refused: Mapping[str, int] = field(default_factory=dict)
    simulated: bool = False
    sites: tuple[str, ...] = ()


Ranges: TypeAlias = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Screening:
    """The features of a table that were kept, by a noisy diagonal; the release is about these alone.

    Parameters
    ----------
    n_features : int
        Number of features of the table.
    kept : tuple of int
        Positions of the features that were kept, in rising order.
    feature_names : tuple of str, optional
        Public names of all features, where the source had them.
    """

    n_features: int
    kept: tuple[int, ...]
    feature_names: tuple[str, ...] | None = None

    @property
    def kept_names(self) -> tuple[str, ...]:
        """Names of the features that were kept: x17 for the feature at position 17 of a table without names."""
        names = self.feature_names
        return tuple(f"x{position}" if names is None else names[position] for position in self.kept)

    def ranges_of_kept(self, ranges: Ranges | None) -> Ranges | None:
        """Return the ranges of the kept features; one for all features stays as it is."""
        return ranges if ranges is None or len(ranges) == 1 else tuple(ranges[position] for position in self.kept)

    def check(self, n_features: int, feature_names: tuple[str, ...] | None) -> None:
        """Raise `ValueError` where a release of so many features is not about those that were kept."""
        names = self.feature_names
        must(_whole(self.n_features, 1, MOST_COUNT), "n_features is a whole number")
        must(all(_whole(one, 0, self.n_features - 1) for one in self.kept), "features that were kept have positions")
        must(tuple(sorted({*self.kept})) == self.kept and len(self.kept) == n_features, "each was kept once, in order")
        must(all(map(_text, names or ())), _NAMES_OF_FEATURES)
        must(names is None or len(names) == self.n_features, "every feature has a name")
        must(feature_names == self.kept_names, "names are those of the features that were kept")


@dataclass(frozen=True)
class Origin:
    """The public facts about the making of a release.

    Parameters
    ----------
    mechanism : str
        Name of the mechanism that drew it.
    parameters : mapping
        Public parameters of the mechanism, in JSON types; for the local model those of the protocol.
    row_rule : RowRule
        How rows became integers.
    n_rows : int, optional
        The number of rows, privacy units or reports, if it is public. If it is private, the release has a noisy "count"
        or no number.
    feature_names : tuple of str, optional
    model : {"central", "local", "federated"}
        Who sees rows: one data owner, nobody, or each of several data owners its own.
    estimator : str, optional
        Name of the estimator.
    request : Request
        The request.
    chosen_privately : tuple of str
        Parameters that were estimated privately, each with a part of the budget.
    collection : Collection, optional
        For the local model, and for several data owners.
    schema : Schema, optional
        What was declared of the columns in public, and by whom; none before it could be.
    without_range : tuple of int
        Features for which no range was found privately, mostly since nearly all rows agree; read as if all did.
    total_weight : float, optional
        The sum of public case weights, in units of the largest that was allowed; none where each row counts once.
    mean_sd : float, optional
        If a mean was measured first: the standard deviation of its noise, in the units of the scaled rows.
    given_bounds : tuple of (float, float), optional
        The ranges that the caller gave, one pair for every feature, or one for all. Ranges of a schema are in `schema`.
    given_norm_bound : float, optional
        The bound on the norm of a row that the caller gave.
    screening : Screening, optional
        The features that were chosen privately, if the release describes some features of a table only.
    ledger_entry : int, optional
        Where it was paid for.
    created, package_version : str
    """

    mechanism: str
    parameters: Mapping[str, Any]
    row_rule: RowRule
    n_rows: int | None = None
    feature_names: tuple[str, ...] | None = None
    model: str = "central"
    estimator: str | None = None
    request: Request = field(default_factory=Request)
    chosen_privately: tuple[str, ...] = ()
    collection: Collection | None = None
    ledger_entry: int | None = None
    created: str = ""
    package_version: str = ""
    schema: Schema | None = None
    without_range: tuple[int, ...] = ()
    total_weight: float | None = None
    mean_sd: float | None = None
    given_bounds: Ranges | None = None
    given_norm_bound: float | None = None
    screening: Screening | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))

    def __getstate__(self) -> dict[str, Any]:
        return self.to_dict()

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(vars(type(self).from_dict(state)))

    @property
    def centred(self) -> bool:
        """Whether a constant was appended to the rows, so that the mean is part of the release."""
        return self.row_rule.constant is not None

    @property
    def may_clip(self) -> bool:
        """Whether rows may have been clipped: always, unless the norm is that of public ranges.

        A norm that is given, found privately or found after a mean was measured, or for preconditioned rows, may be
        lower.
        """
        rule = self.row_rule
        lower = self.chosen_privately or self.given_norm_bound is not None or self.mean_sd is not None
        without_ranges = rule.shift is None or rule.unit_weight == "by_rows"
        return rule.keeps_lengths and (bool(lower) or rule.mapped_from is not None or without_ranges)

    def check(self, n_features: int) -> None:
        """Raise `ValueError` where this is no origin of a release of so many features, as a file may say anything."""
        must(n_features >= 1, "there are features")
        must(self.model in ("central", "local", "federated"), "the model is known")
        texts = (self.mechanism, self.created, self.package_version, *self.chosen_privately)
        must(all(map(_text, texts)) and (self.estimator is None or _text(self.estimator)), _NAMES)
        names = self.feature_names
        must(all(map(_text, names or ())), _NAMES_OF_FEATURES)
        must(names is None or len(names) == n_features, "every feature has a name")
        must(all(map(_text, self.parameters)), _NAMES_OF_PARAMETERS)
        must(self.n_rows is None or _whole(self.n_rows, 0, MOST_COUNT), "n_rows is a whole number")
        must(self.ledger_entry is None or _whole(self.ledger_entry, 0, MOST_COUNT), "an entry has a number")
        must(self.total_weight is None or _number(self.total_weight, SMALLEST), "total_weight is above 0")
        must(self.mean_sd is None or _number(self.mean_sd, 0.0), "mean_sd is a number")
        must(all(_whole(one, 0, n_features - 1) for one in self.without_range), "ranges are those of features")
        must(self.given_norm_bound is None or _number(self.given_norm_bound, 0.0), "given_norm_bound is a number")
        ranges = self.given_bounds or ((0.0, 1.0),)
        ordered = all(_number(low, -LARGEST) and _number(high, -LARGEST) and low < high for low, high in ranges)
        ordered = ordered and (len(ranges) in (1, n_features))
        must(ordered, "given_bounds has one range for every feature, or one for all")
        self.row_rule.check_sizes()
        self.row_rule.check_width(n_features)
        _check_request(self.request, n_features)
        if self.screening is not None:
            self.screening.check(n_features, names)
        told = self.collection
        if told is not None:
            must(_text(told.fingerprint) and type(told.simulated) is bool, "a collection has a fingerprint")
            must(all(map(_text, told.sites)), f"names of sites are {_TEXTS}")
            must(isinstance(told.refused, Mapping), "refusals have names")
            refused = told.refused.items()
            must(all(_text(name) and _whole(one, 0, MOST_COUNT) for name, one in refused), "refusals are counted")

    def check_writable(self, n_features: int) -> None:
        """Refuse an origin that no release file could hold; called before anything is paid for."""
        limit = HEADER_BYTES - _BESIDE_ORIGIN
        try:
            content = {"origin": self.to_dict()}
            text = _ONE_LINE.encode(content)
            check_json(content, text)  # and what is written like this is read like this: sorted keys are of one type
            if self.schema is not None:
                Schema.from_dict(parsed_json(text)["origin"]["schema"])
            if len(text) > limit // _INDENTED:
                text = header_text(content)
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            rule = "all public facts are plain JSON values"
            raise InvalidParameterError(_NOT_SAVED.format(rule=rule)) from error
        try:
            must(len(text) <= limit, "names, parameters and the schema take less than 4 MB")
            self.check(n_features)
        except ValueError as error:
            raise InvalidParameterError(_NOT_SAVED.format(rule=error)) from error

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for JSON."""
        known = dict(vars(self))
        for name in ("given_bounds", "given_norm_bound", "screening"):  # left out where there is none
            if known[name] is None:
                del known[name]
        if self.screening is not None:
            known["screening"] = _lists(asdict(self.screening))
        if self.given_bounds is not None:
            known["given_bounds"] = [list(pair) for pair in self.given_bounds]
        collection = None
        if self.collection is not None:
            collection = _lists(asdict(self.collection))
            if not self.collection.sites:
                del collection["sites"]
        return {
            **known,
            "parameters": dict(self.parameters),
            "row_rule": self.row_rule.to_dict(),
            "feature_names": None if self.feature_names is None else list(self.feature_names),
            "request": self.request.to_dict(),
            "chosen_privately": list(self.chosen_privately),
            "without_range": list(self.without_range),
            "collection": collection,
            "schema": None if self.schema is None else self.schema.to_dict(),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return the origin that `to_dict` wrote."""
        return cls.read(content)[0]

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> tuple[Self, int]:
        """Return the origin that `to_dict` of this or a later version wrote, and how many fields are unknown here."""
        known, unknown = _known(cls, content)
        request = dict(known["request"])
        kind = REQUESTS[request.pop("kind")]
        request, more = _known(kind, request)
        asked: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in request.items()
        }
        row_rule, yet_more = _known(RowRule, known["row_rule"])
        ranges, collection, screening = known.get("given_bounds"), known["collection"], known.get("screening")
        if collection is not None:
            collection = Collection(**{**collection, "sites": tuple(collection.get("sites", ()))})
        if screening is not None:
            screening = Screening(
                screening["n_features"], tuple(screening["kept"]), _optional_tuple(screening["feature_names"])
            )
        origin = cls(
            **{
                **known,
                "row_rule": RowRule(**row_rule),
                "feature_names": _optional_tuple(known["feature_names"]),
                "request": kind(**asked),
                "chosen_privately": tuple(known["chosen_privately"]),
                "without_range": tuple(known.get("without_range", ())),
                "given_bounds": None if ranges is None else tuple((low, high) for low, high in ranges),
                "collection": collection,
                "schema": None if known.get("schema") is None else Schema.from_dict(known["schema"]),
                "screening": screening,
            }
        )
        return origin, unknown + more + yet_more


def _known(record: type, content: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """Return the fields of a record among those of a file, and how many others there are."""
    names = {one.name for one in fields(record)}
    known = {name: value for name, value in dict(content).items() if name in names}
    return known, len(content) - len(known)


def _optional_tuple(values: Any) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)


def _lists(content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in content.items()}


# What a file may say.

_TEXTS = f"texts of at most {_LONGEST_TEXT:,} characters"
_NAMES, _NAMES_OF_FEATURES, _NAMES_OF_PARAMETERS = (
    f"names{of} are {_TEXTS}" for of in ("", " of features", " of parameters")
)
_ONE_LINE = json.JSONEncoder(sort_keys=True, allow_nan=False)  # much quicker than with lines of their own


def header_text(content: Mapping[str, Any]) -> str:
    """Return the JSON of a file: the same text for the same content."""
    return json.dumps(content, indent=1, sort_keys=True, allow_nan=False)


def must(holds: bool, rule: str) -> None:
    """Raise `ValueError` where a rule of the format does not hold."""
    if not holds:
        raise ValueError(rule)


def _check_request(request: Request, d: int) -> None:
    must(type(request.correlation) is bool and type(request.own_units) is bool, "what is asked for is true or false")
    if isinstance(request, ComponentsRequest):
        k = request.n_components
        share = isinstance(k, float) and 0 < k < 1
        must(k is None or k == "above_noise" or share or _whole(k, 1, d), "so many components there are")
    elif isinstance(request, SparseRequest):
        must(request.n_components <= d and (request.penalty or 0.0) <= LARGEST, "so many components there are")
    elif isinstance(request, RegressionRequest):
        each = request.target if isinstance(request.target, tuple) else (request.target,)
        must(all(_whole(one, -d, d - 1) for one in each), "the target is a feature")
        must(0 < len({one % d for one in each}) == len(each) < max(d, 2), "targets differ, and leave a feature")
        must(request.alpha is None or _number(request.alpha, 0.0), "alpha is a number")


def _text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_TEXT


def _whole(value: Any, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def _number(value: Any, low: float) -> bool:
    return type(value) in (int, float) and low <= value <= LARGEST
