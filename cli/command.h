/* command.h - one subcommand is one const struct in one file (cmd_*.c). */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stdint.h>

#include "core/error.h"
#include "core/provenance.h"
#include "study/option.h"

struct command {
    const char *name;
    const char *synopsis; /* operands, as printed after the name */
    const char *summary;  /* one line for `help` */
    const char *details;  /* paragraphs for --help and the man page; units, files, exit status */
    /* Option rows, terminated by OPTION_END; values point at statics of the command's file. */
    const struct option_spec *options;
    enum status (*run)(int argc, char **argv); /* operands only; options are parsed already */
};

extern const struct command *const commands[];
extern const int commands_n;

/* Provenance of this invocation: version, the command line as typed, `seed`. */
struct provenance command_provenance(uint64_t seed);

#endif
