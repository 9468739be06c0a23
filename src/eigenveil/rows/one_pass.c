/* The passes of one_pass.py over rows of float64, compiled: the same roundings in the same order, entry by entry.

   Built by hatch_build.py where there is a compiler, and never needed. Contraction to fused products is off. */

#include <math.h>
#include <stddef.h>

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

FOR_EVERY_PROCESSOR
void eigenveil_integers(const double *restrict rows, ptrdiff_t step, size_t n, size_t d, const double *restrict shift,
                        const double *restrict factor, double limit, double reach, double *restrict out,
                        double *restrict squared)
{
    for (size_t i = 0; i < n; i++, rows += step, out += d) {
        double sum = change_row(rows, d, shift, factor, out, 1, 1);
        if (sum > limit && sum < EXACT_LIMIT) shorten_row(out, d, sum, limit, reach);
        squared[i] = sum;
    }
}

FOR_EVERY_PROCESSOR
void eigenveil_squares(const double *restrict rows, ptrdiff_t step, size_t n, size_t d, const double *restrict shift,
                       const double *restrict factor, double *restrict squared)
{
    for (size_t i = 0; i < n; i++, rows += step) squared[i] = change_row(rows, d, shift, factor, NULL, 0, 0);
}
