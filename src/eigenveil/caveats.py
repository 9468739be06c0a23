"""Sentences that a guarantee carries: which attack applies to numbers that are not exact, and where order matters.

Mironov, On significance of the least significant bits for differential privacy (CCS 2012), showed that the last bits of
float64 noise tell neighbouring data apart; docs/explanation/decisions/0003-exactness.md says what became of ours.
"""

ROUNDED_CAVEAT = (
    "Drawn by version 0.1 from float64 numbers: their spacing, and ties to even where noise was rounded to the grid, "
    "let an observer tell neighbouring data apart more often than epsilon allows (after Mironov 2012)."
)
"""What is true of a record that says "rounded"."""
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
