"""A release for other tools: scikit-learn, JSON, ONNX. Nothing but released values leaves, at no cost."""

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InvalidParameterError
from ..numerics import FloatArray, IntArray
from .origin import ComponentsRequest

if TYPE_CHECKING:
    from .record import Release


JSON_FORMAT = 1
"""Of `to_json`. A key may be added; none ever changes its meaning under the same number."""
_EXACT = 2**53
_OPSET, _IR = 17, 8


def to_sklearn(release: "Release") -> Any:
    """Return a fitted scikit-learn ``PCA`` that projects as the release does.

    Where features are scaled before they are projected it is a fitted pipeline of a ``StandardScaler`` and a
    ``PCA``. Variances are those along the released components; NaN where none were released.
    """
    from sklearn.decomposition import PCA
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    release.matrix.check_units()
    of_all, names = release.matrix.of_all, release.matrix.table_features[1]
    scale, mean, components = of_all(release.scale, 1.0), of_all(release.mean, 0.0), of_all(release.components, 0.0)
    scaled, k = not np.all(scale == 1), len(components)
    unknown = np.full(k, np.nan)
    request, noise = release.origin.request, release.spectrum.noise_variance
    pca = PCA(n_components=k, whiten=isinstance(request, ComponentsRequest) and request.whiten)
    variances = unknown if release.explained_variance is None else release.explained_variance
    if pca.whiten:  # scikit-learn divides by these
        variances = release.spectrum.deviations**2
    fitted: dict[str, Any] = {
        "components_": components.copy(),
        "explained_variance_": variances.copy(),
        "explained_variance_ratio_": unknown if not release.matrix.has_matrix else release.explained_variance_ratio,
        "singular_values_": unknown if noise is None else release.spectrum.singular_values,
        "mean_": np.zeros(mean.size) if scaled else mean.copy(),
        "n_components_": k,
        "n_samples_": release.n_rows,
        "noise_variance_": math.nan if noise is None else noise,
        "n_features_in_": mean.size,
    }
    scaler = StandardScaler()
    named = {} if names is None else {"feature_names_in_": np.array(names, dtype=object)}
    vars(pca).update(fitted | ({} if scaled else named))
    if not scaled:
        return pca
    told = {"mean_": mean.copy(), "scale_": 1 / scale, "var_": scale**-2.0, "n_samples_seen_": release.n_rows or 1}
    vars(scaler).update(told | named | {"n_features_in_": mean.size})
    return make_pipeline(scaler, pca)


def to_json(release: "Release") -> str:
    """Return all that left, and what it says, as JSON for any language.

    Integers beyond 2^53 are text, since JSON's numbers are mostly read as float64; infinity is null.
    """
    says: dict[str, Any] = {
        "mean": release.mean if not release.matrix.of_signs else None,
        "scale": release.scale,
        "components": release.components,
        "explained_variance": release.explained_variance,
        "explained_variance_interval": release.explained_variance_interval,
        "covariance": release.covariance,
        "correlation": release.correlation,
        "noise_sd": release.noise_sd if release.matrix.has_matrix else None,
    }
    content = {
        "format": JSON_FORMAT,
        "integers": {name: _whole(value) for name, value in release.integers.items()},
        "unit": dict(release.unit),
        "guarantee": {**release.guarantee.to_dict(), "text": str(release.guarantee)},
        "origin": release.origin.to_dict(),
        "says": {name: _finite(value) for name, value in says.items()},
    }
    return json.dumps(content, indent=1, allow_nan=False)


def to_onnx(release: "Release") -> bytes:
    """Return an ONNX model that projects rows, float64, as `transform` does; needs the extra ``onnx``."""
    try:
        from onnx import TensorProto, checker, helper, numpy_helper
    except ImportError:
        raise InvalidParameterError("to_onnx needs the package onnx; install it, or the extra 'onnx'.") from None

    release.matrix.check_units()
    of_all = release.matrix.of_all
    constants: dict[str, FloatArray] = {
        "mean": of_all(release.mean, 0.0),
        "directions": np.ascontiguousarray(of_all(release.spectrum.projection.T, 0.0).T),
    }
    nodes = [
        helper.make_node("Sub", ["X", "mean"], ["centred"]),
        helper.make_node("MatMul", ["centred", "directions"], ["scores"]),
    ]
    double = TensorProto.DOUBLE
    graph = helper.make_graph(
        nodes,
        "eigenveil",
        [helper.make_tensor_value_info("X", double, [None, constants["mean"].size])],
        [helper.make_tensor_value_info("scores", double, [None, len(release.components)])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opset = [helper.make_opsetid("", _OPSET)]
    model = helper.make_model(graph, producer_name="eigenveil", opset_imports=opset, ir_version=_IR)
    model.doc_string = str(release.guarantee)
    checker.check_model(model)
    return bytes(model.SerializeToString())


def _whole(values: IntArray) -> Any:
    """Return integers as nested lists; as text where float64 would round them."""
    if values.ndim == 0:
        whole = int(values)
        return whole if abs(whole) <= _EXACT else str(whole)
    return [_whole(part) for part in values]


def _finite(value: Any) -> Any:
    """Return numbers as nested lists, with null for what JSON has no word for."""
    if value is None or isinstance(value, float):
        return value if value is None or math.isfinite(value) else None
    return [_finite(part if part.ndim else float(part)) for part in np.asarray(value)]
