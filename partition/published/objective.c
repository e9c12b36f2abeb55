#include "partition/published/objective.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/array.h"
#include "core/clock.h"
#include "core/text.h"
#include "partition/published/cpsc526/cpsc526.h"
#include "partition/published/pipedream/pipedream.h"
#include "partition/published/piper/piper.h"
#include "partition/published/pippy/pippy.h"
#include "partition/published/placement/problem.h"

const struct objective *const objectives[] = {
    &objective_pipedream, &objective_cpsc526,   &objective_piper,
    &objective_pippy,     &objective_placement,
};
const size_t objectives_n = sizeof objectives / sizeof *objectives;

static const char *name_of(size_t i)
{
    return objectives[i]->name;
}

enum status objective_find(const char *name, const struct objective **out)
{
    size_t i;
    enum status st = text_find("objective", name, name_of, objectives_n, &i);
    if (st == STATUS_OK)
        *out = objectives[i];
    return st;
}

static const struct objective_algorithm *find_algorithm(const struct objective *o, const char *name)
{
    for (size_t i = 0; i < o->algorithms; i++)
        if (!name || !strcmp(o->algorithm[i]->name, name))
            return o->algorithm[i];
    return NULL;
}

enum status objective_solve(const struct objective *o, const char *algorithm,
                            const struct objective_request *r, struct objective_result *out)
{
    enum status st;
    struct objective_result result = {0};
    const struct objective_algorithm *a = find_algorithm(o, algorithm);
    if (!a)
        return error_set(STATUS_INVALID, "objective %s has no algorithm '%.60s'", o->name,
                         algorithm);
    double begin_s = clock_cpu();
    TRY(a->solve(r, &result));
    if (!result.algorithm)
        TRY(text_copy(a->name, &result.algorithm));
    result.cpu_s = clock_cpu() - begin_s;
    *out = result;
    result = (struct objective_result){0};
out:
    objective_result_free(&result);
    return st;
}

void objective_result_free(struct objective_result *r)
{
    for (size_t i = 0; r->part && i < r->parts; i++) {
        for (size_t k = 0; r->part[i].op && k < r->part[i].ops; k++)
            free(r->part[i].op[k]);
        for (size_t k = 0; r->part[i].configuration && k < r->part[i].ops; k++)
            free(r->part[i].configuration[k]);
        free(r->part[i].op);
        free(r->part[i].configuration);
        free(r->part[i].device);
    }
    free(r->part);
    free(r->algorithm);
    free(r->note);
    *r = (struct objective_result){0};
}

bool objective_must_stop(const struct objective_request *r, double begin_s, double default_limit_s)
{
    double limit_s = r->time_limit_s > 0 ? r->time_limit_s : default_limit_s;
    return (r->stop && *r->stop) || clock_now() - begin_s > limit_s;
}

enum status objective_add_part(struct objective_result *out, const char *const *op, size_t ops,
                               const char *device)
{
    enum status st = STATUS_OK;
    struct objective_part *larger = realloc(out->part, (out->parts + 1) * sizeof *larger);
    if (!larger)
        return error_set(STATUS_NOMEM, "%zu parts", out->parts + 1);
    out->part = larger;
    struct objective_part *p = &out->part[out->parts++];
    *p = (struct objective_part){.replicas = 1, .tensor_parallel = 1};
    PASS(ARRAY_NEW(p->op, ops + 1));
    for (; p->ops < ops; p->ops++)
        TRY(text_copy(op[p->ops], &p->op[p->ops]));
    if (device)
        TRY(text_copy(device, &p->device));
out:
    return st;
}
