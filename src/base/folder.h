/*
 * folder.h - lists and removes folders whose contents another program made. By descriptor only: no
 * link in them is followed, whatever their depth, names and modes. Blocks for as long as the disk
 * takes.
 *
 * Runs in: every process
 */
#ifndef BAILEY_BASE_FOLDER_H
#define BAILEY_BASE_FOLDER_H

#include <dirent.h>

/*
 * A folder opened for reading without following anything and whatever its mode, which is changed if
 * it must be (its owner may have closed it). -1: it is none, or not ours.
 */
int folder_open(int dir_fd, const char *name);

/*
 * The entries of the folder `name` in `dir_fd` (".": of itself), from the first one on, for
 * readdir(3); links are not followed. NULL with errno; otherwise the caller calls closedir(3).
 */
DIR *folder_list(int dir_fd, const char *name);

/*
 * Removes the folder and its contents. 0 (also if it does not exist), or a negative errno; then
 * some of it remains.
 */
int folder_remove(int dir_fd, const char *name);

/* All folders in `dir_fd` whose names have this prefix. */
void folder_sweep(int dir_fd, const char *prefix);

#endif
