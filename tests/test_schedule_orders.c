/* Orders of schedules against the published ones, which are replayed here in their own words:
 * slowly, with a queue and a list of actions; and the times that these replays take against the
 * engine's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/measurement.h"
#include "core/data/program.h"
#include "core/engine/engine.h"
#include "core/lower/lower.h"
#include "core/schedule/schedule.h"
#include "tests/cmocka.h"
#include "tests/sample.h"

enum { MOST = 4096, RANKS = 8, MICROBATCHES = 40 };

/* An action: 'F', 'B', 'I' (Bi) or 'W' of a chunk's microbatch; with: begins with the next one. */
struct action {
    char what;
    uint32_t chunk, microbatch;
    bool with;
};

struct actions {
    size_t n;
    struct action a[MOST];
    uint32_t f[8], b[8], w[8]; /* next of each chunk */
    struct action queue[MOST]; /* weight gradients that wait, first in, first out */
    size_t head, tail;
};

static void forward(struct actions *l, uint32_t chunk)
{
    l->a[l->n++] = (struct action){'F', chunk, l->f[chunk]++, false};
}

static void whole(struct actions *l, uint32_t chunk)
{
    l->a[l->n++] = (struct action){'B', chunk, l->b[chunk]++, false};
}

static void input(struct actions *l, uint32_t chunk)
{
    l->queue[l->tail++] = (struct action){'W', chunk, l->b[chunk], false};
    l->a[l->n++] = (struct action){'I', chunk, l->b[chunk]++, false};
}

static void weight_of_queue(struct actions *l)
{
    assert_true(l->head < l->tail);
    l->a[l->n++] = l->queue[l->head++];
}

static void weight(struct actions *l, uint32_t chunk)
{
    l->a[l->n++] = (struct action){'W', chunk, l->w[chunk]++, false};
}

static void together(struct actions *l, uint32_t chunk)
{
    forward(l, chunk);
    l->a[l->n - 1].with = true;
    whole(l, 1 - chunk);
}

/* What was built for more microbatches than there are, without those. */
static void delete_from(struct actions *l, uint32_t m)
{
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++) {
        bool alone = l->a[i].with && l->a[i + 1].microbatch >= m;
        if (l->a[i].microbatch < m) {
            l->a[n] = l->a[i];
            l->a[n].with = l->a[n].with && !alone;
            n++;
        }
    }
    l->n = n;
}

/* torch.distributed.pipelining, ScheduleZBVZeroBubble. */
static void zb_v(struct actions *l, uint32_t p, uint32_t r, uint32_t m)
{
    uint32_t n = 2 * p - 1 > m ? 2 * p - 1 : m;
    for (uint32_t i = 0; i < 2 * (p - r) - 1; i++)
        forward(l, 0);
    for (uint32_t i = 0; i < r; i++) {
        forward(l, 1);
        forward(l, 0);
    }
    for (uint32_t i = 0; i < p - r; i++) {
        forward(l, 1);
        input(l, 1);
        weight(l, 1);
    }
    while (l->f[1] < l->f[0] || l->f[0] < n) {
        if (l->f[0] < n)
            forward(l, 0);
        input(l, 0);
        weight(l, 0);
        forward(l, 1);
        input(l, 1);
        weight(l, 1);
    }
    for (uint32_t i = 0; i < r; i++) {
        input(l, 0);
        input(l, 1);
    }
    for (uint32_t i = 0; i < p - r; i++) {
        input(l, 0);
        weight(l, 0);
    }
    while (l->w[1] < l->b[1])
        weight(l, 1);
    while (l->w[0] < l->b[0])
        weight(l, 0);
    delete_from(l, m);
}

static void back(struct actions *l, uint32_t chunk, bool enable_zb)
{
    if (enable_zb)
        input(l, chunk);
    else
        whole(l, chunk);
}

/* deepseek-ai/DualPipe, dualpipe/dualpipev.py; with half_rank, num_half_ranks and half_num_chunks
 * dualpipe/dualpipe.py. */
static void dualpipe_v(struct actions *l, uint32_t p, uint32_t r, uint32_t m)
{
    uint32_t n = 2 * p > m ? 2 * p : m;
    for (uint32_t i = 0; i < (p - r - 1) * 2; i++)
        forward(l, 0);
    for (uint32_t i = 0; i < r + 1; i++) {
        forward(l, 0);
        forward(l, 1);
    }
    for (uint32_t i = 0; i < p - r - 1; i++) {
        input(l, 1);
        weight_of_queue(l);
        forward(l, 1);
    }
    for (uint32_t i = 0; i < n - p * 2 + r + 1; i++) {
        if (i == 0 && r == p - 1) {
            forward(l, 0);
            whole(l, 1);
        } else {
            together(l, 0);
        }
        together(l, 1);
    }
    for (uint32_t i = 0; i < p - r - 1; i++) {
        whole(l, 1);
        together(l, 1);
    }
    bool enable_zb = false;
    uint32_t step_6 = r + 1;
    for (uint32_t i = 0; i < step_6; i++) {
        if (i == step_6 / 2 && r % 2 == 1)
            enable_zb = true;
        back(l, 1, enable_zb);
        if (i == step_6 / 2 && r % 2 == 0)
            enable_zb = true;
        back(l, 0, enable_zb);
    }
    for (uint32_t i = 0; i < p - r - 1; i++) {
        weight_of_queue(l);
        input(l, 0);
    }
    for (uint32_t i = 0; i < r + 1; i++)
        weight_of_queue(l);
    assert_int_equal(l->head, l->tail);
    delete_from(l, m);
}

/* Megatron-LM, megatron/core/pipeline_parallel/schedules.py: get_schedule_table() and
 * get_pp_rank_microbatches(); microbatch groups of as many as there are ranks, of which M is a
 * multiple. */
static void interleaved(struct actions *l, uint32_t p, uint32_t r, uint32_t m, uint32_t chunks)
{
    struct action table[MOST];
    uint32_t n = 0, total = m * chunks, warmup = (p - r - 1) * 2 + (chunks - 1) * p;
    for (uint32_t group = 0; group < m; group += p)
        for (uint32_t c = 0; c < chunks; c++)
            for (uint32_t i = group; i < group + p; i++)
                table[n++] = (struct action){'F', c, i, false};
    warmup = warmup < total ? warmup : total;
    for (uint32_t k = 0; k < total + warmup; k++) {
        if (k < total)
            l->a[l->n++] = table[k];
        if (k >= warmup)
            l->a[l->n++] = (struct action){'B', chunks - 1 - table[k - warmup].chunk,
                                           table[k - warmup].microbatch, false};
    }
}

/* ---- the same steps */

static void expect(const char *name, const struct schedule_place *at, const struct actions *l)
{
    const struct schedule *s;
    static const char of[] = {
        [OP_FORWARD] = 'F',
        [OP_BACKWARD] = 'B',
        [OP_BACKWARD_INPUT] = 'I',
        [OP_BACKWARD_WEIGHT] = 'W',
    };
    assert_int_equal(schedule_find(name, &s), STATUS_OK);
    struct schedule_step *step = calloc(schedule_steps(s, at), sizeof *step);
    assert_non_null(step);
    size_t n = s->order(at, step);
    assert_int_equal(n, l->n);
    for (size_t i = 0; i < n; i++)
        if (of[step[i].kind] != l->a[i].what || step[i].chunk != l->a[i].chunk ||
            step[i].microbatch != l->a[i].microbatch || step[i].paired != l->a[i].with)
            fail_msg("%s P=%u r=%u M=%u, step %zu: %c%u of chunk %u, published %c%u of %u", name,
                     at->teams, at->team, at->microbatches, i, of[step[i].kind], step[i].microbatch,
                     step[i].chunk, l->a[i].what, l->a[i].microbatch, l->a[i].chunk);
    free(step);
}

static void orders_are_the_published_ones(void **state)
{
    struct actions *l = malloc(sizeof *l);
    assert_non_null(l);
    for (uint32_t p = 1; p <= RANKS; p++)
        for (uint32_t r = 0; r < p; r++)
            for (uint32_t m = 1; m <= MICROBATCHES; m++) {
                struct schedule_place at = {p, r, 2, m, 1};
                memset(l, 0, sizeof *l);
                zb_v(l, p, r, m);
                expect("zb-v", &at, l);
                memset(l, 0, sizeof *l);
                dualpipe_v(l, p, r, m);
                expect("dualpipe-v", &at, l);
                expect("dualpipe", &at, l);
                for (at.chunks = 2; at.chunks <= 4 && m % p == 0; at.chunks++) {
                    memset(l, 0, sizeof *l);
                    interleaved(l, p, r, m, at.chunks);
                    expect("interleaved", &at, l);
                }
            }
    free(l);
}

/* ---- the same times */

/* Seconds of a pass of half a stage, of messages nothing. */
struct costs {
    double f, i, w;
};

struct replayed {
    struct actions list[RANKS];
    size_t at[RANKS];
    double free_s[RANKS],
        done[2][2 * RANKS][MICROBATCHES]; /* forward, backward by stage; < 0: not yet */
};

static uint32_t stage_of(uint32_t p, uint32_t r, uint32_t chunk)
{
    return chunk == 0 ? r : 2 * p - 1 - r;
}

/* When the inputs of an action are there; infinite: not yet known. */
static double ready_s(const struct replayed *x, uint32_t p, uint32_t r, const struct action *a)
{
    uint32_t s = stage_of(p, r, a->chunk), last = 2 * p - 1;
    double own = x->done[0][s][a->microbatch];
    if (a->what == 'W')
        return 0;
    if (a->what == 'F')
        return s == 0 ? 0 : x->done[0][s - 1][a->microbatch];
    return s == last ? own : x->done[1][s + 1][a->microbatch];
}

/* One action of a rank, or a pair, which begins and ends together. */
static bool act(struct replayed *x, uint32_t p, uint32_t r, const struct costs *c)
{
    const struct actions *l = &x->list[r];
    if (x->at[r] == l->n)
        return false;
    const struct action *a = &l->a[x->at[r]];
    double start = x->free_s[r], takes = 0;
    for (size_t k = 0; k <= a->with; k++) {
        start = fmax(start, ready_s(x, p, r, &a[k]));
        takes += a[k].what == 'F'   ? c->f
                 : a[k].what == 'W' ? c->w
                 : a[k].what == 'I' ? c->i
                                    : c->i + c->w;
    }
    if (isinf(start))
        return false;
    for (size_t k = 0; k <= a->with; k++)
        if (a[k].what != 'W')
            x->done[a[k].what != 'F'][stage_of(p, r, a[k].chunk)][a[k].microbatch] = start + takes;
    x->free_s[r] = start + takes;
    x->at[r] += 1 + a->with;
    return true;
}

static double replay(bool zb, uint32_t p, uint32_t m, const struct costs *c)
{
    struct replayed *x = calloc(1, sizeof *x);
    double end = 0;
    assert_non_null(x);
    for (uint32_t r = 0; r < p; r++)
        zb ? zb_v(&x->list[r], p, r, m) : dualpipe_v(&x->list[r], p, r, m);
    for (size_t k = 0; k < 2; k++)
        for (uint32_t s = 0; s < 2 * p; s++)
            for (uint32_t i = 0; i < m; i++)
                x->done[k][s][i] = INFINITY;
    for (bool any = true; any;) {
        any = false;
        for (uint32_t r = 0; r < p; r++)
            while (act(x, p, r, c))
                any = true;
    }
    for (uint32_t r = 0; r < p; r++) {
        assert_int_equal(x->at[r], x->list[r].n);
        end = fmax(end, x->free_s[r]);
    }
    free(x);
    return end;
}

static double simulated(const char *name, uint32_t p, uint32_t m, const struct costs *c)
{
    struct model model = sample_chain(2 * p, c->f, c->i + c->w, 0, 0);
    struct topology t = sample_clique(2 * p, 0, 1e9);
    bool both = !strcmp(name, "dualpipe"), settled;
    struct plan plan = sample_plan(&model, 2 * p, 1 + both, m * (1 + both), name);
    struct program program;
    struct simulation s = {0};
    for (uint32_t k = 0; k < 2 * p; k++)
        for (uint32_t r = 0; r <= both; r++)
            plan.stage[k].device[r] = 2 * (k < p ? k : 2 * p - 1 - k) + r;
    if (plan_lower(&plan, &model, &t, &program) != STATUS_OK)
        fail_msg("%s: %s", name, error_message());
    for (size_t i = 0; i < program.ops; i++)
        if (program.op[i].kind == OP_BACKWARD_INPUT || program.op[i].kind == OP_BACKWARD_WEIGHT)
            program.op[i].seconds = program.op[i].kind == OP_BACKWARD_INPUT ? c->i : c->w;
    assert_int_equal(engine_analytic.run(&program, &t, NULL, NULL, &s), STATUS_OK);
    double end = timeline_iteration(&program, &s.timeline, &settled);
    simulation_free(&s);
    program_free(&program);
    plan_free(&plan);
    topology_free(&t);
    model_free(&model);
    return end;
}

static double drawn(void)
{
    return 1e-3 * (1 + rand() % 1000) / 500;
}

/* Any three times of forward and halves: the engine on the program as the replay of the published
 * actions, in which a pair begins and ends together. */
static void times_are_those_of_the_published_actions(void **state)
{
    srand(15);
    for (int k = 0; k < 300; k++) {
        struct costs c = {drawn(), drawn(), drawn()};
        uint32_t p = 1 + (uint32_t)(rand() % RANKS), m = 1 + (uint32_t)(rand() % MICROBATCHES);
        double zb = replay(true, p, m, &c), dual = replay(false, p, m, &c);
        assert_near(simulated("zb-v", p, m, &c), zb, 1e-9 * zb);
        assert_near(simulated("dualpipe-v", p, m, &c), dual, 1e-9 * dual);
        if (m > 1)
            assert_near(simulated("dualpipe", p, m, &c), dual, 1e-9 * dual);
    }
}

/* ---- pairs */

/* The pair at compute op `i` of a rank: its collectives begin with it, it takes as long as the
 * compute or the collectives of both, and what it sends leaves at its end. Returns its second
 * compute op. */
static size_t check_pair(const struct program *p, const struct timeline *t, size_t i)
{
    size_t end = i + 1, k = i, pass[2] = {i, i};
    double compute_s = 0, calls_s = 0, ends_s = 0;
    while (p->op[end].kind != OP_BACKWARD)
        end++;
    pass[1] = end;
    for (end++; op_is_collective(&p->op[end]) && p->op[end].microbatch != PROGRAM_NONE; end++)
        ;
    for (; k < end; k++) {
        double takes_s = t->end_s[k] - t->start_s[k];
        if (op_is_message(&p->op[k]))
            continue;
        compute_s += op_computes(&p->op[k]) ? takes_s : 0;
        calls_s += op_computes(&p->op[k]) ? 0 : takes_s;
        ends_s = fmax(ends_s, t->end_s[k]);
    }
    assert_true(calls_s > 0);
    assert_near(t->start_s[i + 1], t->start_s[i], 1e-12);
    assert_near(ends_s - t->start_s[i], fmax(compute_s, calls_s), 1e-9 * ends_s);
    for (size_t n = 0; n < 2; n++)
        for (k = end; k < p->ops && p->op[k].kind == OP_SEND; k++)
            assert_true(t->start_s[k] >= ends_s - 1e-12);
    return pass[1];
}

/* Experts over two replicas, and two shards: all-to-alls and sums of either pass under the compute
 * of both. Others follow their pass. */
static void a_pair_hides_the_collectives_of_the_one_under_the_compute_of_the_other(void **state)
{
    srand(16);
    const char *const name[] = {"dualpipe-v", "dualpipe", "zb-v"};
    for (int k = 0; k < 60; k++) {
        uint32_t p = 2 + (uint32_t)(rand() % 3), m = 2 * p + 2 * (uint32_t)(rand() % 4);
        struct model model = sample_chain(2 * p, drawn(), drawn(), 0, 1000);
        struct topology t = sample_clique(2 * p, 1e-6, 1e9);
        struct plan plan = sample_plan(&model, 2 * p, 2, 2 * m, name[k % 3]);
        struct program program;
        struct simulation s = {0};
        size_t pairs = 0;
        for (uint32_t i = 0; i < 2 * p; i++) {
            model.op[i].exchange_bytes = 1 + rand() % 2000000;
            plan.stage[i].expert_parallel = 2;
            for (uint32_t r = 0; r < 2; r++)
                plan.stage[i].device[r] = 2 * (i < p ? i : 2 * p - 1 - i) + r;
        }
        if (plan_lower(&plan, &model, &t, &program) != STATUS_OK)
            fail_msg("%s: %s", name[k % 3], error_message());
        assert_int_equal(engine_analytic.run(&program, &t, NULL, NULL, &s), STATUS_OK);
        for (size_t i = 0; i + 1 < program.ops; i++)
            if (program.op[i].kind == OP_FORWARD && op_is_collective(&program.op[i + 1]) &&
                program.dep[program.op[i + 1].dep_start] != i) {
                i = check_pair(&program, &s.timeline, i);
                pairs++;
            }
        /* of every rank M - 2 P + r + 1 twice, but for the last rank's first, and P - r - 1 */
        size_t wanted = 0;
        for (uint32_t r = 0; r < p; r++)
            wanted += 2 * (2 * (m - 2 * p + r + 1) + p - r - 1);
        assert_int_equal(pairs, k % 3 == 2 ? 0 : wanted - 2);
        simulation_free(&s);
        program_free(&program);
        plan_free(&plan);
        topology_free(&t);
        model_free(&model);
    }
}

/* Iteration of the schedule over p sets of two replicas, in a V, with experts over pairs. */
static double takes_s(const char *name, struct model *model, uint32_t p, uint32_t microbatches,
                      uint32_t zero)
{
    struct topology t = sample_clique(2 * p, 1e-6, 1e9);
    struct plan plan = sample_plan(model, 2 * p, 2, microbatches, name);
    struct program program;
    struct simulation s = {0};
    plan.zero = zero;
    for (uint32_t i = 0; i < 2 * p; i++) {
        plan.stage[i].expert_parallel = 2;
        for (uint32_t r = 0; r < 2; r++)
            plan.stage[i].device[r] = 2 * (i < p ? i : 2 * p - 1 - i) + r;
    }
    if (plan_lower(&plan, model, &t, &program) != STATUS_OK)
        fail_msg("%s: %s", name, error_message());
    assert_int_equal(engine_analytic.run(&program, &t, NULL, NULL, &s), STATUS_OK);
    double iteration_s = 0;
    for (size_t i = 0; i < program.ops; i++)
        iteration_s = fmax(iteration_s, s.timeline.end_s[i]);
    simulation_free(&s);
    program_free(&program);
    plan_free(&plan);
    topology_free(&t);
    return iteration_s;
}

/* Why `auto` leaves DualPipe out (partition/auto_filters.c). */
static void dualpipe_is_never_faster_than_dualpipe_v(void **state)
{
    srand(17);
    int slower = 0;
    for (int k = 0; k < 100; k++) {
        uint32_t p = 1 + (uint32_t)(rand() % 4), m = 2 * (2 * p + 2 * (uint32_t)(rand() % 4));
        uint32_t zero = (uint32_t)(rand() % 3);
        struct model model = sample_chain(2 * p, drawn(), drawn(), 1000, 1000000);
        for (uint32_t i = 0; i < 2 * p; i++)
            model.op[i].exchange_bytes = 1 + rand() % 2000000;
        double both_s = takes_s("dualpipe", &model, p, m, zero),
               one_s = takes_s("dualpipe-v", &model, p, m, zero);
        assert_true(both_s >= one_s * (1 - 1e-9));
        slower += both_s > one_s * (1 + 1e-9);
        model_free(&model);
    }
    assert_true(slower > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_are_the_published_ones),
        cmocka_unit_test(a_pair_hides_the_collectives_of_the_one_under_the_compute_of_the_other),
        cmocka_unit_test(dualpipe_is_never_faster_than_dualpipe_v),
        cmocka_unit_test(times_are_those_of_the_published_actions),
    };
    return cmocka_run_group_tests_name("schedule_orders", tests, NULL, NULL);
}
