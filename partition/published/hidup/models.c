/* The models of models.def: options, and a function each that appends the nodes. */
#include "partition/published/hidup/models.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"
#include "partition/published/hidup/ops.h"

enum option {
#define OPTION(name, standard, most, help) OPTION_##name,
#include "partition/published/hidup/models.def"
#undef OPTION
    OPTIONS
};

const struct spmd_option spmd_options[] = {
#define OPTION(name, standard, most, help) {#name, standard, most},
#include "partition/published/hidup/models.def"
#undef OPTION
};
const size_t spmd_options_n = OPTIONS;

const struct spmd_family spmd_families[] = {
#define MODEL(name, summary) {#name, summary},
#include "partition/published/hidup/models.def"
#undef MODEL
};
const size_t spmd_families_n = sizeof spmd_families / sizeof *spmd_families;

/* A model that is being built: the stream x, and what it is made of. */
struct building {
    struct spmd_graph *g;
    int64_t value[OPTIONS];
    uint32_t x, mask;
};

static uint32_t parameter(struct building *b, const char *name, int64_t rows, int64_t columns)
{
    return op_parameter(b->g, name, columns ? 2 : 1, (int64_t[]){rows, columns});
}

/* Weight, bias, product. */
static uint32_t linear(struct building *b, const char *name, uint32_t x, int64_t in, int64_t out)
{
    char weight[SPMD_NAME], bias[SPMD_NAME];
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    uint32_t w = parameter(b, weight, out, in);
    return op_linear(b->g, name, x, w, parameter(b, bias, out, 0));
}

static uint32_t norm(struct building *b, const char *name, uint32_t x)
{
    char weight[SPMD_NAME], bias[SPMD_NAME];
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    uint32_t w = parameter(b, weight, b->value[OPTION_hidden], 0);
    return op_layer_norm(b->g, name, x, w, parameter(b, bias, b->value[OPTION_hidden], 0));
}

static void layer_tmlp(struct building *b, int64_t layer)
{
    int64_t hidden = b->value[OPTION_hidden];
    (void)layer;
    b->x = op_elementwise(b->g, "sigmoid", "sigmoid", linear(b, "linear", b->x, hidden, hidden));
}

static void layer_tmlp2(struct building *b, int64_t layer)
{
    int64_t hidden = b->value[OPTION_hidden], inner = b->value[OPTION_inner];
    (void)layer;
    uint32_t x = op_elementwise(b->g, "relu", "relu", linear(b, "linear1", b->x, hidden, inner));
    b->x = linear(b, "linear2", x, inner, hidden);
}

/* Of a stream in which samples are along dimension 1. */
static uint32_t dropout(struct building *b, const char *name, uint32_t x)
{
    uint32_t y = op_elementwise(b->g, "dropout", name, x);
    spmd_argue(b->g, 1);
    return y;
}

static void attention(struct building *b)
{
    int64_t c = b->value[OPTION_hidden];
    struct op_attention_weights w = {.mask = b->mask};
    w.in_w = parameter(b, "in_proj.weight", 3 * c, c);
    w.in_b = parameter(b, "in_proj.bias", 3 * c, 0);
    w.out_w = parameter(b, "out_proj.weight", c, c);
    w.out_b = parameter(b, "out_proj.bias", c, 0);
    uint32_t y = op_attention(b->g, "attention", b->x, &w);
    spmd_argue(b->g, b->value[OPTION_heads]);
    y = dropout(b, "dropout1", op_item(b->g, "item", y));
    b->x = norm(b, "norm1", op_binary(b->g, "add", "residual1", b->x, y));
}

static void feed_forward(struct building *b)
{
    int64_t hidden = b->value[OPTION_hidden], inner = b->value[OPTION_inner];
    uint32_t y = op_elementwise(b->g, "relu", "relu", linear(b, "linear1", b->x, hidden, inner));
    y = dropout(b, "dropout3", linear(b, "linear2", dropout(b, "dropout2", y), inner, hidden));
    b->x = norm(b, "norm2", op_binary(b->g, "add", "residual2", b->x, y));
}

/* Samples come first in the products of experts, tokens in those of attention. */
static void experts(struct building *b)
{
    const int64_t *v = b->value, c = v[OPTION_hidden], n = v[OPTION_experts];
    int64_t slots = (int64_t)ceil((double)v[OPTION_seq] / (double)n * 1.25 * (double)v[OPTION_top]);
    uint32_t x = op_transpose(b->g, "transpose1", b->x, 0, 1);
    uint32_t masks = op_gate(b->g, "gate", x, parameter(b, "gate.weight", c, n), slots);
    spmd_argue(b->g, v[OPTION_top]);
    uint32_t to = op_item(b->g, "dispatch.mask", masks);
    uint32_t from = op_item(b->g, "combine.mask", masks + 1);
    uint32_t y = op_einsum(b->g, "dispatch", "dispatch", x, to);
    uint32_t w1 = op_parameter(b->g, "w1", 3, (int64_t[]){n, c, v[OPTION_inner]});
    y = op_einsum(b->g, "expert_in", "expert_in", w1, y);
    y = op_elementwise(b->g, "relu", "relu", y);
    uint32_t w2 = op_parameter(b->g, "w2", 3, (int64_t[]){n, v[OPTION_inner], c});
    y = op_einsum(b->g, "expert_out", "expert_out", w2, y);
    y = op_transpose(b->g, "transpose2", op_einsum(b->g, "combine", "combine", y, from), 0, 1);
    b->x = norm(b, "norm2", op_binary(b->g, "add", "residual2", b->x, y));
}

static void layer_ttransformer(struct building *b, int64_t layer)
{
    (void)layer;
    attention(b);
    feed_forward(b);
}

static void layer_tmoe(struct building *b, int64_t layer)
{
    attention(b);
    if (layer % 2 == 1)
        experts(b);
    else
        feed_forward(b);
}

static void (*const layers[])(struct building *b, int64_t layer) = {
#define MODEL(name, summary) layer_##name,
#include "partition/published/hidup/models.def"
#undef MODEL
};

/* Which model a specification begins with. */
static size_t find(const char *spec)
{
    size_t length = strcspn(spec, ":"), i = 0;
    while (i < spmd_families_n && (strlen(spmd_families[i].name) != length ||
                                   memcmp(spmd_families[i].name, spec, length) != 0))
        i++;
    return i;
}

static const char known[] =
#define OPTION(name, standard, most, help) " " #name
#include "partition/published/hidup/models.def"
#undef OPTION
    ;

static const char families[] =
#define MODEL(name, summary) " " #name
#include "partition/published/hidup/models.def"
#undef MODEL
    ;

/* "key=value,..." behind the model's name. */
static enum status read_options(const char *text, int64_t value[OPTIONS])
{
    char word[SPMD_NAME];
    for (size_t length; *text; text += length) {
        length = strcspn(++text, ",");
        if (length >= sizeof word)
            return error_set(STATUS_INVALID, "'%.40s': too long", text);
        memcpy(word, text, length);
        word[length] = '\0';
        char *equals = strchr(word, '=');
        if (equals)
            *equals++ = '\0';
        size_t i = 0;
        while (i < OPTIONS && strcmp(spmd_options[i].name, word) != 0)
            i++;
        uint64_t n;
        if (i == OPTIONS)
            return error_set(STATUS_INVALID, "no option '%s'; known:%s", word, known);
        if (!equals || !text_count(equals, (uint64_t)spmd_options[i].most, &n) || n == 0)
            return error_set(STATUS_INVALID, "%s is a whole number from 1 to %lld", word,
                             (long long)spmd_options[i].most);
        value[i] = (int64_t)n;
    }
    return STATUS_OK;
}

static enum status build(struct building *b, size_t family)
{
    const int64_t *v = b->value;
    const int64_t stream[3] = {v[OPTION_batch], v[OPTION_seq], v[OPTION_hidden]};
    bool attends = layers[family] == layer_ttransformer || layers[family] == layer_tmoe;
    struct spmd_graph *g = b->g;
    b->x = op_input(g, "x", 3, stream);
    op_input(g, "y", 2, stream);
    if (attends) {
        b->mask = op_mask(g, "src_mask", 2, (int64_t[]){stream[1], stream[1]});
        b->x = op_transpose(g, "transpose", b->x, 0, 1);
    }
    for (int64_t l = 0; l < v[OPTION_layers] && g->status == STATUS_OK; l++) {
        snprintf(g->prefix, sizeof g->prefix, "h%lld.", (long long)l);
        layers[family](b, l);
    }
    g->prefix[0] = '\0';
    op_output(g, "output", op_sum(g, "sum", b->x));
    return spmd_finish(g);
}

bool spmd_has(const char *spec)
{
    return find(spec) < spmd_families_n;
}

enum status spmd_model_part(const char *spec, bool compat, int64_t samples, struct spmd_graph *out)
{
    struct spmd_graph g = {.compat = compat};
    struct building b = {.g = &g};
    size_t length = strcspn(spec, ":"), family = find(spec);
    if (family == spmd_families_n)
        return error_set(STATUS_INVALID, "no model of HiDup is called '%.*s'; there are%s",
                         (int)(length < 60 ? length : 60), spec, families);
    for (size_t i = 0; i < OPTIONS; i++)
        b.value[i] = spmd_options[i].standard;
    enum status st = read_options(spec + length, b.value);
    if (st != STATUS_OK)
        return error_context(st, "%s", spmd_families[family].name);
    if (samples > 0)
        b.value[OPTION_batch] = samples;
    st = build(&b, family);
    if (st != STATUS_OK) {
        spmd_graph_free(&g);
        return st;
    }
    *out = g;
    return STATUS_OK;
}

enum status spmd_model(const char *spec, bool compat, struct spmd_graph *out)
{
    return spmd_model_part(spec, compat, 0, out);
}
