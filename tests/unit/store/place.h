/*
 * place.h - a folder with an index in it, for tests of what the index keeps. place_make() leaves it
 * closed, place_open() opens it; place_remove() is the tear-down of both.
 */
#ifndef TESTS_UNIT_STORE_PLACE_H
#define TESTS_UNIT_STORE_PLACE_H

#include "scratch.h"

#include "store/index.h"

struct place {
    struct scratch scratch;
    int folder_fd;
    struct index *index;
};

static inline void open_index(struct place *place)
{
    struct error err = {0};

    if (index_open(place->folder_fd, &place->index, &err) < 0)
        fail_msg("%s", err.text);
}

static inline int place_make(void **state)
{
    struct place *place = calloc(1, sizeof(*place));

    assert_non_null(place);
    scratch_make(&place->scratch);
    place->folder_fd = open(place->scratch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(place->folder_fd >= 0);
    *state = place;
    return 0;
}

static inline int place_open(void **state)
{
    place_make(state);
    open_index(*state);
    return 0;
}

static inline int place_remove(void **state)
{
    struct place *place = *state;

    index_close(place->index);
    close(place->folder_fd);
    scratch_remove(&place->scratch);
    free(place);
    return 0;
}

#endif
