/* Circuits of an optical network by local search on the analytic engine. */
#include "study/matching.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/random.h"
#include "core/base/text.h"
#include "sim/engines.h"
#include "sim/traffic.h"
#include "study/load.h"
#include "topologies/generate.h"
#include "topologies/ocs.h"

const char *const matching_word[MATCHING_WORDS] = {"even", "ring", "torus"};
static const double worth_taking = 1e-9;

struct matching_search {
    const struct plan *plan;
    const struct evaluation_context *context;
    const char *spec;
    size_t most;
    struct matching *out;
    struct ocs_circuits best, next;
    double *bytes; /* [pods * pods] per iteration, both ways */
    uint64_t random;
};

/* ---- what a matching is worth */

/* The iteration on this platform; with `bytes`, what goes between pods too. */
static enum status matching_try(struct matching_search *s, const char *spec, double *bytes,
                                double *iteration_s)
{
    enum status st;
    struct evaluation_context c = *s->context;
    struct topology t = {0};
    struct measurement m = {0};
    struct program program = {0};
    size_t *pod = NULL, pods = s->best.pods;
    char *path = NULL;
    TRY(load_topology(spec, &t, &path));
    c.topology = &t;
    c.platform = path;
    c.no_links = true;
    TRY(evaluate_plan(s->plan, &c, engine_quick(), &m, bytes ? &program : NULL, NULL));
    *iteration_s = m.iteration_s;
    s->out->simulations++;
    if (bytes) {
        TRY(ARRAY_NEW(pod, t.n));
        for (size_t d = 0; d < t.n; d++)
            pod[d] = d / (t.n / pods);
        TRY(traffic_between(&program, &t, &c.options.collective, pod, pods, bytes));
        for (size_t a = 0; a < pods; a++)
            for (size_t b = 0; b < a; b++)
                bytes[a * pods + b] = bytes[b * pods + a] += bytes[a * pods + b];
    }
out:
    free(pod);
    free(path);
    program_free(&program);
    measurement_free(&m);
    topology_free(&t);
    return st;
}

/* Take `next` if its iteration is shorter than any before. */
static enum status matching_take(struct matching_search *s, bool *better)
{
    enum status st;
    double seconds;
    char *spec = NULL;
    *better = false;
    st = ocs_describe_circuits(s->spec, &s->next, &spec);
    if (st == STATUS_INVALID) /* it does not join all pods */
        return STATUS_OK;
    PASS(st);
    TRY(matching_try(s, spec, NULL, &seconds));
    *better = seconds < s->out->iteration_s * (1 - worth_taking);
    if (*better) {
        s->out->iteration_s = seconds;
        free(s->out->platform);
        s->out->platform = spec;
        spec = NULL;
        memcpy(s->best.n, s->next.n, s->best.pods * s->best.pods * sizeof *s->best.n);
    }
out:
    free(spec);
    return st;
}

/* ---- circuits */

static size_t *circuits_at(struct ocs_circuits *c, size_t a, size_t b)
{
    return &c->n[a * c->pods + b];
}

static void circuits_add(struct ocs_circuits *c, size_t a, size_t b, size_t n)
{
    *circuits_at(c, a, b) += n;
    *circuits_at(c, b, a) = *circuits_at(c, a, b);
}

static size_t circuits_free(struct ocs_circuits *c, size_t a)
{
    size_t used = 0;
    for (size_t b = 0; b < c->pods; b++)
        used += *circuits_at(c, a, b);
    return c->ports - used;
}

/* The pair with the most bytes per circuit of those with a free port at both ends, and, unless
 * `joined` is NULL, not in the same part; false: there is none. */
static bool circuits_most_wanted(struct matching_search *s, const size_t *joined, size_t *x,
                                 size_t *y)
{
    double most = -1;
    for (size_t a = 0; a < s->next.pods; a++)
        for (size_t b = a + 1; b < s->next.pods && circuits_free(&s->next, a) > 0; b++) {
            double each =
                s->bytes[a * s->next.pods + b] / (double)(*circuits_at(&s->next, a, b) + 1);
            if (each <= most || circuits_free(&s->next, b) == 0 ||
                (joined && joined[a] == joined[b]))
                continue;
            most = each;
            *x = a;
            *y = b;
        }
    return most >= 0;
}

/* A tree of the pairs with the most bytes, then circuit after circuit to who wants it most. A pod
 * of the tree may need more ports than it has: then that is no matching. */
static void circuits_by_bytes(struct matching_search *s)
{
    size_t joined[MATCHING_PODS], a, b;
    memset(s->next.n, 0, s->next.pods * s->next.pods * sizeof *s->next.n);
    for (size_t p = 0; p < s->next.pods; p++)
        joined[p] = p;
    while (circuits_most_wanted(s, joined, &a, &b)) {
        size_t from = joined[b], to = joined[a];
        circuits_add(&s->next, a, b, 1);
        for (size_t p = 0; p < s->next.pods; p++)
            joined[p] = joined[p] == from ? to : joined[p];
    }
    while (circuits_most_wanted(s, NULL, &a, &b))
        circuits_add(&s->next, a, b, 1);
}

/* ---- moves */

static size_t draw_below(struct matching_search *s, size_t n)
{
    return (size_t)(random_next(&s->random) % n);
}

/* A pair, as often as it has bytes per circuit. */
static void draw_pair(struct matching_search *s, size_t *x, size_t *y)
{
    double sum = 0, at;
    for (int pass = 0; pass < 2; pass++) {
        at = sum * (double)(random_next(&s->random) >> 11) * 0x1p-53;
        sum = 0;
        for (size_t a = 0; a < s->next.pods; a++)
            for (size_t b = a + 1; b < s->next.pods; b++) {
                sum += (s->bytes[a * s->next.pods + b] + 1) /
                       ((double)*circuits_at(&s->next, a, b) + 0.5);
                if (pass == 1 && sum > at) {
                    *x = a;
                    *y = b;
                    return;
                }
            }
    }
}

/* Make k ports of pod a free that has circuits to others than `but`: to which, or a itself when
 * they are free already; SIZE_MAX: it has no pair with as many. */
static size_t release(struct matching_search *s, size_t a, size_t but, size_t k)
{
    size_t n = 0, chosen = SIZE_MAX;
    if (circuits_free(&s->next, a) >= k)
        return a;
    for (size_t c = 0; c < s->next.pods; c++)
        if (c != but && *circuits_at(&s->next, a, c) >= k && draw_below(s, ++n) == 0)
            chosen = c;
    if (chosen != SIZE_MAX)
        circuits_add(&s->next, a, chosen, (size_t)-k);
    return chosen;
}

/* Some circuits more for a pair that wants them, from two others, whose other ends get circuits to
 * each other. False: the pods drawn cannot. */
static bool circuits_move(struct matching_search *s)
{
    size_t a = 0, b = 1, k = 1, c, d;
    memcpy(s->next.n, s->best.n, s->best.pods * s->best.pods * sizeof *s->best.n);
    draw_pair(s, &a, &b);
    while (2 * k <= s->next.ports && draw_below(s, 2) == 0)
        k *= 2;
    c = release(s, a, b, k);
    d = c == SIZE_MAX ? c : release(s, b, a, k);
    if (d == SIZE_MAX)
        return false;
    circuits_add(&s->next, a, b, k);
    if (c != a && d != b && c != d)
        circuits_add(&s->next, c, d, k);
    return true;
}

/* ---- the search */

/* Simulate a description, and begin with it if its iteration is the shortest so far. */
static enum status matching_start(struct matching_search *s, const char *spec, double *seconds)
{
    bool first = !s->out->platform;
    PASS(matching_try(s, spec, first ? s->bytes : NULL, seconds));
    if (!first && *seconds >= s->out->iteration_s)
        return STATUS_OK;
    free(s->best.n);
    s->best.n = NULL;
    PASS(ocs_circuits(spec, &s->best));
    s->out->iteration_s = *seconds;
    free(s->out->platform);
    s->out->platform = NULL;
    return text_copy(spec, &s->out->platform);
}

static enum status matching_begin(struct matching_search *s)
{
    enum status st;
    char *spec = NULL;
    TRY(generate_canonical(s->spec, &spec));
    TRY(matching_start(s, spec, &s->out->planned_s));
    for (size_t k = 0; k < MATCHING_WORDS; k++) {
        free(spec);
        spec = NULL;
        s->out->word_s[k] = INFINITY;
        st = generate_with(s->spec, "matching", matching_word[k], &spec);
        TRY(st == STATUS_INVALID ? STATUS_OK : st); /* too few circuits */
        if (spec)
            TRY(matching_start(s, spec, &s->out->word_s[k]));
    }
out:
    free(spec);
    return st;
}

static bool matching_is_stopped(const struct matching_search *s)
{
    const struct simulation_watch *watch = s->context->scored;
    return watch && !watch->tick(watch->context, s->out->simulations, s->most);
}

enum status matching_search(const struct plan *p, const struct evaluation_context *context,
                            const char *spec, size_t most, struct matching *out)
{
    enum status st;
    bool better;
    struct matching_search s = {p, context, spec, most, out, {0}, {0}, NULL, p->seed};
    *out = (struct matching){.iteration_s = INFINITY};
    TRY(ocs_circuits(spec, &s.best));
    TRY(ocs_circuits(spec, &s.next));
    if (s.best.pods > MATCHING_PODS || s.best.pods < 2)
        TRY(error_set(STATUS_UNSUPPORTED, "got a platform of %zu pods, expected 2 to %d",
                      s.best.pods, MATCHING_PODS));
    TRY(ARRAY_NEW(s.bytes, s.best.pods * s.best.pods));
    TRY(matching_begin(&s));
    circuits_by_bytes(&s);
    TRY(matching_take(&s, &better));
    for (size_t tried = 0; out->simulations < most && tried < 4 * most && !matching_is_stopped(&s);
         tried++)
        if (circuits_move(&s))
            TRY(matching_take(&s, &better));
out:
    free(s.best.n);
    free(s.next.n);
    free(s.bytes);
    if (st != STATUS_OK)
        matching_free(out);
    return st;
}

void matching_free(struct matching *m)
{
    free(m->platform);
    *m = (struct matching){0};
}
