"""Sentences that a guarantee carries: which attack applies to numbers that are not exact, and where order matters.

Mironov, On significance of the least significant bits for differential privacy (CCS 2012), showed that the last bits of
float64 noise tell neighbouring data apart; docs/explanation/decisions/0003-exactness.md says what became of ours.
"""

FLOAT_CAVEAT = (
    "The noise is drawn in float64: which values the sum can take depends on the data, and an observer who looks at "
    "their last bits can tell neighbouring data apart (Mironov 2012)."
)
"""Which attack applies to noise that was drawn in floats."""
DIRECTION_CAVEAT = (
    "The directions are computed in float64 from the data, so their last bits can be a fingerprint of it (after "
    "Mironov 2012)."
)
"""Which attack applies to directions that were drawn in floats."""
ORDER_CAVEAT = (
    "Rows are compared with one another by their places, so the promise is for tables whose order does not depend on "
    "values; shuffle a sorted one first, by no fixed seed."
)
"""What holds of rows that are compared: a row is replaced where it stands, and moves no other."""
IDENTIFIER_CAVEAT = (
    "Persons are compared with one another in the order of their identifiers, so the promise is about what the rows "
    "of a person say, and not about which identifiers there are."
)
"""What holds of persons who are compared: their rows are replaced, and their identifier stays."""


def sites_caveat(n_sites: int, n_colluding: int) -> str:
    """Return whom the noise of several sites holds against."""
    if n_colluding == 0:
        against = "everybody but the sites themselves, each of which knows its own noise"
    else:
        ours = "one site" if n_colluding == 1 else f"{n_colluding} sites"
        against = f"every coalition of at most {ours} with whoever combined them, and everybody who sees the release"
    return (
        f"The sum over {n_sites} sites is private by the noise of the sites that keep theirs secret: the promise holds "
        f"against {against}."
    )


MASKS_CAVEAT = (
    "That nobody sees more of a site than its part in the sum rests on masks (X25519, HKDF, ChaCha20), which is a "
    "promise about computation: without them a site's share has its own part of the noise alone, or none."
)
"""What keeps one site's share from whoever adds up."""
ONE_SITE_CAVEAT = (
    "Everybody is taken to be in the data of one site; who is at several is protected as a group of so many is."
)
"""What is assumed of people in the data of several sites."""
