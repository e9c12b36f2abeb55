/* The ranking of a search, as a table of at most 100 columns (or of what it takes), as JSON with
 * the same figures, and as the one line that says why nothing fits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/base/units.h"
#include "core/data/rules.h"
#include "study/expected.h"
#include "study/planning.h"

enum {
    CELL = 64,
    INDENT = 35, /* where its last column begins */
    LINE = 100
};

#define SECONDS(s) (units_of(UNIT_SECONDS, s).text)

/* ---- cells */

static const char *ranking_bytes_text(int64_t bytes, char text[CELL])
{
    double size = bytes < 0 ? -(double)bytes : (double)bytes;
    snprintf(text, CELL, "%s%s", bytes < 0 ? "-" : "", units_of(UNIT_BYTES, size).text);
    return text;
}

/* Stages on each device. */
static size_t ranking_chunks(const struct auto_candidate *c)
{
    return c->plan.stages / c->depth;
}

static const char *placement_of(const struct auto_candidate *c)
{
    bool alone = c->plan.stage[0].replicas == 1 && !auto_is_uneven(&c->plan);
    return c->depth == 1 || alone            ? NULL
           : c->placement == PLACE_PIPELINES ? "pipelines"
                                             : "replicas";
}

static void print_replicas(const struct plan *p, FILE *out)
{
    fprintf(out, "%*sDP of the stages:", INDENT, "");
    for (size_t k = 0; k < p->stages; k++)
        fprintf(out, "%s %u", k ? "," : "", p->stage[k].replicas);
    putc('\n', out);
}

/* ---- the table */

/* The iteration, "~" where SimGrid has not looked at the plan; samples per second and memory that
 * stays free; and in noise what that makes of the iteration, "-" where it was not tried. */
static void print_figures(const struct auto_candidate *c, const struct arguments *a, FILE *out)
{
    const struct evaluation *e = auto_evaluation(c);
    char headroom[CELL], iteration[CELL];
    snprintf(iteration, sizeof iteration, "%s%s", c->verified ? "" : "~", SECONDS(e->iteration_s));
    fprintf(out, "%9s %8.4g %11s  ", iteration, e->samples_per_s,
            ranking_bytes_text(e->headroom_bytes, headroom));
    if (plan_is_by_campaign(a)) {
        snprintf(iteration, sizeof iteration, "%.5g", c->training_s / DAY_S);
        fprintf(out, "%8s ", c->training_s > 0 ? iteration : "-");
        snprintf(iteration, sizeof iteration, "%.1f %%", 100 * c->effective);
        fprintf(out, "%9s  ", c->training_s > 0 ? iteration : "-");
    }
    if (!arguments_given(a, "jitter"))
        return;
    struct plan_jitter j = c->sampled_s ? plan_jitter_of(c, a) : (struct plan_jitter){0};
    fprintf(out, "%9s ", c->sampled_s ? SECONDS(j.mean_s) : "-");
    fprintf(out, "%9s  ", c->sampled_s ? SECONDS(j.worst_s) : "-");
}

/* A row: figures, then the plan and what is unusual about it. */
static void print_candidate(const struct auto_candidate *c, size_t place, const struct arguments *a,
                            const struct topology *t, FILE *out)
{
    char words[PLAN_WORDS], text[2 * PLAN_WORDS];
    const struct evaluation *e = auto_evaluation(c);
    const char *local = placement_of(c);
    int n = snprintf(text, sizeof text, "%s%s%s%s", c->baseline ? c->baseline->name : "",
                     c->baseline ? ": " : "", plan_words(&c->plan, words),
                     local && !strcmp(local, "pipelines") ? "; order tp-pp-dp" : "");
    if (c->devices < t->n)
        n += snprintf(text + n, sizeof text - (size_t)n, "; on %zu of %zu devices", c->devices,
                      t->n);
    if (!c->fits)
        n += snprintf(text + n, sizeof text - (size_t)n, "; does not fit%s",
                      e->headroom_bytes < 0 ? "" : ": less than the reserve stays free");
    if (a->wide)
        snprintf(text + n, sizeof text - (size_t)n, "; %s", e->reason);
    fprintf(out, "%-3zu", place);
    print_figures(c, a, out);
    text_put_wrapped(out, text,
                     plan_is_by_campaign(a)         ? INDENT + 20
                     : arguments_given(a, "jitter") ? INDENT + 21
                                                    : INDENT,
                     LINE);
    if (auto_is_uneven(&c->plan))
        print_replicas(&c->plan, out);
}

/* "76 GiB per H100-SXM5-80GB (80 GiB minus a reserve of 4 GiB; change it with --reserve)" */
static void print_reserve(const struct arguments *a, const struct topology *t, FILE *out)
{
    char most[CELL], all[CELL], text[CELL];
    const char *label = "limit";
    for (size_t k = 0; k < t->types; k++) {
        const struct device_type *type = &t->type[k];
        int64_t bytes = 0;
        if (type->memory_bytes <= 0 || plan_reserve(a, type, &bytes) != STATUS_OK)
            continue;
        fprintf(out, "%-12s%s per %s (%s minus a reserve of %s; change it with --reserve)\n", label,
                ranking_bytes_text(type->memory_bytes - bytes, most), type->name,
                ranking_bytes_text(type->memory_bytes, all), ranking_bytes_text(bytes, text));
        label = "";
    }
}

static void print_head(const struct arguments *a, const char *engine, FILE *out)
{
    bool jitter = arguments_given(a, "jitter"), campaign = plan_is_by_campaign(a);
    if (jitter)
        fprintf(out,
                "%zu samples of %g %% jitter (--seed %zu to %zu), the whole iteration simulated, "
                "none folded;\n"
                "ranked by %s\n",
                a->search.samples, 100 * a->sim.jitter, a->seed, a->seed + a->search.samples - 1,
                !strcmp(a->search.rank_by, "quiet")   ? "the iteration without"
                : !strcmp(a->search.rank_by, "worst") ? "their worst"
                                                      : "their mean");
    fprintf(out, "\n%-3s%9s %8s %11s  ", "", "iteration", "samples", "free memory");
    if (campaign)
        fprintf(out, "%8s %9s  ", "training", "effective");
    if (jitter)
        fprintf(out, "%9s %9s  ", "mean in", "worst in");
    fprintf(out, "plan\n%-3s%9s %8s %11s  ", "", engine, "per s", "");
    if (campaign)
        fprintf(out, "%8s %9s", "days", "time");
    if (jitter)
        fprintf(out, "%9s %9s", "jitter", "jitter");
    putc('\n', out);
}

/* What the search tried and did not try; by reason, where it is wide. */
static void print_effort(const struct auto_result *r, const struct arguments *a, FILE *out)
{
    size_t pruned = 0;
    char tried[TEXT_GROUPED], big[TEXT_GROUPED], left[TEXT_GROUPED];
    for (size_t i = 0; i < auto_filters_n; i++)
        pruned += r->left_out[i];
    fprintf(out, "search      %s plans scored, %s out of memory; %s pruned%s%s\n",
            text_grouped((double)r->tried, tried), text_grouped((double)r->too_big, big),
            text_grouped((double)pruned, left), a->wide ? "" : " (--wide: why)",
            r->spent ? ";\n            the work of a search is limited, so not all shapes were "
                       "tried. Fix some, such as --tp 8, to try more of the others"
            : r->interrupted ? "; stopped by Ctrl-C or --time-limit, so better plans may exist"
                             : "");
    if (!a->wide)
        return;
    fprintf(out,
            "            %zu plans whose stages have different replicas, %zu more cannot run, "
            "%zu not tried; %zu with the optimizer's state on the host\n",
            r->uneven, r->uneven_stuck, r->uneven_left, r->offloaded);
    for (size_t i = 0; i < auto_filters_n; i++)
        if (r->left_out[i] > 0)
            fprintf(out, "  %-9s %7zu %-9s %s\n", auto_filters[i].name, r->left_out[i],
                    auto_level_names[auto_filters[i].level], auto_filters[i].reason);
}

/* Does the row belong into a table that is not wide? The best few, of which there are *rows, and
 * the baselines that fit; whatever the first one is. */
static bool is_shown(const struct auto_result *r, size_t i, bool wide, size_t *rows)
{
    const struct auto_candidate *c = &r->candidate[i];
    bool shown = wide || i == 0 || (c->baseline ? c->fits : *rows < AUTO_SHOWN);
    *rows += !c->baseline;
    return shown;
}

/* How many of the first plans differ from the best by no more than half of predictions are off. */
static void print_tie(const struct auto_result *r, const struct evaluation_context *context,
                      FILE *out)
{
    struct expected e;
    size_t n = 1;
    if (r->n == 0 || !r->candidate[0].fits)
        return;
    double least_s = auto_evaluation(&r->candidate[0])->iteration_s, most_s = least_s;
    if (!expected_find(&r->candidate[0].plan, context->model, context->topology, &e))
        return;
    for (; n < r->n && r->candidate[n].fits; n++) {
        double own_s = auto_evaluation(&r->candidate[n])->iteration_s;
        if (own_s > (1 + e.median) * least_s)
            break;
        most_s = fmax(most_s, own_s);
    }
    if (n > 1)
        fprintf(out,
                "1 to %zu are a tie: at most %.2g %% apart, within the expected error of %.0f %%\n",
                n, 100 * (most_s / least_s - 1), 100 * e.median);
}

/* What has simulated the verified rows, if it was one engine. */
static const char *ranking_engine(const struct auto_result *r)
{
    const char *engine = NULL;
    for (size_t i = 0; i < r->n; i++) {
        const char *own = r->candidate[i].verified ? r->candidate[i].thorough.engine : NULL;
        if (engine && own && strcmp(engine, own) != 0)
            return "simulated";
        engine = own ? own : engine;
    }
    return engine ? engine : engine_quick()->name;
}

void plan_print_ranking(const struct auto_result *r, const struct arguments *a,
                        const struct evaluation_context *context, FILE *out)
{
    bool doubtful = false, unsampled = false, untold = false;
    size_t rows = 0, hidden = 0;
    print_effort(r, a, out);
    print_reserve(a, context->topology, out);
    print_head(a, ranking_engine(r), out);
    for (size_t i = 0; i < r->n; i++) {
        bool shown = is_shown(r, i, a->wide, &rows);
        if (shown)
            print_candidate(&r->candidate[i], i + 1, a, context->topology, out);
        doubtful = doubtful || (shown && !r->candidate[i].verified);
        unsampled = unsampled || (shown && !r->candidate[i].sampled_s);
        untold = untold || (shown && !(r->candidate[i].training_s > 0));
        hidden += !shown;
    }
    if (hidden > 0)
        fprintf(out, "%zu more in --wide and --json\n", hidden);
    if (!arguments_given(a, "jitter"))
        print_tie(r, context, out);
    if (doubtful)
        fputs(
            "~ by the analytic engine only, above 256 devices without contention; SimGrid may find "
            "it slower\n",
            out);
    if (untold && plan_is_by_campaign(a))
        fputs("- not simulated: longer without failures than the first plan with them, or "
              "impossible\n",
              out);
    if (unsampled && arguments_given(a, "jitter"))
        fputs("- not sampled: slower without noise, and too many ops; or too big for memory\n",
              out);
}

/* ---- JSON */

static void put_samples(struct json_writer *w, const struct auto_candidate *c,
                        const struct arguments *a)
{
    struct plan_jitter j = {NAN, NAN, a->seed};
    if (c->sampled_s)
        j = plan_jitter_of(c, a);
    json_put_real(w, "mean_s", j.mean_s);
    json_put_real(w, "worst_s", j.worst_s);
    if (!c->sampled_s)
        return;
    json_put_integer(w, "worst_seed", (int64_t)j.seed);
    json_put_reals(w, "sampled_s", c->sampled_s, a->search.samples);
}

static void put_candidate(struct json_writer *w, const struct auto_candidate *c,
                          const struct arguments *a)
{
    const struct plan *p = &c->plan;
    const struct evaluation *e = auto_evaluation(c);
    struct strategy shared;
    struct strategy_stage own;
    json_open_object(w, NULL, false);
    json_put_integer(w, "stages", (int64_t)p->stages);
    if (auto_is_uneven(p))
        json_put_string(w, "replicas", NULL);
    else
        json_put_integer(w, "replicas", p->stage[0].replicas);
    json_open_array(w, "stage_replicas", true);
    for (size_t k = 0; k < p->stages; k++)
        json_put_integer(w, NULL, p->stage[k].replicas);
    json_close(w);
    json_put_integer(w, "shards", p->stage[0].tensor_parallel);
    json_put_integer(w, "devices", (int64_t)c->devices);
    json_put_string(w, "schedule", p->schedule);
    json_put_integer(w, "chunks", (int64_t)ranking_chunks(c));
    json_put_integer(w, "microbatches", p->microbatches);
    json_put_integer(w, "microbatch_size", p->microbatch_size);
    rules_settle(p, &shared, &own);
    strategy_report(&shared, &own, w);
    json_put_string(w, "placement", placement_of(c));
    json_put_real(w, "quick_s", c->quick.iteration_s);
    json_put_real(w, "iteration_s", e->iteration_s);
    json_put_real(w, "samples_per_s", e->samples_per_s);
    if (arguments_given(a, "jitter"))
        put_samples(w, c, a);
    if (c->training_s > 0) {
        json_put_real(w, "training_s", c->training_s);
        json_put_real(w, "effective", c->effective);
        json_put_integer(w, "spares", c->spares);
    }
    json_put_string(w, "engine", e->engine);
    json_put_bool(w, "exact", e->exact);
    json_put_string(w, "baseline", c->baseline ? c->baseline->name : NULL);
    json_put_bool(w, "fits", c->fits);
    json_put_integer(w, "headroom_bytes", e->headroom_bytes);
    json_put_string(w, "time", e->reason);
    json_close(w);
}

void plan_put_candidates(struct json_writer *w, const struct auto_result *r,
                         const struct arguments *a)
{
    if (arguments_given(a, "jitter")) {
        json_open_object(w, "jitter", true);
        json_put_real(w, "share", a->sim.jitter);
        json_put_integer(w, "samples", (int64_t)a->search.samples);
        json_put_integer(w, "seed", (int64_t)a->seed);
        json_put_string(w, "rank_by", a->search.rank_by);
        json_close(w);
    }
    json_open_array(w, "candidates", false);
    for (size_t i = 0; i < r->n; i++)
        put_candidate(w, &r->candidate[i], a);
    json_close(w);
}

/* ---- nothing fits */

/* Rank and stage of a device, counted team by team as programs number them. */
static uint32_t ranking_rank_of(const struct plan *p, size_t depth, uint32_t device, size_t *stage)
{
    uint32_t rank = 0;
    for (*stage = 0; *stage < depth; ++*stage)
        for (size_t k = 0; k < p->stage[*stage].devices; k++, rank++)
            if (p->stage[*stage].device[k] == device)
                return rank;
    return rank;
}

enum status plan_fails_to_fit(const struct auto_result *r, const struct arguments *a,
                              const struct evaluation_context *context, const volatile int *stop)
{
    const struct auto_candidate *c = &r->candidate[0];
    const struct evaluation *e = auto_evaluation(c);
    const struct topology *t = context->topology;
    const struct device_type *type = topology_type(t, e->device);
    char words[PLAN_WORDS], peak[CELL], reserve[CELL], memory[CELL], help[PLAN_REMEDIES];
    int64_t keep = 0;
    size_t stage;
    PASS(plan_reserve(a, type, &keep));
    PASS(plan_remedies(c, a, context, stop, help));
    uint32_t rank = ranking_rank_of(&c->plan, c->depth, e->device, &stage);
    return error_set(
        STATUS_INFEASIBLE,
        "no plan fits into memory. The plan with the least memory (%s) needs %s on rank %u (%s, "
        "stage %zu); the device has %s, of which %s is reserved%s; --allow-oom takes this plan",
        plan_words(&c->plan, words), ranking_bytes_text(e->peak_bytes, peak), rank,
        t->device[e->device], stage, ranking_bytes_text(type->memory_bytes, memory),
        ranking_bytes_text(keep, reserve), help);
}
