/* open_fds.h - how many descriptors this process has, for tests that nothing may be left open by.
 */
#ifndef BAILEY_TESTS_OPEN_FDS_H
#define BAILEY_TESTS_OPEN_FDS_H

#include "unit.h"

#include <dirent.h>

static inline unsigned open_fds(void)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned count = 0;

    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

#endif
