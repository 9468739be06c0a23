"""What runs at a site: `invite` makes terms from an estimator, `contribute` makes a masked share from rows."""

import os
from collections.abc import Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..accounting.ledger import LedgerOrPath, opened_ledger
from ..errors import InvalidDataError, InvalidParameterError, positive_number, probability_below_one
from ..estimators.base import PrivateEstimator
from ..estimators.parameters import Features, FitParameters, checked_schema
from ..estimators.preparation import CHOICES, INSTEAD, prepared
from ..estimators.split import check_read_once
from ..files import check_replaceable, given_path, whole_file
from ..gate import check_site, check_site_rule, pay_for_share, site_share
from ..mechanisms.federated import FEDERATED_MECHANISMS
from ..moments import RowBound
from ..moments.second_moments import SecondMoments
from ..releases.origin import ComponentsRequest, Request
from ..sampling.randomness import is_secure, secure_generator
from ..tables.base import Source
from ..tables.open import collect, open_table
from ..tables.open import is_source as is_opened
from .contributions import n_numbers, sealed, to_words
from .rounds import Round, SiteKeys, Terms, mask, used_once


def invite(
    estimator: PrivateEstimator,
    sites: Sequence[str],
    *,
    n_colluding: int = 1,
    quorum: int | None = None,
    purpose: str = "",
) -> Round:
    """Return the draft of a round, for the sites to join.

    Parameters
    ----------
    estimator : PrivatePCA, PrivateCovariance, ...
        What is asked for, and what it may cost: with a schema, and with public ranges or a public norm_bound.
    sites : sequence of str
        Public names.
    n_colluding : int
        Against how many sites, together with whoever combines, the guarantee holds. With 0 it does not hold against the
        sites themselves, each of which knows its own noise.
    quorum : int, optional
        With fewer sites there is no round; all of them by default.
    purpose : str
        A public name.

    Examples
    --------
    >>> from eigenveil import PrivatePCA, Schema
    >>> schema = Schema.from_dict({"version": 1, "columns": {"age": {"range": [0, 120]}, "mass": {"range": [0, 200]}}})
    >>> draft = invite(PrivatePCA(1, epsilon=1.0, delta=1e-6, schema=schema), ["north", "south", "east"])
    >>> draft.terms.mechanism, draft.missing
    ('matrix_laplace', ('north', 'south', 'east'))
    """
    schema = checked_schema(estimator.schema)
    if schema is None:
        raise InvalidParameterError("A round needs a schema, so that all sites read the same columns; give one.")
    parameters = FitParameters.of(estimator)
    check_read_once(parameters.stages)
    preparation = prepared(parameters, estimator._needs(), Features.declared(schema.n_features, parameters))
    if preparation.chosen and not preparation.bound.compares:
        name = preparation.chosen[0]
        raise InvalidParameterError(
            f"Several sites cannot choose {CHOICES[name]} privately before they release together; give {INSTEAD[name]}."
        )
    estimator.plan(schema.n_features)  # refuses what a fit would
    rule = preparation.bound.rule
    options = {"correlation": bool(estimator.standardize), "own_units": preparation.own_units}
    request = Request(**options)
    if "n_components" in estimator.get_params():
        request = ComponentsRequest(estimator.n_components, **options)
    terms = Terms(
        schema=schema,
        row_rule=rule,
        **_mechanism(parameters, schema.n_features + (rule.constant is not None), len(sites), n_colluding),
        epsilon=positive_number("epsilon", estimator.epsilon),
        adjacency=parameters.adjacency.value,
        invited=tuple(sites),
        n_colluding=n_colluding,
        quorum=len(sites) if quorum is None else quorum,
        request=request,
        purpose=purpose,
    )
    check_site_rule(terms.mechanism_for(len(sites)), rule)
    check_site_rule(terms.mechanism_for(terms.quorum), rule)
    return Round(terms)


def _mechanism(parameters: FitParameters, width: int, n_sites: int, n_colluding: int) -> dict[str, Any]:
    """Return the mechanism that is named, or that of least noise beside the diagonal, and the delta that it uses."""
    delta = probability_below_one("delta", parameters.delta)
    if parameters.mechanism != "auto":
        if parameters.mechanism not in FEDERATED_MECHANISMS:
            listed = " or ".join(FEDERATED_MECHANISMS)
            raise InvalidParameterError(f"Sites share the noise of {listed}; choose one of them, or auto.")
        return {"mechanism": parameters.mechanism, "delta": delta}
    usable = {
        name: mechanism(
            epsilon=parameters.epsilon,
            delta=delta if mechanism.needs_delta else 0.0,
            n_features=width,
            adjacency=parameters.adjacency,
            n_sites=n_sites,
            n_colluding=n_colluding,
        )
        for name, mechanism in FEDERATED_MECHANISMS.items()
        if delta > 0 or not mechanism.needs_delta
    }
    best = min(usable, key=lambda name: usable[name].off_diagonal_sd)
    return {"mechanism": best, "delta": usable[best].delta}


def contribute(
    agreed: Round,
    keys: str | PathLike[str],
    data: Any,
    output: str | PathLike[str],
    *,
    ledger: LedgerOrPath | None = None,
    generator: np.random.Generator | None = None,
    overwrite: bool = False,
) -> Path:
    """Write the contribution of one site to a closed round, and spend its guarantee.

    In this order: everything that can be refused is refused, rows are added up, the ledger records the spend, the keys
    are taken from their file for good, noise is drawn, numbers are masked and signed, the file is written. The same
    file may be sent again; a second contribution needs fresh keys, so another round.

    Parameters
    ----------
    agreed : Round
        Whose fingerprint was compared with the other sites over another channel.
    keys : path
        The private keys that joined.
    data : array, data frame, path, ... or SecondMoments
        The rows of this site, as `eigenveil.tables.open.open_table` takes them, or their moments by the rule of the
        round.
    output : path
        The contribution file.
    ledger : PrivacyLedger or path, optional
        That of this site.
    generator : numpy.random.Generator, optional
        The secure generator by default. Any other marks the release as reproducible and not private.
    overwrite : bool
        Whether to replace an `output` that is there.
    """
    target = given_path(output, "output")
    own = SiteKeys.load(keys)
    place = own.check(agreed)
    if target.exists() and not overwrite:
        raise InvalidParameterError(f"{target} is already there; send it, or name another file.")
    try:
        check_replaceable(target)
    except OSError as error:
        raise InvalidParameterError(f"{target} cannot be written: {error.strerror}.") from error
    for folder in (target.parent, Path(keys).parent):  # keys are moved out of reach
        if not os.access(folder, os.W_OK):
            raise InvalidParameterError(f"The folder {folder} cannot be written to; name a file in another one.")
    book, mechanism = opened_ledger(ledger), agreed.mechanism
    hidden_by = mask(
        agreed, place, own.agreement, n_numbers(mechanism)
    )  # what is wrong with other sites' keys is seen here
    generator = secure_generator() if generator is None else generator
    if book is not None and is_secure(generator):
        book.check(agreed.guarantee())
    moments = data if isinstance(data, SecondMoments) else site_moments(agreed, data)
    if moments.bound.rule != agreed.terms.row_rule or moments.n_features != agreed.terms.schema.n_features:
        raise InvalidDataError("The moments were collected by another rule than that of the round; collect them anew.")
    check_site(mechanism, moments)
    what = f"federation round {agreed.fingerprint[:16]}, site {agreed.sites[place]}"
    payment = pay_for_share(mechanism, moments, generator, book, what)
    with used_once(keys):
        words = to_words(mechanism, site_share(moments, place, generator, payment))
        words += hidden_by
        content = sealed(agreed, place, words, not is_secure(generator), own.signing)
        try:
            with whole_file(target) as file:
                file.write(content)
        except OSError as error:
            raise InvalidParameterError(f"{target} cannot be written: {error.strerror}.") from error
    return target


def site_moments(agreed: Round, data: Any) -> SecondMoments:
    """Return the exact moments of the rows of one site, by the rule of the round."""
    schema, rule = agreed.terms.schema, agreed.terms.row_rule
    source: Source = data if is_opened(data) else open_table(data, schema=schema)
    if source.n_features != schema.n_features or source.feature_names not in (None, schema.feature_names):
        raise InvalidDataError("The table was opened with other columns than those of the round; use its schema.")
    make = partial(SecondMoments, RowBound(**rule.to_dict()), schema.n_features, schema.feature_names)
    moments: SecondMoments = collect(source, make, None, "adding up rows")
    return moments
