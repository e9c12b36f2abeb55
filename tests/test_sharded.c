/* Strategies executed: ranks that are threads, on the real device over real transports, make the losses
 * and the parameters of one process, whatever forms their tensors have. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/random.h"
#include "exec/device.h"
#include "exec/device/sharded/sharded.h"
#include "exec/executor.h"
#include "partition/published/hidup/models.h"
#include "tests/cmocka.h"
#include "tests/mesh.h"
#include "tests/strategy.h"

enum { MOST_STEPS = 300 };
static const double learning_rate = 1e-2;

static const char *const models[] = {
    "tmlp:layers=3,batch=8,seq=4,hidden=12",
    "tmlp2:layers=2,batch=8,seq=4,hidden=12,inner=20",
    "ttransformer:layers=1,batch=8,seq=6,hidden=16,inner=24,heads=4",
    "tmoe:layers=2,batch=8,seq=6,hidden=16,inner=24,heads=4,experts=4",
    "rmoe:ops=1,layers=2,batch=8,seq=6,hidden=16,inner=24,heads=4,experts=4,classes=256",
    "rswitch:ops=1,layers=2,batch=8,seq=6,hidden=16,inner=24,heads=4,experts=4,classes=256",
    "vmoe:ops=1,layers=2,batch=8,seq=9,hidden=16,inner=24,heads=4,experts=4",
    "vswitch:ops=1,layers=2,batch=8,seq=9,hidden=16,inner=24,heads=4,experts=4",
};
enum { MODELS = sizeof models / sizeof *models, TMLP = 0, TMOE = 3, RMOE = 4 };

/* What training has left: losses, and all parameters of every tensor. */
struct trained {
    struct mesh mesh;
    pthread_mutex_t mutex;
    double rate; /* of learning */
    double loss[MOST_STEPS];
    size_t tensors;
    float *parameter[SPMD_NODES]; /* NULL: of tensors that are none */
};

/* What a rank has of the parameters, put where it is in the whole. */
static void show(struct trained *t, const struct sharded *s)
{
    for (uint32_t k = 0; k < s->all->tensors; k++) {
        const struct operand *own = &s->slot[0][k].own;
        if (!s->shared[k])
            continue;
        for (size_t i = 0; i < own->view.n; i++)
            t->parameter[k][view_index(&own->view, i)] = own->value[i];
    }
}

static enum status train_rank(struct actor *a, void *transport_self)
{
    enum status st;
    struct trained *t = (struct trained *)((char *)a->mesh - offsetof(struct trained, mesh));
    struct executor_step step = {0};
    struct executor e = {.program = &a->mesh->program,
                         .rank = a->rank,
                         .device = &device_sharded,
                         .transport = a->mesh->transport ? a->mesh->transport : &transport_tcp,
                         .transport_self = transport_self,
                         .timeout_s = patience_s};
    const struct device_options options = {.learning_rate = t->rate};
    TRY(executor_supports(e.program));
    TRY(device_sharded.open(NULL, e.program, a->rank, &options, &e.device_self));
    TRY(executor_step_init(&step, e.program, a->rank));
    for (uint32_t k = 0; k < a->steps; k++) {
        TRY(executor_run(&e, k, &step));
        pthread_mutex_lock(&t->mutex);
        t->loss[k] += step.loss;
        pthread_mutex_unlock(&t->mutex);
    }
    TRY(executor_finish(&e));
    pthread_mutex_lock(&t->mutex);
    show(t, e.device_self);
    pthread_mutex_unlock(&t->mutex);
out:
    executor_step_free(&step);
    device_sharded.close(e.device_self);
    return st;
}

/* The program becomes the mesh's, which frees it. */
static void train(struct drawn *d, const struct transport *over, double rate, size_t steps,
                  struct trained *t)
{
    struct actor actors[MESH_RANKS] = {{0}};
    const struct operators *o = &d->plan.operators;
    *t = (struct trained){.mesh.transport = over, .tensors = o->tensors, .rate = rate};
    MOVE(&t->mesh.program, d->program);
    pthread_mutex_init(&t->mutex, NULL);
    for (size_t i = 0; i < o->nodes; i++)
        if (!strcmp(o->node[i].kind, "parameter") || !strcmp(o->node[i].kind, "mask")) {
            size_t n = view_of(&o->tensor[o->node[i].made], FORM_FULL, 1, 0).n;
            assert_int_equal(ARRAY_NEW(t->parameter[o->node[i].made], n), STATUS_OK);
        }
    play_all(&t->mesh, actors, train_rank, steps);
    mesh_close(&t->mesh);
}

static void forget(struct trained *t)
{
    for (size_t k = 0; k < t->tensors; k++)
        free(t->parameter[k]);
    pthread_mutex_destroy(&t->mutex);
}

/* Largest difference of a loss, of what the losses span and are. */
static double apart(const struct trained *a, const struct trained *b, size_t steps)
{
    double most = 0, size = 0;
    for (size_t k = 0; k < steps; k++) {
        most = fmax(most, fabs(a->loss[k] - b->loss[k]));
        size = fmax(size, fabs(a->loss[k]));
    }
    return most / size;
}

static double moved(const struct drawn *d, const struct trained *a, const struct trained *b)
{
    double most = 0;
    for (uint32_t k = 0; k < d->plan.operators.tensors; k++)
        for (size_t i = 0;
             a->parameter[k] && i < view_of(&d->plan.operators.tensor[k], FORM_FULL, 1, 0).n; i++)
            most = fmax(most, fabs((double)a->parameter[k][i] - (double)b->parameter[k][i]));
    return most;
}

/* `rounds` strategies of a model on 2 and 4 ranks, halves and whole, against one process. Adam's first
 * steps do not see how large a gradient is, so that parameters whose gradient is 0 but for rounding
 * (sums of normalised rows have such) may move by it: those are looked at for tmlp only. */
static void compare(size_t model, size_t rounds, size_t steps, double tolerance)
{
    struct drawn one, d;
    static struct trained alone, still, t;
    uint64_t dice = 7 + model;
    for (size_t round = 0; round < rounds; round++) {
        if (round == 0) {
            strategy_draw(models[model], 1, false, &dice, &one);
            train(&one, &transport_local, learning_rate, steps, &alone);
        }
        size_t ranks = round % 2 ? 4 : 2;
        strategy_draw(models[model], ranks, (round ^ round / 2) % 2, &dice, &d);
        train(&d, round % 16 == 15 ? &transport_tcp : &transport_local, learning_rate, steps, &t);
        double loss = apart(&alone, &t, steps), parameters = moved(&d, &alone, &t);
        if (loss > tolerance || (model == TMLP && parameters > tolerance))
            fail_msg("%s, round %zu: losses %g apart, parameters %g", models[model], round, loss,
                     parameters);
        forget(&t);
        strategy_free(&d);
    }
    /* Nothing would be apart either if nobody learned anything. */
    strategy_free(&one);
    strategy_draw(models[model], 1, false, &dice, &one);
    train(&one, &transport_local, 0, steps, &still);
    assert_true(moved(&one, &alone, &still) > learning_rate / 2);
    forget(&still);
    forget(&alone);
    strategy_free(&one);
}

static void drawn_strategies_make_the_losses_of_one_process(void **state)
{
    static const size_t rounds[MODELS] = {48, 24, 24, 24, 16, 16, 16, 16};
    for (size_t m = 0; m < MODELS; m++)
        compare(m, rounds[m], 6, 1e-5);
}

static void they_learn_the_same_for_300_steps(void **state)
{
    compare(TMLP, 2, MOST_STEPS, 1e-5);
    compare(TMOE, 2, MOST_STEPS, 1e-5);
    compare(RMOE, 2, MOST_STEPS, 1e-5);
}

/* ---- what is planned can be run */

/* Of a family with random shapes, whose heads, channels, experts and devices fit together or do not. */
static void draw_model(uint64_t *dice, char text[160])
{
    size_t family = random_next(dice) % spmd_families_n, side = 1 + random_next(dice) % 3;
    size_t heads = 1 + random_next(dice) % 6;
    size_t hidden = heads * (1 + random_next(dice) % 5) + random_next(dice) % 8 / 7;
    snprintf(text, 160,
             "%s:%slayers=%zu,batch=%zu,seq=%zu,hidden=%zu,inner=%zu,heads=%zu,experts=%zu,"
             "classes=256",
             spmd_families[family].name, spmd_families[family].alone ? "" : "ops=1,",
             1 + (size_t)(random_next(dice) % 2), 2 * (1 + (size_t)(random_next(dice) % 3)),
             side * side, hidden, 1 + (size_t)(random_next(dice) % 9), heads,
             1 + (size_t)(random_next(dice) % 8));
}

/* Does a device open on every rank? */
static bool opens(const struct drawn *d)
{
    for (uint32_t rank = 0; rank < d->program.ranks; rank++) {
        struct sharded *s;
        if (sharded_open(&d->program, rank, learning_rate, NULL, &s) != STATUS_OK)
            return false;
        sharded_close(s);
    }
    return true;
}

/* Would a search have all of its signatures to choose from? */
static bool is_planned(const struct drawn *d, const char *model, size_t devices)
{
    struct spmd_graph g = {0};
    assert_int_equal(spmd_model(model, false, &g), STATUS_OK);
    bool all = spmd_divide(&g, devices) == STATUS_OK;
    for (size_t i = 0; i < g.nodes && all; i++) {
        char letters[SPMD_LETTERS];
        struct spmd_signature found;
        all = spmd_choose(&g.node[i], spmd_letters(&d->g.node[i], &d->s.chosen[i], letters),
                          &found) == STATUS_OK;
    }
    spmd_graph_free(&g);
    return all;
}

static void a_strategy_is_planned_if_and_only_if_its_device_opens(void **state)
{
    uint64_t dice = 23;
    size_t seen[2] = {0};
    for (size_t round = 0; round < 400; round++) {
        char model[160];
        struct drawn d;
        size_t devices = 1 + random_next(&dice) % 6;
        draw_model(&dice, model);
        strategy_draw(model, devices, random_next(&dice) % 2, &dice, &d);
        bool runs = opens(&d);
        if (runs != is_planned(&d, model, devices))
            fail_msg("%s on %zu: %s, %s", model, devices, runs ? "runs" : "does not run",
                     error_message());
        seen[runs]++;
        strategy_free(&d);
    }
    assert_true(seen[false] > 40 && seen[true] > 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawn_strategies_make_the_losses_of_one_process),
        cmocka_unit_test(they_learn_the_same_for_300_steps),
        cmocka_unit_test(a_strategy_is_planned_if_and_only_if_its_device_opens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
