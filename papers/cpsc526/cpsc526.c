/* The row of the course project's metric, and the score of a split by that metric. */
#include <math.h>

#include "core/base/array.h"
#include "papers/common/split.h"
#include "papers/cpsc526/problem.h"

/* Every op in one of exactly k parts: the project's metric is infinite for an empty part, and
 * parts are devices. */
static enum status cpsc526_score_split(const struct objective_request *r, const char *path,
                                       double *value)
{
    enum status st = STATUS_OK;
    struct cpsc526_problem p = {0};
    struct split s = {0};
    double *weight;
    TRY(cpsc526_problem_build(r, &p));
    TRY(split_read(path, r->model, &s));
    for (size_t i = 0; i < p.n; i++)
        if (s.part_of[i] == SPLIT_NONE)
            FAIL(STATUS_INVALID, "the split does not contain op '%s'", r->model->op[i].name);
    if (s.parts != p.k)
        FAIL(STATUS_INVALID,
             "the split has %zu parts for %zu devices, expected one part per device", s.parts, p.k);
    TRY(ARENA_NEW(&p.memory, weight, p.k));
    double metric = cpsc526_metric(&p, s.part_of, weight);
    if (isinf(metric))
        FAIL(STATUS_INFEASIBLE, "a part of the split is empty, which makes the metric infinite");
    *value = metric;
out:
    split_free(&s);
    cpsc526_problem_free(&p);
    return st;
}

const struct objective objective_cpsc526 = {
    .name = "cpsc526",
    .unit = "parameters^2 + edges",
    .summary =
        "a course project's metric: imbalance of parameters plus cut edges weighted by distance",
    .score = cpsc526_score_split,
};
