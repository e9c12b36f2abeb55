/* option.h - command-line options as a table: one row is parser, help, man page and default. */
#ifndef STUDY_OPTION_H
#define STUDY_OPTION_H

#include <stddef.h>
#include <stdio.h>

#include "core/error.h"

enum option_type {
    OPTION_END,
    OPTION_FLAG,    /* bool * */
    OPTION_SIZE,    /* size_t * */
    OPTION_REAL,    /* double * */
    OPTION_STRING,  /* const char ** */
    OPTION_SECONDS, /* double *: "1.5us" */
    OPTION_BYTES,   /* double *: "16MiB" */
    OPTION_LIST,    /* struct option_list *: may be given several times */
};

enum { OPTION_LIST_MOST = 64 };
struct option_list {
    size_t n;
    const char *item[OPTION_LIST_MOST]; /* [n] as typed, in order */
};

struct option_spec {
    enum option_type type;
    const char *name;     /* long name, without "--" */
    void *value;          /* holds the default */
    const char *argument; /* metavariable, NULL for flags: "N", "FILE", "gpipe|1f1b" */
    const char *help;     /* says the unit when there is one */
};

/* Parse options anywhere among the operands ("--" ends them; "--name=value" and "--name value");
 * "-o" is "--output". Operands are moved to argv[0 .. *argc).
 * Returns STATUS_USAGE on an unknown option or a malformed value. */
enum status option_parse(const struct option_spec *spec, int *argc, char **argv) MUST_CHECK;
/* Set the value of one row from `text`; flags from "true", "false". STATUS_USAGE with the name. */
enum status option_set(const struct option_spec *o, const char *text) MUST_CHECK;
void option_print(const struct option_spec *spec, FILE *out);

#endif
