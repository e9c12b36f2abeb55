/* A program of one op for each rank, all of one group. */
#include "sim/call.h"

#include <math.h>

#include "core/base/array.h"
#include "core/base/text.h"

static enum status call_program(const struct call *c, struct program *out)
{
    enum status st;
    size_t n = c->ranks;
    struct program p = {.microbatches = 1, .microbatch_size = 1, .groups = 1};
    TRY(ARRAY_NEW(p.rank, n));
    TRY(ARRAY_NEW(p.op_start, n + 1));
    TRY(ARRAY_NEW(p.op, n + 1));
    TRY(ARRAY_NEW(p.dep, 1));
    TRY(ARRAY_NEW(p.group_start, 2));
    TRY(ARRAY_NEW(p.member, n));
    TRY(ARRAY_NEW(p.stage_start, n + 1));
    TRY(ARRAY_NEW(p.stage_op, n));
    TRY(text_copy("sgd", &p.optimizer));
    for (uint32_t r = 0; r < n; r++) {
        p.op[r] = (struct program_op){.kind = (uint8_t)c->kind,
                                      .stage = r,
                                      .microbatch = PROGRAM_NONE,
                                      .tag = PROGRAM_NONE,
                                      .peer_stage = PROGRAM_NONE,
                                      .count = 1,
                                      .bytes = c->bytes};
        p.rank[r].device = p.rank[r].stage = p.member[r] = p.stage_op[r] = r;
        p.op_start[r + 1] = p.stage_start[r + 1] = r + 1;
        TRY(text_copy(c->topology->device[r], &p.rank[r].name));
        p.ranks++;
    }
    p.ops = p.stages = p.group_start[1] = n;
    TRY(program_plain_stages(&p));
    TRY(program_match(&p));
    MOVE(out, p);
out:
    program_free(&p);
    return st;
}

enum status call_simulate(const struct call *c, const struct engine *engine,
                          const struct collective_options *options, double *seconds)
{
    enum status st;
    struct program p = {0};
    struct simulation s = {0};
    struct simulation_options o = {.no_links = true};
    if (options)
        o.collective = *options;
    if (c->ranks == 0 || c->ranks > c->topology->n)
        return error_set(STATUS_INVALID, "got %zu ranks, expected 1 to %zu (the devices of %s)",
                         c->ranks, c->topology->n, c->topology->name);
    TRY(call_program(c, &p));
    TRY(engine->run(&p, c->topology, c->platform, &o, &s));
    *seconds = 0;
    for (size_t i = 0; i < s.timeline.n; i++)
        *seconds = fmax(*seconds, s.timeline.end_s[i]);
out:
    simulation_free(&s);
    program_free(&p);
    return st;
}
