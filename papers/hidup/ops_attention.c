/* Attention and the router of experts, as single operators of several tensors. */
#include "papers/hidup/ops.h"

uint32_t op_attention(struct spmd_graph *g, const char *name, uint32_t x,
                      const struct op_attention_weights *w)
{
    bool masked = w->mask != SPMD_NO_TENSOR;
    spmd_add(g, SPMD_FUNCTION, "attention", name,
             (uint32_t[]){x, w->in_w, w->in_b, w->out_w, w->out_b, w->mask}, masked ? 6 : 5);
    if (g->status != STATUS_OK)
        return 0;
    const int64_t *size = g->tensor[x].size, tokens = size[0], samples = size[1];
    const double channels = (double)size[2], rows = (double)(tokens * samples);
    uint32_t y = spmd_make(g, 3, (int64_t[]){tokens, samples, size[2]});
    spmd_make(g, 3, (int64_t[]){samples, tokens, tokens});
    /* projections in and out, scores and weighted values */
    spmd_product(g, rows * channels * (4 * channels + 2 * (double)tokens));
    spmd_sign(g, masked ? "1FFFFF>10" : "1FFFF>10");
    if (masked)
        spmd_sign(g, g->compat ? "2001FF>RR" : "F001FF>RR");
    else
        spmd_sign(g, g->compat ? "2001F>RR" : "F001F>RR");
    return y;
}

uint32_t op_gate(struct spmd_graph *g, const char *name, uint32_t x, uint32_t w, int64_t slots)
{
    spmd_add(g, SPMD_FUNCTION, "gate", name, (uint32_t[]){x, w}, 2);
    if (g->status != STATUS_OK)
        return 0;
    const int64_t *in = g->tensor[x].size, experts = g->tensor[w].size[1];
    const int64_t mask[4] = {in[0], in[1], experts, slots};
    double work = 10 * spmd_elements(g, x) * (double)experts * (double)slots;
    uint32_t dispatch = spmd_make(g, 4, mask);
    spmd_make(g, 4, mask);
    spmd_work(g, work);
    spmd_sign(g, "0F>00");
    return dispatch;
}
