/* The CPU device, driven by hand: messages between stages go through a mailbox. */
#include "exec/device.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/lower/lower.h"
#include "core/schedule/schedule.h"
#include "exec/device/cpu/stage.h"
#include "tests/cmocka.h"
#include "tests/tiny.h"

enum { STAGES = 4, MICROBATCHES = 5, NEVER = TINY_OPS };

/* Ops as the executor hands them to a device. */
#define RUN_PASS(kind_, stage_, microbatch_)                                                       \
    (&(struct program_op){.kind = (kind_), .stage = (stage_), .microbatch = (microbatch_)})
#define MESSAGE(stage_, other_, microbatch_, backward_)                                            \
    (&(struct program_op){.kind = OP_SEND,                                                         \
                          .stage = (stage_),                                                       \
                          .peer_stage = (other_),                                                  \
                          .microbatch = (microbatch_),                                             \
                          .backward = (backward_)})
#define SUM(stage_, owner_)                                                                        \
    (&(struct program_op){.kind = OP_ALLREDUCE,                                                    \
                          .purpose = (owner_) == PROGRAM_NONE ? FOR_DATA : FOR_TIES,               \
                          .stage = (stage_),                                                       \
                          .tag = (owner_)})

/* ---- a pipeline in one process */

struct pipeline {
    const struct model *model;
    struct program program;
    size_t stages;
    void *self[STAGES];
    uint32_t stage_of[TINY_OPS];
    size_t bytes[STAGES][STAGES];                /* of a message from, to; 0: none */
    void *mail[STAGES][STAGES][MICROBATCHES][2]; /* from, to, microbatch, backward */
    double loss;                                 /* of the last step */
};

/* Op i in stage stage_of[i]. */
static void open_pipeline(const struct model *m, size_t stages, const uint32_t *stage_of,
                          const char *optimizer, struct pipeline *out)
{
    *out = (struct pipeline){.model = m, .stages = stages};
    assert_true(m->n <= TINY_OPS && stages <= STAGES);
    memcpy(out->stage_of, stage_of, m->n * sizeof *stage_of);
    assert_int_equal(tiny_program(m, stages, stage_of, MICROBATCHES, optimizer, &out->program),
                     STATUS_OK);
    for (uint32_t s = 0; s < stages; s++)
        assert_int_equal(device_cpu.open(m, &out->program, s,
                                         &(struct device_options){.learning_rate = 1e-2},
                                         &out->self[s]),
                         STATUS_OK);
    for (uint32_t a = 0; a < stages; a++)
        for (uint32_t b = a + 1; b < stages; b++) {
            uint32_t *op;
            size_t n;
            assert_int_equal(crossing_ops(m, out->stage_of, a, b, &op, &n), STATUS_OK);
            for (size_t i = 0; i < n; i++)
                out->bytes[a][b] += (size_t)m->op[op[i]].output_bytes * 2;
            out->bytes[b][a] = out->bytes[a][b];
            free(op);
        }
}

static void close_pipeline(struct pipeline *p)
{
    for (size_t s = 0; s < p->stages; s++)
        device_cpu.close(p->self[s]);
    program_free(&p->program);
}

/* Deliver what `stage` needs for this step; false if something has not been sent yet. */
static bool receive(struct pipeline *p, uint32_t stage, bool backward, uint32_t m)
{
    for (int deliver = 0; deliver < 2; deliver++)
        for (uint32_t from = 0; from < p->stages; from++) {
            if (from == stage || (from > stage) != backward || !p->bytes[from][stage])
                continue;
            void **mail = &p->mail[from][stage][m][backward];
            if (!*mail)
                return false;
            if (!deliver)
                continue;
            assert_int_equal(
                device_cpu.put(p->self[stage], MESSAGE(stage, from, m, backward), *mail),
                STATUS_OK);
            free(*mail);
            *mail = NULL;
        }
    return true;
}

static void send(struct pipeline *p, uint32_t stage, bool backward, uint32_t m)
{
    for (uint32_t to = 0; to < p->stages; to++) {
        if (to == stage || (to < stage) != backward || !p->bytes[stage][to])
            continue;
        void *data = malloc(p->bytes[stage][to]);
        assert_non_null(data);
        assert_int_equal(device_cpu.get(p->self[stage], MESSAGE(stage, to, m, backward), data),
                         STATUS_OK);
        p->mail[stage][to][m][backward] = data;
    }
}

/* The array that a collective sums. */
static enum status array(void *device, const struct program_op *op, float **data, size_t *n)
{
    enum element e;
    void *array = NULL;
    enum status st = device_cpu.array(device, op, 0, &e, &array, n);
    assert_true(st != STATUS_OK || e == ELEMENT_FP32);
    *data = array;
    return st;
}

/* Sum the gradients of tied weights over the stages that hold them. */
static void sum_tied(struct pipeline *p)
{
    for (uint32_t op = 1; op < p->model->n; op++) {
        uint32_t owner = p->model->op[op].shares;
        if (owner == MODEL_NO_OP || p->stage_of[owner] == p->stage_of[op])
            continue;
        float *a, *b;
        size_t n, same;
        void *home = p->self[p->stage_of[owner]], *away = p->self[p->stage_of[op]];
        assert_int_equal(array(home, SUM(p->stage_of[owner], owner), &a, &n), STATUS_OK);
        assert_int_equal(array(away, SUM(p->stage_of[op], owner), &b, &same), STATUS_OK);
        assert_int_equal(n, same);
        assert_int_equal(n * sizeof *a, p->model->op[op].shared_bytes);
        for (size_t i = 0; i < n; i++)
            a[i] = b[i] = a[i] + b[i];
    }
}

static void train_step(struct pipeline *p, const struct schedule *schedule, uint32_t step)
{
    struct schedule_step list[STAGES][2 * MICROBATCHES];
    size_t at[STAGES] = {0}, left = p->stages * 2 * MICROBATCHES;
    for (size_t s = 0; s < p->stages; s++)
        schedule->order(&(struct schedule_place){(uint32_t)p->stages, (uint32_t)s, 1, MICROBATCHES,
                                                 (uint32_t)(p->stages - s)},
                        list[s]);
    while (left > 0) {
        size_t before = left;
        for (uint32_t s = 0; s < p->stages; s++) {
            if (at[s] == 2 * MICROBATCHES)
                continue;
            struct schedule_step now = list[s][at[s]];
            bool backward = now.kind == OP_BACKWARD;
            if (!receive(p, s, backward, now.microbatch))
                continue;
            assert_int_equal(
                device_cpu.compute(p->self[s], step, RUN_PASS(now.kind, s, now.microbatch), NULL),
                STATUS_OK);
            send(p, s, backward, now.microbatch);
            at[s]++;
            left--;
        }
        assert_true(left < before);
    }
    sum_tied(p);
    p->loss = 0;
    for (uint32_t s = 0; s < p->stages; s++) {
        assert_int_equal(
            device_cpu.compute(p->self[s], step, RUN_PASS(OP_UPDATE, s, PROGRAM_NONE), NULL),
            STATUS_OK);
        p->loss += device_cpu.take_loss(p->self[s]);
    }
}

/* What training leaves behind. */
struct outcome {
    uint8_t digest[TINY_OPS][DIGEST];
    double loss[3];
};

static struct outcome train(const struct model *m, size_t stages, const uint32_t *stage_of,
                            const char *schedule, const char *optimizer)
{
    struct pipeline p;
    const struct schedule *order;
    struct outcome o;
    memset(&o, 0, sizeof o);
    assert_int_equal(schedule_find(schedule, &order), STATUS_OK);
    open_pipeline(m, stages, stage_of, optimizer, &p);
    for (uint32_t step = 0; step < 3; step++) {
        train_step(&p, order, step);
        o.loss[step] = p.loss;
    }
    for (uint32_t i = 0; i < m->n; i++)
        assert_int_equal(device_cpu.digest(p.self[p.stage_of[i]], i, o.digest[i]), STATUS_OK);
    close_pipeline(&p);
    return o;
}

static void assert_same(const struct model *m, const struct outcome *a, const struct outcome *b)
{
    for (size_t i = 0; i < m->n; i++)
        if (memcmp(a->digest[i], b->digest[i], DIGEST) != 0)
            fail_msg("%s: parameters of %s differ", m->name, m->op[i].name);
    assert_memory_equal(a->loss, b->loss, sizeof a->loss);
}

/* Every cut in two, and cuts in three and four at a few strides, under both schedules. */
static void check_all_cuts(struct model *m, const char *optimizer)
{
    uint32_t n = (uint32_t)m->n, s[TINY_OPS];
    struct outcome whole = train(m, 1, tiny_cut(s, n, n, n), "gpipe", optimizer), o;
    for (uint32_t a = 1; a < n; a++) {
        o = train(m, 2, tiny_cut(s, a, n, n), a % 2 ? "1f1b" : "gpipe", optimizer);
        assert_same(m, &whole, &o);
    }
    for (uint32_t a = 1; a + 2 < n; a += 3) {
        uint32_t b = a + 1 + (n - a - 2) / 2;
        o = train(m, 3, tiny_cut(s, a, b, n), "1f1b", optimizer);
        assert_same(m, &whole, &o);
        o = train(m, 3, tiny_cut(s, a, b, n), "gpipe", optimizer);
        assert_same(m, &whole, &o);
        if (b == n - 1)
            continue;
        o = train(m, 4, tiny_cut(s, a, b, n - 1), "1f1b", optimizer);
        assert_same(m, &whole, &o);
    }
    model_free(m);
}

static void parameters_of_a_tied_gpt_are_the_same_bits_however_it_is_cut(void **state)
{
    struct model m;
    assert_int_equal(tiny_gpt(2, true, &m), STATUS_OK);
    check_all_cuts(&m, "adam");
}

static void parameters_of_an_untied_gpt_are_the_same_bits_however_it_is_cut(void **state)
{
    struct model m;
    assert_int_equal(tiny_gpt(1, false, &m), STATUS_OK);
    check_all_cuts(&m, "adam");
}

static void parameters_of_a_bert_are_the_same_bits_however_it_is_cut(void **state)
{
    struct model m;
    assert_int_equal(tiny_bert(&m), STATUS_OK);
    check_all_cuts(&m, "adam");
}

static void parameters_of_an_mlp_are_the_same_bits_however_it_is_cut(void **state)
{
    struct model m;
    assert_int_equal(tiny_mlp(&m), STATUS_OK);
    check_all_cuts(&m, "sgd");
}

static void borrowed_layers_are_the_same_bits_however_they_are_cut(void **state)
{
    struct model m;
    assert_int_equal(tiny_gpt(2, true, &m), STATUS_OK);
    tiny_share(&m, 17, 7);
    check_all_cuts(&m, "adam");
}

/* Three shares of one gradient, added in the order of the whole model: every cut in two, one reader
 * per stage, and a stage that reads earlier than the producer's own last reader. */
static void three_readers_add_up_in_the_same_order(void **state)
{
    struct model m;
    uint32_t s[TINY_OPS];
    assert_int_equal(tiny_fan(&m), STATUS_OK);
    struct outcome whole = train(&m, 1, tiny_cut(s, NEVER, NEVER, NEVER), "gpipe", "adam"), o;
    for (uint32_t a = 1; a < 7; a++) {
        o = train(&m, 2, tiny_cut(s, a, NEVER, NEVER), "1f1b", "adam");
        assert_same(&m, &whole, &o);
    }
    o = train(&m, 4, tiny_cut(s, 1, 2, 4), "1f1b", "adam");
    assert_same(&m, &whole, &o);
    o = train(&m, 3, (const uint32_t[]){0, 1, 0, 2, 2, 2, 2, 2}, "1f1b", "adam");
    assert_same(&m, &whole, &o);
    model_free(&m);
}

static void what_nobody_reads_is_not_trained(void **state)
{
    struct model m;
    struct pipeline p;
    const struct schedule *order;
    uint32_t s[TINY_OPS];
    uint8_t before[2][DIGEST], after[2][DIGEST];
    assert_int_equal(tiny_fan(&m), STATUS_OK);
    assert_int_equal(schedule_find("1f1b", &order), STATUS_OK);
    open_pipeline(&m, 1, tiny_cut(s, NEVER, NEVER, NEVER), "adam", &p);
    for (uint32_t i = 0; i < 2; i++) /* the last readers of op 3 and of nothing */
        assert_int_equal(device_cpu.digest(p.self[0], i ? 7 : 5, before[i]), STATUS_OK);
    train_step(&p, order, 0);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(device_cpu.digest(p.self[0], i ? 7 : 5, after[i]), STATUS_OK);
    assert_memory_not_equal(before[0], after[0], DIGEST);
    assert_memory_equal(before[1], after[1], DIGEST);
    close_pipeline(&p);
    model_free(&m);
}

static void optimizers_make_a_difference(void **state)
{
    struct model m;
    assert_int_equal(tiny_gpt(1, false, &m), STATUS_OK);
    uint32_t n = (uint32_t)m.n, s[TINY_OPS];
    struct outcome adam = train(&m, 1, tiny_cut(s, n, n, n), "gpipe", "adam");
    struct outcome sgd = train(&m, 1, tiny_cut(s, n, n, n), "gpipe", "sgd");
    static const uint8_t zeros[DIGEST];
    for (uint32_t i = 0; i < n; i++) {
        if (m.op[i].parameter_bytes == 0) {
            assert_memory_equal(adam.digest[i], zeros, DIGEST);
            continue;
        }
        assert_memory_not_equal(adam.digest[i], zeros, DIGEST);
        assert_memory_not_equal(adam.digest[i], sgd.digest[i], DIGEST);
    }
    model_free(&m);
}

static void check_falling_loss(struct model *m, double factor)
{
    struct pipeline p;
    const struct schedule *order;
    double first = 0, last = 0;
    uint32_t s[TINY_OPS];
    assert_int_equal(schedule_find("1f1b", &order), STATUS_OK);
    open_pipeline(m, 2, tiny_cut(s, (uint32_t)m->n / 2, NEVER, NEVER), "adam", &p);
    for (uint32_t step = 0; step < 20; step++) {
        train_step(&p, order, step);
        first += step < 5 ? p.loss : 0;
        last += step >= 15 ? p.loss : 0;
    }
    assert_true(last < factor * first);
    close_pipeline(&p);
    model_free(m);
}

static void loss_falls_over_twenty_steps(void **state)
{
    struct model m;
    assert_int_equal(tiny_gpt(2, true, &m), STATUS_OK);
    check_falling_loss(&m, 0.85);
    assert_int_equal(tiny_bert(&m), STATUS_OK);
    check_falling_loss(&m, 0.85);
    assert_int_equal(tiny_mlp(&m), STATUS_OK);
    check_falling_loss(&m, 0.85);
}

static void one_f_one_b_keeps_as_many_microbatches_as_stages_follow(void **state)
{
    struct model m;
    static const char *const name[] = {"1f1b", "gpipe"};
    uint32_t stage_of[TINY_OPS];
    assert_int_equal(tiny_gpt(1, true, &m), STATUS_OK);
    for (size_t k = 0; k < 2; k++) {
        struct pipeline p;
        const struct schedule *order;
        assert_int_equal(schedule_find(name[k], &order), STATUS_OK);
        open_pipeline(&m, 3, tiny_cut(stage_of, 5, 10, NEVER), "adam", &p);
        for (uint32_t s = 0; s < 3; s++) {
            const struct stage *stage = ((const struct stage_set *)p.self[s])->stage;
            int64_t opened = device_cpu.peak_bytes(p.self[s]);
            assert_int_equal(stage->stash.slots, 0);
            assert_true(opened >= 4 * (int64_t)stage->layout.parameters * 4);
        }
        for (uint32_t step = 0; step < 2; step++)
            train_step(&p, order, step);
        for (uint32_t s = 0; s < 3; s++)
            assert_int_equal(((const struct stage_set *)p.self[s])->stage->stash.slots,
                             k == 0 ? 3 - s : MICROBATCHES);
        close_pipeline(&p);
    }
    model_free(&m);
}

/* Replica r takes the microbatches r, r + 2, ...; the gradients are summed over both. */
static void replicas_take_the_step_of_one_rank(void **state)
{
    struct model m;
    struct program p;
    void *replica[3]; /* the third does everything */
    double loss[3];
    float *gradient[3];
    size_t n;
    assert_int_equal(tiny_gpt(1, true, &m), STATUS_OK);
    assert_int_equal(tiny_whole(&m, MICROBATCHES, "sgd", &p), STATUS_OK);
    for (uint32_t r = 0; r < 3; r++) {
        const struct device_options o = {.learning_rate = 1};
        assert_int_equal(device_cpu.open(&m, &p, 0, &o, &replica[r]), STATUS_OK);
        for (uint32_t k = r == 1; k < MICROBATCHES; k += r < 2 ? 2 : 1) {
            assert_int_equal(device_cpu.compute(replica[r], 0, RUN_PASS(OP_FORWARD, 0, k), NULL),
                             STATUS_OK);
            assert_int_equal(device_cpu.compute(replica[r], 0, RUN_PASS(OP_BACKWARD, 0, k), NULL),
                             STATUS_OK);
        }
        assert_int_equal(array(replica[r], SUM(0, PROGRAM_NONE), &gradient[r], &n), STATUS_OK);
        assert_int_equal((int64_t)n, model_parameters(&m));
        loss[r] = device_cpu.take_loss(replica[r]);
        assert_true(device_cpu.take_loss(replica[r]) == 0);
    }
    assert_true(fabs(loss[0] + loss[1] - loss[2]) < 1e-6 * loss[2]);
    for (size_t i = 0; i < n; i++)
        gradient[0][i] = gradient[1][i] = gradient[0][i] + gradient[1][i];
    for (size_t r = 0; r < 3; r++)
        assert_int_equal(
            device_cpu.compute(replica[r], 0, RUN_PASS(OP_UPDATE, 0, PROGRAM_NONE), NULL),
            STATUS_OK);
    const float *a = ((struct stage_set *)replica[0])->stage->state.parameter;
    const float *b = ((struct stage_set *)replica[1])->stage->state.parameter;
    const float *c = ((struct stage_set *)replica[2])->stage->state.parameter;
    assert_memory_equal(a, b, n * sizeof *a);
    for (size_t i = 0; i < n; i++)
        assert_true(fabsf(a[i] - c[i]) < 1e-6f);
    for (size_t r = 0; r < 3; r++)
        device_cpu.close(replica[r]);
    program_free(&p);
    model_free(&m);
}

/* ---- calls out of turn */

static void refuses_calls_out_of_turn(void **state)
{
    struct model m;
    struct pipeline p;
    uint32_t s[TINY_OPS];
    assert_int_equal(tiny_gpt(1, false, &m), STATUS_OK);
    open_pipeline(&m, 2, tiny_cut(s, 7, NEVER, NEVER), "adam", &p);
    void *a = p.self[0], *b = p.self[1], *data = calloc(1, p.bytes[0][1]);
    float *gradient;
    size_t n;
    uint8_t digest[DIGEST];
    assert_non_null(data);
    assert_int_equal(device_cpu.compute(a, 0, RUN_PASS(OP_BACKWARD, 0, 0), NULL), STATUS_INVALID);
    assert_int_equal(device_cpu.compute(b, 0, RUN_PASS(OP_FORWARD, 1, 0), NULL), STATUS_INVALID);
    assert_int_equal(device_cpu.compute(a, 0, RUN_PASS(OP_FORWARD, 0, MICROBATCHES), NULL),
                     STATUS_INVALID);
    assert_int_equal(device_cpu.get(a, MESSAGE(0, 1, 0, false), data), STATUS_INVALID);
    assert_int_equal(device_cpu.compute(a, 0, RUN_PASS(OP_FORWARD, 0, 0), NULL), STATUS_OK);
    assert_int_equal(device_cpu.compute(a, 0, RUN_PASS(OP_FORWARD, 0, 0), NULL), STATUS_INVALID);
    assert_message(error_message(), "microbatch 0");
    assert_int_equal(device_cpu.get(a, MESSAGE(0, 0, 0, false), data), STATUS_INVALID);
    assert_int_equal(device_cpu.get(a, MESSAGE(0, 1, 0, true), data), STATUS_INVALID);
    assert_int_equal(device_cpu.compute(a, 0, RUN_PASS(OP_BACKWARD, 0, 0), NULL), STATUS_INVALID);
    assert_int_equal(device_cpu.put(b, MESSAGE(1, 0, 0, true), data), STATUS_INVALID);
    assert_int_equal(device_cpu.put(b, MESSAGE(1, 0, 0, false), data), STATUS_OK);
    assert_int_equal(array(a, SUM(0, 0), &gradient, &n), STATUS_INVALID);
    assert_int_equal(device_cpu.digest(a, (uint32_t)m.n - 1, digest), STATUS_INVALID);
    free(data);
    close_pipeline(&p);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_of_a_tied_gpt_are_the_same_bits_however_it_is_cut),
        cmocka_unit_test(parameters_of_an_untied_gpt_are_the_same_bits_however_it_is_cut),
        cmocka_unit_test(parameters_of_a_bert_are_the_same_bits_however_it_is_cut),
        cmocka_unit_test(parameters_of_an_mlp_are_the_same_bits_however_it_is_cut),
        cmocka_unit_test(borrowed_layers_are_the_same_bits_however_they_are_cut),
        cmocka_unit_test(three_readers_add_up_in_the_same_order),
        cmocka_unit_test(what_nobody_reads_is_not_trained),
        cmocka_unit_test(optimizers_make_a_difference),
        cmocka_unit_test(loss_falls_over_twenty_steps),
        cmocka_unit_test(one_f_one_b_keeps_as_many_microbatches_as_stages_follow),
        cmocka_unit_test(replicas_take_the_step_of_one_rank),
        cmocka_unit_test(refuses_calls_out_of_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
