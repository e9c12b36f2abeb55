/* DualPipe: microbatches enter a pipeline of P ranks at both ends; every stage has two copies, and
 * rank r holds stages r and P - 1 - r. That is DualPipe-V over P / 2 sets of devices with pairs of
 * replicas, between which a microbatch crosses at the turn of the V: set r's two replicas are ranks
 * r and P - 1 - r, and the gradients of mirror ranks are those of replicas.
 * Source: DeepSeek-AI, DeepSeek-V3, arXiv:2412.19437; deepseek-ai/DualPipe, dualpipe/dualpipe.py,
 * whose half_rank and half_num_chunks are DualPipe-V's rank and number of microbatches. */
#include "core/schedule/steps.h"

const struct schedule schedule_dualpipe = {
    .name = "dualpipe",
    .summary = "dualpipe-v in both directions through pairs of replicas: two copies of every stage",
    .chunked = true,
    .vee = true,
    .crossed = true,
    .split = true,
    .hides = true,
    .order = schedule_order_dualpipe_v,
};
