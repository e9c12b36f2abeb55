/* The layers that calibration measures, as descriptions of ops and as layers of a device. */
#include <string.h>

#include "exec/calibrate/probe.h"
#include "exec/corpus.h"

/* Shapes as in transformers: rows of 32 to 256 tokens, 32 to 768 channels. A linear layer comes
 * widening and narrowing (as in a feed-forward block) with the same work. */
static const struct probe probes[] = {
    PROBE("embedding", 32, 32, 0, 0, 2),   PROBE("embedding", 128, 128, 0, 0, 1),
    PROBE("embedding", 128, 128, 0, 0, 8), PROBE("embedding", 256, 512, 0, 0, 8),
    PROBE("layernorm", 32, 32, 0, 0, 2),   PROBE("layernorm", 128, 128, 0, 0, 1),
    PROBE("layernorm", 128, 128, 0, 0, 8), PROBE("layernorm", 256, 512, 0, 0, 8),
    PROBE("linear", 32, 32, 128, 0, 2),    PROBE("linear", 32, 128, 32, 0, 2),
    PROBE("linear", 64, 64, 256, 0, 2),    PROBE("linear", 64, 256, 64, 0, 2),
    PROBE("linear", 128, 128, 128, 0, 2),  PROBE("linear", 128, 128, 512, 0, 1),
    PROBE("linear", 128, 512, 128, 0, 1),  PROBE("linear", 128, 128, 512, 0, 4),
    PROBE("linear", 128, 512, 128, 0, 4),  PROBE("linear", 128, 256, 1024, 0, 4),
    PROBE("linear", 128, 1024, 256, 0, 4), PROBE("linear", 128, 768, 3072, 0, 4),
    PROBE("linear", 128, 3072, 768, 0, 4), PROBE("attention", 32, 32, 0, 1, 2),
    PROBE("attention", 64, 64, 0, 2, 2),   PROBE("attention", 128, 128, 0, 4, 1),
    PROBE("attention", 128, 128, 0, 4, 8), PROBE("attention", 256, 256, 0, 4, 8),
    PROBE("gelu", 32, 128, 0, 0, 2),       PROBE("gelu", 128, 512, 0, 0, 1),
    PROBE("gelu", 128, 512, 0, 0, 8),      PROBE("gelu", 256, 2048, 0, 0, 4),
    PROBE("residual", 32, 32, 0, 0, 2),    PROBE("residual", 128, 128, 0, 0, 1),
    PROBE("residual", 128, 128, 0, 0, 8),  PROBE("residual", 256, 512, 0, 0, 8),
    PROBE("loss", 32, 256, 0, 0, 2),       PROBE("loss", 128, 256, 0, 0, 1),
    PROBE("loss", 128, 256, 0, 0, 8),      PROBE("loss", 256, 1024, 0, 0, 8),
    PROBE("rmsnorm", 32, 32, 0, 0, 2),     PROBE("rmsnorm", 128, 128, 0, 0, 1),
    PROBE("rmsnorm", 128, 128, 0, 0, 8),   PROBE("rmsnorm", 256, 512, 0, 0, 8),
    PROBE("rope", 32, 32, 0, 2, 2),        PROBE("rope", 128, 128, 0, 4, 1),
    PROBE("rope", 128, 128, 0, 4, 8),      PROBE("rope", 256, 512, 0, 8, 8),
    PROBE("flash", 32, 32, 0, 2, 2),       PROBE("flash", 64, 64, 0, 2, 2),
    PROBE("flash", 128, 128, 0, 4, 1),     PROBE("flash", 128, 128, 0, 4, 8),
    PROBE("flash", 256, 256, 0, 4, 8),     PROBE("gated", 32, 88, 0, 0, 2),
    PROBE("gated", 128, 344, 0, 0, 1),     PROBE("gated", 128, 344, 0, 0, 8),
    PROBE("gated", 256, 1376, 0, 0, 4),    PROBE("gate", 32, 32, 0, 4, 2),
    PROBE("gate", 128, 128, 0, 8, 1),      PROBE("gate", 128, 128, 0, 8, 8),
    PROBE("gate", 256, 512, 0, 8, 8),      PROBE("experts", 32, 32, 48, 4, 2),
    PROBE("experts", 128, 64, 96, 4, 1),   PROBE("experts", 128, 128, 256, 4, 1),
    PROBE("experts", 128, 128, 256, 8, 4), PROBE("experts", 256, 256, 512, 8, 4),
    PROBE("adam", 1, 1 << 14, 0, 0, 1),    PROBE("adam", 1, 1 << 18, 0, 0, 1),
    PROBE("adam", 1, 1 << 21, 0, 0, 1),    PROBE("sgd", 1, 1 << 14, 0, 0, 1),
    PROBE("sgd", 1, 1 << 18, 0, 0, 1),     PROBE("sgd", 1, 1 << 21, 0, 0, 1),
};
/* For GPUs: up to 8 samples of 1,024 tokens, as GPT-2 has them, and wider. */
static const struct probe gpu_probes[] = {
    PROBE("embedding", 128, 768, 0, 0, 1),   PROBE("embedding", 1024, 768, 0, 0, 1),
    PROBE("embedding", 1024, 768, 0, 0, 8),  PROBE("layernorm", 128, 768, 0, 0, 1),
    PROBE("layernorm", 1024, 768, 0, 0, 1),  PROBE("layernorm", 1024, 768, 0, 0, 8),
    PROBE("layernorm", 1024, 4096, 0, 0, 8), PROBE("linear", 128, 768, 768, 0, 1),
    PROBE("linear", 128, 768, 3072, 0, 1),   PROBE("linear", 1024, 768, 768, 0, 1),
    PROBE("linear", 1024, 768, 3072, 0, 1),  PROBE("linear", 1024, 3072, 768, 0, 1),
    PROBE("linear", 1024, 768, 3072, 0, 8),  PROBE("linear", 1024, 3072, 768, 0, 8),
    PROBE("linear", 1024, 4096, 4096, 0, 8), PROBE("linear", 1024, 4096, 16384, 0, 8),
    PROBE("attention", 128, 768, 0, 12, 1),  PROBE("attention", 1024, 768, 0, 12, 1),
    PROBE("attention", 1024, 768, 0, 12, 8), PROBE("attention", 1024, 4096, 0, 32, 4),
    PROBE("gelu", 128, 3072, 0, 0, 1),       PROBE("gelu", 1024, 3072, 0, 0, 1),
    PROBE("gelu", 1024, 3072, 0, 0, 8),      PROBE("residual", 128, 768, 0, 0, 1),
    PROBE("residual", 1024, 768, 0, 0, 1),   PROBE("residual", 1024, 768, 0, 0, 8),
    PROBE("residual", 1024, 4096, 0, 0, 8),  PROBE("loss", 128, 50257, 0, 0, 2),
    PROBE("loss", 1024, 50257, 0, 0, 1),     PROBE("loss", 1024, 50257, 0, 0, 8),
    PROBE("adam", 1, 1 << 18, 0, 0, 1),      PROBE("adam", 1, 1 << 22, 0, 0, 1),
    PROBE("adam", 1, 1 << 25, 0, 0, 1),      PROBE("sgd", 1, 1 << 18, 0, 0, 1),
    PROBE("sgd", 1, 1 << 22, 0, 0, 1),       PROBE("sgd", 1, 1 << 25, 0, 0, 1),
};
static const int64_t sizes[] = {4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20,
                                64 << 20,
                                /* on request */
                                256 << 20, 1 << 30};
enum { SIZES = 8 };

const struct bench_task bench_task = {.probes = sizeof probes / sizeof *probes,
                                      .sizes = SIZES,
                                      .probe = probes,
                                      .size = sizes,
                                      .copy_bytes = 32 << 20};

const struct bench_task bench_task_gpu = {.probes = sizeof gpu_probes / sizeof *gpu_probes,
                                          .probe = gpu_probes,
                                          .copy_bytes = 256 << 20,
                                          .gpus = true};

enum status bench_task_up_to(int64_t largest, struct bench_task *out)
{
    size_t n = 0;
    while (n < sizeof sizes / sizeof *sizes && sizes[n] <= largest)
        n++;
    if (n < 2 || largest > sizes[sizeof sizes / sizeof *sizes - 1])
        return error_set(STATUS_INVALID, "--largest: got %lld bytes, expected 16 KiB to 1 GiB",
                         (long long)largest);
    *out = bench_task;
    out->sizes = n;
    return STATUS_OK;
}

/* ---- what a probe is in a model; the formulas of model/layers.c */

static void attach(struct model_attribute *a, size_t *n, const char *name, int64_t value)
{
    a[(*n)++] = (struct model_attribute){(char *)(uintptr_t)name, value};
}

/* Kinds of today's models; formulas of model/layers_attention.c and layers_experts.c. Half as many
 * heads of keys and values as of queries, so that a fused row is twice as wide as the output; two
 * experts of each token, gated. False: it is none of them. */
static bool describe_today(const struct probe *p, struct model_attribute *a, struct model_op *op)
{
    double t = (double)p->tokens, size = t * (double)p->channels;
    if (!strcmp(p->kind, "rmsnorm")) {
        attach(a, &op->attributes, "channels", p->channels);
        op->parameter_bytes = 4 * p->channels;
        op->forward_flop = 4 * size;
        op->backward_flop = 9 * size;
    } else if (!strcmp(p->kind, "rope")) {
        attach(a, &op->attributes, "heads", p->heads);
        attach(a, &op->attributes, "kv_heads", p->heads / 2);
        attach(a, &op->attributes, "head", p->channels / p->heads);
        op->output_bytes = 4 * p->tokens * 2 * p->channels;
        op->forward_flop = op->backward_flop = 3 * 1.5 * size;
    } else if (!strcmp(p->kind, "flash")) {
        op->kind = (char *)(uintptr_t) "attention";
        attach(a, &op->attributes, "channels", p->channels);
        attach(a, &op->attributes, "heads", p->heads);
        attach(a, &op->attributes, "kv_heads", p->heads / 2);
        attach(a, &op->attributes, "causal", 1);
        attach(a, &op->attributes, "flash", 1);
        op->forward_flop = 4 * (double)p->channels * t * (t + 1) / 2;
        op->backward_flop = 2 * op->forward_flop;
    } else if (!strcmp(p->kind, "gated")) {
        attach(a, &op->attributes, "channels", p->channels);
        op->forward_flop = 6 * size;
        op->backward_flop = 12 * size;
    } else if (!strcmp(p->kind, "gate") || !strcmp(p->kind, "experts")) {
        double products = 2 * size * (double)p->heads, scores = t * (double)p->heads;
        attach(a, &op->attributes, "channels", p->channels);
        attach(a, &op->attributes, "experts", p->heads);
        attach(a, &op->attributes, "top_k", 2);
        op->parameter_bytes = 4 * p->heads * p->channels;
        op->output_bytes = 4 * p->tokens * 4;
        op->forward_flop = products + 7 * scores;
        op->backward_flop = 2 * products + 4 * scores;
        if (!strcmp(p->kind, "gate"))
            return true;
        double inside = 2 * t * (double)p->out;
        products = 2 * 3 * inside * (double)p->channels;
        attach(a, &op->attributes, "inner", p->out);
        attach(a, &op->attributes, "slots", 2 * p->tokens);
        attach(a, &op->attributes, "gated", 1);
        op->parameter_bytes *= 3 * p->out;
        op->output_bytes = 4 * p->tokens * p->channels;
        op->forward_flop = products + 6 * inside + 2 * 2 * size;
        op->backward_flop = 2 * products + 12 * inside + 3 * 2 * size;
    } else {
        return false;
    }
    return true;
}

/* Attributes are those of docs/reference/models.md; their array belongs to the caller, because the
 * op borrows it. */
void probe_describe(const struct probe *p, struct model_attribute *a, struct model_op *op)
{
    double size = (double)(p->tokens * p->channels);
    *op = (struct model_op){.kind = (char *)(uintptr_t)p->kind, .shares = MODEL_NO_OP};
    op->output_bytes = 4 * p->tokens * p->channels;
    attach(a, &op->attributes, "tokens", p->tokens);
    op->attribute = a;
    if (describe_today(p, a, op))
        return;
    if (!strcmp(p->kind, "embedding")) {
        attach(a, &op->attributes, "channels", p->channels);
        attach(a, &op->attributes, "vocabulary", CORPUS_VOCABULARY);
        attach(a, &op->attributes, "positions", p->tokens);
        op->parameter_bytes = 4 * (CORPUS_VOCABULARY + p->tokens) * p->channels;
        op->forward_flop = size;
        op->backward_flop = 2 * size;
    } else if (!strcmp(p->kind, "layernorm")) {
        attach(a, &op->attributes, "channels", p->channels);
        op->parameter_bytes = 4 * 2 * p->channels;
        op->forward_flop = 7 * size;
        op->backward_flop = 13 * size;
    } else if (!strcmp(p->kind, "linear")) {
        attach(a, &op->attributes, "in", p->channels);
        attach(a, &op->attributes, "out", p->out);
        attach(a, &op->attributes, "bias", 1);
        op->parameter_bytes = 4 * (p->channels + 1) * p->out;
        op->output_bytes = 4 * p->tokens * p->out;
        op->forward_flop = 2 * size * (double)p->out;
        op->backward_flop = 2 * op->forward_flop;
    } else if (!strcmp(p->kind, "attention")) {
        attach(a, &op->attributes, "channels", p->channels);
        attach(a, &op->attributes, "heads", p->heads);
        attach(a, &op->attributes, "causal", 1);
        op->forward_flop = 4 * size * (double)p->tokens;
        op->backward_flop = 2 * op->forward_flop;
    } else if (!strcmp(p->kind, "loss")) {
        attach(a, &op->attributes, "vocabulary", p->channels);
        op->output_bytes = 4;
        op->forward_flop = 4 * size;
        op->backward_flop = 5 * size;
    } else { /* gelu, residual */
        bool gelu = !strcmp(p->kind, "gelu");
        attach(a, &op->attributes, "channels", p->channels);
        op->forward_flop = (gelu ? 9 : 1) * size;
        op->backward_flop = (gelu ? 18 : 1) * size;
    }
}

bool probe_updates(const struct probe *p)
{
    return !strcmp(p->kind, "adam") || !strcmp(p->kind, "sgd");
}

/* As core/cost/cost.c counts them. */
double probe_flop(const struct probe *p, bool backward)
{
    struct model_attribute attribute[PROBE_ATTRIBUTES];
    struct model_op op;
    if (p->layer)
        return p->flop[backward];
    if (probe_updates(p))
        return backward ? 0 : (double)p->channels * (*p->kind == 'a' ? 12 : 2);
    probe_describe(p, attribute, &op);
    return (double)p->batch * (backward ? op.backward_flop : op.forward_flop);
}

/* Channels of the rows that the layer reads as input i. */
static int64_t source_channels(const struct probe *p, uint32_t i)
{
    if (!strcmp(p->kind, "attention"))
        return 3 * p->channels;
    if (!strcmp(p->kind, "flash") || !strcmp(p->kind, "rope") || !strcmp(p->kind, "gated"))
        return 2 * p->channels;
    return i == 1 && !strcmp(p->kind, "experts") ? 4 : p->channels;
}

/* The op after as many embeddings as it has inputs. */
enum status probe_layer(const struct probe *p, struct layer *out)
{
    enum { OPS = LAYER_INPUTS + 1 };
    struct model_attribute attribute[OPS][PROBE_ATTRIBUTES];
    struct model_op op[OPS];
    size_t start[OPS + 1] = {0}, nothing[OPS + 1] = {0};
    uint32_t in[LAYER_INPUTS] = {0, 1};
    if (p->layer) {
        *out = *p->layer;
        return STATUS_OK;
    }
    const struct layer_kind *kind =
        layer_kind_of(!strcmp(p->kind, "flash") ? OPERATOR_attention : operator_find(p->kind));
    if (!kind)
        return error_set(STATUS_UNSUPPORTED, "the CPU device does not support ops of kind '%s'",
                         p->kind);
    uint32_t inputs = (uint32_t)kind->inputs;
    for (uint32_t i = 0; i < inputs; i++) {
        const struct probe source =
            PROBE("embedding", p->tokens, source_channels(p, i), 0, 0, p->batch);
        probe_describe(&source, attribute[i], &op[i]);
    }
    probe_describe(p, attribute[inputs], &op[inputs]);
    char name[] = "probe";
    op[inputs].name = name;
    start[inputs + 1] = inputs;
    struct model m = {.n = inputs + 1,
                      .op = op,
                      .in_start = start,
                      .in = in,
                      .out_start = nothing,
                      .element_bytes = 4};
    return layer_shape(&m, inputs, p->batch, out);
}
