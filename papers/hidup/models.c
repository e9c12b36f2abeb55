/* The models of models.def: options, and a function each that appends the nodes. */
#include "papers/hidup/models.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "papers/hidup/ops.h"

enum option {
#define OPTION(name, standard, most, help) OPTION_##name,
#include "papers/hidup/models.def"
#undef OPTION
    OPTIONS
};

const struct papers_option spmd_options[] = {
#define OPTION(name, standard, most, help) {#name, standard, most},
#include "papers/hidup/models.def"
#undef OPTION
    {0},
};

/* Where an input comes from: drawn numbers, words, images. */
enum ends { SYNTHETIC, WORDS, IMAGES };
enum { COLOURS = 3, PATCH = 4 };

/* A model that is being built: the stream x, what it is compared with, and what it is made of. */
struct graph_building {
    struct spmd_graph *g;
    enum ends ends;
    int64_t value[OPTIONS];
    uint32_t x, y, mask;
};

static uint32_t parameter(struct graph_building *b, const char *name, int64_t rows, int64_t columns)
{
    return op_parameter(b->g, name, columns ? 2 : 1, (int64_t[]){rows, columns});
}

/* Weight, bias, product. */
static uint32_t hidup_model_linear(struct graph_building *b, const char *name, uint32_t x,
                                   int64_t in, int64_t out)
{
    char weight[SPMD_NAME], bias[SPMD_NAME];
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    uint32_t w = parameter(b, weight, out, in);
    return op_linear(b->g, name, x, w, parameter(b, bias, out, 0));
}

static uint32_t hidup_model_norm(struct graph_building *b, const char *name, uint32_t x)
{
    char weight[SPMD_NAME], bias[SPMD_NAME];
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    uint32_t w = parameter(b, weight, b->value[OPTION_hidden], 0);
    return op_layer_norm(b->g, name, x, w, parameter(b, bias, b->value[OPTION_hidden], 0));
}

static void layer_mlp(struct graph_building *b, int64_t layer)
{
    int64_t hidden = b->value[OPTION_hidden];
    (void)layer;
    b->x = op_elementwise(b->g, "sigmoid", "sigmoid",
                          hidup_model_linear(b, "linear", b->x, hidden, hidden));
}

static void layer_mlp2(struct graph_building *b, int64_t layer)
{
    int64_t hidden = b->value[OPTION_hidden], inner = b->value[OPTION_inner];
    (void)layer;
    uint32_t x =
        op_elementwise(b->g, "relu", "relu", hidup_model_linear(b, "linear1", b->x, hidden, inner));
    b->x = hidup_model_linear(b, "linear2", x, inner, hidden);
}

/* Of a stream in which samples are along dimension 1. */
static uint32_t dropout(struct graph_building *b, const char *name, uint32_t x)
{
    uint32_t y = op_elementwise(b->g, "dropout", name, x);
    spmd_argue(b->g, 1);
    return y;
}

static void hidup_model_attention(struct graph_building *b)
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
    b->x = hidup_model_norm(b, "norm1", op_binary(b->g, "add", "residual1", b->x, y));
}

static void hidup_model_feed_forward(struct graph_building *b)
{
    int64_t hidden = b->value[OPTION_hidden], inner = b->value[OPTION_inner];
    uint32_t y =
        op_elementwise(b->g, "relu", "relu", hidup_model_linear(b, "linear1", b->x, hidden, inner));
    y = dropout(b, "dropout3",
                hidup_model_linear(b, "linear2", dropout(b, "dropout2", y), inner, hidden));
    b->x = hidup_model_norm(b, "norm2", op_binary(b->g, "add", "residual2", b->x, y));
}

/* Samples come first in the products of experts, tokens in those of attention. */
static void hidup_model_experts(struct graph_building *b)
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
    b->x = hidup_model_norm(b, "norm2", op_binary(b->g, "add", "residual2", b->x, y));
}

static void layer_transformer(struct graph_building *b, int64_t layer)
{
    (void)layer;
    hidup_model_attention(b);
    hidup_model_feed_forward(b);
}

static void layer_moe(struct graph_building *b, int64_t layer)
{
    hidup_model_attention(b);
    if (layer % 2 == 1)
        hidup_model_experts(b);
    else
        hidup_model_feed_forward(b);
}

/* Rows of models.def, for those of papers_models[]. */
static const struct hidup_model_row {
    void (*layer)(struct graph_building *b, int64_t layer);
    enum ends ends;
    int64_t top;
} rows[] = {
#define MODEL(name, layer, ends, top) [PAPERS_MODEL_##name] = {layer_##layer, ends, top},
#include "papers/hidup/models.def"
#undef MODEL
};

static const char known[] =
#define OPTION(name, standard, most, help) " " #name
#include "papers/hidup/models.def"
#undef OPTION
    ;

static const char families[] =
#define MODEL(name, alone, summary) " " #name
#include "model/papers.def"
#undef MODEL
    ;

/* "dtype=fp16" */
static enum status read_dtype(const char *word, enum data_type *out)
{
    for (size_t i = 1; i < DATA_TYPES; i++)
        if (!strcmp(data_type_names[i], word) && !data_type_narrow((enum data_type)i)) {
            *out = (enum data_type)i;
            return STATUS_OK;
        }
    return error_set(STATUS_INVALID, "dtype: got '%.40s', expected fp32, tf32, fp16 or bf16", word);
}

/* "key=value,..." behind the model's name. */
static enum status hidup_model_read_options(const char *text, int64_t value[OPTIONS],
                                            enum data_type *dtype)
{
    char word[SPMD_NAME];
    for (size_t length; *text; text += length) {
        length = strcspn(++text, ",");
        if (length >= sizeof word)
            return error_set(STATUS_INVALID, "option '%.40s...' has more than %zu characters", text,
                             sizeof word - 1);
        memcpy(word, text, length);
        word[length] = '\0';
        if (!strcmp(word, "ops=1"))
            continue;
        char *equals = strchr(word, '=');
        if (equals)
            *equals++ = '\0';
        size_t i = 0;
        while (i < OPTIONS && strcmp(spmd_options[i].name, word) != 0)
            i++;
        uint64_t n;
        if (equals && !strcmp(word, "dtype")) {
            PASS(read_dtype(equals, dtype));
            continue;
        }
        if (i == OPTIONS)
            return error_set(STATUS_INVALID, "unknown option '%s'; known:%s dtype", word, known);
        if (!equals || !text_count(equals, (uint64_t)spmd_options[i].most, &n) || n == 0)
            return error_set(STATUS_INVALID, "%s must be a whole number from 1 to %lld", word,
                             (long long)spmd_options[i].most);
        value[i] = (int64_t)n;
    }
    return STATUS_OK;
}

/* ---- before the layers, and behind them */

/* Numbers as they are drawn; the loss is their sum in the end. */
static void begin_synthetic(struct graph_building *b)
{
    const int64_t *v = b->value;
    const int64_t stream[3] = {v[OPTION_batch], v[OPTION_seq], v[OPTION_hidden]};
    b->x = op_input(b->g, "x", 3, stream);
    op_input(b->g, "y", 2, stream);
}

/* Positions are constants that are added, which nothing waits for: they are left out. */
static void begin_words(struct graph_building *b)
{
    const int64_t *v = b->value;
    const int64_t text[2] = {v[OPTION_batch], v[OPTION_seq]};
    uint32_t x = op_input(b->g, "x", 2, text);
    b->y = op_input(b->g, "y", 2, text);
    uint32_t table = parameter(b, "encoder.weight", v[OPTION_classes], v[OPTION_hidden]);
    x = op_embedding(b->g, "encoder", x, table);
    b->x = op_binary(b->g, "mul", "scale", x, SPMD_NO_TENSOR);
    spmd_argue(b->g, v[OPTION_hidden]); /* by its root */
}

/* Patches of a square image, a class token before them, and learned positions. */
static void begin_images(struct graph_building *b)
{
    const int64_t *v = b->value, c = v[OPTION_hidden];
    int64_t side = (int64_t)lround(sqrt((double)v[OPTION_seq]));
    if (side * side != v[OPTION_seq] && b->g->status == STATUS_OK)
        b->g->status = error_set(
            STATUS_INVALID,
            "seq=%lld patches do not make a square image, expected a square number such as 64",
            (long long)v[OPTION_seq]);
    uint32_t x =
        op_input(b->g, "x", 4, (int64_t[]){v[OPTION_batch], COLOURS, side * PATCH, side * PATCH});
    b->y = op_input(b->g, "y", 1, v + OPTION_batch);
    uint32_t w = op_parameter(b->g, "patches.weight", 4, (int64_t[]){c, COLOURS, PATCH, PATCH});
    x = op_conv2d(b->g, "patches", x, w, parameter(b, "patches.bias", c, 0));
    x = op_transpose(b->g, "patches.transpose", op_flatten(b->g, "patches.flatten", x, 2), 1, 2);
    uint32_t row = op_parameter(b->g, "class", 3, (int64_t[]){1, 1, c});
    x = op_append_class(b->g, "patches.class", x, row);
    row = op_parameter(b->g, "positions", 3, (int64_t[]){1, v[OPTION_seq] + 1, c});
    b->x = op_binary(b->g, "add", "patches.positions", x, row);
}

/* The loss of a product with a row for each word or class. */
static uint32_t hidup_model_end(struct graph_building *b)
{
    struct spmd_graph *g = b->g;
    if (b->ends == SYNTHETIC)
        return op_sum(g, "sum", b->x);
    uint32_t x = op_transpose(g, "transpose.back", b->x, 0, 1);
    if (b->ends == IMAGES)
        x = op_get_class(g, "class.token", x);
    x = hidup_model_linear(b, "decoder", x, b->value[OPTION_hidden], b->value[OPTION_classes]);
    size_t dim = b->ends == WORDS ? 2 : 1;
    x = op_softmax(g, "log_softmax", x, dim, true);
    spmd_argue(g, (int64_t)dim);
    return op_nll_loss(g, "loss", b->ends == WORDS ? op_transpose(g, "classes", x, 1, 2) : x, b->y);
}

static enum status hidup_model_build(struct graph_building *b, size_t family)
{
    static void (*const begin[])(struct graph_building * b) = {
        [SYNTHETIC] = begin_synthetic, [WORDS] = begin_words, [IMAGES] = begin_images};
    const struct hidup_model_row *row = &rows[family];
    int64_t tokens = b->value[OPTION_seq];
    struct spmd_graph *g = b->g;
    b->ends = row->ends;
    begin[b->ends](b);
    b->mask = SPMD_NO_TENSOR;
    if (row->layer == layer_transformer || row->layer == layer_moe) {
        if (b->ends != IMAGES)
            b->mask = op_mask(g, "src_mask", 2, (int64_t[]){tokens, tokens});
        b->x = op_transpose(g, "transpose", b->x, 0, 1);
    }
    for (int64_t l = 0; l < b->value[OPTION_layers] && g->status == STATUS_OK; l++) {
        snprintf(g->prefix, sizeof g->prefix, "h%lld.", (long long)l);
        row->layer(b, l);
    }
    g->prefix[0] = '\0';
    op_output(g, "output", hidup_model_end(b));
    return spmd_finish(g);
}

enum status spmd_model_part(const char *spec, bool compat, int64_t samples, struct spmd_graph *out)
{
    struct spmd_graph g = {.compat = compat, .dtype = DATA_fp32};
    struct graph_building b = {.g = &g};
    size_t length = strcspn(spec, ":"), family = papers_model_find(spec);
    if (family == papers_models_n)
        return error_set(STATUS_INVALID, "unknown model of HiDup '%.*s'; known:%s",
                         (int)(length < 60 ? length : 60), spec, families);
    const char *name = papers_models[family].name;
    if (!papers_has_model(spec))
        return error_set(STATUS_INVALID,
                         "HiDup strategies need a model at operator level. Try %s:ops=1", name);
    for (size_t i = 0; i < OPTIONS; i++)
        b.value[i] = spmd_options[i].standard;
    b.value[OPTION_top] = rows[family].top;
    if (rows[family].ends == IMAGES) {
        b.value[OPTION_seq] = 64;
        b.value[OPTION_classes] = 10;
    }
    enum status st = hidup_model_read_options(spec + length, b.value, &g.dtype);
    if (st != STATUS_OK)
        return error_context(st, "%s", name);
    if (samples > 0)
        b.value[OPTION_batch] = samples;
    st = hidup_model_build(&b, family);
    if (st != STATUS_OK) {
        spmd_graph_free(&g);
        return error_context(st, "%s", name);
    }
    *out = g;
    return STATUS_OK;
}

enum status spmd_model(const char *spec, bool compat, struct spmd_graph *out)
{
    return spmd_model_part(spec, compat, 0, out);
}
