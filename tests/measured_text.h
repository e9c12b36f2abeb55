/* measured_text.h - for tests of readers of recorded runs: a text as a file, read and measured. */
#ifndef TESTS_MEASURED_TEXT_H
#define TESTS_MEASURED_TEXT_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "measured/reader.h"

/* Tests that run side by side have files of their own. */
#ifndef MEASURED_FILE
#define MEASURED_FILE "test_measured.in"
#endif
static const char *const file = MEASURED_FILE;
static const struct run_options nothing;

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static enum status read_text(const char *text, const struct run_options *o, struct measurement *m,
                             struct run_times *times)
{
    struct measured_run run = {0};
    put(file, text);
    enum status st = measured_run_read(&file, 1, LAYERS_NONE, &run);
    if (st == STATUS_OK)
        st = measured_run_measure(&run, file, o, m, times);
    measured_run_free(&run);
    return st;
}

static inline void refuses(const char *text, const char *says)
{
    struct measurement m = {0};
    struct run_times t[4];
    assert_int_not_equal(read_text(text, &nothing, &m, t), STATUS_OK);
    if (!message_says(error_message(), says))
        fail_msg("'%s' does not say '%s'", error_message(), says);
}

static void near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-12 * fabs(b)))
        fail_msg("%.17g instead of %.17g", a, b);
}

#endif
