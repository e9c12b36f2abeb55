/* The objective: requests become graphs and costs, strategies become parts. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/text.h"
#include "core/units.h"
#include "partition/published/hidup/models.h"
#include "partition/published/hidup/noise.h"
#include "partition/published/objective.h"

enum { DEVICES = 8 };

/* A request as the problem that it is. */
static enum status pose(const struct objective_request *r, struct spmd_graph *g,
                        struct spmd_costs *c)
{
    enum status st;
    const struct spmd_machine *machine = spmd_machines[0];
    if (r->profile)
        PASS(text_find("profile", r->profile, spmd_machines, spmd_machines_n, &machine));
    *c = (struct spmd_costs){.profile = machine->profile,
                             .compat = r->compat,
                             .overlap = r->compat ? OVERLAP_FORWARD : OVERLAP_FULL};
    c->profile.devices = r->devices ? (double)r->devices : DEVICES;
    for (size_t i = 0; i < OVERLAPS && r->overlap; i++)
        if (!strcmp(r->overlap, spmd_overlap_names[i]))
            c->overlap = (enum spmd_overlap)i;
    PASS(spmd_model(r->spec, r->compat, g));
    st = STATUS_OK;
    for (size_t i = 0; i < r->hints && st == STATUS_OK; i++)
        st = spmd_restrict(g, r->hint[i]);
    if (st != STATUS_OK)
        spmd_graph_free(g);
    return st;
}

static enum status add_stage(const struct spmd_graph *g, const struct spmd_costs *c,
                             const struct spmd_strategy *s, size_t stage,
                             struct objective_result *out)
{
    uint32_t first = s->stage[stage].first;
    size_t n = s->stage[stage].nodes;
    struct objective_part p = {.replicas = 1, .ops = n};
    char letters[SPMD_LETTERS];
    p.tensor_parallel = (uint32_t)c->profile.devices;
    PASS(ARRAY_ROOM(out->part, out->parts));
    PASS(ARENA_NEW(&out->memory, p.op, n));
    PASS(ARENA_NEW(&out->memory, p.configuration, n));
    for (size_t k = 0; k < n; k++) {
        spmd_letters(&g->node[first + k], &s->chosen[first + k], letters);
        if (!(p.op[k] = arena_text(&out->memory, g->node[first + k].name)) ||
            !(p.configuration[k] = arena_text(&out->memory, letters)))
            return STATUS_NOMEM;
    }
    out->part[out->parts++] = p;
    return STATUS_OK;
}

/* What the search was like, and what noise costs where that was asked for. */
static enum status add_note(const struct objective_request *r, const struct spmd_search *q,
                            const struct spmd_found *found, struct objective_result *out)
{
    struct spmd_loss loss;
    const struct spmd_noise noise = {.share = r->noise,
                                     .bandwidth = r->bandwidth_error > 0 ? r->bandwidth_error : 1,
                                     .samples = r->noise > 0 ? r->samples : 1,
                                     .seed = r->seed};
    size_t nodes = q->graph->nodes;
    if (noise.share <= 0 && noise.bandwidth == 1)
        return objective_set_note(out, "%zu nodes, %llu states of cuts, %llu partial strategies",
                                  nodes, (unsigned long long)found->states,
                                  (unsigned long long)found->partials);
    PASS(spmd_noise(q, &noise, out->value, &loss));
    return objective_set_note(
        out,
        "%zu nodes; %zu searches with noise %g %%, bandwidths x %g: time over "
        "the best mean %.6f, worst %.6f, least %.6f",
        nodes, loss.samples, 100 * noise.share, noise.bandwidth, loss.mean, loss.worst, loss.least);
}

static enum status solve(const struct objective_request *r, struct objective_result *out)
{
    enum status st;
    struct spmd_graph g = {0};
    struct spmd_costs c;
    struct spmd_found found;
    struct arena memory = {0};
    double limit_s = objective_limit_s(r, 0);
    PASS(pose(r, &g, &c));
    const struct spmd_search q = {.graph = &g,
                                  .costs = &c,
                                  .stop = r->stop,
                                  .until_s = limit_s > 0 ? clock_now() + limit_s : 0};
    TRY(spmd_search(&q, &memory, &found));
    out->value = found.seconds;
    out->lower_bound = found.interrupted ? (double)NAN : found.seconds;
    out->proved_optimal = !found.interrupted;
    out->interrupted = found.interrupted;
    for (size_t i = 0; i < found.strategy.stages; i++)
        TRY(add_stage(&g, &c, &found.strategy, i, out));
    TRY(add_note(r, &q, &found, out));
out:
    arena_free(&memory);
    spmd_graph_free(&g);
    return st;
}

static enum status score(const struct objective_request *r, const char *path, double *value)
{
    enum status st;
    struct spmd_graph g = {0};
    struct spmd_costs c;
    struct spmd_strategy s;
    struct json_document d = {0};
    struct arena memory = {0};
    PASS(pose(r, &g, &c));
    TRY(json_read(path, NULL, 1, &d));
    TRY(spmd_read(&d, &g, r->spec, &memory, &s));
    *value = spmd_seconds(&c, &g, &s);
out:
    json_document_free(&d);
    arena_free(&memory);
    spmd_graph_free(&g);
    return st;
}

/* The strategy that the parts of a result say, stage by stage. */
static enum status recall(const struct objective_result *r, const struct spmd_graph *g,
                          struct arena *memory, struct spmd_strategy *s)
{
    uint32_t node = 0;
    s->stages = r->parts;
    PASS(ARENA_NEW(memory, s->chosen, g->nodes));
    PASS(ARENA_NEW(memory, s->stage, r->parts));
    for (size_t i = 0; i < r->parts; i++) {
        s->stage[i] = (struct spmd_stage){.first = node, .nodes = (uint32_t)r->part[i].ops};
        for (size_t k = 0; k < r->part[i].ops; k++, node++)
            PASS(spmd_choose(&g->node[node], r->part[i].configuration[k], &s->chosen[node]));
    }
    return spmd_complete(g, memory, s);
}

static enum status show(const struct objective_request *r, const struct objective_result *result,
                        enum objective_look look, const struct provenance *by, FILE *to)
{
    enum status st;
    struct spmd_graph g = {0};
    struct spmd_costs c;
    struct spmd_strategy s = {.model = r->spec};
    struct arena memory = {0};
    PASS(pose(r, &g, &c));
    TRY(recall(result, &g, &memory, &s));
    if (look == OBJECTIVE_JSON)
        spmd_put(&g, &s, by, to);
    else if (look == OBJECTIVE_DOT)
        spmd_draw(&g, &s, to);
    else
        spmd_print(&g, &s, to);
out:
    arena_free(&memory);
    spmd_graph_free(&g);
    return st;
}

const struct objective_algorithm hidup_spmd = {
    .name = "spmd",
    .summary = "dynamic program over cuts and the forms of what crosses them",
    .guarantee = "optimal among stages of 11 nodes; best so far when interrupted",
    .solve = solve,
};

const struct objective objective_hidup = {
    .name = "hidup",
    .unit = "s",
    .summary = "an iteration in which every device runs every operator on a shard, half a batch "
               "computing while the other communicates",
    .unit_s = 1,
    .own_format = true,
    .score = score,
    .show = show,
};
