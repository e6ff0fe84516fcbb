/*
 * fuzz_json.c - any bytes as JSON: refused by json_parse() and by jansson, or both read the same.
 * Only its bounds make a difference: depth, values, the length of a number. And what text_of_json()
 * writes is what jansson writes.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "model/json.h"
#include "model/text.h"

#define NUMBER_TEXT 400

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
    if (!is_true)
        abort();
}

static void compare_writers(json_t *json)
{
    struct buf text = BUF_INIT(SIZE_MAX / 2);
    char *theirs = json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY);

    check(theirs && text_of_json(json, JSON_COMPACT | JSON_ENCODE_ANY, &text) == 0);
    check(strcmp(theirs, buf_text(&text)) == 0);
    free(theirs);
    buf_free(&text);
}

static void compare(const char *text, size_t size, size_t flags)
{
    struct json_problem problem;
    json_error_t ignored;
    json_t *ours = json_parse(text, size, flags, &problem);
    json_t *theirs = json_loadb(text, size, flags, &ignored);

    check(!ours == (problem.num != 0));
    if (ours) {
        check(theirs && json_equal(ours, theirs));
        compare_writers(ours);
    } else {
        check(problem.line >= 1 && problem.column >= 1 && problem.position <= size);
        check(problem.text[0] && memchr(problem.text, '\0', sizeof(problem.text)));
        /* Jansson 2.14 overlooks a NUL behind a number. */
        check(!theirs || problem.num == -E2BIG || problem.num == -EFBIG || size >= NUMBER_TEXT ||
              memchr(text, '\0', size));
    }
    json_decref(ours);
    json_decref(theirs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1); /* exactly as long: a read behind the end is seen */

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '"'; /* it must not be looked at */
    compare(text, size, 0);
    compare(text, size, JSON_DECODE_ANY | JSON_ALLOW_NUL);
    compare(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY);
    free(text);
    return 0;
}
