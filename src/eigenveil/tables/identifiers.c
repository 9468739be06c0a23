/* What identifiers.py does to many rows: whole numbers and texts numbered by first appearance; BLAKE2b (RFC 7693) of 16
   bytes without a key, of LANES short texts at a time; and the places of rows, unit after unit.

   Built by CMakeLists.txt into the same library as the passes over rows, and never needed. */

#include "../moments/rows.h"

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

/* A word of each of several texts, which are mixed together. */
#if defined(__GNUC__)
#define TEXTS LANES
typedef uint64_t words_of_texts __attribute__((vector_size(TEXTS * sizeof(uint64_t))));
#else
#define TEXTS 1
typedef uint64_t words_of_texts;
#endif

/* The next block of each of several texts: its words, zeros beyond the end; how many bytes were read with it; all bits
   where it is the last one; all bits where there is one at all. */
struct blocks {
    words_of_texts words[16], counted, last, there;
};

INLINE void set_word(words_of_texts *words, size_t place, uint64_t word)
{
    memcpy((char *)words + place * sizeof word, &word, sizeof word);
}

/* Return up to 8 bytes as a word. */
INLINE uint64_t word_at(const uint8_t *text, size_t size)
{
    uint64_t word = 0;
    while (size-- > 0) word = word << 8 | text[size];
    return word;
}

/* Put the block of a text that begins after `done` bytes at its place among others. */
INLINE void put_block(struct blocks *blocks, size_t place, const uint8_t *text, uint64_t length, uint64_t done)
{
    uint64_t left = length - done, size = left < BLOCK ? left : BLOCK, k = 0;
    for (; 8 * k + 8 <= size; k++) set_word(&blocks->words[k], place, word_at(text + done + 8 * k, 8));
    if (8 * k < size) set_word(&blocks->words[k], place, word_at(text + done + 8 * k, size - 8 * k));
    set_word(&blocks->counted, place, done + size);
    set_word(&blocks->last, place, left <= BLOCK ? UINT64_MAX : 0);
    set_word(&blocks->there, place, UINT64_MAX);
}

/* Mix blocks into the states of their texts. */
INLINE void compress(words_of_texts *state, const struct blocks *blocks)
{
    words_of_texts v[16];
    const words_of_texts *words = blocks->words;
    for (int k = 0; k < 16; k++) v[k] = k < 8 ? state[k] : (words_of_texts){0} + START[k - 8];
    v[12] ^= blocks->counted;
    v[14] ^= blocks->last;
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
    for (int k = 0; k < 8; k++) state[k] ^= (v[k] ^ v[k + 8]) & blocks->there;
}

/* Put the digest of each of n texts, which end where the next one begins, into `keys`: two numbers each, whose bytes
   are those of the digest from the highest to the lowest. */
FOR_EVERY_PROCESSOR
void eigenveil_digests(const uint8_t *texts, const int64_t *starts, size_t n, uint64_t *keys)
{
    for (size_t first = 0; first < n; first += TEXTS) {
        size_t many = n - first < TEXTS ? n - first : TEXTS;
        struct blocks blocks;
        words_of_texts state[8];
        uint64_t longest = 1, digests[2][TEXTS];
        for (int k = 0; k < 8; k++)
            state[k] = (words_of_texts){0} + (k == 0 ? START[0] ^ 0x01010000u ^ DIGEST : START[k]);
        for (uint64_t done = 0; done < longest; done += BLOCK) {
            memset(&blocks, 0, sizeof blocks);
            for (size_t i = 0; i < many; i++) {
                int64_t start = starts[first + i];
                uint64_t length = (uint64_t)(starts[first + i + 1] - start);
                if (length > longest) longest = length;
                if (done == 0 || done < length) put_block(&blocks, i, texts + start, length, done);
            }
            compress(state, &blocks);
        }
        memcpy(digests, state, sizeof digests);
        for (size_t i = 0; i < 2 * many; i++) {
            uint64_t key = 0, digest = digests[i % 2][i / 2];
            for (int byte = 0; byte < 8; byte++) key = key << 8 | (digest >> 8 * byte & 255);
            keys[2 * first + i] = key;
        }
    }
}

/* Put the decimal digits of a number into `text`, and return how many characters they are. */
INLINE size_t digits_of(int64_t number, uint8_t *text)
{
    uint8_t digits[20];
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    size_t first = sizeof digits, size = 0;
    do {
        digits[--first] = (uint8_t)('0' + left % 10);
        left /= 10;
    } while (left);
    if (number < 0) text[size++] = '-';
    while (first < sizeof digits) text[size++] = digits[first++];
    return size;
}

/* Number n numbers by first appearance, those that are equal alike, and return how many different ones there are. The
   digits of each of these are in `texts`, 20 characters at most, one after the other from `starts` on. `table` has twice
   2^bits zeros, more than n: numbers below 2^bits have places of their own, and others are found by their hash. */
size_t eigenveil_numbered(const int64_t *restrict numbers, size_t n, int bits, uint32_t *restrict table,
                          uint32_t *restrict codes, uint8_t *restrict texts, int64_t *restrict starts,
                          int64_t *restrict found)
{
    size_t many = 0, size = (size_t)1 << bits;
    uint32_t *by_hash = table + size;
    starts[0] = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t number = (uint64_t)numbers[i], place = split_mix(number) & (size - 1);
        uint32_t *slot = number < size ? table + number : by_hash + place;
        while (number >= size && *slot && found[*slot - 1] != numbers[i]) {
            place = (place + 1) & (size - 1);
            slot = by_hash + place;
        }
        if (!*slot) {
            found[many] = numbers[i];
            starts[many + 1] = starts[many] + (int64_t)digits_of(numbers[i], texts + starts[many]);
            *slot = (uint32_t)++many;
        }
        codes[i] = *slot - 1;
    }
    return many;
}

#define TOGETHER 256 /* texts whose hashes are made before one is looked up, so that its slot is fetched by then */

/* Return the 8 bytes before `end` as a word, in the order of the processor; or all of a shorter text that ends there. */
INLINE uint64_t word_before(const uint8_t *end, size_t size)
{
    uint64_t word;
    if (size < sizeof word) return word_at(end - size, size);
    memcpy(&word, end - sizeof word, sizeof word);
    return word;
}

INLINE uint64_t hash_of_text(const uint8_t *text, size_t size)
{
    uint64_t hash = size;
    for (size_t at = 8; at < size; at += 8) hash = split_mix(hash ^ word_before(text + at, at));
    return split_mix(hash ^ word_before(text + size, size));
}

INLINE int same_text(const uint8_t *one, const uint8_t *other, size_t size)
{
    for (size_t at = 8; at < size; at += 8)
        if (word_before(one + at, at) != word_before(other + at, at)) return 0;
    return word_before(one + size, size) == word_before(other + size, size);
}

/* A text that came first, and the row that it came in. */
struct kind {
    const uint8_t *text;
    size_t size;
    int64_t row;
};

/* Return the slot of a text: its own, which has half of its hash and one more than the number of its kind, or a free
   one, which is 0. */
INLINE uint64_t *slot_of(uint64_t *slots, size_t n_slots, uint64_t hash, const uint8_t *text, size_t size,
                         const struct kind *kinds)
{
    size_t place = hash & (n_slots - 1);
    for (; slots[place]; place = (place + 1) & (n_slots - 1)) {
        const struct kind *kind = kinds + ((uint32_t)slots[place] - 1);
        if (slots[place] >> 32 == hash >> 32 && kind->size == size && same_text(kind->text, text, size)) break;
    }
    return slots + place;
}

/* Number n texts, which end where the next one begins, by first appearance, those that are equal alike, and return how
   many kinds there are. There is room for n of these, and for 4 n slots: at first `n_slots`, a power of two, are used. */
size_t eigenveil_numbered_texts(const uint8_t *restrict texts, const int64_t *restrict starts, size_t n,
                                size_t n_slots, uint64_t *restrict slots, uint32_t *restrict codes,
                                struct kind *restrict kinds)
{
    size_t many = 0;
    uint64_t hashes[TOGETHER];
    memset(slots, 0, n_slots * sizeof *slots);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = i; i % TOGETHER == 0 && k < n && k < i + TOGETHER; k++) {
            hashes[k - i] = hash_of_text(texts + starts[k], (size_t)(starts[k + 1] - starts[k]));
            __builtin_prefetch(slots + (hashes[k - i] & (n_slots - 1)));
        }
        const uint8_t *text = texts + starts[i];
        size_t size = (size_t)(starts[i + 1] - starts[i]);
        uint64_t hash = hashes[i % TOGETHER], *slot = slot_of(slots, n_slots, hash, text, size, kinds);
        codes[i] = (uint32_t)(*slot ? *slot : many + 1) - 1;
        if (*slot) continue;
        kinds[many++] = (struct kind){text, size, (int64_t)i};
        *slot = hash >> 32 << 32 | many;
        if (2 * many <= n_slots) continue;
        n_slots *= 2;
        memset(slots, 0, n_slots * sizeof *slots);
        for (size_t k = 0; k < many; k++) {
            hash = hash_of_text(kinds[k].text, kinds[k].size);
            *slot_of(slots, n_slots, hash, kinds[k].text, kinds[k].size, kinds) = hash >> 32 << 32 | (k + 1);
        }
    }
    return many;
}

#define UUID_SIZE 36
#define LEAST_OF_UUID 32 /* characters that may spell one in another way */
#define LONGEST_MARK 4   /* of a missing value that begins with a letter, which is an N */

INLINE int is_digit(uint8_t one) { return one >= '0' && one <= '9'; }
INLINE int is_letter(uint8_t one) { return (one | 32) >= 'a' && (one | 32) <= 'z'; }

/* Tell whether a text is beyond doubt compared as it is written: a UUID as the standard writes it; or a text shorter than
   any UUID, of digits, or of printable ASCII that begins with a letter and has no blanks around it, which is no mark of a
   missing value. */
INLINE int is_plain(const uint8_t *text, size_t size)
{
    int digits = 1, printable = 1, uuid = size == UUID_SIZE;
    if (uuid) {
        for (size_t k = 0; k < size; k++)
            uuid &= k == 8 || k == 13 || k == 18 || k == 23 ? text[k] == '-'
                                                            : is_digit(text[k]) | (text[k] >= 'a' && text[k] <= 'f');
        return uuid;
    }
    if (size == 0 || size >= LEAST_OF_UUID) return 0;
    for (size_t k = 0; k < size; k++) {
        digits &= is_digit(text[k]);
        printable &= text[k] >= ' ' && text[k] <= '~';
    }
    printable &= is_letter(text[0]) && text[size - 1] != ' ';
    return digits || (printable && !(size <= LONGEST_MARK && (text[0] | 32) == 'n'));
}

/* Put into `plain` which of n texts are compared as they are written. */
void eigenveil_plain(const uint8_t *restrict texts, const int64_t *restrict starts, size_t n, uint8_t *restrict plain)
{
    for (size_t i = 0; i < n; i++) plain[i] = (uint8_t)is_plain(texts + starts[i], (size_t)(starts[i + 1] - starts[i]));
}

/* Put the place of each of n rows, unit after unit by their codes, into `places`, and where each unit begins into
   `starts`; the last of these is n. */
void eigenveil_places(const uint32_t *restrict codes, size_t n, size_t n_units, int64_t *restrict starts,
                      int64_t *restrict places)
{
    memset(starts, 0, (n_units + 1) * sizeof *starts);
    for (size_t i = 0; i < n; i++) starts[codes[i] + 1]++;
    for (size_t u = 0; u < n_units; u++) starts[u + 1] += starts[u];
    for (size_t i = 0; i < n; i++) places[i] = starts[codes[i]]++;
    memmove(starts + 1, starts, n_units * sizeof *starts);
    starts[0] = 0;
}
