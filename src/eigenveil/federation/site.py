"""What runs at a site: from its rows to one signed file that tells nothing by itself."""

import os
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..accounting.ledger import LedgerOrPath, opened_ledger
from ..errors import InvalidDataError, InvalidParameterError
from ..moments import SecondMoments
from ..randomness import is_secure, secure_generator
from ..rows import RowBound
from ..site_gate import check_site, pay_for_share, site_share
from ..sources import Source, collect, open_table
from ..sources import is_source as is_opened
from ..whole_file import whole_file
from .keys import SiteKeys, used_once
from .masks import mask
from .rounds import Round
from .terms import FederationError
from .wire import n_numbers, sealed, to_words


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
        The rows of this site, as `eigenveil.sources.open_table` takes them, or their moments by the rule of the round.
    output : path
        The contribution file.
    ledger : PrivacyLedger or path, optional
        That of this site.
    generator : numpy.random.Generator, optional
        The secure generator by default. Any other marks the release as reproducible and not private.
    overwrite : bool
        Whether to replace an `output` that is there.
    """
    target = Path(output)
    own = SiteKeys.load(keys)
    place = own.check(agreed)
    if agreed.terms.is_over:
        raise FederationError("The deadline of the round has passed; nothing was spent.")
    if target.exists() and not overwrite:
        raise InvalidParameterError(f"{target} is already there; send it, or name another file.")
    for folder in (target.parent, Path(keys).parent):  # keys are moved out of reach
        if not os.access(folder, os.W_OK):
            raise InvalidParameterError(f"The folder {folder} cannot be written to; name a file in another one.")
    book, law = opened_ledger(ledger), agreed.law
    hidden_by = mask(agreed, place, own.agreement, n_numbers(law))  # what is wrong with other sites' keys is seen here
    generator = secure_generator() if generator is None else generator
    if book is not None and is_secure(generator):
        book.check(agreed.guarantee())
    moments = data if isinstance(data, SecondMoments) else site_moments(agreed, data)
    _check_made_for(agreed, moments)
    what = f"federation round {agreed.fingerprint[:16]}, site {agreed.sites[place]}"
    payment = pay_for_share(law, moments, generator, book, what)
    with used_once(keys):
        words = to_words(law, site_share(moments, place, generator, payment))
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
    schema, rule = agreed.terms.schema, agreed.terms.rows
    source: Source = data if is_opened(data) else open_table(data, schema=schema)
    if source.n_features != schema.n_features or source.feature_names not in (None, schema.feature_names):
        raise InvalidDataError("The table was opened with other columns than those of the round; use its schema.")
    make = partial(SecondMoments, RowBound(**rule.to_dict()), schema.n_features, schema.feature_names)
    moments: SecondMoments = collect(source, make, None, "adding up rows")
    return moments


def _check_made_for(agreed: Round, moments: SecondMoments) -> None:
    if moments.bound.rule != agreed.terms.rows or moments.n_features != agreed.terms.schema.n_features:
        raise InvalidDataError("The moments were collected by another rule than that of the round; collect them anew.")
    check_site(agreed.law, moments)
