/* mixture.h - the kernels of mixtures of experts: who goes where, and the products of many experts
 * in one launch. For C and CUDA; the rules of kernels.h. Formulas are in
 * exec/device/cpu/{gate,token_gate,experts}.c.
 *
 * How many rows an expert has is known on the GPU alone, so that no step waits for it on the host:
 * grids are as large as they can be, and blocks that have nothing to do end. */
#ifndef EXEC_DEVICE_CUDA_MIXTURE_H
#define EXEC_DEVICE_CUDA_MIXTURE_H

#include "exec/device/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y (rows, 2 top_k) from scores p (rows, experts), which become softmax or sigmoids; group (rows, 2
 * groups) is scratch: scores of groups, then which are open. `added` [experts], NULL: none;
 * `corrects`: for the choice alone. */
struct kernel_gate {
    enum kernel_type type; /* of y, dy and ds */
    size_t rows, experts, top_k, groups, group_top;
    int over_all, sigmoid, corrects;
    float scale;
    const float *added;
    float *p, *group;
};
cudaError_t kernel_gate(const struct kernel_gate *g, void *y);
/* ds (rows, experts): the gradient of the scores */
cudaError_t kernel_gate_backward(const struct kernel_gate *g, const void *y, const void *dy,
                                 void *ds);

/* y = sigmoid(x . weight) branch, row by row; saved (rows, 2): the sigmoid, and in the backward
 * what x counts in the weight's gradient. */
struct kernel_token_gate {
    enum kernel_type type;
    size_t rows, channels;
    const void *branch, *x;
    const float *weight;
    float *saved;
};
cudaError_t kernel_token_gate(const struct kernel_token_gate *g, void *y);
cudaError_t kernel_token_gate_backward(const struct kernel_token_gate *g, const void *dy,
                                       void *d_branch, void *dx);
/* d_weight += ..., work [COLUMN_PARTS * channels], after the backward */
cudaError_t kernel_token_gate_weight(const struct kernel_token_gate *g, float *d_weight,
                                     float *work, unsigned *ticket);

/* Where the choices of a batch go, y being the gate's: `place` [samples tokens top_k], the row of
 * each among those sorted by expert, -1: dropped; choice [rows]; count and first
 * [samples][experts]: a sample's rows of each expert, and the first of them; weight [rows]: the
 * gate's, in fp32; total [experts]; begin [experts + 1]: first row of each expert, and how many
 * there are; tile [experts + 1]: the same in tiles of GROUPED_TILE rows. */
struct kernel_routes {
    enum kernel_type type;
    size_t samples, tokens, top_k, experts, room; /* choices of a sample that an expert takes */
    const void *y;
    int32_t *place, *choice, *count, *first, *total, *begin, *tile;
    float *weight;
};
cudaError_t kernel_routes(const struct kernel_routes *r);

/* Rows on their way back are fp32, and weights are applied to sums before these are rounded: what
 * is stored is rounded once. to (most, channels): sorted rows of x (samples tokens, channels). */
cudaError_t kernel_route_rows(const struct kernel_routes *r, size_t most, size_t channels,
                              const void *x, void *to);
/* y (samples tokens, channels): the sum of the rows of a token's choices, `weighted` or not. */
cudaError_t kernel_route_back(const struct kernel_routes *r, size_t channels, const float *rows,
                              int weighted, void *y);
/* dy of the gate: 0 for numbers, dy . rows for weights */
cudaError_t kernel_route_weights(const struct kernel_routes *r, size_t channels, const void *dy,
                                 const float *rows, void *d_gate);
/* Experts that are spread over members, `here` of each: rows go to the member of their expert in
 * parts of `most` rows. `room`: of each expert in a part, what is not taken being zeros; 0: a part
 * has its rows one after the other, and counts [senders][experts] says how many. Senders are the
 * members; with sequence parallelism the members of every shard, whose parts the shards have
 * gathered. What has come is sorted by expert: begin and tile [here + 1] as of routes, from
 * [senders most]: where in the parts each row is, weight: ones. In fp32. */
struct kernel_spread {
    struct kernel_routes own;
    size_t senders, member, here, most, room;
    const int32_t *counts;
    int32_t *begin, *tile, *from;
    float *weight;
};
cudaError_t kernel_spread_meet(const struct kernel_spread *s);
/* parts (members, most, channels): the rows of x (samples tokens, channels) that own choices are
 * of, `weighted` or not; `most_own`: such choices at most. And sorted by expert what comes back for
 * them. */
cudaError_t kernel_spread_send(const struct kernel_spread *s, size_t most_own, size_t channels,
                               const float *x, int weighted, float *parts);
cudaError_t kernel_spread_take(const struct kernel_spread *s, size_t most_own, size_t channels,
                               const float *parts, float *rows);
/* rows (senders most, channels) from the parts that have come, or `back` to such. */
cudaError_t kernel_spread_rows(const struct kernel_spread *s, size_t channels, float *parts,
                               float *rows, int back);
/* What an expert does between its products: gelu in its tanh form, or of two halves silu of the
 * first times the second, or as gpt-oss has it. */
enum mixture_act { ACT_NONE, ACT_GELU, ACT_GATED, ACT_CLAMPED };
/* to (most, inner) = act of inside (most, inner or, of two halves, 2 inner), times the gate's
 * weight */
cudaError_t kernel_inside(const struct kernel_routes *r, enum mixture_act act, size_t most,
                          size_t inner, const void *inside, void *to);
/* d_bias [experts][columns] += sums over the rows of each, times their weights or not */
cudaError_t kernel_expert_columns(const struct kernel_routes *r, size_t columns, const void *rows,
                                  int weighted, float *d_bias);

/* Products of all experts, e's with rows begin[e] .. begin[e + 1] - 1 and weights b[e] (n, k):
 *     GROUPED_FORWARD   c (rows, n) = a (rows, k) b[e]^T + bias[e] [n], if there is one; with an
 *                       `act`, made (rows, n or n / 2) is what that makes of it before it is
 *                       rounded
 *     GROUPED_BACKWARD  c (rows, k) = a (rows, n) b[e]; with an `act` that is its gradient, and c,
 *                       what it was of, becomes its own (a rounding less than by way of memory),
 *                       each row times `weight`
 *     GROUPED_WEIGHT    c[e] (n, k) += a (rows, n)^T b (rows, k), c in fp32
 * `most`: rows that there is room for. Sums are fp32; of 16 bits on tensor cores if the GPU has
 * them and n, k and the arrays are at multiples of 16 bytes. */
enum { GROUPED_TILE = 64 };
enum grouped_form { GROUPED_FORWARD, GROUPED_BACKWARD, GROUPED_WEIGHT };
struct kernel_grouped {
    enum kernel_type type;
    int tensor_cores; /* of 16 bits: the GPU has them */
    enum grouped_form form;
    enum mixture_act act; /* of the first two forms */
    size_t experts, most, n, k;
    const int32_t *begin, *tile;
    const void *a, *b;
    const float *bias;   /* of the first form; NULL: none */
    const float *weight; /* [rows] of the second form, with an `act` */
    int wide;            /* c is fp32 in the first two forms, too, without an `act` */
    void *c, *made;
};
cudaError_t kernel_grouped(const struct kernel_grouped *g);

#ifdef __cplusplus
}
#endif

#endif
