/* Values of a parameter by which platforms come to the same cost or bisection. */
#include "study/equal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/path.h"
#include "partition/capacity.h"
#include "sim/platform/platform.h"
#include "study/costs.h"
#include "study/load.h"
#include "study/point.h"
#include "topologies/generate.h"

enum { TEXT = 64, DOUBLINGS = 40, HALVINGS = 40, PATIENCE = 3 };
static const char word[] = "equal", prefix[] = "platform.";
static const double Gbps = 0.125e9, near = 1e-4, announced = 0.01;

/* A platform that was looked at, by its name before the value is known. */
struct equal_found {
    const char *name, *reference, *what, *prices;
    const struct experiment_setting *setting;
};

struct equal_reader {
    struct experiment *e;
    FILE *notes;
    size_t n;
    struct equal_found *found; /* [n] */
    struct prices prices;      /* of the file that was read last */
};

/* Of one platform. */
struct equal_search {
    struct equal_reader *r;
    const struct experiment_setting **setting; /* [n] of a point */
    size_t n;
    struct experiment_setting trial; /* one of them, whose value is `text` */
    char text[TEXT];
    const struct family_parameter *parameter;
    bool cost;
    double target;
    double x, value;    /* the best that is not above the target; value 0: none yet */
    double least, most; /* of all that were looked at */
};

static bool says_equal(const struct experiment_setting *s)
{
    return !strncmp(s->key, prefix, sizeof prefix - 1) && !strcmp(s->value, word);
}

#define FAULT_AT(e, at, ...)                                                                       \
    (error_set(STATUS_PARSE, __VA_ARGS__),                                                         \
     error_context(STATUS_PARSE, "%s:%zu", (e)->path, (size_t)(at)))

/* ---- what a platform has */

static enum status measure(const struct equal_search *s, const char *name, double *out)
{
    enum status st;
    struct topology t = {0};
    struct inventory v = {0};
    char *path = NULL;
    TRY(load_platform(name, &path));
    if (s->cost) {
        TRY(costs_find(path, &s->r->prices, &v));
        *out = v.cost;
    } else {
        TRY(platform_read(path, &t));
        TRY(capacity_find(&t));
        *out = t.bisection_Bps;
    }
out:
    topology_free(&t);
    inventory_free(&v);
    free(path);
    return st;
}

/* How one types it. */
static void equal_text(struct equal_search *s, double x)
{
    bool rate = s->parameter->kind == FAMILY_RATE;
    snprintf(s->text, sizeof s->text, "%.6g%s", rate ? x / Gbps : x, rate ? "Gbps" : "");
}

/* With the parameter at x. *possible is false when there is no such platform. */
static enum status equal_try(struct equal_search *s, double x, bool *possible, double *value)
{
    enum status st;
    struct arena texts = {0};
    const char *name;
    equal_text(s, x);
    TRY(point_platform(s->r->e, s->setting, s->n, &texts, &name));
    st = measure(s, name, value);
    *possible = st == STATUS_OK;
    if (*possible) {
        s->least = fmin(s->least, *value);
        s->most = fmax(s->most, *value);
    }
    if (st == STATUS_OK && *value <= s->target * (1 + 1e-9) && *value > s->value) {
        s->value = *value;
        s->x = x;
    }
    st = st == STATUS_NOMEM ? st : STATUS_OK;
out:
    arena_free(&texts);
    return st;
}

/* ---- the search */

/* From x on by a factor until the target is passed: *from and *to are then on its two sides. */
static enum status equal_bracket(struct equal_search *s, double x, double factor, double *from,
                                 double *to, bool *found)
{
    const struct family_parameter *p = s->parameter;
    bool rate = p->kind == FAMILY_RATE, possible;
    double least = rate ? 1e-3 * Gbps : p->min, most = rate ? 1e6 * Gbps : p->max;
    double first, value, next = x;
    *found = false;
    PASS(equal_try(s, x, &possible, &first));
    for (int k = 0; possible && !*found && k < DOUBLINGS; k++) {
        *from = next;
        next = fmin(fmax(next * factor, least), most);
        if (next == *from)
            break;
        PASS(equal_try(s, next, &possible, &value));
        if (k >= PATIENCE && possible &&
            fabs(value - s->target) > fabs(first - s->target) * (1 + 1e-9) &&
            (value > s->target) == (first > s->target))
            break; /* the wrong way */
        *found = possible && (value > s->target) != (first > s->target);
    }
    *to = next;
    return STATUS_OK;
}

static enum status equal_bisect(struct equal_search *s, double from, double to)
{
    bool whole = s->parameter->kind == FAMILY_COUNT, possible, above;
    double value;
    PASS(equal_try(s, from, &possible, &value));
    above = value > s->target;
    for (int k = 0; k < HALVINGS && s->value < s->target * (1 - near); k++) {
        double middle = whole ? floor((from + to) / 2) : sqrt(from * to);
        if (middle == from || middle == to || fabs(to / from - 1) < 1e-6)
            break;
        PASS(equal_try(s, middle, &possible, &value));
        if (possible && (value > s->target) == above)
            from = middle;
        else
            to = middle;
    }
    return STATUS_OK;
}

static enum status equal_run(struct equal_search *s, const char *name, const char *what)
{
    double from, to, start = s->parameter->kind == FAMILY_RATE ? 100 * Gbps : 1;
    bool found;
    start = s->parameter->kind == FAMILY_RATE ? start : fmax(start, s->parameter->min);
    PASS(equal_bracket(s, start, 2, &from, &to, &found));
    if (!found)
        PASS(equal_bracket(s, start, 0.5, &from, &to, &found));
    if (found)
        PASS(equal_bisect(s, from, to));
    if (s->most <= s->least * (1 + 1e-9) && fabs(s->most / s->target - 1) > announced)
        return error_set(STATUS_INVALID,
                         "%s: parameter %s does not change the %s: it stays %.6g, expected %.6g",
                         name, s->parameter->name, what, s->most, s->target);
    if (!(s->value > 0))
        return error_set(
            STATUS_INVALID,
            "%s: no value of %s (set to 'equal') gives a %s of at most %.6g (the lowest is %.6g)",
            name, s->parameter->name, what, s->target, s->least);
    double off = s->value / s->target - 1;
    equal_text(s, s->x);
    if (s->r->notes)
        fprintf(s->r->notes, "%s: %s, %s %.7g of %.7g (%+.2f %%)%s\n", name, s->text, what,
                s->value, s->target, 100 * off, off < -announced ? " (no closer value below)" : "");
    return STATUS_OK;
}

/* ---- points */

static enum status equal_prices(struct equal_reader *r, const char *given)
{
    enum status st;
    char *path = NULL;
    TRY(path_find(given, r->e->path, &path));
    if (!r->prices.path || strcmp(r->prices.path, path) != 0) {
        prices_free(&r->prices);
        TRY(prices_read(path, &r->prices));
    }
out:
    free(path);
    return st;
}

/* The point that says how much. */
static size_t reference_of(const struct experiment *e, size_t point)
{
    for (size_t i = 0; i < e->axes; i++)
        for (size_t k = 0; k < e->axis[i].n; k++)
            for (size_t n = 0; n < e->axis[i].choice[k].n; n++)
                if (says_equal(&e->axis[i].choice[k].setting[n]))
                    point = experiment_with(e, point, i, 0);
    return point;
}

static enum status name_reference(struct equal_reader *r, size_t point, size_t line,
                                  struct arena *texts, const char **name)
{
    enum status st = STATUS_OK;
    const struct experiment_setting **setting = NULL;
    size_t n;
    PASS(experiment_settings(r->e, reference_of(r->e, point), &setting, &n));
    for (size_t k = 0; st == STATUS_OK && k < n; k++)
        if (says_equal(setting[k]))
            st =
                FAULT_AT(r->e, line, "%s: the first case is the reference, so it cannot be 'equal'",
                         setting[k]->key);
    if (st == STATUS_OK)
        st = point_platform(r->e, setting, n, texts, name);
    free(setting);
    return st;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

/* Search, unless a platform of the same name and reference was searched already. */
static enum status equal_find(struct equal_reader *r, struct equal_search *s, size_t at,
                              struct equal_found f, const struct experiment_setting **out)
{
    enum status st;
    const struct experiment_setting *said = s->setting[at];
    struct experiment_setting *made;
    for (size_t k = 0; k < r->n; k++)
        if (same_text(r->found[k].name, f.name) && same_text(r->found[k].what, f.what) &&
            same_text(r->found[k].reference, f.reference) &&
            same_text(r->found[k].prices, f.prices)) {
            *out = r->found[k].setting;
            return STATUS_OK;
        }
    s->least = INFINITY;
    s->most = s->value = 0;
    s->trial = *said;
    s->trial.value = s->text;
    s->setting[at] = &s->trial;
    st = measure(s, f.reference, &s->target);
    if (st == STATUS_OK && !(s->target > 0 && isfinite(s->target)))
        st = error_set(STATUS_INVALID, "%s: platform's %s is unknown", f.reference, f.what);
    if (st == STATUS_OK)
        st = equal_run(s, f.name, f.what);
    s->setting[at] = said;
    PASS(st);
    made = arena_new(&r->e->arena, 1, sizeof *made);
    if (!made)
        return STATUS_NOMEM;
    *made = *said;
    made->value = arena_text(&r->e->arena, s->text);
    f.setting = *out = made;
    PASS(ARRAY_ROOM(r->found, r->n));
    r->found[r->n++] = f;
    return made->value ? STATUS_OK : STATUS_NOMEM;
}

static enum status equal_point(struct equal_reader *r, size_t point, struct arena *texts,
                               const struct experiment_setting **out)
{
    enum status st;
    struct experiment *e = r->e;
    struct equal_search s = {.r = r};
    size_t at = 0;
    struct equal_found f = {.what = experiment_value(e, point, word),
                            .prices = experiment_value(e, point, "prices")};
    TRY(experiment_settings(e, point, &s.setting, &s.n));
    while (at < s.n && !says_equal(s.setting[at]))
        at++;
    if (at == s.n)
        goto out;
    const struct experiment_setting *said = s.setting[at];
    for (size_t k = at + 1; k < s.n; k++)
        if (says_equal(s.setting[k])) {
            st = FAULT_AT(e, s.setting[k]->line,
                          "%s: only one parameter can be 'equal', got also %s", s.setting[k]->key,
                          said->key);
            goto out;
        }
    s.cost = same_text(f.what, "cost");
    if (!f.what || (s.cost && !f.prices)) {
        st = FAULT_AT(e, said->line,
                      "%s: 'equal' needs a quantity to equalise; add equal: bisection, or equal: "
                      "cost and prices: FILE",
                      said->key);
        goto out;
    }
    TRY(point_platform(e, s.setting, s.n, texts, &f.name));
    TRY(name_reference(r, point, said->line, texts, &f.reference));
    s.parameter = generate_parameter(f.name, said->key + sizeof prefix - 1);
    if (!s.parameter || (s.parameter->kind != FAMILY_RATE && s.parameter->kind != FAMILY_COUNT &&
                         s.parameter->kind != FAMILY_FACTOR)) {
        st = FAULT_AT(e, said->line, "%s: is not a numeric parameter of a generated platform",
                      said->key);
        goto out;
    }
    st = s.cost ? equal_prices(r, f.prices) : STATUS_OK;
    if (st == STATUS_OK)
        st = equal_find(r, &s, at, f, out);
    if (st != STATUS_OK && st != STATUS_NOMEM)
        st = error_context(STATUS_PARSE, "%s:%zu", e->path, said->line);
out:
    free(s.setting);
    return st;
}

enum status equal_settle(struct experiment *e, FILE *notes)
{
    enum status st = STATUS_OK;
    struct equal_reader r = {.e = e, .notes = notes};
    struct arena texts = {0};
    const struct experiment_setting **equal;
    bool any = false;
    for (size_t i = 0; i < e->axes; i++)
        for (size_t k = 0; k < e->axis[i].n; k++)
            for (size_t n = 0; n < e->axis[i].choice[k].n; n++)
                any |= says_equal(&e->axis[i].choice[k].setting[n]);
    if (!any)
        return STATUS_OK;
    equal = arena_new(&e->arena, e->points, sizeof *equal);
    if (!equal)
        return STATUS_NOMEM;
    for (size_t p = 0; p < e->points; p++)
        TRY(equal_point(&r, p, &texts, &equal[p]));
    e->equal = equal;
out:
    free(r.found);
    prices_free(&r.prices);
    arena_free(&texts);
    return st;
}
