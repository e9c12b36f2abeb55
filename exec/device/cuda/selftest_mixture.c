#include "exec/device/cuda/selftest.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/random.h"
#include "exec/device/cuda/mixture.h"

enum { SHAPES = 100 };
/* What experts make is rounded twice on its way to 16 bits, bf16 by up to 3.9e-3 each and fp16 by
 * an eighth of it: behind the activation, and as a sum. */
static const struct selftest_limit limits[] = {{"gates, random shapes", {1e-6, 6e-3, 1e-3}},
                                               {"experts, random shapes", {1e-6, 6e-3, 1e-3}}};

#define draw selftest_draw

static struct selftest_division mixture_whole_case(const char *kind, size_t batch)
{
    return (struct selftest_division){
        .k = {.name = kind, .kind = kind, .batch = batch}, .tensor = TENSOR_WHOLE, .groups = 1};
}

static void mixture_set_attribute(struct selftest_division *d, char *name, int64_t value)
{
    d->k.attribute[d->k.attributes++] = (struct model_attribute){name, value};
}

/* Sigmoids or a softmax, a bias, a correction or neither, groups of which some are open. */
static struct selftest_division mixture_gate(size_t shape)
{
    struct selftest_division d = mixture_whole_case("gate", 1 + (size_t)draw(shape, 0, 3));
    int64_t groups = 1 + draw(shape, 1, 4), each = 1 + draw(shape, 2, 20);
    int64_t open = 1 + draw(shape, 3, groups), most = open * each < 6 ? open * each : 6;
    int64_t added = draw(shape, 4, 3);
    mixture_set_attribute(&d, "tokens", 2 * (1 + draw(shape, 5, 30)));
    mixture_set_attribute(&d, "channels", 1 + draw(shape, 6, 100));
    mixture_set_attribute(&d, "experts", groups * each);
    mixture_set_attribute(&d, "top_k", 1 + draw(shape, 7, most));
    bool sigmoid = draw(shape, 9, 2), none = sigmoid && d.k.attribute[3].value == 1;
    mixture_set_attribute(&d, "groups", groups);
    mixture_set_attribute(&d, "group_top", open);
    mixture_set_attribute(&d, "over_all",
                          none || draw(shape, 8, 2)); /* else its gradient is 0, and roundings */
    mixture_set_attribute(&d, "sigmoid", sigmoid);
    mixture_set_attribute(&d, "bias", added == 1);
    mixture_set_attribute(&d, "correction", added == 2);
    mixture_set_attribute(&d, "scale", 500 + draw(shape, 10, 2000));
    return d;
}

/* Gated or not, with biases, with room for all or with less; widths that tensor cores take, and
 * others. What is clamped is compared in fp32: its gradient jumps, and a number of 16 bits may be
 * at the other side. */
static struct selftest_division mixture_experts(size_t shape)
{
    struct selftest_division d = mixture_whole_case("experts", 1 + (size_t)draw(shape, 0, 3));
    int64_t tokens = 2 * (8 + draw(shape, 1, 52)), experts = 1 + draw(shape, 2, 9);
    int64_t top_k = 1 + draw(shape, 3, experts < 4 ? experts : 4), slots = tokens * top_k;
    bool cores = draw(shape, 4, 2);
    int64_t gated = draw(shape, 5, 2);
    if (draw(shape, 6, 2) && slots >= 2 * experts)
        slots = (slots / 2 + experts - 1) / experts * experts;
    mixture_set_attribute(&d, "tokens", tokens);
    mixture_set_attribute(&d, "channels",
                          cores ? 8 * (2 + draw(shape, 7, 12)) : 16 + draw(shape, 7, 90));
    mixture_set_attribute(&d, "inner",
                          cores ? 8 * (2 + draw(shape, 8, 20)) : 16 + draw(shape, 8, 90));
    mixture_set_attribute(&d, "experts", experts);
    mixture_set_attribute(&d, "top_k", top_k);
    mixture_set_attribute(&d, "slots", slots);
    mixture_set_attribute(&d, "gated", gated);
    mixture_set_attribute(&d, "bias", draw(shape, 9, 2));
    mixture_set_attribute(&d, "clamped", gated && shape % 4 == 0);
    return d;
}

static struct selftest_division mixture_token_gate(size_t shape)
{
    struct selftest_division d = mixture_whole_case("token_gate", 1 + (size_t)draw(shape, 0, 3));
    mixture_set_attribute(&d, "tokens", 1 + draw(shape, 1, 100));
    mixture_set_attribute(&d, "channels", 2 * (1 + draw(shape, 2, 100)));
    return d;
}

static struct selftest_division mixture_shape(size_t shape)
{
    static struct selftest_division (*const of[])(size_t) = {
        mixture_gate, mixture_experts, mixture_experts, mixture_token_gate, mixture_experts};
    return of[shape % 5](shape);
}

static size_t mixture_row(const struct selftest_division *d)
{
    return strcmp(d->k.kind, "experts") == 0;
}

static bool is_clamped(const struct selftest_division *d)
{
    const struct model_attribute *last = &d->k.attribute[d->k.attributes - 1];
    return strcmp(last->name, "clamped") == 0 && last->value != 0;
}

/* ---- more experts than 16 bits have whole numbers */

enum { MANY = 3000, MANY_ROWS = 200, MANY_TOP = 2 };

static size_t mixture_number(enum element half, uint16_t bits)
{
    const size_t whole = half == ELEMENT_BF16 ? 256 : 2048,
                 last = half == ELEMENT_BF16 ? 0x4380 : 0x6800;
    float value = element_get(half, &bits, 0);
    return value <= (float)whole ? (size_t)value : whole + bits - last;
}

/* The best two of a row by the slow way. */
static void best_two(const float *score, size_t best[MANY_TOP])
{
    for (size_t k = 0; k < MANY_TOP; k++) {
        best[k] = MANY;
        for (size_t e = 0; e < MANY; e++)
            if ((k == 0 || e != best[0]) && (best[k] == MANY || score[e] > score[best[k]]))
                best[k] = e;
    }
}

/* Host copies: scores, what the gate has made of them, how many rows each expert has. */
struct many {
    float score[MANY_ROWS * MANY];
    uint16_t y[MANY_ROWS * 2 * MANY_TOP];
    int32_t begin[MANY + 1];
};

/* Choices that differ, and experts that have other numbers of rows than choices. */
static double mixture_count_wrong(const struct many *m, enum element half)
{
    int32_t wanted[MANY] = {0};
    double n = 0;
    for (size_t row = 0; row < MANY_ROWS; row++) {
        size_t best[MANY_TOP];
        best_two(m->score + row * MANY, best);
        for (size_t k = 0; k < MANY_TOP; k++) {
            n += mixture_number(half, m->y[row * 2 * MANY_TOP + k]) != best[k];
            wanted[best[k]]++;
        }
    }
    for (size_t e = 0; e < MANY; e++)
        n += m->begin[e + 1] - m->begin[e] != wanted[e];
    return n;
}

static enum status gate_many(struct cuda_context *c, struct many *m, enum element half,
                             char *memory)
{
    enum { CHOICES = MANY_ROWS * MANY_TOP };
    int32_t *numbers = (int32_t *)(void *)(memory + sizeof m->score + sizeof m->y);
    struct kernel_gate g = {.type = cuda_numbers(half),
                            .rows = MANY_ROWS,
                            .experts = MANY,
                            .top_k = MANY_TOP,
                            .groups = 1,
                            .group_top = 1,
                            .scale = 1,
                            .p = (float *)(void *)memory};
    struct kernel_routes r = {.type = cuda_numbers(half),
                              .samples = 1,
                              .tokens = MANY_ROWS,
                              .top_k = MANY_TOP,
                              .experts = MANY,
                              .room = CHOICES,
                              .y = memory + sizeof m->score,
                              .place = numbers,
                              .choice = numbers + CHOICES,
                              .count = numbers + 2 * CHOICES,
                              .first = numbers + 2 * CHOICES + MANY,
                              .total = numbers + 2 * CHOICES + 2 * MANY,
                              .begin = numbers + 2 * CHOICES + 3 * MANY,
                              .tile = numbers + 2 * CHOICES + 4 * MANY + 1,
                              .weight = (float *)(numbers + 2 * CHOICES + 5 * MANY + 2)};
    backend_cuda.copy(c, memory, m->score, sizeof m->score);
    CUDA_NOTE(c, "gate", kernel_gate(&g, memory + sizeof m->score));
    CUDA_NOTE(c, "routes", kernel_routes(&r));
    backend_cuda.copy(c, m->y, memory + sizeof m->score, sizeof m->y);
    backend_cuda.copy(c, m->begin, r.begin, sizeof m->begin);
    return cuda_finish(c);
}

static enum status try_many(struct cuda_context *c, enum element half, FILE *to, bool *good)
{
    enum status st;
    struct many *m;
    void *memory = NULL;
    char name[64];
    TRY(ARRAY_NEW(m, 1));
    for (size_t i = 0; i < MANY_ROWS * MANY; i++)
        m->score[i] = (float)random_unit(1, i);
    TRY(CUDA_ERROR("memory", cudaMalloc(&memory, 2 * sizeof *m)));
    TRY(gate_many(c, m, half, memory));
    snprintf(name, sizeof name, "%d experts in %s, wrong choices", MANY, element_names[half]);
    *good = selftest_row(to, name, mixture_count_wrong(m, half), 0) && *good;
out:
    cudaFree(memory);
    free(m);
    return st;
}

enum status selftest_mixture(struct cuda_context *c, FILE *to, bool *good)
{
    const struct selftest_family mixture = {SHAPES, mixture_shape, mixture_row, is_clamped, NULL,
                                            2,      limits};
    PASS(selftest_shapes(c, &mixture, to, good));
    for (enum element half = ELEMENT_BF16; half < ELEMENTS; half++)
        PASS(try_many(c, half, to, good));
    return STATUS_OK;
}
