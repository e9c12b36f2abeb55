/* Plans as setups: degrees that all stages share, cuts at layers, devices in the order of ranks.
 * What no framework's arguments can say is refused here, with the stage that it is about. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/rules.h"
#include "core/schedule/schedule.h"
#include "core/strategy/optimizer.h"
#include "study/frameworks/setup.h"

/* ---- stages */

static enum status check_alike(const struct plan *p)
{
    for (size_t k = 1; k < p->stages; k++) {
        const struct strategy_knob *other =
            strategy_differs(STRATEGY_STAGE, ~KNOB_BIT(depth), &p->stage[0].own, &p->stage[k].own);
        if (other)
            return error_set(STATUS_UNSUPPORTED,
                             "%s differs between stage 0 and stage %zu of the plan, expected the "
                             "same in all stages",
                             other->what, k);
    }
    return STATUS_OK;
}

/* Layers of each stage; a stage begins where a layer does, or behind the last one. */
static enum status find_cut(const struct plan *p, const struct model *m, struct setup *s)
{
    enum status st;
    struct setup_layers l = {0};
    size_t layer = 0, op = 0;
    TRY(setup_layers(m, &l));
    s->stages = p->stages;
    s->a.layers = (int64_t)l.n;
    TRY(ARENA_NEW(&s->keys->memory, s->cut, p->stages));
    for (size_t k = 0; k < p->stages; k++) {
        const struct plan_stage *stage = &p->stage[k];
        size_t first = stage->op[0], last = stage->op[stage->ops - 1] + 1;
        if (last - first != stage->ops || first != op)
            FAIL(STATUS_UNSUPPORTED,
                 "ops of stage %zu are not adjacent in the model, expected a contiguous range", k);
        if (k > 0 && (l.n == 0 || first != l.first[layer]))
            FAIL(STATUS_UNSUPPORTED, "op '%s' begins stage %zu, expected the first op of a layer",
                 m->op[first].name, k);
        size_t from = layer;
        while (layer < l.n && l.first[layer] < last)
            layer++;
        s->cut[k] = (int64_t)(layer - from);
        op = last;
    }
out:
    free(l.first);
    return st;
}

/* ---- devices */

/* Device of each rank, in the order of ranks with the pipeline outermost or the replicas. */
static void list_devices(const struct plan *p, const struct setup *s, bool apart, uint32_t *device)
{
    size_t replicas = s->replicas, tensor = s->tensor_parallel, teams = (size_t)s->pipeline,
           context = s->context_parallel;
    for (size_t team = 0; team < teams; team++)
        for (size_t r = 0; r < replicas; r++)
            for (size_t k = 0; k < tensor; k++) {
                size_t rank =
                    apart ? k + tensor * (r % context + context * (team + teams * (r / context)))
                          : k + tensor * (r + replicas * team);
                device[rank] = p->stage[team].device[r * tensor + k];
            }
}

/* The first rank whose device does not come behind the one before; n: they ascend. */
static size_t descends(const uint32_t *device, size_t n)
{
    size_t i = 1;
    while (i < n && device[i] > device[i - 1])
        i++;
    return i;
}

/* As many ranks on every node, which a launcher starts node by node. */
static enum status plan_setup_find_nodes(const uint32_t *device, size_t n, const struct topology *t,
                                         struct setup *s)
{
    size_t per = 1, run = 1;
    while (per < n && t->node_of[device[per]] == t->node_of[device[0]])
        per++;
    for (size_t i = 1; i <= n; i++) {
        bool same = i < n && t->node_of[device[i]] == t->node_of[device[i - 1]];
        if (!same && run != per)
            return error_set(STATUS_UNSUPPORTED,
                             "it uses %zu devices on the node of %s, but %zu on the node of %s, "
                             "expected the same number on each node",
                             per, t->device[device[0]], run, t->device[device[i - 1]]);
        run = same ? run + 1 : 1;
    }
    s->per_node = (int64_t)per;
    s->nodes = (int64_t)(n / per);
    return STATUS_OK;
}

/* The first rank that does not come behind the one before on its node, or is on a node that others
 * are on; n: whole nodes follow one another, in whatever order. */
static enum status leaves_node(const uint32_t *device, size_t n, const struct topology *t,
                               size_t *out)
{
    bool *seen = NULL;
    size_t i = 0;
    PASS(ARRAY_NEW(seen, t->n));
    for (; i < n; i++) {
        uint32_t node = t->node_of[device[i]];
        bool same = i > 0 && t->node_of[device[i - 1]] == node;
        if (same ? device[i] < device[i - 1] : seen[node])
            break;
        seen[node] = true;
    }
    *out = i;
    free(seen);
    return STATUS_OK;
}

/* Hosts are given to the launcher in the order of the plan, where that is another one than the
 * platform's. */
static enum status note_hosts(const uint32_t *device, size_t n, const struct topology *t,
                              struct setup *s)
{
    enum { NAMED = 8 };
    char text[512] = "";
    size_t named = 0, used = 0;
    for (size_t i = 0; i < n; i += (size_t)s->per_node, named++)
        if (named < NAMED && used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%.40s", named ? ", " : "",
                                     t->device[device[i]]);
    return setup_add_note(s, NOTE_ASSUMED,
                          "the launcher lists its hosts in the plan's order: those of devices %s%s",
                          text, named > NAMED ? ", ..." : "");
}

/* Launchers number ranks by hosts, in the order in which they are given: the plan has whole nodes
 * one after another in one of the two orders of ranks that there are. */
static enum status plan_setup_find_devices(const struct plan *p, const struct topology *t,
                                           struct setup *s)
{
    enum status st;
    uint32_t *device = NULL;
    size_t n = (size_t)s->devices, at, further = 0;
    TRY(ARRAY_NEW(device, n));
    list_devices(p, s, true, device);
    TRY(leaves_node(device, n, t, &further));
    bool ascends = descends(device, n) == n;
    list_devices(p, s, false, device);
    TRY(leaves_node(device, n, t, &at));
    s->apart = descends(device, n) < n && (ascends || (at < n && further == n));
    if (at < n && !s->apart)
        FAIL(STATUS_UNSUPPORTED,
             "rank %zu is on %s, after rank %zu on %s, expected the devices of each node together "
             "and in order",
             at, t->device[device[at]], at - 1, t->device[device[at - 1]]);
    list_devices(p, s, s->apart, device);
    TRY(plan_setup_find_nodes(device, n, t, s));
    if (descends(device, n) < n)
        TRY(note_hosts(device, n, t, s));
    else if (device[n - 1] + 1 != n)
        TRY(setup_add_note(
            s, NOTE_ASSUMED,
            "the launcher lists only the hosts of devices %s to %s, which the plan uses",
            t->device[device[0]], t->device[device[n - 1]]));
out:
    free(device);
    return st;
}

/* ---- the rest */

static enum status find_batch(const struct plan *p, struct setup *s)
{
    uint32_t streams = strategy_streams(&s->own);
    if (p->microbatches % streams != 0)
        return error_set(
            STATUS_UNSUPPORTED,
            "it has %u microbatches for %u replicas, expected a multiple of the replicas",
            p->microbatches, streams);
    s->microbatch_size = p->microbatch_size;
    s->batch = (int64_t)p->microbatches * p->microbatch_size;
    s->accumulation = p->microbatches / streams;
    return STATUS_OK;
}

/* Schedule, optimizer and types; knobs that say nothing beside others are as if they were not
 * chosen. */
static enum status find_choices(const struct plan *p, const struct model *m, struct setup *s)
{
    const struct schedule *schedule;
    struct strategy shared;
    struct strategy_stage own;
    PASS(schedule_find(p->schedule, &schedule));
    if (schedule->asynchronous)
        return error_set(STATUS_UNSUPPORTED, "schedule %s has no pipeline flush", schedule->name);
    s->schedule = schedule->name;
    s->optimizer = strcmp(optimizer_name_of(p->optimizer), "sgd") == 0;
    if (optimizer_is_tuned(p->optimizer))
        PASS(setup_add_note(s, NOTE_LOST,
                            "the settings of optimizer %s; set them in the framework yourself",
                            p->optimizer));
    setup_set_dtype(s, m->dtype != DATA_ANY    ? m->dtype
                       : m->element_bytes == 2 ? DATA_bf16
                                               : DATA_fp32);
    rules_settle(p, &shared, &own);
    s->effective = strategy_unusual(&shared, &own);
    strategy_settle(&s->shared, &s->own);
    s->zero_group = s->zero_group < s->replicas ? s->zero_group : 0;
    s->chosen = strategy_unusual(&s->shared, &s->own);
    setup_set_sums(s, 8 * plan_reduce_bytes(p, m));
    return setup_check_experts(s, m);
}

/* O(ops + devices). */
enum status setup_of_plan(const struct plan *p, const struct model *m, const struct topology *t,
                          struct setup *s)
{
    enum status st;
    uint32_t *team_of = NULL;
    if (p->steps > 0)
        return error_set(STATUS_UNSUPPORTED,
                         "the plan shards the model op by op (key 'steps' of the plan file)");
    TRY(check_alike(p));
    TRY(ARRAY_NEW(team_of, p->stages));
    s->pipeline = plan_teams(p, team_of);
    s->chunks = (int64_t)p->stages / s->pipeline;
    s->shared = p->shared;
    s->own = p->stage[0].own;
    s->devices = s->pipeline * (int64_t)p->stage[0].devices;
    s->gpu = topology_type(t, p->stage[0].device[0])->name;
    s->dropout = p->issue.dropout > 0;
    s->compiled = plan_framework(p) && strcmp(p->issue.name, "compiled") == 0;
    TRY(find_cut(p, m, s));
    TRY(plan_setup_find_devices(p, t, s));
    TRY(find_batch(p, s));
    TRY(find_choices(p, m, s));
out:
    free(team_of);
    return st;
}
