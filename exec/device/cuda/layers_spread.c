/* Experts that are spread over ranks (exec/device/cpu/experts_exchange.c) on a GPU, in fp32. Rows go in parts to the ranks
 * of their experts, and what these make of them comes back; likewise gradients, with the gate's weights.
 *
 * Where an expert takes a number of rows of a sample at most, a part has room for them, and what is not taken is zeros,
 * of which an expert's gradients are zeros: nobody needs to know how many there are. Else members tell each other, the
 * host waits for that, and a part is as long as the longest. The host keeps how long for the backward.
 *
 * saved: as alone the choices; what has come for them; counts, sent and come; begin, tile, from and weights of what has
 * come, and its rows; parts to send, and come. There is room for everything to go to one rank. */
#include <string.h>

#include "exec/device/cpu/experts.h"
#include "exec/device/cuda/experts.h"
#include "exec/device/cuda/layers.h"

/* Rows of a part at most, of a batch: a token's choices are different experts. */
static size_t longest(const struct layer *l, size_t batch)
{
    size_t here = l->experts / l->spread, k = l->top_k < here ? l->top_k : here;
    return size_times(batch, layer_drops(l) ? l->slots / l->experts * here : l->tokens * k);
}

static void forward(const struct layer *l, struct layer_io *io);
static void backward(const struct layer *l, struct layer_io *io);

static const struct layer_kind spread_experts = {
    .name = "experts", .inputs = 2, .forward = forward, .backward = backward};

void cuda_spread_sizes(struct layer *l)
{
    size_t met = size_times(l->spread, longest(l, 1));
    size_t row = 2 + 4 * l->in + experts_wide(l) + l->inner;
    l->kind = &spread_experts;
    l->saved = size_plus(cuda_experts_numbers(l, 1), size_times(l->slots, l->in));
    l->saved = size_plus(l->saved, size_times(2 * l->spread, l->experts));
    l->saved = size_plus(l->saved, 2 * (l->experts / l->spread + 1));
    l->saved = size_plus(l->saved, size_times(met, row));
    l->work = 0;
}

struct spread {
    struct kernel_spread s;
    struct experts_rows met;
    size_t most_own;
    real *y, *counts, *parts; /* counts [2][spread][experts] */
};

/* Everything but how long parts are. */
static struct spread spread_of(const struct layer *l, const struct layer_io *io)
{
    size_t here = l->experts / l->spread, rows = l->spread * longest(l, io->batch);
    struct spread k = {.most_own = io->batch * l->slots};
    struct kernel_spread *s = &k.s;
    k.y = io->saved + cuda_experts_numbers(l, io->batch);
    k.counts = k.y + k.most_own * l->in;
    s->own = cuda_experts_routes(l, io);
    s->spread = l->spread;
    s->member = l->member;
    s->here = here;
    s->counts = (int32_t *)(void *)(k.counts + l->spread * l->experts);
    s->begin = (int32_t *)(void *)(k.counts + 2 * l->spread * l->experts);
    s->tile = s->begin + here + 1;
    s->from = s->tile + here + 1;
    s->weight = (real *)(void *)(s->from + rows);
    k.met.x = s->weight + rows;
    k.met.y = k.met.x + rows * l->in;
    k.met.inside = k.met.y + rows * l->in;
    k.met.act = k.met.inside + rows * experts_wide(l);
    k.parts = k.met.act + rows * l->inner;
    return k;
}

static void set_most(struct spread *k, size_t most)
{
    k->s.most = most;
    k->met.most = k->s.spread * most;
    k->met.r = (struct kernel_routes){.type = KERNEL_FP32,
                                      .experts = k->s.here,
                                      .begin = k->s.begin,
                                      .tile = k->s.tile,
                                      .weight = k->s.weight};
}

/* What is for member m is at m's place in the first half of `data`, what comes from it in the second. Parts for
 * oneself stay here. */
static real *exchange(const struct layer *l, struct layer_io *io, real *data, size_t n)
{
    real *come = data + l->spread * n;
    backend_cuda.copy(io->on, come + l->member * n, data + l->member * n, n * sizeof *data);
    io->reduction->exchange(io->reduction->self, FOR_EXPERTS, OP_ALLTOALL, data, 2 * l->spread * n);
    return come;
}

/* The longest of the parts that are so many rows of each expert [spread][experts]; 0: nobody can have that many. */
static size_t longest_of(const struct layer *l, size_t limit, const int32_t *told)
{
    size_t most = 0, here = l->experts / l->spread, rows = 0;
    for (size_t k = 0; k < l->spread * l->experts; k++) {
        rows = (k % here > 0 ? rows : 0) + (size_t)told[k];
        if (told[k] < 0 || rows > limit)
            return 0;
        most = rows > most ? rows : most;
    }
    return most;
}

/* How long parts are, by what members tell each other; waits for them. */
static size_t tell_counts(const struct layer *l, struct layer_io *io, const struct spread *k)
{
    size_t n = l->spread * l->experts;
    for (size_t m = 0; m < l->spread; m++)
        backend_cuda.copy(io->on, k->counts + m * l->experts, k->s.own.total,
                          l->experts * sizeof(int32_t));
    exchange(l, io, k->counts, l->experts);
    int32_t *told = (int32_t *)(void *)layer_grow(io, io->parts, n);
    if (!told)
        return 0;
    backend_cuda.copy(io->on, told, k->s.counts, n * sizeof *told);
    size_t most = longest_of(l, longest(l, io->batch), told);
    if (most == 0)
        io->reduction->fail(io->reduction->self,
                            error_set(STATUS_IO, "ranks say that they have impossible numbers of "
                                                 "rows for experts"));
    return most;
}

/* How long parts are: found in the forward, and kept on the host. */
static bool find_most(const struct layer *l, struct layer_io *io, struct spread *k, bool again)
{
    size_t most;
    if (layer_drops(l)) {
        k->s.room = io->batch * (l->slots / l->experts);
        set_most(k, longest(l, io->batch));
        return true;
    }
    real *kept = layer_grow(io, io->rows, sizeof most / sizeof *kept);
    if (!kept)
        return false;
    if (!again) {
        most = tell_counts(l, io, k);
        memcpy(kept, &most, sizeof most);
    }
    memcpy(&most, kept, sizeof most);
    set_most(k, most);
    return most > 0;
}

/* Rows of own choices to where their experts are, sorted there in `rows`. */
static void give(const struct layer *l, struct layer_io *io, const struct spread *k, const real *x,
                 bool weighted, real *rows)
{
    size_t n = k->s.most * l->in;
    if (k->s.room > 0)
        backend_cuda.zero(io->on, k->parts, l->spread * n * sizeof(real));
    CUDA_NOTE(io->on, "rows to experts",
              kernel_spread_send(&k->s, k->most_own, l->in, x, weighted, k->parts));
    real *come = exchange(l, io, k->parts, n);
    CUDA_NOTE(io->on, "rows to experts", kernel_spread_rows(&k->s, l->in, come, rows, false));
}

/* And back, as own choices are sorted. */
static void take(const struct layer *l, struct layer_io *io, const struct spread *k)
{
    CUDA_NOTE(io->on, "rows from experts",
              kernel_spread_rows(&k->s, l->in, k->parts, k->met.y, true));
    real *come = exchange(l, io, k->parts, k->s.most * l->in);
    CUDA_NOTE(io->on, "rows from experts",
              kernel_spread_take(&k->s, k->most_own, l->in, come, k->y));
}

static void forward(const struct layer *l, struct layer_io *io)
{
    struct spread k = spread_of(l, io);
    CUDA_NOTE(io->on, "routes", kernel_routes(&k.s.own));
    if (!find_most(l, io, &k, false))
        return;
    CUDA_NOTE(io->on, "routes", kernel_spread_meet(&k.s));
    give(l, io, &k, io->x[0], false, k.met.x);
    cuda_experts_products(l, io, &k.met);
    take(l, io, &k);
    CUDA_NOTE(io->on, "rows from experts", kernel_route_back(&k.s.own, l->in, k.y, true, io->y));
}

static void backward(const struct layer *l, struct layer_io *io)
{
    struct spread k = spread_of(l, io);
    if (!find_most(l, io, &k, true))
        return;
    CUDA_NOTE(io->on, "weights of experts",
              kernel_route_weights(&k.s.own, l->in, io->dy, k.y, io->dx[1]));
    give(l, io, &k, io->dy, true, k.met.y);
    cuda_experts_products_backward(l, io, &k.met);
    take(l, io, &k);
    CUDA_NOTE(io->on, "gradients from experts",
              kernel_route_back(&k.s.own, l->in, k.y, false, io->dx[0]));
}
