/* unit.h - cmocka with the headers it wants to see first; included by every unit test. */
#ifndef BAILEY_TESTS_UNIT_H
#define BAILEY_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
