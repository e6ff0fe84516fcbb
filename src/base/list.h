/*
 * list.h - lists whose items have a member `next`, NULL in the last one.
 *
 * `first` is the pointer to the first item (an lvalue). LIST_ walks the list, so it is for lists
 * that stay short; DLIST_ is for items that have a member `previous` too, and does not walk.
 *
 * Runs in: every process
 */
#ifndef BAILEY_BASE_LIST_H
#define BAILEY_BASE_LIST_H

#include <stddef.h>

/* Takes `item` out; nothing happens when the list does not have it. item->next stays as it was. */
#define LIST_UNLINK(first, item)               \
    do {                                       \
        __typeof__(first) *list_at = &(first); \
                                               \
        while (*list_at && *list_at != (item)) \
            list_at = &(*list_at)->next;       \
        if (*list_at)                          \
            *list_at = (*list_at)->next;       \
    } while (0)

/* Puts `item` behind the last one. */
#define LIST_APPEND(first, item)                                   \
    do {                                                           \
        __typeof__(first) *list_at = &(first), list_item = (item); \
                                                                   \
        while (*list_at)                                           \
            list_at = &(*list_at)->next;                           \
        list_item->next = NULL;                                    \
        *list_at = list_item;                                      \
    } while (0)

/* Puts `item` before the first one. */
#define DLIST_PUSH(first, item)              \
    do {                                     \
        (item)->previous = NULL;             \
        (item)->next = (first);              \
        if ((item)->next)                    \
            (item)->next->previous = (item); \
        (first) = (item);                    \
    } while (0)

/* Takes `item` out; nothing happens when it is in no list and has never been. */
#define DLIST_UNLINK(first, item)                      \
    do {                                               \
        if ((item)->previous)                          \
            (item)->previous->next = (item)->next;     \
        else if ((first) == (item))                    \
            (first) = (item)->next;                    \
        if ((item)->next)                              \
            (item)->next->previous = (item)->previous; \
    } while (0)

#endif
