/* script.h - calls of python/capture*.py about a training script, which stands behind "--". */
#ifndef CLI_SCRIPT_H
#define CLI_SCRIPT_H

#include "cli/command.h"
#include "core/base/executable.h"

enum { SCRIPT_NUMBER = 32, SCRIPT_WORDS = 32, SCRIPT_NUMBERS = 8 };

/* Words of the call, all but the script's. */
struct script_call {
    const char *word[SCRIPT_WORDS];
    size_t n;
    char number[SCRIPT_NUMBERS][SCRIPT_NUMBER];
    size_t numbers;
    char folder[EXECUTABLE_FOLDER], program[EXECUTABLE_FOLDER + 128];
};

/* Begin a call of that file of ours; `out` stays where it is. STATUS_USAGE: no script is given;
 * STATUS_UNSUPPORTED: the file is missing. */
enum status script_begin(const struct invocation *in, const char *file,
                         struct script_call *out) MUST_CHECK;
/* Add an option; `value` NULL: a flag. */
void script_put(struct script_call *c, const char *option, const char *value);
void script_put_number(struct script_call *c, const char *option, double value);
/* This process becomes the call. Returns only with an error. */
enum status script_become(const struct script_call *c, const struct invocation *in) MUST_CHECK;

#endif
