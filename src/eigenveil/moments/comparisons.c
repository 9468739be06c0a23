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
/* Add q q' of the integers q of all comparisons to the upper triangle of `products`; see eigenveil_products. */
WIDE_REGISTERS
void eigenveil_compared_products(const struct compared *compared, size_t first, size_t many, size_t pitch,
                                 double *restrict tile, double *restrict products)
{
    memset(tile, 0, TILE * pitch * sizeof *tile);
    for (size_t done = 0; done < many; done += TILE) {
        size_t now = many - done < TILE ? many - done : TILE;
        compare(compared, first + done, now, tile, pitch, pitch / LANES * LANES);
        memset(tile + now * pitch, 0, (TILE - now) * pitch * sizeof *tile);
        add_tile(tile, pitch, products);
    }
}
#endif
