/* Replays until no slot has flows of different rates. */
#include "core/engine/fluid.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/engine/replay.h"

/* Slots are divided at most so often; each time costs a run. */
enum { ROUNDS = 24 };

struct fluid {
    struct flows *flows;
    struct sharing *sharing;
    uint32_t *carried; /* [flows] stream whose flow it carries */
    struct replay replay;
};

static size_t fluid_start_flow(void *context, const struct replay_flow *f)
{
    struct fluid *s = context;
    uint32_t slot = f->is_message ? f->channel : flows_slot(s->flows, f->shape, f->flow);
    if (slot == PROGRAM_NONE)
        return 0;
    for (size_t k = flows_first(s->flows, slot); k < flows_first(s->flows, slot + 1); k++)
        s->carried[k] = f->stream;
    return flows_start(s->flows, s->sharing, slot, f->bytes, f->now_s);
}

/* All that is known without the clock first; then whatever happens next, with everything that
 * happens at that moment. A checked program always comes to its end. */
static void fluid_replay(struct fluid *s)
{
    uint32_t flow;
    double end;
    for (;;) {
        replay_known(&s->replay);
        double start = replay_next(&s->replay), when = fmin(start, sharing_next(s->sharing));
        if (!isfinite(when))
            break;
        for (; start <= when; start = replay_next(&s->replay))
            replay_begin(&s->replay, start);
        while (sharing_take(s->sharing, when, &flow, &end)) {
            flows_end(s->flows, flow);
            replay_land(&s->replay, s->carried[flow], end);
        }
    }
}

/* One run with the slots as they are. *unequal: some of them stood for flows of different rates. */
static enum status fluid_simulate(const struct program *p, const struct topology *t,
                                  struct shapes *shapes, struct flows *flows,
                                  struct timeline *timeline, size_t *messages, bool *unequal)
{
    enum status st;
    struct fluid s = {.flows = flows};
    TRY(sharing_open(&flows->network, &s.sharing));
    sharing_watch(s.sharing, &flows->kinds);
    if (t->links > 0)
        flows_time_shapes(flows, p, s.sharing, shapes);
    TRY(ARRAY_NEW(s.carried, flows->network.flows + 1));
    s.replay = (struct replay){.shapes = shapes,
                               .alone = flows->alone,
                               .bound_Bps = flows->channel_Bps ? flows->channel_Bps
                                                               : flows->network.bound_Bps,
                               .start = timeline->start_s,
                               .end = timeline->end_s,
                               .fly = fluid_start_flow,
                               .context = &s};
    TRY(replay_open(p, t, &s.replay));
    fluid_replay(&s);
    *messages = s.replay.messages;
    *unequal = sharing_unequal(s.sharing) > 0;
out:
    replay_close(&s.replay);
    sharing_close(s.sharing);
    free(s.carried);
    return st;
}

enum status fluid_run(const struct program *p, const struct topology *t, struct shapes *shapes,
                      struct flows *flows, struct plan_classes *finer, struct timeline *timeline,
                      size_t *messages)
{
    bool unequal = true;
    PASS(fluid_simulate(p, t, shapes, flows, timeline, messages, &unequal));
    for (size_t k = 0; unequal; k++) {
        if (k == ROUNDS)
            return error_set(STATUS_UNSUPPORTED,
                             "ranks are not symmetric, so all must be simulated: after %d rounds "
                             "of grouping, ranks of one group still get unequal bandwidth",
                             ROUNDS);
        PASS(flows_divide(p, t, shapes, flows, finer));
        PASS(fluid_simulate(p, t, shapes, flows, timeline, messages, &unequal));
    }
    return STATUS_OK;
}
