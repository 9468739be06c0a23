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

#define LARGEST(ENTRY) (largest[k] = (ENTRY) > largest[k] ? (ENTRY) : largest[k])

INLINE double largest_of(const double *largest)
{
    double most = 0.0;
    for (size_t k = 0; k < LANES; k++) most = largest[k] > most ? largest[k] : most;
    return most;
}

/* Put the halved difference of two rows into `out`, and return its largest size. */
INLINE double subtract(const double *restrict row, const double *restrict other, size_t d, double *restrict out)
{
    double largest[LANES] = {0.0};
#define SUBTRACT(WIDTH)                                                                                                \
    for (size_t k = 0; k < (WIDTH); k++) {                                                                             \
        double entry = 0.5 * row[j + k] - 0.5 * other[j + k];                                                          \
        out[j + k] = entry;                                                                                            \
        LARGEST(fabs(entry));                                                                                          \
    }
    BY_LANES(SUBTRACT);
    return largest_of(largest);
}

/* Multiply by 2^-exponent, rounding once, and by the scale; return the largest size. */
INLINE double scale_row(double *restrict out, size_t d, int exponent, const double *restrict scale)
{
    /* A power of two below the range of float64 makes numbers smaller alone; what becomes larger stays exact. */
    int once = exponent > 0 ? -exponent : -exponent / 2;
    double first = ldexp(1.0, once), second = ldexp(1.0, -exponent - once), largest[LANES] = {0.0};
#define SCALE(WIDTH)                                                                                                   \
    for (size_t k = 0; k < (WIDTH); k++) {                                                                             \
        double entry = out[j + k] * first * second * scale[j + k];                                                     \
        out[j + k] = entry;                                                                                            \
        LARGEST(fabs(entry));                                                                                          \
    }
    BY_LANES(SCALE);
    return largest_of(largest);
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

INLINE double sign_row(const double *restrict row, const double *restrict other, size_t d, double factor,
                       double *restrict out)
{
    double sums[LANES] = {0.0};
#define SIGN(WIDTH)                                                                                                    \
    for (size_t k = 0; k < (WIDTH); k++) {                                                                             \
        double up = row[j + k] > other[j + k] ? factor : 0.0, down = row[j + k] < other[j + k] ? factor : 0.0;         \
        out[j + k] = up - down;                                                                                        \
        sums[k] += (up - down) * (up - down);                                                                          \
    }
    BY_LANES(SIGN);
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

/* Put the integers of one comparison into `out`. */
INLINE void compare(const struct compared *one, size_t place, double *restrict out)
{
    size_t d = one->d;
    const double *row = one->rows + (one->half + place / one->half) * d, *other = row - (1 + place % one->half) * d;
    double squared;
    if (one->signs) {
        squared = sign_row(row, other, d, one->factor, out);
    } else {
        double largest = subtract(row, other, d, out);
        int exponent, up, half;
        if (one->scale) {
            frexp(largest, &exponent);
            largest = scale_row(out, d, exponent, one->scale);
        }
        frexp(largest, &exponent);
        up = largest > 0.0 ? one->target - exponent : 0;
        half = (up - (up < 0 && up % 2)) / 2; /* rounded down */
        squared = whole_row(out, d, power_of_two(half), power_of_two(up - half));
        /* Two equal rows have the direction 0, whatever it is divided by. */
        squared = normalize_row(out, d, squared > 0.0 ? sqrt(squared) : 1.0, one->factor);
    }
    shorten_row(out, d, squared, one->limit, one->reach);
}

FOR_EVERY_PROCESSOR
void eigenveil_compared(const struct compared *compared, size_t first, size_t many, double *restrict out)
{
    for (size_t i = 0; i < many; i++) compare(compared, first + i, out + i * compared->d);
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
        for (size_t i = 0; i < now; i++) compare(compared, first + done + i, tile + i * pitch);
        memset(tile + now * pitch, 0, (TILE - now) * pitch * sizeof *tile);
        add_tile(tile, pitch, products);
    }
}
#endif
