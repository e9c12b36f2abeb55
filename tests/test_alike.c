/* Graphs of models compared, against all permutations; series-parallel ones against the definition,
 * by recursion. */
#include "partition/alike.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/random.h"
#include "model/graph.h"
#include "model/zoo.h"
#include "tests/cmocka.h"

enum { MOST = 7, CASES = 400 };
static const char *const kinds[] = {"a", "b"};

/* Op i reads op j where has[j][i], j < i. */
struct drawn {
    size_t n;
    bool has[MOST][MOST];
    int kind[MOST];
    int64_t bytes[MOST];
};

static uint64_t number(uint64_t seed, uint64_t *at, uint64_t below)
{
    return random_key(seed, (*at)++) % below;
}

static struct drawn draw(uint64_t seed, uint64_t *at)
{
    struct drawn d = {.n = 1 + number(seed, at, MOST)};
    uint64_t density = 1 + number(seed, at, 4);
    for (size_t i = 0; i < d.n; i++) {
        d.kind[i] = (int)number(seed, at, 2);
        d.bytes[i] = (int64_t)(4 * number(seed, at, 2));
        for (size_t j = 0; j < i; j++)
            d.has[j][i] = number(seed, at, 4) < density;
    }
    return d;
}

/* The same ops in another order, `order` [n]: where op i of d goes; edges still lead from some to
 * later ones as the builder sorts them. */
static struct model build(const struct drawn *d, const size_t *order)
{
    struct model m = {0};
    struct model_edge edge[MOST * MOST];
    size_t edges = 0;
    m.n = d->n;
    m.element_bytes = 4;
    m.name = strdup("drawn");
    m.op = calloc(d->n, sizeof *m.op);
    assert_non_null(m.op);
    for (size_t i = 0; i < d->n; i++) {
        char name[8];
        snprintf(name, sizeof name, "op%zu", order[i]);
        m.op[order[i]] = (struct model_op){.name = strdup(name),
                                           .kind = strdup(kinds[d->kind[i]]),
                                           .parameter_bytes = d->bytes[i],
                                           .shares = MODEL_NO_OP};
        for (size_t j = 0; j < i; j++)
            if (d->has[j][i])
                edge[edges++] = (struct model_edge){(uint32_t)order[j], (uint32_t)order[i]};
    }
    if (model_finish(&m, edge, edges, "drawn") != STATUS_OK)
        fail_msg("%s", error_message());
    return m;
}

static const size_t as_is[MOST] = {0, 1, 2, 3, 4, 5, 6};

static void shuffle(uint64_t seed, uint64_t *at, size_t n, size_t *order)
{
    memcpy(order, as_is, sizeof as_is);
    for (size_t i = n; i-- > 1;) {
        size_t k = number(seed, at, i + 1), old = order[i];
        order[i] = order[k];
        order[k] = old;
    }
}

/* How much is equal when op i of a stands for op order[i] of b. */
static enum model_alike alike_so(const struct drawn *a, const struct drawn *b, const size_t *order)
{
    bool kind = true, bytes = true;
    for (size_t i = 0; i < a->n; i++) {
        kind = kind && a->kind[i] == b->kind[order[i]];
        bytes = bytes && a->bytes[i] == b->bytes[order[i]];
        for (size_t j = 0; j < a->n; j++)
            if (a->has[j][i] != b->has[order[j]][order[i]])
                return ALIKE_NOT;
    }
    return kind && bytes ? ALIKE_SIZES : kind ? ALIKE_KINDS : ALIKE_GRAPHS;
}

static enum model_alike best_of_all(const struct drawn *a, const struct drawn *b, size_t *order,
                                    size_t fixed)
{
    enum model_alike best = ALIKE_NOT;
    if (fixed == a->n)
        return alike_so(a, b, order);
    for (size_t k = fixed; k < a->n; k++) {
        size_t old = order[fixed];
        order[fixed] = order[k];
        order[k] = old;
        enum model_alike found = best_of_all(a, b, order, fixed + 1);
        best = found > best ? found : best;
        order[k] = order[fixed];
        order[fixed] = old;
    }
    return best;
}

static void check_pair(const struct drawn *a, const struct drawn *b, const size_t *order,
                       size_t *seen)
{
    size_t all[MOST];
    enum model_alike found, expected = ALIKE_NOT;
    struct model x = build(a, as_is), y = build(b, order);
    memcpy(all, as_is, sizeof all);
    if (a->n == b->n)
        expected = best_of_all(a, b, all, 0);
    assert_int_equal(model_alike(&x, &y, &found), STATUS_OK);
    assert_int_equal(found, expected);
    seen[found]++;
    model_free(&x);
    model_free(&y);
}

/* A graph against itself in another order, and against one with an edge, a kind or a size
 * changed. */
static void graphs_are_alike_as_permutations_say(void **state)
{
    size_t seen[ALIKE_LEVELS] = {0};
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        uint64_t at = 0;
        size_t order[MOST];
        struct drawn a = draw(seed, &at), b = a;
        shuffle(seed, &at, a.n, order);
        check_pair(&a, &b, order, seen);
        size_t i = number(seed, &at, a.n), j = number(seed, &at, a.n);
        uint64_t what = number(seed, &at, 3);
        if (what == 0)
            b.kind[i] = !b.kind[i];
        else if (what == 1)
            b.bytes[i] += 4;
        else if (i != j)
            b.has[i < j ? i : j][i < j ? j : i] ^= true;
        check_pair(&a, &b, order, seen);
    }
    for (int level = 0; level < ALIKE_LEVELS; level++)
        assert_true(seen[level] > 10);
}

/* ---- series-parallel: edges among `inside` (bits of vertices), from s to t, by the definition */

struct dag {
    size_t n;
    bool has[MOST + 2][MOST + 2];
};

static unsigned reach(const struct dag *g, unsigned inside, size_t from, bool forward)
{
    unsigned found = 0;
    for (size_t v = 0; v < g->n; v++)
        if ((inside >> v & 1) && (forward ? g->has[from][v] : g->has[v][from]))
            found |= 1U << v | reach(g, inside & ~(1U << from), v, forward);
    return found;
}

/* The vertices that hang together with v, without s and t. */
static unsigned component(const struct dag *g, unsigned inside, size_t v)
{
    unsigned found = 1U << v, before = 0;
    while (found != before) {
        before = found;
        for (size_t a = 0; a < g->n; a++)
            for (size_t b = 0; b < g->n; b++)
                if ((before >> a & 1) && (inside >> b & 1) && (g->has[a][b] || g->has[b][a]))
                    found |= 1U << b;
    }
    return found;
}

/* Of the vertices `inside`, and the edge from s to t where `direct`. */
static bool is_series_parallel(const struct dag *g, size_t s, size_t t, unsigned inside,
                               bool direct)
{
    if (inside == 0)
        return direct;
    unsigned first = component(g, inside, (size_t)__builtin_ctz(inside));
    if (first != inside || direct) /* beside each other */
        return is_series_parallel(g, s, t, first, false) &&
               (first == inside || is_series_parallel(g, s, t, inside & ~first, direct));
    for (size_t v = 0; v < g->n; v++) { /* behind each other: v is on all ways */
        if (!(inside >> v & 1))
            continue;
        unsigned before = reach(g, inside, v, false) & inside,
                 after = reach(g, inside, v, true) & inside;
        if ((before | after | 1U << v) != inside || (before & after))
            continue;
        bool passed = false; /* by an edge that leaves out v, but for the one that is beside all */
        for (size_t a = 0; a < g->n; a++)
            for (size_t b = 0; b < g->n; b++)
                passed = passed || (!(a == s && b == t) && ((before >> a & 1) || a == s) &&
                                    ((after >> b & 1) || b == t) && g->has[a][b]);
        if (!passed && is_series_parallel(g, s, v, before, g->has[s][v]) &&
            is_series_parallel(g, v, t, after, g->has[v][t]))
            return true;
    }
    return false;
}

static void series_parallel_graphs_are_those_of_the_definition(void **state)
{
    size_t seen[2] = {0};
    for (uint64_t seed = 1; seed <= 5 * CASES; seed++) {
        uint64_t at = 0;
        struct drawn d = draw(seed, &at);
        struct dag g = {.n = d.n + 2};
        bool found = false;
        for (size_t i = 0; i < d.n; i++) {
            bool reads = false, is_read = false;
            for (size_t j = 0; j < d.n; j++) {
                g.has[j][i] = d.has[j][i];
                reads = reads || d.has[j][i];
                is_read = is_read || d.has[i][j];
            }
            g.has[d.n][i] = !reads;
            g.has[i][d.n + 1] = !is_read;
        }
        struct model m = build(&d, as_is);
        assert_int_equal(model_series_parallel(&m, &found), STATUS_OK);
        bool expected = is_series_parallel(&g, d.n, d.n + 1, (1U << d.n) - 1, false);
        if (found != expected)
            fail_msg("seed %d: %d, by the definition %d", (int)seed, found, expected);
        seen[found]++;
        model_free(&m);
    }
    assert_true(seen[0] > 100 && seen[1] > 100);
}

/* Residuals are edges beside blocks; a writer that attends reads what the reader made in every
 * layer. */
static void models_of_the_zoo_are_what_they_are(void **state)
{
    static const struct {
        const char *spec;
        bool series_parallel;
    } all[] = {{"vgg:depth=11", true},
               {"resnet:depth=50", true},
               {"gpt-tiny", true},
               {"gnmt:layers=4", false}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct model m = {0}, other = {0};
        enum model_alike alike;
        bool found;
        assert_int_equal(zoo_build(all[i].spec, &m), STATUS_OK);
        assert_int_equal(model_series_parallel(&m, &found), STATUS_OK);
        assert_int_equal(found, all[i].series_parallel);
        assert_int_equal(model_alike(&m, &m, &alike), STATUS_OK);
        assert_int_equal(alike, ALIKE_SIZES);
        assert_int_equal(zoo_build("gpt-tiny:hidden=64", &other), STATUS_OK);
        assert_int_equal(model_alike(&m, &other, &alike), STATUS_OK);
        assert_int_equal(alike, i == 2 ? ALIKE_KINDS : ALIKE_NOT);
        model_free(&m);
        model_free(&other);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_are_alike_as_permutations_say),
        cmocka_unit_test(series_parallel_graphs_are_those_of_the_definition),
        cmocka_unit_test(models_of_the_zoo_are_what_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
