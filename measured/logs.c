/* Lines that frameworks print while they train: how long a step took, or how fast it was. */
#include <stdio.h>
#include <string.h>

#include "measured/reader.h"

/* What a line says of a step, each key where the framework prints it; NULL: it does not. */
struct log_keys {
    const char *mark;   /* a line with it is one of a step */
    const char *number; /* of the step */
    const char *seconds;
    double per_second; /* of the unit that `seconds` is printed in */
    const char *samples_per_s, *tokens_per_s_and_gpu, *samples;
};

/* A line with the mark. Progress bars print a step several times: the last line of each counts. */
static enum status take_line(const char *text, const struct log_keys *k, struct reader_state *state,
                             struct measured_run *run)
{
    struct run_line l = {.number = (int64_t)run->lines + 1, .samples = state->pending.samples};
    double number, v;
    if (reader_number(text, k->number, &number) && number >= 0 && number < 1e15)
        l.number = (int64_t)number;
    if (k->seconds && reader_number(text, k->seconds, &v) && v > 0)
        l.seconds = v / k->per_second;
    if (k->samples_per_s && reader_number(text, k->samples_per_s, &v) && v > 0)
        l.samples_per_s = v;
    if (k->tokens_per_s_and_gpu && reader_number(text, k->tokens_per_s_and_gpu, &v) && v > 0)
        l.tokens_per_s_and_gpu = v;
    if (k->samples && reader_number(text, k->samples, &v) && v > 0)
        l.samples = v;
    if (run->lines > 0 && run->line[run->lines - 1].number == l.number) {
        run->line[run->lines - 1] = l;
        return STATUS_OK;
    }
    PASS(run_count(run, state->path));
    return run_add_line(run, &l);
}

/* ---- Megatron-LM, Megatron-DeepSpeed, GPT-NeoX: the mean of the iterations since the line
 * before. */

static const struct log_keys megatron = {.mark = "elapsed time per iteration (ms)",
                                         .number = "iteration ",
                                         .seconds = "elapsed time per iteration (ms)",
                                         .per_second = 1000,
                                         .samples = "global batch size"};

static bool is_megatron(const char *text)
{
    return strstr(text, megatron.mark) != NULL;
}

static enum status take_megatron(char *text, struct reader_state *state, struct measured_run *run)
{
    return text && is_megatron(text) ? take_line(text, &megatron, state, run) : STATUS_OK;
}

const struct reader reader_megatron = {.name = "megatron",
                                       .summary = "log of Megatron-LM or what is made of it",
                                       .recognises_line = is_megatron,
                                       .take = take_megatron};

/* ---- NeMo: "train_step_timing in s: 5.2" behind a bar, "=5.2" in a progress bar. */

static const struct log_keys nemo = {.mark = "train_step_timing in s",
                                     .number = "global_step",
                                     .seconds = "train_step_timing in s",
                                     .per_second = 1,
                                     .samples = "global_batch_size"};

static bool is_nemo(const char *text)
{
    return strstr(text, nemo.mark) != NULL;
}

static enum status take_nemo(char *text, struct reader_state *state, struct measured_run *run)
{
    return text && is_nemo(text) ? take_line(text, &nemo, state, run) : STATUS_OK;
}

const struct reader reader_nemo = {.name = "nemo",
                                   .summary = "log or progress bars of NeMo",
                                   .recognises_line = is_nemo,
                                   .take = take_nemo};

/* ---- DeepSpeed: the pipeline engine's time of an iteration; else samples per second, whose number
 * in a step stands among the settings that it prints at the beginning. */

static const struct log_keys deepspeed_pipeline = {.mark = "iter time (s):",
                                                   .number = "steps:",
                                                   .seconds = "iter time (s):",
                                                   .per_second = 1,
                                                   .samples_per_s = "samples/sec:"};
static const struct log_keys deepspeed_current = {
    .mark = "CurrSamplesPerSec=", .number = "global_step=", .samples_per_s = "CurrSamplesPerSec="};
static const struct log_keys deepspeed_old = {
    .mark = ", SamplesPerSec=", .number = " 0/", .samples_per_s = ", SamplesPerSec="};
static const char batch_size[] = "  train_batch_size ....";

static bool is_deepspeed(const char *text)
{
    return strstr(text, batch_size) || strstr(text, deepspeed_pipeline.mark) ||
           strstr(text, deepspeed_current.mark) || strstr(text, deepspeed_old.mark);
}

static enum status take_deepspeed(char *text, struct reader_state *state, struct measured_run *run)
{
    static const struct log_keys *const all[] = {&deepspeed_pipeline, &deepspeed_current,
                                                 &deepspeed_old};
    char *dots = text ? strstr(text, batch_size) : NULL;
    double v;
    if (dots) {
        dots += strlen(batch_size);
        dots += strspn(dots, ".");
        if (reader_number(dots, " ", &v) && v > 0)
            state->pending.samples = v;
        return STATUS_OK;
    }
    for (size_t i = 0; text && i < sizeof all / sizeof *all; i++)
        if (strstr(text, all[i]->mark))
            return take_line(text, all[i], state, run);
    return STATUS_OK;
}

const struct reader reader_deepspeed = {.name = "deepspeed",
                                        .summary = "log of DeepSpeed",
                                        .recognises_line = is_deepspeed,
                                        .take = take_deepspeed};

/* ---- torchtitan: tokens per second and GPU, the mean of the steps since the line before. */

static const struct log_keys torchtitan = {
    .mark = "tps:", .number = "step:", .tokens_per_s_and_gpu = "tps:"};

static bool is_torchtitan(const char *text)
{
    const char *step = strstr(text, "step:");
    return step && strstr(step, "loss:") && strstr(step, torchtitan.mark);
}

static enum status take_torchtitan(char *text, struct reader_state *state, struct measured_run *run)
{
    return text && is_torchtitan(text) ? take_line(text, &torchtitan, state, run) : STATUS_OK;
}

const struct reader reader_torchtitan = {.name = "torchtitan",
                                         .summary = "log of torchtitan (with --plan)",
                                         .recognises_line = is_torchtitan,
                                         .take = take_torchtitan};
