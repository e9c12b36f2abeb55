/* Prints a measurement for people, and writes the files that a run leaves.
 *
 * The same lines and tables for predictions and real runs, so that two outputs can be laid side by
 * side; what only one of them knows (losses, links, folding) is left out where it is missing. */
#include "study/summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/statistics.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/data/breakdown.h"
#include "core/data/timeline_json.h"
#include "measured/bytes.h"
#include "study/expected.h"
#include "study/machine.h"
#include "study/memory_answer.h"
#include "study/planning.h"
#include "study/remedy.h"
#include "study/summary_modules.h"

enum { CALLS = 6 };

#define SECONDS(s) (units_of(UNIT_SECONDS, s).text)
#define BYTES(n)   (units_of(UNIT_BYTES, (double)(n)).text)

/* ---- summary */

const char *report_lack(const struct measurement *m, char text[REPORT_VERDICT])
{
    size_t r = measurement_fullest(m), others = measurement_overfull(m) - 1;
    int n = snprintf(text, REPORT_VERDICT, "rank %zu (%.80s) needs %s, its device has %s", r,
                     m->rank[r].name, BYTES(m->rank[r].peak_bytes), BYTES(m->rank[r].memory_bytes));
    if (others > 0)
        snprintf(text + n, REPORT_VERDICT - (size_t)n, "; %zu more rank%s lack%s memory", others,
                 others > 1 ? "s" : "", others > 1 ? "" : "s");
    return text;
}

/* Does it fit? The rank with the least room decides; how much the others lack is in the table. */
static enum status print_memory(const struct measurement *m, const struct summary_rows *rows,
                                FILE *out)
{
    char text[96], lack[REPORT_VERDICT];
    size_t r = measurement_fullest(m);
    if (r == m->ranks)
        return STATUS_OK;
    const struct measured_rank *rank = &m->rank[r];
    if (m->captured && rank->peak_bytes == 0) {
        text_put_answer(out, "memory", "not known: the traces do not say it");
        return STATUS_OK;
    }
    snprintf(text, sizeof text, "rank %zu (%.60s)", r, rank->name);
    const struct memory_need need = {text, rank->peak_bytes, rank->memory_bytes,
                                     rank->reserve_bytes,
                                     measurement_overfull(m) > 0 ? report_lack(m, lack) : NULL};
    return memory_answer_print(rows->plan, rows->expected, &need, out);
}

/* What is offloaded. */
static void summary_print_host(const struct measurement *m, FILE *out)
{
    size_t most = 0;
    double all = 0;
    for (size_t r = 0; r < m->ranks; r++) {
        most = m->rank[r].host_bytes > m->rank[most].host_bytes ? r : most;
        all += (double)m->rank[r].host_bytes;
    }
    if (all > 0)
        fprintf(out, "host        %s of rank %zu (%s) in its host's memory, %s of all ranks\n",
                BYTES(m->rank[most].host_bytes), most, m->rank[most].name, BYTES(all));
}

/* Where several ranks have a loss, that of the last step of each of the first few. */
static void print_rank_losses(const struct measurement *m, FILE *out)
{
    enum { MOST = 16, ITEM = 48 };
    char text[(MOST + 2) * ITEM] = "";
    size_t n = 0, used = 0;
    for (size_t r = 0; r < m->ranks; r++) {
        const struct measured_rank *rank = &m->rank[r];
        if (rank->losses > 0 && n++ < MOST)
            used += (size_t)snprintf(text + used, sizeof text - used, "%.6g of rank %zu, ",
                                     rank->loss[rank->losses - 1], r);
    }
    if (n < 2)
        return;
    if (n > MOST)
        snprintf(text + used, sizeof text - used, "and %zu more", n - MOST);
    else
        text[used - strlen(", ")] = '\0';
    text_put_answer(out, "", text);
}

/* Of several measured iterations; predictions have one. */
static void summary_print_spread(const struct measurement *m, FILE *out)
{
    double mean_s = 0, square = 0, n = (double)m->iterations;
    for (size_t i = 0; i < m->iterations; i++)
        mean_s += m->iterations_s[i] / n;
    for (size_t i = 0; i < m->iterations; i++)
        square += (m->iterations_s[i] - mean_s) * (m->iterations_s[i] - mean_s);
    fprintf(out, "spread      mean %s", SECONDS(mean_s));
    fprintf(out, ", standard deviation %s", SECONDS(sqrt(square / n)));
    fprintf(out, ", 5th percentile %s", SECONDS(quantile(m->iterations_s, m->iterations, 0.05)));
    fprintf(out, ", 95th %s\n", SECONDS(quantile(m->iterations_s, m->iterations, 0.95)));
}

/* "iteration   1.2 s (median of 10: 1.1 s to 1.4 s)". */
static void summary_print_iteration(const struct measurement *m, FILE *out)
{
    fprintf(out, "iteration   %s%s", SECONDS(m->iteration_s),
            m->forward_only ? " (forward only)" : "");
    if (m->iterations > 1) {
        double least = m->iterations_s[0], most = least;
        for (size_t i = 1; i < m->iterations; i++) {
            least = m->iterations_s[i] < least ? m->iterations_s[i] : least;
            most = m->iterations_s[i] > most ? m->iterations_s[i] : most;
        }
        fprintf(out, " (median of %zu: %s", m->iterations, SECONDS(least));
        fprintf(out, " to %s)", SECONDS(most));
    }
    fputc('\n', out);
}

/* Who says so, and how much of it was simulated. */
static void summary_print_engine(const struct measurement *m, FILE *out)
{
    fprintf(out, "engine      %s\n", m->engine);
    if (m->simulated < m->microbatches)
        fprintf(out, "            folded: %u of %u microbatches simulated, the rest repeats\n",
                m->simulated, m->microbatches);
    if (m->not_folded)
        fprintf(out, "            not folded: %s\n", m->not_folded);
    if (m->ranks_simulated > 0)
        fprintf(out, "            folded: %u of %zu ranks simulated, the rest is alike by proof\n",
                m->ranks_simulated, m->ranks);
    if (m->ranks_not_folded)
        fprintf(out, "            all ranks simulated: %s\n", m->ranks_not_folded);
    if (m->framework)
        fprintf(out, "framework   %s\n", m->framework);
    if (m->iterations > 1)
        summary_print_spread(m, out);
}

/* What the devices make of their speeds, the nominal one and the one that products attain. */
static void print_speed(const struct measurement *m, FILE *out)
{
    double nominal = m->peak_flops > 0 ? m->peak_flops : m->flops, done = m->mfu * nominal;
    bool tokens = m->tokens_per_s > 0; /* there is attention */
    if (m->mfu <= 0)
        return;
    fprintf(out, "MFU         %.2f %%, HFU %.2f %% of %s, the %s of all %zu ranks%s%s%s\n",
            100 * m->mfu, 100 * m->hfu, units_of(UNIT_FLOPS, nominal).text,
            m->peak_flops > 0 ? "nominal peak" : "platform's speed", m->ranks, tokens ? " (" : "",
            tokens ? machine_convention(m->mask_subtracted) : "", tokens ? ")" : "");
    if (m->peak_flops > 0)
        fprintf(out, "attained    %s per device, %.2f %% of the speed that the platform states\n",
                units_of(UNIT_FLOPS, done / (double)m->ranks).text, 100 * done / m->flops);
}

static double summary_mean_of(const double *x, size_t n)
{
    double sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += x[k] / (double)n;
    return sum;
}

/* What losses say that their digits do not; empty: nothing. */
static const char *what_is_wrong(const double *loss, size_t n)
{
    bool zero = true;
    for (size_t k = 0; k < n; k++) {
        if (!isfinite(loss[k]))
            return ": not finite, it diverged";
        zero &= loss[k] == 0;
    }
    return zero ? ": the model has no loss, and learns nothing" : "";
}

/* Of a training how it went, of forwards alone what the model is worth. */
static void summary_print_losses(const struct measurement *m, FILE *out)
{
    if (m->losses == 0)
        return;
    if (!m->forward_only) {
        fprintf(out, "loss        %.6f first, %.6f last of %zu steps%s\n", m->loss[0],
                m->loss[m->losses - 1], m->losses, what_is_wrong(m->loss, m->losses));
        return;
    }
    fprintf(out, "loss        %.6f mean of %zu steps\n", summary_mean_of(m->loss, m->losses),
            m->losses);
    if (m->precisions_1 > 0 && m->precisions_5 > 0)
        fprintf(out, "precision   prec@1 %.2f %%, prec@5 %.2f %% of the targets\n",
                100 * summary_mean_of(m->precision_1, m->precisions_1),
                100 * summary_mean_of(m->precision_5, m->precisions_5));
}

/* The answer first: what, how fast, does it fit, how sure, what holds it up; then details. Lines
 * that scripts may look for: a word, and from column 13 on its value
 * (docs/reference/simulate-output.md). */
static enum status summary_print_text(const struct measurement *m, const struct summary_rows *rows,
                                      FILE *out)
{
    const struct training_machine machine = {.devices = (double)m->ranks,
                                             .watts = m->watts,
                                             .price_per_hour = m->price_per_hour,
                                             .tokens_per_s = m->tokens_per_s};
    char sentence[BREAKDOWN_TEXT], hardware[MEASURED_HARDWARE];
    char tokens[TEXT_GROUPED], each[TEXT_GROUPED];
    if (rows->plan)
        plan_print_words(rows->plan, out);
    summary_print_iteration(m, out);
    fprintf(out, "throughput  %.4g %s/s", m->samples_per_s, m->captured ? "steps" : "samples");
    if (m->tokens_per_s > 0)
        fprintf(out, ", %s tokens/s (%s per device)", text_grouped(m->tokens_per_s, tokens),
                text_grouped(m->tokens_per_s / (double)m->ranks, each));
    fputc('\n', out);
    PASS(print_memory(m, rows, out));
    if (rows->expected)
        PASS(expected_print(rows->plan, rows->expected, out));
    if (rows->accuracy)
        text_put_answer(out, "accuracy", rows->accuracy);
    summary_print_losses(m, out);
    print_rank_losses(m, out);
    if (*breakdown_bottleneck(m, sentence))
        text_put_answer(out, "bottleneck", sentence);
    if (rows->expected)
        PASS(remedies_print(rows->plan, rows->expected, out));
    if (rows->script)
        PASS(remedies_print_program(rows->script, rows->script_on, out));
    summary_print_engine(m, out);
    fprintf(out, "%-12s%.2f %% (idle time of all ranks / total)\n", m->captured ? "idle" : "bubble",
            100 * m->bubble_fraction);
    print_speed(m, out);
    machine_print_training(&machine, rows->train_tokens, out);
    summary_print_host(m, out);
    if (m->software.blas)
        fprintf(out, "computed by %s\n", m->software.blas);
    if (*measurement_hardware(m, hardware))
        text_put_answer(out, "GPUs", hardware);
    if (m->parameters_sha256)
        fprintf(out, "parameters  sha256 %s\n", m->parameters_sha256);
    return STATUS_OK;
}

/* ---- tables */

static void summary_print_time(const char *what, double s, double total_s, FILE *out)
{
    fprintf(out, "%-36s %12s %7.2f%%\n", what, SECONDS(s), total_s > 0 ? 100 * s / total_s : 0);
}

/* The rows add up to the iteration (core/data/breakdown.h). */
static void report_breakdown(const struct measurement *m, FILE *out)
{
    struct breakdown b = breakdown_of(m);
    double total_s = breakdown_sum(&b);
    if (m->ranks == 0)
        return;
    fprintf(out, "\n%-36s %12s %8s\n", "where the time went", "mean rank", "share");
    for (size_t k = 0; k < BREAKDOWN_PARTS; k++) {
        char what[BREAKDOWN_PART];
        double s = breakdown_part(&b, k);
        bool idle = m->captured && k + 1 == BREAKDOWN_PARTS; /* a script has no pipeline of ours */
        if (s > 0 || k == 0 || k > OP_PURPOSES)
            summary_print_time(idle ? "idle" : breakdown_part_name(k, what), s, total_s, out);
    }
    summary_print_time("sum", total_s, total_s, out);
}

/* A rank and what the table is sorted by. */
struct summary_rank {
    size_t rank;
    uint32_t stage;
    double key;
    bool leads; /* has the largest key of its stage */
};

static int largest_first(const void *a, const void *b)
{
    const struct summary_rank *x = a, *y = b;
    if (x->key != y->key)
        return x->key > y->key ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static int leaders_first(const void *a, const void *b)
{
    const struct summary_rank *x = a, *y = b;
    return x->leads != y->leads ? (x->leads ? -1 : 1) : largest_first(a, b);
}

static int by_stage(const void *a, const void *b)
{
    const struct summary_rank *x = a, *y = b;
    return x->stage != y->stage ? (x->stage < y->stage ? -1 : 1) : largest_first(a, b);
}

/* The n ranks with the largest keys, one of every stage before the others (replicas are alike);
 * when all have room in their own order. */
static void summary_choose_rows(struct summary_rank *place, size_t ranks, size_t n)
{
    if (n == ranks)
        return;
    qsort(place, ranks, sizeof *place, by_stage);
    for (size_t k = 0; k < ranks; k++)
        place[k].leads = k == 0 || place[k - 1].stage != place[k].stage;
    qsort(place, ranks, sizeof *place, leaders_first);
    qsort(place, n, sizeof *place, largest_first);
}

/* Busy, exposed communication and idle time of the busiest ranks. */
static void report_times(const struct measurement *m, struct summary_rank *place, size_t n,
                         FILE *out)
{
    for (size_t r = 0; r < m->ranks; r++)
        place[r] = (struct summary_rank){r, m->rank[r].stage, m->rank[r].busy_s, false};
    summary_choose_rows(place, m->ranks, n);
    fprintf(out, "\n%-7s %-16s %6s %12s %14s %12s\n", n < m->ranks ? "busiest" : "rank", "device",
            m->captured ? "" : "stage", "busy", "exposed comm", "idle");
    for (size_t k = 0; k < n; k++) {
        const struct measured_rank *rank = &m->rank[place[k].rank];
        char stage[16] = ""; /* a script has none */
        if (!m->captured)
            snprintf(stage, sizeof stage, "%u", rank->stage);
        fprintf(out, "%-7zu %-16s %6s %12s %14s %12s\n", place[k].rank, rank->name, stage,
                SECONDS(rank->busy_s), SECONDS(rank->exposed_comm_s), SECONDS(rank->idle_s));
    }
}

/* What the program expects a rank to hold at its fullest, by purpose. */
static int64_t predicted_peak(const struct measured_rank *r)
{
    return r->weight_bytes + r->gradient_bytes + r->state_bytes + r->stash_bytes + r->scratch_bytes;
}

/* Were the peaks found in reality, besides what the program expects? */
static bool summary_is_measured(const struct measurement *m)
{
    bool differs = false;
    for (size_t r = 0; r < m->ranks; r++)
        differs |= m->rank[r].peak_bytes != predicted_peak(&m->rank[r]);
    return differs && m->parameters_sha256;
}

/* Bytes of the fullest ranks by what they are for. Real runs have a measured peak as well, of the
 * allocator; predictions say at which op the peak is. */
static void report_memory(const struct measurement *m, struct summary_rank *place, size_t n,
                          FILE *out)
{
    for (size_t r = 0; r < m->ranks; r++)
        place[r] = (struct summary_rank){
            r, m->rank[r].stage, (double)(m->rank[r].peak_bytes - m->rank[r].memory_bytes), false};
    summary_choose_rows(place, m->ranks, n);
    bool real = summary_is_measured(m);
    fprintf(out, "\n%-7s %10s %10s %10s %11s %10s %s%10s %10s  %s\n",
            n < m->ranks ? "fullest" : "rank", "weights", "gradients", "optimizer", "activations",
            "scratch", real ? " predicted " : "", real ? "measured" : "peak", "free", "first at");
    for (size_t k = 0; k < n; k++) {
        const struct measured_rank *rank = &m->rank[place[k].rank];
        int64_t spare = rank->memory_bytes - rank->peak_bytes;
        char predicted[UNITS_TEXT + 2] = "";
        if (real)
            snprintf(predicted, sizeof predicted, "%10s ", BYTES(predicted_peak(rank)));
        fprintf(out, "%-7zu %10s %10s %10s %11s %10s %s%10s %10s  %s\n", place[k].rank,
                BYTES(rank->weight_bytes), BYTES(rank->gradient_bytes), BYTES(rank->state_bytes),
                BYTES(rank->stash_bytes), BYTES(rank->scratch_bytes), predicted,
                BYTES(rank->peak_bytes), rank->memory_bytes > 0 ? BYTES(spare) : "-",
                rank->peak_at ? rank->peak_at : "-");
    }
    if (n < m->ranks)
        fprintf(out, "... %zu more ranks: --ranks, -o or --json\n", m->ranks - n);
}

static enum status report_ranks(const struct measurement *m, size_t limit, FILE *out)
{
    size_t n = m->ranks < limit ? m->ranks : limit;
    if (n == 0)
        return STATUS_OK;
    struct summary_rank *place;
    PASS(ARRAY_NEW(place, m->ranks));
    report_times(m, place, n, out);
    report_memory(m, place, n, out);
    free(place);
    return STATUS_OK;
}

/* How unevenly tokens went to experts. */
static void report_experts(const struct measurement *m, FILE *out)
{
    double least = HUGE_VAL, most = 0, two = 0;
    for (size_t i = 0; i < m->expert_ops; i++) {
        least = fmin(least, m->expert[i].imbalance);
        most = fmax(most, m->expert[i].imbalance);
        two += m->expert[i].spreads > 0 ? m->expert[i].busiest[0] / (double)m->expert_ops : 0;
    }
    if (m->expert_ops == 0)
        return;
    fprintf(out, "\nexperts: in %zu ops the busiest has %.3g to %.3g times the mean of rows",
            m->expert_ops, least, most);
    if (two > 0)
        fprintf(out, "; the busier of two ranks %.3g times its share", two);
    fprintf(out, "\n");
}

/* Messages and collectives by kind, most time first, with nccl-tests' algbw and busbw. */
static void report_calls(const struct measurement *m, FILE *out)
{
    size_t n = m->calls < CALLS ? m->calls : CALLS;
    if (n == 0)
        return;
    fprintf(out, "\n%-9s %-14s %7s %12s %9s %10s %8s %8s  %s\n", "for", "collective", "members",
            "size", "calls", "mean time", "algbw", "busbw", "algorithm");
    fprintf(out, "%-9s %-14s %7s %12s %9s %10s %8s %8s\n", "", "", "", "", "", "", "(GB/s)",
            "(GB/s)");
    for (size_t k = 0; k < n; k++) {
        const struct measured_call *c = &m->call[k];
        fprintf(out, "%-9s %-14s %7u %12s %9.0f %10s %8.2f %8.2f  %s\n",
                op_purpose_names[c->purpose], measured_call_name(c), c->members, BYTES(c->bytes),
                c->calls, SECONDS(measured_call_seconds(c)), 1e-9 * measured_call_algbw(c),
                1e-9 * measured_call_busbw(c), c->algorithm ? c->algorithm : "-");
    }
    if (n < m->calls)
        fprintf(out, "... %zu more kinds: -o or --json\n", m->calls - n);
}

/* The busiest links of the platform, which the measurement has sorted. */
static void report_links(const struct measurement *m, size_t limit, FILE *out)
{
    size_t n = m->links < limit ? m->links : limit;
    if (n == 0)
        return;
    fprintf(out, "\n%-32s %14s %8s\n", n < m->links ? "busiest links" : "links", "bytes", "busy");
    for (size_t k = 0; k < n; k++)
        fprintf(out, "%-32s %14s %7.2f%%\n", m->link[k].name,
                units_of(UNIT_BYTES, m->link[k].bytes).text, 100 * m->link[k].busy_fraction);
}

enum status summary_print(const struct measurement *m, const struct summary_rows *rows, FILE *out,
                          FILE *warnings)
{
    static const struct summary_rows usual = {.ranks = SUMMARY_RANKS, .links = SUMMARY_LINKS};
    rows = rows ? rows : &usual;
    PASS(summary_print_text(m, rows, out));
    report_breakdown(m, out);
    PASS(summary_print_modules(m, out));
    PASS(report_ranks(m, rows->ranks, out));
    report_calls(m, out);
    report_experts(m, out);
    report_links(m, rows->links, out);
    for (size_t k = 0; k < m->warnings; k++)
        fprintf(warnings, "warning: %s\n", m->warning[k]);
    return STATUS_OK;
}

/* Large traces are compressed, and so are those whose name ends in .gz: viewers read both. */
static enum status write_trace(const struct results *r, const char *path, FILE *notes)
{
    enum status st;
    struct bytes_out f = {0};
    bool large = r->program->ops > TRACE_LARGE;
    TRY(bytes_create(path, large, &f));
    TRY(trace_put(r->program, r->timeline, f.stream, r->by));
    if (large && f.packed && notes)
        fprintf(notes,
                "trace       %s is compressed by gzip (%zu ops): plot, Perfetto and zcat read "
                "it\n",
                path, r->program->ops);
    TRY(bytes_commit(&f));
out:
    bytes_discard(&f);
    return st;
}

static enum status write_timeline(const struct results *r, const char *path)
{
    enum status st;
    struct file_out f = {0};
    TRY(file_create(path, &f));
    TRY(timeline_put(r->program, r->timeline, f.stream, r->by));
    TRY(file_commit(&f));
out:
    file_discard(&f);
    return st;
}

/* Files before the summary: when writing fails, what is printed is the error alone. */
enum status results_write(const struct results *r, const struct arguments *a, FILE *notes)
{
    if (a->output)
        PASS(measurement_write(r->m, a->output, r->by));
    if (a->trace)
        PASS(write_trace(r, a->trace, notes));
    if (a->timeline)
        PASS(write_timeline(r, a->timeline));
    return STATUS_OK;
}

enum status results_print(const struct results *r, const struct arguments *a,
                          const struct summary_rows *rows, FILE *out, FILE *warnings)
{
    if (!a->json)
        return summary_print(r->m, rows, out, warnings);
    return out == stdout ? measurement_write(r->m, "-", r->by) : STATUS_OK;
}
