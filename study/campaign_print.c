/* What a campaign comes to, for people and as JSON. */
#include <math.h>
#include <string.h>

#include "campaign/closed_form.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/units.h"
#include "study/campaign_job.h"

static const double kilo = 1e3;

/* "2.1 days", "3.4 h", "12 min", "40 s". */
struct duration {
    char text[32];
};
static struct duration duration_of(double s)
{
    struct duration d;
    double of = s >= 2 * DAY_S      ? DAY_S
                : s >= 2 * HOUR_S   ? HOUR_S
                : s >= 2 * MINUTE_S ? MINUTE_S
                                    : 1;
    if (isinf(s))
        snprintf(d.text, sizeof d.text, "never");
    else if (of > 1)
        snprintf(d.text, sizeof d.text, "%.3g %s", s / of,
                 of == DAY_S    ? "days"
                 : of == HOUR_S ? "h"
                                : "min");
    else
        units_print(UNIT_SECONDS, s, d.text);
    return d;
}

static double failures_in_all(const struct course *o)
{
    double n = 0;
    for (size_t k = 0; k < CAUSES; k++)
        n += o->failures[k];
    return n;
}

static double lost_in_all(const struct course *o)
{
    double s = 0;
    for (size_t k = 0; k < CAUSES; k++)
        s += o->lost_s[k];
    return s;
}

static double formula_s(const struct campaign_job *j)
{
    return closed_form_time(j->c.work_s, j->c.every_s, campaign_save_cost(&j->c),
                            campaign_recovery(&j->c), campaign_between(&j->c));
}

/* An iteration without one node; INFINITY: there is none. */
static double shrunk_s(const struct campaign *c)
{
    double times = INFINITY;
    return c->shrunk(c->shrink, 1, &times) == STATUS_OK ? times * c->iteration_s : INFINITY;
}

void campaign_print_settings(const struct campaign_job *j, FILE *out)
{
    const struct campaign *c = &j->c;
    double between = campaign_between(c);
    if (isinf(between))
        fprintf(out, "failures    none; rates of %s\n", j->rates);
    else
        fprintf(out, "failures    one every %s; rates of %s: %s\n", duration_of(between).text,
                j->rates, j->failures.text);
    fprintf(out, "checkpoint  %s, every %s%s; stops the training for %s",
            units_of(UNIT_BYTES, j->load.total).text, duration_of(c->every_s).text,
            j->chosen_every ? ", the best" : "", duration_of(c->block_s).text);
    if (j->beside)
        fprintf(out, ", then is written beside it in %s", duration_of(c->drain_s).text);
    fprintf(out, "; read in %s; storage %s\n", duration_of(c->load_s).text,
            storage_name(&j->storage));
    fprintf(out,
            "recovery    %s, %u spare node%s of %.0f%s; noticed in %s, restarted in %s, "
            "repaired in %s\n",
            recoveries[c->recovery].name, c->spares, c->spares == 1 ? "" : "s", j->nodes,
            j->chosen_spares ? ", the best" : "", duration_of(j->failures.detect_s).text,
            duration_of(j->failures.restart_s).text, duration_of(j->failures.repair_s).text);
    if (c->shrunk && isinf(shrunk_s(c)))
        fprintf(out, "shrunk      the plan cannot run on fewer nodes\n");
    else if (c->shrunk)
        fprintf(out, "shrunk      by a node, an iteration of the same batch takes %s\n",
                units_of(UNIT_SECONDS, shrunk_s(c)).text);
    fprintf(out, "by formula  %s (Daly), best interval %s (Young %s, Daly %s)\n",
            duration_of(formula_s(j)).text, duration_of(campaign_best_interval(c)).text,
            duration_of(closed_form_young(campaign_save_cost(c), between)).text,
            duration_of(closed_form_daly(campaign_save_cost(c), between)).text);
}

/* All that the machine is there for it, spare nodes included. */
static void print_price(const struct campaign_job *j, double wall_s, FILE *out)
{
    double whole = 1 + j->c.spares / j->nodes, hours = wall_s / HOUR_S;
    fprintf(out, "price       %.4g device-hours", hours * j->c.devices * whole);
    if (j->watts > 0)
        fprintf(out, ", %.4g kWh", j->watts / kilo * hours);
    if (j->price_per_hour > 0)
        fprintf(out, ", a price of %.4g", j->price_per_hour * hours * whole);
    fputc('\n', out);
}

static void print_part(const char *name, double s, const struct course *o, FILE *out)
{
    if (s > 1e-6 * o->wall_s)
        fprintf(out, "%-24s %10.4g %7.2f %%", name, s / DAY_S, 100 * s / o->wall_s);
}

static void print_parts(const struct course *o, FILE *out)
{
    const struct {
        const char *name;
        double s;
    } part[] = {
        {"training", o->work_s},
        {"checkpoints", o->saving_s},
        {"waiting for repairs", o->waiting_s},
        {"fewer replicas", o->reduced_s},
        {"slow GPUs", o->slow_s},
    };
    fprintf(out, "\n%-24s %10s %9s %10s %10s\n", "where it goes, on average", "days", "",
            "failures", "work lost");
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        print_part(part[i].name, part[i].s, o, out);
        if (part[i].s > 1e-6 * o->wall_s)
            fputc('\n', out);
    }
    for (size_t k = 0; k < CAUSES; k++) {
        if (!(o->failures[k] > 0))
            continue;
        fprintf(out, "%-24s %10.4g %7.2f %% %10.4g %10s\n", causes[k].name,
                (o->lost_s[k] + o->down_s[k]) / DAY_S,
                100 * (o->lost_s[k] + o->down_s[k]) / o->wall_s, o->failures[k],
                duration_of(o->lost_s[k]).text);
    }
}

void campaign_print_days(const struct campaign_job *j, const struct campaign_forecast *f, FILE *out)
{
    if (f->unfinished == f->courses)
        fprintf(out, "campaign    does not end: it takes more than %g times its %s of work\n",
                CAMPAIGN_TOO_LONG, duration_of(j->c.work_s).text);
    else
        fprintf(out,
                "campaign    %.4g days for %s tokens at the median (p5 %.4g, p95 %.4g); "
                "effective training "
                "time %.1f %%\n",
                f->p50_s / DAY_S, units_of(UNIT_COUNT, j->tokens).text, f->p5_s / DAY_S,
                f->p95_s / DAY_S, 100 * f->mean.work_s / f->mean.wall_s);
}

void campaign_print(const struct campaign_job *j, const struct campaign_answer *a, FILE *out)
{
    const struct campaign_forecast *f = &a->f;
    const struct course *o = &f->mean;
    campaign_print_days(j, f, out);
    if (f->unfinished < f->courses) {
        fprintf(out,
                "without     failures and checkpoints %.4g days; %.3g failures, %.3g tokens "
                "trained twice\n",
                j->c.work_s / DAY_S, failures_in_all(o), j->tokens_per_s * lost_in_all(o));
        print_price(j, o->wall_s, out);
    }
    campaign_print_settings(j, out);
    print_parts(o, out);
    if (a->remedies > 0)
        fprintf(out, "\n%-36s %8s\n", "what would shorten it", "days");
    for (size_t i = 0; i < a->remedies; i++)
        fprintf(out, "%-36s %+8.3g\n", a->remedy[i].text, (a->remedy[i].wall_s - a->now_s) / DAY_S);
    fprintf(out,
            "\n# %zu drawn courses: what failures do; how far the iteration is off comes on top",
            f->courses);
    if (!isinf(f->within))
        fprintf(out, "\n# quantiles are within %.2g %% (95 %% confidence)", 100 * f->within);
    fputc('\n', out);
}

/* ---- JSON */

static void put_course(struct json_writer *w, const struct course *o, const struct failures *f)
{
    json_put_real(w, "mean_s", o->wall_s);
    json_put_real(w, "work_s", o->work_s);
    json_put_real(w, "saving_s", o->saving_s);
    json_put_real(w, "waiting_s", o->waiting_s);
    json_put_real(w, "reduced_s", o->reduced_s);
    json_put_real(w, "slow_s", o->slow_s);
    json_open_array(w, "causes", false);
    for (size_t k = 0; k < CAUSES; k++) {
        json_open_object(w, NULL, true);
        json_put_string(w, "cause", causes[k].name);
        json_put_real(w, "between_s", f->between_s[k]); /* of one piece */
        json_put_real(w, "failures", o->failures[k]);
        json_put_real(w, "lost_s", o->lost_s[k]);
        json_put_real(w, "down_s", o->down_s[k]);
        json_close(w);
    }
    json_close(w);
}

static void put_settings(struct json_writer *w, const struct campaign_job *j)
{
    const struct campaign *c = &j->c;
    json_put_string(w, "failures", j->rates);
    json_put_string(w, "failures_source", j->failures.source);
    json_put_real(w, "between_failures_s", campaign_between(c));
    json_put_real(w, "iteration_s", c->iteration_s);
    json_put_real(w, "every_s", c->every_s);
    json_put_bool(w, "every_is_best", j->chosen_every);
    json_put_real(w, "checkpoint_bytes", j->load.total);
    json_put_real(w, "block_s", c->block_s);
    json_put_real(w, "drain_s", c->drain_s);
    json_put_real(w, "load_s", c->load_s);
    json_put_string(w, "storage", storage_name(&j->storage));
    json_put_string(w, "recovery", recoveries[c->recovery].name);
    if (c->shrunk)
        json_put_real(w, "shrunk_s", shrunk_s(c));
    json_put_integer(w, "spares", c->spares);
    json_put_bool(w, "spares_are_best", j->chosen_spares);
    json_put_real(w, "nodes", j->nodes);
    json_put_real(w, "devices", c->devices);
    json_put_real(w, "formula_s", formula_s(j));
}

enum status campaign_write(const struct campaign_job *j, const struct campaign_answer *a,
                           const char *path, const struct provenance *by)
{
    enum status st;
    struct file_out f = {0};
    TRY(file_create(path, &f));
    struct json_writer w = {.stream = f.stream};
    json_put_header(&w, "foreline-campaign", 1, by);
    json_put_string(&w, "model", j->plan->model);
    json_put_string(&w, "platform", j->plan->platform);
    json_put_real(&w, "tokens", j->tokens);
    json_put_real(&w, "p5_s", a->f.p5_s);
    json_put_real(&w, "p50_s", a->f.p50_s);
    json_put_real(&w, "p95_s", a->f.p95_s);
    json_put_real(&w, "effective", a->f.mean.work_s / a->f.mean.wall_s);
    json_put_integer(&w, "courses", (int64_t)a->f.courses);
    json_put_integer(&w, "unfinished", (int64_t)a->f.unfinished);
    json_put_real(&w, "within", a->f.within);
    put_course(&w, &a->f.mean, &j->failures);
    put_settings(&w, j);
    json_open_array(&w, "remedies", false);
    for (size_t i = 0; i < a->remedies; i++) {
        json_open_object(&w, NULL, true);
        json_put_string(&w, "remedy", a->remedy[i].text);
        json_put_real(&w, "saves_s", a->now_s - a->remedy[i].wall_s);
        json_close(&w);
    }
    json_close(&w);
    json_close(&w);
    TRY(file_commit(&f));
out:
    file_discard(&f);
    return st;
}

/* ---- over one quantity */

enum { INTERVAL, SPARES, SIZE, AXES, POINTS = 13 };
static const char *const axes[AXES] = {"interval", "spares", "size"};

/* The campaign at point i of an axis, and the quantity there. */
static double axis_apply(size_t axis, size_t i, const struct campaign_job *j, struct campaign *c)
{
    *c = j->c;
    if (axis == SPARES) {
        c->spares = i < 4 ? (uint32_t)i : 1u << (i - 2);
        return c->spares;
    }
    double factor = pow(axis == INTERVAL ? 2 : sqrt(2), (double)i - 6);
    if (axis == INTERVAL) {
        double least = fmax(c->iteration_s, c->drain_s);
        c->every_s = fmin(c->work_s, fmax(1, ceil(least / c->iteration_s)) * c->iteration_s);
        c->every_s =
            fmax(c->every_s, round(j->c.every_s * factor / c->iteration_s) * c->iteration_s);
        return c->every_s;
    }
    factor = fmax(1, round(c->replicas * factor)) / c->replicas;
    for (size_t k = 0; k < CAUSES; k++)
        c->pieces[k] *= factor;
    c->shrunk = NULL; /* of other plans */
    c->devices *= factor;
    c->replicas *= factor;
    c->work_s = ceil(c->work_s / factor / c->iteration_s) * c->iteration_s;
    c->spares = (uint32_t)ceil(c->spares * factor);
    if (j->chosen_every)
        c->every_s = campaign_best_interval(c);
    return c->devices;
}

enum status campaign_print_over(const struct campaign_job *j, const char *axis, uint64_t seed,
                                FILE *out)
{
    static const char *const head[AXES] = {"interval_s", "spares", "devices"};
    size_t which = 0;
    while (which + 1 < AXES && strcmp(axis, axes[which]) != 0)
        which++;
    fprintf(out, "%s\tdays\tp5_days\tp95_days\teffective\tevery_s\tspare_nodes\n", head[which]);
    double last = -1;
    for (size_t i = 0; i < POINTS; i++) {
        struct campaign c;
        struct campaign_forecast f;
        double at = axis_apply(which, i, j, &c);
        if (at == last || (which == SPARES && at > j->nodes))
            continue;
        last = at;
        if (which == SIZE && j->chosen_spares)
            PASS(campaign_best_spares(&c, j->nodes * at / j->c.devices, CAMPAIGN_SPARES_MOST, seed,
                                      &c.spares));
        PASS(campaign_forecast(&c, seed, 0.01, &f));
        fprintf(out, "%.6g\t%.6g\t%.6g\t%.6g\t%.6g\t%.6g\t%u\n", at, f.p50_s / DAY_S,
                f.p5_s / DAY_S, f.p95_s / DAY_S, f.mean.work_s / f.mean.wall_s, c.every_s,
                c.spares);
    }
    return STATUS_OK;
}
