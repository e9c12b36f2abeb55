#include "exec/device/cuda/selftest.h"

#include <string.h>

/* Kinds of random shapes of which mixtures, attention and GPT have none. */
enum { SHAPES = 240 };
static const struct selftest_limit limits[] = {{"other kinds, random shapes", {1e-6, 6e-3, 1e-3}}};

static const char *const kinds[] = {
    "add_row",   "affine",   "batchnorm",   "concat",   "convolution", "depthwise",
    "groupnorm", "joined",   "lstm",        "multiply", "neighbours",  "dynamic_convolution",
    "pool",      "pooler",   "positions",   "relative", "relu",        "silu",
    "sinusoids", "upsample", "convolution", "pool",     "lstm",        "relative",
};
enum { KINDS = sizeof kinds / sizeof *kinds };

#define draw selftest_draw

static void selftest_set_attribute(struct selftest_case *k, char *name, int64_t value)
{
    k->attribute[k->attributes++] = (struct model_attribute){name, value};
}

/* 2 .. 2 n, even: numbers of 16 bits come in pairs. */
static int64_t even(size_t shape, size_t k, int64_t n)
{
    return 2 * (1 + draw(shape, k, n));
}

/* Windows that fit; strides beyond a window leave positions that none has. */
static void selftest_set_windows(struct selftest_case *k, size_t shape, bool pools)
{
    int64_t kernel = 1 + draw(shape, 10, 4), most = pools ? kernel / 2 : kernel - 1;
    selftest_set_attribute(k, "height", kernel + draw(shape, 11, 9));
    selftest_set_attribute(k, "width", kernel + draw(shape, 12, 9));
    selftest_set_attribute(k, "kernel", kernel);
    selftest_set_attribute(k, "stride", 1 + draw(shape, 13, 3));
    selftest_set_attribute(k, "padding", draw(shape, 14, most + 1));
}

static void image_case(struct selftest_case *k, size_t shape)
{
    if (!strcmp(k->kind, "convolution")) {
        selftest_set_attribute(k, "in", even(shape, 1, 8));
        selftest_set_attribute(k, "out", even(shape, 2, 20));
        selftest_set_attribute(k, "bias", draw(shape, 3, 2));
        selftest_set_windows(k, shape, false);
        return;
    }
    selftest_set_attribute(k, "channels", even(shape, 1, 20));
    if (!strcmp(k->kind, "pool")) {
        selftest_set_attribute(k, "average", draw(shape, 3, 2));
        selftest_set_windows(k, shape, true);
        return;
    }
    selftest_set_attribute(k, "height", 1 + draw(shape, 4, 9));
    selftest_set_attribute(k, "width", 1 + draw(shape, 5, 9));
}

static void norm_case(struct selftest_case *k, size_t shape)
{
    int64_t groups = strcmp(k->kind, "groupnorm") ? 1 : 1 + draw(shape, 1, 8);
    selftest_set_attribute(k, "positions", 16 + draw(shape, 2, 100));
    selftest_set_attribute(k, "channels", groups * even(shape, 3, 12));
    if (!strcmp(k->kind, "groupnorm"))
        selftest_set_attribute(k, "groups", groups);
}

/* What has tokens, and its own names for widths. */
static void token_case(struct selftest_case *k, size_t shape)
{
    int64_t tokens = 1 + draw(shape, 1, 40), channels = even(shape, 2, 40);
    int64_t heads = 1 + draw(shape, 3, 4), kernel = 1 + 2 * draw(shape, 4, 5);
    selftest_set_attribute(k, strcmp(k->kind, "sinusoids") ? "tokens" : "rows", tokens);
    if (!strcmp(k->kind, "joined") || !strcmp(k->kind, "lstm")) {
        selftest_set_attribute(k, "in", 1 + channels);
        selftest_set_attribute(k, "out", even(shape, 5, 30));
    } else if (!strcmp(k->kind, "concat")) {
        selftest_set_attribute(k, "first", channels);
        selftest_set_attribute(k, "second", 1 + draw(shape, 5, 60));
    } else {
        selftest_set_attribute(k, "channels", channels * heads);
    }
    if (!strcmp(k->kind, "joined")) {
        selftest_set_attribute(k, "own", 1 + draw(shape, 6, channels));
        selftest_set_attribute(k, "bias", draw(shape, 7, 2));
    } else if (!strcmp(k->kind, "lstm")) {
        selftest_set_attribute(k, "reverse", draw(shape, 7, 2));
    } else if (!strcmp(k->kind, "multiply")) {
        selftest_set_attribute(k, "width", channels * heads + draw(shape, 5, 20));
    } else if (!strcmp(k->kind, "positions")) {
        selftest_set_attribute(k, "positions", tokens + draw(shape, 5, 9));
        selftest_set_attribute(k, "types", draw(shape, 6, 3));
    } else if (!strcmp(k->kind, "sinusoids")) {
        selftest_set_attribute(k, "first", draw(shape, 5, 60));
    } else if (!strcmp(k->kind, "depthwise") || !strcmp(k->kind, "dynamic_convolution")) {
        selftest_set_attribute(k, "kernel", kernel);
    } else if (!strcmp(k->kind, "relative")) {
        selftest_set_attribute(k, "distances", 2 * tokens);
        selftest_set_attribute(k, "learned", 2 * channels * heads + draw(shape, 5, 30));
    }
    if (!strcmp(k->kind, "relative") || !strcmp(k->kind, "dynamic_convolution"))
        selftest_set_attribute(k, "heads", heads);
}

static struct selftest_division selftest_kind_shape(size_t shape)
{
    static const char *const images[] = {"convolution", "pool", "upsample"}, *const norms[] = {
                                                                                 "batchnorm",
                                                                                 "groupnorm"};
    const char *kind = kinds[shape % KINDS];
    struct selftest_division d = {
        .k = {.name = kind, .kind = kind, .batch = 1 + (size_t)draw(shape, 0, 3)},
        .tensor = TENSOR_WHOLE,
        .groups = 1};
    void (*of)(struct selftest_case *, size_t) = token_case;
    d.k.tied = !strcmp(kind, "joined");
    for (size_t i = 0; i < sizeof images / sizeof *images; i++)
        of = strcmp(kind, images[i]) ? of : image_case;
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        of = strcmp(kind, norms[i]) ? of : norm_case;
    of(&d.k, shape);
    return d;
}

static size_t selftest_kind_row(const struct selftest_division *d)
{
    (void)d;
    return 0;
}

/* Kinds that the CPU computes and the GPU does not. */
static size_t missing(FILE *to)
{
    size_t n = 0;
    for (int k = 0; k < OPERATORS; k++)
        if (layer_kind_of((enum operator_type)k) && !cuda_has((enum operator_type)k)) {
            fprintf(to, "kind '%s' has no kernels\n", operator_table[k].name);
            n++;
        }
    return n;
}

enum status selftest_kinds(struct cuda_context *c, FILE *to, bool *good)
{
    enum status st;
    const struct selftest_family all = {
        SHAPES, selftest_kind_shape, selftest_kind_row, NULL, NULL, 1, limits};
    TRY(selftest_shapes(c, &all, to, good));
    *good = selftest_row(to, "kinds that the GPU lacks", (double)missing(to), 0) && *good;
out:
    return st;
}
