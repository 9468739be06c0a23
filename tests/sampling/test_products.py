"""Products that the error bounds are proved for, and the functions of libm that they rest on."""

import decimal
import math
from fractions import Fraction

import numpy as np
import pytest

from eigenveil.sampling import certified
from eigenveil.sampling.certified import (
    Interval,
    are_conventional,
    conventional_blas,
    exp_interval,
    rounding_of_sum,
    weighted_grams,
)


def strassen(rows):
    """Multiply rows by their transpose with one step of Strassen's recursion."""
    A = np.pad(rows, [(0, len(rows) % 2), (0, rows.shape[1] % 2)])
    B = A.T
    h, w = A.shape[0] // 2, A.shape[1] // 2
    a, b, c, d = A[:h, :w], A[:h, w:], A[h:, :w], A[h:, w:]
    e, f, g, i = B[:w, :h], B[:w, h:], B[w:, :h], B[w:, h:]
    m1, m2, m3, m4 = (a + d) @ (e + i), (c + d) @ e, a @ (f - i), d @ (g - e)
    m5, m6, m7 = (a + b) @ i, (c - a) @ (e + f), (b - d) @ (g + i)
    whole = np.block([[m1 + m4 - m5 + m7, m3 + m5], [m2 + m4, m1 - m2 + m3 + m6]])
    return whole[: len(rows), : len(rows)]


def single_precision(rows):
    scaled = (rows / np.abs(rows).max(axis=1, keepdims=True)).astype(np.float32)
    sizes = np.abs(rows).max(axis=1)
    return (scaled @ scaled.T).astype(np.float64) * np.outer(sizes, sizes)


def test_the_blas_at_hand_is_conventional():
    assert conventional_blas(5)
    assert conventional_blas(5000)


@pytest.mark.parametrize("flawed", [strassen, single_precision])
def test_other_products_are_caught(flawed):
    rows = np.random.default_rng(0).normal(size=(50, 51))
    assert np.allclose(flawed(rows), rows @ rows.T, rtol=1e-4, atol=1e-4)  # a product all the same
    for n_rows in (64, 512):
        assert not are_conventional(lambda rows, chosen: flawed(rows)[:, chosen], n_rows=n_rows)


@pytest.mark.parametrize("blas", [True, False])
@pytest.mark.parametrize(("d", "columns"), [(6, 6), (9, 4), (20, 20)])
def test_products_keep_their_bound(monkeypatch, blas, d, columns):
    """Blocks of few rows, on threads and not, and triangles of fewer columns than rows."""
    monkeypatch.setattr(certified, "conventional_blas", lambda side: blas)
    monkeypatch.setattr(certified, "_BLOCK", 4)
    rng, weights = np.random.default_rng(1), [0.3, -1.7]
    triangles = [np.tril(rng.normal(size=(d, columns))) for _ in weights]
    total, longest = weighted_grams(triangles, weights)
    sizes = sum(
        abs(weight) * np.linalg.norm(rows, axis=1)[:, None] * np.linalg.norm(rows, axis=1)
        for rows, weight in zip(triangles, weights, strict=True)
    )
    for rows, square in zip(triangles, longest, strict=True):
        assert square == pytest.approx((rows**2).sum(axis=1).max(), rel=1e-14)
    for i in range(d):
        for j in range(i, d):
            exact = sum(
                Fraction(weight) * sum(Fraction(x) * Fraction(y) for x, y in zip(rows[i], rows[j], strict=True))
                for rows, weight in zip(triangles, weights, strict=True)
            )
            # The roundings of two products by weights and their sum come to at most 4 units of the sizes.
            assert abs(Fraction(total[i, j]) - exact) <= (rounding_of_sum(columns) + 4 * 2.0**-53) * sizes[i, j]


def ulps(found, exact):
    """Return how many units of the last place a float is from an exact decimal."""
    return abs((decimal.Decimal(float(found)) - exact) / decimal.Decimal(math.ulp(float(exact))))


def test_exp_and_log_are_good_to_four_units():
    """Of NumPy, which decides coins, and of math, which makes the weights of the balanced mechanism."""
    generator = np.random.default_rng(2)
    powers = -np.concatenate([generator.uniform(0, 45, 3000), generator.exponential(1e-3, 1000)])
    arguments = np.concatenate([generator.random(3000), 1 - generator.exponential(1e-6, 1000)])
    with decimal.localcontext(prec=50):
        for values, at_once, one, known in (
            (powers, np.exp, math.exp, decimal.Decimal.exp),
            (arguments, np.log, math.log, decimal.Decimal.ln),
        ):
            together = at_once(values)
            for value, found in zip(values.tolist(), together.tolist(), strict=True):
                exact = known(decimal.Decimal(value))
                assert ulps(found, exact) <= 4
                assert ulps(one(value), exact) <= 4
    assert ulps(math.exp(-1.0) * (1 + 2.0**-48), decimal.Decimal(-1).exp()) > 4  # so it sees sixteen units


def test_products_without_blas_are_the_same(monkeypatch):
    first, second = np.arange(12.0).reshape(3, 4), np.arange(8.0).reshape(4, 2)
    monkeypatch.setattr(certified, "conventional_blas", lambda side: False)
    assert np.array_equal(certified.plain_product(first, second), first @ second)
    assert np.array_equal(certified.plain_product(first, second[:, 0]), first @ second[:, 0])


@pytest.mark.parametrize("exponent", [-(10**6), -(10**12), -(10**30)])
def test_a_vanishing_probability_is_held_at_once(exponent):
    bounds = exp_interval(Interval(Fraction(exponent) - 1, Fraction(exponent)), 40)
    assert 0 == bounds.low < bounds.high < Fraction(1, 10**1000)
    both = exp_interval(Interval(Fraction(exponent), Fraction(-1)), 40)
    assert both.low == 0
    assert both.high == pytest.approx(np.exp(-1.0), rel=1e-12)
