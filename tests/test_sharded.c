/* Strategies executed: ranks that are threads, on the real device over real transports, make the
 * losses and the parameters of one process, whatever forms their tensors have. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/random.h"
#include "exec/device/sharded/sharded.h"
#include "tests/cmocka.h"
#include "tests/strategy_run.h"

static const double learning_rate = 1e-2, tolerance = 1e-5;

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

static double moved(const struct drawn *d, const struct trained *a, const struct trained *b)
{
    double most = 0;
    for (uint32_t k = 0; k < d->plan.operators.tensors; k++)
        for (size_t i = 0;
             a->parameter[k] && i < view_of(&d->plan.operators.tensor[k], FORM_FULL, 1, 0).n; i++)
            most = fmax(most, fabs((double)a->parameter[k][i] - (double)b->parameter[k][i]));
    return most;
}

/* What strategies of a model are compared with. */
struct against {
    size_t model, steps, rounds;
    uint64_t dice;
    struct trained alone;
};

static void train_alone(struct against *c, double rate, struct drawn *d, struct trained *out)
{
    strategy_draw(models[c->model], 1, false, NULL, &c->dice, d);
    train(d, &device_sharded, &transport_local, rate, c->steps, out);
}

static void begin(struct against *c, size_t model, size_t steps)
{
    struct drawn d;
    *c = (struct against){.model = model, .steps = steps, .dice = 7 + model};
    train_alone(c, learning_rate, &d, &c->alone);
    strategy_free(&d);
}

/* One more strategy, which has an edge that `edges` has left (NULL: any). Adam's first steps do not
 * see how large a gradient is, so that parameters whose gradient is 0 but for rounding (sums of
 * normalised rows have such) may move by it: those are looked at for tmlp only. */
static void compare(struct against *c, size_t ranks, struct strategy_edges *edges)
{
    static struct trained t;
    struct drawn d;
    size_t round = c->rounds++;
    strategy_draw(models[c->model], ranks, (round ^ round / 2) % 2, edges, &c->dice, &d);
    train(&d, &device_sharded, round % 16 == 15 ? &transport_tcp : &transport_local, learning_rate,
          c->steps, &t);
    double loss = losses_apart(&c->alone, &t, c->steps), parameters = moved(&d, &c->alone, &t);
    if (loss > tolerance || (c->model == TMLP && parameters > tolerance))
        fail_msg("%s on %zu ranks, round %zu: losses %g apart, parameters %g", models[c->model],
                 ranks, round, loss, parameters);
    forget(&t);
    strategy_free(&d);
}

/* Nothing would be apart either if nobody learned anything. */
static void end(struct against *c)
{
    static struct trained still;
    struct drawn d;
    train_alone(c, 0, &d, &still);
    assert_true(moved(&d, &c->alone, &still) > learning_rate / 2);
    strategy_free(&d);
    forget(&still);
    forget(&c->alone);
}

/* Strategies until every form of every tensor has been read in every form in which a legal strategy
 * can read it, by every reader: all that an operator and a conversion can be asked for. */
static void compare_every_edge(size_t model, size_t ranks, size_t other_ranks)
{
    static struct against c;
    struct strategy_edges edges;
    strategy_edges_init(models[model], &edges);
    begin(&c, model, 3);
    while (edges.had < edges.all)
        compare(&c, c.rounds % 2 ? ranks : other_ranks, &edges);
    print_message("%s: %zu forms read in %zu strategies on %zu and %zu ranks\n", models[model],
                  edges.all, c.rounds, ranks, other_ranks);
    assert_true(edges.all > 100);
    end(&c);
    free(edges.is);
}

static void every_form_is_read_in_every_form(void **state)
{
    compare_every_edge(TMLP, 2, 2);
    compare_every_edge(TMLP, 4, 4);
    compare_every_edge(TMOE, 2, 4);
}

static void every_form_of_every_model(void **state)
{
    for (size_t m = 0; m < MODELS; m++) {
        compare_every_edge(m, 2, 2);
        compare_every_edge(m, 4, 4);
    }
}

static void they_learn_the_same_for_300_steps(void **state)
{
    static const size_t learns[] = {TMLP, TMOE, RMOE};
    static struct against c;
    for (size_t m = 0; m < sizeof learns / sizeof *learns; m++) {
        begin(&c, learns[m], MOST_STEPS);
        if (test_everything() || m == 0)
            compare(&c, 2, NULL);
        compare(&c, 4, NULL);
        end(&c);
    }
}

/* ---- what is planned can be run */

/* Of a family with random shapes, whose heads, channels, experts and devices fit together or do
 * not. */
static void draw_model(uint64_t *dice, char text[160])
{
    size_t family = random_next(dice) % papers_models_n, side = 1 + random_next(dice) % 3;
    size_t heads = 1 + random_next(dice) % 6;
    size_t hidden = heads * (1 + random_next(dice) % 5) + random_next(dice) % 8 / 7;
    snprintf(text, 160,
             "%s:%slayers=%zu,batch=%zu,seq=%zu,hidden=%zu,inner=%zu,heads=%zu,experts=%zu,"
             "classes=256",
             papers_models[family].name, papers_models[family].alone ? "" : "ops=1,",
             1 + (size_t)(random_next(dice) % 2), 2 * (1 + (size_t)(random_next(dice) % 3)),
             side * side, hidden, 1 + (size_t)(random_next(dice) % 9), heads,
             1 + (size_t)(random_next(dice) % 8));
}

/* Does a device open on every rank? */
static bool opens(const struct drawn *d)
{
    for (uint32_t rank = 0; rank < d->program.ranks; rank++) {
        struct sharded *s;
        const struct device_options o = {.learning_rate = learning_rate};
        if (sharded_open(&engine_cpu, &d->program, rank, &o, &s) != STATUS_OK)
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
        strategy_draw(model, devices, random_next(&dice) % 2, NULL, &dice, &d);
        bool runs = opens(&d);
        if (runs != is_planned(&d, model, devices))
            fail_msg("%s on %zu: %s, %s", model, devices, runs ? "runs" : "does not run",
                     error_message());
        seen[runs]++;
        strategy_free(&d);
    }
    assert_true(seen[false] > 40 && seen[true] > 40);
}

/* With any argument every model's edges, else those of two. */
int main(int argc, char **argv)
{
    const struct CMUnitTest more[] = {cmocka_unit_test(every_form_of_every_model)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_is_read_in_every_form),
        cmocka_unit_test(they_learn_the_same_for_300_steps),
        cmocka_unit_test(a_strategy_is_planned_if_and_only_if_its_device_opens),
    };
    if (argc > 1)
        return cmocka_run_group_tests(more, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
