#include <math.h>
#include <stdlib.h>

#include "exec/device/cuda/selftest.h"
#include "exec/device/cuda/selftest_operands.h"

/* Products of up to 4096 numbers in other orders, in fp32; bf16 has 8 bits, so that each result is
 * off by 2^-9, and what is made from rounded results by a few times that; fp16 has 11. */
static const double limit[ELEMENTS] = {1e-4, 1e-2, 1e-3};

/* A sum over shards that run one after the other: each forward is made twice, first to add up, then
 * to be given the total. */
struct shard_sums {
    struct cuda_context *c; /* NULL: host memory */
    real *total;            /* [n] zeros at first; NULL: no sums */
    bool give;
};

static void sum_shards(void *self, enum element e, void *array, size_t n)
{
    real *data = array;
    (void)e; /* fp32 */
    const struct shard_sums *s = self;
    if (s->c && s->give)
        backend_cuda.copy(s->c, data, s->total, n * sizeof *data);
    else if (s->c)
        backend_cuda.add(s->c, s->total, data, n);
    for (size_t i = 0; !s->c && i < n; i++)
        *(s->give ? &data[i] : &s->total[i]) = s->total[i] + (s->give ? 0 : data[i]);
}

static enum status compare_loss(struct cuda_context *c, double wanted, double *worst)
{
    double found = 0;
    backend_cuda.copy(c, &found, c->loss, sizeof found);
    backend_cuda.zero(c, c->loss, sizeof found);
    double off = fabs(found - wanted) / (wanted > 0 ? wanted : 1);
    *worst = off <= *worst ? *worst : off;
    return cuda_status(c);
}

/* ---- cases */

enum { MOST_SHARDS = 4 };

static const struct selftest_case cases[] = {
    {"embedding",
     "embedding",
     3,
     false,
     5,
     {{"tokens", 96}, {"channels", 200}, {"vocabulary", 300}, {"positions", 128}, {"types", 2}}},
    {"embedding, concat",
     "embedding",
     5,
     false,
     4,
     {{"tokens", 8}, {"channels", 24}, {"vocabulary", 256}, {"concat", 1}}},
    {"embedding, 70000 rows",
     "embedding",
     1,
     false,
     4,
     {{"tokens", 70000}, {"channels", 4}, {"vocabulary", 256}, {"positions", 70000}}},
    {"layernorm 768", "layernorm", 3, false, 2, {{"tokens", 70}, {"channels", 768}}},
    {"layernorm 20", "layernorm", 1, false, 2, {{"tokens", 3}, {"channels", 20}}},
    {"layernorm 201", "layernorm", 2, false, 2, {{"tokens", 331}, {"channels", 201}}},
    {"layernorm 6200", "layernorm", 1, false, 2, {{"tokens", 18}, {"channels", 6200}}},
    {"linear with bias",
     "linear",
     2,
     false,
     4,
     {{"tokens", 100}, {"in", 192}, {"out", 320}, {"bias", 1}}},
    {"linear with bias, 333 channels",
     "linear",
     2,
     false,
     4,
     {{"tokens", 100}, {"in", 95}, {"out", 333}, {"bias", 1}}},
    {"linear, tied", "linear", 2, true, 3, {{"tokens", 33}, {"in", 64}, {"out", 256}}},
    {"gelu", "gelu", 2, false, 2, {{"tokens", 100}, {"channels", 3000}}},
    {"residual", "residual", 2, false, 2, {{"tokens", 100}, {"channels", 96}}},
    {"attention, causal",
     "attention",
     2,
     false,
     4,
     {{"tokens", 100}, {"channels", 96}, {"heads", 3}, {"causal", 1}}},
    {"attention, not causal",
     "attention",
     2,
     false,
     3,
     {{"tokens", 64}, {"channels", 64}, {"heads", 2}}},
    {"attention, 6 heads share 2",
     "attention",
     2,
     false,
     5,
     {{"tokens", 49}, {"channels", 480}, {"heads", 6}, {"kv_heads", 2}, {"causal", 1}}},
    {"attention, wide keys, window, sinks",
     "attention",
     2,
     false,
     7,
     {{"tokens", 70},
      {"channels", 128},
      {"heads", 4},
      {"head", 192},
      {"window", 20},
      {"causal", 1},
      {"sinks", 1}}},
    {"embedding, scaled",
     "embedding",
     2,
     false,
     4,
     {{"tokens", 30}, {"channels", 96}, {"vocabulary", 256}, {"scaled", 1}}},
    {"rmsnorm 768", "rmsnorm", 2, false, 2, {{"tokens", 50}, {"channels", 768}}},
    {"rmsnorm of queries and keys",
     "rmsnorm",
     2,
     false,
     5,
     {{"tokens", 20}, {"channels", 200}, {"of", 120}, {"queries", 80}, {"offset", 1}}},
    {"rmsnorm by heads",
     "rmsnorm",
     2,
     false,
     5,
     {{"tokens", 20}, {"channels", 200}, {"of", 120}, {"queries", 80}, {"head", 20}}},
    {"rope",
     "rope",
     2,
     false,
     5,
     {{"tokens", 60}, {"heads", 4}, {"kv_heads", 2}, {"head", 32}, {"base", 500000}}},
    {"rope of latents",
     "rope",
     2,
     false,
     6,
     {{"tokens", 30}, {"heads", 3}, {"kv_heads", 3}, {"head", 24}, {"turned", 8}, {"value", 20}}},
    {"gated, silu", "gated", 2, false, 2, {{"tokens", 40}, {"channels", 170}}},
    {"gated, tanh", "gated", 2, false, 3, {{"tokens", 40}, {"channels", 170}, {"tanh", 1}}},
    {"linear, passed by",
     "linear",
     2,
     false,
     4,
     {{"tokens", 30}, {"in", 64}, {"out", 96}, {"passes", 16}}},
    {"linear, passed by, bias",
     "linear",
     2,
     false,
     5,
     {{"tokens", 30}, {"in", 64}, {"out", 96}, {"passes", 16}, {"bias", 1}}},
    {"attention, heads of 320 and 576",
     "attention",
     1,
     false,
     5,
     {{"tokens", 21}, {"channels", 640}, {"heads", 2}, {"head", 576}, {"causal", 1}}},
    {"attention, heads of 1,100 and 2,100",
     "attention",
     1,
     false,
     7,
     {{"tokens", 9},
      {"channels", 2200},
      {"heads", 2},
      {"kv_heads", 1},
      {"head", 2100},
      {"causal", 1},
      {"sinks", 1}}},
    {"attention, heads of 1,100 and 30",
     "attention",
     2,
     false,
     4,
     {{"tokens", 7}, {"channels", 2200}, {"heads", 2}, {"head", 30}}},
    {"gate, groups",
     "gate",
     2,
     false,
     7,
     {{"tokens", 50},
      {"channels", 64},
      {"experts", 32},
      {"top_k", 4},
      {"sigmoid", 1},
      {"groups", 4},
      {"group_top", 2}}},
    {"token gate", "token_gate", 2, false, 2, {{"tokens", 50}, {"channels", 96}}},
    {"experts",
     "experts",
     2,
     false,
     7,
     {{"tokens", 50},
      {"channels", 64},
      {"inner", 96},
      {"experts", 6},
      {"top_k", 2},
      {"slots", 100},
      {"gated", 1}}},
    {"loss", "loss", 3, false, 2, {{"tokens", 50}, {"vocabulary", 1000}}},
    {"loss, 1003 classes", "loss", 2, false, 2, {{"tokens", 50}, {"vocabulary", 1003}}},
};

/* 2 and 4 shards. The vocabularies leave a rest, so that shards are not alike. */
static const struct selftest_division divisions[] = {
    {{"embedding",
      "embedding",
      3,
      false,
      5,
      {{"tokens", 96}, {"channels", 40}, {"vocabulary", 301}, {"positions", 130}, {"types", 2}}},
     TENSOR_ROW,
     1},
    {{"linear by outputs",
      "linear",
      2,
      false,
      4,
      {{"tokens", 40}, {"in", 64}, {"out", 192}, {"bias", 1}}},
     TENSOR_COLUMN,
     3},
    {{"linear by inputs",
      "linear",
      2,
      false,
      4,
      {{"tokens", 40}, {"in", 192}, {"out", 64}, {"bias", 1}}},
     TENSOR_ROW,
     1},
    {{"linear, tied, by outputs", "linear", 2, true, 3, {{"tokens", 33}, {"in", 64}, {"out", 301}}},
     TENSOR_COLUMN,
     1},
    {{"attention by heads",
      "attention",
      2,
      false,
      4,
      {{"tokens", 64}, {"channels", 96}, {"heads", 8}, {"causal", 1}}},
     TENSOR_SPLIT,
     1},
    {{"experts by inner channels",
      "experts",
      2,
      false,
      8,
      {{"tokens", 40},
       {"channels", 48},
       {"inner", 64},
       {"experts", 4},
       {"top_k", 2},
       {"slots", 80},
       {"gated", 1},
       {"bias", 1}}},
     TENSOR_SPLIT,
     1},
    {{"gelu by channels", "gelu", 2, false, 2, {{"tokens", 50}, {"channels", 320}}},
     TENSOR_SPLIT,
     1},
    {{"loss by classes", "loss", 3, false, 2, {{"tokens", 50}, {"vocabulary", 1001}}},
     TENSOR_SPLIT,
     1},
};

enum status selftest_shape(const struct selftest_division *d, const struct layer_shard *shard,
                           struct layer *out)
{
    enum status st;
    const struct selftest_case *k = &d->k;
    struct model_attribute attribute[SELFTEST_ATTRIBUTES];
    for (size_t i = 0; i < k->attributes; i++)
        attribute[i] = k->attribute[i];
    char name[] = "self-test", kind[32];
    snprintf(kind, sizeof kind, "%s", k->kind);
    const struct model_op op = {.name = name,
                                .kind = kind,
                                .attributes = k->attributes,
                                .attribute = attribute,
                                .tensor = (uint8_t)d->tensor};
    struct layer l = {.kind = layer_kind_of(operator_find(kind)),
                      .tied = k->tied,
                      .spread = {.ranks = 1, .shards = 1}};
    l.inputs = l.kind->inputs;
    TRY(l.kind->shape(&op, &l));
    for (size_t i = 0, from = 0; i < LAYER_PARTS; from += l.part[i++].n) {
        l.part[i].from = from;
        l.part[i].run = l.part[i].stride = l.part[i].n;
    }
    if (shard->shards > 1)
        TRY(l.kind->divide(&op, shard, k->batch, &l));
    l.shards = shard->shards;
    l.shard = shard->shard;
    for (size_t i = 0; i < LAYER_PARTS; i++)
        l.parameters += l.part[i].n;
    *out = l;
out:
    return st;
}

/* A layer, or its shards, on both devices. */
struct selftest_trial {
    const struct selftest_division *division;
    enum element half; /* on the GPU */
    bool large;
    size_t batch;
    size_t shards;
    struct layer cpu[MOST_SHARDS], gpu[MOST_SHARDS];
    struct operands operands[MOST_SHARDS];
    struct shard_sums host, device;
};

static void close_trial(struct selftest_trial *t)
{
    for (size_t i = 0; i < t->shards; i++)
        operands_close(&t->operands[i]);
    free(t->host.total);
    cudaFree(t->device.total);
}

static enum status open_trial(struct cuda_context *c, struct selftest_trial *t)
{
    enum status st = STATUS_OK;
    size_t room = 0;
    t->device.c = c;
    for (size_t i = 0; i < t->shards; i++) {
        TRY(selftest_shape(
            t->division,
            &(struct layer_shard){
                .shards = t->shards, .shard = i, .groups = t->division->groups, .parts = 1},
            &t->cpu[i]));
        t->gpu[i] = t->cpu[i];
        t->gpu[i].half = t->half;
        TRY(cuda_adapt(
            &(struct model_op){.kind = (char *)(uintptr_t)layer_kind_name(t->cpu[i].kind)},
            &t->gpu[i]));
        t->operands[i].large = t->large;
        TRY(operands_open(c, &t->cpu[i], &t->gpu[i], t->batch, &t->operands[i]));
        room = t->cpu[i].work > room ? t->cpu[i].work : room;
    }
    t->host.total = calloc(room + 1, sizeof(real));
    if (!t->host.total)
        return error_set(STATUS_NOMEM, "%zu elements", room);
    TRY(CUDA_ERROR("memory", cudaMalloc((void **)&t->device.total, (room + 1) * sizeof(real))));
    backend_cuda.zero(c, t->device.total, (room + 1) * sizeof(real));
out:
    return st;
}

/* Forward of shard i on both; the host's loss. */
static double selftest_layer_forward(struct selftest_trial *t, size_t i, struct layer_io *host,
                                     struct layer_io *device)
{
    const struct layer_reduction on_host = {.self = &t->host, .sum = sum_shards},
                                 on_device = {.self = &t->device, .sum = sum_shards};
    *host = operands_io(t->operands[i].host, t->batch, NULL);
    *device = operands_io(t->operands[i].gpu, t->batch, t->device.c);
    host->reduction = &on_host;
    device->reduction = &on_device;
    t->cpu[i].kind->forward(&t->cpu[i], host);
    t->gpu[i].kind->forward(&t->gpu[i], device);
    return host->loss * (double)host->loss_scale;
}

/* One shard's forward and backward on both sides; *worst grows to the largest difference. */
static enum status compare_shard(struct cuda_context *c, struct selftest_trial *t, size_t i,
                                 double *worst)
{
    static const enum array results[] = {Y, DX0, DX1, D_PARAMETER, D_SHARED};
    enum status st;
    struct layer_io host, device;
    double loss = selftest_layer_forward(t, i, &host, &device);
    layer_backward(&t->cpu[i], &host);
    layer_backward(&t->gpu[i], &device);
    TRY(compare_loss(c, loss, worst));
    for (size_t k = 0; k < sizeof results / sizeof *results; k++)
        if (results[k] != DX1 || t->cpu[i].inputs > 1)
            TRY(operands_compare(c, &t->operands[i], results[k], worst));
out:
    return st;
}

enum status selftest_run(struct cuda_context *c, const struct selftest_division *d, size_t shards,
                         enum element half, bool large, double *worst)
{
    enum status st;
    struct selftest_trial t = {
        .division = d, .half = half, .large = large, .batch = d->k.batch, .shards = shards};
    struct layer_io host, device;
    TRY(open_trial(c, &t));
    for (size_t i = 0; i < shards && shards > 1; i++)
        selftest_layer_forward(&t, i, &host, &device);
    backend_cuda.zero(c, c->loss, sizeof *c->loss);
    t.host.give = t.device.give = true;
    *worst = 0;
    for (size_t i = 0; i < shards; i++)
        TRY(compare_shard(c, &t, i, worst));
out:
    close_trial(&t);
    return st;
}

/* A row of the table. */
static enum status selftest_try_case(struct cuda_context *c, const struct selftest_division *d,
                                     size_t shards, enum element half, FILE *to, bool *good)
{
    enum status st;
    double worst = NAN;
    char name[64], parts[32] = "";
    if (shards > 1)
        snprintf(parts, sizeof parts, ", %zu shards", shards);
    snprintf(name, sizeof name, "%s%s%s", d->k.name, parts, selftest_half[half]);
    TRY(selftest_run(c, d, shards, half, false, &worst));
    *good = selftest_row(to, name, worst, limit[half]) && *good;
out:
    return st;
}

enum status selftest_layers(struct cuda_context *c, FILE *to, bool *good)
{
    enum status st = STATUS_OK;
    bool all = true;
    for (enum element half = 0; half < ELEMENTS; half++)
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            const struct selftest_division whole = {cases[k], TENSOR_WHOLE, 1};
            TRY(selftest_try_case(c, &whole, 1, half, to, &all));
        }
    for (size_t k = 0; k < sizeof divisions / sizeof *divisions; k++)
        for (size_t shards = 2; shards <= MOST_SHARDS; shards *= 2)
            TRY(selftest_try_case(c, &divisions[k], shards, ELEMENT_FP32, to, &all));
    TRY(selftest_pairs(c, to, &all));
    *good = all;
out:
    return st;
}
