/*
 * memory.h - makes the fork of a Python with half a gigabyte of libraries cheap (memory.c). Private
 * to zygote/. One thread; failures are ignored, because without it a fork only takes longer.
 *
 * Runs in: zygote
 */
#ifndef BAILEY_ZYGOTE_MEMORY_H
#define BAILEY_ZYGOTE_MEMORY_H

void memory_arenas(void); /* before anything is imported */
void memory_settle(void); /* after all imports */

#endif
