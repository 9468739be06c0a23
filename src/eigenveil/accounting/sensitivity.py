"""The one table of sensitivities: how far C moves when one unit changes, be it a row or a person.

A row of norm at most 1 adds x x'. A person adds the sum over their rows, which are shortened together, so that their
squared norms add up to at most 1. Either is positive semidefinite of trace at most 1.

Written as exact fractions (squares where the number itself is irrational); docs/explanation/guarantee.md has the proofs
and tests search for counterexamples. On the integer grid the trace is at most 4^bits, so every entry here holds for the
integer statistic after multiplying by 4^bits; and after multiplying by k * 4^bits where a unit takes part in k
comparisons, since every entry holds for any A >= 0 of trace at most 1.
"""

from fractions import Fraction

from ..guarantee import Adjacency


def frobenius_squared(adjacency: Adjacency) -> Fraction:
    """Return the largest squared Frobenius norm of a change, |xx' - yy'|^2 = |x|^4 + |y|^4 - 2(x.y)^2."""
    return Fraction(2 if adjacency is Adjacency.REPLACE_ONE else 1)


def frobenius_with_trace_squared(adjacency: Adjacency) -> Fraction:
    """Return the largest squared norm of a change of the matrix and one number more.

    Replace: of (C, tr C). Add or remove: of (C, n - tr C), n the number of units. Both are convex in what one adds, A
    positive semidefinite of trace at most 1, so extreme points A = 0 and A = x x' with |x| = 1 are the worst:
    |xx' - yy'|^2 + 0 <= 2 and |xx'|^2 + 1 = 2; |xx'|^2 + 0 = 1 and 0 + 1 = 1. As large as without that number.
    """
    return frobenius_squared(adjacency)


def sum_squared(adjacency: Adjacency) -> int:
    """Return the largest squared l2 change of the sum of rows of norm at most 1: x - y with y = -x, or one row."""
    return 4 if adjacency is Adjacency.REPLACE_ONE else 1


def nuclear(adjacency: Adjacency) -> Fraction:
    """Return the largest nuclear norm of a change: at most |x|^2 + |y|^2, reached by orthogonal rows."""
    return Fraction(2 if adjacency is Adjacency.REPLACE_ONE else 1)


def upper_triangle_l1_squared(adjacency: Adjacency, n_features: int) -> Fraction:
    """Return the square of the largest l1 norm of the upper triangle with the diagonal.

    Replace: sum_i |D_ii| + sum_(i<j) |D_ij| = <w, (D_ii, sqrt(2) D_ij)> with d weights 1 and d(d-1)/2
    weights 1/sqrt(2), so by Cauchy-Schwarz at most sqrt(d + d(d-1)/4) times the Frobenius norm sqrt(2).
    Add or remove: ((sum |x_i|)^2 + |x|^2)/2, at most (d + 1)/2.
    """
    if adjacency is Adjacency.REPLACE_ONE:
        return Fraction(n_features * (n_features + 3), 2)
    return Fraction(n_features + 1, 2) ** 2


def quadratic_form(adjacency: Adjacency) -> Fraction:
    """Return the largest |u'(C - C')u| for a unit u, and |tr V'(C - C')V| for an orthonormal V of any rank.

    It lies in [-1, 1]; for add or remove it has one sign, which halves the cost of sampling mechanisms.
    """
    del adjacency
    return Fraction(1)


def diagonal_l1(adjacency: Adjacency) -> Fraction:
    """Return the largest l1 change of the eigenvalues of C, or of the diagonal of V'CV, for orthonormal V."""
    return nuclear(adjacency)


def counts_l1(adjacency: Adjacency) -> int:
    """Return the largest l1 change of counts of units in disjoint cells: a unit moves to another cell, or is added.

    Examples
    --------
    >>> counts_l1(Adjacency.REPLACE_ONE), counts_l1(Adjacency.ADD_OR_REMOVE_ONE)
    (2, 1)
    """
    return 2 if adjacency is Adjacency.REPLACE_ONE else 1


def counts_squared(adjacency: Adjacency) -> int:
    """Return the largest squared l2 change of counts of units in disjoint cells: two of them by 1 each, or one."""
    return 2 if adjacency is Adjacency.REPLACE_ONE else 1
