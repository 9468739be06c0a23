"""Rows that are collected in several calls, and spent by a later one."""

from typing import Any, Self

import numpy as np

from ..errors import InvalidDataError
from ..guarantee import Relation
from ..moments import SecondMoments
from ..rows.mixing import MixedRing
from .availability import available_where
from .collecting import collected_moments
from .one_at_a_time import one_fit_at_a_time
from .opening import opened
from .public_facts import Features, prepared_once, rows_pass_once
from .stages import check_read_once, stages_asked


class CollectsInParts:
    """Base of `MomentsEstimator`: `partial_fit`, and what it holds until it is spent."""

    _ring: MixedRing
    _collected: SecondMoments
    relation: str
    stages: int | str

    @available_where(rows_pass_once)
    @one_fit_at_a_time
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Collect rows and spend nothing; `fit_moments()` then draws the release and spends.

        There only where nothing about the rows is found privately, which takes another pass: with a public `norm_bound`
        or `bounds`, or with rows that are compared.
        """
        del y
        Relation.parse(self.relation)
        check_read_once(stages_asked(self.stages))
        source = opened(self, X)
        collected: SecondMoments | None = getattr(self, "_collected", None)
        if collected is not None and source.n_features != collected.n_features:
            raise InvalidDataError(
                f"X has {source.n_features} features, but {type(self).__name__} is expecting "
                f"{collected.n_features} features as input."
            )
        # Collected apart and added at the end: a call that fails midway has added nothing, so calling it again
        # cannot count a row twice, which would double what one person changes.
        preparation = prepared_once(self, Features.of(source))
        ring = MixedRing(preparation.bound) if collected is None else self._ring.branch()
        added = collected_moments(source, preparation, ring)
        self.n_features_in_ = source.n_features
        if source.feature_names is not None:
            self.feature_names_in_ = np.asarray(source.feature_names, dtype=object)
        # In one step, and the last: no interrupt comes between the sums and the rows that wait to be compared.
        whole, schema = added if collected is None else collected + added, Features.of(source).schema
        self.__dict__.update(_collected=whole, _ring=ring, _collected_schema=schema)
        return self

    def _forget_collected(self) -> None:
        for name in ("_ring", "_collected", "_collected_schema"):
            self.__dict__.pop(name, None)

    def __getstate__(self) -> Any:
        # What pickle, joblib and copy ask for. scikit-learn's clone does not: it makes a new one of the parameters.
        if "_collected" in self.__dict__ or "_ring" in self.__dict__:
            raise InvalidDataError(
                f"This {type(self).__name__} holds private sums from partial_fit and cannot be pickled or copied; call "
                "fit_moments first, or fit."
            )
        return super().__getstate__()
