/* Lowering, simulating and measuring for tests of what plans become. */
#include "tests/lowered.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/lower/lower.h"
#include "sim/engines.h"
#include "tests/cmocka.h"
#include "tests/sample.h"

void lower(struct lowered *s)
{
    program_free(&s->program);
    if (plan_lower(&s->plan, &s->model, &s->topology, &s->program) != STATUS_OK)
        fail_msg("%s", error_message());
}

struct measurement lowered_measure(const struct engine *e, const struct lowered *s)
{
    struct simulation result = {0};
    struct measurement m = {0};
    char *star = s->platform ? NULL : sample_star_file(s->topology.n, 0, 1e9);
    const char *platform = star ? star : s->platform;
    if (e->run(&s->program, &s->topology, platform, NULL, &result) != STATUS_OK ||
        measurement_from_timeline(&s->program, &result.timeline, &m) != STATUS_OK)
        fail_msg("%s: %s", e->name, error_message());
    simulation_free(&result);
    if (star)
        unlink(star);
    free(star);
    return m;
}

double lowered_seconds(struct lowered *s, double *exposed_s)
{
    lower(s);
    struct measurement a = lowered_measure(&engine_analytic, s),
                       b = lowered_measure(&engine_simgrid, s);
    double t = a.iteration_s;
    assert_near(b.iteration_s, t, 1e-6 * t);
    for (size_t k = 0; exposed_s && k < OP_PURPOSES; k++) {
        assert_near(a.rank[0].exposed_s[k], b.rank[0].exposed_s[k], 1e-6 * t + 1e-12);
        exposed_s[k] = a.rank[0].exposed_s[k];
    }
    for (size_t r = 0; r < a.ranks; r++)
        assert_near(a.rank[r].busy_s + a.rank[r].exposed_comm_s + a.rank[r].idle_s, t, 1e-12);
    measurement_free(&a);
    measurement_free(&b);
    return t;
}

void lowered_free(struct lowered *s)
{
    program_free(&s->program);
    plan_free(&s->plan);
    topology_free(&s->topology);
    model_free(&s->model);
    free(s->platform);
    *s = (struct lowered){0};
}
