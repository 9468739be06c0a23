/* The passes of numpy_kernels.py over the rows of a table, compiled.

   Built by CMakeLists.txt where there is a compiler, and never needed. */

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

#define FEW 4 /* columns that are turned to rows together */

/* Put `many` numbers of FEW columns into rows that are `pitch` numbers apart. */
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
            /* So many columns are more than a processor foresees by itself. */
            for (size_t ahead = 0; ahead < TILE * sizeof(double); ahead += 64)
                __builtin_prefetch((const void *)((uintptr_t)from[k] + (uintptr_t)(TILE * stride) + ahead));
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

/* Put all rows into `out`, as float64. */
void eigenveil_rows(const struct table *table, double *restrict out)
{
    int whole = in_rows(table);
    for (size_t first = 0; first < table->n; first += TILE)
        load(table, whole, first, table->n - first < TILE ? table->n - first : TILE, out + first * table->d);
}

FOR_EVERY_PROCESSOR
void eigenveil_squares(const struct table *table, const double *restrict shift, const double *restrict factor,
                       double *restrict room, double *restrict squared)
{
    int whole = in_rows(table);
    for (size_t first = 0; first < table->n; first += TILE) {
        size_t many = table->n - first < TILE ? table->n - first : TILE;
        ptrdiff_t step;
        const double *rows = rows_from(table, whole, first, many, room, &step);
        for (size_t i = first; i < first + many; i++, rows += step)
            squared[i] = change_row(rows, table->d, shift, factor);
    }
}

/* Look up the group of each row by the leading bits of its squared norm, count the row, and add it, changed by the
   factors of its group, to the totals of that. List the places of rows whose group is not beyond doubt, or that have no
   exact square, in `left`, and return how many they are. */
FOR_EVERY_PROCESSOR
size_t eigenveil_sums_by_norm(const struct table *table, const double *restrict shift, const double *restrict scale,
                              double limit, double reach, double *restrict room, const int16_t *restrict cells,
                              int64_t n_cells, int64_t first_cell, int cell_shift, const double *restrict factors,
                              double *restrict row, int64_t *restrict counts, double *restrict totals,
                              int64_t *restrict left)
{
    int whole = in_rows(table);
    size_t n_left = 0, d = table->d, most = d <= 128 ? TILE : 1 + TILE * 128 / d;
    for (size_t first = 0; first < table->n; first += most) {
        size_t many = table->n - first < most ? table->n - first : most;
        int16_t groups[TILE];
        ptrdiff_t step;
        const double *rows = rows_from(table, whole, first, many, room, &step);
        /* Apart from what follows, which would wait for every single look-up. */
        for (size_t i = 0; i < many; i++) {
            double sum = change_row(rows + (ptrdiff_t)i * step, d, shift, scale);
            int64_t bits, cell;
            memcpy(&bits, &sum, sizeof bits);
            cell = (bits >> cell_shift) - first_cell;
            groups[i] = cells[cell < 0 ? 0 : cell >= n_cells ? n_cells - 1 : cell];
        }
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
