/* What several jobs do to each other, for people and as JSON. */
#include <math.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/statistics.h"
#include "core/base/units.h"
#include "study/jobs.h"

/* Slowdowns below are none. */
static const double nobody = 1.0005;

static double jobs_asked(const struct jobs *js)
{
    double Bps = 0;
    for (size_t f = 0; f < js->flows; f++)
        Bps += js->flow[f].Bps;
    return Bps;
}

static const char *jobs_part_name(const struct jobs *js, size_t part)
{
    return part < js->n ? js->job[part].name : "background";
}

/* The two that use a link longest at once. */
static void jobs_print_pair(const struct jobs *js, const struct jobs_link *l, FILE *out)
{
    size_t parts = js->joined.parts, most = 0;
    for (size_t i = 1; i < parts * parts; i++)
        most = l->pair_s[i] > l->pair_s[most] ? i : most;
    fprintf(out, "  %s, %s\n", jobs_part_name(js, most / parts), jobs_part_name(js, most % parts));
}

static void jobs_print_links(const struct jobs *js, size_t rows, FILE *out)
{
    size_t n = js->links < rows ? js->links : rows, parts = js->joined.parts;
    if (n == 0)
        return;
    fprintf(out, "\n%-24s %14s %6s", n < js->links ? "most contended links" : "shared links",
            "shared", "load");
    for (size_t k = 0; k < parts; k++)
        fprintf(out, " %16.16s", jobs_part_name(js, k));
    fprintf(out, "  %s\n%-24s %14s %6s", "longest by", "", "", "");
    for (size_t k = 0; k < parts; k++)
        fprintf(out, " %16s", k < js->n ? "(an iteration)" : "(rate)");
    fputc('\n', out);
    for (size_t k = 0; k < n; k++) {
        const struct jobs_link *l = &js->link[k];
        fprintf(out, "%-24s %6.1f %% of time %4.0f %%", js->topology->link[l->link].name,
                100 * l->shared_s / (js->to_s - js->from_s), 100 * l->load);
        for (size_t i = 0; i < parts; i++)
            fprintf(out, " %16s", units_of(i < js->n ? UNIT_BYTES : UNIT_RATE, l->bytes[i]).text);
        jobs_print_pair(js, l, out);
    }
    if (n < js->links)
        fprintf(out, "... %zu more links: --links or --json\n", js->links - n);
}

/* The slowdown of repetition r. */
static double job_emulated_slowdown(const struct job *j, size_t r)
{
    return j->emulated_together_s[r] / j->emulated_alone_s[r];
}

/* The median of the repetitions. */
static double jobs_slowdown(const struct jobs *js, size_t k)
{
    const struct job *j = &js->job[k];
    return median(j->emulated_together_s, js->repeats) / median(j->emulated_alone_s, js->repeats);
}

static void jobs_print_emulation(const struct jobs *js, FILE *out)
{
    fprintf(out, "\n%-20s %12s %12s %9s %17s %9s\n", "emulated", "alone", "together", "slowdown",
            "of all runs", "apart");
    for (size_t k = 0; k < js->n; k++) {
        const struct job *j = &js->job[k];
        double least = INFINITY, most = 0, slowdown = jobs_slowdown(js, k);
        for (size_t r = 0; r < js->repeats; r++) {
            least = fmin(least, job_emulated_slowdown(j, r));
            most = fmax(most, job_emulated_slowdown(j, r));
        }
        fprintf(out, "%-20s %12s %12s %9.3f %7.3f to %6.3f %+7.1f %%\n", j->name,
                units_of(UNIT_SECONDS, median(j->emulated_alone_s, js->repeats)).text,
                units_of(UNIT_SECONDS, median(j->emulated_together_s, js->repeats)).text, slowdown,
                least, most, 100 * (slowdown / (j->together_s / j->alone_s) - 1));
    }
}

void jobs_print(const struct jobs *js, size_t link_rows, FILE *out)
{
    size_t worst = 0;
    for (size_t k = 1; k < js->n; k++)
        if (js->job[k].together_s / js->job[k].alone_s >
            js->job[worst].together_s / js->job[worst].alone_s)
            worst = k;
    const struct job *w = &js->job[worst];
    if (w->together_s < nobody * w->alone_s)
        fprintf(out, "slowdown    none: iterations together take as long as alone");
    else
        fprintf(out, "slowdown    %s most: its iteration takes %.3f times as long as alone",
                w->name, w->together_s / w->alone_s);
    if (js->links > 0)
        fprintf(out, "; most contended link %s, %.0f %% full while shared",
                js->topology->link[js->link[0].link].name, 100 * js->link[0].load);
    fprintf(out, "\nengine      %s, on %s\n", js->engine->name, js->topology->name);
    fprintf(out, "window      %s to %s, in which all jobs run\n",
            units_of(UNIT_SECONDS, js->from_s).text, units_of(UNIT_SECONDS, js->to_s).text);
    if (js->flows > 0)
        fprintf(out, "background  %zu flow%s of %s together, %s is sent\n", js->flows,
                js->flows == 1 ? "" : "s", units_of(UNIT_RATE, jobs_asked(js)).text,
                units_of(UNIT_RATE, js->sent_Bps).text);
    fprintf(out, "\n%-20s %6s %10s %12s %12s %9s %11s\n", "job", "ranks", "start", "alone",
            "together", "slowdown", "iterations");
    for (size_t k = 0; k < js->n; k++) {
        const struct job *j = &js->job[k];
        fprintf(out, "%-20s %6zu %10s %12s %12s %9.3f %11zu\n", j->name, j->p.program.ranks,
                units_of(UNIT_SECONDS, j->start_s).text, units_of(UNIT_SECONDS, j->alone_s).text,
                units_of(UNIT_SECONDS, j->together_s).text, j->together_s / j->alone_s, j->counted);
    }
    if (js->repeats > 0)
        jobs_print_emulation(js, out);
    jobs_print_links(js, link_rows, out);
}

static void jobs_put_job(struct json_writer *w, const struct jobs *js, const struct job *j)
{
    json_open_object(w, NULL, false);
    json_put_string(w, "name", j->name);
    json_put_string(w, "plan", j->path);
    json_put_string(w, "plan_sha256", j->p.sha256);
    json_open_array(w, "devices", true);
    for (size_t r = 0; r < j->p.program.ranks; r++)
        json_put_string(w, NULL, j->p.program.rank[r].name);
    json_close(w);
    json_put_real(w, "start_s", j->start_s);
    json_put_real(w, "alone_s", j->alone_s);
    json_put_real(w, "together_s", j->together_s);
    json_put_real(w, "slowdown", j->together_s / j->alone_s);
    json_put_reals(w, "iterations_s", j->iteration_s, j->counted);
    if (js->repeats > 0) {
        json_put_reals(w, "emulated_alone_s", j->emulated_alone_s, js->repeats);
        json_put_reals(w, "emulated_together_s", j->emulated_together_s, js->repeats);
        json_put_real(w, "emulated_slowdown", jobs_slowdown(js, (size_t)(j - js->job)));
    }
    json_close(w);
}

static void jobs_put_link(struct json_writer *w, const struct jobs *js, const struct jobs_link *l)
{
    json_open_object(w, NULL, true);
    json_put_string(w, "name", js->topology->link[l->link].name);
    json_put_real(w, "shared_s", l->shared_s);
    json_put_real(w, "load", l->load);
    json_put_reals(w, "iteration_bytes", l->bytes, js->n);
    if (js->flows > 0)
        json_put_real(w, "background_Bps", l->bytes[js->n]);
    json_open_array(w, "pairs", true);
    for (size_t a = 0; a < js->joined.parts; a++)
        for (size_t b = a + 1; b < js->joined.parts; b++) {
            json_open_object(w, NULL, true);
            json_put_string(w, "first", jobs_part_name(js, a));
            json_put_string(w, "second", jobs_part_name(js, b));
            json_put_real(w, "shared_s", l->pair_s[a * js->joined.parts + b]);
            json_close(w);
        }
    json_close(w);
    json_close(w);
}

enum status jobs_write(const struct jobs *js, const char *path, const struct provenance *by)
{
    enum status st;
    struct file_out f = {0};
    TRY(file_create(path, &f));
    struct json_writer w = {.stream = f.stream};
    json_put_header(&w, "foreline-jobs", 1, by);
    json_put_string(&w, "platform", js->topology->name);
    json_put_string(&w, "engine", js->engine->name);
    json_put_real(&w, "from_s", js->from_s);
    json_put_real(&w, "to_s", js->to_s);
    json_open_array(&w, "jobs", false);
    for (size_t k = 0; k < js->n; k++)
        jobs_put_job(&w, js, &js->job[k]);
    json_close(&w);
    json_open_array(&w, "links", false);
    for (size_t k = 0; k < js->links; k++)
        jobs_put_link(&w, js, &js->link[k]);
    json_close(&w);
    if (js->flows > 0) {
        json_open_object(&w, "background", true);
        json_put_integer(&w, "flows", (int64_t)js->flows);
        json_put_real(&w, "wanted_Bps", jobs_asked(js));
        json_put_real(&w, "sent_Bps", js->sent_Bps);
        json_close(&w);
    }
    json_close(&w);
    TRY(file_commit(&f));
out:
    file_discard(&f);
    return st;
}
