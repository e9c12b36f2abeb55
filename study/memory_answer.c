/* Says whether a plan fits, by how much, and how far such predictions were off; tries which single
 * change would need less memory. */
#include "study/memory_answer.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/data/rules.h"
#include "core/lower/lower.h"
#include "core/strategy/framework.h"

/* ---- how sure */

struct memory_error memory_error_of(const struct plan *p)
{
    static const struct {
        bool experts;
        struct memory_error error;
    } all[] = {
#define EXPECTED_MEMORY(experts, runs, median) {experts, {median, runs}},
#include "study/expected_memory.def"
#undef EXPECTED_MEMORY
    };
    const struct framework *f = plan_framework(p);
    bool experts = false;
    for (size_t s = 0; s < p->stages; s++)
        experts |= p->stage[s].expert_parallel > 1;
    for (size_t i = 0; f && f->by_kernel && i < sizeof all / sizeof *all; i++)
        if (all[i].experts == experts)
            return all[i].error;
    return (struct memory_error){0};
}

const char *memory_verdict(int64_t peak_bytes, int64_t memory_bytes, const struct memory_error *e)
{
    double spare = 1 - (double)peak_bytes / (double)memory_bytes;
    return spare < 0 ? "does not fit" : spare < e->median ? "probably fits" : "fits";
}

void memory_error_put(const struct plan *p, struct json_writer *w)
{
    struct memory_error e = memory_error_of(p);
    if (e.runs == 0) {
        json_put_string(w, "expected_memory_error", NULL);
        return;
    }
    json_open_object(w, "expected_memory_error", true);
    json_put_real(w, "median", e.median);
    json_put_integer(w, "runs", (int64_t)e.runs);
    json_close(w);
}

/* ---- changes: each changes a copy of the plan, and says how; false: there is no such change */

static bool save_sequence(struct plan *p, int to, char *option, size_t size)
{
    bool other = p->sequence_parallel != (to > 0);
    p->sequence_parallel = to > 0;
    snprintf(option, size, "--sequence-parallel");
    return other;
}

static bool save_zero(struct plan *p, int to, char *option, size_t size)
{
    bool other = (int)p->zero < to;
    p->zero = (uint32_t)to;
    p->zero_keep = false;
    snprintf(option, size, "--zero %d", to);
    return other;
}

static bool save_recompute(struct plan *p, int to, char *option, size_t size)
{
    bool other = false;
    for (size_t k = 0; k < p->stages; k++) {
        struct plan_stage *s = &p->stage[k];
        other |= (int)s->recompute < to || (s->recompute == RECOMPUTE_FULL && s->recompute_layers);
        s->recompute = (enum plan_recompute)to;
        s->recompute_layers = s->recompute_modules = 0;
    }
    snprintf(option, size, "--recompute %s", plan_recompute_names[to]);
    return other;
}

static bool save_microbatch(struct plan *p, int by, char *option, size_t size)
{
    bool whole = p->microbatch_size % (uint32_t)by == 0;
    p->microbatch_size /= (uint32_t)by;
    p->microbatches *= (uint32_t)by;
    snprintf(option, size, "--microbatch-size %u", p->microbatch_size);
    return whole;
}

static bool save_offload(struct plan *p, int to, char *option, size_t size)
{
    bool other = ((int)p->offload & to) != to;
    p->offload = (enum plan_offload)((int)p->offload | to);
    snprintf(option, size, "--offload %s", plan_offload_names[p->offload]);
    return other;
}

static const struct saver {
    bool (*change)(struct plan *p, int to, char *option, size_t size);
    int to;
} savers[] = {
    {save_sequence, 1},
    {save_zero, 1},
    {save_recompute, RECOMPUTE_SELECTIVE},
    {save_microbatch, 2},
    {save_recompute, RECOMPUTE_FULL},
    {save_zero, 2},
    {save_zero, 3},
    {save_offload, OFFLOAD_OPTIMIZER},
    {save_offload, OFFLOAD_ACTIVATIONS},
};
enum { SAVERS = sizeof savers / sizeof *savers };

/* The part of its memory that the fullest device has left. */
static enum status find_spare(const struct plan *p, const struct evaluation_context *c,
                              struct memory_saving *out)
{
    enum status st;
    double work = 0;
    int64_t *peak = NULL;
    TRY(ARRAY_NEW(peak, c->topology->types));
    TRY(plan_lower_peaks(p, c->model, c->topology, c->costs, peak, &work));
    out->spare = 1;
    for (size_t k = 0; k < c->topology->types; k++) {
        double spare = 1 - (double)peak[k] / (double)c->topology->type[k].memory_bytes;
        if (peak[k] == 0 || c->topology->type[k].memory_bytes <= 0 || !(spare < out->spare))
            continue;
        out->spare = spare;
        out->peak_bytes = peak[k];
    }
out:
    free(peak);
    return st;
}

/* What the plan needs after a change; out->option stays empty where that is no plan. */
static enum status try_saver(const struct plan *p, const struct evaluation_context *c,
                             const struct saver *how, struct memory_saving *out)
{
    enum status st;
    const struct rule_model rules = rule_model_of(c->model);
    struct plan with = {0};
    char why[EVALUATION_REFUSED];
    *out = (struct memory_saving){.spare = -INFINITY};
    TRY(plan_copy(p, &with));
    bool is = how->change(&with, how->to, out->option, sizeof out->option);
    for (size_t k = 0; k < with.stages; k++)
        strategy_settle(&with.shared, &with.stage[k].own);
    const struct rule_view v = rule_view_of_plan(&with, &rules);
    is = is && !rules_broken(&v, RULES_OF_OPTIONS, NULL);
    if (is && c->launches)
        TRY(c->launches(&with, c->model, c->topology, c->launched, why));
    if (is)
        TRY(find_spare(&with, c, out));
    else
        out->option[0] = '\0';
out:
    plan_free(&with);
    if (st != STATUS_OK)
        out->option[0] = '\0';
    return st == STATUS_NOMEM ? st : STATUS_OK;
}

enum status memory_saving_find(const struct plan *p, const struct evaluation_context *context,
                               double enough, struct memory_saving *out)
{
    struct memory_saving best = {0};
    enum status st = find_spare(p, context, &best);
    for (size_t k = 0; st == STATUS_OK && best.spare < enough && k < SAVERS; k++) {
        struct memory_saving next;
        PASS(try_saver(p, context, &savers[k], &next));
        if (*next.option && next.spare > best.spare)
            best = next;
    }
    *out = best;
    return st == STATUS_NOMEM ? st : STATUS_OK;
}

/* ---- the answer */

/* "fits: n0g0, the fullest device, needs 71.25 GiB of 80 GiB (10.9 % spare; ...)" */
static int memory_answer_put(const struct memory_need *need, const struct memory_error *e,
                             bool sure, char *text, size_t size)
{
    int64_t room = need->memory_bytes - need->peak_bytes;
    if (need->lack)
        return snprintf(text, size, "out of memory: %s", need->lack);
    int n = snprintf(text, size, "%s: %.80s, the fullest device, needs %s of %s",
                     memory_verdict(need->peak_bytes, need->memory_bytes, e), need->device,
                     units_of(UNIT_BYTES, (double)need->peak_bytes).text,
                     units_of(UNIT_BYTES, (double)need->memory_bytes).text);
    if (room < 0)
        return n;
    n += snprintf(text + n, size - (size_t)n, " (%.3g %% spare",
                  100 * (double)room / (double)need->memory_bytes);
    if (e->runs > 0)
        n += snprintf(text + n, size - (size_t)n,
                      sure ? "; predicted memory was off by %.3g %% in the median over %zu runs"
                           : ", less than predicted memory is usually off by: %.3g %% in the "
                             "median over %zu runs",
                      100 * e->median, e->runs);
    n += snprintf(text + n, size - (size_t)n, ")");
    if (room < need->reserve_bytes)
        n += snprintf(text + n, size - (size_t)n, "; less than the reserve of %s is free",
                      units_of(UNIT_BYTES, (double)need->reserve_bytes).text);
    return n;
}

enum status memory_answer_print(const struct plan *p, const struct evaluation_context *context,
                                const struct memory_need *need, FILE *out)
{
    char text[768];
    double all = (double)need->memory_bytes, spare = 1 - (double)need->peak_bytes / all;
    struct memory_error e = context ? memory_error_of(p) : (struct memory_error){0};
    bool sure = spare >= fmax(e.median, 0);
    int n = memory_answer_put(need, &e, sure, text, sizeof text);
    if (!sure && context) {
        struct memory_saving saving;
        double enough = fmax(e.median, (double)need->reserve_bytes / all);
        PASS(memory_saving_find(p, context, enough, &saving));
        if (*saving.option)
            snprintf(text + n, sizeof text - (size_t)n, "; try %s, which needs %s", saving.option,
                     units_of(UNIT_BYTES, (double)saving.peak_bytes).text);
    }
    text_put_answer(out, "memory", text);
    return STATUS_OK;
}

enum status memory_warn(const struct plan *p, const struct evaluation_context *context, FILE *to)
{
    struct memory_saving now = {0}, saving = {0};
    enum status st = find_spare(p, context, &now);
    if (st != STATUS_OK || now.spare >= 0)
        return st == STATUS_NOMEM ? st : STATUS_OK;
    PASS(memory_saving_find(p, context, 0, &saving));
    fprintf(to, "warning: the plan does not fit into memory: peak %s, capacity %s%s%s\n",
            units_of(UNIT_BYTES, (double)now.peak_bytes).text,
            units_of(UNIT_BYTES, (double)now.peak_bytes / (1 - now.spare)).text,
            *saving.option ? "; try " : "", saving.option);
    return STATUS_OK;
}
