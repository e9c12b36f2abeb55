/* Legal strategies at random. */
#include "tests/strategy.h"

#include <stdlib.h>

#include "core/lower.h"
#include "core/random.h"
#include "core/text.h"
#include "partition/published/hidup/models.h"
#include "tests/cmocka.h"
#include "tests/sample.h"

enum { TRIES = 100000, MOST_NODES = 9 };

/* Is the strategy legal as far as its nodes have been drawn? */
static bool is_legal(struct drawn *d)
{
    struct arena scratch = {0};
    bool legal = spmd_complete(&d->g, &scratch, &d->s) == STATUS_OK;
    arena_free(&scratch);
    return legal;
}

/* One of the node's signatures that suit what has been drawn, in the last stage; false: none. */
static bool draw_node(struct drawn *d, uint32_t node, uint64_t *dice)
{
    const struct spmd_node *n = &d->g.node[node];
    size_t first = random_next(dice) % n->signatures;
    d->s.stage[d->s.stages - 1].nodes++;
    for (size_t k = 0; k < n->signatures; k++) {
        d->s.chosen[node] = n->signature[(first + k) % n->signatures];
        if (is_legal(d))
            return true;
    }
    d->s.stage[d->s.stages - 1].nodes--;
    return false;
}

static bool draw_all(struct drawn *d, uint64_t *dice)
{
    d->s.stages = 0;
    for (uint32_t node = 0; node < d->g.nodes; node++) {
        struct spmd_stage *stage = &d->s.stage[d->s.stages];
        bool begins = node == 0 || stage[-1].nodes == MOST_NODES || random_next(dice) % 4 == 0;
        if (begins) {
            *stage = (struct spmd_stage){.first = node};
            d->s.stages++;
        }
        if (draw_node(d, node, dice))
            continue;
        if (begins)
            return false;
        *stage = (struct spmd_stage){.first = node};
        d->s.stages++;
        if (!draw_node(d, node, dice))
            return false;
    }
    return true;
}

static void make_plan(const char *model, size_t devices, bool two, struct drawn *d)
{
    size_t samples = (size_t)spmd_batch(&d->g) / (two ? 2 : 1);
    assert_int_equal(spmd_model_part(model, false, (int64_t)samples, &d->part), STATUS_OK);
    const struct spmd_platform on = {.topology = &d->t,
                                     .model = &d->m,
                                     .op_of = d->op_of,
                                     .devices = devices,
                                     .samples = samples,
                                     .optimizer = "adam",
                                     .part = &d->part};
    assert_int_equal(spmd_to_plan(&d->g, &d->s, &on, &d->plan), STATUS_OK);
    assert_int_equal(text_copy(model, &d->plan.model), STATUS_OK);
    assert_int_equal(text_copy("clique", &d->plan.platform), STATUS_OK);
    assert_int_equal(text_copy("gpipe", &d->plan.schedule), STATUS_OK);
    assert_int_equal(text_copy("adam", &d->plan.optimizer), STATUS_OK);
    d->plan.seed = 1;
    if (plan_lower(&d->plan, &d->m, &d->t, &d->program) != STATUS_OK)
        fail_msg("%s: %s", model, error_message());
}

void strategy_draw(const char *model, size_t devices, bool two, uint64_t *dice, struct drawn *d)
{
    size_t tries = 0;
    *d = (struct drawn){.t = sample_clique(devices, 1e-6, 1e9)};
    assert_int_equal(spmd_model(model, false, &d->g), STATUS_OK);
    assert_int_equal(ARRAY_NEW(d->op_of, d->g.nodes), STATUS_OK);
    assert_int_equal(spmd_to_model(&d->g, model, &d->m, d->op_of), STATUS_OK);
    assert_int_equal(ARENA_NEW(&d->memory, d->s.chosen, d->g.nodes), STATUS_OK);
    assert_int_equal(ARENA_NEW(&d->memory, d->s.stage, d->g.nodes), STATUS_OK);
    while (!draw_all(d, dice))
        assert_true(++tries < TRIES);
    assert_int_equal(spmd_complete(&d->g, &d->memory, &d->s), STATUS_OK);
    make_plan(model, devices, two, d);
}

void strategy_free(struct drawn *d)
{
    program_free(&d->program);
    plan_free(&d->plan);
    arena_free(&d->memory);
    model_free(&d->m);
    free(d->op_of);
    topology_free(&d->t);
    spmd_graph_free(&d->part);
    spmd_graph_free(&d->g);
}
