/* Strategies by operator: numbers by strides, rows, places in a batch.
 * exec/device/sharded/arithmetic.c has the same on the host. */
#include "core/base/random.h"
#include "exec/device/cuda/join.cuh"
#include "exec/device/cuda/strategies.h"
#include "exec/device/cuda/wide.cuh"

/* ---- by strides. Indices are divided in 32 bits where they fit. */

template <typename I>
static __global__ void by_strides(struct kernel_strides s, const float *from, float *to)
{
    FOR_EACH(e, s.total)
    {
        I at = (I)e;
        size_t a = 0, b = 0;
#pragma unroll
        for (int d = KERNEL_RANK - 1; d >= 0; d--) {
            if ((unsigned)d >= s.rank)
                continue;
            I n = (I)s.n[d], i = at % n;
            a += i * s.from[d];
            b += i * s.to[d];
            at /= n;
        }
        float value = s.factor * from[a];
        to[b] = s.adds ? to[b] + value : value;
    }
}

/* Columns of blocks by parts of the rows. */
static __global__ void strided_sums(struct kernel_row_sums s, const float *x, float *out,
                                    float *work, unsigned *ticket)
{
    size_t c = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    float value = 0;
    for (size_t r = part_row(s.rows, blockIdx.y); c < s.columns; r++) {
        if (r >= part_row(s.rows, blockIdx.y + 1))
            break;
        value += x[r * s.row + c * s.column];
    }
    value *= s.factor;
    if (gridDim.y > 1)
        join_column(out, work, s.columns, c, value, ticket);
    else if (c < s.columns)
        out[c] += value;
}

/* The sum of what all threads have of a grid, in double, by who comes last; *all is right for
 * thread 0 of the last block, for which this is true. */
static __device__ bool join_doubles(double value, double *part, unsigned *ticket, double *all)
{
    __shared__ double of_thread[BLOCK];
    of_thread[threadIdx.x] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
        value = 0;
        for (unsigned k = 0; k < BLOCK; k++)
            value += of_thread[k];
        part[blockIdx.x] = value;
    }
    if (!is_last(ticket, gridDim.x) || threadIdx.x > 0)
        return false;
    *all = 0;
    for (unsigned k = 0; k < gridDim.x; k++)
        *all += __ldcg(part + k);
    return true;
}

static __global__ void total(float *y, const float *x, size_t n, double *part, unsigned *ticket)
{
    double sum = 0, all;
    FOR_EACH(i, n)
    sum += (double)x[i];
    if (join_doubles(sum, part, ticket, &all))
        *y = (float)all;
}

/* ---- number by number */

static __global__ void bend(bool relu, float *y, const float *x, size_t n)
{
    FOR_EACH(i, n)
    y[i] = relu ? (x[i] > 0 ? x[i] : 0) : 1 / (1 + expf(-x[i]));
}

static __global__ void bend_backward(bool relu, float *dx, const float *y, const float *dy,
                                     size_t n)
{
    FOR_EACH(i, n)
    dx[i] += relu ? (y[i] > 0 ? dy[i] : 0) : dy[i] * y[i] * (1 - y[i]);
}

static __global__ void multiplied(float *y, const float *a, const float *b, size_t n)
{
    FOR_EACH(i, n)
    y[i] += a[i] * b[i];
}

static __global__ void drop(struct kernel_drop d, const float *x, float *saved, float *y)
{
    FOR_EACH(i, d.n)
    {
        size_t at = i, place = 0, stride = 1;
#pragma unroll
        for (int k = KERNEL_RANK - 1; k >= 0; k--) {
            if ((unsigned)k >= d.rank)
                continue;
            place += (d.first[k] + at % d.size[k]) * stride;
            at /= d.size[k];
            stride *= d.whole[k];
        }
        bool drops = random_unit(d.key, place) < d.chance;
        saved[i] = drops ? 0 : (float)(1 / (1 - d.chance));
        y[i] = saved[i] * x[i];
    }
}

/* ---- rows, a block each */

#define EACH_ROW(row, rows) for (size_t row = blockIdx.x; row < (rows); row += gridDim.x)

static __global__ void masked_softmax(float *x, const float *mask, size_t rows, size_t n,
                                      size_t period)
{
    EACH_ROW(row, rows)
    {
        float *y = x + row * n, most = -INFINITY, sum = 0;
        const float *added = mask ? mask + row % period * n : NULL;
        ALONG(i, n)
        {
            y[i] += added ? added[i] : 0;
            most = fmaxf(most, y[i]);
        }
        most = block_max(most);
        ALONG(i, n)
        sum += y[i] = expf(y[i] - most);
        sum = block_sum(sum);
        ALONG(i, n)
        y[i] /= sum;
    }
}

static __global__ void softmax_backward(float *dp_, const float *p_, size_t rows, size_t n)
{
    EACH_ROW(row, rows)
    {
        const float *p = p_ + row * n;
        float *dp = dp_ + row * n, dot = 0;
        ALONG(i, n)
        dot += p[i] * dp[i];
        dot = block_sum(dot);
        ALONG(i, n)
        dp[i] = p[i] * (dp[i] - dot);
    }
}

static __global__ void log_softmax(float *y, const float *x_, size_t rows, size_t n)
{
    EACH_ROW(row, rows)
    {
        const float *x = x_ + row * n;
        float most = -INFINITY, sum = 0;
        ALONG(i, n)
        most = fmaxf(most, x[i]);
        most = block_max(most);
        ALONG(i, n)
        sum += expf(x[i] - most);
        float shift = most + logf(block_sum(sum));
        ALONG(i, n)
        y[row * n + i] = x[i] - shift;
    }
}

static __global__ void log_softmax_backward(float *dx, const float *y, const float *dy_,
                                            size_t rows, size_t n)
{
    EACH_ROW(row, rows)
    {
        const float *dy = dy_ + row * n;
        float sum = 0;
        ALONG(i, n)
        sum += dy[i];
        sum = block_sum(sum);
        ALONG(i, n)
        dx[row * n + i] += dy[i] - expf(y[row * n + i]) * sum;
    }
}

/* ---- routes */

/* The most probable expert that the token has not chosen yet, now chosen. */
static __device__ size_t choose_slot(const struct kernel_slots &r, size_t row)
{
    const float *chance = r.chance + row * r.experts;
    float *chosen = r.chosen + row * r.experts;
    size_t best = r.experts;
    for (size_t e = 0; e < r.experts; e++)
        if (chosen[e] == 0 && (best == r.experts || chance[e] > chance[best]))
            best = e;
    chosen[best] = 1;
    return best;
}

/* The expert's slots, for tokens that have just chosen it, in their order. */
static __device__ void take_slots(const struct kernel_slots &r, size_t sample, size_t e)
{
    float *taken = r.taken + sample * r.experts + e;
    size_t slot = (size_t)*taken;
    for (size_t t = 0; t < r.tokens && slot < r.slots; t++) {
        size_t row = sample * r.tokens + t, at = row * r.experts + e;
        if ((size_t)r.picked[row] != e)
            continue;
        r.dispatch[at * r.slots + slot] = 1;
        r.combine[at * r.slots + slot++] = r.chance[at];
    }
    *taken = (float)slot;
}

/* A block for each sample: all first choices, then the slots of all experts, then all second
 * ones. */
static __global__ void slots(struct kernel_slots r)
{
    EACH_ROW(sample, r.samples)
    for (size_t choice = 0; choice < r.top; choice++) {
        ALONG(t, r.tokens)
        r.picked[sample * r.tokens + t] = (float)choose_slot(r, sample * r.tokens + t);
        __syncthreads();
        ALONG(e, r.experts)
        take_slots(r, sample, e);
        __syncthreads();
    }
}

static __global__ void slots_backward(struct kernel_slots r, size_t n, const float *d_combine,
                                      float *d)
{
    FOR_EACH(e, n)
    {
        float sum = 0;
        for (size_t at = e * r.slots; at < (e + 1) * r.slots; at++)
            sum += r.dispatch[at] > 0 ? d_combine[at] : 0;
        d[e] = sum;
    }
}

/* ---- words and classes */

/* Which of n a number counts; n: none of them. */
static __device__ size_t counted(float number, size_t n)
{
    return number >= 0 && (double)number < (double)n ? (size_t)number : n;
}

static __global__ void look_up(struct kernel_lookups l, const float *table, float *y)
{
    EACH_ROW(i, l.n)
    {
        size_t row = counted(l.x[i], l.rows);
        ALONG(c, l.channels)
        y[i * l.channels + c] = row < l.rows ? table[row * l.channels + c] : 0;
    }
}

/* A block for each row of the table looks for where it was read, in order. */
static __global__ void look_up_backward(struct kernel_lookups l, const float *dy, float *d_table)
{
    EACH_ROW(row, l.rows)
    for (size_t i = 0; i < l.n; i++) {
        if (counted(l.x[i], l.rows) != row)
            continue;
        ALONG(c, l.channels)
        d_table[row * l.channels + c] += dy[i * l.channels + c];
    }
}

/* Where the number that counts for y [i] is in x; n: nowhere. */
static __device__ size_t picked_place(const struct kernel_picks &p, size_t i, size_t n)
{
    size_t k = counted(p.y[i], p.classes);
    return k < p.classes ? (i / p.places * p.classes + k) * p.places + i % p.places : n;
}

static __global__ void pick(struct kernel_picks p, const float *x, float *loss, double *part,
                            unsigned *ticket)
{
    double sum = 0, all;
    size_t n = p.samples * p.classes * p.places;
    FOR_EACH(i, p.samples * p.places)
    {
        size_t place = picked_place(p, i, n);
        sum -= place < n ? (double)x[place] : 0;
    }
    if (join_doubles(sum, part, ticket, &all))
        *loss = (float)all * p.share;
}

static __global__ void pick_backward(struct kernel_picks p, const float *d_loss, float *dx)
{
    size_t n = p.samples * p.classes * p.places;
    FOR_EACH(i, p.samples * p.places)
    {
        size_t place = picked_place(p, i, n);
        if (place < n)
            dx[place] -= p.share * *d_loss;
    }
}

static __global__ void end(const float *value, double samples, float *gradient, double *loss)
{
    if (blockIdx.x + threadIdx.x > 0)
        return;
    *loss += (double)*value / samples;
    *gradient = (float)(1 / samples);
}

/* ---- launches */

static unsigned strategy_count_blocks(size_t rows)
{
    return rows < MOST_BLOCKS ? (unsigned)rows : MOST_BLOCKS;
}

cudaError_t kernel_strides(const struct kernel_strides *s, const float *from, float *to)
{
    if (s->total == 0)
        return cudaSuccess;
    return s->total <= UINT32_MAX
               ? LAUNCH(by_strides<uint32_t>, blocks_for(s->total), *s, from, to)
               : LAUNCH(by_strides<uint64_t>, blocks_for(s->total), *s, from, to);
}

cudaError_t kernel_row_sums(const struct kernel_row_sums *s, const float *x, float *out,
                            float *work, unsigned *ticket)
{
    size_t parts = parts_of(s->rows, COLUMN_PARTS), blocks = (s->columns + BLOCK - 1) / BLOCK;
    if (s->rows == 0 || s->columns == 0)
        return cudaSuccess;
    if (blocks > TICKETS || parts * s->columns > SUMS_WORK)
        parts = 1;
    return LAUNCH(strided_sums, dim3((unsigned)blocks, (unsigned)parts), *s, x, out, work, ticket);
}

static unsigned parts_for(size_t n)
{
    unsigned blocks = blocks_for(n);
    return blocks < CLIP_PARTS ? blocks : (unsigned)CLIP_PARTS;
}

cudaError_t kernel_total(float *y, const float *x, size_t n, double *part, unsigned *ticket)
{
    return LAUNCH(total, parts_for(n), y, x, n, part, ticket);
}

cudaError_t kernel_bend(int relu, float *y, const float *x, size_t n)
{
    return LAUNCH(bend, blocks_for(n), relu != 0, y, x, n);
}

cudaError_t kernel_bend_backward(int relu, float *dx, const float *y, const float *dy, size_t n)
{
    return LAUNCH(bend_backward, blocks_for(n), relu != 0, dx, y, dy, n);
}

cudaError_t kernel_multiplied(float *y, const float *a, const float *b, size_t n)
{
    return LAUNCH(multiplied, blocks_for(n), y, a, b, n);
}

cudaError_t kernel_drop(const struct kernel_drop *d, const float *x, float *saved, float *y)
{
    return LAUNCH(drop, blocks_for(d->n), *d, x, saved, y);
}

cudaError_t kernel_softmax(float *x, const float *mask, size_t rows, size_t n, size_t period)
{
    return rows * n == 0
               ? cudaSuccess
               : LAUNCH(masked_softmax, strategy_count_blocks(rows), x, mask, rows, n, period);
}

cudaError_t kernel_softmax_backward(float *dp, const float *p, size_t rows, size_t n)
{
    return rows * n == 0 ? cudaSuccess
                         : LAUNCH(softmax_backward, strategy_count_blocks(rows), dp, p, rows, n);
}

cudaError_t kernel_log_softmax(float *y, const float *x, size_t rows, size_t n)
{
    return rows * n == 0 ? cudaSuccess
                         : LAUNCH(log_softmax, strategy_count_blocks(rows), y, x, rows, n);
}

cudaError_t kernel_log_softmax_backward(float *dx, const float *y, const float *dy, size_t rows,
                                        size_t n)
{
    return rows * n == 0
               ? cudaSuccess
               : LAUNCH(log_softmax_backward, strategy_count_blocks(rows), dx, y, dy, rows, n);
}

cudaError_t kernel_slots(const struct kernel_slots *r)
{
    return r->samples == 0 ? cudaSuccess : LAUNCH(slots, strategy_count_blocks(r->samples), *r);
}

cudaError_t kernel_slots_backward(const struct kernel_slots *r, const float *d_combine, float *d)
{
    size_t n = r->samples * r->tokens * r->experts;
    return LAUNCH(slots_backward, blocks_for(n), *r, n, d_combine, d);
}

cudaError_t kernel_look_up(const struct kernel_lookups *l, const float *table, float *y)
{
    return l->n == 0 ? cudaSuccess : LAUNCH(look_up, strategy_count_blocks(l->n), *l, table, y);
}

cudaError_t kernel_look_up_backward(const struct kernel_lookups *l, const float *dy, float *d_table)
{
    return l->rows == 0 ? cudaSuccess
                        : LAUNCH(look_up_backward, strategy_count_blocks(l->rows), *l, dy, d_table);
}

cudaError_t kernel_pick(const struct kernel_picks *p, const float *x, float *loss, double *part,
                        unsigned *ticket)
{
    return LAUNCH(pick, parts_for(p->samples * p->places), *p, x, loss, part, ticket);
}

cudaError_t kernel_pick_backward(const struct kernel_picks *p, const float *d_loss, float *dx)
{
    return LAUNCH(pick_backward, blocks_for(p->samples * p->places), *p, d_loss, dx);
}

cudaError_t kernel_end(const float *value, double samples, float *gradient, double *loss)
{
    return LAUNCH(end, 1, value, samples, gradient, loss);
}
