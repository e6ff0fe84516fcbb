/* table.c - which packages of Debian a box has, a row each; see root.h. */
#include "base/cleanup.h"
#include "image/root.h"

const struct image_package image_package_table[] = {
    {"base-files", false, "/usr/lib/os-release, licences"},
    {"bash", false, "a language of ours"},
    {"bzip2", false, "archives"},
    {"ca-certificates", false, "TLS, where network is allowed"},
    {"coreutils", false, "ls, cat, cp, ..."},
    {"dash", false, "/bin/sh"},
    {"debianutils", false, "which"},
    {"diffutils", false, "diff, cmp"},
    {"file", false, "what a file is"},
    {"findutils", false, "find, xargs"},
    {"grep", false, "grep"},
    {"gzip", false, "archives"},
    {"hostname", false, "programs use it"},
    {"less", false, "the pager"},
    {"libc-bin", false, "getent, iconv, the locale C.UTF-8"},
    {"libgomp1", false, "wheels that compute in parallel"},
    {"libstdc++6", false, "wheels in C++"},
    {"mawk | gawk", false, "awk"},
    {"nodejs", true, "a language of ours"},
    {"procps", false, "ps, top, kill"},
    {"python3", false, "a language of ours"},
    {"sed", false, "sed"},
    {"tar", false, "archives"},
    {"tzdata", false, "time zones"},
    {"util-linux", false, "more, getopt, ..."},
    {"xz-utils", false, "archives"},
};
const size_t image_package_count = ARRAY_SIZE(image_package_table);
