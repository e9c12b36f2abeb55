/* auto_search.h - what the parts of `auto` share: auto.c keeps and ranks candidates, auto_shapes.c
 * makes them. Private. */
#ifndef PARTITION_AUTO_SEARCH_H
#define PARTITION_AUTO_SEARCH_H

#include "core/schedule.h"
#include "partition/auto.h"

enum { AUTO_SHARDS = 8, AUTO_SIZES = 24 }; /* powers of two that are told apart */

struct search {
    const struct model *m;
    const struct topology *t;
    const struct auto_request *r;
    const struct evaluator *e;
    const struct partition_algorithm *balanced, *uniform;
    const struct schedule *usual; /* tried first */
    uint32_t *order;              /* [t->n] */
    double begin_s;
    double best_s;                                /* of what fits, INFINITY at first */
    uint32_t shallowest[AUTO_SHARDS][AUTO_SIZES]; /* stages of a pipeline that fits as it is, by
                                                   * log2 of shards and microbatch size; 0: none */
    size_t room;
    struct auto_result result;
};

extern const char auto_candidate_role[], auto_data_parallel_role[], auto_uniform_role[];

/* Keep a candidate: *c is taken over and becomes {0}. */
enum status auto_keep(struct search *s, struct auto_candidate *c) MUST_CHECK;
void auto_candidate_free(struct auto_candidate *c); /* accepts {0} */
bool auto_must_stop(const struct search *s);

/* Every shape in every schedule; then the baselines. Sets result.interrupted when told to stop. */
enum status auto_try_all(struct search *s) MUST_CHECK;
enum status auto_try_baselines(struct search *s) MUST_CHECK;

#endif
