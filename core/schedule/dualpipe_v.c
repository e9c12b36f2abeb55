/* DualPipe-V: stages in a V; in the middle a forward of the one chunk and a backward of the other
 * run as a pair, so that the all-to-alls of the one are hidden by the compute of the other; weight
 * gradients are split off where there would be bubbles. Source: DeepSeek-AI, DeepSeek-V3,
 * arXiv:2412.19437, section 3.2.1; steps 1 to 8 of deepseek-ai/DualPipe, dualpipe/dualpipev.py. */
#include "core/schedule/steps.h"

/* Steps 1 to 3: nF0, n(F0 F1), n(Bi1 W1 F1). */
static void dualpipe_v_fill(struct step_writer *w, uint32_t ranks, uint32_t rank)
{
    uint32_t after = ranks - rank - 1;
    for (uint32_t k = 0; k < 2 * after; k++)
        step_next(w, OP_FORWARD, 0);
    for (uint32_t k = 0; k < rank + 1; k++) {
        step_next(w, OP_FORWARD, 0);
        step_next(w, OP_FORWARD, 1);
    }
    for (uint32_t k = 0; k < after; k++) {
        step_next(w, OP_BACKWARD_INPUT, 1);
        step_next(w, OP_BACKWARD_WEIGHT, 1);
        step_next(w, OP_FORWARD, 1);
    }
}

/* Steps 4 and 5: n(F0&B1 F1&B0), n(B1 F1&B0); at the turn the first backward needs the forward that
 * it would be paired with. */
static void dualpipe_v_steady(struct step_writer *w, uint32_t ranks, uint32_t rank,
                              uint32_t microbatches)
{
    uint32_t after = ranks - rank - 1, pairs = microbatches - 2 * ranks + rank + 1;
    for (uint32_t k = 0; k < pairs; k++) {
        step_pair(w, 0, k > 0 || after > 0);
        step_pair(w, 1, true);
    }
    for (uint32_t k = 0; k < after; k++) {
        step_next(w, OP_BACKWARD, 1);
        step_pair(w, 1, true);
    }
}

/* Steps 6 to 8: n(B1 B0), n(W Bi0), nW. From its middle on step 6 puts off the weight gradients,
 * first of chunk 0 on even ranks and of chunk 1 on odd ones, by turns; they follow in the same
 * order, and those that step 7 puts off, all of chunk 0, behind them. */
static void dualpipe_v_drain(struct step_writer *w, uint32_t ranks, uint32_t rank)
{
    uint32_t after = ranks - rank - 1, put_off = 0;
    uint32_t whole =
        2 * ((rank + 1) / 2) + 1 - rank % 2; /* backwards of step 6 that are not split */
    for (uint32_t k = 0; k < 2 * (rank + 1); k++) {
        step_next(w, k < whole ? OP_BACKWARD : OP_BACKWARD_INPUT, 1 - k % 2);
        put_off += k >= whole;
    }
    for (uint32_t k = 0; k < after + rank + 1; k++) {
        step_next(w, OP_BACKWARD_WEIGHT, k < put_off ? 1 - (whole + k) % 2 : 0);
        if (k < after)
            step_next(w, OP_BACKWARD_INPUT, 0);
    }
}

size_t schedule_order_dualpipe_v(const struct schedule_place *at, struct schedule_step *steps)
{
    uint32_t least = 2 * at->teams;
    struct step_writer w = {.step = steps, .microbatches = at->microbatches};
    dualpipe_v_fill(&w, at->teams, at->team);
    dualpipe_v_steady(&w, at->teams, at->team, at->microbatches > least ? at->microbatches : least);
    dualpipe_v_drain(&w, at->teams, at->team);
    return w.n;
}

const struct schedule schedule_dualpipe_v = {
    .name = "dualpipe-v",
    .summary =
        "two chunks per device in a V, all-to-alls of a forward overlap a backward and vice versa",
    .chunked = true,
    .vee = true,
    .split = true,
    .hides = true,
    .order = schedule_order_dualpipe_v,
};
