/* The ranking of a search, as a table of at most 100 columns (or of what it takes), as JSON with
 * the same figures, and as the one line that says why nothing fits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/base/units.h"
#include "core/data/rules.h"
#include "study/planning.h"

enum { CELL = 64, ROWS = 10 }; /* of the table, baselines apart, unless it is wide */

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

/* "sel z1 sp b32M": what a plan does besides its shape. */
static const char *extras_of(const struct plan *p, char text[CELL])
{
    struct strategy shared;
    struct strategy_stage own;
    rules_settle(p, &shared, &own);
    return strategy_print(&shared, &own, text, CELL);
}

/* "8", or "1-5" where stages have different replicas. */
static const char *replicas_of(const struct plan *p, char text[CELL / 2])
{
    uint32_t least = p->stage[0].replicas, most = least;
    for (size_t k = 1; k < p->stages; k++) {
        least = p->stage[k].replicas < least ? p->stage[k].replicas : least;
        most = p->stage[k].replicas > most ? p->stage[k].replicas : most;
    }
    snprintf(text, CELL / 2, least < most ? "%u-%u" : "%u", least, most);
    return text;
}

/* "TP 8, PP 4, VP 2, DP 2" */
static const char *ranking_shape(const struct auto_candidate *c, char text[CELL])
{
    char replicas[CELL / 2], chunks[CELL / 2] = "";
    if (ranking_chunks(c) > 1)
        snprintf(chunks, sizeof chunks, ", VP %zu", ranking_chunks(c));
    snprintf(text, CELL, "TP %u, PP %zu%.10s, DP %s", c->plan.stage[0].tensor_parallel, c->depth,
             chunks, replicas_of(&c->plan, replicas));
    return text;
}

static void print_replicas(const struct plan *p, FILE *out)
{
    fputs("     ^ replicas of the stages:", out);
    for (size_t k = 0; k < p->stages; k++)
        fprintf(out, "%s %u", k ? "," : "", p->stage[k].replicas);
    putc('\n', out);
}

/* ---- the table */

/* The figures of a row: without noise samples per second and memory, else what noise makes of the
 * iteration, "-" where it was not tried. */
static void print_figures(const struct auto_candidate *c, const struct arguments *a, FILE *out)
{
    const struct evaluation *e = auto_evaluation(c);
    char headroom[CELL], iteration[CELL];
    snprintf(iteration, sizeof iteration, "%s%s", c->verified ? "" : "~", SECONDS(e->iteration_s));
    fprintf(out, "%9s ", iteration);
    if (arguments_given(a, "jitter")) {
        struct plan_jitter j = c->sampled_s ? plan_jitter_of(c, a) : (struct plan_jitter){0};
        fprintf(out, "%9s %8s", c->sampled_s ? SECONDS(j.mean_s) : "-",
                c->sampled_s ? SECONDS(j.worst_s) : "-");
    }
    if (!arguments_given(a, "jitter") || a->wide)
        fprintf(out, "%s%7.4g %9s", arguments_given(a, "jitter") ? " " : "", e->samples_per_s,
                ranking_bytes_text(e->headroom_bytes, headroom));
    if (a->wide)
        fprintf(out, " %9s  %s", SECONDS(c->quick.iteration_s), e->reason);
}

/* A row, and below it what is unusual about the plan: a baseline, more memory than there is. "~":
 * not what the last word on finalists said, nor all of the iteration. */
static void print_candidate(const struct auto_candidate *c, size_t place, const struct arguments *a,
                            FILE *out)
{
    char replicas[CELL / 2], microbatches[CELL], extras[CELL];
    const struct plan *p = &c->plan;
    const struct evaluation *e = auto_evaluation(c);
    const char *local = placement_of(c);
    snprintf(microbatches, sizeof microbatches, "%u x %u", p->microbatches, p->microbatch_size);
    fprintf(out, "%-3zu %2u %4zu %2zu %5s %6zu %-12s %-10s %-16s %-4.4s ", place,
            p->stage[0].tensor_parallel, c->depth, ranking_chunks(c), replicas_of(p, replicas),
            c->devices, p->stages > 1 ? p->schedule : "-", microbatches, extras_of(p, extras),
            local ? local : "-");
    print_figures(c, a, out);
    putc('\n', out);
    if (auto_is_uneven(p))
        print_replicas(p, out);
    if (c->baseline)
        fprintf(out, "     ^ baseline %s: %s\n", c->baseline->name, c->baseline->summary);
    if (!c->fits)
        fprintf(out, "     ^ does not fit%s\n",
                e->headroom_bytes < 0 ? "" : ": less than the reserve stays free");
}

/* "5 % of the memory of H100 (4 GiB)": by type of device. */
static void print_reserve(const struct arguments *a, const struct topology *t, FILE *out)
{
    char text[CELL];
    fputs("a plan fits if it leaves free", out);
    for (size_t k = 0; k < t->types; k++) {
        int64_t bytes = 0;
        if (plan_reserve(a, &t->type[k], &bytes) == STATUS_OK)
            fprintf(out, "%s %s of a %s%s", k ? "," : "", ranking_bytes_text(bytes, text),
                    t->type[k].name,
                    a->reserve                       ? ""
                    : t->type[k].framework_bytes > 0 ? " (its framework_memory)"
                                                     : " (5 %)");
    }
    fputs("; change it with --reserve\n", out);
}

static void print_head(const struct arguments *a, const char *engine, FILE *out)
{
    bool jitter = arguments_given(a, "jitter");
    if (jitter)
        fprintf(out,
                "%zu samples of %g %% jitter (--seed %zu to %zu), the whole iteration simulated, "
                "none folded;\n"
                "ranked by %s\n",
                a->search.samples, 100 * a->sim.jitter, a->seed, a->seed + a->search.samples - 1,
                !strcmp(a->search.rank_by, "quiet")   ? "the iteration without"
                : !strcmp(a->search.rank_by, "worst") ? "their worst"
                                                      : "their mean");
    fprintf(out, "\n%-3s %2s %4s %2s %5s %6s %-12s %-10s %-16s %-4s %9s ", "", "tp", "pp", "vp",
            "dp", "", "schedule", "micro-", "recompute, ZeRO,", "near", "iteration");
    if (jitter)
        fprintf(out, "%9s %8s", "with", "jitter");
    if (!jitter || a->wide)
        fprintf(out, "%s%7s %9s", jitter ? " " : "", "samples", "headroom");
    if (a->wide)
        fprintf(out, " %9s  %s", "quick", "time of all ranks");
    fprintf(out, "\n%-3s %2s %4s %2s %5s %6s %-12s %-10s %-16s %-4s %9s ", "", "", "", "", "",
            "devs", "", "batches", "SP, bucket", "", engine);
    if (jitter)
        fprintf(out, "%9s %8s", "mean", "worst");
    if (!jitter || a->wide)
        fprintf(out, "%s%7s", jitter ? " " : "", "per s");
    putc('\n', out);
}

void plan_print_ranking(const struct auto_result *r, const struct arguments *a,
                        const struct evaluation_context *context, FILE *out)
{
    bool doubtful = false, unsampled = false;
    size_t rows = 0, hidden = 0;
    fprintf(out,
            "%zu plans of %zu samples per iteration tried, %zu of them too big for memory; %zu "
            "shapes left out%s\n",
            r->tried, plan_samples(a, context->topology), r->too_big, auto_shapes_left_out(r),
            r->interrupted ? "; stopped by Ctrl-C, a limit of time or of work, so not all" : "");
    if (r->uneven + r->uneven_stuck + r->uneven_left > 0) {
        fprintf(out, "  of them %zu plans whose stages have different replicas", r->uneven);
        if (r->uneven_stuck > 0)
            fprintf(out, ", %zu more cannot run", r->uneven_stuck);
        if (r->uneven_left > 0)
            fprintf(out, "; %zu less promising such shapes not tried", r->uneven_left);
        putc('\n', out);
    }
    if (r->offloaded > 0)
        fprintf(out, "  of them %zu with the optimizer's state in the host's memory\n",
                r->offloaded);
    for (size_t i = 0; i < auto_filters_n; i++)
        if (r->left_out[i] > 0)
            fprintf(out, "  %-9s %7zu %-9s %s\n", auto_filters[i].name, r->left_out[i],
                    auto_level_names[auto_filters[i].level], auto_filters[i].reason);
    print_reserve(a, context->topology, out);
    print_head(a, evaluate_thorough_engine(context)->name, out);
    for (size_t i = 0; i < r->n; i++) {
        bool shown = r->candidate[i].baseline || rows++ < ROWS || a->wide;
        if (shown)
            print_candidate(&r->candidate[i], i + 1, a, out);
        doubtful = doubtful || (shown && !r->candidate[i].verified);
        unsampled = unsampled || (shown && !r->candidate[i].sampled_s);
        hidden += !shown;
    }
    if (hidden > 0)
        fprintf(out, "%zu more in --wide and --json\n", hidden);
    if (doubtful)
        fputs("~ by the analytic engine only; beyond 256 devices without contention\n", out);
    if (unsampled && arguments_given(a, "jitter"))
        fputs("- not sampled: slower without noise, and too many ops; or too big for memory\n",
              out);
    putc('\n', out);
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

/* What was given, and stands in the way of saving memory; else what the search could not change. */
static void ranking_put_help(const struct arguments *a, const struct auto_candidate *c, char *text,
                             size_t size)
{
    static const char *const options[] = {
        "stages", "replicas", "tensor-parallel", "microbatch-size", "microbatches", "recompute",
        "zero",   "chunks",   "schedule",        "reserve",         "executable",
    };
    size_t n = 0;
    text[0] = '\0';
    for (size_t k = 0; k < sizeof options / sizeof *options; k++)
        if (arguments_given(a, options[k]) && n < size)
            n += (size_t)snprintf(text + n, size - n, "%s--%s", n ? ", " : "", options[k]);
    if (n > 0)
        snprintf(text + n, size - n, " may stand in the way");
    else if (!a->search.granularity && c->depth > 1)
        snprintf(text, size, "more devices or memory would help, perhaps --granularity op");
    else
        snprintf(text, size, "more devices or memory would help");
}

enum status plan_fails_to_fit(const struct auto_result *r, const struct arguments *a,
                              const struct topology *t)
{
    const struct auto_candidate *c = &r->candidate[0];
    const struct evaluation *e = auto_evaluation(c);
    const struct device_type *type = topology_type(t, e->device);
    char shape[CELL], extras[CELL], lack[CELL], peak[CELL], reserve[CELL], memory[CELL], help[200];
    int64_t keep = 0;
    size_t stage;
    PASS(plan_reserve(a, type, &keep));
    uint32_t rank = ranking_rank_of(&c->plan, c->depth, e->device, &stage);
    ranking_put_help(a, c, help, sizeof help);
    return error_set(
        STATUS_INFEASIBLE,
        "no plan fits; in the nearest (%s, %s) rank %u (%s, stage %zu) lacks "
        "%s: it needs %s, its device has %s, of which %s is reserved; %s (--allow-oom "
        "takes the plan all the same)",
        ranking_shape(c, shape), extras_of(&c->plan, extras), rank, t->device[e->device], stage,
        ranking_bytes_text(keep - e->headroom_bytes, lack), ranking_bytes_text(e->peak_bytes, peak),
        ranking_bytes_text(type->memory_bytes, memory), ranking_bytes_text(keep, reserve), help);
}
