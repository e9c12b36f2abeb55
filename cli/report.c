#include "cli/report.h"

#include <string.h>

#include "core/units.h"

enum { BUSIEST = 5, MOST_RANKS = 64 };

static const char *seconds(double s, char text[UNITS_TEXT])
{
    return units_print(UNIT_SECONDS, s, text);
}

static void report_ranks(const struct measurement *m, FILE *out)
{
    char busy[UNITS_TEXT], exposed[UNITS_TEXT], idle[UNITS_TEXT], peak[UNITS_TEXT];
    fprintf(out, "\n%-6s %-16s %12s %14s %12s %12s\n", "rank", "device", "busy", "exposed comm",
            "idle", "peak memory");
    for (size_t r = 0; r < m->ranks && r < MOST_RANKS; r++) {
        const struct measured_rank *rank = &m->rank[r];
        fprintf(out, "%-6zu %-16s %12s %14s %12s %12s\n", r, rank->name,
                seconds(rank->busy_s, busy), seconds(rank->exposed_comm_s, exposed),
                seconds(rank->idle_s, idle),
                units_print(UNIT_BYTES, (double)rank->peak_bytes, peak));
    }
    if (m->ranks > MOST_RANKS)
        fprintf(out, "... %zu more ranks: see -o or --json\n", m->ranks - MOST_RANKS);
}

static void report_links(const struct measurement *m, FILE *out)
{
    char bytes[UNITS_TEXT];
    size_t n = m->links < BUSIEST ? m->links : BUSIEST;
    if (n == 0)
        return;
    fprintf(out, "\n%-32s %14s %8s\n", n < m->links ? "busiest links" : "links", "bytes", "busy");
    for (size_t k = 0; k < n; k++)
        fprintf(out, "%-32s %14s %7.2f%%\n", m->link[k].name,
                units_print(UNIT_BYTES, m->link[k].bytes, bytes), 100 * m->link[k].busy_fraction);
}

void report_measurement(const struct measurement *m, FILE *out)
{
    char text[UNITS_TEXT];
    fprintf(out, "engine      %s\niteration   %s", m->engine, seconds(m->iteration_s, text));
    if (m->iterations > 1) {
        double least = m->iterations_s[0], most = least;
        for (size_t i = 1; i < m->iterations; i++) {
            least = m->iterations_s[i] < least ? m->iterations_s[i] : least;
            most = m->iterations_s[i] > most ? m->iterations_s[i] : most;
        }
        fprintf(out, " (median of %zu: %s", m->iterations, seconds(least, text));
        fprintf(out, " to %s)", seconds(most, text));
    }
    fprintf(out, "\nthroughput  %.4g samples/s", m->samples_per_s);
    if (m->tokens_per_s > 0)
        fprintf(out, ", %.4g tokens/s", m->tokens_per_s);
    fprintf(out, "\nbubble      %.2f %% (idle time of all ranks / total)\n",
            100 * m->bubble_fraction);
    if (m->losses > 0)
        fprintf(out, "loss        %.6f first, %.6f last of %zu steps\n", m->loss[0],
                m->loss[m->losses - 1], m->losses);
    if (m->parameters_sha256)
        fprintf(out, "parameters  sha256 %s\n", m->parameters_sha256);
    report_ranks(m, out);
    report_links(m, out);
    for (size_t k = 0; k < m->warnings; k++)
        fprintf(stderr, "warning: %s\n", m->warning[k]);
}
