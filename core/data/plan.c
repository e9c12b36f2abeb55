/* Plans: copying, and checking them against their model and topology. */
#include "core/data/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/divisor.h"
#include "core/base/text.h"
#include "core/data/model.h"
#include "core/data/rules.h"
#include "core/data/topology.h"
#include "core/schedule/schedule.h"

void plan_free(struct plan *p)
{
    for (size_t s = 0; p->stage && s < p->stages; s++) {
        free(p->stage[s].op);
        free(p->stage[s].device);
    }
    free(p->stage);
    plan_free_steps(p);
    free(p->model);
    free(p->platform);
    free(p->schedule);
    free(p->optimizer);
    free(p->algorithm);
    free(p->framework);
    *p = (struct plan){0};
}

enum status plan_set_framework(struct plan *p, const char *text)
{
    struct framework f = {0};
    char *copy = NULL;
    if (text) {
        PASS(framework_parse(text, &f));
        if (f.by_kernel) { /* torchtitan is called as what it runs */
            const char *overrides = text + strcspn(text, ":");
            size_t size = strlen(f.name) + strlen(overrides) + 1;
            PASS(ARRAY_NEW(copy, size));
            snprintf(copy, size, "%s%s", f.name, overrides);
        }
    }
    free(p->framework);
    p->framework = copy;
    p->issue = f;
    return STATUS_OK;
}

/* The copy owns all of its memory; while it is built, `c` has only what is its own. */
enum status plan_copy(const struct plan *p, struct plan *out)
{
    enum status st;
    struct plan c = *p;
    c.model = c.platform = c.schedule = c.optimizer = c.algorithm = c.framework = NULL;
    c.stages = c.steps = 0;
    c.step = NULL;
    c.shard = NULL;
    c.operators = (struct operators){0};
    TRY(ARRAY_NEW(c.stage, p->stages));
    TRY(plan_copy_steps(p, &c));
    for (size_t s = 0; s < p->stages; s++) {
        struct plan_stage *stage = &c.stage[c.stages++];
        *stage = p->stage[s];
        stage->op = stage->device = NULL;
        TRY(ARRAY_COPY(stage->op, p->stage[s].op, stage->ops));
        TRY(ARRAY_COPY(stage->device, p->stage[s].device, stage->devices));
    }
    TRY(text_copy(p->model, &c.model));
    TRY(text_copy(p->platform, &c.platform));
    TRY(text_copy(p->schedule, &c.schedule));
    TRY(text_copy(p->optimizer, &c.optimizer));
    if (p->algorithm)
        TRY(text_copy(p->algorithm, &c.algorithm));
    if (p->framework)
        TRY(text_copy(p->framework, &c.framework));
    MOVE(out, c);
out:
    plan_free(&c);
    return st;
}

/* stage_of[op] = stage, UINT32_MAX where an op has none. */
static enum status check_ops(const struct plan *p, const struct model *m, uint32_t *stage_of)
{
    for (size_t i = 0; i < m->n; i++)
        stage_of[i] = UINT32_MAX;
    for (uint32_t s = 0; s < p->stages; s++) {
        if (p->stage[s].ops == 0)
            return error_set(STATUS_INVALID, "stage %u has no ops", s);
        for (size_t k = 0; k < p->stage[s].ops; k++) {
            uint32_t op = p->stage[s].op[k];
            if (op >= m->n)
                return error_set(STATUS_INVALID,
                                 "stage %u lists op %u, but the model has only %zu ops", s, op,
                                 m->n);
            if (k > 0 && op <= p->stage[s].op[k - 1])
                return error_set(STATUS_INVALID,
                                 "stage %u lists op %u after op %u, expected ascending op numbers",
                                 s, op, p->stage[s].op[k - 1]);
            if (stage_of[op] != UINT32_MAX)
                return error_set(STATUS_INVALID, "op '%s' is in stages %u and %u", m->op[op].name,
                                 stage_of[op], s);
            stage_of[op] = s;
        }
    }
    for (uint32_t i = 0; i < m->n; i++) {
        if (stage_of[i] == UINT32_MAX)
            return error_set(STATUS_INVALID, "op '%s' is in no stage", m->op[i].name);
        for (size_t k = m->in_start[i]; k < m->in_start[i + 1]; k++)
            if (stage_of[m->in[k]] > stage_of[i])
                return error_set(
                    STATUS_INVALID, "op '%s' of stage %u needs '%s' of the later stage %u",
                    m->op[i].name, stage_of[i], m->op[m->in[k]].name, stage_of[m->in[k]]);
    }
    return STATUS_OK;
}

bool plan_in_order(const struct plan *p)
{
    size_t next = 0; /* op */
    for (size_t s = 0; s < p->stages; next += p->stage[s++].ops) {
        const struct plan_stage *stage = &p->stage[s];
        if (stage->op[0] != next || stage->op[stage->ops - 1] != next + stage->ops - 1)
            return false;
    }
    return true;
}

uint32_t plan_chunks(const struct plan *p)
{
    uint32_t chunks = 0;
    for (size_t s = 0; s < p->stages; s++)
        chunks += p->stage[s].device[0] == p->stage[0].device[0];
    return chunks;
}

/* Stages whose first device is the same are on the same devices: they take turns there. */
uint32_t plan_teams(const struct plan *p, uint32_t *team_of)
{
    uint32_t teams = 0;
    for (uint32_t s = 0; s < p->stages; s++) {
        uint32_t earlier = 0;
        while (earlier < s && p->stage[earlier].device[0] != p->stage[s].device[0])
            earlier++;
        team_of[s] = earlier < s ? team_of[earlier] : teams++;
    }
    return teams;
}

uint32_t plan_even_microbatches(const struct plan *p, uint32_t least)
{
    uint64_t n = 1;
    for (size_t s = 0; s < p->stages; s++) {
        uint64_t streams = plan_streams(&p->stage[s]);
        n *= streams / common_divisor(n, streams);
        if (n > PLAN_MICROBATCHES)
            return PLAN_MICROBATCHES;
    }
    n *= (least + n - 1) / n;
    return n > PLAN_MICROBATCHES ? PLAN_MICROBATCHES : (uint32_t)n;
}

/* Replicas, shards and experts of every stage against its devices and the microbatches. */
static enum status check_counts(const struct plan *p)
{
    for (uint32_t s = 0; s < p->stages; s++) {
        const struct plan_stage *stage = &p->stage[s];
        if (stage->replicas < 1 || stage->tensor_parallel < 1 ||
            stage->devices != (size_t)stage->replicas * stage->tensor_parallel)
            return error_set(STATUS_INVALID,
                             "stage %u: got %zu devices, expected %u replicas x %u shards", s,
                             stage->devices, stage->replicas, stage->tensor_parallel);
        const struct strategy_knob *k = strategy_beyond(&p->shared, &stage->own);
        if (k)
            return error_set(STATUS_INVALID, "stage %u: %s is %g, expected %g to %g", s, k->name,
                             strategy_value(k, &p->shared, &stage->own), k->least, k->most);
        if (plan_streams(stage) > p->microbatches)
            return error_set(STATUS_INVALID,
                             "stage %u: got %u microbatches for %u replicas, expected at least one "
                             "for each; raise --microbatches",
                             s, p->microbatches, plan_streams(stage));
    }
    return STATUS_OK;
}

/* Rules that make a plan impossible; only those of experts read the model. */
static enum status plan_check_rules(const struct plan *p, const struct model *m)
{
    struct rule_model model;
    char text[RULE_TEXT];
    size_t stage;
    bool spread = false;
    for (size_t s = 0; s < p->stages; s++)
        spread = spread || p->stage[s].expert_parallel > 1;
    if (spread)
        model = rule_model_of(m);
    const struct rule_view v = rule_view_of_plan(p, spread ? &model : NULL);
    const struct rule *broken = rules_broken(&v, RULE_IMPOSSIBLE, &stage);
    return broken ? error_set(STATUS_INVALID, "stage %zu: %s", stage,
                              rule_print(broken, &v, false, text))
                  : STATUS_OK;
}

/* The same devices in the same roles. */
static bool same_devices(const struct plan_stage *a, const struct plan_stage *b)
{
    return a->replicas == b->replicas && a->tensor_parallel == b->tensor_parallel &&
           !memcmp(a->device, b->device, a->devices * sizeof *a->device);
}

/* A device serves one team; all stages of a team have the same ones in the same order. */
static enum status check_devices(const struct plan *p, const struct topology *t,
                                 const struct schedule *schedule, const uint32_t *team_of,
                                 uint32_t teams, bool *used)
{
    for (uint32_t s = 0, known = 0; s < p->stages; s++) {
        const struct plan_stage *stage = &p->stage[s];
        for (size_t k = 0; k < stage->devices; k++)
            if (stage->device[k] >= t->n)
                return error_set(STATUS_INVALID,
                                 "stage %u lists device %u, but the platform has only %zu devices",
                                 s, stage->device[k], t->n);
        if (team_of[s] != schedule_team(schedule, teams, s))
            return error_set(STATUS_INVALID,
                             "stage %u is on the pipeline rank of stage %u, expected that of stage "
                             "%u: stages take the %u pipeline ranks %s",
                             s, team_of[s], schedule_team(schedule, teams, s), teams,
                             schedule->vee ? "in a V" : "in turn");
        if (team_of[s] < known) {
            if (!same_devices(stage, &p->stage[team_of[s]]))
                return error_set(STATUS_INVALID,
                                 "stages %u and %u share only some of their devices, expected all, "
                                 "in the same order, or none",
                                 team_of[s], s);
            continue;
        }
        known++;
        for (size_t k = 0; k < stage->devices; k++) {
            if (used[stage->device[k]])
                return error_set(STATUS_INVALID, "device '%s' is used twice",
                                 t->device[stage->device[k]]);
            used[stage->device[k]] = true;
        }
    }
    return STATUS_OK;
}

/* Can the schedule do with so many stages on each set of devices? */
static enum status check_schedule(const struct plan *p, const struct schedule *schedule,
                                  uint32_t teams)
{
    if (schedule->vee && p->stages != 2 * (size_t)teams)
        return error_set(STATUS_INVALID,
                         "schedule %s needs two stages on each pipeline rank (stage s and the s-th "
                         "stage from the end), got %zu stages on %u pipeline ranks",
                         p->schedule, p->stages, teams);
    if (teams < p->stages && !schedule->chunked)
        return error_set(STATUS_INVALID,
                         "schedule %s needs separate devices for every stage, got %zu stages on %u "
                         "pipeline ranks",
                         p->schedule, p->stages, teams);
    if (p->stages % teams != 0)
        return error_set(STATUS_INVALID,
                         "%zu stages cannot be divided evenly over %u pipeline ranks", p->stages,
                         teams);
    for (uint32_t s = 0; schedule->asynchronous && s < p->stages; s++)
        if (p->microbatches % plan_streams(&p->stage[s]) != 0)
            return error_set(STATUS_UNSUPPORTED,
                             "schedule %s: %u microbatches are not a multiple of the %u replicas "
                             "of stage %u; change --microbatches",
                             p->schedule, p->microbatches, plan_streams(&p->stage[s]), s);
    return STATUS_OK;
}

/* Stages mostly have the same modules, which are looked for once. */
static enum status check_modules(const struct plan *p, const struct model *m)
{
    for (size_t s = 0; s < p->stages; s++)
        if (s == 0 || p->stage[s].recompute_modules != p->stage[s - 1].recompute_modules ||
            p->stage[s].recompute != p->stage[s - 1].recompute)
            PASS(plan_check_modules(&p->stage[s], m));
    return STATUS_OK;
}

static enum status check_levels(const struct plan *p)
{
    if (p->reduce_dtype != DATA_ANY && p->reduce_dtype != DATA_fp32 && p->reduce_dtype != DATA_bf16)
        return error_set(STATUS_INVALID, "gradients cannot be reduced in %s; expected fp32 or bf16",
                         data_type_names[p->reduce_dtype]);
    return STATUS_OK;
}

int64_t plan_reduce_bytes(const struct plan *p, const struct model *m)
{
    return framework_reduce_bytes(p->reduce_dtype, plan_framework(p), m->element_bytes);
}

/* In the order of dependence: ops, then counts, then devices, whose teams the schedule needs. */
enum status plan_check(const struct plan *p, const struct model *m, const struct topology *t)
{
    enum status st;
    uint32_t *stage_of = NULL, *team_of = NULL, teams;
    bool *used = NULL;
    const struct schedule *schedule;

    if (p->stages == 0 || p->stages > m->n)
        return error_set(STATUS_INVALID,
                         "got %zu stages for %zu ops, expected at most one stage per op", p->stages,
                         m->n);
    if (p->microbatches < 1 || p->microbatch_size < 1)
        return error_set(
            STATUS_INVALID,
            "got %u microbatches of %u samples, expected at least one microbatch of one sample",
            p->microbatches, p->microbatch_size);
    TRY(ARRAY_NEW(stage_of, m->n));
    TRY(ARRAY_NEW(team_of, p->stages));
    TRY(ARRAY_NEW(used, t->n));
    TRY(check_ops(p, m, stage_of));
    TRY(check_counts(p));
    TRY(plan_check_rules(p, m));
    TRY(plan_check_context(p, m));
    teams = plan_teams(p, team_of);
    TRY(schedule_find(p->schedule, &schedule));
    if (schedule->vee) /* where its stages ought to be hangs on how many there are */
        TRY(check_schedule(p, schedule, teams));
    TRY(check_devices(p, t, schedule, team_of, teams, used));
    TRY(check_schedule(p, schedule, teams));
    TRY(check_levels(p));
    TRY(check_modules(p, m));
    TRY(plan_check_steps(p, m));
out:
    free(used);
    free(team_of);
    free(stage_of);
    return st;
}
