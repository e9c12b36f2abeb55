/* The table of published objectives and of their algorithms, out of model/papers.def, and
 * solving by the name of an algorithm. */
#include "papers/common/objective.h"

#include <string.h>

#include "core/base/clock.h"
#include "core/base/text.h"

const struct objective *const objectives[] = {
#define OBJECTIVE(name, plans) &objective_##name,
#include "model/papers.def"
#undef OBJECTIVE
};
const size_t objectives_n = sizeof objectives / sizeof *objectives;

enum status objective_find(const char *name, const struct objective **out)
{
    return text_find("objective", name, objectives, objectives_n, out);
}

static const struct {
    const struct objective *objective;
    struct objective_algorithm algorithm;
} algorithms[] = {
#define ALGORITHM(objective, name, on_devices, summary, guarantee)                                 \
    {&objective_##objective, {#name, objective##_##name##_solve, on_devices}},
#include "model/papers.def"
#undef ALGORITHM
};

const struct objective_algorithm *objective_algorithm(const struct objective *o, size_t i)
{
    for (size_t k = 0; k < sizeof algorithms / sizeof *algorithms; k++)
        if (algorithms[k].objective == o && i-- == 0)
            return &algorithms[k].algorithm;
    return NULL;
}

enum status objective_find_algorithm(const struct objective *o, const char *name,
                                     const struct objective_algorithm **out)
{
    const struct objective_algorithm *a;
    for (size_t i = 0; (a = objective_algorithm(o, i)); i++)
        if (!name || !strcmp(a->name, name)) {
            *out = a;
            return STATUS_OK;
        }
    return error_set(STATUS_USAGE, "--algorithm: objective %s has no algorithm '%.60s'", o->name,
                     name);
}

double objective_gap(const struct objective_result *r)
{
    double gap = r->value > 0 ? 1 - r->lower_bound / r->value : 0;
    return gap > 1e-12 ? 100 * gap : 0;
}

/* Algorithms fill the result in place; what one has put there before it failed is released
 * here. */
enum status objective_solve(const struct objective *o, const char *algorithm,
                            const struct objective_request *r, struct objective_result *out)
{
    struct objective_result result = {0};
    const struct objective_algorithm *a;
    PASS(objective_find_algorithm(o, algorithm, &a));
    double begin_s = clock_cpu();
    enum status st = a->solve(r, &result);
    if (st != STATUS_OK) {
        objective_result_free(&result);
        return st;
    }
    result.algorithm = a->name;
    result.cpu_s = clock_cpu() - begin_s;
    *out = result;
    return STATUS_OK;
}
