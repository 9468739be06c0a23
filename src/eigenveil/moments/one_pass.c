/* The passes of numpy_kernels.py over rows of float64, compiled: the same roundings in the same order, entry by entry.

   Built by hatch_build.py where there is a compiler, and never needed. Contraction to fused products is off. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__)
#define FOR_EVERY_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EVERY_PROCESSOR
#endif
#define INLINE static inline __attribute__((always_inline))

#define LANES 8
#define TILE 32 /* rows that are worked on together while they are in the first cache */
#define EXACT_LIMIT 0x1p53

INLINE double changed(double entry, double shift, double factor, int truncate)
{
    double moved = (entry - shift) * factor;
    return truncate ? trunc(moved) : moved;
}

/* Return the squared norm of one row of changed entries, which `out` receives if they are to be kept. */
INLINE double change_row(const double *row, size_t d, const double *shift, const double *factor, double *out,
                         int truncate, int keep)
{
    double sums[LANES] = {0.0}, sum = 0.0;
    size_t j = 0;
    for (; j + LANES <= d; j += LANES)
        for (size_t k = 0; k < LANES; k++) {
            double entry = changed(row[j + k], shift[j + k], factor[j + k], truncate);
            if (keep) out[j + k] = entry;
            sums[k] += entry * entry;
        }
    for (; j < d; j++) {
        double entry = changed(row[j], shift[j], factor[j], truncate);
        if (keep) out[j] = entry;
        sum += entry * entry;
    }
    /* By halves, which wait less for one another. */
    sum += ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
    return sum;
}

/* Bring a row of integers that is longer to norm `reach`, whose square is `limit`, or just below, as
   `numpy_kernels.clip` does. Every row is multiplied, others by 1, so that the time does not tell which are longer. */
INLINE void shorten_row(double *row, size_t d, double squared, double limit, double reach)
{
    int longer = squared > limit && squared < EXACT_LIMIT;
    double factor = longer ? reach / sqrt(squared) : 1.0, sums[LANES] = {0.0}, sum = 0.0;
    size_t j = 0;
    for (; j + LANES <= d; j += LANES)
        for (size_t k = 0; k < LANES; k++) {
            row[j + k] = trunc(row[j + k] * factor);
            sums[k] += row[j + k] * row[j + k];
        }
    for (; j < d; j++) {
        row[j] = trunc(row[j] * factor);
        sum += row[j] * row[j];
    }
    sum += ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
    if (longer && sum > limit) /* which is not known to happen */
        for (j = 0; j < d; j++) row[j] -= (row[j] > 0.0) - (row[j] < 0.0);
}

/* Put one row of integers into `out`, as long as `reach` at most, and return its squared norm before it was shortened.
   A row whose squares are not exact, or that holds NaN, stays as it is: its sum is not below EXACT_LIMIT. */
INLINE double integer_row(const double *row, size_t d, const double *shift, const double *factor, double limit,
                          double reach, double *out)
{
    double sum = change_row(row, d, shift, factor, out, 1, 1);
    shorten_row(out, d, sum, limit, reach);
    return sum;
}

FOR_EVERY_PROCESSOR
void eigenveil_integers(const double *restrict rows, ptrdiff_t step, size_t n, size_t d, const double *restrict shift,
                        const double *restrict factor, double limit, double reach, double *restrict squared,
                        double *restrict out)
{
    for (size_t i = 0; i < n; i++, rows += step, out += d)
        squared[i] = integer_row(rows, d, shift, factor, limit, reach, out);
}

FOR_EVERY_PROCESSOR
void eigenveil_squares(const double *restrict rows, ptrdiff_t step, size_t n, size_t d, const double *restrict shift,
                       const double *restrict factor, double *restrict squared)
{
    for (size_t i = 0; i < n; i++, rows += step) squared[i] = change_row(rows, d, shift, factor, NULL, 0, 0);
}

/* Look up the group of each row by the leading bits of its squared norm, count the row, and add it, changed by the
   factors of its group, to the totals of that. List the places of rows whose group is not beyond doubt, or that have no
   exact square, in `left`, and return how many they are. */
FOR_EVERY_PROCESSOR
size_t eigenveil_sums_by_norm(const double *restrict rows, ptrdiff_t step, size_t n, size_t d,
                              const double *restrict shift, const double *restrict scale, double limit, double reach,
                              const int16_t *restrict cells, int64_t n_cells, int64_t first_cell, int cell_shift,
                              const double *restrict factors, double *restrict row, int64_t *restrict counts,
                              double *restrict totals, int64_t *restrict left)
{
    size_t n_left = 0, many = d < 128 ? TILE : 1 + TILE * 128 / d;
    for (size_t first = 0; first < n; first += many) {
        size_t last = n - first < many ? n : first + many;
        int16_t groups[TILE + 1];
        /* Apart from what follows, which would wait for every single look-up. */
        for (size_t i = first; i < last; i++) {
            double sum = change_row(rows + (ptrdiff_t)i * step, d, shift, scale, NULL, 0, 0);
            int64_t bits, cell;
            memcpy(&bits, &sum, sizeof bits);
            cell = (bits >> cell_shift) - first_cell;
            groups[i - first] = cells[cell < 0 ? 0 : cell >= n_cells ? n_cells - 1 : cell];
        }
        for (size_t i = first; i < last; i++) {
            int16_t group = groups[i - first];
            size_t start = group < 0 ? 0 : (size_t)group * d;
            if (group < 0 || !(integer_row(rows + (ptrdiff_t)i * step, d, shift, factors + start, limit, reach, row)
                               < EXACT_LIMIT)) {
                left[n_left++] = (int64_t)i;
                continue;
            }
            counts[group]++;
            for (size_t j = 0; j < d; j++) totals[start + j] += row[j];
        }
    }
    return n_left;
}

/* Products of narrow rows, where the processor has registers enough to be quicker than BLAS is with them. They are of
   integers, so fused products are exact like others. */
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define WIDE_REGISTERS __attribute__((target("avx512f")))

int eigenveil_multiplies(void) { return __builtin_cpu_supports("avx512f") != 0; }

/* Add the products of LANES columns from `left` on with LANES from `right` on, over the rows of a tile. */
WIDE_REGISTERS INLINE void add_block(const double *left, const double *right, size_t pitch, double *out)
{
    __m512d sums[LANES];
    for (size_t k = 0; k < LANES; k++) sums[k] = _mm512_loadu_pd(out + k * pitch);
    for (size_t i = 0; i < TILE; i++, left += pitch, right += pitch) {
        __m512d entries = _mm512_loadu_pd(right);
        for (size_t k = 0; k < LANES; k++) sums[k] = _mm512_fmadd_pd(_mm512_set1_pd(left[k]), entries, sums[k]);
    }
    for (size_t k = 0; k < LANES; k++) _mm512_storeu_pd(out + k * pitch, sums[k]);
}

/* Add q q' of all rows q, with the constant at their end, to the upper triangle of `products`; but for rows without an
   exact square. `pitch` is the width of a row of the tile and of the products, a multiple of LANES and above d, or d. */
WIDE_REGISTERS
void eigenveil_products(const double *restrict rows, ptrdiff_t step, size_t n, size_t d, const double *restrict shift,
                        const double *restrict factor, double limit, double reach, double constant, size_t pitch,
                        double *restrict squared, double *restrict tile, double *restrict products)
{
    memset(tile, 0, TILE * pitch * sizeof *tile);
    for (size_t first = 0; first < n; first += TILE) {
        size_t many = n - first < TILE ? n - first : TILE;
        double *row = tile;
        for (size_t i = first; i < first + many; i++, rows += step, row += pitch) {
            squared[i] = integer_row(rows, d, shift, factor, limit, reach, row);
            if (!(squared[i] < EXACT_LIMIT))
                memset(row, 0, pitch * sizeof *row);
            else if (pitch > d)
                row[d] = constant;
        }
        memset(row, 0, (TILE - many) * pitch * sizeof *row);
        for (size_t i = 0; i < pitch; i += LANES)
            for (size_t j = i; j < pitch; j += LANES)
                add_block(tile + i, tile + j, pitch, products + i * pitch + j);
    }
}
#else
int eigenveil_multiplies(void) { return 0; }
#endif
