/* Legal strategies at random. */
#include "tests/strategy.h"

#include <stdlib.h>

#include "core/base/random.h"
#include "core/base/text.h"
#include "core/lower/lower.h"
#include "papers/hidup/models.h"
#include "tests/cmocka.h"
#include "tests/sample.h"

enum { TRIES = 100000, MOST_NODES = 9, MOST_SIGNATURES = 64 };

/* Is the strategy legal as far as its nodes have been drawn? */
static bool is_legal(struct drawn *d)
{
    struct arena scratch = {0};
    bool legal = spmd_complete(&d->g, &scratch, &d->s) == STATUS_OK;
    arena_free(&scratch);
    return legal;
}

/* The form that a tensor is made in, by the signature that is chosen of its node. */
static uint8_t made(const struct drawn *d, uint32_t tensor)
{
    uint32_t node = d->g.tensor[tensor].node;
    return d->s.chosen[node].made[tensor - d->g.node[node].made];
}

/* Would a signature read something in a form, of a form that it was made in, for the first time, or
 * make something in one that its readers have not had in all of theirs? */
static bool is_new(const struct drawn *d, uint32_t node, const struct spmd_signature *s)
{
    const struct spmd_node *n = &d->g.node[node];
    if (!d->edges)
        return false;
    for (size_t k = 0; k < n->reads; k++)
        if (d->edges->is[node][k][made(d, n->read[k])][s->read[k]] == EDGE_LEFT)
            return true;
    for (uint32_t i = node + 1; i < d->g.nodes; i++)
        for (size_t k = 0; k < d->g.node[i].reads; k++) {
            uint32_t t = d->g.node[i].read[k] - n->made;
            for (size_t to = 0; t < n->makes && to < FORMS; to++)
                if (d->edges->is[i][k][s->made[t]][to] == EDGE_LEFT)
                    return true;
        }
    return false;
}

/* Does a signature keep the edge that is to be had out of the strategy? */
static bool is_against(const struct drawn *d, uint32_t node, const struct spmd_signature *s)
{
    const struct strategy_edge *e = d->edges ? &d->edges->next : NULL;
    if (!e)
        return false;
    uint32_t tensor = d->g.node[e->node].read[e->read];
    return (node == d->g.tensor[tensor].node &&
            s->made[tensor - d->g.node[node].made] != e->from) ||
           (node == e->node && s->read[e->read] != e->to);
}

/* One of the node's signatures that suit what has been drawn, in the last stage, something new
 * first; false: none. */
static bool draw_node(struct drawn *d, uint32_t node, uint64_t *dice)
{
    const struct spmd_node *n = &d->g.node[node];
    size_t first = random_next(dice) % n->signatures;
    d->s.stage[d->s.stages - 1].nodes++;
    for (size_t k = 0; k < 2 * n->signatures; k++) {
        const struct spmd_signature *s = &n->signature[(first + k) % n->signatures];
        if (is_against(d, node, s) || is_new(d, node, s) == (k >= n->signatures))
            continue;
        d->s.chosen[node] = *s;
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

/* The signatures of a graph that are left. */
struct signatures {
    const struct spmd_graph *g;
    bool (*gone)[MOST_SIGNATURES]; /* [nodes] */
};

/* Node i's k-th tensor, in a form that its maker gives it, as node i reads it: is it so, or
 * converted? */
static bool is_edge(const struct spmd_node *n, uint8_t from, uint8_t to)
{
    struct form_conversion any;
    return from == to || (n->kind != SPMD_ADAPTIVE && form_convert(from, to, &any));
}

/* Does a signature of `from` that is left make what node n's k-th read wants in the form `to`? */
static bool is_made(const struct signatures *s, const struct spmd_node *n, size_t k, uint8_t to)
{
    uint32_t maker = s->g->tensor[n->read[k]].node;
    const struct spmd_node *from = &s->g->node[maker];
    for (size_t a = 0; a < from->signatures; a++)
        if (!s->gone[maker][a] && is_edge(n, from->signature[a].made[n->read[k] - from->made], to))
            return true;
    return false;
}

/* Can every node that reads the tensor besides do so in one of two forms? It has no third. */
static bool is_shared(const struct signatures *s, uint32_t but, uint32_t tensor, uint8_t a,
                      uint8_t b)
{
    for (uint32_t i = 0; i < s->g->nodes; i++)
        for (size_t k = 0; k < s->g->node[i].reads; k++) {
            bool any = i == but || s->g->node[i].read[k] != tensor;
            for (size_t c = 0; c < s->g->node[i].signatures && !any; c++) {
                uint8_t form = s->g->node[i].signature[c].read[k];
                any = !s->gone[i][c] && (form == a || form == b || a == b);
            }
            if (!any)
                return false;
        }
    return true;
}

/* Does node i, where it reads the tensor, have a signature left that does so? */
static bool is_read(const struct signatures *s, uint32_t i, uint32_t tensor, uint8_t form)
{
    const struct spmd_node *n = &s->g->node[i];
    for (size_t k = 0; k < n->reads; k++) {
        bool any = n->read[k] != tensor;
        for (size_t b = 0; b < n->signatures && !any; b++)
            any = !s->gone[i][b] && is_edge(n, form, n->signature[b].read[k]);
        if (!any)
            return false;
    }
    return true;
}

static bool is_possible(const struct signatures *s, uint32_t i, const struct spmd_signature *of)
{
    const struct spmd_node *n = &s->g->node[i];
    for (size_t k = 0; k < n->reads; k++)
        if (!is_made(s, n, k, of->read[k]))
            return false;
    for (uint32_t k = 0; k < n->makes; k++)
        for (uint32_t reader = i + 1; reader < s->g->nodes; reader++)
            if (!is_read(s, reader, n->made + k, of->made[k]))
                return false;
    return true;
}

/* Signatures that no strategy has, because nothing makes what they read or reads what they make. */
static void leave_out(struct signatures *s)
{
    for (bool more = true; more;) {
        more = false;
        for (uint32_t i = 0; i < s->g->nodes; i++)
            for (size_t a = 0; a < s->g->node[i].signatures; a++)
                if (!s->gone[i][a] && !is_possible(s, i, &s->g->node[i].signature[a]))
                    s->gone[i][a] = more = true;
    }
}

/* Every form of node i's k-th tensor that its maker has, in every one that it could be read in. */
static void list_edges(struct strategy_edges *e, const struct signatures *s, uint32_t i, size_t k)
{
    const struct spmd_node *n = &s->g->node[i];
    uint32_t maker = s->g->tensor[n->read[k]].node;
    const struct spmd_node *from = &s->g->node[maker];
    for (size_t a = 0; a < from->signatures; a++)
        for (size_t b = 0; b < n->signatures; b++) {
            uint8_t f = from->signature[a].made[n->read[k] - from->made];
            uint8_t t = n->signature[b].read[k];
            if (e->is[i][k][f][t] == NO_EDGE && !s->gone[maker][a] && !s->gone[i][b] &&
                is_edge(n, f, t) && is_shared(s, i, n->read[k], f, t)) {
                e->is[i][k][f][t] = EDGE_LEFT;
                e->all++;
            }
        }
}

void strategy_edges_init(const char *model, struct strategy_edges *e)
{
    struct spmd_graph g;
    struct signatures s = {.g = &g, .gone = NULL};
    *e = (struct strategy_edges){0};
    assert_int_equal(spmd_model(model, false, &g), STATUS_OK);
    assert_int_equal(ARRAY_NEW(e->is, g.nodes), STATUS_OK);
    assert_int_equal(ARRAY_NEW(s.gone, g.nodes), STATUS_OK);
    for (uint32_t i = 0; i < g.nodes; i++)
        assert_true(g.node[i].signatures <= MOST_SIGNATURES);
    leave_out(&s);
    for (uint32_t i = 0; i < g.nodes; i++)
        for (size_t k = 0; k < g.node[i].reads; k++)
            list_edges(e, &s, i, k);
    free(s.gone);
    spmd_graph_free(&g);
}

/* The first edge that is left. */
static void aim(struct drawn *d)
{
    struct strategy_edge *e = &d->edges->next;
    for (e->node = 0; e->node < d->g.nodes; e->node++)
        for (e->read = 0; e->read < d->g.node[e->node].reads; e->read++)
            for (e->from = 0; e->from < FORMS; e->from++)
                for (e->to = 0; e->to < FORMS; e->to++)
                    if (d->edges->is[e->node][e->read][e->from][e->to] == EDGE_LEFT)
                        return;
    fail_msg("no edge is left");
}

/* What the strategy has is left no longer; it has nothing that no strategy was to have. */
static void strike(struct drawn *d)
{
    struct strategy_edges *e = d->edges;
    for (uint32_t i = 0; e && i < d->g.nodes; i++)
        for (size_t k = 0; k < d->g.node[i].reads; k++) {
            uint8_t from = made(d, d->g.node[i].read[k]), to = d->s.chosen[i].read[k];
            assert_int_not_equal(e->is[i][k][from][to], NO_EDGE);
            e->had += e->is[i][k][from][to] == EDGE_LEFT;
            e->is[i][k][from][to] = EDGE_HAD;
        }
}

void strategy_draw(const char *model, size_t devices, bool two, struct strategy_edges *edges,
                   uint64_t *dice, struct drawn *d)
{
    size_t tries = 0;
    *d = (struct drawn){.t = sample_clique(devices, 1e-6, 1e9), .edges = edges};
    assert_int_equal(spmd_model(model, false, &d->g), STATUS_OK);
    assert_int_equal(ARRAY_NEW(d->op_of, d->g.nodes), STATUS_OK);
    assert_int_equal(spmd_to_model(&d->g, model, &d->m, d->op_of), STATUS_OK);
    assert_int_equal(ARENA_NEW(&d->memory, d->s.chosen, d->g.nodes), STATUS_OK);
    assert_int_equal(ARENA_NEW(&d->memory, d->s.stage, d->g.nodes), STATUS_OK);
    if (edges)
        aim(d);
    while (!draw_all(d, dice))
        if (++tries == TRIES)
            fail_msg("%s: no strategy%s%s", model, edges ? " reads what is left by " : "",
                     edges ? d->g.node[edges->next.node].name : "");
    assert_int_equal(spmd_complete(&d->g, &d->memory, &d->s), STATUS_OK);
    strike(d);
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
