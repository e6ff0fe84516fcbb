/* test_output_sniff.c - a name is believed only where the bytes do not speak against it. */
#include "unit.h"

#include <string.h>

#include "session/output_sniff.h"

static void is(const char *name, const char *bytes, size_t length, const char *type)
{
    assert_string_equal(output_sniff(name, bytes, length), type);
}
#define IS(name, bytes, type) is(name, bytes, sizeof(bytes) - 1, type)

static void test_by_content(void **state)
{
    (void)state;
    IS("a.csv", "\x89PNG\r\n\x1a\n....", "image/png");
    IS("a.txt", "\xff\xd8\xff\xe0", "image/jpeg");
    IS("a", "GIF89a..", "image/gif");
    IS("a.png", "RIFF....WEBPVP8 ", "image/webp");
    IS("a.json", "%PDF-1.7", "application/pdf");
    IS("a.zip", "PK\003\004..", "application/zip");
    IS("a.xlsx", "PK\003\004..",
       "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet");
    IS("a.parquet", "PAR1....", "application/vnd.apache.parquet");
    IS("a.db", "SQLite format 3\0...", "application/vnd.sqlite3");
    IS("a.txt.gz", "\x1f\x8b\x08", "application/gzip");
}

static void test_text_has_its_name(void **state)
{
    (void)state;
    IS("a.csv", "a,b\n1,2\n", "text/csv");
    IS("a.json", "{\"a\":1}", "application/json");
    IS("a.unknown", "hello", "text/plain");
    IS("a", "", "text/plain");
    IS("a.csv", "", "text/csv");
    IS("a.txt", "\xc3\xa4\xc3", "text/plain"); /* cut inside of a letter */
}

static void test_a_name_that_lies(void **state)
{
    (void)state;
    IS("a.png", "hello", "text/plain");
    IS("a.csv", "a\0b", "application/octet-stream");
    IS("a.txt", "\xff\xfe\xfd\xfc\xfb\xfa", "application/octet-stream");
    IS("a.txt", "<html><script>", "text/html");
    IS("a.csv", "\xef\xbb\xbf  <!DOCTYPE html>", "text/html");
    IS("a.txt", "<svg onload=x>", "image/svg+xml");
    IS("a.txt", "<?xml version='1.0'?><SVG>", "image/svg+xml");
    IS("a.txt", "<?xml version='1.0'?><a/>", "application/xml");
    IS("a.svg", "not a picture", "text/plain");
    IS("a.txt", "a < b <html", "text/plain");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_content),
        cmocka_unit_test(test_text_has_its_name),
        cmocka_unit_test(test_a_name_that_lies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
