/* Simulated annealing from every proposal. */
#include "partition/graph/search.h"

#include <math.h>
#include <string.h>

#include "core/base/random.h"

/* So many rounds of all moves to any stage suffice. */
static const double rounds = 200;

/* Units x stages that proposals are cut into, on as many orders of places. */
enum { PLACINGS = 200000, MOST_PLACINGS = 24 };

/* Of a move, in steps of schedules; and places of a dynamic program that take as long as one. */
enum { OVERHEAD = 16, PLACES_PER_STEP = 40 };

/* Parts of an iteration that a move may make worse at first, and at last. Every second start begins
 * warm, to see other orders of devices; the others, where there are few moves for each unit and
 * stage, with so much for each of them: who has no time to cool must not be warm. */
static const double warmest = 0.2, warm_each = 0.002, coldest = 1e-4;

void graph_search_free(struct graph_search *s)
{
    arena_free(&s->memory);
    *s = (struct graph_search){0};
}

static uint32_t below(struct graph_search *s, size_t n)
{
    return (uint32_t)((random_next(&s->random) >> 33) * (uint64_t)n >> 31);
}

static double unit_interval(struct graph_search *s)
{
    return (double)(random_next(&s->random) >> 11) * 0x1p-53;
}

/* ---- moves */

/* Take a unit to a stage, before it what must be no later, or no earlier. False: too many. */
static bool take(struct pipeline *x, uint32_t unit, uint32_t to, struct graph_move *m)
{
    const struct units *u = x->u;
    bool later = to > x->cut.stage[unit];
    size_t first = m->n;
    if (m->n == GRAPH_FOLLOW)
        return false;
    m->moved[m->n++] = (struct graph_moved){unit, x->cut.stage[unit]};
    pipeline_move(x, unit, to);
    for (size_t next = first; next < m->n; next++) {
        uint32_t k = m->moved[next].unit;
        size_t begin = later ? u->reader_start[u->made_start[k]] : u->read_start[k],
               end = later ? u->reader_start[u->made_start[k + 1]] : u->read_start[k + 1];
        for (size_t i = begin; i < end; i++) {
            uint32_t other = later ? u->reader[i] : u->tensor[u->read[i]].from,
                     at = x->cut.stage[other];
            if (later ? at >= to : at <= to)
                continue;
            if (m->n == GRAPH_FOLLOW)
                return false;
            m->moved[m->n++] = (struct graph_moved){other, at};
            pipeline_move(x, other, to);
        }
    }
    return true;
}

void graph_move_undo(struct pipeline *x, const struct graph_move *m)
{
    for (size_t k = m->n; k-- > 0;)
        pipeline_move(x, m->moved[k].unit, m->moved[k].stage);
    if (m->team != UINT32_MAX)
        pipeline_place(x, m->team, m->place);
}

static bool is_whole(const struct pipeline *x)
{
    for (size_t s = 0; s < x->stages; s++)
        if (x->units[s] == 0)
            return false;
    return true;
}

/* A unit goes to the stage beside its own. */
static bool move_unit(struct pipeline *x, uint32_t unit, bool later, struct graph_move *m)
{
    uint32_t from = x->cut.stage[unit];
    if (later ? from + 1 == x->stages : from == 0)
        return false;
    return take(x, unit, later ? from + 1 : from - 1, m);
}

/* Two units of different stages change places: one goes on, one comes back. */
static bool move_pair(struct pipeline *x, uint32_t a, uint32_t b, struct graph_move *m)
{
    uint32_t of_a = x->cut.stage[a], of_b = x->cut.stage[b];
    if (of_a == of_b)
        return false;
    return take(x, a, of_b, m) && (x->cut.stage[b] == of_a || take(x, b, of_a, m));
}

static bool move_team(struct pipeline *x, uint32_t team, uint32_t place, struct graph_move *m)
{
    if (x->cut.place[team] == place)
        return false;
    m->team = team;
    m->place = x->cut.place[team];
    pipeline_place(x, team, place);
    return true;
}

/* A move that leaves no stage without units stays. */
static bool settle(struct pipeline *x, bool moved, const struct graph_move *m)
{
    if (moved && is_whole(x))
        return true;
    graph_move_undo(x, m);
    return false;
}

/* From a unit on to one that nothing in its stage comes behind, or before: such a one moves alone.
 * Ways are drawn. */
static uint32_t walk(struct graph_search *s, uint32_t unit, bool later)
{
    const struct units *u = s->x->u;
    const uint32_t *stage = s->x->cut.stage;
    for (;;) {
        size_t begin = later ? u->reader_start[u->made_start[unit]] : u->read_start[unit],
               end = later ? u->reader_start[u->made_start[unit + 1]] : u->read_start[unit + 1];
        uint32_t next = UINT32_MAX, seen = 0;
        for (size_t i = begin; i < end; i++) {
            uint32_t other = later ? u->reader[i] : u->tensor[u->read[i]].from;
            if (stage[other] == stage[unit] && below(s, ++seen) == 0)
                next = other;
        }
        if (next == UINT32_MAX)
            return unit;
        unit = next;
    }
}

static bool try_any(struct graph_search *s, struct graph_move *m)
{
    struct pipeline *x = s->x;
    size_t n = x->u->n;
    uint32_t kind = x->places > 1 ? below(s, 8) : 1 + below(s, 7);
    bool moved = false;
    *m = (struct graph_move){.team = UINT32_MAX};
    if (kind == 0)
        moved = move_team(x, below(s, x->teams), below(s, x->places), m);
    else if (kind < 3)
        moved = move_pair(x, below(s, n), below(s, n), m);
    else {
        bool later = below(s, 2) == 1;
        uint32_t unit = below(s, n);
        moved = move_unit(x, kind < 4 ? unit : walk(s, unit, later), later, m);
    }
    return settle(x, moved, m);
}

size_t graph_moves(const struct pipeline *x)
{
    return 2 * x->u->n + x->teams * x->places;
}

bool graph_move_try(struct pipeline *x, size_t k, struct graph_move *m)
{
    size_t n = 2 * x->u->n;
    bool moved = false;
    *m = (struct graph_move){.team = UINT32_MAX};
    if (k < n)
        moved = move_unit(x, (uint32_t)(k / 2), k % 2 == 1, m);
    else
        moved = move_team(x, (uint32_t)((k - n) / x->places), (uint32_t)((k - n) % x->places), m);
    return settle(x, moved, m);
}

/* ---- what is found */

const char *graph_source(size_t bit)
{
    return bit > 0 ? graph_proposers[bit - 1].name : "plan";
}

/* Cuts that take as long are the same, but for devices that are alike, or for units of no cost. */
static struct graph_found *known(const struct graph_search *s, double seconds)
{
    for (size_t k = 0; k < s->n; k++)
        if (fabs(s->found[k].seconds - seconds) < 1e-9 * seconds)
            return &s->found[k];
    return NULL;
}

static void keep_best(struct graph_search *s, double seconds, size_t source)
{
    struct graph_found *best = &s->best[source];
    if (best->sources && seconds >= best->seconds)
        return;
    best->sources = 1u << source;
    best->seconds = seconds;
    graph_cut_copy(s->x, &s->x->cut, &best->cut);
}

/* Keep the pipeline's cut if it is among the best. */
static void keep(struct graph_search *s, double seconds, size_t source)
{
    size_t at = s->n;
    keep_best(s, seconds, source);
    struct graph_found *same = known(s, seconds);
    if (same)
        same->sources |= 1u << source;
    if (same || (s->n == s->kept && seconds >= s->found[s->n - 1].seconds))
        return;
    if (s->n < s->kept)
        s->n++;
    else
        at--;
    struct graph_found last = s->found[at];
    for (; at > 0 && s->found[at - 1].seconds > seconds; at--)
        s->found[at] = s->found[at - 1];
    last.seconds = seconds;
    last.sources = 1u << source;
    graph_cut_copy(s->x, &s->x->cut, &last.cut);
    s->found[at] = last;
}

/* ---- search */

/* From the pipeline's cut on. */
static void anneal(struct graph_search *s, size_t source)
{
    struct pipeline *x = s->x;
    double now_s = pipeline_seconds(x, INFINITY), steps = 0;
    double moves = s->effort / (double)(x->steps + OVERHEAD) / (double)(x->u->n * x->stages);
    double first = s->starts++ % 2 ? warmest : fmin(warmest, fmax(warm_each * moves, 10 * coldest));
    keep(s, now_s, source);
    while (steps < s->effort) {
        struct graph_move m;
        double warm = first * pow(coldest / first, steps / s->effort) * now_s;
        steps += OVERHEAD;
        if (!try_any(s, &m))
            continue;
        double limit_s = now_s - warm * log(unit_interval(s)), walked = x->walked;
        double seconds = pipeline_seconds(x, limit_s);
        steps += x->walked - walked;
        if (seconds <= limit_s) {
            now_s = seconds;
            keep(s, now_s, source);
        } else {
            graph_move_undo(x, &m);
        }
    }
    s->steps += steps;
}

/* Another order of places. */
static void shuffle(struct graph_search *s)
{
    struct pipeline *x = s->x;
    for (uint32_t k = 0; k < x->teams; k++)
        pipeline_place(x, k, below(s, x->places));
}

/* What a dynamic program takes, as steps of schedules. */
static double cut_steps(const struct pipeline *x)
{
    return (double)x->u->n * (double)x->u->n / PLACES_PER_STEP;
}

/* Cut the order on the places of `cut`, and on as many others as are worth it: which devices a
 * stage has decides how much it can take. cut: in: places; out: the best. */
static enum status cut_order(struct graph_search *s, const uint32_t *order, struct graph_cut *cut)
{
    enum status st;
    struct pipeline *x = s->x;
    struct arena a = {0};
    struct graph_cut other;
    double best_s = INFINITY;
    size_t tries = 1 + PLACINGS / (x->u->n * x->stages);
    s->steps += cut_steps(x) * (double)(tries < MOST_PLACINGS ? tries : MOST_PLACINGS);
    TRY(graph_cut_new(x, &a, &other));
    pipeline_set(x, cut);
    for (size_t k = 0; k < tries && k < MOST_PLACINGS; k++) {
        if (k > 0)
            shuffle(s);
        memcpy(other.place, x->cut.place, x->teams * sizeof *other.place);
        TRY(proposers_cut(x, order, other.stage));
        pipeline_set(x, &other);
        double seconds = pipeline_seconds(x, best_s);
        if (seconds < best_s) {
            best_s = seconds;
            graph_cut_copy(x, &other, cut);
        }
    }
out:
    arena_free(&a);
    return st;
}

/* A proposer's cut on the places of `from`, or on better ones. */
static enum status start(struct graph_search *s, size_t proposer, const struct graph_cut *from)
{
    enum status st;
    struct arena a = {0};
    struct graph_cut cut;
    uint32_t *order;
    TRY(ARENA_NEW(&a, order, s->x->u->n));
    TRY(graph_cut_new(s->x, &a, &cut));
    graph_cut_copy(s->x, from, &cut);
    st = proposers_order(&graph_proposers[proposer], s->x->u, s->x->stages, order);
    if (st == STATUS_UNSUPPORTED) { /* it has nothing to say about such a graph */
        st = STATUS_OK;
        goto out;
    }
    TRY(st);
    TRY(cut_order(s, order, &cut));
    pipeline_set(s->x, &cut);
    anneal(s, 1 + proposer);
out:
    arena_free(&a);
    return st;
}

enum status graph_search_run(struct pipeline *x, uint64_t seed, size_t kept, double effort,
                             struct graph_search *out)
{
    enum status st;
    struct graph_search s = {.x = x, .random = random_key(seed, 0), .kept = kept};
    s.effort = fmin(effort, rounds * (double)(x->steps * x->u->n * x->stages));
    struct graph_cut given;
    TRY(graph_cut_new(x, &s.memory, &given));
    TRY(ARENA_NEW(&s.memory, s.found, kept));
    for (size_t k = 0; k < kept; k++)
        TRY(graph_cut_new(x, &s.memory, &s.found[k].cut));
    for (size_t k = 0; k < GRAPH_SOURCES; k++)
        TRY(graph_cut_new(x, &s.memory, &s.best[k].cut));
    graph_cut_copy(x, &x->cut, &given);
    anneal(&s, 0);
    size_t n = units_are_chain(x->u) ? 1 : graph_proposers_n; /* all have the only order */
    for (size_t k = 0; k < GRAPH_PASSES * n; k++)
        if (s.steps + cut_steps(x) <= effort * (double)(GRAPH_PASSES * graph_proposers_n + 1))
            TRY(start(&s, k % n, &given));
    MOVE(out, s);
out:
    graph_search_free(&s);
    return st;
}
