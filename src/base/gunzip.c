/*
 * gunzip.c - see gunzip.h.
 *
 * A machine that takes input bit by bit and stops wherever the input ends: each state needs a few
 * bits, and is entered again when they are there. Output goes to a window of which the last 32 KiB
 * are what distances refer to; the rest is what the reader has not taken yet.
 */
#include "base/gunzip.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define HISTORY 32768u
#define WINDOW (2 * HISTORY)
#define CODES_MAX 320 /* 288 of lengths and 32 of distances */
#define BITS_MAX 15

enum state {
    HEAD,
    HEAD_EXTRA,
    HEAD_NAME,
    HEAD_COMMENT,
    HEAD_CHECK,
    BLOCK,
    STORED_HEAD,
    STORED,
    TABLE_HEAD,
    TABLE_ORDER,
    TABLE_CODES,
    TABLE_REPEAT,
    SYMBOL,
    LENGTH_BITS,
    DISTANCE,
    DISTANCE_BITS,
    COPY,
    TAIL,
    BETWEEN, /* members of the file */
};

/* A canonical code: how many of each length, and the symbols in order. */
struct code {
    uint16_t count[BITS_MAX + 1];
    uint16_t symbol[288];
};

/* A symbol of which some bits were read. */
struct partial {
    int code, first, index;
    unsigned length;
};

struct gunzip {
    size_t (*data)(void *ctx, const void *data, size_t length);
    void *ctx;
    enum state state;
    /* input */
    const uint8_t *in;
    size_t left, skipped; /* skipped: bytes of the next input that were used already */
    uint32_t bits;
    unsigned bit_count;
    /* output */
    uint8_t window[WINDOW];
    uint64_t written, taken; /* positions modulo WINDOW */
    uint64_t start;          /* of this member of the file */
    uint32_t crc, size;
    /* the header */
    uint8_t head[10];
    unsigned have;   /* bytes of it, or of what follows */
    unsigned wanted; /* of HEAD_EXTRA */
    /* the block */
    bool is_last;
    uint32_t stored;
    unsigned order_count, length_count, distance_count, index;
    uint8_t lengths[CODES_MAX];
    unsigned repeat_symbol;
    struct code code, distance_code;
    struct partial partial;
    unsigned symbol, length, distance;
};

static const uint16_t length_base[] = {3,  4,  5,  6,   7,   8,   9,   10,  11, 13,
                                       15, 17, 19, 23,  27,  31,  35,  43,  51, 59,
                                       67, 83, 99, 115, 131, 163, 195, 227, 258};
static const uint8_t length_bits[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                      2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
static const uint16_t distance_base[] = {
    1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
    193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
static const uint8_t distance_bits[] = {0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                        6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};

/* ---- output ---- */

static uint32_t crc_add(uint32_t crc, uint8_t byte)
{
    static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
                                       0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
                                       0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                       0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};

    crc = table[(crc ^ byte) & 15] ^ crc >> 4;
    return table[(crc ^ (byte >> 4)) & 15] ^ crc >> 4;
}

static bool has_room(const struct gunzip *gunzip)
{
    return gunzip->written - gunzip->taken < HISTORY;
}

static void put(struct gunzip *gunzip, uint8_t byte)
{
    gunzip->window[gunzip->written++ % WINDOW] = byte;
    gunzip->crc = crc_add(gunzip->crc, byte);
    gunzip->size++;
}

/* True: the reader has everything. */
static bool flush(struct gunzip *gunzip)
{
    while (gunzip->taken < gunzip->written) {
        size_t at = gunzip->taken % WINDOW;
        size_t length = (size_t)MIN(gunzip->written - gunzip->taken, (uint64_t)(WINDOW - at));
        size_t taken = gunzip->data(gunzip->ctx, gunzip->window + at, length);

        gunzip->taken += taken;
        if (taken < length)
            return false;
    }
    return true;
}

/* ---- input ---- */

static bool need(struct gunzip *gunzip, unsigned count)
{
    while (gunzip->bit_count < count) {
        if (gunzip->left == 0)
            return false;
        gunzip->bits |= (uint32_t)*gunzip->in++ << gunzip->bit_count;
        gunzip->left--;
        gunzip->bit_count += 8;
    }
    return true;
}

static uint32_t take(struct gunzip *gunzip, unsigned count)
{
    uint32_t value = gunzip->bits & ((1u << count) - 1);

    gunzip->bits >>= count;
    gunzip->bit_count -= count;
    return value;
}

static void align(struct gunzip *gunzip)
{
    take(gunzip, gunzip->bit_count % 8);
}

/* ---- codes ---- */

/* -EINVAL: more codes than there are bits for. */
static int code_make(struct code *code, const uint8_t *lengths, unsigned count)
{
    uint16_t at[BITS_MAX + 1] = {0};
    int left = 1;

    memset(code->count, 0, sizeof(code->count));
    for (unsigned i = 0; i < count; i++)
        code->count[lengths[i]]++;
    code->count[0] = 0;
    for (unsigned i = 1; i <= BITS_MAX; i++) {
        left = 2 * left - code->count[i];
        if (left < 0)
            return -EINVAL;
    }
    for (unsigned i = 1; i < BITS_MAX; i++)
        at[i + 1] = (uint16_t)(at[i] + code->count[i]);
    for (unsigned i = 0; i < count; i++)
        if (lengths[i] > 0)
            code->symbol[at[lengths[i]]++] = (uint16_t)i;
    return 0;
}

/* 1: *ret is a symbol; 0: more input is needed; -EINVAL. */
static int decode(struct gunzip *gunzip, const struct code *code, unsigned *ret)
{
    struct partial *partial = &gunzip->partial;

    while (partial->length < BITS_MAX) {
        int count;

        if (!need(gunzip, 1))
            return 0;
        partial->code |= (int)take(gunzip, 1);
        count = code->count[++partial->length];
        if (partial->code - count < partial->first) {
            *ret = code->symbol[partial->index + partial->code - partial->first];
            *partial = (struct partial){0};
            return 1;
        }
        partial->index += count;
        partial->first = (partial->first + count) << 1;
        partial->code <<= 1;
    }
    return -EINVAL;
}

static void use_fixed_codes(struct gunzip *gunzip)
{
    uint8_t lengths[288];

    for (unsigned i = 0; i < 288; i++)
        lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    code_make(&gunzip->code, lengths, 288);
    memset(lengths, 5, 30);
    code_make(&gunzip->distance_code, lengths, 30);
}

/* ---- states: 1: go on; 0: more input, or room, is needed; -EINVAL ---- */

static int on_head(struct gunzip *gunzip)
{
    while (gunzip->have < sizeof(gunzip->head)) {
        if (!need(gunzip, 8))
            return 0;
        gunzip->head[gunzip->have++] = (uint8_t)take(gunzip, 8);
    }
    if (gunzip->head[0] != 0x1f || gunzip->head[1] != 0x8b || gunzip->head[2] != 8 ||
        gunzip->head[3] & 0xe0)
        return -EINVAL;
    gunzip->have = gunzip->wanted = 0;
    gunzip->crc = ~0u;
    gunzip->size = 0;
    gunzip->start = gunzip->written;
    gunzip->state = HEAD_EXTRA;
    return 1;
}

static int on_head_extra(struct gunzip *gunzip)
{
    while (gunzip->head[3] & 4 && gunzip->have < 2 + gunzip->wanted) {
        if (!need(gunzip, 8))
            return 0;
        if (gunzip->have < 2)
            gunzip->wanted |= take(gunzip, 8) << (8 * gunzip->have);
        else
            take(gunzip, 8);
        gunzip->have++;
    }
    gunzip->state = HEAD_NAME;
    return 1;
}

/* A text that ends with a NUL, where the flag says that there is one. */
static int on_head_text(struct gunzip *gunzip, unsigned flag, enum state next)
{
    while (gunzip->head[3] & flag) {
        if (!need(gunzip, 8))
            return 0;
        if (take(gunzip, 8) == 0)
            break;
    }
    gunzip->state = next;
    return 1;
}

static int on_head_check(struct gunzip *gunzip)
{
    if (gunzip->head[3] & 2) {
        if (!need(gunzip, 16))
            return 0;
        take(gunzip, 16);
    }
    gunzip->have = 0;
    gunzip->state = BLOCK;
    return 1;
}

static int on_block(struct gunzip *gunzip)
{
    static const enum state kinds[] = {STORED_HEAD, SYMBOL, TABLE_HEAD, BLOCK};
    uint32_t kind;

    if (gunzip->is_last) {
        align(gunzip);
        gunzip->state = TAIL;
        gunzip->have = 0;
        return 1;
    }
    if (!need(gunzip, 3))
        return 0;
    gunzip->is_last = take(gunzip, 1);
    kind = take(gunzip, 2);
    if (kind == 1)
        use_fixed_codes(gunzip);
    else if (kind == 0)
        align(gunzip);
    gunzip->state = kinds[kind];
    return kind == 3 ? -EINVAL : 1;
}

static int on_stored_head(struct gunzip *gunzip)
{
    uint32_t length;

    if (!need(gunzip, 16))
        return 0;
    if (gunzip->have < 100) { /* the first half */
        gunzip->stored = take(gunzip, 16);
        gunzip->have = 100;
        return 1;
    }
    length = take(gunzip, 16);
    gunzip->have = 0;
    gunzip->state = STORED;
    return length == (~gunzip->stored & 0xffff) ? 1 : -EINVAL;
}

static int on_stored(struct gunzip *gunzip)
{
    for (; gunzip->stored > 0; gunzip->stored--) {
        if (!has_room(gunzip) || !need(gunzip, 8))
            return 0;
        put(gunzip, (uint8_t)take(gunzip, 8));
    }
    gunzip->state = BLOCK;
    return 1;
}

static int on_table_head(struct gunzip *gunzip)
{
    if (!need(gunzip, 14))
        return 0;
    gunzip->length_count = take(gunzip, 5) + 257;
    gunzip->distance_count = take(gunzip, 5) + 1;
    gunzip->order_count = take(gunzip, 4) + 4;
    gunzip->index = 0;
    memset(gunzip->lengths, 0, sizeof(gunzip->lengths));
    gunzip->state = TABLE_ORDER;
    return gunzip->length_count > 286 || gunzip->distance_count > 30 ? -EINVAL : 1;
}

static int on_table_order(struct gunzip *gunzip)
{
    static const uint8_t order[19] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                      11, 4,  12, 3, 13, 2, 14, 1, 15};

    for (; gunzip->index < gunzip->order_count; gunzip->index++) {
        if (!need(gunzip, 3))
            return 0;
        gunzip->lengths[order[gunzip->index]] = (uint8_t)take(gunzip, 3);
    }
    if (code_make(&gunzip->code, gunzip->lengths, 19) < 0)
        return -EINVAL;
    memset(gunzip->lengths, 0, sizeof(gunzip->lengths));
    gunzip->index = 0;
    gunzip->state = TABLE_CODES;
    return 1;
}

static int use_table(struct gunzip *gunzip)
{
    gunzip->state = SYMBOL;
    if (gunzip->lengths[256] == 0)
        return -EINVAL; /* the block could not end */
    if (code_make(&gunzip->code, gunzip->lengths, gunzip->length_count) < 0)
        return -EINVAL;
    return code_make(&gunzip->distance_code, gunzip->lengths + gunzip->length_count,
                     gunzip->distance_count) < 0
               ? -EINVAL
               : 1;
}

static int on_table_codes(struct gunzip *gunzip)
{
    unsigned all = gunzip->length_count + gunzip->distance_count, symbol;

    while (gunzip->index < all) {
        int r = decode(gunzip, &gunzip->code, &symbol);

        if (r <= 0)
            return r;
        if (symbol >= 16) {
            gunzip->repeat_symbol = symbol;
            gunzip->state = TABLE_REPEAT;
            return 1;
        }
        gunzip->lengths[gunzip->index++] = (uint8_t)symbol;
    }
    return use_table(gunzip);
}

static int on_table_repeat(struct gunzip *gunzip)
{
    static const struct {
        uint8_t bits, base;
    } kinds[] = {{2, 3}, {3, 3}, {7, 11}};
    unsigned kind = gunzip->repeat_symbol - 16, count;
    uint8_t value = 0;

    if (!need(gunzip, kinds[kind].bits))
        return 0;
    count = kinds[kind].base + take(gunzip, kinds[kind].bits);
    if (kind == 0 && gunzip->index == 0)
        return -EINVAL;
    if (kind == 0)
        value = gunzip->lengths[gunzip->index - 1];
    if (count > gunzip->length_count + gunzip->distance_count - gunzip->index)
        return -EINVAL;
    memset(gunzip->lengths + gunzip->index, value, count);
    gunzip->index += count;
    gunzip->state = TABLE_CODES;
    return 1;
}

static int on_symbol(struct gunzip *gunzip)
{
    for (;;) {
        int r;

        if (!has_room(gunzip))
            return 0;
        r = decode(gunzip, &gunzip->code, &gunzip->symbol);
        if (r <= 0)
            return r;
        if (gunzip->symbol >= 256)
            break;
        put(gunzip, (uint8_t)gunzip->symbol);
    }
    gunzip->state = gunzip->symbol == 256 ? BLOCK : LENGTH_BITS;
    gunzip->symbol -= 257;
    return gunzip->state == LENGTH_BITS && gunzip->symbol >= ARRAY_SIZE(length_base) ? -EINVAL : 1;
}

static int on_length_bits(struct gunzip *gunzip)
{
    if (!need(gunzip, length_bits[gunzip->symbol]))
        return 0;
    gunzip->length = length_base[gunzip->symbol] + take(gunzip, length_bits[gunzip->symbol]);
    gunzip->state = DISTANCE;
    return 1;
}

static int on_distance(struct gunzip *gunzip)
{
    int r = decode(gunzip, &gunzip->distance_code, &gunzip->symbol);

    if (r <= 0)
        return r;
    gunzip->state = DISTANCE_BITS;
    return gunzip->symbol >= ARRAY_SIZE(distance_base) ? -EINVAL : 1;
}

static int on_distance_bits(struct gunzip *gunzip)
{
    if (!need(gunzip, distance_bits[gunzip->symbol]))
        return 0;
    gunzip->distance = distance_base[gunzip->symbol] + take(gunzip, distance_bits[gunzip->symbol]);
    gunzip->state = COPY;
    return gunzip->distance > gunzip->written - gunzip->start ? -EINVAL
                                                              : 1; /* before the beginning */
}

static int on_copy(struct gunzip *gunzip)
{
    for (; gunzip->length > 0; gunzip->length--) {
        if (!has_room(gunzip))
            return 0;
        put(gunzip, gunzip->window[(gunzip->written - gunzip->distance) % WINDOW]);
    }
    gunzip->state = SYMBOL;
    return 1;
}

static int on_tail(struct gunzip *gunzip)
{
    uint32_t crc = 0, size = 0;

    while (gunzip->have < 8) {
        if (!need(gunzip, 8))
            return 0;
        gunzip->head[gunzip->have++] = (uint8_t)take(gunzip, 8);
    }
    for (unsigned i = 0; i < 4; i++) {
        crc |= (uint32_t)gunzip->head[i] << (8 * i);
        size |= (uint32_t)gunzip->head[4 + i] << (8 * i);
    }
    gunzip->state = BETWEEN;
    gunzip->have = 0;
    gunzip->is_last = false;
    return crc == ~gunzip->crc && size == gunzip->size ? 1 : -EINVAL;
}

static int on_between(struct gunzip *gunzip)
{
    if (gunzip->left == 0)
        return 0;
    gunzip->state = HEAD;
    return 1;
}

static int step(struct gunzip *gunzip)
{
    static int (*const steps[])(struct gunzip *) = {
        [HEAD] = on_head,
        [HEAD_EXTRA] = on_head_extra,
        [HEAD_CHECK] = on_head_check,
        [BLOCK] = on_block,
        [STORED_HEAD] = on_stored_head,
        [STORED] = on_stored,
        [TABLE_HEAD] = on_table_head,
        [TABLE_ORDER] = on_table_order,
        [TABLE_CODES] = on_table_codes,
        [TABLE_REPEAT] = on_table_repeat,
        [SYMBOL] = on_symbol,
        [LENGTH_BITS] = on_length_bits,
        [DISTANCE] = on_distance,
        [DISTANCE_BITS] = on_distance_bits,
        [COPY] = on_copy,
        [TAIL] = on_tail,
        [BETWEEN] = on_between,
    };

    if (gunzip->state == HEAD_NAME)
        return on_head_text(gunzip, 8, HEAD_COMMENT);
    if (gunzip->state == HEAD_COMMENT)
        return on_head_text(gunzip, 16, HEAD_CHECK);
    return steps[gunzip->state](gunzip);
}

ssize_t gunzip_feed(struct gunzip *gunzip, const void *data, size_t length)
{
    size_t skipped = MIN(gunzip->skipped, length);
    bool has_all = true;
    int r = 1;

    gunzip->in = (const uint8_t *)data + skipped;
    gunzip->left = length - skipped;
    gunzip->skipped = 0;
    while (r >= 0 && has_all) {
        bool was_full;

        do {
            r = step(gunzip);
        } while (r > 0);
        was_full = !has_room(gunzip);
        has_all = flush(gunzip);
        if (r == 0 && !was_full)
            break; /* the input is used up */
    }
    if (r < 0)
        return -EINVAL;
    if (!has_all && gunzip->left == 0 && length > 0) {
        gunzip->skipped = 1; /* so that the rest of the output is asked for */
        return (ssize_t)length - 1;
    }
    return (ssize_t)(length - gunzip->left);
}

bool gunzip_is_whole(const struct gunzip *gunzip)
{
    return gunzip->state == BETWEEN && gunzip->taken == gunzip->written;
}

struct gunzip *gunzip_new(size_t (*data)(void *ctx, const void *data, size_t length), void *ctx)
{
    struct gunzip *gunzip = calloc(1, sizeof(*gunzip));

    if (gunzip) {
        gunzip->data = data;
        gunzip->ctx = ctx;
    }
    return gunzip;
}

void gunzip_free(struct gunzip *gunzip)
{
    free(gunzip);
}
