/* Comparisons of rows with the rows before them, as `comparisons.py` makes them, and their integers, compiled.

   Built by CMakeLists.txt where there is a compiler, and never needed. */

#include "rows.h"

/* Rows of float64 that lie each in one piece, d numbers apart. Comparison c is that of row half + c / half with the one
   that is 1 + c % half rows before it. */
struct compared {
    const double *rows;
    size_t d, half;
    int signs;           /* which number is larger, or else normalized differences */
    int target;          /* integers below 2^target have an exact square in a row */
    const double *scale; /* of every feature, in units of the largest; or NULL */
    double factor, limit, reach;
};

/* Put the halved difference of two rows into `out`. */
INLINE void subtract(const double *restrict row, const double *restrict other, size_t d, double *restrict out)
{
#define SUBTRACT(WIDTH)                                                                                                \
    for (size_t k = 0; k < (WIDTH); k++) out[j + k] = 0.5 * row[j + k] - 0.5 * other[j + k];
    BY_LANES(SUBTRACT);
}

/* Multiply by 2^-exponent, rounding once, and by the scale. */
INLINE void scale_row(double *restrict out, size_t d, int exponent, const double *restrict scale)
{
    /* A power of two below the range of float64 makes numbers smaller alone; what becomes larger stays exact. */
    int once = exponent > 0 ? -exponent : -exponent / 2;
    double first = ldexp(1.0, once), second = ldexp(1.0, -exponent - once);
#define SCALE(WIDTH)                                                                                                   \
    for (size_t k = 0; k < (WIDTH); k++) out[j + k] = out[j + k] * first * second * scale[j + k];
    BY_LANES(SCALE);
}

/* Return the largest size of an entry, of finite ones. Sizes are in the order of their bits, and integers are compared
   by the lane. */
INLINE double largest_of(const double *restrict row, size_t d)
{
    int64_t largest[LANES] = {0}, most = 0;
    double size;
#define LARGEST(WIDTH)                                                                                                 \
    for (size_t k = 0; k < (WIDTH); k++) {                                                                             \
        int64_t bits = bits_of(row[j + k]) & INT64_MAX;                                                                \
        largest[k] = bits > largest[k] ? bits : largest[k];                                                            \
    }
    BY_LANES(LARGEST);
    for (size_t k = 0; k < LANES; k++) most = largest[k] > most ? largest[k] : most;
    memcpy(&size, &most, sizeof size);
    return size;
}

/* Multiply by two powers of two and truncate, as `integer_rows` does; return the squared norm. */
INLINE double whole_row(double *restrict out, size_t d, double first, double second)
{
    double sums[LANES] = {0.0};
#define WHOLE(WIDTH)                                                                                                   \
    for (size_t k = 0; k < (WIDTH); k++) {                                                                             \
        double entry = trunc(out[j + k] * first * second);                                                             \
        out[j + k] = entry;                                                                                            \
        sums[k] += entry * entry;                                                                                      \
    }
    BY_LANES(WHOLE);
    return added(sums);
}

INLINE double normalize_row(double *restrict out, size_t d, double root, double factor)
{
    double sums[LANES] = {0.0};
#define NORMALIZE(WIDTH)                                                                                               \
    for (size_t k = 0; k < (WIDTH); k++) {                                                                             \
        double entry = trunc(out[j + k] / root * factor);                                                              \
        out[j + k] = entry;                                                                                            \
        sums[k] += entry * entry;                                                                                      \
    }
    BY_LANES(NORMALIZE);
    return added(sums);
}

INLINE void sign_row(const double *restrict row, const double *restrict other, size_t d, double factor,
                     double *restrict out)
{
#define SIGN(WIDTH)                                                                                                    \
    for (size_t k = 0; k < (WIDTH); k++)                                                                               \
        out[j + k] = (row[j + k] > other[j + k] ? factor : 0.0) - (row[j + k] < other[j + k] ? factor : 0.0);
    BY_LANES(SIGN);
}

INLINE double squared_norm(const double *restrict row, size_t d)
{
    double sums[LANES] = {0.0};
#define SQUARE(WIDTH)                                                                                                  \
    for (size_t k = 0; k < (WIDTH); k++) sums[k] += row[j + k] * row[j + k];
    BY_LANES(SQUARE);
    return added(sums);
}

/* Return 2^power of a normal number. */
INLINE double power_of_two(int power)
{
    int64_t bits = (int64_t)(1023 + power) << 52;
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* Return what frexp does of a number that is not negative. */
INLINE int exponent_of(double number)
{
    int small = number < 0x1p-1022;
    double normal = small ? number * 0x1p54 : number;
    int64_t bits;
    memcpy(&bits, &normal, sizeof bits);
    return number > 0.0 ? (int)(bits >> 52) - 1022 - (small ? 54 : 0) : 0;
}

/* Put the integers of at most TILE comparisons into `out`, `pitch` numbers apart: step by step for all of them, so that
   none waits for a root or a quotient of the one before. Of a row of `out` that has more than d numbers the others are
   0, and `wide` of them are worked on: whole lanes are quicker than a rest of them. */
INLINE void compare(const struct compared *one, size_t first, size_t many, double *restrict out, size_t pitch,
                    size_t wide)
{
    size_t d = one->d, half = one->half, back = first % half;
    const double *row = one->rows + (half + first / half) * d;
    double squared[TILE], numbers[TILE];
    for (size_t i = 0; i < many; i++) {
        const double *other = row - ++back * d;
        if (one->signs)
            sign_row(row, other, d, one->factor, out + i * pitch);
        else
            subtract(row, other, d, out + i * pitch);
        row += back == half ? d : 0;
        back = back == half ? 0 : back;
    }
    if (one->signs) {
        for (size_t i = 0; i < many; i++) squared[i] = squared_norm(out + i * pitch, wide);
    } else {
        for (size_t i = 0; one->scale && i < many; i++)
            scale_row(out + i * pitch, d, exponent_of(largest_of(out + i * pitch, wide)), one->scale);
        for (size_t i = 0; i < many; i++) numbers[i] = largest_of(out + i * pitch, wide);
        for (size_t i = 0; i < many; i++) {
            int up = numbers[i] > 0.0 ? one->target - exponent_of(numbers[i]) : 0;
            int once = (up - (up < 0 && up % 2)) / 2; /* rounded down */
            squared[i] = whole_row(out + i * pitch, wide, power_of_two(once), power_of_two(up - once));
        }
        /* Two equal rows have the direction 0, whatever it is divided by. */
        for (size_t i = 0; i < many; i++) numbers[i] = sqrt(squared[i] > 0.0 ? squared[i] : 1.0);
        for (size_t i = 0; i < many; i++) squared[i] = normalize_row(out + i * pitch, wide, numbers[i], one->factor);
    }
    for (size_t i = 0; i < many; i++) numbers[i] = shortening(squared[i], one->limit, one->reach);
    for (size_t i = 0; i < many; i++) shorten_row(out + i * pitch, wide, squared[i], one->limit, numbers[i]);
}

FOR_EVERY_PROCESSOR
void eigenveil_compared(const struct compared *compared, size_t first, size_t many, double *restrict out)
{
    size_t d = compared->d;
    for (size_t done = 0; done < many; done += TILE)
        compare(compared, first + done, many - done < TILE ? many - done : TILE, out + done * d, d, d);
}

#ifdef MULTIPLIES
/* Comparisons side by side, one in each lane of a register, so that no sum or largest number is one over the entries of
   a register: LANES rows, each with the row that is as many rows before it. */
#define MOST_BACK LANES
#define SIDE_BY_SIDE 32 /* columns at most; with more of them, comparisons one by one are as quick */

WIDE_REGISTERS INLINE __m512d sizes_of(__m512d numbers)
{
    return _mm512_castsi512_pd(_mm512_and_epi64(_mm512_castpd_si512(numbers), _mm512_set1_epi64(INT64_MAX)));
}

/* Return what frexp makes of the largest sizes, or of 0 a given exponent. */
WIDE_REGISTERS INLINE __m512d exponents_of(const __m512d *numbers, size_t d, double of_zero)
{
    __m512d largest = _mm512_setzero_pd(), one = _mm512_set1_pd(1.0);
    for (size_t j = 0; j < d; j++) largest = _mm512_max_pd(largest, sizes_of(numbers[j]));
    __mmask8 some = _mm512_cmp_pd_mask(largest, _mm512_setzero_pd(), _CMP_GT_OQ);
    return _mm512_mask_add_pd(_mm512_set1_pd(of_zero), some, _mm512_getexp_pd(largest), one);
}

WIDE_REGISTERS INLINE __m512d squares_of(const __m512d *numbers, size_t d)
{
    __m512d sums = _mm512_setzero_pd();
    for (size_t j = 0; j < d; j++) sums = _mm512_fmadd_pd(numbers[j], numbers[j], sums); /* of integers, so exact */
    return sums;
}

/* Put LANES numbers of LANES columns into rows that are `pitch` numbers apart. */
WIDE_REGISTERS INLINE void turn_lanes(const __m512d *columns, double *restrict rows, size_t pitch)
{
    __m512d pairs[LANES], fours[LANES];
    for (size_t k = 0; k < LANES; k += 2) {
        pairs[k] = _mm512_unpacklo_pd(columns[k], columns[k + 1]);
        pairs[k + 1] = _mm512_unpackhi_pd(columns[k], columns[k + 1]);
    }
    for (size_t k = 0; k < 2; k++)
        for (size_t h = 0; h < LANES; h += 4) {
            fours[h + k] = _mm512_shuffle_f64x2(pairs[h + k], pairs[h + k + 2], 0x88);
            fours[h + k + 2] = _mm512_shuffle_f64x2(pairs[h + k], pairs[h + k + 2], 0xdd);
        }
    for (size_t k = 0; k < 4; k++) {
        _mm512_storeu_pd(rows + k * pitch, _mm512_shuffle_f64x2(fours[k], fours[k + 4], 0x88));
        _mm512_storeu_pd(rows + (k + 4) * pitch, _mm512_shuffle_f64x2(fours[k], fours[k + 4], 0xdd));
    }
}

/* Put the integers of LANES comparisons into as many rows of a tile, as `compare` does; `columns` has the rows from
   MOST_BACK before the first on. Numbers change by a power of two in one step here: where that is two in `compare`, both
   are exact, or lose what is truncated. */
WIDE_REGISTERS INLINE void compare_lanes(const struct compared *one, double (*columns)[MOST_BACK + LANES], size_t back,
                                         double *restrict rows, size_t pitch)
{
    size_t d = one->d;
    __m512d numbers[SIDE_BY_SIDE], squared, factor = _mm512_set1_pd(one->factor), half = _mm512_set1_pd(0.5);
    for (size_t j = 0; j < d; j++) {
        __m512d row = _mm512_loadu_pd(columns[j] + MOST_BACK), other = _mm512_loadu_pd(columns[j] + MOST_BACK - back);
        __m512d up = _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(row, other, _CMP_GT_OQ), factor);
        __m512d down = _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(row, other, _CMP_LT_OQ), factor);
        numbers[j] = one->signs ? up - down : half * row - half * other;
    }
    for (size_t j = d; j < pitch; j++) numbers[j] = _mm512_setzero_pd();
    if (!one->signs) {
        if (one->scale) {
            __m512d down = _mm512_setzero_pd() - exponents_of(numbers, d, 0.0);
            for (size_t j = 0; j < d; j++)
                numbers[j] = _mm512_scalef_pd(numbers[j], down) * _mm512_set1_pd(one->scale[j]);
        }
        __m512d up = _mm512_set1_pd(one->target) - exponents_of(numbers, d, one->target);
        for (size_t j = 0; j < d; j++) numbers[j] = TRUNCATED(_mm512_scalef_pd(numbers[j], up));
        squared = squares_of(numbers, d);
        /* Two equal rows have the direction 0, whatever it is divided by. */
        __m512d root = _mm512_sqrt_pd(_mm512_max_pd(squared, _mm512_set1_pd(1.0)));
        for (size_t j = 0; j < d; j++) numbers[j] = TRUNCATED(numbers[j] / root * factor);
    }
    squared = squares_of(numbers, d);
    __m512d limit = _mm512_set1_pd(one->limit), shorter = _mm512_set1_pd(one->reach) / _mm512_sqrt_pd(squared);
    __mmask8 longer = _mm512_cmp_pd_mask(squared, limit, _CMP_GT_OQ);
    longer &= _mm512_cmp_pd_mask(squared, _mm512_set1_pd(EXACT_LIMIT), _CMP_LT_OQ);
    shorter = _mm512_mask_mov_pd(_mm512_set1_pd(1.0), longer, shorter);
    for (size_t j = 0; j < d; j++) numbers[j] = TRUNCATED(numbers[j] * shorter);
    for (size_t j = 0; j < pitch; j += LANES) turn_lanes(numbers + j, rows + j, pitch);
    longer &= _mm512_cmp_pd_mask(squares_of(numbers, d), limit, _CMP_GT_OQ);
    for (size_t k = 0; k < LANES && longer; k++) /* which is not known to happen */
        for (size_t j = 0; j < d && longer >> k & 1; j++)
            rows[k * pitch + j] -= (rows[k * pitch + j] > 0.0) - (rows[k * pitch + j] < 0.0);
}

/* Add the products of a tile of which so many rows are filled. */
WIDE_REGISTERS INLINE void add_filled(double *restrict tile, size_t filled, size_t pitch, double *restrict products)
{
    memset(tile + filled * pitch, 0, (TILE - filled) * pitch * sizeof *tile);
    add_tile(tile, pitch, products);
}

WIDE_REGISTERS
static void add_one_by_one(const struct compared *compared, size_t first, size_t many, size_t pitch,
                           double *restrict tile, double *restrict products)
{
    for (size_t done = 0; done < many; done += TILE) {
        size_t now = many - done < TILE ? many - done : TILE;
        compare(compared, first + done, now, tile, pitch, pitch / LANES * LANES);
        add_filled(tile, now, pitch, products);
    }
}

/* Add q q' of the integers q of all comparisons to the upper triangle of `products`; see eigenveil_products. */
WIDE_REGISTERS
void eigenveil_compared_products(const struct compared *compared, size_t first, size_t many, size_t pitch,
                                 double *restrict tile, double *restrict products)
{
    size_t d = compared->d, half = compared->half, end = first + many, filled = 0;
    double columns[SIDE_BY_SIDE][MOST_BACK + LANES];
    memset(tile, 0, TILE * pitch * sizeof *tile);
    if (d <= SIDE_BY_SIDE && half <= MOST_BACK) {
        size_t alone = (half - first % half) % half; /* up to the first comparison of a row */
        alone = alone < many ? alone : many;
        add_one_by_one(compared, first, alone, pitch, tile, products);
        for (first += alone; end - first >= LANES * half; first += LANES * half) {
            const double *rows = compared->rows + first / half * d; /* half of them before the first to compare */
            for (size_t i = 0; i < half + LANES; i++)
                for (size_t j = 0; j < d; j++) columns[j][MOST_BACK - half + i] = rows[i * d + j];
            for (size_t back = 1; back <= half; back++) {
                compare_lanes(compared, columns, back, tile + filled * pitch, pitch);
                filled = (filled + LANES) % TILE;
                if (!filled) add_tile(tile, pitch, products);
            }
        }
        if (filled) add_filled(tile, filled, pitch, products);
    }
    add_one_by_one(compared, first, end - first, pitch, tile, products);
}
#endif
