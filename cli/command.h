/* command.h - one subcommand is one const struct command_NAME in one file, cmd_NAME.c, and one line
 * of commands.def; its options are the rows of study/settings_table.c that it takes. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"
#include "core/base/provenance.h"
#include "study/settings.h"

/* One call of a command. Lives as long as the process. */
struct invocation {
    struct arguments a; /* options; texts of the command line */
    int operands;
    char **operand;       /* [operands + 1], NULL at the end */
    struct provenance by; /* version and command line as typed; the command sets seed and host */
};

/* A line of a list in a help text: a row of the table whose things the command takes. */
struct command_row {
    char term[32]; /* "bars MEASUREMENT..." */
    const char *summary;
};

/* Options with a help of their own: of a way of calling the command, `plan export --help`, or of
 * what few people need, `plan --help papers`. They are no part of the command's own list. */
struct command_topic {
    const char *word, *summary;
    const char *synopsis; /* behind the command's name */
    const char *details;
    taker_set takers;
};

struct command {
    const char *name;
    const char *synopsis; /* operands, as printed after the name */
    const char *summary;  /* one line for `help` */
    const char *details;  /* paragraphs for `--help all` and the man page; units, files, status */
    const char *examples; /* calls, a line each; tests run those of all commands, in their order */
    /* Row i of the list that stands before the details; false: there are no more. NULL: no list. */
    bool (*row)(size_t i, struct command_row *out);
    /* Options on the first screen of --help, by name; NULL: all that there are. */
    const char *often;
    const struct command_topic *topic; /* [topics] */
    size_t topics;
    enum status (*run)(struct invocation *in);
    /* A call with this option, "--published", is answered by foreline-lab's command, "scoreboard",
     * with all other words (cli/lab.h). Option "": every call; NULL: none. */
    const char *lab_option, *lab_command;
};

/* Are there so many operands? STATUS_USAGE "expected WHAT, got 2 operands". */
enum status command_expect(const struct invocation *in, int operands, const char *what) MUST_CHECK;

/* Of foreline, by commands.def. */
extern const struct command *const commands[];
extern const int commands_n;

#endif
