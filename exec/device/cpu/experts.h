/* experts.h - what the sources of the experts' layer call of each other: experts.c, the layer on
 * one rank, and experts_exchange.c, the layer whose experts are spread over ranks. */
#ifndef EXEC_DEVICE_CPU_EXPERTS_H
#define EXEC_DEVICE_CPU_EXPERTS_H

#include "exec/device/layer.h"

/* Inner channels before the activation. */
static inline size_t experts_wide(const struct layer *l)
{
    return l->moe.gated ? 2 * l->moe.inner : l->moe.inner;
}

/* Sizes of what the layer has, from its tokens, slots, experts and spread. Weights of the experts
 * here: W1 of all, then W2 of all, then biases of both. saved, for the whole batch: see
 * experts_kept(). work: a chunk of rows before and after experts and their activation, then a
 * number for each expert. */
void experts_size(struct layer *l);

/* Rows that experts work on: before (C numbers each), inside (before the activation), after it. */
struct expert_rows {
    size_t n;
    real *x, *inner, *act;
};
/* Rows of n in `data`, of experts_row_size() numbers each. */
struct expert_rows experts_rows(const struct layer *l, real *data, size_t n);
size_t experts_row_size(const struct layer *l);

/* What the forward leaves in `saved`, the batch's all together. */
struct experts_kept {
    int32_t *place; /* [B T K] of every choice: its row among those sorted by expert, -1: dropped */
    int32_t *choice; /* [n] of every such row: the choice */
    real *counts;    /* [E] rows of every expert; spread: [members][E] of all members, own first */
    /* [spread.shards] of such, each shard's where it has it in a gather (exec/ring.h) */
    real *all_counts;
    real *y;                 /* [n] (C): what experts have made of these rows */
    size_t n;                /* rows */
    struct expert_rows rows; /* not spread: what they had been given */
};
struct experts_kept experts_kept(const struct layer *l, const struct layer_io *io);

/* One expert, number `expert` of those here, on its rows: y and dx (n, C), which may be dy. */
void experts_forward(const struct layer *l, const struct layer_io *io, const struct expert_rows *r,
                     size_t expert, real *y);
void experts_backward(const struct layer *l, struct layer_io *io, const struct expert_rows *r,
                      size_t expert, const real *dy, real *dx);

void experts_gather(const struct layer *l, const struct layer_io *io, size_t first, size_t n,
                    const real *x, bool weighted, real *to);
void experts_scatter(const struct layer *l, struct layer_io *io, size_t first, size_t n,
                     const real *dx);

/* The experts' part of a pass whose rows go to other ranks and back. */
void experts_exchange_forward(const struct layer *l, struct layer_io *io);
void experts_exchange_backward(const struct layer *l, struct layer_io *io);

#endif
