/* The counts of column_counts.py over rows of float64, compiled: comparisons alone, so the same integers.

   Built by CMakeLists.txt into the same library as one_pass.c. */

#include "table.h"

#define MANTISSA 0x000fffffffffffffLL
#define ROOT_OF_TWO 0x0006a09e667f3bcdLL /* the mantissa of sqrt(2) */
#define CHUNK 64 /* columns whose places are found before they are counted */
#define AHEAD 8  /* rows that are fetched before they are asked for */

/* Note in the first bit of one of LANES numbers whether one of d numbers is NaN or infinite. */
INLINE void note_not_finite(const double *restrict row, size_t d, uint64_t *restrict beyond)
{
#define BEYOND(WIDTH)                                                                                                  \
    for (size_t k = 0; k < (WIDTH); k++) beyond[k] |= beyond_float(row[j + k]);
    BY_LANES(BEYOND);
}

INLINE int noted(const uint64_t *beyond)
{
    uint64_t any = 0;
    for (size_t k = 0; k < LANES; k++) any |= beyond[k];
    return (int)(any >> 63);
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
        for (size_t j = 0; j < d; j++) beyond |= beyond_float(one[j]) | beyond_float(other[j]);
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

/* The same of whole columns that lie apart, each in one piece: rows are paired by their places in `order`. The bins of a
   column stay in the first cache. Those of the two numbers of a pair are apart, so that none waits for the other. */
FOR_EVERY_PROCESSOR
int eigenveil_count_pairs_by_column(const double *const *restrict columns, size_t n_columns,
                                    const int64_t *restrict order, size_t n, int64_t first_pair, size_t n_pairs,
                                    int64_t first_value, size_t n_values, int64_t *restrict pairs,
                                    int64_t *restrict values, int64_t *restrict others)
{
    uint64_t beyond[LANES] = {0};
    for (size_t k = 0; k < n_columns; k++, pairs += n_pairs, values += 2 * n_values) {
        const double *column = columns[k];
        memset(others, 0, 2 * n_values * sizeof *others);
        for (size_t start = 0; start < n; start += 2 * CHUNK) {
            size_t many = n - start < 2 * CHUNK ? n - start : 2 * CHUNK;
            double numbers[2 * CHUNK];
            int64_t apart[CHUNK], of_all[2 * CHUNK];
            for (size_t i = 0; i < many; i++) numbers[i] = column[order[start + i]];
            note_not_finite(numbers, many, beyond);
            for (size_t i = 0; i < many; i++)
                of_all[i] = value_place(numbers[i], first_value, (int64_t)n_values);
            for (size_t i = 0; i < many / 2; i++)
                apart[i] = place_of(bits_of(fabs(0.5 * numbers[2 * i] - 0.5 * numbers[2 * i + 1])) - 1, first_pair,
                                    (int64_t)n_pairs - 1);
            for (size_t i = 0; i < many / 2; i++) {
                values[of_all[2 * i]]++;
                others[of_all[2 * i + 1]]++;
                pairs[apart[i]]++;
            }
            if (many % 2) values[of_all[many - 1]]++;
        }
        for (size_t i = 0; i < 2 * n_values; i++) values[i] += others[i];
    }
    return noted(beyond);
}

/* Return how many of n ascending points are below x. */
INLINE int32_t points_below(const double *points, int32_t n, double x)
{
    int32_t first = 0, last = n; /* points[first - 1] < x <= points[last] */
    while (first < last) {
        int32_t middle = first + (last - first) / 2;
        if (points[middle] < x)
            first = middle + 1;
        else
            last = middle;
    }
    return first;
}

/* Put how many of the even points of its column are below an entry into `below`, and note in `near` whether that is in
   doubt: where an entry is as near to a point as rounding may move it. Of NaN it is 0. */
INLINE void even_points_below(const double *restrict row, size_t d, const double *restrict low,
                              const double *restrict per_step, const double *restrict n_points, double doubt,
                              int32_t *restrict below, int64_t *restrict near)
{
#define BELOW(WIDTH)                                                                                                   \
    for (size_t k = 0; k < (WIDTH); k++) {                                                                             \
        double number = (row[j + k] - low[j + k]) * per_step[j + k], up = ceil(number);                                \
        near[k] |= fabs(number - rint(number)) <= doubt ? 1 : 0;                                                       \
        up = up > 0.0 ? up : 0.0;                                                                                      \
        below[j + k] = (int32_t)(up < n_points[j + k] ? up : n_points[j + k]);                                         \
    }
    BY_LANES(BELOW);
}

/* Return how many of n ascending points are below x: `guess`, or one more, or one less. */
INLINE int32_t points_below_near(const double *points, int32_t n, double x, int32_t guess)
{
    int32_t before = guess > 0 ? guess - 1 : 0, after = guess < n ? guess : n - 1;
    return guess + ((guess < n) & (points[after] < x)) - ((guess > 0) & !(points[before] < x));
}

/* Count every entry by the points of its column that are below it. `starts` says where the points of a column begin; it
   has one bin more than `n_points`. Return whether an entry is NaN or infinite.

   Points are even if point k of every column, from 0 on, comes to (point - low) * per_step within `doubt` of k, and that
   is at most 1/4. A larger number never comes to less, so that only those that come so near to a point are compared. */
FOR_EVERY_PROCESSOR
int eigenveil_count_columns(const struct table *table, double *restrict room, const double *restrict points,
                            const int64_t *restrict starts, const double *restrict n_points, double doubt,
                            const double *restrict low, const double *restrict per_step, int64_t *restrict bins)
{
    int whole = in_rows(table);
    size_t d = table->d;
    uint64_t beyond[LANES] = {0};
    for (size_t first = 0; first < table->n; first += TILE) {
        size_t many = table->n - first < TILE ? table->n - first : TILE;
        ptrdiff_t step;
        const double *rows = rows_from(table, whole, first, many, room, &step);
        for (size_t i = 0; i < many; i++) note_not_finite(rows + (ptrdiff_t)i * step, d, beyond);
        for (size_t start = 0; start < d; start += CHUNK) {
            size_t now = d - start < CHUNK ? d - start : CHUNK;
            int32_t below[TILE][CHUNK];
            int64_t near[LANES] = {0}, any = 0;
            for (size_t i = 0; i < many; i++)
                even_points_below(rows + (ptrdiff_t)i * step + start, now, low + start, per_step + start,
                                  n_points + start, doubt, below[i], near);
            for (size_t k = 0; k < LANES; k++) any |= near[k];
            for (size_t i = 0; any && i < many; i++)
                for (size_t k = 0; k < now; k++) {
                    double x = rows[(ptrdiff_t)i * step + (ptrdiff_t)(start + k)];
                    const double *own = points + starts[start + k];
                    int32_t n = (int32_t)n_points[start + k];
                    below[i][k] = doubt <= 0.25 ? points_below_near(own, n, x, below[i][k]) : points_below(own, n, x);
                }
            for (size_t i = 0; i < many; i++)
                for (size_t k = 0; k < now; k++) bins[starts[start + k] + (int64_t)(start + k) + below[i][k]]++;
        }
    }
    return noted(beyond);
}

/* Count the entries of every column above each of a few points: the first of all columns, then the second of all. */
FOR_EVERY_PROCESSOR
int eigenveil_count_few(const struct table *table, double *restrict room, const double *restrict points,
                        size_t n_points, int64_t *restrict above)
{
    int whole = in_rows(table);
    size_t d = table->d;
    uint64_t beyond[LANES] = {0};
    for (size_t first = 0; first < table->n; first += TILE) {
        size_t many = table->n - first < TILE ? table->n - first : TILE;
        ptrdiff_t step;
        const double *rows = rows_from(table, whole, first, many, room, &step);
        for (size_t i = 0; i < many; i++, rows += step) {
            note_not_finite(rows, d, beyond);
            for (size_t k = 0; k < n_points; k++)
                for (size_t j = 0; j < d; j++) above[k * d + j] += rows[j] > points[k * d + j];
        }
    }
    return noted(beyond);
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
