/* What the passes share: integer rows of bounded norm, and their products.

   The same roundings in the same order, entry by entry, as numpy_kernels.py. Contraction to fused products is off. */

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

/* Do STEP(width) for all entries j, ..., j + width - 1 of a row: by LANES, and the rest by 4, 2 and 1. What one loop
   has written another can so read in the same pieces, without a wait. */
#define BY_LANES(STEP)                                                                                                 \
    do {                                                                                                               \
        size_t j = 0;                                                                                                  \
        for (; j + LANES <= d; j += LANES) STEP(LANES)                                                                 \
        if (d & 4) {                                                                                                   \
            STEP(4)                                                                                                    \
            j += 4;                                                                                                    \
        }                                                                                                              \
        if (d & 2) {                                                                                                   \
            STEP(2)                                                                                                    \
            j += 2;                                                                                                    \
        }                                                                                                              \
        if (d & 1) STEP(1)                                                                                             \
    } while (0)

INLINE int64_t bits_of(double number)
{
    int64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

/* Return 0, or another word where a number is NaN or infinite. */
INLINE int64_t not_finite(double number) { return bits_of(number - number); }

#define AHEAD 8 /* rows that are fetched before they are read or written */

INLINE void fetch(const double *row, size_t d)
{
    for (size_t j = 0; j < d; j += LANES) __builtin_prefetch(row + j);
}

/* The hash of a word: the last steps of SplitMix64. */
INLINE uint64_t split_mix(uint64_t word)
{
    word *= 0x9e3779b97f4a7c15ULL;
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ULL;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebULL;
    return word ^ (word >> 31);
}

/* By halves, which wait less for one another. */
INLINE double added(const double *sums)
{
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

/* Return the squared norm of one row of changed entries. */
INLINE double change_row(const double *restrict row, size_t d, const double *restrict shift,
                         const double *restrict factor)
{
    double sums[LANES] = {0.0};
#define CHANGE(WIDTH)                                                                                                  \
    for (size_t k = 0; k < (WIDTH); k++) {                                                                             \
        double entry = (row[j + k] - shift[j + k]) * factor[j + k];                                                    \
        sums[k] += entry * entry;                                                                                      \
    }
    BY_LANES(CHANGE);
    return added(sums);
}

INLINE int is_longer(double squared, double limit) { return (squared > limit) & (squared < EXACT_LIMIT); }

/* Return what a row of integers is multiplied by: 1, unless it is longer than `reach`, whose square is `limit`. */
INLINE double shortening(double squared, double limit, double reach)
{
    double factor = reach / sqrt(squared);
    return is_longer(squared, limit) ? factor : 1.0;
}

/* Bring a row of integers that is longer to norm `reach` or just below, as `numpy_kernels.clip` does, by the factor of
   its squared norm. Every row is multiplied, others by 1, so that the time does not tell which are longer. */
INLINE void shorten_row(double *row, size_t d, double squared, double limit, double factor)
{
    double sums[LANES] = {0.0};
#define SHORTEN(WIDTH)                                                                                                 \
    for (size_t k = 0; k < (WIDTH); k++) {                                                                             \
        double entry = trunc(row[j + k] * factor);                                                                     \
        row[j + k] = entry;                                                                                            \
        sums[k] += entry * entry;                                                                                      \
    }
    BY_LANES(SHORTEN);
    if (is_longer(squared, limit) && added(sums) > limit) /* which is not known to happen */
        for (size_t j = 0; j < d; j++) row[j] -= (row[j] > 0.0) - (row[j] < 0.0);
}

/* Put one row of integers into `out`, as long as `reach` at most, and return its squared norm before it was shortened.
   A row whose squares are not exact, or that holds NaN, stays as it is: its sum is not below EXACT_LIMIT. */
INLINE double integer_row(const double *restrict row, size_t d, const double *restrict shift,
                          const double *restrict factor, double limit, double reach, double *restrict out)
{
    double sums[LANES] = {0.0}, sum;
#define TRUNCATE(WIDTH)                                                                                                \
    for (size_t k = 0; k < (WIDTH); k++) {                                                                             \
        double entry = trunc((row[j + k] - shift[j + k]) * factor[j + k]);                                             \
        out[j + k] = entry;                                                                                            \
        sums[k] += entry * entry;                                                                                      \
    }
    BY_LANES(TRUNCATE);
    sum = added(sums);
    shorten_row(out, d, sum, limit, shortening(sum, limit, reach));
    return sum;
}

/* Products of narrow rows, where the processor has registers enough to be quicker than BLAS is with them. They are of
   integers, so fused products are exact like others. */
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define MULTIPLIES 1
#define WIDE_REGISTERS __attribute__((target("avx512f")))
INLINE int multiplies(void) { return __builtin_cpu_supports("avx512f") != 0; }
#define TRUNCATED(NUMBERS) _mm512_roundscale_pd(NUMBERS, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)

/* Add the products of LANES columns from `left` on with `blocks` times as many from `right` on, over a tile. */
WIDE_REGISTERS INLINE void add_block(const double *left, const double *right, size_t pitch, double *out, size_t blocks)
{
    __m512d sums[LANES][3];
    for (size_t k = 0; k < LANES; k++)
        for (size_t b = 0; b < blocks; b++) sums[k][b] = _mm512_loadu_pd(out + k * pitch + b * LANES);
    for (size_t i = 0; i < TILE; i++, left += pitch, right += pitch) {
        __m512d entries[3];
        for (size_t b = 0; b < blocks; b++) entries[b] = _mm512_loadu_pd(right + b * LANES);
        for (size_t k = 0; k < LANES; k++) {
            __m512d factor = _mm512_set1_pd(left[k]);
            for (size_t b = 0; b < blocks; b++) sums[k][b] = _mm512_fmadd_pd(factor, entries[b], sums[k][b]);
        }
    }
    for (size_t k = 0; k < LANES; k++)
        for (size_t b = 0; b < blocks; b++) _mm512_storeu_pd(out + k * pitch + b * LANES, sums[k][b]);
}

/* Add q q' of all rows q of a tile to the upper triangle of `products`, of the same pitch, a multiple of LANES. */
WIDE_REGISTERS INLINE void add_tile(const double *tile, size_t pitch, double *products)
{
    for (size_t i = 0; i < pitch; i += LANES) {
        double *out = products + i * pitch;
        size_t j = i;
        for (; j + 3 * LANES <= pitch; j += 3 * LANES) add_block(tile + i, tile + j, pitch, out + j, 3);
        for (; j < pitch; j += LANES) add_block(tile + i, tile + j, pitch, out + j, 1);
    }
}
#endif
