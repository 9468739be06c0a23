/* Passes over the rows of whole privacy units, and over CSR rows: what unit_kernels.py says, compiled.

   Rows lie unit after unit. */

#include "rows.h"

#define LIMB_BITS 27   /* as in numpy_kernels.py */
#define LEAST_ROOM 256 /* rows that are multiplied together */
#define FEW_ROWS 32    /* whose hashes are all compared */

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

/* How rows become integers, and the rows of a unit are shortened together. */
struct shortening {
    const double *shift, *factor;
    double single_limit, single_reach; /* of a row by itself */
    double limit, reach;               /* of a unit: without the constant where units are averaged, else with it */
    double constant;
    int average;
};

/* Put the integer rows of a unit into `out`, and return the sum of all squares. Up to `single_limit` it is exact, and no
   row is longer by itself. */
INLINE double integer_unit(const struct units *units, size_t u, const struct shortening *how, size_t pitch, double *out)
{
    size_t d = units->d;
    const double *restrict shift = how->shift, *restrict factor = how->factor;
    double sums[LANES] = {0.0};
    for (int64_t i = units->starts[u]; i < units->starts[u + 1]; i++, out += pitch) {
        const double *restrict row = row_at(units, i);
        double *restrict to = out;
#define WHOLE(WIDTH)                                                                                                   \
    for (size_t k = 0; k < (WIDTH); k++) {                                                                             \
        double entry = trunc((row[j + k] - shift[j + k]) * factor[j + k]);                                             \
        to[j + k] = entry;                                                                                             \
        sums[k] += entry * entry;                                                                                      \
    }
        BY_LANES(WHOLE);
    }
    return added(sums);
}

/* The same of a unit with long rows, each of which is shortened by itself; NaN where one has no exact square. The sum
   is rounded as `numpy_kernels._sums` does, and has the square of a constant for every row. */
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

/* Put the integer rows of all units into `out`, and the constant of the rows of each into `constants`. */
FOR_EVERY_PROCESSOR
void eigenveil_unit_integers(const struct units *units, const struct shortening *how, double *restrict constants,
                             double *restrict out)
{
    size_t d = units->d;
    for (size_t u = 0; u < units->n; u++) {
        double *first = out + (size_t)units->starts[u] * d, *end = out + (size_t)units->starts[u + 1] * d;
        double factor = unit_factor(units, u, how, d, integer_unit(units, u, how, d, first), first, constants + u);
        for (double *row = first; row < end; row += d) {
#define MULTIPLY(WIDTH)                                                                                                \
    for (size_t k = 0; k < (WIDTH); k++) row[j + k] = trunc(row[j + k] * factor);
            BY_LANES(MULTIPLY);
        }
    }
}

#ifdef MULTIPLIES
/* As integer_unit, with zeros beyond d up to the next multiple of LANES. */
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

/* Hashes that a unit has, and the first row of each; of an earlier unit they are as good as none. */
struct slot {
    uint64_t hash, unit, repeats;
    int64_t row;
};

INLINE uint64_t hash_of_row(const double *restrict row, size_t d, const uint64_t *restrict weights,
                            uint64_t *restrict beyond)
{
    uint64_t hash = 0, beyond_here = 0;
    for (size_t j = 0; j < d; j++) {
        double number = row[j] + 0.0; /* -0.0 is 0.0 */
        uint64_t bits = (uint64_t)bits_of(number);
        beyond_here |= (uint64_t)not_finite(number);
        bits ^= bits >> 32;
        bits *= weights[j];
        hash += bits ^ (bits >> 32);
    }
    *beyond |= beyond_here;
    return hash;
}

/* Return how many rows before row i of unit u have its hash, and the first of them: of few rows by comparing all
   hashes, of more by looking them up. */
INLINE uint64_t repeats_of(const uint64_t *restrict hashes, size_t i, size_t many, struct slot *restrict slots,
                           uint64_t mask, uint64_t u, int64_t *restrict first)
{
    uint64_t hash = hashes[i], repeats = 0, at = hash & mask;
    if (many <= FEW_ROWS) {
        for (size_t k = 0; k < i; k++) repeats += hashes[k] == hash;
        for (*first = 0; repeats && hashes[*first] != hash; ++*first) {}
        return repeats;
    }
    while (slots[at].unit == u + 1 && slots[at].hash != hash) at = (at + 1) & mask;
    if (slots[at].unit == u + 1)
        slots[at].repeats++;
    else
        slots[at] = (struct slot){hash, u + 1, 0, (int64_t)i};
    *first = slots[at].row;
    return slots[at].repeats;
}

/* Put the place of the row with the smallest hash into `chosen`, for every unit: of equal rows, each has a hash of its
   own. -1 where different rows have one hash. Return whether any number is NaN or infinite. There are as many slots as
   the power of two `mask` + 1, twice as many as the largest unit has rows, and room for a hash of each of these. */
FOR_EVERY_PROCESSOR
int eigenveil_chosen(const struct units *units, const uint64_t *restrict weights, const uint64_t *restrict unit_hashes,
                     struct slot *restrict slots, uint64_t mask, uint64_t *restrict hashes, int64_t *restrict chosen)
{
    uint64_t beyond = 0;
    size_t d = units->d;
    for (size_t u = 0; u < units->n; u++) {
        int64_t start = units->starts[u], best = 0, first;
        size_t many = (size_t)(units->starts[u + 1] - start);
        uint64_t least = UINT64_MAX;
        int clear = 1;
        for (size_t i = 0; i < many; i++)
            hashes[i] = split_mix(hash_of_row(row_at(units, start + (int64_t)i), d, weights, &beyond) + unit_hashes[u]);
        for (size_t i = 0; i < many; i++) {
            uint64_t repeats = repeats_of(hashes, i, many, slots, mask, u, &first), hash;
            if (repeats) {
                const double *row = row_at(units, start + (int64_t)i), *other = row_at(units, start + first);
                for (size_t j = 0; j < d; j++) clear &= row[j] == other[j];
            }
            hash = split_mix(hashes[i] + split_mix(repeats));
            clear &= hash != least;
            best = hash < least ? (int64_t)i : best;
            least = hash < least ? hash : least;
        }
        chosen[u] = clear ? start + best : -1;
    }
    return beyond != 0;
}

#define ASCENDS(TYPE)                                                                                                  \
    do {                                                                                                               \
        const TYPE *listed = columns, *ends = starts;                                                                  \
        for (size_t i = 0; i < n; i++) {                                                                               \
            int64_t last = -1, end = ends[i + 1];                                                                      \
            if (ends[i] < 0 || end < ends[i] || end > (int64_t)most) return 0;                                         \
            for (int64_t k = ends[i]; k < end; k++) {                                                                  \
                fine &= (listed[k] > last) & (listed[k] < (int64_t)d);                                                 \
                last = listed[k];                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

/* Tell whether the columns of every CSR row ascend, within the d that there are, and all rows lie among `most` entries.
   `wide` tells whether positions are of 64 bits, or of 32. */
int eigenveil_ascends(const void *columns, const void *starts, size_t n, size_t d, size_t most, int wide)
{
    int fine = 1;
    if (wide)
        ASCENDS(int64_t);
    else
        ASCENDS(int32_t);
    return fine;
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
