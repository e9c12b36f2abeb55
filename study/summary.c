/* Prints a measurement for people, and writes the files that a run leaves. */
#include "study/summary.h"

#include <stdlib.h>
#include <string.h>

#include "core/breakdown.h"
#include "core/statistics.h"
#include "core/units.h"

enum { CALLS = 6 };

static const char *seconds(double s, char text[UNITS_TEXT])
{
    return units_print(UNIT_SECONDS, s, text);
}

static const char *bytes(int64_t n, char text[UNITS_TEXT])
{
    return units_print(UNIT_BYTES, (double)n, text);
}

/* ---- summary */

const char *report_lack(const struct measurement *m, char text[REPORT_VERDICT])
{
    char needs[UNITS_TEXT], has[UNITS_TEXT];
    size_t r = measurement_fullest(m), others = measurement_overfull(m) - 1;
    int n = snprintf(text, REPORT_VERDICT, "rank %zu (%.80s) needs %s, its device has %s", r,
                     m->rank[r].name, bytes(m->rank[r].peak_bytes, needs),
                     bytes(m->rank[r].memory_bytes, has));
    if (others > 0)
        snprintf(text + n, REPORT_VERDICT - (size_t)n, "; %zu more rank%s lack%s memory", others,
                 others > 1 ? "s" : "", others > 1 ? "" : "s");
    return text;
}

/* Words in lines of at most LINE columns, below each other behind `head`. */
static void print_wrapped(const char *head, const char *text, FILE *out)
{
    enum { LINE = 100, INDENT = 12 };
    int column = fprintf(out, "%-*s", INDENT, head);
    while (*text) {
        int word = (int)strcspn(text, " ");
        if (column > INDENT && column + 1 + word > LINE) {
            fprintf(out, "\n%*s", INDENT, "");
            column = INDENT;
        }
        column += fprintf(out, "%s%.*s", column > INDENT ? " " : "", word, text);
        text += word + (text[word] == ' ');
    }
    fputc('\n', out);
}

static void print_memory(const struct measurement *m, FILE *out)
{
    char peak[UNITS_TEXT], has[UNITS_TEXT], free_bytes[UNITS_TEXT];
    char lack[REPORT_VERDICT], text[REPORT_VERDICT + 16];
    size_t r = measurement_fullest(m);
    if (r == m->ranks)
        return;
    const struct measured_rank *rank = &m->rank[r];
    if (measurement_overfull(m) > 0) {
        snprintf(text, sizeof text, "out of memory: %s", report_lack(m, lack));
        print_wrapped("memory", text, out);
    } else {
        fprintf(out, "memory      fits; fullest is rank %zu (%s): %s of %s, %s free\n", r,
                rank->name, bytes(rank->peak_bytes, peak), bytes(rank->memory_bytes, has),
                bytes(rank->memory_bytes - rank->peak_bytes, free_bytes));
    }
}

static void print_spread(const struct measurement *m, FILE *out)
{
    char text[UNITS_TEXT];
    double sum_s = 0;
    for (size_t i = 0; i < m->iterations; i++)
        sum_s += m->iterations_s[i];
    fprintf(out, "            mean %s", seconds(sum_s / (double)m->iterations, text));
    fprintf(out, ", 5th percentile %s",
            seconds(quantile(m->iterations_s, m->iterations, 0.05), text));
    fprintf(out, ", 95th %s\n", seconds(quantile(m->iterations_s, m->iterations, 0.95), text));
}

static void print_iteration(const struct measurement *m, FILE *out)
{
    char text[UNITS_TEXT];
    bool spread = false;
    fprintf(out, "engine      %s\niteration   %s", m->engine, seconds(m->iteration_s, text));
    if (m->iterations > 1) {
        double least = m->iterations_s[0], most = least;
        for (size_t i = 1; i < m->iterations; i++) {
            least = m->iterations_s[i] < least ? m->iterations_s[i] : least;
            most = m->iterations_s[i] > most ? m->iterations_s[i] : most;
        }
        fprintf(out, " (median of %zu: %s", m->iterations, seconds(least, text));
        fprintf(out, " to %s)", seconds(most, text));
        spread = true;
    }
    if (m->simulated < m->microbatches)
        fprintf(out, " (folded: %u of %u microbatches simulated, the rest repeats)", m->simulated,
                m->microbatches);
    if (m->not_folded)
        fprintf(out, " (not folded: %s)", m->not_folded);
    fputc('\n', out);
    if (spread)
        print_spread(m, out);
}

static void print_summary(const struct measurement *m, FILE *out)
{
    char text[UNITS_TEXT], sentence[BREAKDOWN_TEXT];
    print_iteration(m, out);
    fprintf(out, "throughput  %.4g samples/s", m->samples_per_s);
    if (m->tokens_per_s > 0)
        fprintf(out, ", %.4g tokens/s", m->tokens_per_s);
    fprintf(out, "\nbubble      %.2f %% (idle time of all ranks / total)\n",
            100 * m->bubble_fraction);
    if (m->mfu > 0)
        fprintf(out,
                "MFU         %.2f %%, HFU %.2f %% of %s, the platform's speed of all %zu ranks\n",
                100 * m->mfu, 100 * m->hfu, units_print(UNIT_FLOPS, m->flops, text), m->ranks);
    print_memory(m, out);
    if (m->losses > 0)
        fprintf(out, "loss        %.6f first, %.6f last of %zu steps\n", m->loss[0],
                m->loss[m->losses - 1], m->losses);
    if (m->parameters_sha256)
        fprintf(out, "parameters  sha256 %s\n", m->parameters_sha256);
    if (*breakdown_bottleneck(m, sentence))
        print_wrapped("bottleneck", sentence, out);
}

/* ---- tables */

static void row(const char *what, double s, double total_s, FILE *out)
{
    char text[UNITS_TEXT];
    fprintf(out, "%-24s %12s %7.2f%%\n", what, seconds(s, text),
            total_s > 0 ? 100 * s / total_s : 0);
}

static void report_breakdown(const struct measurement *m, FILE *out)
{
    struct breakdown b = breakdown_of(m);
    double total_s = breakdown_sum(&b);
    if (m->ranks == 0)
        return;
    fprintf(out, "\n%-24s %12s %8s\n", "where the time went", "mean rank", "share");
    row("compute", b.compute_s, total_s, out);
    for (size_t k = 0; k < OP_PURPOSES; k++) {
        char what[64];
        snprintf(what, sizeof what, "waiting for %s", op_purpose_names[k]);
        if (b.exposed_s[k] > 0)
            row(what, b.exposed_s[k], total_s, out);
    }
    row("optimizer", b.optimizer_s, total_s, out);
    row("bubble", b.bubble_s, total_s, out);
    row("sum", total_s, total_s, out);
}

/* A rank and what the table is sorted by. */
struct place {
    size_t rank;
    uint32_t stage;
    double key;
    bool leads; /* has the largest key of its stage */
};

static int largest_first(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->key != y->key)
        return x->key > y->key ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static int leaders_first(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return x->leads != y->leads ? (x->leads ? -1 : 1) : largest_first(a, b);
}

static int by_stage(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return x->stage != y->stage ? (x->stage < y->stage ? -1 : 1) : largest_first(a, b);
}

/* The n ranks with the largest keys, one of every stage before the others (replicas are alike);
 * when all have room in their own order. */
static void choose_rows(struct place *place, size_t ranks, size_t n)
{
    if (n == ranks)
        return;
    qsort(place, ranks, sizeof *place, by_stage);
    for (size_t k = 0; k < ranks; k++)
        place[k].leads = k == 0 || place[k - 1].stage != place[k].stage;
    qsort(place, ranks, sizeof *place, leaders_first);
    qsort(place, n, sizeof *place, largest_first);
}

static void report_times(const struct measurement *m, struct place *place, size_t n, FILE *out)
{
    char busy[UNITS_TEXT], exposed[UNITS_TEXT], idle[UNITS_TEXT];
    for (size_t r = 0; r < m->ranks; r++)
        place[r] = (struct place){r, m->rank[r].stage, m->rank[r].busy_s, false};
    choose_rows(place, m->ranks, n);
    fprintf(out, "\n%-7s %-16s %6s %12s %14s %12s\n", n < m->ranks ? "busiest" : "rank", "device",
            "stage", "busy", "exposed comm", "idle");
    for (size_t k = 0; k < n; k++) {
        const struct measured_rank *rank = &m->rank[place[k].rank];
        fprintf(out, "%-7zu %-16s %6u %12s %14s %12s\n", place[k].rank, rank->name, rank->stage,
                seconds(rank->busy_s, busy), seconds(rank->exposed_comm_s, exposed),
                seconds(rank->idle_s, idle));
    }
}

static int64_t predicted_peak(const struct measured_rank *r)
{
    return r->weight_bytes + r->gradient_bytes + r->state_bytes + r->stash_bytes + r->scratch_bytes;
}

/* Were the peaks found in reality, besides what the program expects? */
static bool is_measured(const struct measurement *m)
{
    bool differs = false;
    for (size_t r = 0; r < m->ranks; r++)
        differs |= m->rank[r].peak_bytes != predicted_peak(&m->rank[r]);
    return differs && m->parameters_sha256;
}

static void report_memory(const struct measurement *m, struct place *place, size_t n, FILE *out)
{
    char text[7][UNITS_TEXT];
    for (size_t r = 0; r < m->ranks; r++)
        place[r] = (struct place){r, m->rank[r].stage,
                                  (double)(m->rank[r].peak_bytes - m->rank[r].memory_bytes), false};
    choose_rows(place, m->ranks, n);
    bool real = is_measured(m);
    fprintf(out, "\n%-7s %10s %10s %10s %11s %10s %s%10s %10s  %s\n",
            n < m->ranks ? "fullest" : "rank", "weights", "gradients", "optimizer", "activations",
            "scratch", real ? " predicted " : "", real ? "measured" : "peak", "free", "first at");
    for (size_t k = 0; k < n; k++) {
        const struct measured_rank *rank = &m->rank[place[k].rank];
        int64_t spare = rank->memory_bytes - rank->peak_bytes;
        char predicted[UNITS_TEXT + 2] = "";
        if (real)
            snprintf(predicted, sizeof predicted, "%10s ", bytes(predicted_peak(rank), text[5]));
        fprintf(out, "%-7zu %10s %10s %10s %11s %10s %s%10s %10s  %s\n", place[k].rank,
                bytes(rank->weight_bytes, text[0]), bytes(rank->gradient_bytes, text[1]),
                bytes(rank->state_bytes, text[2]), bytes(rank->stash_bytes, text[3]),
                bytes(rank->scratch_bytes, text[4]), predicted, bytes(rank->peak_bytes, text[5]),
                rank->memory_bytes > 0 ? bytes(spare, text[6]) : "-",
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
    struct place *place = calloc(m->ranks, sizeof *place);
    if (!place)
        return error_set(STATUS_NOMEM, "%zu ranks", m->ranks);
    report_times(m, place, n, out);
    report_memory(m, place, n, out);
    free(place);
    return STATUS_OK;
}

static void report_calls(const struct measurement *m, FILE *out)
{
    size_t n = m->calls < CALLS ? m->calls : CALLS;
    char size[UNITS_TEXT], time[UNITS_TEXT];
    if (n == 0)
        return;
    fprintf(out, "\n%-9s %-14s %7s %12s %9s %10s %8s %8s  %s\n", "for", "collective", "members",
            "size", "calls", "mean time", "algbw", "busbw", "algorithm");
    fprintf(out, "%-9s %-14s %7s %12s %9s %10s %8s %8s\n", "", "", "", "", "", "", "(GB/s)",
            "(GB/s)");
    for (size_t k = 0; k < n; k++) {
        const struct measured_call *c = &m->call[k];
        fprintf(out, "%-9s %-14s %7u %12s %9.0f %10s %8.2f %8.2f  %s\n",
                op_purpose_names[c->purpose], measured_call_name(c), c->members,
                bytes(c->bytes, size), c->calls, seconds(measured_call_seconds(c), time),
                1e-9 * measured_call_algbw(c), 1e-9 * measured_call_busbw(c),
                c->algorithm ? c->algorithm : "-");
    }
    if (n < m->calls)
        fprintf(out, "... %zu more kinds: -o or --json\n", m->calls - n);
}

static void report_links(const struct measurement *m, size_t limit, FILE *out)
{
    char text[UNITS_TEXT];
    size_t n = m->links < limit ? m->links : limit;
    if (n == 0)
        return;
    fprintf(out, "\n%-32s %14s %8s\n", n < m->links ? "busiest links" : "links", "bytes", "busy");
    for (size_t k = 0; k < n; k++)
        fprintf(out, "%-32s %14s %7.2f%%\n", m->link[k].name,
                units_print(UNIT_BYTES, m->link[k].bytes, text), 100 * m->link[k].busy_fraction);
}

enum status summary_print(const struct measurement *m, const struct summary_rows *rows, FILE *out,
                          FILE *warnings)
{
    enum status st;
    static const struct summary_rows usual = {4, 5};
    rows = rows ? rows : &usual;
    print_summary(m, out);
    report_breakdown(m, out);
    TRY(report_ranks(m, rows->ranks, out));
    report_calls(m, out);
    report_links(m, rows->links, out);
    for (size_t k = 0; k < m->warnings; k++)
        fprintf(warnings, "warning: %s\n", m->warning[k]);
out:
    return st;
}

enum status results_write(const struct results *r, const struct arguments *a)
{
    enum status st = STATUS_OK;
    if (a->output)
        TRY(measurement_write(r->m, a->output, r->by));
    if (a->trace)
        TRY(trace_write(r->program, r->timeline, a->trace, r->by));
out:
    return st;
}

enum status results_print(const struct results *r, const struct arguments *a,
                          const struct summary_rows *rows, FILE *out, FILE *warnings)
{
    return a->json ? measurement_write(r->m, "-", r->by) : summary_print(r->m, rows, out, warnings);
}
