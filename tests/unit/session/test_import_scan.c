/* test_import_scan.c - which modules import lines name, and the tier that has them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "session/import_scan.h"

static void note(void *ctx, const char *module, size_t length)
{
    struct buf *text = ctx;

    buf_append(text, module, length);
    buf_append_text(text, " ");
}

static void finds(const char *code, const char *expected)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(65536);

    import_scan(code, strlen(code), note, &text);
    assert_string_equal(buf_text(&text), expected);
}

static void test_lines(void **state)
{
    (void)state;
    finds("import numpy", "numpy ");
    finds("import numpy as np, polars\nimport os", "numpy polars os ");
    finds("from matplotlib import pyplot as plt", "matplotlib ");
    finds("    from sklearn.cluster import KMeans\r\n\timport x.y", "sklearn.cluster x.y ");
    finds("import a; import b;c = 1; from d import e", "a b d ");
    finds("try:\n  import fast\nexcept ImportError:\n  import slow", "fast slow ");
    finds("import caf\xc3\xa9", "caf\xc3\xa9 ");
}

static void test_nothing(void **state)
{
    (void)state;
    finds("", "");
    finds("import", "");
    finds("import ", "");
    finds("from", "");
    finds("from a", "");
    finds("from here on everything is an import", "");
    finds("from . import x\nfrom .a import b\nimport .c", "");
    finds("imported = 1\nfromage = 2\nimport_module('x')", "");
    finds("# import numpy\nx = 1 # import polars\n", "");
    finds("import ,a", "");
}

static void test_length(void **state)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(65536);

    (void)state;
    import_scan("import numpy", 9, note, &text); /* the bytes that were given, and no more */
    assert_string_equal(buf_text(&text), "nu ");
}

static unsigned tier(const char *code)
{
    static const char *const core[] = {"numpy", "polars", "matplotlib.pyplot", NULL};
    static const char *const data[] = {"seaborn", "sklearn", "sklearn.cluster", "numpy.extra",
                                       NULL};
    static const char *const *const lists[] = {core, data};

    return import_scan_tier(code, strlen(code), lists, 3);
}

static void test_tiers(void **state)
{
    (void)state;
    assert_int_equal(tier("print(1)"), 0);
    assert_int_equal(tier("import json, os"), 0);
    assert_int_equal(tier("import numpy"), 1);
    assert_int_equal(tier("import numpy.linalg"), 1); /* its package is there */
    assert_int_equal(tier("import matplotlib"), 1);
    assert_int_equal(tier("import numpyx, num"), 0);
    assert_int_equal(tier("import polars\nfrom sklearn.svm import SVC"), 2);
    assert_int_equal(tier("import seaborn"), 2);
    assert_int_equal(tier("import numpy.extra"), 2); /* exactly that is in the larger one */
    assert_int_equal(import_scan_tier("import numpy", 12, NULL, 1), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_length),
        cmocka_unit_test(test_tiers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
