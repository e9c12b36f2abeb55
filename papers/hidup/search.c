/* The search for the cheapest strategy: states by cut, partial strategies by state, and a walk of
 * all stages from each. */
#include "papers/hidup/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/random.h"

enum { NONE = UINT32_MAX, BUCKETS = 1 << 14, LOOK_EVERY = 1 << 12, BEAM = 4 };

/* A strategy of the nodes before a cut, by its last stage. */
struct partial {
    struct spmd_time time;
    uint32_t before, state, next; /* partial; state; next one of the state */
    uint8_t nodes, chosen[SPMD_STAGE_NODES];
};

struct hidup_state {
    uint32_t cut, next, bucket; /* next of the cut, of the bucket */
    uint32_t first;             /* partial */
    size_t forms;               /* in search.forms, one byte for each tensor of the cut */
};

/* A tensor that crosses a cut, and where its forms come from: a tensor of the cut before, or what
 * the node between makes. */
struct crossing {
    uint32_t tensor, from;
    bool made;
};

struct graph_cut {
    size_t n;
    struct crossing *crossing; /* [n] */
    uint32_t read[SPMD_READS]; /* of the node behind: where among those that cross */
    uint32_t first;            /* state */
};

struct hidup_search {
    const struct spmd_search *q;
    const struct spmd_graph *g;
    struct graph_cut *cut; /* [nodes + 1] */
    size_t states, partials, forms_n, forms_room, partial_room;
    struct hidup_state *state;
    struct partial *partial;
    uint8_t *forms;
    uint32_t bucket[BUCKETS];
    uint32_t stage_nodes, furthest;
    uint64_t steps;
    bool hurry;  /* time is up */
    bool narrow; /* and what is left is walked by the best states only */
    struct arena memory;
};

/* Two forms in a byte, the lower one first. */
static uint8_t hidup_search_pack(uint8_t a, uint8_t b)
{
    return (uint8_t)(a < b ? a | b << 4 : b | a << 4);
}

static bool hidup_search_has(uint8_t packed, uint8_t form)
{
    return (packed & 15) == form || packed >> 4 == form;
}

/* ---- cuts */

static uint32_t hidup_search_place(const struct graph_cut *c, uint32_t tensor)
{
    for (uint32_t i = 0; i < c->n; i++)
        if (c->crossing[i].tensor == tensor)
            return i;
    return NONE;
}

static enum status next_cut(struct hidup_search *s, uint32_t node)
{
    const struct graph_cut *from = &s->cut[node];
    struct graph_cut *to = &s->cut[node + 1];
    const struct spmd_node *n = &s->g->node[node];
    to->first = NONE;
    PASS(ARENA_NEW(&s->memory, to->crossing, from->n + n->makes));
    for (uint32_t i = 0; i < from->n; i++)
        if (s->g->tensor[from->crossing[i].tensor].last > node)
            to->crossing[to->n++] = (struct crossing){from->crossing[i].tensor, i, false};
    for (uint32_t k = 0; k < n->makes; k++)
        if (s->g->tensor[n->made + k].last > node)
            to->crossing[to->n++] = (struct crossing){n->made + k, k, true};
    for (size_t k = 0; k < n->reads; k++)
        s->cut[node].read[k] = hidup_search_place(from, n->read[k]);
    return to->n <= SPMD_LIVE
               ? STATUS_OK
               : error_set(STATUS_UNSUPPORTED,
                           "%zu tensors cross the cut after node '%s', expected at most %d", to->n,
                           n->name, SPMD_LIVE);
}

/* ---- states and what is known of them */

static enum status state_of(struct hidup_search *s, uint32_t cut, const uint8_t *forms,
                            uint32_t *out)
{
    size_t n = s->cut[cut].n;
    uint64_t key = cut;
    for (size_t i = 0; i < n; i++)
        key = random_key(key, forms[i]);
    uint32_t *bucket = &s->bucket[key % BUCKETS];
    for (*out = *bucket; *out != NONE; *out = s->state[*out].bucket)
        if (s->state[*out].cut == cut && memcmp(s->forms + s->state[*out].forms, forms, n) == 0)
            return STATUS_OK;
    PASS(ARRAY_ROOM(s->state, s->states));
    PASS(ARRAY_RESERVE(s->forms, s->forms_n + n + 1, s->forms_room));
    memcpy(s->forms + s->forms_n, forms, n);
    *out = (uint32_t)s->states++;
    s->state[*out] = (struct hidup_state){cut, s->cut[cut].first, *bucket, NONE, s->forms_n};
    s->forms_n += n;
    s->cut[cut].first = *bucket = *out;
    return STATUS_OK;
}

static bool no_worse(const struct spmd_time *a, const struct spmd_time *b)
{
    return a->acc_s <= b->acc_s && a->debt_s <= b->debt_s && a->debt_back_s <= b->debt_back_s;
}

/* Keep it unless there is one that is no worse; drop those that are no better. */
static enum status hidup_search_insert(struct hidup_search *s, const struct partial *p)
{
    uint32_t *link = &s->state[p->state].first;
    for (uint32_t i = *link; i != NONE; i = s->partial[i].next)
        if (no_worse(&s->partial[i].time, &p->time))
            return STATUS_OK;
    while (*link != NONE)
        if (no_worse(&p->time, &s->partial[*link].time))
            *link = s->partial[*link].next;
        else
            link = &s->partial[*link].next;
    if (s->partials == UINT32_MAX - 1)
        return error_set(STATUS_NOMEM, "the search has more than 2^32 partial strategies");
    PASS(ARRAY_RESERVE(s->partial, s->partials + 1, s->partial_room));
    s->partial[s->partials] = *p;
    s->partial[s->partials].next = s->state[p->state].first;
    s->state[p->state].first = (uint32_t)s->partials++;
    return STATUS_OK;
}

/* ---- stages from a state */

/* A stage that grows node by node. */
struct growing {
    uint32_t from, start, cut; /* state; its cut; how far */
    size_t moves;
    struct spmd_load load;
    uint8_t nodes, chosen[SPMD_STAGE_NODES];
    uint8_t forms[SPMD_LIVE];
};

/* The stage ends here. */
static enum status offer(struct hidup_search *s, const struct growing *w)
{
    uint32_t state = NONE;
    for (uint32_t i = s->state[w->from].first; i != NONE; i = s->partial[i].next) {
        const struct partial *before = &s->partial[i];
        bool root = before->nodes == 0, full = before->nodes >= s->stage_nodes;
        if (w->moves == 0 && !root && !full)
            continue;
        if (state == NONE)
            PASS(state_of(s, w->cut, w->forms, &state));
        struct partial p = {.time = spmd_after(s->q->costs, &before->time, &w->load),
                            .before = i,
                            .state = state,
                            .nodes = w->nodes};
        memcpy(p.chosen, w->chosen, w->nodes);
        PASS(hidup_search_insert(s, &p));
    }
    return STATUS_OK;
}

/* What signature k of the next node makes of the stage; false: it cannot have what it reads. */
static bool hidup_search_grow(const struct hidup_search *s, const struct growing *w, size_t k,
                              struct growing *out)
{
    const struct graph_cut *cut = &s->cut[w->cut], *next = cut + 1;
    const struct spmd_node *n = &s->g->node[w->cut];
    const struct spmd_signature *signature = &n->signature[k];
    uint8_t forms[SPMD_LIVE];
    memcpy(forms, w->forms, cut->n);
    *out = *w;
    for (size_t r = 0; r < n->reads; r++) {
        uint8_t *form = &forms[cut->read[r]], to = signature->read[r];
        struct form_conversion conversion;
        if (hidup_search_has(*form, to))
            continue;
        if (*form >> 4 != FORM_NONE || n->kind == SPMD_ADAPTIVE ||
            s->g->tensor[n->read[r]].node >= w->start || !form_convert(*form & 15, to, &conversion))
            return false;
        spmd_add_conversion(s->q->costs, s->g, n->read[r], &conversion, &out->load);
        out->moves++;
        *form = hidup_search_pack(*form & 15, to);
    }
    spmd_add_node(s->q->costs, s->g, w->cut, signature, &out->load);
    for (size_t i = 0; i < next->n; i++)
        out->forms[i] = next->crossing[i].made
                            ? hidup_search_pack(signature->made[next->crossing[i].from], FORM_NONE)
                            : forms[next->crossing[i].from];
    out->chosen[out->nodes++] = (uint8_t)k;
    out->cut++;
    return true;
}

static bool must_hurry(struct hidup_search *s)
{
    if (!s->narrow && !s->hurry && s->steps++ % LOOK_EVERY == 0)
        s->hurry =
            (s->q->stop && *s->q->stop) || (s->q->until_s > 0 && clock_now() > s->q->until_s);
    return s->hurry && !s->narrow;
}

static enum status hidup_search_walk(struct hidup_search *s, const struct growing *w)
{
    struct growing longer;
    if (w->cut > s->furthest)
        s->furthest = w->cut;
    if (w->nodes > 0)
        PASS(offer(s, w));
    if (w->nodes >= s->stage_nodes || w->cut == s->g->nodes || must_hurry(s))
        return STATUS_OK;
    for (size_t k = 0; k < s->g->node[w->cut].signatures; k++)
        if (hidup_search_grow(s, w, k, &longer))
            PASS(hidup_search_walk(s, &longer));
    return STATUS_OK;
}

static enum status walk_from(struct hidup_search *s, uint32_t state)
{
    const struct hidup_state *from = &s->state[state];
    struct growing w = {.from = state, .start = from->cut, .cut = from->cut};
    memcpy(w.forms, s->forms + from->forms, s->cut[from->cut].n);
    return from->first == NONE ? STATUS_OK : hidup_search_walk(s, &w);
}

/* ---- from cut to cut */

static double promise(const struct hidup_search *s, uint32_t state, uint32_t *best)
{
    double least = INFINITY;
    for (uint32_t i = s->state[state].first; i != NONE; i = s->partial[i].next) {
        double total = spmd_total(s->q->costs, &s->partial[i].time);
        if (total < least)
            least = total, *best = i;
    }
    return least;
}

/* In a hurry: only the states of the cut that promise most go on. */
static enum status walk_best(struct hidup_search *s, uint32_t cut)
{
    double above = -INFINITY;
    for (size_t k = 0; k < BEAM; k++) {
        uint32_t chosen = NONE, best = NONE;
        double least = INFINITY;
        for (uint32_t i = s->cut[cut].first; i != NONE; i = s->state[i].next) {
            double total = promise(s, i, &best);
            if (total > above && total < least)
                least = total, chosen = i;
        }
        if (chosen == NONE)
            break;
        above = least;
        PASS(walk_from(s, chosen));
    }
    return STATUS_OK;
}

static enum status walk_cut(struct hidup_search *s, uint32_t cut)
{
    for (uint32_t i = s->cut[cut].first; i != NONE && !s->hurry; i = s->state[i].next)
        PASS(walk_from(s, i));
    if (!s->hurry)
        return STATUS_OK;
    s->narrow = true;
    return walk_best(s, cut);
}

static enum status hidup_search_run(struct hidup_search *s)
{
    const struct partial root = {.before = NONE};
    uint32_t state;
    for (size_t i = 0; i < BUCKETS; i++)
        s->bucket[i] = NONE;
    PASS(ARENA_NEW(&s->memory, s->cut, s->g->nodes + 1));
    s->cut[0].first = NONE;
    for (uint32_t i = 0; i < s->g->nodes; i++)
        PASS(next_cut(s, i));
    PASS(state_of(s, 0, (const uint8_t *)"", &state));
    PASS(hidup_search_insert(s, &root));
    for (uint32_t i = 0; i < s->g->nodes; i++)
        PASS(walk_cut(s, i));
    return STATUS_OK;
}

/* Back from the best end, stage by stage. */
static enum status hidup_search_collect(const struct hidup_search *s, uint32_t end,
                                        struct arena *memory, struct spmd_strategy *out)
{
    uint32_t cut = (uint32_t)s->g->nodes;
    PASS(ARENA_NEW(memory, out->chosen, s->g->nodes));
    for (uint32_t i = end; s->partial[i].nodes > 0; i = s->partial[i].before)
        out->stages++;
    PASS(ARENA_NEW(memory, out->stage, out->stages));
    size_t stage = out->stages;
    for (uint32_t i = end; s->partial[i].nodes > 0; i = s->partial[i].before) {
        const struct partial *p = &s->partial[i];
        cut -= p->nodes;
        out->stage[--stage] = (struct spmd_stage){.first = cut, .nodes = p->nodes};
        for (uint32_t k = 0; k < p->nodes; k++)
            out->chosen[cut + k] = s->g->node[cut + k].signature[p->chosen[k]];
    }
    return spmd_complete(s->g, memory, out);
}

enum status spmd_search(const struct spmd_search *q, struct arena *memory, struct spmd_found *out)
{
    enum status st;
    uint32_t best = NONE, end;
    struct spmd_found found = {0};
    struct hidup_search *s;
    PASS(ARRAY_NEW(s, 1));
    s->q = q;
    s->g = q->graph;
    s->stage_nodes = q->stage_nodes ? q->stage_nodes : SPMD_STAGE_NODES;
    TRY(hidup_search_run(s));
    end = s->cut[s->g->nodes].first;
    if (end == NONE || promise(s, end, &best) == INFINITY) {
        uint32_t node = s->furthest < s->g->nodes ? s->furthest : s->furthest - 1;
        FAIL(STATUS_INFEASIBLE,
             "no strategy found%s: node '%s' (%s) accepts none of the input layouts that its "
             "predecessors can produce",
             s->hurry ? " within --time-limit" : "", s->g->node[node].name, s->g->node[node].op);
    }
    TRY(hidup_search_collect(s, best, memory, &found.strategy));
    found.seconds = spmd_seconds(q->costs, q->graph, &found.strategy);
    found.interrupted = s->hurry;
    found.states = s->states;
    found.partials = s->partials;
    found.steps = s->steps;
    *out = found;
out:
    free(s->state);
    free(s->partial);
    free(s->forms);
    arena_free(&s->memory);
    free(s);
    return st;
}
