/* The counts of numpy_kernels.py over rows of float64, compiled: comparisons alone, so the same integers.

   Built by CMakeLists.txt into the same library as one_pass.c. */

#include "table.h"

#define FLAT 512 /* entries whose bins are found before they are counted, of as many columns as there are */
#define CARRIES_AT_ROOT (0x0010000000000000LL - 0x0006a09e667f3bcdLL) /* 2^52 less the mantissa of sqrt(2) */

/* Return how many of the points 2^(h/2), h from `first` on, do not exceed the number of these bits, within the ends:
   twice its exponent, and one more from the mantissa of sqrt(2) on, where the sum below carries. */
INLINE int64_t place_of(int64_t bits, int64_t first, int64_t last_place)
{
    int64_t place = (bits >> 52) + ((bits + CARRIES_AT_ROOT) >> 52) - (2 * 1023 - 1 + first);
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

/* Bins for every column: of half the distances of pairs, and of positive and of negative entries. */
struct pair_bins {
    int64_t first_pair, n_pairs, first_value, n_values;
    int32_t *pairs, *values;
};

/* Count entries by their size and sign, and half the distances of those of two rows. `columns` has the column of each.
   Return whether one is NaN or infinite. */
INLINE int count_entries(const double *restrict one, const double *restrict other, size_t many,
                         const int32_t *restrict columns, const struct pair_bins *bins)
{
    int64_t first_pair = bins->first_pair, n_pairs = bins->n_pairs, beyond = 0;
    int64_t first_value = bins->first_value, n_values = bins->n_values;
    int32_t apart[FLAT], of_one[FLAT], of_other[FLAT];
    for (size_t k = 0; k < many; k++) {
        double x = one[k], y = other[k];
        int32_t pairs_before = columns[k] * (int32_t)n_pairs, values_before = columns[k] * (int32_t)(2 * n_values);
        beyond |= not_finite(x) | not_finite(y);
        apart[k] = pairs_before + (int32_t)place_of(bits_of(fabs(0.5 * x - 0.5 * y)) - 1, first_pair, n_pairs - 1);
        of_one[k] = values_before + (int32_t)value_place(x, first_value, n_values);
        of_other[k] = values_before + (int32_t)value_place(y, first_value, n_values);
    }
    for (size_t k = 0; k < many; k++) {
        bins->values[of_one[k]]++;
        bins->values[of_other[k]]++;
        bins->pairs[apart[k]]++;
    }
    return beyond != 0;
}

/* Count an entry that has no partner by its size and sign. */
INLINE int count_single(double entry, size_t column, const struct pair_bins *bins)
{
    int64_t place = value_place(entry, bins->first_value, bins->n_values);
    bins->values[(int64_t)column * 2 * bins->n_values + place]++;
    return not_finite(entry) != 0;
}

/* Count the entries of some columns of all rows, and half the distances of those of two rows: the first with the second,
   the third with the fourth. A last odd row has no partner. Return whether an entry is NaN or infinite. */
FOR_EVERY_PROCESSOR
int eigenveil_count_pairs(const double *const *restrict rows, size_t n, const int64_t *restrict columns,
                          size_t n_columns, const struct pair_bins *bins)
{
    int beyond = 0;
    for (size_t start = 0; start < n_columns; start += FLAT) {
        size_t now = n_columns - start < FLAT ? n_columns - start : FLAT, group = FLAT / now;
        double one[FLAT], other[FLAT];
        int32_t of[FLAT];
        group = group > LANES ? group / LANES * LANES : group; /* pairs of rows, so that registers are full */
        for (size_t k = 0; k < group * now; k++) of[k] = (int32_t)(start + k % now);
        for (size_t i = 0; i + 1 < n; i += 2 * group) {
            size_t many = (n - i) / 2 < group ? (n - i) / 2 : group, at = 0;
            for (size_t pair = i; pair < i + 2 * many; pair += 2) {
                const double *x = rows[pair], *y = rows[pair + 1];
                if (pair + AHEAD + 1 < n) {
                    fetch(rows[pair + AHEAD] + columns[start], now);
                    fetch(rows[pair + AHEAD + 1] + columns[start], now);
                }
                for (size_t k = 0; k < now; k++, at++) {
                    one[at] = x[columns[start + k]];
                    other[at] = y[columns[start + k]];
                }
            }
            beyond |= count_entries(one, other, at, of, bins);
        }
    }
    for (size_t k = 0; n % 2 && k < n_columns; k++) beyond |= count_single(rows[n - 1][columns[k]], k, bins);
    return beyond;
}

/* The same of whole columns that lie apart, each in one piece: rows are paired by their places in `order`. */
FOR_EVERY_PROCESSOR
int eigenveil_count_pairs_by_column(const double *const *restrict columns, size_t n_columns,
                                    const int64_t *restrict order, size_t n, const struct pair_bins *bins)
{
    int beyond = 0;
    for (size_t k = 0; k < n_columns; k++) {
        const double *column = columns[k];
        double one[FLAT], other[FLAT];
        int32_t of[FLAT];
        for (size_t i = 0; i < FLAT; i++) of[i] = (int32_t)k;
        for (size_t start = 0; start + 1 < n; start += 2 * FLAT) {
            size_t many = (n - start) / 2 < FLAT ? (n - start) / 2 : FLAT;
            for (size_t i = 0; i < many; i++) {
                one[i] = column[order[start + 2 * i]];
                other[i] = column[order[start + 2 * i + 1]];
            }
            beyond |= count_entries(one, other, many, of, bins);
        }
        if (n % 2) beyond |= count_single(column[order[n - 1]], k, bins);
    }
    return beyond;
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

/* Return how many of n ascending points are below x: `guess`, or one more, or one less. */
INLINE int32_t points_below_near(const double *points, int32_t n, double x, int32_t guess)
{
    int32_t before = guess > 0 ? guess - 1 : 0, after = guess < n ? guess : n - 1;
    return guess + ((guess < n) & (points[after] < x)) - ((guess > 0) & !(points[before] < x));
}

/* The points of all columns, and one more after those of each that nothing is compared with; so points and bins of a
   column begin at the same place, `starts`, which is -1 where it is not counted. `n_points` is how many they are.

   Points are even if point k of every column, from 0 on, comes to (point - low) * per_step within `doubt` of k, and that
   is at most 1/4. A larger number never comes to less, so that only those that come so near to a point are compared. */
struct grid {
    const double *points;
    const int64_t *starts;
    const double *n_points, *low, *per_step;
    double doubt;
};

/* Put into `places` how many of the even points of a column are below each of DEEP entries. Return whether that is in
   doubt for one of them, being as near to a point as rounding may move it, or not finite. */
INLINE int even_places(const double *restrict entries, const struct grid *grid, size_t j, uint32_t *restrict places)
{
    double low = grid->low[j], per_step = grid->per_step[j], n_points = grid->n_points[j];
    double doubt = grid->doubt, most = 1.0 - doubt - 0x1p-52;
    int64_t near = 0;
    for (size_t i = 0; i < DEEP; i++) {
        double number = (entries[i] - low) * per_step, up = ceil(number), short_of = up - number;
        near |= (short_of > doubt) & (short_of < most) ? 0 : 1;
        up = up > 0.0 ? up : 0.0;
        places[i] = (uint32_t)(int32_t)(up < n_points ? up : n_points);
    }
    return near != 0;
}

/* Norms that are counted too; `n_left` is how many have no group beyond doubt, whose places are in `left`. */
struct norms {
    const double *shift, *scale;
    int64_t *counts, *left;
    struct groups groups;
    size_t n_left;
};

/* Count every entry by the points of its column that are below it, in one bin more than it has points, and norms where
   `norms` is not NULL. Neighbours are counted in two sets of bins, one after the other in `bins`, so that none waits for
   the one before. Return whether an entry is NaN or infinite. */
FOR_EVERY_PROCESSOR
int eigenveil_count_columns(const struct table *table, double *restrict room, const struct grid *grid,
                            struct norms *norms, size_t n_bins, int32_t *restrict bins)
{
    int whole = in_rows(table);
    int64_t beyond = 0;
    for (size_t first = 0; first < table->n; first += DEEP) {
        size_t many = table->n - first < DEEP ? table->n - first : DEEP;
        double squared[DEEP] = {0.0};
        for (size_t from = 0, width; from < table->d; from += width) {
            const double *columns[NARROW];
            width = table->d - from < NARROW ? table->d - from : NARROW;
            columns_from(table, whole, first, many, from, width, room, columns);
            for (size_t j = 0; norms && j < width; j++)
                add_squares(columns[j], norms->shift[from + j], norms->scale[from + j], squared);
            for (size_t j = from; j < from + width; j++) {
                uint32_t places[DEEP]; /* as signed ones they would be extended one by one */
                fetch_next(table, whole, first, from, width, j);
                if (grid->starts[j] < 0) continue;
                const double *entries = columns[j - from], *own = grid->points + grid->starts[j];
                int32_t *own_bins = bins + grid->starts[j], *others = own_bins + n_bins, n = (int32_t)grid->n_points[j];
                int near = even_places(entries, grid, j, places);
                for (size_t i = 0; near && i < many; i++) {
                    beyond |= not_finite(entries[i]);
                    places[i] = (uint32_t)(grid->doubt <= 0.25
                                               ? points_below_near(own, n, entries[i], (int32_t)places[i])
                                               : points_below(own, n, entries[i]));
                }
                for (size_t i = 0; many == DEEP && i < DEEP; i += LANES)
                    for (size_t k = i; k < i + LANES; k += 2) {
                        own_bins[places[k]]++;
                        others[places[k + 1]]++;
                    }
                for (size_t i = 0; many < DEEP && i < many; i++) own_bins[places[i]]++;
            }
        }
        if (norms) {
            int16_t found[DEEP];
            look_up(&norms->groups, squared, many, found);
            norms->n_left += count_groups(found, first, many, norms->counts, norms->left + norms->n_left);
        }
    }
    return beyond != 0;
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
