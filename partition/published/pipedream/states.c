#include "partition/published/pipedream/states.h"

#include "core/array.h"

#include <stdlib.h>
#include <string.h>

enum { NO_STATE = UINT32_MAX };

/* Down-sets found so far, found again by hashing. */
struct walk {
    const struct pipedream_graph *g;
    size_t n, room, slots; /* slots is a power of two, at least twice n */
    uint64_t *set;         /* [n * words] */
    uint32_t *slot;        /* [slots] */
    uint64_t *next;        /* [words] scratch */
};

static size_t hash(const uint64_t *set, size_t words)
{
    uint64_t h = 0x9e3779b97f4a7c15u;
    for (size_t w = 0; w < words; w++) {
        h = (h ^ set[w]) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    return (size_t)h;
}

/* Slot of the set, or the free one where it belongs. */
static size_t find_slot(const struct walk *w, const uint64_t *set)
{
    size_t words = w->g->words, at = hash(set, words) & (w->slots - 1);
    while (w->slot[at] != NO_STATE &&
           memcmp(w->set + w->slot[at] * words, set, words * sizeof *set) != 0)
        at = (at + 1) & (w->slots - 1);
    return at;
}

static enum status grow(struct walk *w)
{
    size_t room = w->room ? 2 * w->room : 256, slots = 4 * room;
    uint64_t *set = realloc(w->set, room * w->g->words * sizeof *set);
    if (!set)
        return error_set(STATUS_NOMEM, "%zu states", room);
    w->set = set;
    uint32_t *slot = malloc(slots * sizeof *slot);
    if (!slot)
        return error_set(STATUS_NOMEM, "%zu states", room);
    free(w->slot);
    w->slot = slot;
    w->slots = slots;
    w->room = room;
    for (size_t i = 0; i < slots; i++)
        slot[i] = NO_STATE;
    for (size_t i = 0; i < w->n; i++)
        slot[find_slot(w, w->set + i * w->g->words)] = (uint32_t)i;
    return STATUS_OK;
}

static enum status add(struct walk *w, const uint64_t *set)
{
    enum status st = STATUS_OK;
    if (w->n == w->room)
        TRY(grow(w));
    size_t at = find_slot(w, set);
    if (w->slot[at] == NO_STATE) {
        memcpy(w->set + w->n * w->g->words, set, w->g->words * sizeof *set);
        w->slot[at] = (uint32_t)w->n++;
    }
out:
    return st;
}

static enum status visit(struct walk *w, size_t state)
{
    enum status st = STATUS_OK;
    const struct pipedream_graph *g = w->g;
    for (size_t u = 0; u < g->n; u++) {
        if (!set_has(w->set + state * g->words, u))
            continue;
        for (size_t k = g->out_start[u]; k < g->out_start[u + 1]; k++) {
            const uint64_t *set = w->set + state * g->words;
            if (set_has(set, g->out[k]))
                continue;
            for (size_t i = 0; i < g->words; i++)
                w->next[i] = set[i] | g->ancestors[g->out[k] * g->words + i];
            TRY(add(w, w->next));
        }
    }
out:
    return st;
}

static size_t count(const uint64_t *set, size_t words)
{
    size_t n = 0;
    for (size_t w = 0; w < words; w++)
        n += (size_t)__builtin_popcountll(set[w]);
    return n;
}

/* Move the sets into order of size, ties in order of discovery. */
static enum status sort(const struct walk *w, struct pipedream_states *s)
{
    enum status st = STATUS_OK;
    size_t nodes = w->g->n, words = w->g->words;
    size_t *start = calloc(nodes + 2, sizeof *start);
    s->n = w->n;
    s->words = words;
    s->before_words = w->n / 64 + 1;
    s->set = calloc(w->n * words, sizeof *s->set);
    s->before = calloc(w->n * s->before_words, sizeof *s->before);
    s->compute_s = calloc(w->n, sizeof *s->compute_s);
    s->activation = calloc(w->n, sizeof *s->activation);
    s->parameter = calloc(w->n, sizeof *s->parameter);
    s->cut_bytes = calloc(w->n, sizeof *s->cut_bytes);
    if (!start || !s->set || !s->before || !s->compute_s || !s->activation || !s->parameter ||
        !s->cut_bytes) {
        st = error_set(STATUS_NOMEM, "%zu states", w->n);
        goto out;
    }
    for (size_t i = 0; i < w->n; i++)
        start[count(w->set + i * words, words) + 1]++;
    for (size_t i = 0; i <= nodes; i++)
        start[i + 1] += start[i];
    for (size_t i = 0; i < w->n; i++) {
        const uint64_t *set = w->set + i * words;
        memcpy(s->set + start[count(set, words)]++ * words, set, words * sizeof *set);
    }
    s->complete = count(s->set + (s->n - 1) * words, words) == nodes;
out:
    free(start);
    return st;
}

static void sum(const struct pipedream_graph *g, struct pipedream_states *s, uint64_t *room)
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
static enum status compare(const struct pipedream_graph *g, struct pipedream_states *s)
{
    enum status st = STATUS_OK;
    uint32_t *maximal = calloc(g->n, sizeof *maximal);
    if (!maximal) {
        st = error_set(STATUS_NOMEM, "%zu nodes", g->n);
        goto out;
    }
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
out:
    free(maximal);
    return st;
}

enum status pipedream_states_build(const struct pipedream_graph *g, size_t limit,
                                   struct pipedream_states *out, bool *too_many)
{
    enum status st = STATUS_OK;
    struct pipedream_states s = {0};
    struct walk w = {.g = g};
    *too_many = false;
    TRY(ARRAY_NEW(w.next, g->words));
    TRY(add(&w, g->ancestors));
    for (size_t i = 0; i < w.n && w.n <= limit; i++)
        TRY(visit(&w, i));
    if (w.n > limit) {
        *too_many = true;
        goto out;
    }
    TRY(sort(&w, &s));
    sum(g, &s, w.next);
    TRY(compare(g, &s));
    *out = s;
    s = (struct pipedream_states){0};
out:
    free(w.next);
    free(w.slot);
    free(w.set);
    pipedream_states_free(&s);
    return st;
}

void pipedream_states_free(struct pipedream_states *s)
{
    free(s->set);
    free(s->before);
    free(s->compute_s);
    free(s->activation);
    free(s->parameter);
    free(s->cut_bytes);
    *s = (struct pipedream_states){0};
}
