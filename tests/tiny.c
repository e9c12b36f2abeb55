#include "tests/tiny.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { T = TINY_TOKENS, C = TINY_CHANNELS, V = TINY_VOCABULARY };

struct builder {
    struct model model;
    size_t edges;
    struct model_edge edge[2 * TINY_OPS];
    bool failed;
};

/* What an op needs besides its attributes; sizes count fp32 numbers. */
struct sizes {
    int64_t parameters, shared, output;
    uint32_t owner; /* 0: none; op 0 owns */
    bool tied;
};

static char *copy(struct builder *b, const char *text)
{
    char *s = malloc(strlen(text) + 1);
    b->failed = b->failed || !s;
    return s ? strcpy(s, text) : NULL;
}

static struct model_attribute *copy_attributes(struct builder *b,
                                               const struct model_attribute *from, size_t n)
{
    struct model_attribute *to = calloc(n, sizeof *to);
    b->failed = b->failed || !to;
    for (size_t i = 0; to && i < n; i++)
        to[i] = (struct model_attribute){copy(b, from[i].name), from[i].value};
    return to;
}

/* Append an op that reads the op before, and op `other` if that is not MODEL_NO_OP. */
static uint32_t add(struct builder *b, const char *kind, uint32_t other, struct sizes s,
                    const struct model_attribute *attribute, size_t n)
{
    struct model *m = &b->model;
    uint32_t i = (uint32_t)m->n;
    char name[32];
    assert(i < TINY_OPS);
    if (!m->op)
        m->op = calloc(TINY_OPS, sizeof *m->op);
    if (!m->op) {
        b->failed = true;
        return i;
    }
    snprintf(name, sizeof name, "%s%u", kind, i);
    m->op[m->n++] = (struct model_op){
        .name = copy(b, name),
        .kind = copy(b, kind),
        .attributes = n,
        .attribute = copy_attributes(b, attribute, n),
        .parameter_bytes = 4 * s.parameters,
        .shared_bytes = 4 * s.shared,
        .shares = s.tied ? s.owner : MODEL_NO_OP,
        .output_bytes = 4 * s.output,
    };
    if (!m->op[i].attribute)
        m->op[i].attributes = 0;
    if (other != MODEL_NO_OP)
        b->edge[b->edges++] = (struct model_edge){other, i};
    if (i > 0)
        b->edge[b->edges++] = (struct model_edge){i - 1, i};
    return i;
}

#define ATTRIBUTES(...)                                                                            \
    (const struct model_attribute[]){__VA_ARGS__},                                                 \
        sizeof((const struct model_attribute[]){__VA_ARGS__}) / sizeof(struct model_attribute)

static uint32_t embedding(struct builder *b, int64_t positions, int64_t types, int64_t concat)
{
    struct sizes s = {.parameters = (V + positions + types) * C, .output = T * C};
    return add(b, "embedding", MODEL_NO_OP, s,
               ATTRIBUTES({"tokens", T}, {"channels", C}, {"vocabulary", V},
                          {"positions", positions}, {"types", types}, {"concat", concat}));
}

static uint32_t layernorm(struct builder *b)
{
    return add(b, "layernorm", MODEL_NO_OP, (struct sizes){.parameters = 2 * C, .output = T * C},
               ATTRIBUTES({"tokens", T}, {"channels", C}));
}

static uint32_t linear(struct builder *b, int64_t tokens, int64_t in, int64_t out, bool bias,
                       bool tied)
{
    struct sizes s = {.parameters = (tied ? 0 : in * out) + (bias ? out : 0),
                      .shared = tied ? in * out : 0,
                      .output = tokens * out,
                      .tied = tied};
    return add(b, "linear", MODEL_NO_OP, s,
               ATTRIBUTES({"tokens", tokens}, {"in", in}, {"out", out}, {"bias", bias}));
}

static uint32_t attention(struct builder *b, bool causal)
{
    return add(
        b, "attention", MODEL_NO_OP, (struct sizes){.output = T * C},
        ATTRIBUTES({"tokens", T}, {"channels", C}, {"heads", TINY_HEADS}, {"causal", causal}));
}

static uint32_t gelu(struct builder *b, int64_t tokens, int64_t channels)
{
    return add(b, "gelu", MODEL_NO_OP, (struct sizes){.output = tokens * channels},
               ATTRIBUTES({"tokens", tokens}, {"channels", channels}));
}

static uint32_t residual(struct builder *b, uint32_t stream)
{
    return add(b, "residual", stream, (struct sizes){.output = T * C},
               ATTRIBUTES({"tokens", T}, {"channels", C}));
}

static uint32_t loss(struct builder *b, int64_t tokens, bool masked)
{
    return add(b, "loss", MODEL_NO_OP, (struct sizes){.output = 1},
               ATTRIBUTES({"tokens", tokens}, {"vocabulary", V}, {"masked", masked}));
}

static enum status finish(struct builder *b, const char *name, struct model *out)
{
    b->model.name = copy(b, name);
    b->model.element_bytes = 4;
    if (b->failed) {
        model_free(&b->model);
        return error_set(STATUS_NOMEM, "out of memory");
    }
    enum status st = model_finish(&b->model, b->edge, b->edges, name);
    if (st == STATUS_OK)
        *out = b->model;
    return st;
}

static uint32_t feed_forward(struct builder *b)
{
    linear(b, T, C, 4 * C, true, false);
    gelu(b, T, 4 * C);
    return linear(b, T, 4 * C, C, true, false);
}

static uint32_t attention_block(struct builder *b, bool causal)
{
    linear(b, T, C, 3 * C, true, false);
    attention(b, causal);
    return linear(b, T, C, C, true, false);
}

enum status tiny_gpt(size_t layers, bool tied, struct model *out)
{
    struct builder b = {0};
    uint32_t stream = embedding(&b, T, 0, 0);
    for (size_t i = 0; i < layers; i++) {
        layernorm(&b);
        attention_block(&b, true);
        stream = residual(&b, stream);
        layernorm(&b);
        feed_forward(&b);
        stream = residual(&b, stream);
    }
    layernorm(&b);
    linear(&b, T, C, V, false, tied);
    loss(&b, T, false);
    return finish(&b, "tiny-gpt", out);
}

enum status tiny_bert(struct model *out)
{
    struct builder b = {0};
    embedding(&b, T + 2, 2, 0);
    uint32_t stream = layernorm(&b);
    attention_block(&b, false);
    residual(&b, stream);
    stream = layernorm(&b);
    feed_forward(&b);
    residual(&b, stream);
    layernorm(&b);
    linear(&b, T, C, V, true, true);
    loss(&b, T, true);
    return finish(&b, "tiny-bert", out);
}

enum status tiny_mlp(struct model *out)
{
    struct builder b = {0};
    embedding(&b, 0, 0, 1);
    linear(&b, 1, T * C, 16, true, false);
    gelu(&b, 1, 16);
    linear(&b, 1, 16, 16, true, false);
    gelu(&b, 1, 16);
    linear(&b, 1, 16, V, true, false);
    loss(&b, 1, false);
    return finish(&b, "tiny-mlp", out);
}

enum status tiny_fan(struct model *out)
{
    struct builder b = {0};
    embedding(&b, T, 0, 0);
    layernorm(&b);
    gelu(&b, T, C);
    b.edge[b.edges - 1].from = 0; /* instead of the op before */
    residual(&b, 1);
    residual(&b, 0);
    linear(&b, T, C, V, false, false);
    loss(&b, T, false);
    layernorm(&b);
    b.edge[b.edges - 1].from = 3;
    return finish(&b, "tiny-fan", out);
}

void tiny_set(struct model *m, uint32_t op, const char *name, int64_t value)
{
    for (size_t i = 0; i < m->op[op].attributes; i++)
        if (strcmp(m->op[op].attribute[i].name, name) == 0) {
            m->op[op].attribute[i].value = value;
            return;
        }
    assert(!"no such attribute");
}

void tiny_share(struct model *m, uint32_t op, uint32_t owner)
{
    int64_t weight =
        4 * model_attribute(&m->op[op], "in", 0) * model_attribute(&m->op[op], "out", 0);
    m->op[op].shares = owner;
    m->op[op].shared_bytes = weight;
    m->op[op].parameter_bytes -= weight;
}

const uint32_t *tiny_cut(uint32_t stage_of[TINY_OPS], uint32_t a, uint32_t b, uint32_t c)
{
    for (uint32_t i = 0; i < TINY_OPS; i++)
        stage_of[i] = i >= c ? 3 : i >= b ? 2 : i >= a;
    return stage_of;
}

enum status tiny_program(const struct model *m, size_t stages, const uint32_t *stage_of,
                         uint32_t microbatches, const char *optimizer, struct program *out)
{
    struct program p = {.ranks = stages,
                        .rank = calloc(stages, sizeof *p.rank),
                        .op_start = calloc(stages + 1, sizeof *p.op_start),
                        .op = calloc(1, sizeof *p.op),
                        .stages = stages,
                        .stage_start = calloc(stages + 1, sizeof *p.stage_start),
                        .stage_op = calloc(m->n, sizeof *p.stage_op),
                        .microbatches = microbatches,
                        .microbatch_size = 2,
                        .optimizer = malloc(strlen(optimizer) + 1),
                        .seed = 1};
    if (!p.rank || !p.op_start || !p.op || !p.stage_start || !p.stage_op || !p.optimizer) {
        program_free(&p);
        return error_set(STATUS_NOMEM, "out of memory");
    }
    strcpy(p.optimizer, optimizer);
    size_t n = 0;
    for (uint32_t s = 0; s < stages; s++) {
        p.rank[s].stage = s;
        for (uint32_t i = 0; i < m->n; i++)
            if (stage_of[i] == s)
                p.stage_op[n++] = i;
        p.stage_start[s + 1] = n;
    }
    if (program_plain_stages(&p) != STATUS_OK) {
        program_free(&p);
        return error_set(STATUS_NOMEM, "out of memory");
    }
    *out = p;
    return STATUS_OK;
}

enum status tiny_whole(const struct model *m, uint32_t microbatches, const char *optimizer,
                       struct program *out)
{
    static const uint32_t zeros[TINY_OPS];
    return tiny_program(m, 1, zeros, microbatches, optimizer, out);
}
