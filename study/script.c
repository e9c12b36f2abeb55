/* Calls of python/capture*.py: words, and execvp. */
#include "study/script.h"

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

enum status script_begin(const char *file, struct script_call *out)
{
    PASS(executable_folder(out->folder));
    snprintf(out->program, sizeof out->program, "%s/" FORELINE_CAPTURE "/%s", out->folder, file);
    if (access(out->program, R_OK) != 0)
        return error_set(STATUS_UNSUPPORTED, "foreline's file is missing: %s (reinstall foreline)",
                         out->program);
    script_put(out, "python3", out->program);
    return STATUS_OK;
}

void script_put_capture(struct script_call *c, const struct capture_arguments *a,
                        const char *output)
{
    script_put(c, "--output", output);
    script_put(c, "--device", a->device);
    script_put_number(c, "--world-size", (double)a->world_size);
    script_put_number(c, "--steps", (double)a->steps);
    if (a->patience_s > 0)
        script_put_number(c, "--timeout", a->patience_s);
    if (a->node > 0)
        script_put_number(c, "--node", (double)a->node);
    if (a->ranks)
        script_put(c, "--ranks", a->ranks);
    if (a->real)
        script_put(c, "--real", NULL);
    if (a->dry)
        script_put(c, "--dry", NULL);
    if (a->profile)
        script_put(c, "--profile", NULL);
}

enum status script_end(struct script_call *c, char *const *word, size_t n)
{
    if (n > SCRIPT_WORDS)
        return error_set(STATUS_USAGE, "the script has %zu words, expected at most %d", n,
                         SCRIPT_WORDS);
    c->word[c->n++] = "--";
    for (size_t k = 0; k < n; k++)
        c->word[c->n++] = word[k];
    c->word[c->n] = NULL;
    return STATUS_OK;
}

enum status script_become(const struct script_call *c)
{
    fflush(stdout);
    execvp(c->word[0], (char *const *)c->word);
    return error_set(STATUS_UNSUPPORTED, "%s: %s; captures need Python 3.9 or later", c->word[0],
                     strerror(errno));
}
