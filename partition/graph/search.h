/* search.h - better cuts of a graph than a plan has: proposers begin, moves go on.
 *
 * Deterministic: random numbers are a function of the seed, and effort is counted in steps of
 * pipeline_seconds(). */
#ifndef PARTITION_GRAPH_SEARCH_H
#define PARTITION_GRAPH_SEARCH_H

#include "partition/graph/proposers.h"

/* Whose proposals lead to a cut: bit 0 the plan's own, bit 1 + k those of graph_proposers[k]. */
#define PROPOSER(name, word, summary) +1
enum {
    GRAPH_SOURCES = 1
#include "partition/graph/proposers.def"
};
#undef PROPOSER
const char *graph_source(size_t bit);

/* A cut that was found, and from where: all that came by, not the first only. */
struct graph_found {
    uint32_t sources;
    double seconds; /* pipeline_seconds() */
    struct graph_cut cut;
};

/* What a move has done: units that came along, or a team. */
enum { GRAPH_FOLLOW = 64 };
struct graph_moved {
    uint32_t unit, stage; /* where it was */
};
struct graph_move {
    size_t n;
    struct graph_moved moved[GRAPH_FOLLOW];
    uint32_t team, place; /* where it was; team UINT32_MAX: none moved */
};

/* The neighbours of the pipeline's cut: a unit a stage earlier or later, with those that must come
 * along, or a team on another place. */
size_t graph_moves(const struct pipeline *x);
/* Make move k < graph_moves(); false: there is no such neighbour, and nothing is moved. */
bool graph_move_try(struct pipeline *x, size_t k, struct graph_move *m);
void graph_move_undo(struct pipeline *x, const struct graph_move *m);

/* Starts from every proposal; with the plan's cut there is one more. */
enum { GRAPH_PASSES = 2 };

struct graph_search {
    struct pipeline *x;
    uint64_t seed;
    size_t starts;   /* so far */
    uint64_t random; /* state of the stream of a start */
    double effort;   /* that each start may take: steps of schedules */
    double steps;    /* that all have taken */
    size_t kept;     /* most that found[] has */
    bool ample;      /* each start has all the effort that it needs */
    size_t n;
    struct graph_found *found;              /* [n] different cuts, the best first */
    struct graph_found best[GRAPH_SOURCES]; /* of every source; none has sources 0 */
    /* Of proposer k, once it was asked: [units], NULL: none. */
    uint32_t *order[GRAPH_SOURCES], *stage[GRAPH_SOURCES];
    size_t *depth; /* [stages] scratch */
    struct arena memory;
};

/* Search from the pipeline's cut and from every proposer's, by moves that make worse now and then
 * (simulated annealing, Kirkpatrick, Gelatt, Vecchi, Science 220, 1983): GRAPH_PASSES times where
 * the effort suffices for that; else once and shortly, and on from the best. A move is one of
 * graph_moves(), or two units that change stages.
 *   kept    cuts that are wanted, >= 1
 *   effort  steps of schedules that each start may take; small graphs take less, of large ones not
 *           all proposals are cut
 * out->found is sorted by seconds; the pipeline has any cut behind it. STATUS_NOMEM. */
enum status graph_search_run(struct pipeline *x, uint64_t seed, size_t kept, double effort,
                             struct graph_search *out) MUST_CHECK;
void graph_search_free(struct graph_search *s); /* accepts {0}; leaves {0} */

#endif
