/* Local search from several starts (start.h), each improved by moves and label exchanges
 * (refine.h). */
#include <stdlib.h>

#include "core/base/array.h"
#include "papers/cpsc526/refine.h"

enum { TRIES = 20 }; /* as many restarts as the course project makes */

enum status cpsc526_local_solve(const struct objective_request *r, struct objective_result *out)
{
    enum status st = STATUS_OK;
    struct cpsc526_problem p = {0};
    struct cpsc526_search s = cpsc526_search_begin(r);
    uint32_t *label;
    double value;
    s.whole = true;
    TRY(cpsc526_problem_build(r, &p));
    TRY(ARENA_NEW(&p.memory, label, p.n));
    TRY(cpsc526_search_best(&p, &s, TRIES, label, &value));
    TRY(cpsc526_report(r, &p, label, "moves and swaps from consecutive and random starting points",
                       out));
    out->interrupted = s.stopped;
out:
    cpsc526_problem_free(&p);
    return st;
}
