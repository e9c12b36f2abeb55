/* program.h - a program of subcommands: foreline, and foreline-lab. Each has a table of commands
 * and a main() that calls program_main(). */
#ifndef CLI_PROGRAM_H
#define CLI_PROGRAM_H

#include "cli/command.h"

struct command_table {
    const char *name;    /* as people type it: "foreline lab" */
    const char *summary; /* a line of the manual */
    const char *purpose; /* sentences of the help, each line ended */
    const char *start;   /* commands to begin with, a line each; NULL: the list of all instead */
    const struct command *const *command;
    int commands;
};

/* Finds the command, parses its options, calls it and reports a failure once. Returns the exit
 * status: 0 done, 1 failed, 2 wrong usage. */
int program_main(const struct command_table *p, int argc, char **argv);

#endif
