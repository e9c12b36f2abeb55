/* Calls of python/capture*.py: words, and execvp. */
#include "cli/script.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void script_put(struct script_call *c, const char *option, const char *value)
{
    c->word[c->n++] = option;
    if (value)
        c->word[c->n++] = value;
}

void script_put_number(struct script_call *c, const char *option, double value)
{
    char *text = c->number[c->numbers++];
    snprintf(text, SCRIPT_NUMBER, "%.15g", value);
    script_put(c, option, text);
}

enum status script_begin(const struct invocation *in, const char *file, struct script_call *out)
{
    if (in->operands == 0 && !in->a.capture.from)
        return error_set(STATUS_USAGE,
                         "no script given. Try -- python3 train.py ARGUMENTS at the end");
    PASS(executable_folder(out->folder));
    snprintf(out->program, sizeof out->program, "%s/" FORELINE_CAPTURE "/%s", out->folder, file);
    if (access(out->program, R_OK) != 0)
        return error_set(STATUS_UNSUPPORTED, "foreline's file is missing: %s (reinstall foreline)",
                         out->program);
    script_put(out, "python3", out->program);
    return STATUS_OK;
}

enum status script_become(const struct script_call *c, const struct invocation *in)
{
    const char *words[SCRIPT_WORDS + 4096];
    size_t n = 0;
    if ((size_t)in->operands + c->n + 2 > sizeof words / sizeof *words)
        return error_set(STATUS_USAGE, "the script has %d arguments, expected at most %zu",
                         in->operands, sizeof words / sizeof *words - c->n - 2);
    for (size_t k = 0; k < c->n; k++)
        words[n++] = c->word[k];
    words[n++] = "--";
    for (int k = 0; k < in->operands; k++)
        words[n++] = in->operand[k];
    words[n] = NULL;
    fflush(stdout);
    execvp(words[0], (char *const *)words);
    return error_set(STATUS_UNSUPPORTED, "%s: %s; captures need Python 3.9 or later", words[0],
                     strerror(errno));
}
