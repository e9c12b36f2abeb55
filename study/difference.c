/* Plans, predictions or runs side by side. */
#include "study/difference.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/data/compare.h"
#include "study/memory_answer.h"
#include "study/prediction.h"
#include "study/summary.h"

static const double rounding = 1e-12; /* relative */

/* ---- reading */

static bool difference_is_plan(const char *path)
{
    struct json_document d = {0};
    bool is = json_read(path, NULL, 0, &d) == STATUS_OK &&
              json_check_format(&d, plan_format, PLAN_VERSION) == STATUS_OK;
    json_document_free(&d);
    return is;
}

static enum status difference_simulate(const struct arguments *a, const char *path,
                                       struct loaded_plan *p, struct measurement *m)
{
    enum status st;
    struct prediction s = {0};
    TRY(prediction_set(a, TAKES(COMPARE_PLANS), &s));
    TRY(load_plan_only(path, p));
    TRY(prediction_begin(p, &s));
    TRY(prediction_evaluate(&s, s.engine, false));
    TRY(prediction_finish(&s, path));
    MOVE(m, s.m);
out:
    prediction_free(&s);
    return st;
}

enum status difference_read(const struct arguments *a, const char *const *path, size_t n,
                            struct difference *d)
{
    d->path = path;
    PASS(ARRAY_NEW(d->m, n));
    PASS(ARRAY_NEW(d->plan, n));
    PASS(ARRAY_NEW(d->known, n));
    PASS(ARRAY_NEW(d->units, n));
    d->n = n;
    for (size_t i = 0; i < n; i++)
        d->plans += d->known[i] = difference_is_plan(path[i]);
    PASS(arguments_check(a, d->plans > 0 ? TAKES(COMPARE_PLANS) : TAKES(COMPARE)));
    for (size_t i = 0; i < n; i++) /* what is quick to refuse before what takes long */
        PASS(d->known[i] ? STATUS_OK : measurement_read(path[i], &d->m[i]));
    for (size_t i = 0; i < n; i++) {
        PASS(d->known[i] ? difference_simulate(a, path[i], &d->plan[i], &d->m[i]) : STATUS_OK);
        *(engine_predicts(d->m[i].engine) ? &d->predictions : &d->runs) += 1;
    }
    return STATUS_OK;
}

void difference_free(struct difference *d)
{
    for (size_t i = 0; i < d->n; i++) {
        measurement_free(&d->m[i]);
        loaded_plan_free(&d->plan[i]);
    }
    free(d->m);
    free(d->plan);
    free(d->known);
    free(d->units);
    *d = (struct difference){0};
}

/* The plan that a measurement names, if it is there and has not changed since. */
static void difference_find_plan(struct difference *d, size_t i)
{
    const struct measurement *m = &d->m[i];
    if (d->known[i] || !m->plan || load_plan_warn(m->plan, NULL, &d->plan[i]) != STATUS_OK)
        return;
    d->known[i] = !m->plan_sha256 || !strcmp(m->plan_sha256, d->plan[i].sha256);
}

static double difference_samples(const struct difference *d, size_t i)
{
    return d->m[i].samples_per_s * d->m[i].iteration_s;
}

/* A line of what the i-th has other than the first, which others may have too. */
static void difference_warn(struct difference *d, const char *what, const char *first, size_t i,
                            const char *other)
{
    snprintf(d->warning[d->warnings++], DIFFERENCE_TEXT,
             "the files have different %s: %s in %s, %s in %s", what, first, d->path[0], other,
             d->path[i]);
}

/* Of one name, or of one content. */
static bool difference_same_model(const struct difference *d, size_t i)
{
    const char *first = d->m[0].model, *other = d->m[i].model;
    return !first || !other || !strcmp(first, other) ||
           (d->known[0] && d->known[i] && model_same(&d->plan[0].model, &d->plan[i].model));
}

static void difference_warn_names(struct difference *d)
{
    static const struct {
        const char *what;
        size_t at;
    } name[] = {{"models", offsetof(struct measurement, model)},
                {"platforms", offsetof(struct measurement, platform)},
                {"engines", offsetof(struct measurement, engine)}};
    for (size_t k = 0; k < sizeof name / sizeof *name; k++)
        for (size_t i = 1; i < d->n; i++) {
            const char *first = *(char **)((char *)&d->m[0] + name[k].at),
                       *other = *(char **)((char *)&d->m[i] + name[k].at);
            if (!first || !other || !strcmp(first, other) ||
                (k == 0 && difference_same_model(d, i)))
                continue;
            difference_warn(d, name[k].what, first, i, other);
            break;
        }
}

enum status difference_settle(struct difference *d)
{
    bool alike = true, tokens = true;
    size_t batch = 0, passes = 0;
    char first[TEXT_GROUPED], other[TEXT_GROUPED];
    for (size_t i = 0; i < d->n; i++) {
        const struct measurement *m = &d->m[i];
        if (!(m->iteration_s > 0 && m->samples_per_s > 0))
            return error_set(STATUS_INVALID,
                             "%s: got iteration_s %g and samples_per_s %g, expected both above 0",
                             d->path[i], m->iteration_s, m->samples_per_s);
        difference_find_plan(d, i);
        tokens &= m->tokens_per_s > 0;
        alike &= difference_same_model(d, i);
        batch = fabs(difference_samples(d, i) / difference_samples(d, 0) - 1) > 1e-6 ? i : batch;
        passes = m->forward_only != d->m[0].forward_only ? i : passes;
    }
    d->per = alike && batch == 0 ? "iteration" : tokens ? "token" : "sample";
    for (size_t i = 0; i < d->n; i++)
        d->units[i] = alike && batch == 0 ? 1
                      : tokens            ? d->m[i].tokens_per_s * d->m[i].iteration_s
                                          : difference_samples(d, i);
    difference_warn_names(d);
    if (batch > 0)
        difference_warn(d, "global batch sizes in samples",
                        text_grouped(difference_samples(d, 0), first), batch,
                        text_grouped(difference_samples(d, batch), other));
    if (passes > 0)
        difference_warn(d, "passes", d->m[0].forward_only ? "forward" : "training", passes,
                        d->m[passes].forward_only ? "forward" : "training");
    return STATUS_OK;
}

/* ---- what differs */

double difference_time(const struct difference *d, size_t i)
{
    return d->m[i].iteration_s / d->units[i];
}

bool difference_parts(const struct difference *d, size_t i, double part_s[BREAKDOWN_PARTS])
{
    struct breakdown b = breakdown_of(&d->m[i]);
    double sum_s = breakdown_sum(&b);
    if (!(sum_s > 0))
        return false;
    for (size_t k = 0; k < BREAKDOWN_PARTS; k++)
        part_s[k] = breakdown_part(&b, k) / sum_s * difference_time(d, i);
    return true;
}

static int difference_largest_first(const void *a, const void *b)
{
    const struct difference_row *x = a, *y = b;
    double s = fabs(x->b_s - x->a_s), t = fabs(y->b_s - y->a_s);
    return s < t || s > t ? (s > t ? -1 : 1) : (x->part > y->part) - (x->part < y->part);
}

size_t difference_rows(const struct difference *d, struct difference_row row[BREAKDOWN_PARTS])
{
    double a_s[BREAKDOWN_PARTS], b_s[BREAKDOWN_PARTS];
    size_t n = 0;
    if (!difference_parts(d, 0, a_s) || !difference_parts(d, 1, b_s))
        return 0;
    for (size_t k = 0; k < BREAKDOWN_PARTS; k++) {
        double most_s = fmax(a_s[k], b_s[k]);
        bool alike = fabs(b_s[k] - a_s[k]) <= rounding * fabs(most_s);
        if (fabs(a_s[k]) + fabs(b_s[k]) > 0)
            row[n++] = (struct difference_row){k, alike ? most_s : a_s[k], alike ? most_s : b_s[k]};
    }
    qsort(row, n, sizeof *row, difference_largest_first);
    return n;
}

bool difference_changes(const struct difference *d, struct plan_change change[DIFFERENCE_CHANGES],
                        size_t *n)
{
    bool one_plan = measurement_same_plan(&d->m[0], &d->m[1]);
    const char *a = d->m[0].framework, *b = d->m[1].framework;
    *n = 0;
    if (!one_plan && !(d->known[0] && d->known[1]))
        return false;
    if (!one_plan)
        *n = plan_changes(&d->plan[0].plan, &d->plan[1].plan, change);
    if (strcmp(a ? a : "", b ? b : "") != 0) {
        struct plan_change *c = &change[(*n)++];
        snprintf(c->what, sizeof c->what, "framework");
        snprintf(c->from, sizeof c->from, "%s", a ? a : "foreline");
        snprintf(c->to, sizeof c->to, "%s", b ? b : "foreline");
    }
    return true;
}

/* ---- text */

/* "1,441,996 tokens/s". */
static const char *difference_rate(const struct measurement *m, char text[DIFFERENCE_TEXT])
{
    char tokens[TEXT_GROUPED];
    if (m->tokens_per_s > 0)
        snprintf(text, DIFFERENCE_TEXT, "%s tokens/s", text_grouped(m->tokens_per_s, tokens));
    else
        snprintf(text, DIFFERENCE_TEXT, "%.4g %s/s", m->samples_per_s,
                 m->captured ? "steps" : "samples");
    return text;
}

/* "62 GiB of 80 GiB, fits", of the rank that decides. */
static const char *difference_memory(const struct difference *d, size_t i,
                                     char text[DIFFERENCE_TEXT])
{
    const struct measurement *m = &d->m[i];
    struct memory_error e = {0};
    size_t r = measurement_fullest(m);
    if (d->known[i] && engine_predicts(m->engine))
        e = memory_error_of(&d->plan[i].plan);
    snprintf(text, DIFFERENCE_TEXT, "not known");
    if (r < m->ranks)
        snprintf(text, DIFFERENCE_TEXT, "%s of %s, %s",
                 units_of(UNIT_BYTES, (double)m->rank[r].peak_bytes).text,
                 units_of(UNIT_BYTES, (double)m->rank[r].memory_bytes).text,
                 memory_verdict(m->rank[r].peak_bytes, m->rank[r].memory_bytes, &e));
    return text;
}

/* The faster of A and B; 2: as fast as each other. */
static size_t difference_faster(const struct difference *d)
{
    double a_s = difference_time(d, 0), b_s = difference_time(d, 1);
    return fabs(a_s - b_s) <= rounding * fmax(a_s, b_s) ? 2 : b_s < a_s;
}

static void difference_say(const char *word, FILE *out, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void difference_say(const char *word, FILE *out, const char *fmt, ...)
{
    char text[4 * DIFFERENCE_TEXT];
    va_list of;
    va_start(of, fmt);
    vsnprintf(text, sizeof text, fmt, of);
    va_end(of);
    text_put_answer(out, word, text);
}

static void difference_print_faster(const struct difference *d, FILE *out)
{
    char rate[2][DIFFERENCE_TEXT];
    size_t best = difference_faster(d), b = best % 2, other = 1 - b;
    const char *rates[2] = {difference_rate(&d->m[b], rate[0]),
                            difference_rate(&d->m[other], rate[1])};
    double s = difference_time(d, b), other_s = difference_time(d, other);
    if (best == 2)
        difference_say("faster", out, "neither: %s per %s, %s", units_of(UNIT_SECONDS, s).text,
                       d->per, rates[0]);
    else
        difference_say("faster", out,
                       "%s, %s: %.4g times as fast as %s; %s per %s against %s, %s "
                       "against %s",
                       best ? "B" : "A", d->path[b], other_s / s, best ? "A" : "B",
                       units_of(UNIT_SECONDS, s).text, d->per, units_of(UNIT_SECONDS, other_s).text,
                       rates[0], rates[1]);
}

/* "PP 8 -> 4, TP 4 -> 8". */
static void difference_print_changes(const struct difference *d, FILE *out)
{
    struct plan_change change[DIFFERENCE_CHANGES];
    char text[4 * DIFFERENCE_TEXT] = "nothing";
    size_t n, used = 0;
    bool known = difference_changes(d, change, &n);
    for (size_t k = 0; k < n && used < sizeof text; k++) {
        const struct plan_change *c = &change[k];
        bool words = *c->from;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s%s%s%s%s", k ? ", " : "",
                                 c->what, words ? " " : "", c->from, words ? " -> " : "", c->to);
    }
    difference_say("differs", out, "%s",
                   known ? text : "not known: the plan of one is not here, or not as it was");
}

static const char *difference_words(const struct difference *d, size_t i, char text[PLAN_WORDS])
{
    return d->known[i] ? plan_words(&d->plan[i].plan, text) : "plan not known";
}

static void difference_print_row(const char *what, double a_s, double b_s, double all_s, FILE *out)
{
    fprintf(out, "%-36s %12s %12s %12s %+8.2f%%\n", what, units_of(UNIT_SECONDS, a_s).text,
            units_of(UNIT_SECONDS, b_s).text, units_of(UNIT_SECONDS, b_s - a_s).text,
            100 * (b_s - a_s) / all_s);
}

/* Where the time goes in both, and what holds each back. */
static void difference_print_parts(const struct difference *d, FILE *out)
{
    struct difference_row row[BREAKDOWN_PARTS];
    char text[BREAKDOWN_TEXT], head[BREAKDOWN_PART];
    size_t n = difference_rows(d, row);
    double a_s = difference_time(d, 0), b_s = difference_time(d, 1);
    if (n == 0) {
        fprintf(out, "\nof one it is not known where the time goes\n");
        return;
    }
    snprintf(head, sizeof head, "time per %s, mean rank", d->per);
    fprintf(out, "\n%-36s %12s %12s %12s %9s\n", head, "A", "B", "B - A", "of A");
    for (size_t k = 0; k < n; k++)
        difference_print_row(breakdown_part_name(row[k].part, head), row[k].a_s, row[k].b_s, a_s,
                             out);
    difference_print_row("sum", a_s, b_s, a_s, out);
    fputc('\n', out);
    for (size_t i = 0; i < 2; i++)
        difference_say(i ? "" : "bottleneck", out, "%s, %s", i ? "B" : "A",
                       breakdown_bottleneck(&d->m[i], text));
}

/* The fastest behind the i-th; i == n: of all. Ties are in the order of the files. */
static size_t difference_next(const struct difference *d, size_t i)
{
    size_t next = d->n;
    double after_s = i < d->n ? difference_time(d, i) : -1, next_s = INFINITY;
    for (size_t k = 0; k < d->n; k++) {
        double s = difference_time(d, k);
        if ((s > after_s || (s >= after_s && k > i)) && s < next_s) {
            next = k;
            next_s = s;
        }
    }
    return next;
}

/* A row for each, fastest first; the parts of a mean rank in percent. */
static void difference_print_table(const struct difference *d, FILE *out)
{
    enum { NAME = 28 };
    char text[DIFFERENCE_TEXT], words[PLAN_WORDS];
    fprintf(out, "%-*s per %-9s %20s %11s %7s %7s %6s\n", NAME, "file", d->per, "throughput",
            "memory", "compute", "exposed", "bubble");
    for (size_t i = difference_next(d, d->n); i < d->n; i = difference_next(d, i)) {
        const struct measurement *m = &d->m[i];
        struct breakdown b = breakdown_of(m);
        double part = 100 / breakdown_sum(&b), done = part * (b.compute_s + b.optimizer_s),
               idle = part * b.bubble_s;
        size_t r = measurement_fullest(m);
        fprintf(out, "%-*s ", NAME, text_shorten(d->path[i], NAME, text, sizeof text));
        fprintf(out, "%13s %20s %9s%2s ", units_of(UNIT_SECONDS, difference_time(d, i)).text,
                difference_rate(m, text),
                r < m->ranks ? units_of(UNIT_BYTES, (double)m->rank[r].peak_bytes).text : "-",
                measurement_overfull(m) > 0 ? " !" : "");
        if (isfinite(part))
            fprintf(out, "%6.1f%% %6.1f%% %5.1f%%", done, fmax(0, 100 - done - idle), idle);
        fputc('\n', out);
        difference_say("", out, "%s", difference_words(d, i, words));
    }
    fputs("!: does not fit\n", out);
}

void difference_print(const struct difference *d, FILE *out, FILE *warnings)
{
    char text[2][DIFFERENCE_TEXT], words[PLAN_WORDS];
    for (size_t k = 0; k < d->warnings; k++)
        fprintf(warnings, "warning: %s\n", d->warning[k]);
    if (d->n > 2) {
        difference_print_table(d, out);
        return;
    }
    difference_print_faster(d, out);
    difference_say("memory", out, "A %s; B %s", difference_memory(d, 0, text[0]),
                   difference_memory(d, 1, text[1]));
    difference_print_changes(d, out);
    for (size_t i = 0; i < 2; i++)
        difference_say(i ? "B" : "A", out, "%s: %s", d->path[i], difference_words(d, i, words));
    difference_print_parts(d, out);
}

/* ---- JSON */

/* As files call the purpose of communication. */
static const char *difference_cause(size_t part, char text[BREAKDOWN_PART])
{
    bool waits = part > 0 && part <= OP_PURPOSES;
    return waits ? op_purpose_names[part - 1] : breakdown_part_name(part, text);
}

static void difference_put_place(const struct difference *d, size_t i, struct json_writer *w)
{
    char text[PLAN_WORDS]; /* BREAKDOWN_TEXT too */
    const struct measurement *m = &d->m[i];
    double part_s[BREAKDOWN_PARTS];
    size_t r = measurement_fullest(m);
    bool parts = d->n > 2 && difference_parts(d, i, part_s);
    json_open_object(w, NULL, false);
    json_put_string(w, "file", d->path[i]);
    json_put_string(w, "plan", m->plan);
    json_put_string(w, "words", d->known[i] ? plan_words(&d->plan[i].plan, text) : NULL);
    json_put_string(w, "engine", m->engine);
    json_put_real(w, "iteration_s", m->iteration_s);
    json_put_real(w, "time_s", difference_time(d, i));
    json_put_real(w, "samples_per_s", m->samples_per_s);
    json_put_real(w, "tokens_per_s", m->tokens_per_s);
    if (r < m->ranks) {
        json_put_integer(w, "peak_bytes", m->rank[r].peak_bytes);
        json_put_integer(w, "memory_bytes", m->rank[r].memory_bytes);
        json_put_bool(w, "fits", measurement_overfull(m) == 0);
    }
    json_put_string(w, "bottleneck", breakdown_bottleneck(m, text));
    if (parts)
        json_open_object(w, "parts_s", false);
    for (size_t k = 0; k < BREAKDOWN_PARTS && parts; k++)
        json_put_real(w, difference_cause(k, text), part_s[k]);
    if (parts)
        json_close(w);
    json_close(w);
}

/* What is said of two. */
static void difference_put_pair(const struct difference *d, struct json_writer *w)
{
    struct difference_row row[BREAKDOWN_PARTS];
    struct plan_change change[DIFFERENCE_CHANGES];
    char text[BREAKDOWN_PART];
    size_t rows = difference_rows(d, row), n, best = difference_faster(d);
    json_put_string(w, "faster", best < 2 ? d->path[best] : NULL);
    json_put_real(w, "difference_s", difference_time(d, 1) - difference_time(d, 0));
    json_open_array(w, "time", false);
    for (size_t k = 0; k < rows; k++) {
        json_open_object(w, NULL, true);
        json_put_string(w, "cause", difference_cause(row[k].part, text));
        json_put_real(w, "a_s", row[k].a_s);
        json_put_real(w, "b_s", row[k].b_s);
        json_put_real(w, "difference_s", row[k].b_s - row[k].a_s);
        json_close(w);
    }
    json_close(w);
    if (!difference_changes(d, change, &n)) {
        json_put_string(w, "changes", NULL);
        return;
    }
    json_open_array(w, "changes", false);
    for (size_t k = 0; k < n; k++) {
        json_open_object(w, NULL, true);
        json_put_string(w, "what", change[k].what);
        json_put_string(w, "a", *change[k].from ? change[k].from : NULL);
        json_put_string(w, "b", *change[k].from ? change[k].to : NULL);
        json_close(w);
    }
    json_close(w);
}

void difference_print_json(const struct difference *d, FILE *out)
{
    struct json_writer w = {.stream = out};
    json_open_object(&w, NULL, false);
    json_put_string(&w, "per", d->per);
    json_open_array(&w, "warnings", false);
    for (size_t k = 0; k < d->warnings; k++)
        json_put_string(&w, NULL, d->warning[k]);
    json_close(&w);
    if (d->n == 2)
        difference_put_pair(d, &w);
    json_open_array(&w, "plans", false);
    for (size_t i = 0; i < d->n; i++)
        difference_put_place(d, i, &w);
    json_close(&w);
    json_close(&w);
}
