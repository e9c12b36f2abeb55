/* Updates without flush over stages of different replicas: what a run trains is what one process
 * does that goes through the microbatches in order and takes the versions of the weights that
 * weight stashing says: for microbatch m of a stage with r replicas and warm-up w those after
 * max(0, m div r - w) updates. (Narayanan et al., PipeDream, SOSP 2019, section 3.3; warm-up as its
 * runtime has it.) Macrobatches: an update is by the mean of w + 1 microbatches of each replica, or
 * of those that are left, and there is one where else there were w + 1. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/lower/lower.h"
#include "exec/device/cpu/stage.h"
#include "model/zoo.h"
#include "tests/cmocka.h"
#include "tests/sample.h"
#include "tests/trained.h"

enum { STAGES = 3, TRAINED = 2 };
static const double rate = 0.1;

/* ---- one process */

struct reference {
    size_t stages;
    uint32_t replicas[STAGES], warmup[STAGES], microbatches;
    /* Microbatches that make an update: of a replica, and so far. */
    uint32_t every[STAGES], since[STAGES];
    struct stage stage[STAGES]; /* of one replica each */
    size_t updates[STAGES];
    float *version[STAGES]; /* [microbatches + 1][parameters] of this step */
    float *sum;             /* gradients of microbatches that make an update together */
    double loss[TRAINED];
};

static float *version_of(const struct reference *r, size_t s, size_t v)
{
    return r->version[s] + v * r->stage[s].layout.parameters;
}

/* What stage s has made of the microbatch goes to the others. */
static void hand_on(struct reference *r, size_t s, uint32_t m, bool backward)
{
    const struct stage_layout *l = &r->stage[s].layout;
    const struct stage_link *link = backward ? l->producer : l->consumer;
    size_t n = backward ? l->producers : l->consumers;
    for (size_t i = 0; i < n; i++) {
        float *data = malloc(link[i].size * sizeof *data);
        assert_non_null(data);
        assert_int_equal(stage_get(&r->stage[s], link[i].stage, m, backward, data), STATUS_OK);
        assert_int_equal(stage_put(&r->stage[link[i].stage], (uint32_t)s, m, backward, data),
                         STATUS_OK);
        free(data);
    }
}

static void take_version(struct reference *r, size_t s, uint32_t m)
{
    uint32_t own = m / r->replicas[s];
    size_t v = own > r->warmup[s] ? (own - r->warmup[s]) / r->every[s] : 0;
    struct stage *stage = &r->stage[s];
    assert_true(v <= r->updates[s]);
    memcpy(stage->state.parameter, version_of(r, s, v), stage->layout.parameters * sizeof(float));
}

/* After a microbatch of each replica: the mean gradient of them, from gradients of which each is
 * 1 / microbatches of its own; the rate is the stage's part of the first one's. */
static void update(struct reference *r, size_t s)
{
    const struct stage *stage = &r->stage[s];
    const float *old = version_of(r, s, r->updates[s]);
    float *new = version_of(r, s, ++r->updates[s]);
    double by = rate * r->replicas[s] / r->replicas[0] * r->microbatches / r->since[s];
    r->since[s] = 0;
    for (size_t i = 0; i < stage->layout.parameters; i++) {
        new[i] = (float)(old[i] - by * stage->state.gradient[i]);
        stage->state.gradient[i] = 0;
    }
}

static double step_of(struct reference *r, uint32_t step)
{
    for (size_t s = 0; s < r->stages; s++) {
        memcpy(version_of(r, s, 0), version_of(r, s, r->updates[s]),
               r->stage[s].layout.parameters * sizeof(float));
        r->updates[s] = 0;
    }
    for (uint32_t m = 0; m < r->microbatches; m++) {
        for (size_t s = 0; s < r->stages; s++) {
            take_version(r, s, m);
            assert_int_equal(stage_forward(&r->stage[s], step, m, 0), STATUS_OK);
            hand_on(r, s, m, false);
        }
        for (size_t s = r->stages; s-- > 0;) {
            assert_int_equal(stage_backward(&r->stage[s], m, 0), STATUS_OK);
            hand_on(r, s, m, true);
            r->since[s]++;
            if ((m + 1) % (r->replicas[s] * r->every[s]) == 0 || m + 1 == r->microbatches)
                update(r, s);
        }
    }
    double loss = r->stage[r->stages - 1].pass.loss;
    r->stage[r->stages - 1].pass.loss = 0;
    return loss;
}

/* PipeDream's formula, by the definition. */
static uint32_t warmup_of(const uint32_t *replicas, size_t stages, size_t s)
{
    uint32_t ahead = 0;
    for (size_t k = s; k < stages; k++)
        ahead += replicas[k];
    return (ahead - 1) / replicas[s];
}

static void open_reference(struct reference *r, const struct model *m, const struct program *p)
{
    for (size_t s = 0; s < r->stages; s++) {
        struct stage *stage = &r->stage[s];
        r->warmup[s] = warmup_of(r->replicas, r->stages, s);
        r->every[s] = r->every[s] > 0 ? r->warmup[s] + 1 : 1;
        assert_int_equal(stage_open(m, p, (uint32_t)s, NULL, rate, stage), STATUS_OK);
        size_t n = stage->layout.parameters;
        assert_int_equal(ARRAY_NEW(r->version[s], (r->microbatches + 1) * n), STATUS_OK);
        memcpy(r->version[s], stage->state.parameter, n * sizeof(float));
    }
}

/* Largest difference of any parameter. */
static double apart(struct reference *r, const struct trained *t)
{
    double worst = 0;
    for (size_t s = 0; s < r->stages; s++) {
        struct stage *stage = &r->stage[s];
        memcpy(stage->state.parameter, version_of(r, s, r->updates[s]),
               stage->layout.parameters * sizeof(float));
        for (size_t k = 0; k < stage->layout.n; k++)
            for (size_t i = 0; i < stage->layout.op[k].layer.parameters; i++) {
                double of = (double)t->parameter[stage->layout.op[k].index][i];
                worst = fmax(worst, fabs(of - (double)stage_parameters(stage, k)[i]));
            }
    }
    return worst;
}

static void close_reference(struct reference *r)
{
    for (size_t s = 0; s < r->stages; s++) {
        stage_close(&r->stage[s]);
        free(r->version[s]);
    }
}

/* ---- runs */

/* Every microbatch is on one replica of each stage, number m mod replicas, in ascending order. */
static void assert_routed(const struct program *p, const uint32_t *replicas, uint32_t microbatches)
{
    uint32_t seen[STAGES] = {0};
    for (uint32_t r = 0; r < p->ranks; r++) {
        uint32_t stage = p->rank[r].stage, next = p->rank[r].replica;
        for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++) {
            if (p->op[i].kind != OP_FORWARD)
                continue;
            assert_int_equal(p->op[i].microbatch, next);
            next += replicas[stage];
            seen[stage]++;
        }
    }
    for (size_t s = 0; s < p->stages; s++)
        assert_int_equal(seen[s], microbatches);
}

/* A run over these replicas and one process: *losses and the return value are how far they are
 * apart. */
static double compared(const struct model *m, const char *schedule, const uint32_t *replicas,
                       size_t stages, uint32_t microbatches, uint32_t later, double *losses)
{
    const uint32_t ones[STAGES] = {1, 1, 1};
    size_t first[STAGES] = {0};
    for (size_t s = 1; s < stages; s++)
        first[s] = m->n * s / stages;
    struct partition_uneven many = {replicas, first}, one = {ones, first};
    struct partition_request how = {.stages = stages,
                                    .replicas = 1,
                                    .uneven = &many,
                                    .schedule = schedule,
                                    .optimizer = "sgd",
                                    .microbatches = microbatches};
    struct trained t, alone;
    bool macro = strcmp(schedule, "macrobatch") == 0;
    struct reference r = {
        .stages = stages, .microbatches = microbatches, .every = {macro, macro, macro}};
    memcpy(r.replicas, replicas, stages * sizeof *replicas);
    train_at(rate, m, "uneven", &how, TRAINED, &t);
    assert_routed(&t.mesh.program, replicas, microbatches);
    assert_true(!macro || t.versions <= 2);
    how.uneven = &one;
    how.schedule = "1f1b";
    train_at(rate, m, "one", &how, 1, &alone); /* for its program */
    open_reference(&r, m, &alone.mesh.program);
    r.warmup[0] += later;
    *losses = 0;
    for (uint32_t k = 0; k < TRAINED; k++)
        *losses = fmax(*losses, fabs(step_of(&r, k) - t.loss[k]));
    double parameters = apart(&r, &t);
    close_reference(&r);
    trained_free(&alone);
    trained_free(&t);
    return parameters;
}

static void check_schedule(const char *schedule, uint32_t more)
{
    static const struct {
        size_t stages;
        uint32_t replicas[STAGES], microbatches;
    } all[] = {{2, {4, 2}, 24}, {2, {2, 4}, 24},    {2, {3, 1}, 24}, {2, {1, 3}, 24},
               {2, {2, 2}, 12}, {3, {4, 2, 2}, 12}, {2, {1, 1}, 12}, {3, {1, 1, 1}, 12}};
    struct model m = {0};
    assert_int_equal(zoo_build("gpt-tiny:layers=2,hidden=32,tokens=16", &m), STATUS_OK);
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        double losses, stale;
        uint32_t n = all[k].microbatches + more;
        double parameters = compared(&m, schedule, all[k].replicas, all[k].stages, n, 0, &losses);
        double other = compared(&m, schedule, all[k].replicas, all[k].stages, n, 1, &stale);
        print_message("%s, %u, %u, %u replicas: losses %.2g apart, parameters %.2g; one version "
                      "older %.2g, %.2g\n",
                      schedule, all[k].replicas[0], all[k].replicas[1], all[k].replicas[2], losses,
                      parameters, stale, other);
        assert_true(losses < 1e-5 && parameters < 1e-5);
        assert_true(other > 100 * parameters); /* the versions matter */
    }
    model_free(&m);
}

static void uneven_replicas_train_as_one_process_with_stashed_weights(void **state)
{
    check_schedule("pipedream", 0);
}

static void macrobatches_train_as_one_process_with_two_versions(void **state)
{
    check_schedule("macrobatch", 12); /* 36 are no multiple of 4 x 2 */
}

/* ---- versions */

enum { COMPARED = 3, COMPARED_OF = 6 };

/* Gradients of the first microbatches of a stage that has `depth` of them between forward and
 * backward, gradient[COMPARED], each of *n numbers. Every sample of the corpus is the same. */
static void first_gradients(const struct model *m, uint32_t depth, float **gradient, size_t *n)
{
    static const uint8_t text[64] = {0};
    const struct corpus same = {text, sizeof text};
    struct topology t = sample_clique(1, 1e-6, 1e9);
    struct partition_request how = request_of("pipedream");
    const struct partition_algorithm *balanced;
    struct plan plan = {0};
    struct program p = {0};
    struct stage s = {0};
    size_t seen = 0;
    how.model = "m";
    how.platform = "p";
    how.optimizer = "sgd";
    how.microbatches = COMPARED_OF;
    how.microbatch_size = 1;
    assert_int_equal(partition_find("balanced", &balanced), STATUS_OK);
    assert_int_equal(partition_run(balanced, m, &t, &how, &plan), STATUS_OK);
    plan.stage[0].depth = depth;
    assert_int_equal(plan_lower(&plan, m, &t, &p), STATUS_OK);
    assert_int_equal(stage_open(m, &p, 0, &same, rate, &s), STATUS_OK);
    *n = s.layout.parameters;
    for (size_t i = 0; i < p.ops; i++) {
        const struct program_op *o = &p.op[i];
        if (o->kind == OP_FORWARD)
            assert_int_equal(stage_forward(&s, 0, o->microbatch, 0), STATUS_OK);
        else if (o->kind == OP_BACKWARD)
            assert_int_equal(stage_backward(&s, o->microbatch, 0), STATUS_OK);
        if (o->kind == OP_BACKWARD && seen < COMPARED) {
            assert_int_equal(o->microbatch, seen);
            assert_int_equal(ARRAY_COPY(gradient[seen++], s.state.gradient, *n), STATUS_OK);
        }
        if (o->kind == OP_UPDATE)
            assert_int_equal(stage_update(&s), STATUS_OK);
    }
    assert_int_equal(s.state.updates, COMPARED_OF);
    assert_in_range(s.state.versions, depth > 1 ? depth : 1, depth + 1);
    stage_close(&s);
    program_free(&p);
    plan_free(&plan);
    topology_free(&t);
}

/* With v versions the first v gradients of one input are those of the first weights, and no
 * others. */
static void gradients_are_those_of_the_stashed_version(void **state)
{
    static const bool equal[COMPARED][COMPARED - 1] = {{false, false}, {true, false}, {true, true}};
    struct model m = {0};
    assert_int_equal(zoo_build("gpt-tiny:layers=1,hidden=16,heads=2,tokens=8", &m), STATUS_OK);
    for (uint32_t v = 1; v <= COMPARED; v++) {
        float *gradient[COMPARED];
        size_t n;
        first_gradients(&m, v, gradient, &n);
        for (size_t k = 0; k + 1 < COMPARED; k++)
            assert_int_equal(!memcmp(gradient[k], gradient[k + 1], n * sizeof(float)),
                             equal[v - 1][k]);
        for (size_t k = 0; k < COMPARED; k++)
            free(gradient[k]);
    }
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_the_stashed_version),
        cmocka_unit_test(macrobatches_train_as_one_process_with_two_versions),
        cmocka_unit_test(uneven_replicas_train_as_one_process_with_stashed_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
