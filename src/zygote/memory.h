/*
 * memory.h - what makes the fork of a Python with half a gigabyte of libraries cheap (memory.c).
 * Private to zygote/. One thread; nothing here can fail in a way that matters: without it a fork
 * takes longer.
 *
 * Runs in: zygote
 */
#ifndef BAILEY_ZYGOTE_MEMORY_H
#define BAILEY_ZYGOTE_MEMORY_H

void memory_arenas(void); /* before anything is imported */
void memory_settle(void); /* after everything is */

#endif
