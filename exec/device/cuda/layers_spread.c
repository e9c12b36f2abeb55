/* Experts that are spread over ranks (exec/device/cpu/experts_exchange.c) on a GPU, in fp32. Rows
 * go in parts to the ranks of their experts, and what these make of them comes back; likewise
 * gradients, with the gate's weights.
 *
 * Where an expert takes a number of rows of a sample at most, a part has room for them, and what is
 * not taken is zeros, of which an expert's gradients are zeros: nobody needs to know how many there
 * are. Else members tell each other, the host waits for that, and a part is as long as the longest.
 * The host keeps how long for the backward.
 *
 * With sequence parallelism a shard sends the rows of its own tokens, and the shards of an expert
 * gather all parts that have come to them, and scatter the sums of what they make of them: senders
 * are the members as each shard has them.
 *
 * saved: as alone the choices; what has come for them; counts, sent and come, and of several shards
 * all that have come; begin, tile, from and weights of what has come, and its rows; parts to send,
 * and come, and of several shards those of all. There is room for everything to go to one rank. */
#include <string.h>

#include "exec/device/cpu/experts.h"
#include "exec/device/cuda/experts.h"
#include "exec/device/cuda/layers.h"

/* Rows of a part at most, of a batch: a token's choices are different experts. */
static size_t cuda_spread_longest(const struct layer *l, size_t batch)
{
    size_t here = l->moe.experts / l->spread.ranks, k = l->moe.top_k < here ? l->moe.top_k : here;
    return size_times(batch, layer_drops(l) ? l->moe.slots / l->moe.experts * here : l->tokens * k);
}

/* Who has rows for the experts here. */
static size_t senders_of(const struct layer *l)
{
    return l->spread.shards * l->spread.ranks;
}

static void cuda_spread_forward(const struct layer *l, struct layer_io *io);
static void cuda_spread_backward(const struct layer *l, struct layer_io *io);

static const struct layer_kind spread_experts = {.type = OPERATOR_experts,
                                                 .inputs = 2,
                                                 .forward = cuda_spread_forward,
                                                 .backward = cuda_spread_backward};

void cuda_spread_sizes(struct layer *l)
{
    size_t shards = l->spread.shards, all = shards > 1 ? shards : 0;
    size_t part_rows = size_times(l->spread.ranks, cuda_spread_longest(l, 1));
    size_t row = 2 + 2 * l->in + experts_wide(l) + l->moe.inner;
    l->kind = &spread_experts;
    l->saved = size_plus(cuda_experts_numbers(l, 1), size_times(l->moe.slots, l->in));
    l->saved = size_plus(l->saved, size_times((2 + all) * l->spread.ranks, l->moe.experts));
    l->saved = size_plus(l->saved, 2 * (l->moe.experts / l->spread.ranks + 1));
    l->saved = size_plus(l->saved, size_times(part_rows, shards * row + (2 + all) * l->in));
    l->work = 0;
}

struct experts_spread {
    struct kernel_spread s;
    struct experts_rows met;
    size_t most_own;
    real *y, *counts, *parts; /* counts [2][spread][experts] */
    real *all_counts, *all;   /* [row_shards] of what comes to one; of one shard, come and parts */
};

/* Everything but how long parts are. */
static struct experts_spread cuda_spread_of(const struct layer *l, const struct layer_io *io)
{
    size_t here = l->moe.experts / l->spread.ranks, told = l->spread.ranks * l->moe.experts;
    size_t part_rows = l->spread.ranks * cuda_spread_longest(l, io->batch),
           rows = l->spread.shards * part_rows;
    struct experts_spread k = {.most_own = io->batch * l->moe.slots};
    struct kernel_spread *s = &k.s;
    k.y = io->saved + cuda_experts_numbers(l, io->batch);
    k.counts = k.y + k.most_own * l->in;
    s->own = cuda_experts_routes(l, io);
    s->senders = senders_of(l);
    s->member = l->spread.rank;
    s->here = here;
    k.all_counts = k.counts + (l->spread.shards > 1 ? 2 : 1) * told;
    s->counts = (int32_t *)(void *)k.all_counts;
    s->begin = (int32_t *)(void *)(k.all_counts + l->spread.shards * told);
    s->tile = s->begin + here + 1;
    s->from = s->tile + here + 1;
    s->weight = (real *)(void *)(s->from + rows);
    k.met.x = s->weight + rows;
    k.met.y = k.met.x + rows * l->in;
    k.met.inside = k.met.y + rows * l->in;
    k.met.act = k.met.inside + rows * experts_wide(l);
    k.parts = k.met.act + rows * l->moe.inner;
    k.all = l->spread.shards > 1 ? k.parts + 2 * part_rows * l->in : k.parts;
    return k;
}

static void set_most(struct experts_spread *k, size_t most)
{
    k->s.most = most;
    k->met.most = k->s.senders * most;
    k->met.r = (struct kernel_routes){.type = KERNEL_FP32,
                                      .experts = k->s.here,
                                      .begin = k->s.begin,
                                      .tile = k->s.tile,
                                      .weight = k->s.weight};
}

/* What is for member m is at m's place in the first half of `data`, what comes from it in the
 * second. Parts for oneself stay here. */
static real *cuda_spread_exchange(const struct layer *l, struct layer_io *io, real *data, size_t n)
{
    size_t half = l->spread.ranks * n, own = l->spread.rank * n;
    real *come = data + half;
    backend_cuda.copy(io->on, come + own, data + own, n * sizeof *data);
    io->reduction->exchange(io->reduction->self, FOR_EXPERTS, OP_ALLTOALL, data, 2 * half);
    return come;
}

/* The place of this shard in `all`, n numbers of each. */
static real *own_of(const struct layer *l, const struct layer_io *io, real *all, size_t n)
{
    return all + cuda_part(io->on, l->spread.shards * n, l->spread.shards, l->spread.shard).first;
}

/* What has come to this shard, to all shards: n numbers of each. One shard has them already. */
static real *cuda_spread_gather(const struct layer *l, struct layer_io *io, real *come, real *all,
                                size_t n)
{
    if (l->spread.shards == 1)
        return come;
    backend_cuda.copy(io->on, own_of(l, io, all, n), come, n * sizeof *all);
    io->reduction->move(io->reduction->self, MOVE_GATHER, ELEMENT_FP32, all, l->spread.shards * n);
    return all;
}

/* The longest of the parts that are so many rows of each expert [senders][experts]; 0: nobody can
 * have that many. */
static size_t longest_of(const struct layer *l, size_t limit, const int32_t *told)
{
    size_t most = 0, here = l->moe.experts / l->spread.ranks, rows = 0;
    for (size_t k = 0; k < senders_of(l) * l->moe.experts; k++) {
        rows = (k % here > 0 ? rows : 0) + (size_t)told[k];
        if (told[k] < 0 || rows > limit)
            return 0;
        most = rows > most ? rows : most;
    }
    return most;
}

/* How long parts are, by what members tell each other; waits for them. */
static size_t cuda_spread_send_counts(const struct layer *l, struct layer_io *io,
                                      const struct experts_spread *k)
{
    size_t n = senders_of(l) * l->moe.experts;
    for (size_t m = 0; m < l->spread.ranks; m++)
        backend_cuda.copy(io->on, k->counts + m * l->moe.experts, k->s.own.total,
                          l->moe.experts * sizeof(int32_t));
    real *come = cuda_spread_exchange(l, io, k->counts, l->moe.experts);
    cuda_spread_gather(l, io, come, k->all_counts, l->spread.ranks * l->moe.experts);
    int32_t *told = (int32_t *)(void *)layer_grow(io, io->parts, n);
    if (!told)
        return 0;
    backend_cuda.copy(io->on, told, k->s.counts, n * sizeof *told);
    size_t most = longest_of(l, cuda_spread_longest(l, io->batch), told);
    if (most == 0)
        io->reduction->fail(
            io->reduction->self,
            error_set(STATUS_IO, "ranks exchanged invalid token counts for their experts"));
    return most;
}

/* How long parts are: found in the forward, and kept on the host. */
static bool find_most(const struct layer *l, struct layer_io *io, struct experts_spread *k,
                      bool again)
{
    size_t most;
    if (layer_drops(l)) {
        k->s.room = io->batch * (l->moe.slots / l->moe.experts);
        set_most(k, cuda_spread_longest(l, io->batch));
        return true;
    }
    real *kept = layer_grow(io, io->rows, sizeof most / sizeof *kept);
    if (!kept)
        return false;
    if (!again) {
        most = cuda_spread_send_counts(l, io, k);
        memcpy(kept, &most, sizeof most);
    }
    memcpy(&most, kept, sizeof most);
    set_most(k, most);
    return most > 0;
}

/* Rows of own choices to where their experts are, sorted there in `rows`. */
static void cuda_spread_send_rows(const struct layer *l, struct layer_io *io,
                                  const struct experts_spread *k, const real *x, bool weighted,
                                  real *rows)
{
    size_t n = k->s.most * l->in;
    if (k->s.room > 0)
        backend_cuda.zero(io->on, k->parts, l->spread.ranks * n * sizeof(real));
    CUDA_NOTE(io->on, "rows to experts",
              kernel_spread_send(&k->s, k->most_own, l->in, x, weighted, k->parts));
    real *come = cuda_spread_gather(l, io, cuda_spread_exchange(l, io, k->parts, n), k->all,
                                    l->spread.ranks * n);
    CUDA_NOTE(io->on, "rows to experts", kernel_spread_rows(&k->s, l->in, come, rows, false));
}

/* The sums of what the shards have made of the rows of this one, from all to the parts. */
static void cuda_spread_scatter(const struct layer *l, struct layer_io *io,
                                const struct experts_spread *k)
{
    size_t n = l->spread.ranks * k->s.most * l->in;
    if (l->spread.shards == 1)
        return;
    io->reduction->move(io->reduction->self, MOVE_SCATTER, ELEMENT_FP32, k->all,
                        l->spread.shards * n);
    backend_cuda.copy(io->on, k->parts, own_of(l, io, k->all, n), n * sizeof(real));
}

/* And back, as own choices are sorted. */
static void cuda_spread_return_rows(const struct layer *l, struct layer_io *io,
                                    const struct experts_spread *k)
{
    CUDA_NOTE(io->on, "rows from experts",
              kernel_spread_rows(&k->s, l->in, k->all, k->met.y, true));
    cuda_spread_scatter(l, io, k);
    real *come = cuda_spread_exchange(l, io, k->parts, k->s.most * l->in);
    CUDA_NOTE(io->on, "rows from experts",
              kernel_spread_take(&k->s, k->most_own, l->in, come, k->y));
}

static void cuda_spread_forward(const struct layer *l, struct layer_io *io)
{
    struct experts_spread k = cuda_spread_of(l, io);
    CUDA_NOTE(io->on, "routes", kernel_routes(&k.s.own));
    if (!find_most(l, io, &k, false))
        return;
    CUDA_NOTE(io->on, "routes", kernel_spread_meet(&k.s));
    cuda_spread_send_rows(l, io, &k, io->x[0], false, k.met.x);
    cuda_experts_products(l, io, &k.met);
    cuda_spread_return_rows(l, io, &k);
    CUDA_NOTE(io->on, "rows from experts", kernel_route_back(&k.s.own, l->in, k.y, true, io->y));
}

static void cuda_spread_backward(const struct layer *l, struct layer_io *io)
{
    struct experts_spread k = cuda_spread_of(l, io);
    if (!find_most(l, io, &k, true))
        return;
    CUDA_NOTE(io->on, "weights of experts",
              kernel_route_weights(&k.s.own, l->in, io->dy, k.y, io->dx[1]));
    cuda_spread_send_rows(l, io, &k, io->dy, true, k.met.y);
    cuda_experts_products_backward(l, io, &k.met);
    cuda_spread_return_rows(l, io, &k);
    CUDA_NOTE(io->on, "gradients from experts",
              kernel_route_back(&k.s.own, l->in, k.y, false, io->dx[0]));
}
