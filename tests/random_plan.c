#include "tests/random_plan.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/random.h"
#include "core/schedule/schedule.h"
#include "tests/sample.h"

enum { OPS = 8, MEGA = 1000000 };

uint32_t random_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)(random_next(state) >> 32) % n;
}

/* A random multiple of a thousandth of `most`, above 0. */
static double part_of(uint64_t *state, double most)
{
    return most * (1 + random_below(state, 1000)) / 1000;
}

/* Keys and values of so many bytes in 64 heads. */
static void set_attention(struct model_op *o, int64_t bytes)
{
    o->context_bytes = bytes;
    o->attribute = calloc(1, sizeof *o->attribute);
    if (o->attribute)
        o->attribute[o->attributes++] = (struct model_attribute){sample_text("heads"), 64};
}

/* A norm or a product of a layer's MLP, which may be made again by its module. */
static void rename_op(struct model_op *o, bool norm, size_t layer)
{
    char name[24];
    snprintf(name, sizeof name, norm ? "h.%zu.ln" : "h.%zu.mlp.fc", layer);
    free(o->name);
    free(o->kind);
    o->name = sample_text(name);
    o->block = 0;
    o->kind = sample_text(norm ? "layernorm" : "linear");
    o->type = OPERATOR_UNREAD;
}

struct model random_model(uint64_t *state)
{
    struct model m = sample_chain(OPS, 0, 0, 0, 0);
    m.tokens_per_sample = 64;
    for (size_t i = 0; i < OPS; i++) {
        struct model_op *o = &m.op[i];
        o->parameter_bytes = (int64_t)part_of(state, 64 * MEGA) / 4 * 4;
        o->output_bytes = (int64_t)part_of(state, 16 * MEGA);
        o->stash_bytes = 2 * o->output_bytes;
        o->tensor = (enum model_tensor)random_below(state, TENSOR_KINDS);
        if (random_below(state, 4) == 0)
            set_attention(o, (int64_t)part_of(state, 4 * MEGA));
        if (random_below(state, 4) == 0)
            o->exchange_bytes = (int64_t)part_of(state, 8 * MEGA);
        m.profile[0].forward_s[i] = part_of(state, 4e-3);
        m.profile[0].backward_s[i] = part_of(state, 8e-3);
    }
    uint64_t own = ~*state; /* of its own, so that older seeds draw what they did */
    bool layered = random_below(&own, 2) == 0; /* an op, layers of two, two ops */
    for (size_t i = 1; layered && i + 2 < OPS; i++) {
        char name[16];
        snprintf(name, sizeof name, "h.%zu.%c", (i - 1) / 2, i % 2 ? 'a' : 'b');
        free(m.op[i].name);
        m.op[i].name = sample_text(name);
        m.op[i].block = 0;
    }
    for (size_t i = 1; layered && i + 2 < OPS && random_below(&own, 2);
         i++) /* norms and products */
        rename_op(&m.op[i], i % 2 == 1, (i - 1) / 2);
    if (random_below(state, 2) == 0) {
        m.op[OPS - 1].shares = 0;
        m.op[OPS - 1].shared_bytes = m.op[0].parameter_bytes;
        m.op[OPS - 1].parameter_bytes = 0;
    }
    return m;
}

/* Stage k of n: its share of the ops. */
static void set_ops(struct plan_stage *s, size_t k, size_t n)
{
    size_t first = k * OPS / n, last = (k + 1) * OPS / n;
    s->ops = last - first;
    s->op = calloc(s->ops, sizeof *s->op);
    for (size_t i = 0; s->op && i < s->ops; i++)
        s->op[i] = (uint32_t)(first + i);
}

/* Devices in the order in which teams take them: as they are numbered, or shuffled. */
static uint32_t *order_devices(uint64_t *state, uint32_t n)
{
    bool shuffled = random_below(state, 8) == 0;
    uint32_t *device = calloc(n, sizeof *device);
    for (uint32_t i = 0; device && i < n; i++) {
        uint32_t j = shuffled ? random_below(state, i + 1) : i;
        device[i] = device[j];
        device[j] = i;
    }
    return device;
}

/* Sizes that fit on the devices. */
struct sizes {
    uint32_t teams, chunks, replicas, shards;
    bool team_first; /* the devices of a team lie together, else those of a replica do */
};

static struct sizes choose_sizes(uint64_t *state, uint32_t devices)
{
    struct sizes s;
    do
        s = (struct sizes){.teams = 1 + random_below(state, 4),
                           .chunks = 1 + random_below(state, 2),
                           .replicas = 1u << random_below(state, 5),
                           .shards = 1u << random_below(state, 4),
                           .team_first = random_below(state, 2)};
    while (s.teams * s.replicas * s.shards > devices || s.teams * s.chunks > OPS ||
           s.replicas * s.shards == 1);
    return s;
}

/* Devices of one stage, all shards of a replica side by side; every other team may use only half of
 * the shards. */
static void set_devices(struct plan_stage *s, const struct sizes *z, uint32_t team,
                        const uint32_t *order)
{
    s->device = calloc((size_t)z->replicas * z->shards, sizeof *s->device);
    s->devices = (size_t)s->replicas * s->tensor_parallel;
    for (uint32_t r = 0; s->device && r < s->replicas; r++)
        for (uint32_t k = 0; k < s->tensor_parallel; k++) {
            uint32_t block = z->team_first ? team * z->replicas + r : r * z->teams + team;
            s->device[r * s->tensor_parallel + k] = order[block * z->shards + k];
        }
}

static const struct schedule *choose_schedule(uint64_t *state, const struct sizes *z)
{
    const struct schedule *s;
    do
        s = schedules[random_below(state, (uint32_t)schedules_n)];
    while (!schedule_allows(s, z->chunks) || s->crossed); /* which do not fold */
    return s;
}

struct plan random_plan(uint64_t *state, const struct model *m, uint32_t devices)
{
    struct sizes z = choose_sizes(state, devices);
    uint32_t *order = order_devices(state, devices);
    const struct schedule *schedule = choose_schedule(state, &z);
    struct plan p = sample_plan(m, 1, 1, 1, schedule->name);
    bool narrow = random_below(state, 6) == 0;
    uint64_t own = ~*state; /* for what came later: older seeds draw what they did */
    uint32_t experts = random_below(state, 2) ? 1u << random_below(state, 3) : 1;
    free(p.stage[0].op);
    free(p.stage[0].device);
    free(p.stage);
    p.stages = (size_t)z.teams * z.chunks;
    p.stage = calloc(p.stages, sizeof *p.stage);
    for (uint32_t k = 0; p.stage && k < p.stages; k++) {
        struct plan_stage *s = &p.stage[k];
        uint32_t team = schedule_team(schedule, z.teams, k);
        set_ops(s, k, p.stages);
        s->replicas = z.replicas;
        s->tensor_parallel = narrow && team % 2 == 1 && z.shards > 1 ? z.shards / 2 : z.shards;
        s->expert_parallel = experts < z.replicas ? experts : z.replicas;
        s->recompute = (enum plan_recompute)random_below(state, RECOMPUTE_KINDS);
        s->recompute_unit = 1 + random_below(&own, 3);
        s->recompute_layers = random_below(&own, 3);
        uint64_t drawn = ~own;
        if (s->recompute == RECOMPUTE_SELECTIVE)
            s->recompute_modules = plan_modules_of(m) & random_below(&drawn, 1u << PLAN_MODULES);
        set_devices(s, &z, team, order);
    }
    free(order);
    p.microbatches = z.replicas * z.teams * (1 + random_below(state, 3));
    p.zero = random_below(state, 4);
    p.bucket_bytes = random_below(state, 2) ? (int64_t)part_of(state, 64 * MEGA) : 0;
    p.sequence_parallel = random_below(state, 2);
    uint32_t context = random_below(state, 3) ? 1 : 1u << random_below(state, 4);
    for (size_t k = 0; k < p.stages; k++)
        p.stage[k].context_parallel = context < z.replicas ? context : z.replicas;
    p.context_exchange = (enum plan_exchange)random_below(state, EXCHANGE_KINDS);
    uint64_t host = ~own;
    if (!schedule->asynchronous && random_below(&host, 3) == 0)
        p.offload = (enum plan_offload)random_below(&host, OFFLOAD_KINDS);
    p.tensor_overlap = p.sequence_parallel && random_below(&host, 2);
    p.zero_keep = p.zero % 2 == 1 && random_below(&own, 3) == 0;
    if (p.zero > 0 && p.stage[0].expert_parallel == 1 && z.replicas % 4 == 0 &&
        random_below(&own, 4) == 0)
        p.zero_group = 2;
    if (p.stage[0].expert_parallel > 1 && random_below(&own, 2) == 0)
        p.expert_imbalance = 1 + part_of(&own, 3);
    p.p2p_scatter = !p.sequence_parallel && random_below(&own, 3) == 0;
    return p;
}

const char *random_plan_print(const struct plan *p, char text[RANDOM_PLAN_TEXT])
{
    const struct plan_stage *s = &p->stage[0];
    snprintf(text, RANDOM_PLAN_TEXT,
             "%s of %zu stages x %u replicas x %u shards (last stage %u, experts %u times %g, "
             "context %u %s), %u "
             "microbatches, ZeRO %u%s over %u, buckets of %lld bytes%s, devices %u %u ...",
             p->schedule, p->stages, s->replicas, s->tensor_parallel,
             p->stage[p->stages - 1].tensor_parallel, s->expert_parallel, p->expert_imbalance,
             s->context_parallel, plan_exchange_names[p->context_exchange], p->microbatches,
             p->zero, p->zero_keep ? " kept" : "", p->zero_group, (long long)p->bucket_bytes,
             p->sequence_parallel ? ", sequence parallel" : "", s->device[0],
             s->devices > 1 ? s->device[1] : s->device[0]);
    return text;
}
