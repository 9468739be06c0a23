/* The digests of identifiers.py: BLAKE2b (RFC 7693) of 16 bytes without a key, of many short texts.

   Built by CMakeLists.txt into the same library as the passes over rows, and never needed. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BLOCK 128
#define DIGEST 16

static const uint64_t START[8] = {
    0x6a09e667f3bcc908u, 0xbb67ae8584caa73bu, 0x3c6ef372fe94f82bu, 0xa54ff53a5f1d36f1u,
    0x510e527fade682d1u, 0x9b05688c2b3e6c1fu, 0x1f83d9abfb41bd6bu, 0x5be0cd19137e2179u,
};
static const uint8_t ORDERS[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
};

#define TURN(word, by) (((word) >> (by)) | ((word) << (64 - (by))))
#define MIX(a, b, c, d, k)                                                                                             \
    a += b + words[order[2 * (k)]];                                                                                    \
    d = TURN(d ^ a, 32);                                                                                               \
    c += d;                                                                                                            \
    b = TURN(b ^ c, 24);                                                                                               \
    a += b + words[order[2 * (k) + 1]];                                                                                \
    d = TURN(d ^ a, 16);                                                                                               \
    c += d;                                                                                                            \
    b = TURN(b ^ c, 63)

/* Mix one block into the state; `counted` bytes were read with it. */
static void compress(uint64_t *state, const uint8_t *block, uint64_t counted, int last)
{
    uint64_t v[16], words[16];
    for (int k = 0; k < 16; k++) {
        words[k] = 0;
        for (int byte = 7; byte >= 0; byte--) words[k] = words[k] << 8 | block[8 * k + byte];
        v[k] = k < 8 ? state[k] : START[k - 8];
    }
    v[12] ^= counted;
    v[14] ^= last ? UINT64_MAX : 0;
#if defined(__GNUC__)
#pragma GCC unroll 12 /* so that the order of the words is known when this is compiled */
#endif
    for (int round = 0; round < 12; round++) {
        const uint8_t *order = ORDERS[round % 10];
        MIX(v[0], v[4], v[8], v[12], 0);
        MIX(v[1], v[5], v[9], v[13], 1);
        MIX(v[2], v[6], v[10], v[14], 2);
        MIX(v[3], v[7], v[11], v[15], 3);
        MIX(v[0], v[5], v[10], v[15], 4);
        MIX(v[1], v[6], v[11], v[12], 5);
        MIX(v[2], v[7], v[8], v[13], 6);
        MIX(v[3], v[4], v[9], v[14], 7);
    }
    for (int k = 0; k < 8; k++) state[k] ^= v[k] ^ v[k + 8];
}

/* Put the digest of each of n texts, which end where the next one begins, into `keys`: two numbers each, whose bytes
   are those of the digest from the highest to the lowest. */
void eigenveil_digests(const uint8_t *texts, const int64_t *starts, size_t n, uint64_t *keys)
{
    for (size_t i = 0; i < n; i++) {
        const uint8_t *text = texts + starts[i];
        uint64_t length = (uint64_t)(starts[i + 1] - starts[i]), done = 0, state[8];
        uint8_t block[BLOCK] = {0};
        memcpy(state, START, sizeof state);
        state[0] ^= 0x01010000u ^ DIGEST;
        for (; length - done > BLOCK; done += BLOCK) compress(state, text + done, done + BLOCK, 0);
        memcpy(block, text + done, (size_t)(length - done));
        compress(state, block, length, 1);
        for (int k = 0; k < 2; k++) {
            uint64_t key = 0;
            for (int byte = 0; byte < 8; byte++) key = key << 8 | (state[k] >> 8 * byte & 255);
            keys[2 * i + k] = key;
        }
    }
}
