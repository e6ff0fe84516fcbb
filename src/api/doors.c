/* doors.c - the table of doors: one row each. */
#include "api/doors.h"

#include "api/front/door.h"
#include "base/cleanup.h"

/* The first door refuses requests that belong to no door; rows are searched in this order. */
#define DOORS(DOOR)       \
    DOOR(rest_door)       \
    DOOR(ports_door)      \
    DOOR(ws_door)         \
    DOOR(mcp_door)        \
    DOOR(execute_door)    \
    DOOR(containers_door) \
    DOOR(responses_door)  \
    DOOR(chat_door)       \
    DOOR(e2b_ports_door)  \
    DOOR(scalebox_door)   \
    DOOR(e2b_door)

#define DECLARE(door) extern const struct door_ops door;
#define ADDRESS(door) &(door),

DOORS(DECLARE)

static const struct door_ops *const table[] = {DOORS(ADDRESS)};
_Static_assert(ARRAY_SIZE(table) < FRONT_DOORS_MAX, "more doors than there is room for");

void doors_list(struct door_list *ret)
{
    const struct door_ops *const *extra = extra_doors;

    *ret = (struct door_list){.count = 0};
    for (size_t i = 0; i < ARRAY_SIZE(table); i++)
        ret->rows[ret->count++] = table[i];
    for (; extra && *extra && ret->count < FRONT_DOORS_MAX; extra++)
        ret->rows[ret->count++] = *extra;
}
