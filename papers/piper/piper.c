/* The row of Piper's objective, and results in its form: a part per stage, with the
 * configuration of every node. */
#include "papers/piper/piper.h"

#include <math.h>
#include <string.h>

/* Parts of the result: one per stage, with the configuration of every node. */
static enum status add_stages(const struct piper_input *in, const struct piper_plan *p,
                              struct objective_result *out)
{
    const struct objective_ops nodes = {in->nodes, .id = in->id};
    for (uint32_t s = 0; s < p->stages; s++) {
        size_t k = 0, recomputed = 0;
        PASS(objective_add_part(out, &nodes, p->stage_of, s, NULL));
        struct objective_part *part = &out->part[s];
        part->replicas = p->stage[s].replicas;
        part->tensor_parallel = in->degree[p->stage[s].degree];
        PASS(ARENA_NEW(&out->memory, part->configuration, part->ops));
        for (size_t v = 0; v < in->nodes; v++) {
            const char *name = in->config[p->config[v]].name;
            if (p->stage_of[v] != s)
                continue;
            recomputed += strstr(name, "recomp") != NULL;
            if (!(part->configuration[k++] = arena_text(&out->memory, name)))
                return STATUS_NOMEM;
        }
        part->recompute = recomputed > 0;
        part->recompute_all = recomputed == part->ops;
    }
    return STATUS_OK;
}

/* Proved when the search asked all ideals and its bound meets the plan, up to rounding. */
enum status piper_piper_solve(const struct objective_request *r, struct objective_result *out)
{
    enum status st;
    struct piper_input in = {0};
    struct piper_plan plan = {0};
    struct piper_outcome o;
    const struct piper_limits limits = {PIPER_IDEALS, PIPER_STATES};
    TRY(piper_read(r, &in));
    TRY(piper_search(&in, r, &limits, &plan, &o));
    out->value = o.value;
    out->lower_bound = o.all_ideals ? o.lower_bound : NAN;
    out->proved_optimal = o.all_ideals && o.lower_bound >= o.value * (1 - 1e-9);
    out->interrupted = o.interrupted;
    out->microbatches = in.batch;
    TRY(add_stages(&in, &plan, out));
    TRY(objective_set_note(
        out, "searched %zu down-sets (sets with all predecessors)%s in %zu subproblems", o.ideals,
        o.all_ideals ? "" : " (only those of one topological order, because all would be too many)",
        o.passes));
out:
    piper_plan_free(&plan);
    piper_input_free(&in);
    return st;
}

const struct objective objective_piper = {
    .name = "piper",
    .unit = "seconds per sample",
    .summary = "Piper: slowest stage of a pipeline with tensor parallelism under a memory limit",
    .unit_s = 1,
    .own_format = true,
    .score = piper_score,
};
