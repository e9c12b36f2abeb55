/* A plan whose only step converts and converts: its collectives, one after the other, are timed. */
#include "papers/command/collective_times.h"

#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "core/collective/collective.h"
#include "core/engine/engine.h"
#include "core/lower/lower.h"

/* An op without work. */
static enum status collective_times_make_model(struct model *out)
{
    enum status st;
    struct model m = {.element_bytes = 4, .n = 1};
    TRY(text_copy("nothing", &m.name));
    TRY(ARRAY_NEW(m.op, 1));
    m.op[0].shares = MODEL_NO_OP;
    TRY(text_copy("nothing", &m.op[0].name));
    TRY(text_copy("nothing", &m.op[0].kind));
    struct model finished = m;
    m = (struct model){0}; /* which is freed on failure */
    TRY(model_finish(&finished, NULL, 0, "nothing"));
    *out = finished;
out:
    model_free(&m);
    return st;
}

static enum status collective_times_make_plan(size_t devices, size_t n, const uint8_t *kind,
                                              const int64_t *bytes, struct plan *out)
{
    enum status st;
    struct plan p = {.microbatches = 1, .microbatch_size = 1};
    TRY(text_copy("nothing", &p.model));
    TRY(text_copy("platform", &p.platform));
    TRY(text_copy("gpipe", &p.schedule));
    TRY(text_copy("sgd", &p.optimizer));
    TRY(ARRAY_NEW(p.stage, 1));
    p.stages = 1;
    p.stage[0] =
        (struct plan_stage){.ops = 1, .devices = devices, .tensor_parallel = (uint32_t)devices};
    p.stage[0].own = strategy_at_least_usual(&p.stage[0].own);
    TRY(ARRAY_NEW(p.stage[0].op, 1));
    TRY(ARRAY_NEW(p.stage[0].device, devices));
    for (uint32_t k = 0; k < devices; k++)
        p.stage[0].device[k] = k;
    TRY(ARRAY_NEW(p.shard, 1));
    TRY(ARRAY_NEW(p.step, 1));
    p.steps = 1;
    p.step[0].ops = 1;
    TRY(ARRAY_NEW(p.step[0].conversion, n));
    for (; p.step[0].conversions < n; p.step[0].conversions++) {
        size_t k = p.step[0].conversions;
        p.step[0].conversion[k] = (struct plan_conversion){.forward = kind[k],
                                                           .backward = COLLECTIVE_KINDS,
                                                           .shared = true,
                                                           .bytes = bytes[k],
                                                           .tensor = (uint32_t)k};
    }
    MOVE(out, p);
out:
    plan_free(&p);
    return st;
}

enum status collective_times(const struct topology *t, size_t devices, size_t n,
                             const uint8_t *kind, const int64_t *bytes, double *seconds)
{
    enum status st;
    struct model m = {0};
    struct plan p = {0};
    struct program program = {0};
    struct simulation s = {0};
    TRY(collective_times_make_model(&m));
    TRY(collective_times_make_plan(devices, n, kind, bytes, &p));
    TRY(plan_lower(&p, &m, t, &program));
    TRY(engine_analytic.run(&program, t, NULL, NULL, &s));
    for (size_t k = 0; k < n; k++)
        seconds[k] = 0; /* of a device alone */
    for (size_t i = program.op_start[0]; i < program.op_start[1]; i++)
        if (op_is_collective(&program.op[i]))
            seconds[program.op[i].tag] = s.timeline.end_s[i] - s.timeline.start_s[i];
out:
    simulation_free(&s);
    program_free(&program);
    plan_free(&p);
    model_free(&m);
    return st;
}
