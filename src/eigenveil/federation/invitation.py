"""From the parameters of an estimator to the terms of a round: what a fit would do at one site, for several."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from ..errors import InvalidParameterError, positive_number, probability_below_one
from ..estimators.asked import told
from ..estimators.opening import checked_schema
from ..estimators.preparation import CHOICES, INSTEAD
from ..estimators.public_facts import Features, prepared
from ..estimators.stages import check_read_once, stages_asked
from ..guarantee import Relation
from ..laws.federated.table import FEDERATED_LAWS
from ..origin import ComponentsRequest, Request
from ..site_gate import check_site_rule
from .rounds import Round
from .terms import Terms


def invite(
    estimator: Any,
    sites: Sequence[str],
    *,
    n_colluding: int = 1,
    quorum: int | None = None,
    purpose: str = "",
    deadline: str | None = None,
) -> Round:
    """Return the draft of a round, for the sites to join.

    Parameters
    ----------
    estimator : PrivatePCA, PrivateCovariance, ...
        What is asked for, and what it may cost: with a schema, and with public ranges or a public norm_bound.
    sites : sequence of str
        Public names.
    n_colluding : int
        Against how many sites, together with whoever combines, the promise holds. With 0 it does not hold against the
        sites themselves, each of which knows its own noise.
    quorum : int, optional
        With fewer sites there is no round; all of them by default.
    purpose : str
        A public name.
    deadline : str, optional
        An ISO time with its zone.

    Examples
    --------
    >>> from eigenveil import PrivatePCA, Schema
    >>> schema = Schema.from_dict({"version": 1, "columns": {"age": {"range": [0, 120]}, "mass": {"range": [0, 200]}}})
    >>> draft = invite(PrivatePCA(1, epsilon=1.0, delta=1e-6, schema=schema), ["north", "south", "east"])
    >>> draft.terms.law, draft.missing
    ('matrix_laplace', ('north', 'south', 'east'))
    """
    schema = checked_schema(estimator.schema)
    if schema is None:
        raise InvalidParameterError("A round needs a schema, so that all sites read the same columns; give one.")
    check_read_once(stages_asked(estimator.stages))
    preparation = prepared(estimator, Features.of(schema.n_features, estimator))
    private = preparation.choices(Fraction(1), Relation.parse(estimator.relation))
    if private and not preparation.bound.compares:
        name = next(iter(private))
        raise InvalidParameterError(
            f"Several sites cannot choose {CHOICES[name]} privately before they release together; give {INSTEAD[name]}."
        )
    estimator.plan(schema.n_features)  # refuses what a fit would
    rule = preparation.bound.rule
    terms = Terms(
        schema=schema,
        rows=rule,
        **_law(estimator, schema.n_features + (rule.constant is not None), len(sites), n_colluding),
        epsilon=positive_number("epsilon", estimator.epsilon),
        relation=Relation.parse(estimator.relation).value,
        invited=tuple(sites),
        n_colluding=n_colluding,
        quorum=len(sites) if quorum is None else quorum,
        request=_request(estimator, preparation.own_units),
        purpose=purpose,
        deadline=deadline,
    )
    check_site_rule(terms.law_for(len(sites)), rule)
    check_site_rule(terms.law_for(terms.quorum), rule)
    return Round(terms)


def _law(estimator: Any, width: int, n_sites: int, n_colluding: int) -> dict[str, Any]:
    """Return the law that was asked for, or that of the least noise beside the diagonal, and the delta that it uses."""
    delta = probability_below_one("delta", estimator.delta)
    if estimator.law != "auto":
        if estimator.law not in FEDERATED_LAWS:
            listed = " or ".join(FEDERATED_LAWS)
            raise InvalidParameterError(f"Sites share the noise of {listed}; choose one of them, or auto.")
        return {"law": estimator.law, "delta": delta}
    usable = {
        name: law(
            epsilon=estimator.epsilon,
            delta=delta if law.needs_delta else 0.0,
            n_features=width,
            relation=estimator.relation,
            n_sites=n_sites,
            n_colluding=n_colluding,
        )
        for name, law in FEDERATED_LAWS.items()
        if delta > 0 or not law.needs_delta
    }
    best = min(usable, key=lambda name: usable[name].off_diagonal_sd)
    return {"law": best, "delta": usable[best].delta}


def _request(estimator: Any, own_units: bool) -> Request:
    options = {"correlation": told(estimator, "standardize"), "own_units": own_units}
    if "n_components" not in estimator.get_params():
        return Request(**options)
    return ComponentsRequest(estimator.n_components, **options)
