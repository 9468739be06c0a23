/* The passes of numpy_kernels.py over the rows of a table, compiled.

   Built by CMakeLists.txt where there is a compiler, and never needed. */

#include "table.h"

FOR_EVERY_PROCESSOR
void eigenveil_integers(const struct table *table, const double *restrict shift, const double *restrict factor,
                        double limit, double reach, double *restrict room, double *restrict squared,
                        double *restrict out)
{
    int whole = in_rows(table);
    for (size_t first = 0; first < table->n; first += TILE) {
        size_t many = table->n - first < TILE ? table->n - first : TILE;
        ptrdiff_t step;
        const double *rows = rows_from(table, whole, first, many, room, &step);
        for (size_t i = first; i < first + many; i++, rows += step, out += table->d)
            squared[i] = integer_row(rows, table->d, shift, factor, limit, reach, out);
    }
}

/* Put row i into row places[i] of `out`, as float64. Return whether a number is NaN or infinite. */
FOR_EVERY_PROCESSOR
int eigenveil_rows(const struct table *table, const int64_t *restrict places, double *restrict room,
                   double *restrict out)
{
    int whole = in_rows(table);
    size_t d = table->d;
    int64_t beyond = 0;
    for (size_t first = 0; first < table->n; first += TILE) {
        size_t many = table->n - first < TILE ? table->n - first : TILE;
        ptrdiff_t step;
        const double *rows = rows_from(table, whole, first, many, room, &step);
        for (size_t i = first; i < first + many; i++, rows += step) {
            double *row = out + (size_t)places[i] * d;
            if (i + AHEAD < table->n) {
                const double *soon = out + (size_t)places[i + AHEAD] * d;
                for (size_t j = 0; j < d; j += LANES) __builtin_prefetch(soon + j, 1);
                __builtin_prefetch(soon + d - 1, 1);
            }
            for (size_t j = 0; j < d; j++) {
                row[j] = rows[j];
                beyond |= not_finite(rows[j]);
            }
        }
    }
    return beyond != 0;
}

/* The groups of rows, by the leading bits of their squared norms: `cells` has that of every cell, from the first on, and
   a negative number where it is not beyond doubt. */
struct groups {
    const int16_t *cells;
    int64_t n_cells, first_cell;
    int shift;
};

INLINE int16_t group_of(const struct groups *groups, double squared)
{
    int64_t cell = (bits_of(squared) >> groups->shift) - groups->first_cell;
    return groups->cells[cell < 0 ? 0 : cell >= groups->n_cells ? groups->n_cells - 1 : cell];
}

/* Count each row in its group. List the places of rows whose group is not beyond doubt in `left`, and return how many
   they are. */
FOR_EVERY_PROCESSOR
size_t eigenveil_count_by_norm(const struct table *table, const double *restrict shift, const double *restrict scale,
                               double *restrict room, const struct groups *groups, int64_t *restrict counts,
                               int64_t *restrict left)
{
    int whole = in_rows(table);
    size_t n_left = 0;
    for (size_t first = 0; first < table->n; first += TILE) {
        size_t many = table->n - first < TILE ? table->n - first : TILE;
        double squared[TILE];
        ptrdiff_t step;
        const double *rows = rows_from(table, whole, first, many, room, &step);
        for (size_t i = 0; i < many; i++)
            squared[i] = change_row(rows + (ptrdiff_t)i * step, table->d, shift, scale);
        for (size_t i = 0; i < many; i++) {
            int16_t group = group_of(groups, squared[i]);
            left[n_left] = (int64_t)(first + i);
            n_left += group < 0;
            counts[group < 0 ? 0 : group] += group >= 0;
        }
    }
    return n_left;
}

/* Look up the group of each row by the leading bits of its squared norm, count the row, and add it, changed by the
   factors of its group, to the totals of that. List the places of rows whose group is not beyond doubt, or that have no
   exact square, in `left`, and return how many they are. */
FOR_EVERY_PROCESSOR
size_t eigenveil_sums_by_norm(const struct table *table, const double *restrict shift, const double *restrict scale,
                              double limit, double reach, double *restrict room, const struct groups *found_by,
                              const double *restrict factors, double *restrict row, int64_t *restrict counts,
                              double *restrict totals, int64_t *restrict left)
{
    int whole = in_rows(table);
    size_t n_left = 0, d = table->d, most = d <= 128 ? TILE : 1 + TILE * 128 / d;
    for (size_t first = 0; first < table->n; first += most) {
        size_t many = table->n - first < most ? table->n - first : most;
        int16_t groups[TILE];
        ptrdiff_t step;
        const double *rows = rows_from(table, whole, first, many, room, &step);
        /* Apart from what follows, which would wait for every single look-up. */
        for (size_t i = 0; i < many; i++)
            groups[i] = group_of(found_by, change_row(rows + (ptrdiff_t)i * step, d, shift, scale));
        for (size_t i = first; i < first + many; i++, rows += step) {
            int16_t group = groups[i - first];
            size_t start = group < 0 ? 0 : (size_t)group * d;
            if (group < 0 || !(integer_row(rows, d, shift, factors + start, limit, reach, row) < EXACT_LIMIT)) {
                left[n_left++] = (int64_t)i;
                continue;
            }
            counts[group]++;
            for (size_t j = 0; j < d; j++) totals[start + j] += row[j];
        }
    }
    return n_left;
}

#ifdef MULTIPLIES
int eigenveil_multiplies(void) { return __builtin_cpu_supports("avx512f") != 0; }

/* Add q q' of all rows q, with the constant at their end, to the upper triangle of `products`; but for rows without an
   exact square. `pitch` is the width of a row of the tile and of the products, a multiple of LANES and above d, or d. */
WIDE_REGISTERS
void eigenveil_products(const struct table *table, const double *restrict shift, const double *restrict factor,
                        double limit, double reach, double *restrict room, double constant, size_t pitch,
                        double *restrict tile, double *restrict squared, double *restrict products)
{
    int whole = in_rows(table);
    size_t d = table->d;
    memset(tile, 0, TILE * pitch * sizeof *tile);
    for (size_t first = 0; first < table->n; first += TILE) {
        size_t many = table->n - first < TILE ? table->n - first : TILE;
        ptrdiff_t step;
        const double *rows = rows_from(table, whole, first, many, room, &step);
        double *row = tile;
        for (size_t i = first; i < first + many; i++, rows += step, row += pitch) {
            squared[i] = integer_row(rows, d, shift, factor, limit, reach, row);
            if (!(squared[i] < EXACT_LIMIT))
                memset(row, 0, pitch * sizeof *row);
            else if (pitch > d)
                row[d] = constant;
        }
        memset(row, 0, (TILE - many) * pitch * sizeof *row);
        add_tile(tile, pitch, products);
    }
}
#else
int eigenveil_multiplies(void) { return 0; }
#endif
