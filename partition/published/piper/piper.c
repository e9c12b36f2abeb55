#include "partition/published/piper/piper.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/array.h"
#include "core/text.h"

/* Parts of the result: one per stage, with the configuration of every node. */
static enum status add_stage(const struct piper_input *in, const struct piper_plan *p, size_t s,
                             const char **op, char (*text)[24], struct objective_result *out)
{
    enum status st;
    size_t n = 0, k = 0, recomputed = 0;
    for (size_t v = 0; v < in->nodes; v++)
        if (p->stage_of[v] == s) {
            snprintf(text[n], sizeof text[n], "%lld", (long long)in->id[v]);
            op[n] = text[n];
            n++;
        }
    TRY(objective_add_part(out, op, n, NULL));
    struct objective_part *part = &out->part[out->parts - 1];
    part->replicas = p->stage[s].replicas;
    part->tensor_parallel = in->degree[p->stage[s].degree];
    TRY(ARRAY_NEW(part->configuration, n + 1));
    for (size_t v = 0; v < in->nodes; v++)
        if (p->stage_of[v] == s) {
            const char *name = in->config[p->config[v]].name;
            recomputed += strstr(name, "recomp") != NULL;
            TRY(text_copy(name, &part->configuration[k++]));
        }
    part->recompute = recomputed > 0;
    part->recompute_all = recomputed == n;
out:
    return st;
}

static enum status add_stages(const struct piper_input *in, const struct piper_plan *p,
                              struct objective_result *out)
{
    enum status st = STATUS_OK;
    const char **op = calloc(in->nodes, sizeof *op);
    char(*text)[24] = calloc(in->nodes, sizeof *text);
    if (!op || !text) {
        st = error_set(STATUS_NOMEM, "%zu nodes", in->nodes);
        goto out;
    }
    for (size_t s = 0; s < p->stages; s++)
        TRY(add_stage(in, p, s, op, text, out));
out:
    free(op);
    free(text);
    return st;
}

static enum status write_note(const struct piper_outcome *o, struct objective_result *out)
{
    char note[200];
    snprintf(note, sizeof note, "%zu ideals%s, %zu questions asked", o->ideals,
             o->all_ideals ? "" : " (only those of one topological order: there are too many)",
             o->passes);
    return text_copy(note, &out->note);
}

static enum status solve(const struct objective_request *r, struct objective_result *out)
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
    TRY(write_note(&o, out));
out:
    piper_plan_free(&plan);
    piper_input_free(&in);
    return st;
}

static const struct objective_algorithm piper = {
    .name = "piper",
    .summary = "stages x replicas x tensor-parallel degree x configuration of every op",
    .guarantee = "optimal over contiguous stages, configurations included, when it says so; "
                 "beyond 40,000 ideals over one topological order",
    .solve = solve,
};

static const struct objective_algorithm *const algorithms[] = {&piper};

const struct objective objective_piper = {
    .name = "piper",
    .unit = "seconds per sample",
    .summary = "Piper: slowest stage of a pipeline with tensor parallelism under a memory limit",
    .unit_s = 1,
    .own_format = true,
    .algorithms = sizeof algorithms / sizeof *algorithms,
    .algorithm = algorithms,
    .score = piper_score,
};
