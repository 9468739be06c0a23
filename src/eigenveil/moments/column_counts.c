/* The counts of column_counts.py over rows of float64, compiled: comparisons alone, so the same integers.

   Built by CMakeLists.txt into the same library as one_pass.c. */

#include "rows.h"

#define MANTISSA 0x000fffffffffffffLL
#define ROOT_OF_TWO 0x0006a09e667f3bcdLL /* the mantissa of sqrt(2) */
#define SMALLEST_EXPONENT 0x0010000000000000LL
#define CHUNK 64 /* columns whose places are found before they are counted */
#define AHEAD 8  /* rows that are fetched before they are asked for */

INLINE int64_t bits_of(double number)
{
    int64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

/* Return how many of the points 2^(h/2), h from `first` on, do not exceed the number of these bits, within the ends. */
INLINE int64_t place_of(int64_t bits, int64_t first, int64_t last_place)
{
    int64_t place = 2 * ((bits >> 52) - 1023) + ((bits & MANTISSA) >= ROOT_OF_TWO) + 1 - first;
    place = place < 0 ? 0 : place;
    return place > last_place ? last_place : place;
}

/* How many points are below a number is how many do not exceed the one before it. A negative number is placed by its
   size, in the second half of `n_values` bins, among the points that do not exceed that. */
INLINE int64_t value_place(double number, int64_t first, int64_t n_values)
{
    int64_t bits = bits_of(number), negative = (int64_t)((uint64_t)bits >> 63);
    return place_of((bits & INT64_MAX) - 1 + negative, first, n_values - 1) + negative * n_values;
}

/* Count every entry of some columns by its size and sign, and half the distance of the entries of two rows, the first
   with the second, the third with the fourth. A last odd row has no partner. Return whether an entry of any column is
   NaN or infinite. `pairs` has n_pairs bins a column, `values` twice n_values. */
FOR_EVERY_PROCESSOR
int eigenveil_count_pairs(const double *const *restrict rows, size_t n, size_t d, const int64_t *restrict columns,
                          size_t n_columns, int64_t first_pair, size_t n_pairs, int64_t first_value, size_t n_values,
                          int64_t *restrict pairs, int64_t *restrict values)
{
    uint64_t beyond = 0;
    for (size_t i = 0; i < n; i += 2) {
        const double *one = rows[i], *other = i + 1 < n ? rows[i + 1] : one;
        if (i + AHEAD + 1 < n)
            for (size_t j = 0; j < d; j += 8) {
                __builtin_prefetch(rows[i + AHEAD] + j);
                __builtin_prefetch(rows[i + AHEAD + 1] + j);
            }
        for (size_t j = 0; j < d; j++)
            beyond |= (((uint64_t)bits_of(one[j]) & INT64_MAX) + SMALLEST_EXPONENT)
                      | (((uint64_t)bits_of(other[j]) & INT64_MAX) + SMALLEST_EXPONENT);
        for (size_t start = 0; start < n_columns; start += CHUNK) {
            size_t many = n_columns - start < CHUNK ? n_columns - start : CHUNK;
            int64_t apart[CHUNK], of_one[CHUNK], of_other[CHUNK];
            for (size_t k = 0; k < many; k++) {
                double x = one[columns[start + k]], y = other[columns[start + k]];
                apart[k] = place_of(bits_of(fabs(0.5 * x - 0.5 * y)) - 1, first_pair, (int64_t)n_pairs - 1);
                of_one[k] = value_place(x, first_value, (int64_t)n_values);
                of_other[k] = value_place(y, first_value, (int64_t)n_values);
            }
            for (size_t k = 0; k < many; k++) values[(start + k) * 2 * n_values + (size_t)of_one[k]]++;
            if (i + 1 == n) continue;
            for (size_t k = 0; k < many; k++) {
                values[(start + k) * 2 * n_values + (size_t)of_other[k]]++;
                pairs[(start + k) * n_pairs + (size_t)apart[k]]++;
            }
        }
    }
    return (int)(beyond >> 63);
}

/* Return how many of n ascending points are below x. */
static size_t points_below(const double *points, size_t n, double x)
{
    size_t first = 0, last = n; /* points[first - 1] < x <= points[last] */
    while (first < last) {
        size_t middle = first + (last - first) / 2;
        if (points[middle] < x)
            first = middle + 1;
        else
            last = middle;
    }
    return first;
}

/* Count every entry of some columns by the points of its column that are below it. `starts` says where these begin,
   minus infinity first and infinity last, and its bins, one more than points; `most` says how many points there are.
   Return whether an entry is NaN or infinite. */
FOR_EVERY_PROCESSOR
int eigenveil_count_columns(const double *restrict rows, ptrdiff_t step, size_t n, const int64_t *restrict columns,
                            size_t n_columns, const double *restrict points, const int64_t *restrict starts,
                            const double *restrict low, const double *restrict per_step, const double *restrict most,
                            int64_t *restrict bins)
{
    uint64_t beyond = 0;
    for (size_t i = 0; i < n; i++, rows += step)
        for (size_t start = 0; start < n_columns; start += CHUNK) {
            size_t many = n_columns - start < CHUNK ? n_columns - start : CHUNK;
            double entries[CHUNK];
            int32_t guesses[CHUNK];
            for (size_t k = 0; k < many; k++) {
                /* Equal steps are guessed, without a branch; whatever is guessed is checked. */
                double x = rows[columns[start + k]];
                double guess = (x - low[start + k]) * per_step[start + k];
                guess = guess > 0.0 ? guess : 0.0;
                guess = guess < most[start + k] ? guess : most[start + k];
                entries[k] = x;
                guesses[k] = (int32_t)guess;
                beyond |= ((uint64_t)bits_of(x) & INT64_MAX) + SMALLEST_EXPONENT;
            }
            for (size_t k = 0; k < many; k++) {
                size_t first = (size_t)starts[start + k], place = first + (size_t)guesses[k];
                if (__builtin_expect(!((points[place] < entries[k]) & (entries[k] <= points[place + 1])), 0))
                    place = first + points_below(points + first + 1, (size_t)most[start + k], entries[k]);
                bins[place]++;
            }
        }
    return (int)(beyond >> 63);
}

/* Count the entries of every column above each of a few points: the first of all columns, then the second of all. */
FOR_EVERY_PROCESSOR
int eigenveil_count_few(const double *restrict rows, ptrdiff_t step, size_t n, size_t d, const double *restrict points,
                        size_t n_points, int64_t *restrict above)
{
    uint64_t beyond = 0;
    for (size_t i = 0; i < n; i++, rows += step) {
        for (size_t j = 0; j < d; j++) beyond |= ((uint64_t)bits_of(rows[j]) & INT64_MAX) + SMALLEST_EXPONENT;
        for (size_t k = 0; k < n_points; k++)
            for (size_t j = 0; j < d; j++) above[k * d + j] += rows[j] > points[k * d + j];
    }
    return (int)(beyond >> 63);
}

INLINE uint64_t split_mix(uint64_t word)
{
    word *= 0x9e3779b97f4a7c15ULL;
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ULL;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebULL;
    return word ^ (word >> 31);
}

/* Put the places from 0 to n - 1 in the order of the hashes of the words from `first` on, by the leading bits of these
   and then, among the few that share them, one by one. `ends` has room for one number more than 2^bits. */
void eigenveil_order(uint64_t first, size_t n, int bits, uint32_t *restrict ends, int64_t *restrict order)
{
    memset(ends, 0, (((size_t)1 << bits) + 1) * sizeof *ends);
    for (size_t i = 0; i < n; i++) ends[(split_mix(first + i) >> (64 - bits)) + 1]++;
    for (size_t k = 0; k < (size_t)1 << bits; k++) ends[k + 1] += ends[k];
    for (size_t i = 0; i < n; i++) order[ends[split_mix(first + i) >> (64 - bits)]++] = (int64_t)i;
    for (size_t i = 1; i < n; i++) {
        int64_t place = order[i];
        uint64_t hash = split_mix(first + (uint64_t)place);
        size_t at = i;
        for (; at > 0 && split_mix(first + (uint64_t)order[at - 1]) > hash; at--) order[at] = order[at - 1];
        order[at] = place;
    }
}
