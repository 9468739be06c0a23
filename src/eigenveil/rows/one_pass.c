/* The passes of one_pass.py over rows of float64, compiled: the same roundings in the same order, entry by entry.

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
    for (size_t k = 0; k < LANES; k++) sum += sums[k];
    return sum;
}

/* Bring a row of integers to norm `reach`, whose square is `limit`, or just below, as `shortening.clip` does. */
INLINE void shorten_row(double *row, size_t d, double squared, double limit, double reach)
{
    double factor = reach / sqrt(squared), sum = 0.0;
    for (size_t j = 0; j < d; j++) row[j] = trunc(row[j] * factor);
    for (size_t j = 0; j < d; j++) sum += row[j] * row[j];
    if (sum > limit)
        for (size_t j = 0; j < d; j++) row[j] -= (row[j] > 0.0) - (row[j] < 0.0);
}

/* Put one row of integers into `out`, as long as `reach` at most, and return its squared norm before it was shortened.
   A row whose squares are not exact, or that holds NaN, stays as it is: its sum is not below EXACT_LIMIT. */
INLINE double integer_row(const double *row, size_t d, const double *shift, const double *factor, double limit,
                          double reach, double *out)
{
    double sum = change_row(row, d, shift, factor, out, 1, 1);
    if (sum > limit && sum < EXACT_LIMIT) shorten_row(out, d, sum, limit, reach);
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

/* Add all rows to `total`, but for those without an exact square. */
FOR_EVERY_PROCESSOR
void eigenveil_sum(const double *restrict rows, ptrdiff_t step, size_t n, size_t d, const double *restrict shift,
                   const double *restrict factor, double limit, double reach, double *restrict squared,
                   double *restrict row, double *restrict total)
{
    for (size_t i = 0; i < n; i++, rows += step) {
        squared[i] = integer_row(rows, d, shift, factor, limit, reach, row);
        if (squared[i] < EXACT_LIMIT)
            for (size_t j = 0; j < d; j++) total[j] += row[j];
    }
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
    size_t n_left = 0;
    for (size_t i = 0; i < n; i++, rows += step) {
        double sum = change_row(rows, d, shift, scale, NULL, 0, 0);
        int64_t bits, cell;
        memcpy(&bits, &sum, sizeof bits);
        cell = (bits >> cell_shift) - first_cell;
        cell = cell < 0 ? 0 : cell >= n_cells ? n_cells - 1 : cell;
        if (cells[cell] >= 0) {
            size_t first = (size_t)cells[cell] * d;
            if (integer_row(rows, d, shift, factors + first, limit, reach, row) < EXACT_LIMIT) {
                counts[cells[cell]]++;
                for (size_t j = 0; j < d; j++) totals[first + j] += row[j];
                continue;
            }
        }
        left[n_left++] = (int64_t)i;
    }
    return n_left;
}
