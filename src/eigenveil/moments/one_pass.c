/* The passes of numpy_kernels.py over the rows of a table, compiled.

   Built by CMakeLists.txt where there is a compiler, and never needed. */

#include "table.h"

const char *eigenveil_sources(void) { return EIGENVEIL_SOURCES; }

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

/* Put the groups of at most DEEP rows, from `first` on, into `found`. All of them before anything is done with one, which
   would wait for every single look-up. */
INLINE void groups_of(const struct table *table, int whole, size_t first, size_t many, const double *restrict shift,
                      const double *restrict scale, double *restrict room, const struct groups *groups,
                      int16_t *restrict found)
{
    double squared[DEEP];
    if (!whole || table->d <= NARROW)
        squares_by_column(table, whole, first, many, shift, scale, room, squared);
    else
        for (size_t start = 0, now; start < many; start += now) {
            ptrdiff_t step;
            now = many - start < TILE ? many - start : TILE;
            const double *rows = rows_from(table, whole, first + start, now, room, &step);
            for (size_t i = 0; i < now; i++)
                squared[start + i] = change_row(rows + (ptrdiff_t)i * step, table->d, shift, scale);
        }
    look_up(groups, squared, many, found);
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
    for (size_t first = 0; first < table->n; first += DEEP) {
        size_t many = table->n - first < DEEP ? table->n - first : DEEP;
        int16_t found[DEEP];
        groups_of(table, whole, first, many, shift, scale, room, groups, found);
        n_left += count_groups(found, first, many, counts, left + n_left);
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
    size_t n_left = 0, d = table->d, most = d <= NARROW ? DEEP : d <= 128 ? TILE : 1 + TILE * 128 / d;
    for (size_t first = 0; first < table->n; first += most) {
        size_t many = table->n - first < most ? table->n - first : most;
        int16_t groups[DEEP];
        groups_of(table, whole, first, many, shift, scale, room, found_by, groups);
        for (size_t at = 0, now; at < many; at += now) {
            ptrdiff_t step;
            now = many - at < TILE ? many - at : TILE;
            const double *rows = rows_from(table, whole, first + at, now, room, &step);
            for (size_t i = at; i < at + now; i++, rows += step) {
                size_t start = groups[i] < 0 ? 0 : (size_t)groups[i] * d;
                if (groups[i] < 0 || !(integer_row(rows, d, shift, factors + start, limit, reach, row) < EXACT_LIMIT)) {
                    left[n_left++] = (int64_t)(first + i);
                    continue;
                }
                counts[groups[i]]++;
                for (size_t j = 0; j < d; j++) totals[start + j] += row[j];
            }
        }
    }
    return n_left;
}

#ifdef MULTIPLIES
int eigenveil_multiplies(void) { return multiplies(); }

#define PAIRED 4 /* columns on either side of a block of products */

/* Put the integer rows of a tile into `out`, column by column, as `integer_row` does: zeros in place of those without an
   exact square, and in place of any beyond the last. Put squared norms into `squared`, and return how many are exact.
   The next tile is fetched meanwhile. */
WIDE_REGISTERS INLINE size_t integer_columns(const struct table *table, int whole, size_t first,
                                             const double *const *columns, size_t many, const double *restrict shift,
                                             const double *restrict factor, double limit, double reach,
                                             double *restrict squared, double *restrict out)
{
    const __m512d exact_limit = _mm512_set1_pd(EXACT_LIMIT), most = _mm512_set1_pd(limit), one = _mm512_set1_pd(1.0);
    __m512d sums[DEEP / LANES], shorter[DEEP / LANES], after[DEEP / LANES];
    __mmask8 exact[DEEP / LANES], longer[DEEP / LANES];
    size_t d = table->d, n_exact = 0;
    for (size_t k = 0; k < DEEP / LANES; k++) sums[k] = after[k] = _mm512_setzero_pd();
    for (size_t j = 0; j < d; j++) {
        __m512d moved = _mm512_set1_pd(shift[j]), times = _mm512_set1_pd(factor[j]);
        fetch_next(table, whole, first, 0, d, j);
        for (size_t k = 0; k < DEEP / LANES; k++) {
            __m512d entry = _mm512_sub_pd(_mm512_loadu_pd(columns[j] + k * LANES), moved);
            entry = TRUNCATED(_mm512_mul_pd(entry, times));
            _mm512_storeu_pd(out + j * DEEP + k * LANES, entry);
            sums[k] = _mm512_fmadd_pd(entry, entry, sums[k]);
        }
    }
    for (size_t k = 0; k < DEEP / LANES; k++) {
        size_t left = many < k * LANES ? 0 : many - k * LANES;
        __mmask8 there = (__mmask8)(left < LANES ? (1 << left) - 1 : 255);
        exact[k] = _mm512_mask_cmp_pd_mask(there, sums[k], exact_limit, _CMP_LT_OQ);
        longer[k] = _mm512_mask_cmp_pd_mask(exact[k], sums[k], most, _CMP_GT_OQ);
        shorter[k] = _mm512_mask_div_pd(one, longer[k], _mm512_set1_pd(reach), _mm512_sqrt_pd(sums[k]));
        _mm512_mask_storeu_pd(squared + k * LANES, there, sums[k]);
        n_exact += (size_t)__builtin_popcount(exact[k]);
    }
    /* Every row is multiplied, others by 1, so that the time does not tell which are longer. */
    for (size_t j = 0; j < d; j++)
        for (size_t k = 0; k < DEEP / LANES; k++) {
            double *to = out + j * DEEP + k * LANES;
            __m512d entry = TRUNCATED(_mm512_mul_pd(_mm512_loadu_pd(to), shorter[k]));
            entry = _mm512_maskz_mov_pd(exact[k], entry);
            _mm512_storeu_pd(to, entry);
            after[k] = _mm512_fmadd_pd(entry, entry, after[k]);
        }
    for (size_t k = 0; k < DEEP / LANES; k++) {
        longer[k] = _mm512_mask_cmp_pd_mask(longer[k], after[k], most, _CMP_GT_OQ); /* which is not known to happen */
        for (size_t j = 0; longer[k] && j < d; j++)
            for (size_t i = 0; i < LANES; i++) {
                double *entry = out + j * DEEP + k * LANES + i;
                if (longer[k] >> i & 1) *entry -= (*entry > 0.0) - (*entry < 0.0);
            }
    }
    return n_exact;
}

/* Add the products of the numbers of PAIRED columns with those of as many to their sums, and these numbers themselves to
   their totals where `totals` is not NULL. */
WIDE_REGISTERS INLINE void add_pairs(const double *left, const double *right, double *sums, double *totals)
{
    __m512d products[PAIRED][PAIRED], added[PAIRED];
    for (size_t a = 0; a < PAIRED; a++) {
        added[a] = totals ? _mm512_loadu_pd(totals + a * LANES) : _mm512_setzero_pd();
        for (size_t b = 0; b < PAIRED; b++) products[a][b] = _mm512_loadu_pd(sums + (a * PAIRED + b) * LANES);
    }
    for (size_t i = 0; i < DEEP; i += LANES) {
        __m512d others[PAIRED];
        for (size_t b = 0; b < PAIRED; b++) others[b] = _mm512_loadu_pd(right + b * DEEP + i);
        for (size_t a = 0; a < PAIRED; a++) {
            __m512d one = _mm512_loadu_pd(left + a * DEEP + i);
            if (totals) added[a] = _mm512_add_pd(added[a], one);
            for (size_t b = 0; b < PAIRED; b++) products[a][b] = _mm512_fmadd_pd(one, others[b], products[a][b]);
        }
    }
    for (size_t a = 0; a < PAIRED; a++) {
        if (totals) _mm512_storeu_pd(totals + a * LANES, added[a]);
        for (size_t b = 0; b < PAIRED; b++) _mm512_storeu_pd(sums + (a * PAIRED + b) * LANES, products[a][b]);
    }
}

/* As eigenveil_products, for few columns: so many rows at once as a register has numbers, and no product twice. */
WIDE_REGISTERS
static void products_by_column(const struct table *table, int whole, const double *restrict shift,
                               const double *restrict factor, double limit, double reach, double *restrict room,
                               double constant, size_t pitch, double *restrict squared, double *restrict products)
{
    size_t d = table->d, blocks = (d + PAIRED - 1) / PAIRED, width = blocks * PAIRED, n_exact = 0;
    double *integers = room + d * DEEP, *totals = integers + width * DEEP, *sums = totals + width * LANES, *at;
    memset(totals, 0, width * (1 + (width + PAIRED) / 2) * LANES * sizeof *totals);
    for (size_t first = 0; first < table->n; first += DEEP) {
        size_t many = table->n - first < DEEP ? table->n - first : DEEP;
        const double *columns[NARROW];
        columns_from(table, whole, first, many, 0, d, room, columns);
        /* Columns beyond the last stay zero. */
        if (first == 0) memset(integers, 0, width * DEEP * sizeof *integers);
        n_exact += integer_columns(table, whole, first, columns, many, shift, factor, limit, reach, squared + first,
                                   integers);
        at = sums;
        for (size_t a = 0; a < blocks; a++)
            for (size_t b = a; b < blocks; b++, at += PAIRED * PAIRED * LANES)
                add_pairs(integers + a * PAIRED * DEEP, integers + b * PAIRED * DEEP, at,
                          a == b ? totals + a * PAIRED * LANES : NULL);
    }
    at = sums;
    for (size_t a = 0; a < blocks; a++)
        for (size_t b = a; b < blocks; b++)
            for (size_t k = 0; k < PAIRED * PAIRED; k++, at += LANES) {
                size_t i = a * PAIRED + k / PAIRED, j = b * PAIRED + k % PAIRED;
                if (i <= j && j < d) products[i * pitch + j] += added(at);
            }
    if (pitch == d) return;
    for (size_t j = 0; j < d; j++) products[j * pitch + d] += constant * added(totals + j * LANES);
    products[d * pitch + d] += constant * constant * (double)n_exact;
}

/* Add q q' of all rows q, with the constant at their end, to the upper triangle of `products`; but for rows without an
   exact square. `pitch` is the width of a row of the products, a multiple of LANES and above d, or d. */
WIDE_REGISTERS
void eigenveil_products(const struct table *table, const double *restrict shift, const double *restrict factor,
                        double limit, double reach, double *restrict room, double constant, size_t pitch,
                        double *restrict squared, double *restrict products)
{
    int whole = in_rows(table);
    size_t d = table->d;
    double *tile = room + TILE * d;
    if (d <= NARROW) {
        products_by_column(table, whole, shift, factor, limit, reach, room, constant, pitch, squared, products);
        return;
    }
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
