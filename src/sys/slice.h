/*
 * slice.h - a process that does little each time it wakes, and should not wait for those that
 * compute.
 *
 * Since Linux 6.12 a process may ask for a shorter slice of CPU time than the usual 1.4 to 3 ms.
 * It gets as much in all as before, and when it wakes it goes before those whose slice is longer,
 * which otherwise keep the core until the next tick. For the launcher, the broker and wardens.
 *
 * Runs in: every process
 */
#ifndef BAILEY_SYS_SLICE_H
#define BAILEY_SYS_SLICE_H

/*
 * For this process, not for its children. A kernel that does not know it ignores it, and one that
 * refuses it changes nothing: the process is then as any other.
 */
void slice_be_short(void);

#endif
