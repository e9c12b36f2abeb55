/* The objective: requests become graphs and costs, strategies become parts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "papers/common/objective.h"
#include "papers/hidup/lowered.h"
#include "papers/hidup/models.h"
#include "papers/hidup/noise.h"

enum { DEVICES = 8 };

/* What a request asks for. */
struct hidup_problem {
    struct spmd_graph g;
    struct spmd_costs c;
    struct spmd_strategy s; /* that one is about; may be {0} */
    /* with a platform: */
    struct model model;
    uint32_t *op_of; /* [g.nodes] */
    struct spmd_platform on;
    struct spmd_graph part; /* with the samples of a microbatch */
    struct spmd_table table;
    struct arena memory;
};

static void hidup_release(struct hidup_problem *p)
{
    model_free(&p->model);
    free(p->op_of);
    arena_free(&p->memory);
    spmd_graph_free(&p->g);
    spmd_graph_free(&p->part);
}

static enum status copy_profile(const struct model_profile *p, struct model *m)
{
    enum status st;
    struct model_profile c = {.samples = p->samples, .tensor_parallel = p->tensor_parallel};
    TRY(ARRAY_COPY(c.forward_s, p->forward_s, m->n));
    TRY(ARRAY_COPY(c.backward_s, p->backward_s, m->n));
    TRY(text_copy(p->device, &c.device));
    TRY(model_put_profile(m, &c));
out:
    model_profile_free(&c);
    return st;
}

/* The work that a request says its ops have, who may have measured wrongly, and the times that it
 * has. */
static enum status believe(const struct model *measured, struct model *m)
{
    if (measured && measured->n != m->n)
        return error_set(STATUS_INVALID, "model '%s' has %zu ops, expected %zu", m->name, m->n,
                         measured->n);
    for (size_t i = 0; measured && i < m->n; i++) {
        m->op[i].forward_flop = measured->op[i].forward_flop;
        m->op[i].backward_flop = measured->op[i].backward_flop;
    }
    for (size_t k = 0; measured && k < measured->profiles; k++)
        PASS(copy_profile(&measured->profile[k], m));
    return STATUS_OK;
}

/* Costs of the platform instead of constants. */
static enum status hidup_place_ranks(const struct objective_request *r, struct hidup_problem *p)
{
    int64_t batch = spmd_batch(&p->g), halves = spmd_is_plain(&p->c) ? 1 : 2;
    if (r->said.compat)
        return error_set(STATUS_USAGE,
                         "--compat-hidup uses its own constants, so it takes no --platform");
    if (batch % halves != 0)
        return error_set(STATUS_INFEASIBLE,
                         "a batch of %lld samples cannot be divided into two equal halves",
                         (long long)batch);
    PASS(ARRAY_NEW(p->op_of, p->g.nodes));
    PASS(spmd_to_model(&p->g, r->spec, &p->model, p->op_of));
    PASS(believe(r->model, &p->model));
    p->on = (struct spmd_platform){.topology = r->topology,
                                   .model = &p->model,
                                   .op_of = p->op_of,
                                   .devices = r->devices ? r->devices : r->topology->n,
                                   .samples = (size_t)(batch / halves),
                                   .optimizer = r->optimizer ? r->optimizer : "adam",
                                   .collectives = r->collectives};
    PASS(spmd_model_part(r->spec, r->said.compat, (int64_t)p->on.samples, &p->part));
    PASS(spmd_divide(&p->g, p->on.devices));
    p->on.part = &p->part;
    p->c.profile.devices = (double)p->on.devices;
    p->c.table = &p->table;
    return spmd_tabulate(&p->g, &p->on, &p->memory, &p->table);
}

/* Released by the caller, also after a failure. */
static enum status pose(const struct objective_request *r, struct hidup_problem *p)
{
    const struct spmd_machine *machine = spmd_machines[0];
    if (r->said.profile)
        PASS(text_find("profile", r->said.profile, spmd_machines, spmd_machines_n, &machine));
    p->c = (struct spmd_costs){.profile = machine->profile,
                               .compat = r->said.compat,
                               .overlap = r->said.compat ? OVERLAP_FORWARD : OVERLAP_FULL};
    p->c.profile.devices = r->devices ? (double)r->devices : DEVICES;
    for (size_t i = 0; i < OVERLAPS && r->said.overlap; i++)
        if (!strcmp(r->said.overlap, spmd_overlap_names[i]))
            p->c.overlap = (enum spmd_overlap)i;
    PASS(spmd_model_part(r->spec, r->said.compat, (int64_t)r->batch, &p->g));
    if (!r->topology && spmd_dtype(&p->g) != DATA_fp32)
        return error_set(STATUS_USAGE, "dtype=%s needs --platform: profiles are measured in fp32",
                         data_type_names[p->g.dtype]);
    for (size_t i = 0; i < r->said.hints.n; i++)
        PASS(spmd_restrict(&p->g, r->said.hints.item[i]));
    return r->topology ? hidup_place_ranks(r, p) : STATUS_OK;
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
                                     .bandwidth =
                                         r->said.bandwidth_error > 0 ? r->said.bandwidth_error : 1,
                                     .samples = r->noise > 0 ? r->samples : 1,
                                     .seed = r->seed};
    size_t nodes = q->graph->nodes;
    if (noise.share <= 0 && noise.bandwidth == 1)
        return objective_set_note(
            out, "searched %zu nodes of the model graph: %llu states, %llu partial strategies",
            nodes, (unsigned long long)found->states, (unsigned long long)found->partials);
    PASS(spmd_noise(q, &noise, out->value, &loss));
    return objective_set_note(
        out,
        "searched %zu nodes %zu times with noise %g %% and bandwidths x %g; time relative to the "
        "best strategy: mean %.6f, worst %.6f, least %.6f",
        nodes, loss.samples, 100 * noise.share, noise.bandwidth, loss.mean, loss.worst, loss.least);
}

static enum status solve_as(const struct objective_request *r, struct objective_result *out)
{
    enum status st;
    struct hidup_problem p = {0};
    struct spmd_found found;
    double limit_s = objective_limit_s(r, 0);
    const struct spmd_search q = {.graph = &p.g,
                                  .costs = &p.c,
                                  .stop = r->stop,
                                  .until_s = limit_s > 0 ? clock_now() + limit_s : 0};
    TRY(pose(r, &p));
    if (p.c.table && (r->noise > 0 || r->said.bandwidth_error > 0))
        FAIL(STATUS_USAGE,
             "--noise and --bandwidth-error need --profile and do not apply to --platform");
    TRY(spmd_search(&q, &p.memory, &found));
    out->value = found.seconds;
    out->lower_bound = found.interrupted ? (double)NAN : found.seconds;
    out->proved_optimal = !found.interrupted;
    out->interrupted = found.interrupted;
    out->microbatches = spmd_is_plain(&p.c) ? 1 : 2;
    for (size_t i = 0; i < found.strategy.stages; i++)
        TRY(add_stage(&p.g, &p.c, &found.strategy, i, out));
    TRY(add_note(r, &q, &found, out));
out:
    hidup_release(&p);
    return st;
}

/* On a platform halves that take turns, or the batch in one piece, whichever is faster; a batch
 * that has no halves in one piece. */
enum status hidup_spmd_solve(const struct objective_request *r, struct objective_result *out)
{
    struct objective_request as = *r;
    struct objective_result plain = {0};
    if (!r->topology || r->said.overlap)
        return solve_as(r, out);
    as.said.overlap = spmd_overlap_names[OVERLAP_FULL];
    enum status st = solve_as(&as, out);
    if (st != STATUS_OK && st != STATUS_INFEASIBLE)
        return st;
    as.said.overlap = spmd_overlap_names[OVERLAP_NONE];
    enum status alone = solve_as(&as, &plain);
    if (alone == STATUS_OK && (st != STATUS_OK || plain.value < out->value)) {
        objective_result_free(out);
        MOVE(out, plain);
    }
    objective_result_free(&plain);
    return alone == STATUS_INFEASIBLE ? st : alone;
}

/* The request as it was answered. */
static struct objective_request answered(const struct objective_request *r,
                                         const struct objective_result *result)
{
    struct objective_request as = *r;
    if (r->topology && !r->said.overlap)
        as.said.overlap =
            spmd_overlap_names[result->microbatches == 1 ? OVERLAP_NONE : OVERLAP_FULL];
    return as;
}

static enum status hidup_score_result(const struct objective_request *r, const char *path,
                                      double *value)
{
    enum status st;
    struct hidup_problem p = {0};
    struct json_document d = {0};
    TRY(pose(r, &p));
    TRY(json_read(path, NULL, 1, &d));
    TRY(spmd_read(&d, &p.g, r->spec, &p.memory, &p.s));
    *value = spmd_seconds(&p.c, &p.g, &p.s);
out:
    json_document_free(&d);
    hidup_release(&p);
    return st;
}

/* The strategy that the parts of a result say, stage by stage. */
static enum status hidup_recall(const struct objective_result *r, struct hidup_problem *p)
{
    struct spmd_strategy *s = &p->s;
    uint32_t node = 0;
    s->stages = r->parts;
    PASS(ARENA_NEW(&p->memory, s->chosen, p->g.nodes));
    PASS(ARENA_NEW(&p->memory, s->stage, r->parts));
    for (size_t i = 0; i < r->parts; i++) {
        s->stage[i] = (struct spmd_stage){.first = node, .nodes = (uint32_t)r->part[i].ops};
        for (size_t k = 0; k < r->part[i].ops; k++, node++)
            PASS(spmd_choose(&p->g.node[node], r->part[i].configuration[k], &s->chosen[node]));
    }
    return spmd_complete(&p->g, &p->memory, s);
}

static enum status hidup_print(const struct objective_request *r,
                               const struct objective_result *result, enum objective_look look,
                               const struct provenance *by, FILE *to)
{
    enum status st;
    const struct objective_request as = answered(r, result);
    struct hidup_problem p = {.s = {.model = r->spec}};
    TRY(pose(&as, &p));
    TRY(hidup_recall(result, &p));
    if (look == OBJECTIVE_JSON)
        spmd_put(&p.g, &p.s, by, to);
    else if (look == OBJECTIVE_DOT)
        spmd_draw(&p.g, &p.s, to);
    else
        spmd_print(&p.g, &p.s, to);
out:
    hidup_release(&p);
    return st;
}

static enum status hidup_make_plan(const struct objective_request *r,
                                   const struct objective_result *result, struct plan *out)
{
    enum status st;
    const struct objective_request as = answered(r, result);
    struct hidup_problem p = {0};
    TRY(pose(&as, &p));
    if (!p.c.table)
        FAIL(STATUS_USAGE, "writing a plan with -o needs --platform instead of --profile");
    if (p.c.overlap == OVERLAP_FORWARD)
        FAIL(STATUS_UNSUPPORTED,
             "-o FILE needs --overlap full or none: a plan overlaps in both passes or in neither");
    TRY(hidup_recall(result, &p));
    TRY(spmd_to_plan(&p.g, &p.s, &p.on, out));
out:
    hidup_release(&p);
    return st;
}

const struct objective objective_hidup = {
    .name = "hidup",
    .unit = "s",
    .summary = "an iteration in which every device runs every operator on a shard, half a batch "
               "computing while the other communicates",
    .unit_s = 1,
    .own_format = true,
    .score = hidup_score_result,
    .show = hidup_print,
    .plan = hidup_make_plan,
};
