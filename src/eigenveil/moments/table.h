/* Tables as they lie in memory, by row or by column, of any type: read a tile of rows at a time, as float64. Such a tile
   lies row by row, or column by column where what is done with it is done for many rows at once. */

#include "rows.h"

/* A table of n rows and d columns. Of every column: where it begins, how many bytes its numbers are apart, and of which
   type they are, as in kernels.py. Nothing need be aligned. */
struct table {
    const char *const *columns;
    const ptrdiff_t *strides;
    const uint8_t *types;
    size_t n, d;
};
static const size_t SIZES[] = {8, 4, 8, 4, 2, 1, 8, 4, 2, 1};

#define CONVERT(TYPE)                                                                                                  \
    if (stride == (ptrdiff_t)sizeof(TYPE) && pitch == 1)                                                               \
        for (size_t i = 0; i < many; i++) {                                                                            \
            TYPE entry;                                                                                                \
            memcpy(&entry, from + i * sizeof entry, sizeof entry);                                                     \
            to[i] = (double)entry;                                                                                     \
        }                                                                                                              \
    else                                                                                                               \
        for (size_t i = 0; i < many; i++) {                                                                            \
            TYPE entry;                                                                                                \
            memcpy(&entry, from + (ptrdiff_t)i * stride, sizeof entry);                                                \
            to[i * pitch] = (double)entry;                                                                             \
        }                                                                                                              \
    break

/* Put numbers of a type, `stride` bytes apart, into `to`, `pitch` numbers apart. */
INLINE void convert(uint8_t type, const char *restrict from, ptrdiff_t stride, size_t many, double *restrict to,
                    size_t pitch)
{
    switch (type) {
    case 0: CONVERT(double);
    case 1: CONVERT(float);
    case 2: CONVERT(int64_t);
    case 3: CONVERT(int32_t);
    case 4: CONVERT(int16_t);
    case 5: CONVERT(int8_t);
    case 6: CONVERT(uint64_t);
    case 7: CONVERT(uint32_t);
    case 8: CONVERT(uint16_t);
    default: CONVERT(uint8_t);
    }
}

#define FEW 4 /* columns that are turned to rows together, or rows to columns */

/* Put `many` numbers of FEW columns into rows that are `pitch` numbers apart; or of rows into columns. */
INLINE void turn(const char *const *from, size_t many, size_t pitch, double *restrict to)
{
    size_t i = 0;
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
    typedef double few __attribute__((vector_size(FEW * sizeof(double))));
    for (; i + FEW <= many; i += FEW) {
        few columns[FEW], pairs[FEW], rows[FEW];
        for (size_t k = 0; k < FEW; k++) memcpy(&columns[k], from[k] + i * sizeof(double), sizeof(few));
        for (size_t k = 0; k < FEW; k += 2) {
            pairs[k] = __builtin_shufflevector(columns[k], columns[k + 1], 0, 4, 2, 6);
            pairs[k + 1] = __builtin_shufflevector(columns[k], columns[k + 1], 1, 5, 3, 7);
        }
        for (size_t k = 0; k < 2; k++) {
            rows[k] = __builtin_shufflevector(pairs[k], pairs[k + 2], 0, 1, 4, 5);
            rows[k + 2] = __builtin_shufflevector(pairs[k], pairs[k + 2], 2, 3, 6, 7);
        }
        for (size_t k = 0; k < FEW; k++) memcpy(to + (i + k) * pitch, &rows[k], sizeof(few));
    }
#endif
#endif
    for (; i < many; i++)
        for (size_t k = 0; k < FEW; k++) memcpy(to + i * pitch + k, from[k] + i * sizeof(double), sizeof(double));
}

/* Tell whether the numbers of a row lie side by side, all of one type. */
INLINE int in_rows(const struct table *table)
{
    int whole = 1;
    for (size_t j = 0; j < table->d; j++)
        whole &= table->types[j] == table->types[0] && table->strides[j] == table->strides[0] &&
                 (uintptr_t)table->columns[j] == (uintptr_t)table->columns[0] + j * SIZES[table->types[0]];
    return whole;
}

/* Fetch what is read soon, so many bytes ahead, so early that nothing waits for it: a processor foresees neither so many
   columns nor rows that are read by fours. */
INLINE void fetch_later(const char *start, ptrdiff_t ahead, size_t size)
{
    for (size_t at = 0; at < size; at += 64)
        __builtin_prefetch((const void *)((uintptr_t)start + (uintptr_t)ahead + at));
}

/* Put rows, from `first` on, into `room`, as float64. */
FOR_EVERY_PROCESSOR
static void load(const struct table *table, int whole, size_t first, size_t many, double *restrict room)
{
    size_t d = table->d, j = 0;
    double converted[FEW][TILE];
    if (whole) {
        const char *row = table->columns[0] + (ptrdiff_t)first * table->strides[0];
        for (size_t i = 0; i < many; i++, row += table->strides[0])
            convert(table->types[0], row, (ptrdiff_t)SIZES[table->types[0]], d, room + i * d, 1);
        return;
    }
    for (; j + FEW <= d; j += FEW) {
        const char *from[FEW];
        for (size_t k = 0; k < FEW; k++) {
            ptrdiff_t stride = table->strides[j + k];
            from[k] = table->columns[j + k] + (ptrdiff_t)first * stride;
            fetch_later(from[k], 2 * TILE * stride, TILE * sizeof(double));
            if (table->types[j + k] == 0 && stride == (ptrdiff_t)sizeof(double)) continue;
            convert(table->types[j + k], from[k], stride, many, converted[k], 1);
            from[k] = (const char *)converted[k];
        }
        turn(from, many, d, room + j);
    }
    for (; j < d; j++) {
        const char *from = table->columns[j] + (ptrdiff_t)first * table->strides[j];
        convert(table->types[j], from, table->strides[j], many, room + j, d);
    }
}

/* Return at most TILE rows, from `first` on, which are `*step` numbers apart: where they lie, or in `room`. */
INLINE const double *rows_from(const struct table *table, int whole, size_t first, size_t many, double *room,
                               ptrdiff_t *step)
{
    const char *start = table->columns[0];
    ptrdiff_t stride = table->strides[0], size = sizeof(double);
    if (whole && table->types[0] == 0 && (uintptr_t)start % sizeof(double) == 0 && stride % size == 0) {
        *step = stride / size;
        return (const double *)(start + (ptrdiff_t)first * stride);
    }
    load(table, whole, first, many, room);
    *step = (ptrdiff_t)table->d;
    return room;
}

#ifdef MULTIPLIES
/* As two of `turn`, with twice as many numbers in a register: LANES rows of at least FEW numbers become columns. */
WIDE_REGISTERS
static void turn_wide(const char *const *from, size_t width, size_t pitch, double *restrict to)
{
    for (size_t j = 0; j < width; j += FEW) {
        __m512d rows[FEW], pairs[FEW];
        j = width - j < FEW ? width - FEW : j; /* some are turned twice */
        for (size_t k = 0; k < FEW; k++) { /* rows 0 and 2, 1 and 3, 4 and 6, 5 and 7 */
            const double *row = (const double *)from[k + k / 2 * 2], *other = (const double *)from[k + k / 2 * 2 + 2];
            rows[k] = _mm512_castpd256_pd512(_mm256_loadu_pd(row + j));
            rows[k] = _mm512_insertf64x4(rows[k], _mm256_loadu_pd(other + j), 1);
        }
        for (size_t k = 0; k < FEW; k += 2) {
            pairs[k] = _mm512_unpacklo_pd(rows[k], rows[k + 1]);
            pairs[k + 1] = _mm512_unpackhi_pd(rows[k], rows[k + 1]);
        }
        for (size_t k = 0; k < 2; k++) {
            _mm512_storeu_pd(to + (j + k) * pitch, _mm512_shuffle_f64x2(pairs[k], pairs[k + 2], 0x88));
            _mm512_storeu_pd(to + (j + k + 2) * pitch, _mm512_shuffle_f64x2(pairs[k], pairs[k + 2], 0xdd));
        }
    }
}
#endif

#define DEEP 64   /* rows of a tile that lies column by column */
#define NARROW 48 /* rows of more numbers that lie side by side are not turned: that takes longer than it helps */

/* Put `many` rows, from `first` on, into `room`, column by column: `width` numbers of each, from column `from` on. */
FOR_EVERY_PROCESSOR
static void turn_rows(const struct table *table, size_t first, size_t many, size_t from, size_t width,
                      double *restrict room)
{
    double converted[LANES][NARROW];
    const char *rows[LANES];
    for (size_t i = 0; i < many; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            size_t row = first + (i + k < many ? i + k : many - 1);
            rows[k] = table->columns[from] + (ptrdiff_t)row * table->strides[from];
            if (table->types[from] == 0) continue;
            convert(table->types[from], rows[k], (ptrdiff_t)SIZES[table->types[from]], width, converted[k], 1);
            rows[k] = (const char *)converted[k];
        }
#ifdef MULTIPLIES
        if (width >= FEW && multiplies()) {
            turn_wide(rows, width, DEEP, room + i);
            continue;
        }
#endif
        for (size_t k = 0; k < LANES; k += FEW) turn(rows + k, width, DEEP, room + i + k);
    }
}

/* Put numbers of a column into `room`, as float64. */
FOR_EVERY_PROCESSOR
static void convert_column(const struct table *table, size_t first, size_t many, size_t j, double *restrict room)
{
    ptrdiff_t stride = table->strides[j];
    convert(table->types[j], table->columns[j] + (ptrdiff_t)first * stride, stride, many, room, 1);
}

/* Point at DEEP numbers of each of `width` columns from `from` on, from row `first` on: where they lie, or in `room`,
   which is for NARROW columns. Of less than DEEP rows the last ones are followed by others, or by anything. */
INLINE void columns_from(const struct table *table, int whole, size_t first, size_t many, size_t from, size_t width,
                         double *restrict room, const double **restrict columns)
{
    if (whole) turn_rows(table, first, many, from, width, room);
    for (size_t j = 0; j < width; j++) {
        const char *column = table->columns[from + j] + (ptrdiff_t)first * table->strides[from + j];
        int there = table->types[from + j] == 0 && table->strides[from + j] == (ptrdiff_t)sizeof(double);
        columns[j] = room + j * DEEP;
        if (whole) continue;
        if (there && many == DEEP && (uintptr_t)column % sizeof(double) == 0)
            columns[j] = (const double *)column;
        else
            convert_column(table, first, many, from + j, room + j * DEEP);
    }
}

/* Fetch a share of a tile after the one that begins with row `first`, while one of its columns is worked on: all at once
   would be waited for. Of columns that lie apart, two tiles ahead: a processor helps less with so many. */
INLINE void fetch_next(const struct table *table, int whole, size_t first, size_t from, size_t width, size_t j)
{
    ptrdiff_t stride = table->strides[j];
    if (!whole) fetch_later(table->columns[j], (ptrdiff_t)(first + 2 * DEEP) * stride, DEEP * sizeof(double));
    for (size_t i = (j - from) * DEEP / width; whole && i < (j - from + 1) * DEEP / width; i++)
        fetch_later(table->columns[from], (ptrdiff_t)(first + DEEP + i) * stride, width * SIZES[table->types[from]]);
}

/* Add the squares of DEEP changed entries of a column to `sums`. */
INLINE void add_squares(const double *restrict column, double shift, double factor, double *restrict sums)
{
    for (size_t i = 0; i < DEEP; i++) {
        double entry = (column[i] - shift) * factor;
        sums[i] += entry * entry;
    }
}

/* Put the squared norms of DEEP rows of changed entries, from `first` on, into `squared`. */
INLINE void squares_by_column(const struct table *table, int whole, size_t first, size_t many,
                              const double *restrict shift, const double *restrict factor, double *restrict room,
                              double *restrict squared)
{
    double sums[DEEP] = {0.0};
    for (size_t from = 0, width; from < table->d; from += width) {
        const double *columns[NARROW];
        width = table->d - from < NARROW ? table->d - from : NARROW;
        columns_from(table, whole, first, many, from, width, room, columns);
        for (size_t j = from; j < from + width; j++) {
            fetch_next(table, whole, first, from, width, j);
            add_squares(columns[j - from], shift[j], factor[j], sums);
        }
    }
    memcpy(squared, sums, sizeof sums);
}

/* The groups of rows, by the leading bits of their squared norms: `cells` has that of every cell, from the first on, and
   a negative number where it is not beyond doubt. */
struct groups {
    const int16_t *cells;
    int64_t n_cells, first_cell;
    int shift;
};

INLINE void look_up(const struct groups *groups, const double *restrict squared, size_t many, int16_t *restrict found)
{
    for (size_t i = 0; i < many; i++) {
        int64_t cell = (bits_of(squared[i]) >> groups->shift) - groups->first_cell;
        found[i] = groups->cells[cell < 0 ? 0 : cell >= groups->n_cells ? groups->n_cells - 1 : cell];
    }
}

/* Count at most DEEP rows, from `first` on, in their groups. List the places of those without one in `left`, and return
   how many they are. */
INLINE size_t count_groups(const int16_t *restrict found, size_t first, size_t many, int64_t *restrict counts,
                           int64_t *restrict left)
{
    size_t n_left = 0;
    for (size_t i = 0; i < many; i++) {
        left[n_left] = (int64_t)(first + i);
        n_left += found[i] < 0;
        counts[found[i] < 0 ? 0 : found[i]] += found[i] >= 0;
    }
    return n_left;
}
