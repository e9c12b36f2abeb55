/* Simulated annealing from every proposal. */
#include "partition/graph/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/random.h"

/* So many rounds of all moves to any stage suffice. */
static const double rounds = 200;

/* Units x stages that proposals are cut into, on as many orders of places. */
enum { PLACINGS = 200000, MOST_PLACINGS = 24 };

/* Of a move, in steps of schedules. */
enum { OVERHEAD = 16 };

/* Parts of an iteration that a move may make worse at first, and at last. Every second start begins
 * warm, to see other orders of devices; the others, where there are few moves for each unit and
 * stage, with so much for each of them: who has no time to cool must not be warm. */
static const double warmest = 0.2, warm_each = 0.002, coldest = 1e-4;

void graph_search_free(struct graph_search *s)
{
    arena_free(&s->memory);
    *s = (struct graph_search){0};
}

/* Of what every start may take, where that is too little; the rest goes to so many of the best. */
static const double short_part = 0.25;
enum { FURTHER = 4 };

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

/* The stage that a unit touches next, later or earlier: where stages stand side by side it need not
 * be the one beside its own. */
static uint32_t next_stage(const struct pipeline *x, uint32_t unit, bool later)
{
    const struct units *u = x->u;
    uint32_t from = x->cut.stage[unit], to = UINT32_MAX;
    size_t begin = later ? u->reader_start[u->made_start[unit]] : u->read_start[unit],
           end = later ? u->reader_start[u->made_start[unit + 1]] : u->read_start[unit + 1];
    for (size_t i = begin; i < end; i++) {
        uint32_t at = x->cut.stage[later ? u->reader[i] : u->tensor[u->read[i]].from];
        if (at != from && (to == UINT32_MAX || (later ? at < to : at > to)))
            to = at;
    }
    return to != UINT32_MAX ? to : later ? from + 1 : from - 1;
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
        if (kind < 4) {
            moved = move_unit(x, unit, later, m);
        } else {
            unit = walk(s, unit, later);
            uint32_t to = next_stage(x, unit, later);
            moved = to < x->stages && take(x, unit, to, m);
        }
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
static void anneal(struct graph_search *s, size_t source, bool warm_start)
{
    struct pipeline *x = s->x;
    double now_s = pipeline_seconds(x, INFINITY), steps = 0;
    double moves = s->effort / (double)(x->steps + OVERHEAD) / (double)(x->u->n * x->stages);
    s->random = random_key(s->seed, s->starts++);
    double first = warm_start ? warmest : fmin(warmest, fmax(warm_each * moves, 10 * coldest));
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

/* Orders of places that a proposal is cut on. */
static size_t placings(const struct pipeline *x)
{
    size_t n = 1 + PLACINGS / (x->u->n * x->stages);
    return n < MOST_PLACINGS ? n : MOST_PLACINGS;
}

/* What a proposal takes, as steps of schedules: its keys, measured on 4,000 and 40,000 units, and a
 * dynamic program for each order of places. */
static double proposal_steps(const struct pipeline *x, bool asked)
{
    double n = (double)x->u->n, keys = asked ? 0 : 2 * n * sqrt(n);
    return keys + n * (double)(x->stages * placings(x));
}

/* Cut the order on the places of `cut`, and on as many others as are worth it: which devices a
 * stage has decides how much it can take.
 *   own  the proposer's own stages instead
 *   cut  in: places; out: the best */
static enum status cut_order(struct graph_search *s, size_t proposer, bool own,
                             struct graph_cut *cut)
{
    enum status st;
    struct pipeline *x = s->x;
    struct arena a = {0};
    struct graph_cut other;
    double best_s = INFINITY;
    TRY(graph_cut_new(x, &a, &other));
    pipeline_set(x, cut);
    for (size_t k = 0; k < placings(x); k++) {
        if (k > 0)
            shuffle(s);
        memcpy(other.place, x->cut.place, x->teams * sizeof *other.place);
        if (own)
            memcpy(other.stage, s->stage[proposer], x->u->n * sizeof *other.stage);
        else
            TRY(proposers_cut(x, s->order[proposer], other.stage));
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

/* The proposer's order and its own stages; none where it has nothing to say about the graph. */
static enum status ask(struct graph_search *s, size_t proposer)
{
    enum status st;
    const struct units *u = s->x->u;
    size_t parts = s->x->stages;
    uint32_t *order, *stage;
    double *key = NULL;
    TRY(ARRAY_NEW(key, u->n));
    TRY(ARENA_NEW(&s->memory, order, u->n));
    TRY(ARENA_NEW(&s->memory, stage, u->n));
    st = proposers_order(&graph_proposers[proposer], u, parts, order, key);
    s->order[proposer] = st == STATUS_OK ? order : NULL;
    if (st == STATUS_UNSUPPORTED)
        st = STATUS_OK;
    else if (st == STATUS_OK && proposers_stages(u, parts, key, stage))
        s->stage[proposer] = stage;
out:
    free(key);
    return st;
}

/* From the proposer's cut on the places of `from`, or on better ones; or from its own stages, which
 * moves balance. */
static enum status start(struct graph_search *s, size_t proposer, bool own, bool warm_start,
                         const struct graph_cut *from)
{
    enum status st = STATUS_OK;
    struct arena a = {0};
    struct graph_cut cut;
    if (!(own ? s->stage : s->order)[proposer])
        return STATUS_OK;
    TRY(graph_cut_new(s->x, &a, &cut));
    graph_cut_copy(s->x, from, &cut);
    TRY(cut_order(s, proposer, own, &cut));
    pipeline_set(s->x, &cut);
    anneal(s, 1 + proposer, warm_start);
out:
    arena_free(&a);
    return st;
}

/* From all proposals, as long as there are steps. */
static enum status start_all(struct graph_search *s, double most, int pass,
                             const struct graph_cut *from)
{
    size_t n = units_are_chain(s->x->u) ? 1 : graph_proposers_n; /* all have the only order */
    for (size_t k = 0; k < n; k++) {
        double steps = proposal_steps(s->x, pass > 0);
        if (s->steps + steps > most)
            continue;
        s->steps += steps;
        if (pass == 0)
            PASS(ask(s, k));
        PASS(start(s, k, false, ((size_t)pass + k) % 2 == 0, from));
        PASS(start(s, k, true, false, from));
    }
    return STATUS_OK;
}

/* How many stages come one behind the other in the pipeline's cut, at most. */
static size_t depth(struct graph_search *s)
{
    const struct pipeline *x = s->x;
    size_t most = 0;
    for (size_t b = 0; b < x->stages; b++) {
        s->depth[b] = 1;
        for (size_t a = 0; a < b; a++)
            if (x->bytes[a * x->stages + b] >= 0.5 && s->depth[a] >= s->depth[b])
                s->depth[b] = s->depth[a] + 1;
        most = s->depth[b] > most ? s->depth[b] : most;
    }
    return most;
}

/* The best source that is not done and whose cut is less deep; GRAPH_SOURCES: none. */
static size_t pick(const struct graph_search *s, uint32_t done, const size_t *depth_of,
                   size_t below_depth)
{
    size_t best = GRAPH_SOURCES;
    for (size_t k = 0; k < GRAPH_SOURCES; k++)
        if (s->best[k].sources && !(done >> k & 1) && depth_of[k] < below_depth &&
            (best == GRAPH_SOURCES || s->best[k].seconds < s->best[best].seconds))
            best = k;
    return best;
}

/* Where there are too few steps to go far from every proposal: on from the best, and from the best
 * of stages that stand less deep, which no move leads to. */
static void go_on(struct graph_search *s, double most)
{
    uint32_t done = 0;
    size_t depth_of[GRAPH_SOURCES] = {0}, least = SIZE_MAX;
    for (size_t k = 0; k < GRAPH_SOURCES; k++)
        if (s->best[k].sources) {
            pipeline_set(s->x, &s->best[k].cut);
            depth_of[k] = depth(s);
        }
    for (size_t left = FURTHER; left > 0 && s->steps < most; left--) {
        size_t source = pick(s, done, depth_of, least);
        if (source == GRAPH_SOURCES)
            source = pick(s, done, depth_of, SIZE_MAX);
        if (source == GRAPH_SOURCES)
            return;
        done |= 1u << source;
        least = depth_of[source] < least ? depth_of[source] : least;
        s->effort = (most - s->steps) / (double)left;
        pipeline_set(s->x, &s->best[source].cut);
        anneal(s, source, false);
    }
}

enum status graph_search_run(struct pipeline *x, uint64_t seed, size_t kept, double effort,
                             struct graph_search *out)
{
    enum status st;
    struct graph_search s = {.x = x, .seed = seed, .kept = kept};
    double enough = rounds * (double)(x->steps * x->u->n * x->stages),
           most = effort * (double)(GRAPH_PASSES * graph_proposers_n + 1);
    s.ample = enough <= effort;
    s.effort = s.ample ? enough : short_part * effort;
    struct graph_cut given;
    TRY(graph_cut_new(x, &s.memory, &given));
    TRY(ARENA_NEW(&s.memory, s.found, kept));
    TRY(ARENA_NEW(&s.memory, s.depth, x->stages));
    for (size_t k = 0; k < kept; k++)
        TRY(graph_cut_new(x, &s.memory, &s.found[k].cut));
    for (size_t k = 0; k < GRAPH_SOURCES; k++)
        TRY(graph_cut_new(x, &s.memory, &s.best[k].cut));
    graph_cut_copy(x, &x->cut, &given);
    anneal(&s, 0, false);
    for (int pass = 0; pass < (s.ample ? GRAPH_PASSES : 1); pass++)
        TRY(start_all(&s, most, pass, &given));
    if (!s.ample)
        go_on(&s, most);
    MOVE(out, s);
out:
    graph_search_free(&s);
    return st;
}
