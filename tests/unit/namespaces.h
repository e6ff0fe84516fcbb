/*
 * namespaces.h - whether a box with namespaces can be made here, found by trying. When not, the
 * reason is printed: it is that of the skip which follows.
 */
#ifndef BAILEY_TESTS_NAMESPACES_H
#define BAILEY_TESTS_NAMESPACES_H

#include "unit.h"

#include "sys/outer.h"
#include "sys/probe.h"

static inline bool has_namespaces(void)
{
    static const uint32_t needed =
        ISOLATION_LAYER_BIT(ISOLATION_LAYER_USERNS) | ISOLATION_LAYER_BIT(ISOLATION_LAYER_MOUNTNS) |
        ISOLATION_LAYER_BIT(ISOLATION_LAYER_PIDNS) | ISOLATION_LAYER_BIT(ISOLATION_LAYER_NETNS);
    struct probe_row rows[_ISOLATION_LAYER_MAX];
    struct error err = {0};
    struct outer outer;

    assert_int_equal(probe_layers(rows, &err), 0);
    outer_find(&outer);
    for (int i = 0; i < _ISOLATION_LAYER_MAX; i++) {
        if (rows[i].result == 0 || !(needed & ISOLATION_LAYER_BIT(rows[i].layer)))
            continue;
        print_message("this test needs namespaces of its own, which this %s refuses (%s)\n",
                      outer.row ? "container" : "machine", rows[i].detail);
        return false;
    }
    return true;
}

#endif
