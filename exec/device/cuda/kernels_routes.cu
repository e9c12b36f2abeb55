/* Rows to experts and back: choices are numbered by expert in the order of
 * exec/device/cpu/experts.c, first choices of a sample first, and rows are gathered by those
 * numbers; nothing is added by two blocks. */
#include "exec/device/cuda/join.cuh"
#include "exec/device/cuda/mixture.cuh"

/* Of choice `i`: token * top_k + k. */
template <typename T>
static __device__ size_t routes_chosen_expert(const struct kernel_routes &r, size_t i)
{
    return expert_of(((const T *)r.y)[i / r.top_k * 2 * r.top_k + i % r.top_k], r.experts);
}
template <typename T> static __device__ float routes_weight(const struct kernel_routes &r, size_t i)
{
    return (float)((const T *)r.y)[(i / r.top_k * 2 + 1) * r.top_k + i % r.top_k];
}

/* Rows that experts have. */
static __device__ size_t routes_rows(const struct kernel_routes &r)
{
    return (size_t)r.begin[r.experts];
}

/* ---- numbers: a block for each sample and expert */

/* Choice `i` of a sample, all first choices before all second ones, among all choices. */
static __device__ size_t choice_at(const struct kernel_routes &r, size_t sample, size_t i)
{
    return (sample * r.tokens + i % r.tokens) * r.top_k + i / r.tokens;
}

/* Every thread has choices one after the other: it counts its own, then knows how many were
 * before. */
template <typename T> static __global__ void number_choices(struct kernel_routes r)
{
    __shared__ unsigned found[BLOCK];
    size_t expert = blockIdx.x % r.experts, sample = blockIdx.x / r.experts;
    size_t all = r.tokens * r.top_k, each = (all + BLOCK - 1) / BLOCK, first = threadIdx.x * each;
    size_t end = first + each < all ? first + each : all;
    unsigned mine = 0, before = 0, total = 0;
    for (size_t i = first; i < end; i++)
        mine += routes_chosen_expert<T>(r, choice_at(r, sample, i)) == expert;
    found[threadIdx.x] = mine;
    __syncthreads();
    for (unsigned k = 0; k < BLOCK; k++) {
        before += k < threadIdx.x ? found[k] : 0;
        total += found[k];
    }
    for (size_t i = first; i < end && mine > 0; i++) {
        size_t choice = choice_at(r, sample, i);
        if (routes_chosen_expert<T>(r, choice) != expert)
            continue;
        r.place[choice] = before < r.room ? (int32_t)before : -1;
        before++;
    }
    if (threadIdx.x == 0)
        r.count[sample * r.experts + expert] = (int32_t)(total < r.room ? total : r.room);
}

/* One block: where the rows of each expert, and of each sample's of it, begin. */
static __global__ void begin_experts(struct kernel_routes r)
{
    ALONG(e, r.experts)
    {
        int32_t n = 0;
        for (size_t b = 0; b < r.samples; b++)
            n += r.count[b * r.experts + e];
        r.total[e] = n;
    }
    __syncthreads();
    ALONG(e, r.experts + 1)
    {
        int32_t rows = 0, tiles = 0;
        for (size_t o = 0; o < e; o++) {
            rows += r.total[o];
            tiles += (r.total[o] + GROUPED_TILE - 1) / GROUPED_TILE;
        }
        r.begin[e] = rows;
        r.tile[e] = tiles;
        for (size_t b = 0; b < r.samples && e < r.experts; b++) {
            r.first[b * r.experts + e] = rows;
            rows += r.count[b * r.experts + e];
        }
    }
}

template <typename T> static __global__ void place_choices(struct kernel_routes r)
{
    FOR_EACH(i, r.samples * r.tokens * r.top_k)
    {
        int32_t at = r.place[i];
        if (at < 0)
            continue;
        at += r.first[i / (r.tokens * r.top_k) * r.experts + routes_chosen_expert<T>(r, i)];
        r.place[i] = at;
        r.choice[at] = (int32_t)i;
        r.weight[at] = routes_weight<T>(r, i);
    }
}

/* ---- rows: a block each */

template <typename T>
static __global__ void route_rows(struct kernel_routes r, size_t channels, const void *x_,
                                  void *to_)
{
    size_t row = blockIdx.x, n = routes_rows(r);
    if (row >= n)
        return;
    const T *x = (const T *)x_ + (size_t)r.choice[row] / r.top_k * channels;
    T *to = (T *)to_ + row * channels;
    ALONG(i, channels)
    to[i] = x[i];
}

template <typename T>
static __global__ void route_back(struct kernel_routes r, size_t channels, const float *rows,
                                  bool weighted, void *y)
{
    size_t row = blockIdx.x;
    ALONG(i, channels)
    {
        float value = 0;
        for (size_t k = 0; k < r.top_k; k++) {
            size_t choice = row * r.top_k + k;
            int32_t at = r.place[choice];
            if (at >= 0)
                value += (weighted ? r.weight[at] : 1) * rows[(size_t)at * channels + i];
        }
        ((T *)y)[row * channels + i] = T(value);
    }
}

/* A block for each choice. */
template <typename T>
static __global__ void route_weights(struct kernel_routes r, size_t channels, const void *dy_,
                                     const float *all, void *d_gate)
{
    size_t row = blockIdx.x / r.top_k, k = blockIdx.x % r.top_k;
    int32_t at = r.place[blockIdx.x];
    const T *dy = (const T *)dy_ + row * channels;
    const float *rows = all + (size_t)(at < 0 ? 0 : at) * channels;
    float part = 0;
    ALONG(i, at < 0 ? 0 : channels)
    part += (float)dy[i] * rows[i];
    part = block_sum(part);
    T *to = (T *)d_gate + row * 2 * r.top_k + k;
    if (threadIdx.x == 0) {
        to[0] = T(0.0f);
        to[r.top_k] = T(part);
    }
}

/* A block per row. */
template <typename T>
static __global__ void inside(struct kernel_routes r, enum mixture_act act, size_t inner,
                              const void *inside_, void *to_)
{
    size_t row = blockIdx.x;
    if (row >= routes_rows(r))
        return;
    float weight = r.weight[row];
    const T *x = (const T *)inside_ + row * (act == ACT_GELU ? 1 : 2) * inner;
    T *to = (T *)to_ + row * inner;
    ALONG(i, inner)
    to[i] = T(weight * act_of(act, (float)x[i], act == ACT_GELU ? 0 : (float)x[inner + i]).y);
}

/* A thread per column of each expert, blockIdx.y. */
template <typename T>
static __global__ void expert_columns(struct kernel_routes r, size_t columns, const void *rows,
                                      bool weighted, float *d_bias)
{
    size_t c = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    BLOCK_ROWS(e, c < columns ? r.experts : 0)
    {
        float value = 0;
        for (size_t row = (size_t)r.begin[e]; row < (size_t)r.begin[e + 1]; row++)
            value += (weighted ? r.weight[row] : 1) * (float)((const T *)rows)[row * columns + c];
        d_bias[e * columns + c] += value;
    }
}

/* ---- experts on other ranks */

/* Rows that sender m has for expert `e` of those here. */
static __device__ size_t spread_rows_for(const struct kernel_spread &s, size_t m, size_t e)
{
    return s.room > 0 ? s.room : (size_t)s.counts[m * s.own.experts + s.member * s.here + e];
}

/* Where sorted row `at` of the own ones is in the parts. */
static __device__ size_t part_row(const struct kernel_spread &s, size_t at)
{
    size_t e = routes_chosen_expert<float>(s.own, (size_t)s.own.choice[at]), m = e / s.here;
    size_t row = s.room > 0 ? e % s.here * s.room + at - (size_t)s.own.begin[e]
                            : at - (size_t)s.own.begin[m * s.here];
    return m * s.most + row;
}

/* One block. */
static __global__ void meet_begin(struct kernel_spread s)
{
    ALONG(e, s.here + 1)
    {
        size_t rows = 0, tiles = 0;
        for (size_t o = 0; o < e; o++) {
            size_t n = 0;
            for (size_t m = 0; m < s.senders; m++)
                n += spread_rows_for(s, m, o);
            rows += n;
            tiles += (n + GROUPED_TILE - 1) / GROUPED_TILE;
        }
        s.begin[e] = (int32_t)rows;
        s.tile[e] = (int32_t)tiles;
    }
}

/* A block for each sender and expert here: of the latter, rows of senders before it come first. */
static __global__ void meet_rows(struct kernel_spread s)
{
    size_t m = blockIdx.x / s.here, e = blockIdx.x % s.here;
    size_t to = (size_t)s.begin[e], from = m * s.most;
    for (size_t k = 0; k < m; k++)
        to += spread_rows_for(s, k, e);
    for (size_t k = 0; k < e; k++)
        from += spread_rows_for(s, m, k);
    ALONG(i, spread_rows_for(s, m, e))
    {
        s.from[to + i] = (int32_t)(from + i);
        s.weight[to + i] = 1;
    }
}

/* A block per row. */
static __global__ void spread_send(struct kernel_spread s, size_t channels, const float *x,
                                   bool weighted, float *parts)
{
    size_t at = blockIdx.x;
    if (at >= routes_rows(s.own))
        return;
    float weight = weighted ? s.own.weight[at] : 1;
    const float *from = x + (size_t)s.own.choice[at] / s.own.top_k * channels;
    float *to = parts + part_row(s, at) * channels;
    ALONG(i, channels)
    to[i] = weight * from[i];
}

static __global__ void spread_take(struct kernel_spread s, size_t channels, const float *parts,
                                   float *rows)
{
    size_t at = blockIdx.x;
    if (at >= routes_rows(s.own))
        return;
    const float *from = parts + part_row(s, at) * channels;
    ALONG(i, channels)
    rows[at * channels + i] = from[i];
}

static __global__ void spread_rows(struct kernel_spread s, size_t channels, float *parts,
                                   float *rows, bool back)
{
    size_t row = blockIdx.x;
    if (row >= (size_t)s.begin[s.here])
        return;
    float *part = parts + (size_t)s.from[row] * channels;
    ALONG(i, channels)
    {
        if (back)
            part[i] = rows[row * channels + i];
        else
            rows[row * channels + i] = part[i];
    }
}

/* ---- launches */

cudaError_t kernel_spread_meet(const struct kernel_spread *s)
{
    cudaError_t e = LAUNCH(meet_begin, 1, *s);
    return e ? e : LAUNCH(meet_rows, (unsigned)(s->senders * s->here), *s);
}

cudaError_t kernel_spread_send(const struct kernel_spread *s, size_t most_own, size_t channels,
                               const float *x, int weighted, float *parts)
{
    return LAUNCH(spread_send, (unsigned)most_own, *s, channels, x, weighted != 0, parts);
}

cudaError_t kernel_spread_take(const struct kernel_spread *s, size_t most_own, size_t channels,
                               const float *parts, float *rows)
{
    return LAUNCH(spread_take, (unsigned)most_own, *s, channels, parts, rows);
}

cudaError_t kernel_spread_rows(const struct kernel_spread *s, size_t channels, float *parts,
                               float *rows, int back)
{
    return LAUNCH(spread_rows, (unsigned)(s->senders * s->most), *s, channels, parts, rows,
                  back != 0);
}

cudaError_t kernel_routes(const struct kernel_routes *r)
{
    size_t choices = r->samples * r->tokens * r->top_k;
    cudaError_t e = LAUNCH_AS(r->type, number_choices, (unsigned)(r->samples * r->experts), *r);
    if (e == cudaSuccess)
        e = LAUNCH(begin_experts, 1, *r);
    return e ? e : LAUNCH_AS(r->type, place_choices, blocks_for(choices), *r);
}

cudaError_t kernel_route_rows(const struct kernel_routes *r, size_t most, size_t channels,
                              const void *x, void *to)
{
    return LAUNCH_AS(r->type, route_rows, (unsigned)most, *r, channels, x, to);
}

cudaError_t kernel_route_back(const struct kernel_routes *r, size_t channels, const float *rows,
                              int weighted, void *y)
{
    return LAUNCH_AS(r->type, route_back, (unsigned)(r->samples * r->tokens), *r, channels, rows,
                     weighted != 0, y);
}

cudaError_t kernel_route_weights(const struct kernel_routes *r, size_t channels, const void *dy,
                                 const float *rows, void *d_gate)
{
    return LAUNCH_AS(r->type, route_weights, (unsigned)(r->samples * r->tokens * r->top_k), *r,
                     channels, dy, rows, d_gate);
}

cudaError_t kernel_inside(const struct kernel_routes *r, enum mixture_act act, size_t most,
                          size_t inner, const void *inside_, void *to)
{
    return LAUNCH_AS(r->type, inside, (unsigned)most, *r, act, inner, inside_, to);
}

cudaError_t kernel_expert_columns(const struct kernel_routes *r, size_t columns, const void *rows,
                                  int weighted, float *d_bias)
{
    return LAUNCH_AS(r->type, expert_columns, grid_for(columns, r->experts), *r, columns, rows,
                     weighted != 0, d_bias);
}
