/* capture - what the ranks of a training script do, without the others and without a GPU. */
#include "cli/command.h"
#include "study/script.h"

static enum status cmd_capture(struct invocation *in)
{
    const struct capture_arguments *a = &in->a.capture;
    struct script_call c = {0};
    PASS(arguments_check(&in->a, TAKES(CAPTURE)));
    if (!a->from && in->operands == 0)
        return error_set(STATUS_USAGE,
                         "no script given. Try -- python3 train.py ARGUMENTS at the end");
    if (!a->from && a->world_size == 0)
        return error_set(STATUS_USAGE,
                         "--world-size N is missing (the number of ranks of the script)");
    PASS(script_begin(a->from ? "capture_import.py" : "capture.py", &c));
    if (a->from) {
        script_put(&c, "--output", in->a.output);
        script_put(&c, "--from", a->from);
    } else {
        script_put_capture(&c, a, in->a.output);
    }
    PASS(script_end(&c, in->operand, (size_t)in->operands));
    return script_become(&c);
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
        "`foreline simulate DIR --platform P` predicts. One rank's capture also has model.json, "
        "for\n"
        "`foreline plan --model`. Needs PyTorch 1.13 or later in the python that is named behind\n"
        "--. docs/how-to/capture.md.\n",
    .examples = "foreline capture -o gpt --world-size 2 -- python3 examples/capture/train_gpt.py\n"
                "foreline capture -o trace --from traces/\n",
    .often = "world-size from ranks steps real dry profile device output",
    .run = cmd_capture,
};
