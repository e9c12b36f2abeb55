/* Cuts of graphs: loads that follow moves against loads from the start, estimates against the
 * engine, the search against all chains of down-sets on all orders of devices, proposals of odd
 * graphs, and orders that are cut against the dynamic program over all places. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/random.h"
#include "partition/graph/chain.h"
#include "partition/graph/search.h"
#include "partition/partition.h"
#include "tests/cmocka.h"
#include "tests/lowered.h"
#include "tests/sample.h"

enum { MOST_OPS = 40, DEVICES = 4, STAGES = 3 };

static uint64_t drawn;

static uint32_t draw(uint32_t n)
{
    return (uint32_t)(random_next(&drawn) % n);
}

/* A random DAG with times from its FLOP, whose last op has the weights of the first; `joined`: every
 * op reads another. */
static struct model random_graph(size_t n, bool joined)
{
    struct model m = sample_chain(n, 0, 0, 0, 0);
    struct model_edge edge[2 * MOST_OPS];
    size_t edges = 0;
    model_profile_free(&m.profile[0]);
    m.profiles = 0;
    for (uint32_t i = 0; i < n; i++) {
        m.op[i].forward_flop = (2 + draw(28)) * 1e8;
        m.op[i].backward_flop = 2 * m.op[i].forward_flop;
        m.op[i].output_bytes = (1 + draw(40)) * 100000;
        m.op[i].parameter_bytes = 4000;
        for (uint32_t k = 0, before = UINT32_MAX; i > 0 && k < (joined ? 1 : 0) + draw(2); k++) {
            uint32_t from = i - 1 - draw(i < 4 ? i : 4);
            if (from != before)
                edge[edges++] = (struct model_edge){from, i};
            before = from;
        }
    }
    m.op[n - 1].shares = 0;
    m.op[n - 1].shared_bytes = m.op[0].parameter_bytes = 4000000;
    sample_rewire(&m, edge, edges);
    return m;
}

/* Every second device is half as fast. */
static struct topology unequal_devices(void)
{
    struct topology t = sample_clique(DEVICES, 2e-6, 1e9);
    t.type = realloc(t.type, 2 * sizeof *t.type);
    assert_non_null(t.type);
    t.type[1] = t.type[0];
    t.type[1].name = sample_text("slow");
    t.type[1].flops /= 2;
    t.types = 2;
    for (size_t i = 1; i < DEVICES; i += 2)
        t.type_of[i] = 1;
    return t;
}

struct cut_case {
    struct lowered l;
    struct units u;
    struct pipeline x;
};

static void begin_case(struct cut_case *c, uint64_t seed, size_t n, bool joined)
{
    size_t *begins = calloc(MOST_OPS + 1, sizeof *begins);
    assert_non_null(begins);
    drawn = random_key(seed, 1);
    *c = (struct cut_case){0};
    c->l.model = random_graph(n, joined);
    c->l.topology = unequal_devices();
    c->l.plan = sample_plan(&c->l.model, STAGES, 1, 6, "1f1b");
    partition_begins(&c->l.model, 1, false, begins);
    assert_int_equal(units_make(&c->l.plan, &c->l.model, &c->l.topology, begins, &c->u), STATUS_OK);
    assert_int_equal(c->u.n, n);
    assert_int_equal(pipeline_make(&c->l.plan, &c->u, &c->l.topology, NULL, &c->x), STATUS_OK);
    free(begins);
}

static void end_case(struct cut_case *c)
{
    pipeline_free(&c->x);
    units_free(&c->u);
    lowered_free(&c->l);
}

/* Stages that begin nowhere before what they read, none without units. */
static void assert_cut(const struct pipeline *x, const struct graph_cut *cut)
{
    size_t units[STAGES] = {0};
    for (size_t k = 0; k < x->u->n; k++) {
        assert_true(cut->stage[k] < STAGES);
        units[cut->stage[k]]++;
        for (size_t i = x->u->read_start[k]; i < x->u->read_start[k + 1]; i++)
            assert_true(cut->stage[x->u->tensor[x->u->read[i]].from] <= cut->stage[k]);
    }
    for (size_t s = 0; s < STAGES; s++)
        assert_true(units[s] > 0);
}

/* ---- moves */

static void moves_change_what_a_cut_from_the_start_has(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct cut_case c;
        struct graph_cut cut;
        size_t made = 0;
        begin_case(&c, seed, 12, true);
        assert_int_equal(graph_cut_new(&c.x, &c.x.memory, &cut), STATUS_OK);
        for (int k = 0; k < 200; k++) {
            struct graph_move m;
            double before = pipeline_seconds(&c.x, INFINITY);
            if (!graph_move_try(&c.x, draw((uint32_t)graph_moves(&c.x)), &m))
                continue;
            made++;
            assert_cut(&c.x, &c.x.cut);
            if (draw(3) == 0) {
                graph_move_undo(&c.x, &m);
                assert_near(pipeline_seconds(&c.x, INFINITY), before, 1e-9 * before);
            }
        }
        assert_true(made > 20);
        graph_cut_copy(&c.x, &c.x.cut, &cut);
        double moved = pipeline_seconds(&c.x, INFINITY);
        pipeline_set(&c.x, &cut);
        assert_near(moved, pipeline_seconds(&c.x, INFINITY), 1e-9 * moved);
        end_case(&c);
    }
}

/* ---- estimates */

static double by_engine(struct cut_case *c)
{
    struct plan other = {0}, given = c->l.plan;
    assert_int_equal(pipeline_plan(&c->x, &c->x.cut, &given, &other), STATUS_OK);
    assert_int_equal(plan_check(&other, &c->l.model, &c->l.topology), STATUS_OK);
    c->l.plan = other;
    lower(&c->l);
    struct measurement m = lowered_measure(&engine_analytic, &c->l);
    double seconds = m.iteration_s;
    measurement_free(&m);
    plan_free(&c->l.plan);
    c->l.plan = given;
    return seconds;
}

/* Messages of one pair take turns here, and share there. */
static void an_estimate_is_near_the_engine(void **state)
{
    double worst = 0, sum = 0;
    int n = 0;
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct cut_case c;
        begin_case(&c, seed, 12, true);
        for (int k = 0; k < 30; k++) {
            struct graph_move m;
            (void)!graph_move_try(&c.x, draw((uint32_t)graph_moves(&c.x)), &m);
        }
        double engine = by_engine(&c), off = fabs(pipeline_seconds(&c.x, INFINITY) / engine - 1);
        worst = fmax(worst, off);
        sum += off;
        n++;
        end_case(&c);
    }
    if (sum / n > 0.01 || worst > 0.08)
        fail_msg("%.3f on average, %.3f at worst", sum / n, worst);
}

/* ---- the search */

/* The least seconds of all cuts: units from k on into stages, those before it are in some. */
static double least_of_all(struct pipeline *x, struct graph_cut *cut, uint32_t k, double least_s)
{
    size_t units[STAGES] = {0};
    if (k < x->u->n) {
        uint32_t from = 0;
        for (size_t i = x->u->read_start[k]; i < x->u->read_start[k + 1]; i++) {
            uint32_t s = cut->stage[x->u->tensor[x->u->read[i]].from];
            from = s > from ? s : from;
        }
        for (cut->stage[k] = from; cut->stage[k] < STAGES; cut->stage[k]++)
            least_s = least_of_all(x, cut, k + 1, least_s);
        return least_s;
    }
    for (size_t i = 0; i < x->u->n; i++)
        units[cut->stage[i]]++;
    for (size_t s = 0; s < STAGES; s++)
        if (units[s] == 0)
            return least_s;
    for (uint32_t order = 0; order < DEVICES * DEVICES * DEVICES; order++) {
        uint32_t a = order % DEVICES, b = order / DEVICES % DEVICES, d = order / DEVICES / DEVICES;
        if (a == b || b == d || a == d)
            continue;
        cut->place[0] = a;
        cut->place[1] = b;
        cut->place[2] = d;
        pipeline_set(x, cut);
        least_s = fmin(least_s, pipeline_seconds(x, least_s));
    }
    return least_s;
}

static void the_search_finds_the_best_of_all_cuts(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 12; seed++) {
        struct cut_case c;
        struct graph_search found = {0};
        struct graph_cut cut;
        begin_case(&c, seed, 7, true);
        assert_int_equal(graph_cut_new(&c.x, &c.x.memory, &cut), STATUS_OK);
        graph_cut_copy(&c.x, &c.x.cut, &cut);
        assert_int_equal(graph_search_run(&c.x, seed, 4, 1e5, &found), STATUS_OK);
        assert_true(found.n > 0);
        for (size_t k = 0; k < found.n; k++) {
            assert_cut(&c.x, &found.found[k].cut);
            assert_true(k == 0 || found.found[k].seconds >= found.found[k - 1].seconds);
        }
        double least_s = least_of_all(&c.x, &cut, 0, INFINITY);
        assert_near(found.found[0].seconds, least_s, 1e-6 * least_s);
        graph_search_free(&found);
        end_case(&c);
    }
}

/* ---- proposals */

static void proposals_of_odd_graphs_are_cuts(void **state)
{
    uint32_t *order = calloc(MOST_OPS, sizeof *order), *stage = calloc(MOST_OPS, sizeof *stage);
    size_t refused = 0;
    (void)state;
    for (uint64_t seed = 0; seed < 30; seed++) {
        struct cut_case c;
        size_t n = seed < 10 ? STAGES + seed / 2 : 10 + draw(MOST_OPS - 10);
        begin_case(&c, seed, n, seed % 2 == 0);
        for (size_t k = 0; k < graph_proposers_n; k++) {
            enum status st = proposers_order(&graph_proposers[k], &c.u, STAGES, order, NULL);
            if (st == STATUS_UNSUPPORTED) {
                refused++;
                continue;
            }
            if (st != STATUS_OK)
                fail_msg("%s: %s", graph_proposers[k].name, error_message());
            assert_int_equal(proposers_cut(&c.x, order, stage), STATUS_OK);
            assert_cut(&c.x, &(struct graph_cut){stage, NULL});
        }
        end_case(&c);
    }
    assert_true(refused < 30); /* graphs in parts have no fluid communities */
    free(stage);
    free(order);
}

/* ---- an order that is cut */

enum { MOST_PLACES = 400, MOST_READS = 3 * MOST_PLACES, MOST_CUTS = 20 };

struct random_chain {
    struct chain chain;
    const double *until_s[MOST_CUTS];
    double type_s[2][MOST_PLACES + 1], latency_s[MOST_CUTS], byte_s[MOST_CUTS];
    size_t read_start[MOST_PLACES + 1];
    struct chain_read read[MOST_READS];
};

/* On devices of two speeds; what is read may come from far back. */
static void draw_chain(struct random_chain *r)
{
    uint32_t n = 1 + draw(MOST_PLACES), stages = 1 + draw(n < MOST_CUTS ? n : MOST_CUTS);
    size_t reads = 0;
    uint32_t heavy = 1u << draw(9);
    r->chain =
        (struct chain){n, stages, r->until_s, r->latency_s, r->byte_s, r->read_start, r->read};
    for (uint32_t k = 0; k < n; k++) {
        double seconds = draw(5) ? draw(100) : 0;
        r->type_s[0][k + 1] = r->type_s[0][k] + seconds;
        r->type_s[1][k + 1] = r->type_s[1][k] + (1 + draw(2)) * seconds;
        for (uint32_t i = draw(4); k > 0 && i-- > 0;)
            r->read[reads++] = (struct chain_read){k - draw(draw(3) ? 1 : k), draw(heavy)};
        r->read_start[k + 1] = reads;
    }
    for (size_t s = 0; s < stages; s++) {
        r->until_s[s] = r->type_s[draw(2)];
        r->latency_s[s] = draw(3);
        r->byte_s[s] = draw(4) / 4.0;
    }
}

/* The same dynamic program over all places, where every stage counts what enters it. */
static double chain_least(const struct chain *c, uint32_t *begin)
{
    static double best_s[MOST_CUTS][MOST_PLACES + 1];
    static uint32_t from[MOST_CUTS][MOST_PLACES + 1];
    for (size_t s = 0; s < c->stages; s++)
        for (size_t e = 0; e <= c->n; e++)
            best_s[s][e] = INFINITY;
    for (size_t s = 0; s < c->stages; s++)
        for (uint32_t b = 0; b < (s > 0 ? c->n : 1); b++) {
            double bytes = 0;
            for (uint32_t e = b; e < c->n; e++) {
                for (size_t k = c->read_start[e]; k < c->read_start[e + 1]; k++)
                    bytes += c->read[k].from <= b ? c->read[k].bytes : 0;
                double load_s = c->until_s[s][e + 1] - c->until_s[s][b] + c->latency_s[s] +
                                c->byte_s[s] * bytes;
                load_s = s > 0 ? fmax(load_s, best_s[s - 1][b]) : load_s;
                if (load_s < best_s[s][e + 1]) {
                    best_s[s][e + 1] = load_s;
                    from[s][e + 1] = b;
                }
            }
        }
    for (size_t s = c->stages, e = c->n; s-- > 0;)
        begin[s] = (uint32_t)(e = from[s][e]);
    return best_s[c->stages - 1][c->n];
}

static void an_order_is_cut_as_well_as_can_be(void **state)
{
    static struct random_chain r;
    uint32_t begin[MOST_CUTS], wanted[MOST_CUTS];
    drawn = random_key(7, 0);
    for (int k = 0; k < 300; k++) {
        double slowest_s = -1;
        draw_chain(&r);
        assert_int_equal(chain_cut(&r.chain, begin, &slowest_s), STATUS_OK);
        assert_true(slowest_s == chain_least(&r.chain, wanted));
        assert_memory_equal(begin, wanted, r.chain.stages * sizeof *begin);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves_change_what_a_cut_from_the_start_has),
        cmocka_unit_test(an_estimate_is_near_the_engine),
        cmocka_unit_test(the_search_finds_the_best_of_all_cuts),
        cmocka_unit_test(proposals_of_odd_graphs_are_cuts),
        cmocka_unit_test(an_order_is_cut_as_well_as_can_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
