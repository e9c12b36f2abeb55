/* Finds the states of PipeDream's antichain walk as down-sets, sorts them by size, and notes
 * which contains which. */
#include "papers/pipedream/states.h"

#include <string.h>

#include "core/base/array.h"
#include "core/base/intern.h"

/* The walk over the down-sets that are cut after. */
struct state_walk {
    const struct pipedream_graph *g;
    struct interner sets; /* found so far */
    uint64_t *next;       /* [words] scratch */
};

static const uint64_t *pipedream_states_found(const struct interner *sets, size_t i)
{
    return (const uint64_t *)sets->data + i * (sets->size / sizeof(uint64_t));
}

/* Every node outside the set that reads something made inside makes a larger set, with its
 * ancestors. */
static enum status pipedream_states_visit(struct state_walk *w, size_t state)
{
    const struct pipedream_graph *g = w->g;
    uint32_t index;
    for (size_t u = 0; u < g->n; u++) {
        if (!set_has(pipedream_states_found(&w->sets, state), u))
            continue;
        for (size_t k = g->out_start[u]; k < g->out_start[u + 1]; k++) {
            const uint64_t *set = pipedream_states_found(&w->sets, state);
            if (set_has(set, g->out[k]))
                continue;
            for (size_t i = 0; i < g->words; i++)
                w->next[i] = set[i] | g->ancestors[g->out[k] * g->words + i];
            PASS(intern(&w->sets, w->next, w->sets.size, &index, NULL));
        }
    }
    return STATUS_OK;
}

static size_t pipedream_states_count(const uint64_t *set, size_t words)
{
    size_t n = 0;
    for (size_t w = 0; w < words; w++)
        n += (size_t)__builtin_popcountll(set[w]);
    return n;
}

/* Move the sets into order of size, ties in order of discovery. */
static enum status sort(const struct interner *sets, size_t nodes, struct pipedream_states *s)
{
    size_t words = sets->size / sizeof(uint64_t), *start;
    s->n = sets->n;
    s->words = words;
    s->before_words = s->n / 64 + 1;
    PASS(ARENA_NEW(&s->memory, start, nodes + 2));
    PASS(ARENA_NEW(&s->memory, s->set, s->n * words));
    PASS(ARENA_NEW(&s->memory, s->before, s->n * s->before_words));
    PASS(ARENA_NEW(&s->memory, s->compute_s, s->n));
    PASS(ARENA_NEW(&s->memory, s->activation, s->n));
    PASS(ARENA_NEW(&s->memory, s->parameter, s->n));
    PASS(ARENA_NEW(&s->memory, s->cut_bytes, s->n));
    for (size_t i = 0; i < s->n; i++)
        start[pipedream_states_count(pipedream_states_found(sets, i), words) + 1]++;
    for (size_t i = 0; i <= nodes; i++)
        start[i + 1] += start[i];
    for (size_t i = 0; i < s->n; i++) {
        const uint64_t *set = pipedream_states_found(sets, i);
        memcpy(s->set + start[pipedream_states_count(set, words)]++ * words, set,
               words * sizeof *set);
    }
    s->complete = pipedream_states_count(s->set + (s->n - 1) * words, words) == nodes;
    return STATUS_OK;
}

/* Sums over each down-set; a stage's are differences of two of them. */
static void pipedream_states_sum(const struct pipedream_graph *g, struct pipedream_states *s,
                                 uint64_t *room)
{
    for (size_t j = 0; j < s->n; j++) {
        const uint64_t *set = s->set + j * s->words;
        for (size_t i = 0; i < g->n; i++)
            if (set_has(set, i)) {
                s->compute_s[j] += g->compute_s[i];
                s->activation[j] += g->activation[i];
                s->parameter[j] += g->parameter[i];
            }
        s->cut_bytes[j] = pipedream_cut_bytes(g, set, room);
    }
}

/* A down-set contains another if it has the other's maximal nodes. */
static enum status pipedream_states_compare(const struct pipedream_graph *g,
                                            struct pipedream_states *s)
{
    uint32_t *maximal;
    PASS(ARENA_NEW(&s->memory, maximal, g->n));
    for (size_t k = 0; k < s->n; k++) {
        size_t n = 0;
        for (size_t i = 0; i < g->n; i++)
            if (pipedream_is_maximal(g, s->set + k * s->words, i))
                maximal[n++] = (uint32_t)i;
        for (size_t j = k + 1; j < s->n; j++) {
            size_t i = 0;
            while (i < n && set_has(s->set + j * s->words, maximal[i]))
                i++;
            if (i == n)
                set_add(s->before + j * s->before_words, k);
        }
    }
    return STATUS_OK;
}

/* Breadth first from the down-set of node 0, each set once. */
enum status pipedream_states_build(const struct pipedream_graph *g, size_t limit,
                                   struct pipedream_states *s, bool *too_many)
{
    enum status st;
    struct state_walk w = {.g = g, .sets = {.size = g->words * sizeof(uint64_t)}};
    uint32_t first;
    TRY(ARENA_NEW(&s->memory, w.next, g->words));
    TRY(intern(&w.sets, g->ancestors, w.sets.size, &first, NULL));
    for (size_t i = 0; i < w.sets.n && w.sets.n <= limit; i++)
        TRY(pipedream_states_visit(&w, i));
    *too_many = w.sets.n > limit;
    if (*too_many)
        goto out;
    TRY(sort(&w.sets, g->n, s));
    pipedream_states_sum(g, s, w.next);
    TRY(pipedream_states_compare(g, s));
out:
    interner_free(&w.sets);
    return st;
}

void pipedream_states_free(struct pipedream_states *s)
{
    arena_free(&s->memory);
    *s = (struct pipedream_states){0};
}
