"""The gate of one site among several: where a law meets the site's sums, and its noisy share goes out.

A leaf of `gate`, by the same order: what can be refused is refused, the spend is recorded, then noise is drawn. What
leaves here are integers modulo 2^64 that still have to be masked: one share has a part of the noise only.
"""

import numpy as np

from .accounting.ledger import LedgerOrPath
from .errors import CapacityError, InvalidParameterError
from .gate import Payment, check, pay
from .laws.base import Integers
from .laws.federated.base import FederatedLaw
from .moments import SecondMoments
from .row_rule import RowRule


def check_site_rule(law: FederatedLaw, rule: RowRule) -> None:
    """Refuse a rule of rows by which the sums of several sites would not be those of all rows together."""
    if rule.compares:
        raise InvalidParameterError(
            f"rows='{rule.rows}' compares rows with one another, and those of different sites do not meet; give public "
            "bounds, a schema with ranges or a norm_bound, so that rows are clipped."
        )
    if rule.mapped_from is not None or rule.most_weight is not None:
        raise InvalidParameterError("Sites add up rows as they are, neither mapped nor weighted; release in one stage.")
    law.check_grid(rule.limit_squared)


def check_site(law: FederatedLaw, moments: SecondMoments) -> None:
    """Refuse the sums of a site that cannot be released, before any budget is spent."""
    check_site_rule(law, moments.bound.rule)
    check(law, moments)
    if moments.n_samples > law.site_capacity(moments.bound.limit_squared):
        raise CapacityError(
            f"This site has more {moments.bound.unit.counted} than one of {law.n_sites} may have at "
            f"bits={moments.bound.bits}; agree on fewer bits."
        )


def pay_for_share(
    law: FederatedLaw, moments: SecondMoments, generator: np.random.Generator, ledger: LedgerOrPath | None, what: str
) -> Payment:
    """Refuse what cannot be released, and record what is about to be spent in the ledger of the site."""
    check_site(law, moments)
    return pay(law, law.guarantee().for_unit(moments.bound.unit), generator, ledger, what)


def site_share(moments: SecondMoments, place: int, generator: np.random.Generator, payment: Payment) -> Integers:
    """Return the noisy numbers of the site at this place of the round, to be masked before they leave.

    Parameters
    ----------
    moments : SecondMoments
        The private sums of the site.
    place : int
        Of the site in the round.
    generator : numpy.random.Generator
    payment : Payment
        By `pay_for_share`.

    Formal guarantee
    ----------------
    That of the law, for the sum over all sites, against `law.n_colluding` of them and whoever adds up.
    """
    law = payment.law
    if not isinstance(law, FederatedLaw) or payment.guarantee.unit is not moments.bound.unit:
        raise InvalidParameterError("What was paid for is no share of a sum about this unit; nothing was drawn.")
    check_site(law, moments)
    return law.site_draw(moments.gram, moments.bound.limit_squared, moments.n_samples, place, generator)
