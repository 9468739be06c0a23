/* What directions.py does to many identifiers: SHAKE256 (FIPS 202) of several at a time, and the integer bases that
   come of its words. Public numbers alone.

   Built by CMakeLists.txt into the same library as the passes over rows, and never needed. */

#include "../moments/rows.h"

#define RATE 17 /* words that are read or written between two permutations */

/* A word of each of several states, which are permuted together. */
#if defined(__GNUC__)
#define STATES LANES
typedef uint64_t words_of_states __attribute__((vector_size(STATES * sizeof(uint64_t))));
#else
#define STATES 1
typedef uint64_t words_of_states;
#endif

static const uint64_t CONSTANTS[24] = {
    0x0000000000000001u, 0x0000000000008082u, 0x800000000000808au, 0x8000000080008000u, 0x000000000000808bu,
    0x0000000080000001u, 0x8000000080008081u, 0x8000000000008009u, 0x000000000000008au, 0x0000000000000088u,
    0x0000000080008009u, 0x000000008000000au, 0x000000008000808bu, 0x800000000000008bu, 0x8000000000008089u,
    0x8000000000008003u, 0x8000000000008002u, 0x8000000000000080u, 0x000000000000800au, 0x800000008000000au,
    0x8000000080008081u, 0x8000000000008080u, 0x0000000080000001u, 0x8000000080008008u,
};
/* The words along the cycle of pi, from the second on, and by how much each of them is turned. */
static const int PLACES[24] = {10, 7, 11, 17, 18, 3, 5, 16, 8, 21, 24, 4, 15, 23, 19, 13, 12, 2, 20, 14, 22, 9, 6, 1};
static const int TURNS[24] = {1,  3,  6,  10, 15, 21, 28, 36, 45, 55, 2,  14,
                              27, 41, 56, 8,  25, 43, 62, 18, 39, 61, 20, 44};

#define TURN(word, by) ((word) << (by) | (word) >> (64 - (by)))

/* Keccak-f[1600] of all states. */
INLINE void permute(words_of_states *a)
{
    for (int round = 0; round < 24; round++) {
        words_of_states sums[5], moved = a[1];
        for (int x = 0; x < 5; x++) sums[x] = a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20];
        for (int x = 0; x < 5; x++) {
            words_of_states theta = sums[(x + 4) % 5] ^ TURN(sums[(x + 1) % 5], 1);
            for (int y = 0; y < 25; y += 5) a[x + y] ^= theta;
        }
        moved = a[1];
#if defined(__GNUC__)
#pragma GCC unroll 24 /* so that places and turns are known when this is compiled */
#endif
        for (int k = 0; k < 24; k++) {
            words_of_states next = a[PLACES[k]];
            a[PLACES[k]] = TURN(moved, TURNS[k]);
            moved = next;
        }
        for (int y = 0; y < 25; y += 5) {
            words_of_states first = a[y], second = a[y + 1];
            for (int x = 0; x < 3; x++) a[y + x] ^= ~a[y + x + 1] & a[y + x + 2];
            a[y + 3] ^= ~a[y + 4] & first;
            a[y + 4] ^= ~first & second;
        }
        a[0] ^= (words_of_states){0} + CONSTANTS[round];
    }
}

/* Put 8 `words` bytes that SHAKE256 makes of each of several texts into `out`; `texts` has the one block of each. */
INLINE void shake(const uint64_t *texts, size_t many, size_t words, uint16_t *out)
{
    uint64_t state[25][STATES] = {{0}};
    words_of_states a[25];
    for (size_t i = 0; i < many; i++)
        for (size_t k = 0; k < RATE; k++) state[k][i] = texts[i * RATE + k];
    memcpy(a, state, sizeof a);
    for (size_t done = 0; done < words; done += RATE) {
        size_t some = words - done < RATE ? words - done : RATE;
        permute(a);
        memcpy(state, a, sizeof a);
        for (size_t i = 0; i < many; i++)
            for (size_t k = 0; k < some; k++) memcpy(out + 4 * (i * words + done + k), &state[k][i], 8);
    }
}

/* Return the sum of products of integers, which is exact in any order. */
INLINE double product(const double *a, const double *b, size_t d)
{
    double parts[LANES] = {0}, whole = 0;
    size_t j = 0;
    for (; j + LANES <= d; j += LANES)
        for (int k = 0; k < LANES; k++) parts[k] += a[j + k] * b[j + k];
    for (; j < d; j++) whole += a[j] * b[j];
    for (int k = 0; k < LANES; k++) whole += parts[k];
    return whole;
}

/* Put an integer basis of the span of integer rows into their place: as `orthonormal` does, with the same roundings. */
INLINE void orthonormalize(double *rows, size_t rank, size_t d, const double *units, double *room)
{
    double *rest = room, *inverse = rest + rank * rank, *smallest = inverse + rank * rank, *squared = smallest + rank;
    double dependent = units[0], factor_unit = units[1], scale = units[2], largest = 0x1p38 / (double)rank, longest = 0;
    memset(inverse, 0, rank * rank * sizeof *inverse);
    memset(squared, 0, d * sizeof *squared);
    for (size_t i = 0; i < rank; i++) {
        for (size_t k = 0; k <= i; k++) rest[i * rank + k] = product(rows + i * d, rows + k * d, d);
        smallest[i] = dependent * rest[i * rank + i];
    }
    for (size_t j = 0; j < rank; j++) {
        double pivot = rest[j * rank + j], by = pivot > smallest[j] ? 1.0 / sqrt(pivot) : 0.0;
        inverse[j * rank + j] = 1.0;
        for (size_t k = 0; k <= j; k++) inverse[j * rank + k] *= by;
        for (size_t i = j + 1; i < rank; i++) {
            double column = rest[i * rank + j] *= by;
            for (size_t k = j + 1; k <= i; k++) rest[i * rank + k] -= column * rest[k * rank + j];
            for (size_t k = 0; k <= j; k++) inverse[i * rank + k] -= column * inverse[j * rank + k];
        }
    }
    /* From the last row on, since each is made of those before it. */
    for (size_t i = rank; i-- > 0;) {
        double *row = rows + i * d;
        for (size_t k = i + 1; k-- > 0;) {
            double factor = inverse[i * rank + k] * factor_unit;
            factor = rint(factor > largest ? largest : factor < -largest ? -largest : factor);
            if (k == i) {
                for (size_t j = 0; j < d; j++) row[j] *= factor;
            } else {
                for (size_t j = 0; j < d; j++) row[j] += factor * rows[k * d + j];
            }
        }
        for (size_t j = 0; j < d; j++) {
            row[j] = rint(row[j] * (scale / factor_unit));
            squared[j] += row[j] * row[j];
        }
    }
    for (size_t j = 0; j < d; j++) longest = squared[j] > longest ? squared[j] : longest;
    if (longest > 2 * scale * scale) memset(rows, 0, rank * d * sizeof *rows);
}

/* Put the basis of each of n subspaces, `rank` rows of d integers, into `bases`. Each comes of a text of one block, whose
   hash stands for normals in `table`. `words` has room for the hashes of LANES texts, `room` for
   2 rank^2 + rank + d numbers. */
FOR_EVERY_PROCESSOR
void eigenveil_bases(const uint64_t *texts, const int16_t *table, size_t n, size_t rank, size_t d, const double *units,
                     uint16_t *words, double *room, double *bases)
{
    size_t size = (rank * d + 3) / 4;
    for (size_t first = 0; first < n; first += STATES) {
        size_t many = n - first < STATES ? n - first : STATES;
        shake(texts + first * RATE, many, size, words);
        for (size_t i = 0; i < many; i++) {
            double *basis = bases + (first + i) * rank * d;
            for (size_t j = 0; j < rank * d; j++) basis[j] = table[words[4 * i * size + j]];
            orthonormalize(basis, rank, d, units, room);
        }
    }
}
