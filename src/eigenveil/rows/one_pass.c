/* The pass of one_pass.py over rows of float64, compiled: the same roundings in the same order, entry by entry.

   Built by hatch_build.py where there is a compiler, and never needed. Contraction to fused products is off. */

#include <math.h>
#include <stddef.h>

#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__)
#define FOR_EVERY_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EVERY_PROCESSOR
#endif

#define LANES 8

static inline __attribute__((always_inline)) double scaled(double entry, double shift, double factor, int truncate)
{
    double moved = (entry - shift) * factor;
    return truncate ? trunc(moved) : moved;
}

static inline __attribute__((always_inline)) void one_pass(
    const double *restrict rows, ptrdiff_t step, size_t n, size_t d, const double *restrict shift,
    const double *restrict factor, double *restrict out, double *restrict squared, int truncate, int keep)
{
    for (size_t i = 0; i < n; i++) {
        const double *row = rows + (ptrdiff_t)i * step;
        double *kept = out + i * d;
        double sums[LANES] = {0.0}, sum = 0.0;
        size_t j = 0;
        for (; j + LANES <= d; j += LANES)
            for (size_t k = 0; k < LANES; k++) {
                double value = scaled(row[j + k], shift[j + k], factor[j + k], truncate);
                if (keep) kept[j + k] = value;
                sums[k] += value * value;
            }
        for (; j < d; j++) {
            double value = scaled(row[j], shift[j], factor[j], truncate);
            if (keep) kept[j] = value;
            sum += value * value;
        }
        for (size_t k = 0; k < LANES; k++) sum += sums[k];
        squared[i] = sum;
    }
}

FOR_EVERY_PROCESSOR
void eigenveil_integers(const double *rows, ptrdiff_t step, size_t n, size_t d, const double *shift,
                        const double *factor, double *out, double *squared)
{
    one_pass(rows, step, n, d, shift, factor, out, squared, 1, 1);
}

FOR_EVERY_PROCESSOR
void eigenveil_squares(const double *rows, ptrdiff_t step, size_t n, size_t d, const double *shift,
                       const double *factor, double *out, double *squared)
{
    one_pass(rows, step, n, d, shift, factor, out, squared, 0, 0);
}
