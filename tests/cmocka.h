/* cmocka.h - cmocka's header, behind those that it needs and does not include, and how much to
 * test. */
#ifndef TESTS_CMOCKA_H
#define TESTS_CMOCKA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* Is there time for everything? `./check --all` sets FORELINE_EVERYTHING; without it a test that
 * takes long leaves out what others of its cases come close to. */
static inline bool test_everything(void)
{
    return getenv("FORELINE_EVERYTHING") != NULL;
}

#endif
