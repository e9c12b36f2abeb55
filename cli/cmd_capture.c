/* capture - what the ranks of a training script do, without the others and without a GPU. */
#include "cli/script.h"

static enum status capture_script(struct invocation *in)
{
    const struct capture_arguments *a = &in->a.capture;
    struct script_call c = {0};
    PASS(script_begin(in, "capture.py", &c));
    if (a->world_size == 0)
        return error_set(STATUS_USAGE,
                         "--world-size N is missing (the number of ranks of the script)");
    script_put(&c, "--output", in->a.output);
    script_put(&c, "--device", a->device);
    script_put_number(&c, "--world-size", (double)a->world_size);
    script_put_number(&c, "--steps", (double)a->steps);
    script_put_number(&c, "--timeout", a->patience_s);
    if (a->node > 0)
        script_put_number(&c, "--node", (double)a->node);
    if (a->ranks)
        script_put(&c, "--ranks", a->ranks);
    if (a->real)
        script_put(&c, "--real", NULL);
    if (a->dry)
        script_put(&c, "--dry", NULL);
    if (a->profile)
        script_put(&c, "--profile", NULL);
    return script_become(&c, in);
}

static enum status capture_traces(struct invocation *in)
{
    struct script_call c = {0};
    PASS(script_begin(in, "capture_import.py", &c));
    script_put(&c, "--output", in->a.output);
    script_put(&c, "--from", in->a.capture.from);
    return script_become(&c, in);
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
