/* capture - what the ranks of a training script do, without the others and without a GPU. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "core/base/executable.h"

enum { CAPTURE_NUMBER = 32, CAPTURE_WORDS = 24, CAPTURE_PROGRAM = EXECUTABLE_FOLDER + 128 };

/* Words of the call of capture.py, all but the script's. */
struct capture_call {
    const char *word[CAPTURE_WORDS];
    size_t n;
    char number[4][CAPTURE_NUMBER];
    size_t numbers;
};

static void capture_put(struct capture_call *c, const char *option, const char *value)
{
    c->word[c->n++] = option;
    if (value)
        c->word[c->n++] = value;
}

static void capture_put_number(struct capture_call *c, const char *option, double value)
{
    char *text = c->number[c->numbers++];
    snprintf(text, CAPTURE_NUMBER, "%.15g", value);
    capture_put(c, option, text);
}

/* Every call begins so. */
static enum status capture_begin(struct capture_call *c, const struct invocation *in,
                                 const char *name, char program[CAPTURE_PROGRAM])
{
    char folder[EXECUTABLE_FOLDER];
    PASS(executable_folder(folder));
    snprintf(program, CAPTURE_PROGRAM, "%s/" FORELINE_CAPTURE "/%s", folder, name);
    if (access(program, R_OK) != 0)
        return error_set(STATUS_UNSUPPORTED, "foreline's file is missing: %s (reinstall foreline)",
                         program);
    capture_put(c, "python3", program);
    capture_put(c, "--output", in->a.output);
    return STATUS_OK;
}

/* The program does the rest: capture.py starts a process for each rank, and this one becomes it. */
static enum status capture_become(const struct capture_call *c, const struct invocation *in)
{
    const char *words[CAPTURE_WORDS + 4096];
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
    return error_set(STATUS_UNSUPPORTED, "%s: %s; capture needs Python 3.9 or later", words[0],
                     strerror(errno));
}

static enum status capture_script(struct invocation *in)
{
    const struct capture_arguments *a = &in->a.capture;
    char program[CAPTURE_PROGRAM];
    struct capture_call c = {0};
    if (in->operands == 0)
        return error_set(
            STATUS_USAGE,
            "no script given. Try foreline capture --world-size N -- python3 train.py ARGUMENTS");
    if (a->world_size == 0)
        return error_set(STATUS_USAGE,
                         "--world-size N is missing (the number of ranks of the script)");
    PASS(capture_begin(&c, in, "capture.py", program));
    capture_put(&c, "--device", a->device);
    capture_put_number(&c, "--world-size", (double)a->world_size);
    capture_put_number(&c, "--steps", (double)a->steps);
    capture_put_number(&c, "--timeout", a->patience_s);
    if (a->node > 0)
        capture_put_number(&c, "--node", (double)a->node);
    if (a->ranks)
        capture_put(&c, "--ranks", a->ranks);
    if (a->real)
        capture_put(&c, "--real", NULL);
    if (a->dry)
        capture_put(&c, "--dry", NULL);
    if (a->profile)
        capture_put(&c, "--profile", NULL);
    return capture_become(&c, in);
}

static enum status capture_traces(struct invocation *in)
{
    char program[CAPTURE_PROGRAM];
    struct capture_call c = {0};
    PASS(capture_begin(&c, in, "capture_import.py", program));
    capture_put(&c, "--from", in->a.capture.from);
    return capture_become(&c, in);
}

static enum status cmd_capture(struct invocation *in)
{
    PASS(arguments_check(&in->a, TAKES(CAPTURE)));
    return in->a.capture.from ? capture_traces(in) : capture_script(in);
}

const struct command command_capture = {
    .name = "capture",
    .synopsis = "--world-size N -- python3 SCRIPT ARGUMENTS...",
    .summary = "record what each rank of a PyTorch training script does, without a cluster",
    .details =
        "Runs the unmodified script one rank at a time, with the environment that torchrun sets. "
        "The\n"
        "process group does not communicate, and tensors hold no data. Records operators with "
        "their\n"
        "shapes, collectives, messages, waits and memory. Ranks that do the same form one class.\n"
        "One recurring period of training steps is written to the folder -o, which\n"
        "`foreline simulate DIR --platform P` predicts. Needs PyTorch 1.13 or later in the python\n"
        "that is named behind --. docs/how-to/capture.md.\n",
    .examples = "foreline capture -o gpt --world-size 2 -- python3 examples/capture/train_gpt.py\n"
                "foreline capture -o trace --from traces/\n",
    .often = "world-size from ranks steps real dry profile device output",
    .run = cmd_capture,
};
