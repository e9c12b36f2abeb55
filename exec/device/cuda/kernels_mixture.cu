/* The gates of mixtures: a block per row. Formulas and sources are in
 * exec/device/cpu/{gate,token_gate}.c. */
#include "exec/device/cuda/join.cuh"
#include "exec/device/cuda/mixture.cuh"

/* ---- choices */

/* What expert e is chosen by; experts of closed groups have no score. */
static __device__ float chosen_by(const struct kernel_gate &g, const float *p, const float *open,
                                  size_t e)
{
    if (g.group_top < g.groups && open[e / (g.experts / g.groups)] == 0)
        return -INFINITY;
    return p[e] + (g.corrects ? g.added[e] : 0);
}

/* score [groups] from the experts of each, then open [groups]: 1 for the best, of equal ones the
 * first. */
static __device__ void open_groups(const struct kernel_gate &g, const float *p, float *score,
                                   float *open)
{
    size_t n = g.experts / g.groups;
    ALONG(k, g.groups)
    {
        float best = -INFINITY, second = -INFINITY;
        for (size_t e = k * n; e < (k + 1) * n; e++) {
            float value = p[e] + (g.corrects ? g.added[e] : 0);
            second = value > best ? best : fmaxf(second, value);
            best = fmaxf(best, value);
        }
        score[k] = g.sigmoid && n > 1 ? best + second : best;
    }
    __syncthreads();
    ALONG(k, g.groups)
    {
        size_t better = 0;
        for (size_t o = 0; o < g.groups; o++)
            better += score[o] > score[k] || (score[o] == score[k] && o < k);
        open[k] = better < g.group_top ? 1 : 0;
    }
    __syncthreads();
}

/* The top_k best, one after the other: the largest that comes after the one before, of equal ones
 * the first. Without any (they are not numbers) expert 0. */
template <typename T>
static __device__ void gate_pick_experts(const struct kernel_gate &g, const float *p,
                                         const float *open, T *y)
{
    const float none = 1e9f;
    float last = INFINITY, last_at = -1;
    for (size_t k = 0; k < g.top_k; k++) {
        float score = -INFINITY, at = none;
        ALONG(e, g.experts)
        {
            float value = chosen_by(g, p, open, e);
            bool later = value < last || (value == last && (float)e > last_at);
            if (later && (at == none || value > score)) {
                score = value;
                at = (float)e;
            }
        }
        float best = block_max(score);
        last_at = -block_max(score == best ? -at : -none);
        last = best;
        if (threadIdx.x == 0)
            y[k] = number_of<T>(last_at < none ? (size_t)last_at : 0);
    }
    __syncthreads();
}

/* Does expert e take part in the softmax? */
template <typename T>
static __device__ bool expert_takes_part(const struct kernel_gate &g, const T *y, size_t e)
{
    bool chosen = g.over_all;
    for (size_t k = 0; k < g.top_k; k++)
        chosen = chosen || expert_of(y[k], g.experts) == e;
    return chosen;
}

/* p [experts], the scores of a row, becomes a softmax. */
template <typename T>
static __device__ void softmax_weights(const struct kernel_gate &g, const T *y, float *p)
{
    float largest = -INFINITY, sum = 0;
    ALONG(e, g.experts)
    if (expert_takes_part(g, y, e))
        largest = fmaxf(largest, p[e]);
    largest = block_max(largest);
    ALONG(e, g.experts)
    {
        p[e] = expert_takes_part(g, y, e) ? expf(p[e] - largest) : 0;
        sum += p[e];
    }
    sum = block_sum(sum);
    ALONG(e, g.experts)
    p[e] /= sum;
    __syncthreads();
}

/* What the weights of a row's choices are divided by. */
template <typename T>
static __device__ float total_of(const struct kernel_gate &g, const T *y, const float *p)
{
    float sum = 0;
    if (!g.sigmoid || g.over_all)
        return 1;
    for (size_t k = 0; k < g.top_k; k++)
        sum += p[expert_of(y[k], g.experts)];
    return sum;
}

template <typename T> static __global__ void gate(struct kernel_gate g, void *y_)
{
    float *p = g.p + blockIdx.x * g.experts, *group = g.group + blockIdx.x * 2 * g.groups;
    T *y = (T *)y_ + blockIdx.x * 2 * g.top_k;
    ALONG(e, g.experts)
    {
        float score = p[e] + (g.added && !g.corrects ? g.added[e] : 0);
        p[e] = g.sigmoid ? 1 / (1 + expf(-score)) : score;
    }
    __syncthreads();
    if (g.group_top < g.groups)
        open_groups(g, p, group, group + g.groups);
    gate_pick_experts(g, p, group + g.groups, y);
    if (!g.sigmoid)
        softmax_weights(g, y, p);
    float scale = g.scale / total_of(g, y, p);
    ALONG(k, g.top_k)
    y[g.top_k + k] = T(scale * p[expert_of(y[k], g.experts)]);
}

/* gate_scores_backward() of the CPU: every thread has some experts, and looks for them among the
 * choices. */
template <typename T>
static __global__ void gate_backward(struct kernel_gate g, const void *y_, const void *dy_,
                                     void *ds_)
{
    const float *p = g.p + blockIdx.x * g.experts;
    const T *y = (const T *)y_ + blockIdx.x * 2 * g.top_k;
    const T *d = (const T *)dy_ + (2 * blockIdx.x + 1) * g.top_k;
    T *ds = (T *)ds_ + blockIdx.x * g.experts;
    float mean = 0, sum = total_of(g, y, p),
          scale = g.scale / sum; /* weights as they were in fp32 */
    for (size_t k = 0; k < g.top_k; k++)
        mean += (float)d[k] * scale * p[expert_of(y[k], g.experts)];
    ALONG(e, g.experts)
    {
        float value = g.sigmoid ? 0 : -p[e] * mean;
        for (size_t k = 0; k < g.top_k; k++)
            if (expert_of(y[k], g.experts) == e)
                value += g.sigmoid ? p[e] * (1 - p[e]) *
                                         ((float)d[k] * g.scale - (g.over_all ? 0 : mean)) / sum
                                   : scale * p[e] * (float)d[k];
        ds[e] = T(value);
    }
}

/* ---- the gate of one number per token */

template <typename T> static __global__ void token_gate(struct kernel_token_gate g, void *y_)
{
    size_t at = blockIdx.x * g.channels;
    const T *branch = (const T *)g.branch + at, *x = (const T *)g.x + at;
    T *y = (T *)y_ + at;
    float part = 0;
    ALONG(i, g.channels)
    part += (float)x[i] * g.weight[i];
    float s = 1 / (1 + expf(-block_sum(part)));
    ALONG(i, g.channels)
    y[i] = T(s * (float)branch[i]);
    if (threadIdx.x == 0)
        g.saved[2 * blockIdx.x] = s;
}

template <typename T>
static __global__ void token_gate_backward(struct kernel_token_gate g, const void *dy_,
                                           void *d_branch, void *dx)
{
    size_t at = blockIdx.x * g.channels;
    const T *branch = (const T *)g.branch + at, *dy = (const T *)dy_ + at;
    float part = 0, s = g.saved[2 * blockIdx.x];
    ALONG(i, g.channels)
    part += (float)dy[i] * (float)branch[i];
    float slope = s * (1 - s) * block_sum(part);
    ALONG(i, g.channels)
    {
        ((T *)d_branch)[at + i] = T(s * (float)dy[i]);
        ((T *)dx)[at + i] = T(slope * g.weight[i]);
    }
    if (threadIdx.x == 0)
        g.saved[2 * blockIdx.x + 1] = slope;
}

/* work [COLUMN_PARTS][channels] */
template <typename T>
static __global__ void token_gate_weight(float *d_weight, float *work, struct kernel_token_gate g,
                                         unsigned *ticket)
{
    size_t c = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    size_t end = c < g.channels ? part_row(g.rows, blockIdx.y + 1) : 0;
    float value = 0;
    for (size_t r = part_row(g.rows, blockIdx.y); r < end; r++)
        value += g.saved[2 * r + 1] * (float)((const T *)g.x)[r * g.channels + c];
    join_column(d_weight, work, g.channels, c, value, ticket);
}

/* ---- launches */

cudaError_t kernel_gate(const struct kernel_gate *g, void *y)
{
    return LAUNCH_AS(g->type, gate, (unsigned)g->rows, *g, y);
}

cudaError_t kernel_gate_backward(const struct kernel_gate *g, const void *y, const void *dy,
                                 void *ds)
{
    return LAUNCH_AS(g->type, gate_backward, (unsigned)g->rows, *g, y, dy, ds);
}

cudaError_t kernel_token_gate(const struct kernel_token_gate *g, void *y)
{
    return LAUNCH_AS(g->type, token_gate, (unsigned)g->rows, *g, y);
}

cudaError_t kernel_token_gate_backward(const struct kernel_token_gate *g, const void *dy,
                                       void *d_branch, void *dx)
{
    return LAUNCH_AS(g->type, token_gate_backward, (unsigned)g->rows, *g, dy, d_branch, dx);
}

cudaError_t kernel_token_gate_weight(const struct kernel_token_gate *g, float *d_weight,
                                     float *work, unsigned *ticket)
{
    const dim3 grid = grid_for(g->channels, COLUMN_PARTS);
    if (grid.x > TICKETS)
        return cudaErrorInvalidValue;
    return LAUNCH_AS(g->type, token_gate_weight, grid, d_weight, work, *g, ticket);
}
