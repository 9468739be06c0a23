/* Passes over the rows of whole privacy units, and over CSR rows: what kernels.py says, compiled.

   Rows lie unit after unit. */

#include <stdlib.h>

#include "rows.h"

#define LIMB_BITS 27   /* as in numpy_kernels.py */
#define LEAST_ROOM 256 /* rows that are multiplied together */
#define FEW_ROWS 32    /* that are sorted one by one */

/* Rows of d numbers each. Those of unit u are from starts[u] to before starts[u + 1]. */
struct units {
    const char *rows;
    ptrdiff_t stride;
    const int64_t *starts;
    size_t n, d;
};

INLINE const double *row_at(const struct units *units, int64_t i)
{
    return (const double *)(units->rows + (ptrdiff_t)i * units->stride);
}

/* Put the sum of the squared norms of the changed rows of every unit into `squared`. */
FOR_EVERY_PROCESSOR
void eigenveil_unit_squares(const struct units *units, const double *restrict shift, const double *restrict factor,
                            double *restrict squared)
{
    for (size_t u = 0; u < units->n; u++) {
        double sum = 0.0;
        for (int64_t i = units->starts[u]; i < units->starts[u + 1]; i++)
            sum += change_row(row_at(units, i), units->d, shift, factor);
        squared[u] = sum;
    }
}

#ifdef MULTIPLIES
/* How rows become integers, and the rows of a unit are shortened together. */
struct shortening {
    const double *shift, *factor;
    double single_limit, single_reach; /* of a row by itself */
    double limit, reach;               /* of a unit: without the constant where units are averaged, else with it */
    double constant;
    int average;
};

/* Put the integer rows of a unit with long rows into `out`, each shortened by itself, and return the sum of all squares;
   NaN where a row has no exact square. The sum is rounded as `numpy_kernels._sums` does, and has the square of a constant
   for every row. */
static double long_unit(const struct units *units, size_t u, const struct shortening *how, size_t pitch, double constant,
                        double *out)
{
    size_t d = units->d;
    int64_t high = 0, low = 0, limb = ((int64_t)1 << LIMB_BITS) - 1;
    for (int64_t i = units->starts[u]; i < units->starts[u + 1]; i++, out += pitch) {
        double sum = integer_row(row_at(units, i), d, how->shift, how->factor, how->single_limit, how->single_reach, out);
        if (!(sum < EXACT_LIMIT)) return NAN;
        sum = constant * constant;
        for (size_t j = 0; j < d; j++) sum += out[j] * out[j];
        high += (int64_t)sum >> LIMB_BITS;
        low += (int64_t)sum & limb;
    }
    return (double)(high + (low >> LIMB_BITS)) * 0x1p27 + (double)(low & limb);
}

/* Return what the integer rows of a unit are multiplied by, whose sum of squares, if it is exact, is `sum`, and put their
   constant into `constant`. That is -1, and the rows are zeros, where a row has no exact square. As
   `numpy_kernels.units_together`. */
INLINE double unit_factor(const struct units *units, size_t u, const struct shortening *how, size_t pitch, double sum,
                          double *out, double *constant)
{
    size_t many = (size_t)(units->starts[u + 1] - units->starts[u]);
    double appended = how->average ? 0.0 : how->constant, all = (double)many * appended * appended, factor, root;
    sum = sum <= how->single_limit && sum + all < EXACT_LIMIT ? sum + all
                                                               : long_unit(units, u, how, pitch, appended, out);
    if (isnan(sum)) {
        memset(out, 0, many * pitch * sizeof *out);
        *constant = -1.0;
        return 0.0;
    }
    factor = how->reach / sqrt(sum > 1.0 ? sum : 1.0);
    if (how->average) {
        root = sqrt((double)many);
        *constant = trunc(how->constant / root);
        return 1.0 / root < factor ? 1.0 / root : factor;
    }
    factor = sum > how->limit ? factor : 1.0;
    *constant = trunc(how->constant * factor);
    return factor;
}

/* Put the integer rows of a unit into `out`, with zeros beyond d up to the next multiple of LANES, and return the sum of
   all squares. Up to `single_limit` it is exact, and no row is longer by itself. */
WIDE_REGISTERS INLINE double integer_unit_wide(const struct units *units, size_t u, const struct shortening *how,
                                               size_t pitch, double *out)
{
    size_t d = units->d;
    __m512d sums = _mm512_setzero_pd();
    for (int64_t i = units->starts[u]; i < units->starts[u + 1]; i++, out += pitch) {
        const double *row = row_at(units, i);
        for (size_t j = 0; j < d; j += LANES) {
            __mmask8 there = (__mmask8)(d - j < LANES ? (1 << (d - j)) - 1 : 255);
            __builtin_prefetch((const void *)((uintptr_t)(row + j) + LEAST_ROOM * (uintptr_t)units->stride), 0, 2);
            __m512d entry = _mm512_maskz_loadu_pd(there, row + j), shift = _mm512_maskz_loadu_pd(there, how->shift + j);
            entry = _mm512_mul_pd(_mm512_sub_pd(entry, shift), _mm512_maskz_loadu_pd(there, how->factor + j));
            entry = TRUNCATED(entry);
            _mm512_storeu_pd(out + j, entry);
            sums = _mm512_fmadd_pd(entry, entry, sums);
        }
    }
    return _mm512_reduce_add_pd(sums);
}

/* Add q q' of all integer rows q, their constants at their end, to the upper triangle of `products`; see
   eigenveil_products. `room` is for the rows of the largest unit and LEAST_ROOM + TILE more. */
WIDE_REGISTERS
void eigenveil_unit_products(const struct units *units, const struct shortening *how, size_t pitch,
                             double *restrict room, double *restrict constants, double *restrict products)
{
    size_t filled = 0, done = 0, d = units->d;
    for (size_t u = 0; u < units->n; u++) {
        double *row = room + filled * pitch, sum = integer_unit_wide(units, u, how, pitch, row);
        double factor = unit_factor(units, u, how, pitch, sum, row, constants + u);
        double constant = constants[u] > 0.0 ? constants[u] : 0.0;
        filled += (size_t)(units->starts[u + 1] - units->starts[u]);
        for (; row < room + filled * pitch; row += pitch) {
            for (size_t j = 0; j < d; j += LANES) {
                __m512d entry = _mm512_mul_pd(_mm512_loadu_pd(row + j), _mm512_set1_pd(factor));
                _mm512_storeu_pd(row + j, TRUNCATED(entry));
            }
            if (pitch > d) row[d] = constant;
        }
        if (filled < LEAST_ROOM && u + 1 < units->n) continue;
        if (u + 1 == units->n) {
            memset(room + filled * pitch, 0, TILE * pitch * sizeof *room);
            filled += TILE - 1;
        }
        for (done = 0; done + TILE <= filled; done += TILE) add_tile(room + done * pitch, pitch, products);
        filled -= done;
        memmove(room, room + done * pitch, filled * pitch * sizeof *room);
    }
}
#endif

/* The hash of a row, and the place of the row. */
struct hashed {
    uint64_t hash;
    int64_t row;
};

static int by_hash(const void *one, const void *other)
{
    uint64_t first = ((const struct hashed *)one)->hash, second = ((const struct hashed *)other)->hash;
    return (first > second) - (first < second);
}

/* Sort few rows one by one, which is quicker than a call for every comparison. */
INLINE void sort_by_hash(struct hashed *rows, size_t n)
{
    if (n > FEW_ROWS) {
        qsort(rows, n, sizeof *rows, by_hash);
        return;
    }
    for (size_t i = 1; i < n; i++) {
        struct hashed row = rows[i];
        size_t at = i;
        for (; at > 0 && rows[at - 1].hash > row.hash; at--) rows[at] = rows[at - 1];
        rows[at] = row;
    }
}

INLINE uint64_t hash_of_row(const double *restrict row, size_t d, const uint64_t *restrict weights)
{
    uint64_t hash = 0;
    for (size_t j = 0; j < d; j++) {
        double number = row[j] + 0.0; /* -0.0 is 0.0 */
        uint64_t bits = (uint64_t)bits_of(number);
        bits ^= bits >> 32;
        bits *= weights[j];
        hash += bits ^ (bits >> 32);
    }
    return hash;
}

/* Put the place of the row with the smallest hash into `chosen`, for every unit: of equal rows, each has a hash of its
   own. -1 where different rows have one hash. `room` is for the rows of the largest unit. */
FOR_EVERY_PROCESSOR
void eigenveil_chosen(const struct units *units, const uint64_t *restrict weights, const uint64_t *restrict unit_hashes,
                     struct hashed *restrict room, int64_t *restrict chosen)
{
    size_t d = units->d;
    for (size_t u = 0; u < units->n; u++) {
        size_t many = (size_t)(units->starts[u + 1] - units->starts[u]), repeats = 0;
        uint64_t least = UINT64_MAX;
        int clear = 1;
        for (size_t i = 0; i < many; i++) {
            int64_t row = units->starts[u] + (int64_t)i;
            uint64_t hash = hash_of_row(row_at(units, row), d, weights);
            room[i] = (struct hashed){split_mix(hash + unit_hashes[u]), row};
        }
        sort_by_hash(room, many);
        for (size_t i = 0; i < many; i++) {
            repeats = i > 0 && room[i].hash == room[i - 1].hash ? repeats + 1 : 0;
            const double *row = row_at(units, room[i].row), *first = row_at(units, room[i - repeats].row);
            for (size_t j = 0; repeats && j < d; j++) clear &= row[j] == first[j];
            uint64_t hash = split_mix(room[i].hash + split_mix(repeats));
            clear &= hash != least;
            if (hash < least) {
                least = hash;
                chosen[u] = room[i].row;
            }
        }
        if (!clear) chosen[u] = -1;
    }
}

/* Add q q' of the integer rows q of CSR rows, with the constant at their end where `width` has room for one, to
   `products`, which is symmetric; but for rows without an exact square. Columns ascend in every row. `rooms` is for
   three rows as long as the longest. */
FOR_EVERY_PROCESSOR
void eigenveil_sparse_products(const double *restrict entries, const int64_t *restrict columns,
                               const int64_t *restrict starts, size_t n, const double *restrict factor, double limit,
                               double reach, double constant, size_t d, size_t width, size_t longest,
                               double *restrict rooms, double *restrict squared, double *restrict products)
{
    double *zeros = rooms, *factors = rooms + longest, *row = factors + longest;
    memset(zeros, 0, longest * sizeof *zeros);
    for (size_t i = 0; i < n; i++) {
        const int64_t *listed = columns + starts[i];
        size_t many = (size_t)(starts[i + 1] - starts[i]);
        for (size_t k = 0; k < many; k++) factors[k] = factor[listed[k]];
        squared[i] = integer_row(entries + starts[i], many, zeros, factors, limit, reach, row);
        if (!(squared[i] < EXACT_LIMIT)) continue;
        for (size_t k = 0; k < many; k++) {
            double *out = products + (size_t)listed[k] * width;
            for (size_t l = k; l < many; l++) out[listed[l]] += row[k] * row[l];
        }
        if (width == d) continue;
        for (size_t k = 0; k < many; k++) products[(size_t)listed[k] * width + d] += row[k] * constant;
        products[d * width + d] += constant * constant;
    }
    for (size_t i = 0; i < width; i++)
        for (size_t j = 0; j < i; j++) products[i * width + j] = products[j * width + i];
}
