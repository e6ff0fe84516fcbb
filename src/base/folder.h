/*
 * folder.h - folders that somebody else filled, taken away. By descriptor only: nothing in them is
 * followed, whatever their depth, names and modes. Blocks for as long as the disk takes.
 *
 * Runs in: every process
 */
#ifndef BAILEY_BASE_FOLDER_H
#define BAILEY_BASE_FOLDER_H

/*
 * A folder opened for reading without following anything and whatever its mode, which is changed if
 * it must be (its owner may have closed it). -1: it is none, or not ours.
 */
int folder_open(int dir_fd, const char *name);

/* The folder with all in it. 0 (also when there was none), or a negative errno with the rest left.
 */
int folder_remove(int dir_fd, const char *name);

/* All folders in `dir_fd` whose names begin so. */
void folder_sweep(int dir_fd, const char *prefix);

#endif
