/* Zero bubble over stages in a V: with as much time for a forward as for either half of a backward
 * no rank waits between its first and its last op, and every one of P ranks holds no more than the
 * activations of 2 P of its half stages, as many as 1F1B's first rank.
 * Source: Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, and Pipeline Parallelism with
 * Controllable Memory, NeurIPS 2024: the V schedule; its order as ScheduleZBVZeroBubble of
 * torch.distributed.pipelining has it. */
#include "core/schedule/steps.h"

/* (Bi W) of one chunk. */
static void zb_v_backward(struct step_writer *w, uint32_t chunk)
{
    step_next(w, OP_BACKWARD_INPUT, chunk);
    step_next(w, OP_BACKWARD_WEIGHT, chunk);
}

static void zb_v_fill(struct step_writer *w, uint32_t ranks, uint32_t rank)
{
    for (uint32_t k = 0; k < 2 * (ranks - rank) - 1; k++)
        step_next(w, OP_FORWARD, 0);
    for (uint32_t k = 0; k < rank; k++) {
        step_next(w, OP_FORWARD, 1);
        step_next(w, OP_FORWARD, 0);
    }
    for (uint32_t k = 0; k < ranks - rank; k++) {
        step_next(w, OP_FORWARD, 1);
        zb_v_backward(w, 1);
    }
}

static void zb_v_drain(struct step_writer *w, uint32_t ranks, uint32_t rank)
{
    for (uint32_t k = 0; k < rank; k++) {
        step_next(w, OP_BACKWARD_INPUT, 0);
        step_next(w, OP_BACKWARD_INPUT, 1);
    }
    for (uint32_t k = 0; k < ranks - rank; k++) {
        step_next(w, OP_BACKWARD_INPUT, 0);
        step_next(w, OP_BACKWARD_WEIGHT, 0);
    }
    while (w->weight[1] < w->input[1])
        step_next(w, OP_BACKWARD_WEIGHT, 1);
    while (w->weight[0] < w->input[0])
        step_next(w, OP_BACKWARD_WEIGHT, 0);
}

static size_t zb_v(const struct schedule_place *at, struct schedule_step *steps)
{
    uint32_t least = 2 * at->teams - 1;
    uint32_t full = at->microbatches > least ? at->microbatches : least;
    struct step_writer w = {.step = steps, .microbatches = at->microbatches};
    zb_v_fill(&w, at->teams, at->team);
    while (w.forward[1] < w.forward[0] || w.forward[0] < full) {
        if (w.forward[0] < full)
            step_next(&w, OP_FORWARD, 0);
        zb_v_backward(&w, 0);
        step_next(&w, OP_FORWARD, 1);
        zb_v_backward(&w, 1);
    }
    zb_v_drain(&w, at->teams, at->team);
    return w.n;
}

const struct schedule schedule_zb_v = {
    .name = "zb-v",
    .summary = "two chunks per device in a V, split backward: no bubble except pipeline fill",
    .chunked = true,
    .vee = true,
    .split = true,
    .searched = true,
    .order = zb_v,
};
