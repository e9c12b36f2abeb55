/* A small GPT as the zoo's gpt-tiny, in static memory: nothing here is read from files. */
#include <math.h>
#include <string.h>

#include "core/data/model.h"
#include "core/data/program.h"
#include "exec/device.h"
#include "exec/device/cuda/selftest.h"
#include "exec/device/layer.h"

enum {
    TOKENS = 64,
    CHANNELS = 64,
    HEADS = 4,
    VOCABULARY = 256,
    BLOCKS = 2,
    OPS = 4 + 10 * BLOCKS,
    MICROBATCHES = 2,
    STEPS = 20,
    NONE = -1
};

/* The model, and its training on one device as a program. */
struct toy {
    struct model model;
    struct model_op op[OPS];
    struct model_attribute attribute[OPS][6];
    size_t in_start[OPS + 1], out_start[OPS + 1];
    uint32_t in[2 * OPS], out[2 * OPS];

    struct program program;
    struct program_rank rank;
    struct program_op list[3 * MICROBATCHES + 2];
    size_t op_start[2], stage_start[2];
    uint32_t stage_op[OPS];
    struct program_stage stage;
    struct program_bucket bucket;
};

/* Append an op that reads the one before and `other` (NONE: nothing more; op 0 reads nothing). */
static int selftest_append_op(struct toy *t, char *kind, int other, int64_t parameters,
                              int64_t output, const struct model_attribute *attribute)
{
    size_t k = t->model.n++, n = 0;
    for (; attribute[n].name; n++)
        t->attribute[k][n] = attribute[n];
    t->op[k] = (struct model_op){.name = kind,
                                 .kind = kind,
                                 .attributes = n,
                                 .attribute = t->attribute[k],
                                 .parameter_bytes = t->model.element_bytes * parameters,
                                 .shares = MODEL_NO_OP,
                                 .output_bytes = t->model.element_bytes * output};
    if (other != NONE)
        t->in[t->model.edges++] = (uint32_t)other;
    if (k > 0)
        t->in[t->model.edges++] = (uint32_t)k - 1;
    t->in_start[k + 1] = t->model.edges;
    return (int)k;
}

#define ATTRIBUTES(...) ((const struct model_attribute[]){{"tokens", TOKENS}, __VA_ARGS__, {0}})

static void layernorm(struct toy *t)
{
    selftest_append_op(t, "layernorm", NONE, 2 * CHANNELS, TOKENS * CHANNELS,
                       ATTRIBUTES({"channels", CHANNELS}));
}

static void selftest_add_linear(struct toy *t, int in, int out)
{
    selftest_append_op(t, "linear", NONE, in * out + out, TOKENS * out,
                       ATTRIBUTES({"in", in}, {"out", out}, {"bias", 1}));
}

static int selftest_add_residual(struct toy *t, int stream)
{
    return selftest_append_op(t, "residual", stream, 0, TOKENS * CHANNELS,
                              ATTRIBUTES({"channels", CHANNELS}));
}

static int block(struct toy *t, int stream)
{
    layernorm(t);
    selftest_add_linear(t, CHANNELS, 3 * CHANNELS);
    selftest_append_op(t, "attention", NONE, 0, TOKENS * CHANNELS,
                       ATTRIBUTES({"channels", CHANNELS}, {"heads", HEADS}, {"causal", 1}));
    selftest_add_linear(t, CHANNELS, CHANNELS);
    stream = selftest_add_residual(t, stream);
    layernorm(t);
    selftest_add_linear(t, CHANNELS, 4 * CHANNELS);
    selftest_append_op(t, "gelu", NONE, 0, TOKENS * 4 * CHANNELS,
                       ATTRIBUTES({"channels", 4 * CHANNELS}));
    selftest_add_linear(t, 4 * CHANNELS, CHANNELS);
    return selftest_add_residual(t, stream);
}

/* Consumers from producers. */
/* CSR of the readers, from that of the inputs. */
static void reverse(struct toy *t)
{
    size_t edges = 0;
    for (uint32_t k = 0; k < OPS; k++) {
        for (uint32_t reader = k + 1; reader < OPS; reader++)
            for (size_t e = t->in_start[reader]; e < t->in_start[reader + 1]; e++)
                if (t->in[e] == k)
                    t->out[edges++] = reader;
        t->out_start[k + 1] = edges;
    }
}

static void selftest_make_model(struct toy *t, enum element half)
{
    t->model = (struct model){.name = "self-test",
                              .element_bytes = (int64_t)element_bytes(half),
                              .dtype = half == ELEMENT_FP16 ? DATA_fp16 : DATA_ANY,
                              .op = t->op,
                              .in_start = t->in_start,
                              .out_start = t->out_start,
                              .in = t->in,
                              .out = t->out};
    int stream = selftest_append_op(
        t, "embedding", NONE, (VOCABULARY + TOKENS) * CHANNELS, TOKENS * CHANNELS,
        ATTRIBUTES({"channels", CHANNELS}, {"vocabulary", VOCABULARY}, {"positions", TOKENS}));
    for (int k = 0; k < BLOCKS; k++)
        stream = block(t, stream);
    layernorm(t);
    selftest_append_op(t, "linear", NONE, 0, TOKENS * VOCABULARY,
                       ATTRIBUTES({"in", CHANNELS}, {"out", VOCABULARY}));
    t->op[t->model.n - 1].shares = 0;
    t->op[t->model.n - 1].shared_bytes = t->model.element_bytes * VOCABULARY * CHANNELS;
    selftest_append_op(t, "loss", NONE, 0, 1, ATTRIBUTES({"vocabulary", VOCABULARY}));
    reverse(t);
}

static void selftest_add_op(struct toy *t, enum op_kind kind, uint32_t microbatch)
{
    t->list[t->program.ops++] =
        (struct program_op){.kind = kind, .microbatch = microbatch, .channel = PROGRAM_NONE};
}

/* All forwards, then all backwards, in one or two halves. */
static void selftest_make_program(struct toy *t, bool halves)
{
    static char optimizer[] = "adam";
    t->program = (struct program){.ranks = 1,
                                  .rank = &t->rank,
                                  .op_start = t->op_start,
                                  .op = t->list,
                                  .stages = 1,
                                  .stage_start = t->stage_start,
                                  .stage_op = t->stage_op,
                                  .stage = &t->stage,
                                  .buckets = 1,
                                  .bucket = &t->bucket,
                                  .microbatches = MICROBATCHES,
                                  .microbatch_size = 4,
                                  .optimizer = optimizer,
                                  .seed = 1};
    t->stage = (struct program_stage){
        .own = strategy_at_least_usual(&(struct strategy_stage){0}), .split = halves, .buckets = 1};
    for (uint32_t m = 0; m < MICROBATCHES; m++)
        selftest_add_op(t, OP_FORWARD, m);
    for (uint32_t m = 0; m < MICROBATCHES; m++)
        selftest_add_op(t, halves ? OP_BACKWARD_INPUT : OP_BACKWARD, m);
    for (uint32_t m = 0; halves && m < MICROBATCHES; m++)
        selftest_add_op(t, OP_BACKWARD_WEIGHT, m);
    selftest_add_op(t, OP_UPDATE, 0);
    t->op_start[1] = t->program.ops;
    t->stage_start[1] = OPS;
    for (uint32_t k = 0; k < OPS; k++)
        t->stage_op[k] = k;
}

/* What came of it. */
struct training_result {
    double loss[STEPS];
    uint8_t digest[OPS][DIGEST];
};

static void no_sum(void *self, enum element e, void *data, size_t n)
{
    (void)self, (void)e, (void)data, (void)n; /* of one shard */
}

/* Some steps of the toy on a device: losses and hashes of the parameters. */
static enum status selftest_train_model(const struct device *d, enum element half, bool halves,
                                        struct training_result *out)
{
    enum status st;
    struct toy t = {0};
    void *self = NULL;
    const struct device_options o = {.learning_rate = 1e-3};
    const struct layer_reduction alone = {.sum = no_sum};
    selftest_make_model(&t, half);
    selftest_make_program(&t, halves);
    TRY(d->open(&t.model, &t.program, 0, &o, &self));
    for (uint32_t step = 0; step < STEPS; step++) {
        for (size_t k = 0; k < t.program.ops; k++)
            TRY(d->compute(self, step, &t.list[k], &alone));
        if (d->finish)
            TRY(d->finish(self));
        out->loss[step] = d->take_loss(self);
    }
    for (uint32_t k = 0; k < OPS; k++)
        TRY(d->digest(self, k, out->digest[k]));
out:
    d->close(self);
    return st;
}

/* Largest relative difference of the losses; NAN if the CPU's do not fall. */
/* Largest difference of the losses, relative to the CPU's. */
static double compare_losses(const struct training_result *cpu, const struct training_result *gpu)
{
    double worst = 0;
    for (int k = 0; k < STEPS; k++) {
        double off = fabs(gpu->loss[k] - cpu->loss[k]) / cpu->loss[k];
        worst = off <= worst ? worst : off; /* NAN too */
    }
    return cpu->loss[STEPS - 1] < cpu->loss[0] ? worst : NAN;
}

enum status selftest_training(FILE *to, bool *good)
{
    enum status st;
    struct training_result cpu, gpu, again;
    TRY(selftest_train_model(&device_cpu, ELEMENT_FP32, false, &cpu));
    *good = true;
    for (enum element half = 0; half < ELEMENTS; half++) {
        const char *what = selftest_half[half];
        char name[64];
        TRY(selftest_train_model(&device_cuda, half, false, &gpu));
        snprintf(name, sizeof name, "training, loss of 20 steps%s", what);
        *good = selftest_row(to, name, compare_losses(&cpu, &gpu), half ? 1e-2 : 1e-3) && *good;
        for (int halves = 0; halves < 2; halves++) {
            snprintf(name, sizeof name, "%s, other bits%s",
                     halves ? "backward in halves" : "training again", what);
            TRY(selftest_train_model(&device_cuda, half, halves, &again));
            *good = selftest_row(to, name, memcmp(&gpu, &again, sizeof gpu) != 0, 0) && *good;
        }
    }
out:
    return st;
}
