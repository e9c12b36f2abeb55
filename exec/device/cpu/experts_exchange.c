/* Experts that are spread over ranks: member m of a group has those from m E / members on.
 *
 * Every member tells all others how many rows it has for each expert. Then rows go to the ranks of
 * their experts, and what these make of them comes back; likewise gradients. A part of an exchange
 * is as long as the longest that any member sends, so that all members know its length. Rows that
 * have come are kept by sender and then by expert, in memory that grows with them.
 *
 * With sequence parallelism a shard sends the rows of its own tokens, and the shards of an expert,
 * each of which has a part of its inner channels, gather what has come to them all and scatter the
 * sums of what they make of it: rows are kept by shard first. */
#include <string.h>

#include "exec/device/cpu/experts.h"
#include "exec/ring.h"

/* Numbers of rows, as told: counts [member][expert]. */
struct exchange_routes {
    const struct layer *l;
    const real *counts;
    size_t here;  /* experts of a member */
    size_t most;  /* rows of a part */
    size_t total; /* that come here */
};

/* Rows from member `from` for member `to`. */
static size_t rows_between(const struct exchange_routes *r, size_t from, size_t to)
{
    size_t n = 0;
    for (size_t e = to * r->here; e < (to + 1) * r->here; e++)
        n += (size_t)r->counts[from * r->l->moe.experts + e];
    return n;
}

static struct exchange_routes exchange_routes(const struct layer *l, const real *counts)
{
    struct exchange_routes r = {.l = l, .counts = counts, .here = l->moe.experts / l->spread.ranks};
    for (size_t from = 0; from < l->spread.ranks; from++) {
        r.total += rows_between(&r, from, l->spread.rank);
        for (size_t to = 0; to < l->spread.ranks; to++) {
            size_t n = rows_between(&r, from, to);
            r.most = n > r.most ? n : r.most;
        }
    }
    return r;
}

/* The routes of every shard whose rows meet here. */
struct met {
    struct exchange_routes own;
    const real *counts; /* of all shards */
    size_t most;        /* rows of a shard */
    size_t total;
};

static struct exchange_routes routes_from(const struct layer *l, const real *counts, size_t shard)
{
    return exchange_routes(l, counts + ring_owned(l->spread.shards, shard) * l->spread.ranks *
                                           l->moe.experts);
}

static struct met exchange_count_rows(const struct layer *l, const real *counts)
{
    struct met m = {.own = routes_from(l, counts, l->spread.shard), .counts = counts};
    for (size_t k = 0; k < l->spread.shards; k++) {
        size_t n = routes_from(l, counts, k).total;
        m.most = n > m.most ? n : m.most;
        m.total += n;
    }
    return m;
}

/* Parts of `n` numbers for all members and from all, and `more` behind them; NULL: there is no
 * memory, which is noted. */
static real *exchange_buffers(const struct layer *l, struct layer_io *io, size_t n, size_t more)
{
    return layer_grow(io, io->parts, 2 * l->spread.ranks * n + more);
}

/* What member m sends is at m's place in the first half, what comes from it in the second. */
static real *sent(real *parts, size_t n, size_t m)
{
    return parts + m * n;
}
static real *come(const struct layer *l, real *parts, size_t n, size_t m)
{
    return parts + (l->spread.ranks + m) * n;
}

/* Parts for oneself stay here. */
static void exchange_parts(const struct layer *l, struct layer_io *io, real *parts, size_t n)
{
    memcpy(come(l, parts, n, l->spread.rank), sent(parts, n, l->spread.rank), n * sizeof *parts);
    if (n > 0)
        io->reduction->exchange(io->reduction->self, FOR_EXPERTS, OP_ALLTOALL, parts,
                                2 * l->spread.ranks * n);
}

/* counts [member][expert] from the own ones, which are in the first row; and those of all
 * shards. */
static bool exchange_send_counts(const struct layer *l, struct layer_io *io,
                                 const struct experts_kept *kept)
{
    real *p = exchange_buffers(l, io, l->moe.experts, 0);
    size_t n = l->spread.ranks * l->moe.experts;
    for (size_t m = 0; p && m < l->spread.ranks; m++)
        memcpy(sent(p, l->moe.experts, m), kept->counts, l->moe.experts * sizeof *p);
    if (!p)
        return false;
    exchange_parts(l, io, p, l->moe.experts);
    memcpy(kept->counts, come(l, p, l->moe.experts, 0), n * sizeof *p);
    if (l->spread.shards > 1)
        io->reduction->move(io->reduction->self, MOVE_GATHER, ELEMENT_FP32, kept->all_counts,
                            l->spread.shards * n);
    return true;
}

/* Rows of the own tokens, sorted by expert, to their parts, or back. */
static void move_own(const struct exchange_routes *r, struct layer_io *io, real *p, const real *x,
                     bool weighted)
{
    size_t c = r->l->in, part = r->most * c;
    for (size_t m = 0, at = 0; m < r->l->spread.ranks; m++) {
        size_t n = rows_between(r, r->l->spread.rank, m);
        experts_gather(r->l, io, at, n, x, weighted, sent(p, part, m));
        at += n;
    }
}

/* ---- rows that have come */

/* Where they are: `p` the parts of exchanges; behind them the rows of all shards, if there are
 * several. */
struct exchange_place {
    const struct layer *l;
    const struct met *met;
    real *p, *all;
    size_t part; /* numbers */
};

static struct exchange_place exchange_place(const struct layer *l, struct layer_io *io,
                                            const struct met *met)
{
    size_t part = met->own.most * l->in,
           more = l->spread.shards > 1 ? l->spread.shards * met->most * l->in : 0;
    real *p = exchange_buffers(l, io, part, more);
    return (struct exchange_place){l, met, p, p ? p + 2 * l->spread.ranks * part : NULL, part};
}

static real *rows_of_shard(const struct exchange_place *at, size_t shard)
{
    return at->all + ring_owned(at->l->spread.shards, shard) * at->met->most * at->l->in;
}

/* Rows that have come to this shard, to all shards: one after another, by sender. */
static void exchange_gather_counts(const struct exchange_place *at, struct layer_io *io)
{
    const struct layer *l = at->l;
    if (l->spread.shards < 2)
        return;
    real *own = rows_of_shard(at, l->spread.shard);
    for (size_t m = 0; m < l->spread.ranks; m++) {
        size_t n = rows_between(&at->met->own, m, l->spread.rank) * l->in;
        memcpy(own, come(l, at->p, at->part, m), n * sizeof *own);
        own += n;
    }
    if (at->met->most > 0)
        io->reduction->move(io->reduction->self, MOVE_GATHER, ELEMENT_FP32, at->all,
                            l->spread.shards * at->met->most * l->in);
}

/* The sums of what the shards have made of the rows of this one, to who has sent them. */
static void exchange_scatter(const struct exchange_place *at, struct layer_io *io)
{
    const struct layer *l = at->l;
    if (l->spread.shards < 2)
        return;
    real *own = rows_of_shard(at, l->spread.shard);
    if (at->met->most > 0)
        io->reduction->move(io->reduction->self, MOVE_SCATTER, ELEMENT_FP32, at->all,
                            l->spread.shards * at->met->most * l->in);
    for (size_t m = 0; m < l->spread.ranks; m++) {
        size_t n = rows_between(&at->met->own, m, l->spread.rank) * l->in;
        memcpy(sent(at->p, at->part, m), own, n * sizeof *own);
        own += n;
    }
}

/* One expert of those here and the rows that one sender of one shard has for it, in the order in
 * which rows are kept. */
struct exchange_block {
    struct expert_rows rows;
    size_t expert;
    real *from, *to; /* in the exchange: as they have come, and what goes back; or the same */
};

struct exchange_blocks {
    struct exchange_place at;
    struct expert_rows all;
    struct exchange_routes routes;
    size_t shard, sender, expert;
    size_t kept;      /* rows before it, */
    size_t of_shard;  /* of these of the same shard, */
    size_t of_sender; /* and sender */
};

static struct exchange_blocks exchange_blocks(const struct exchange_place *at,
                                              struct expert_rows all)
{
    return (struct exchange_blocks){
        .at = *at, .all = all, .routes = routes_from(at->l, at->met->counts, 0)};
}

static struct exchange_block block_here(const struct exchange_blocks *s, size_t n)
{
    const struct layer *l = s->at.l;
    struct exchange_block b = {.rows = {n, s->all.x + s->kept * l->in,
                                        s->all.inner + s->kept * experts_wide(l),
                                        s->all.act + s->kept * l->moe.inner},
                               .expert = s->expert};
    if (l->spread.shards > 1) {
        b.from = b.to = rows_of_shard(&s->at, s->shard) + s->of_shard * l->in;
    } else {
        b.from = come(l, s->at.p, s->at.part, s->sender) + s->of_sender * l->in;
        b.to = sent(s->at.p, s->at.part, s->sender) + s->of_sender * l->in;
    }
    return b;
}

/* false: there are no more. */
static bool next_block(struct exchange_blocks *s, struct exchange_block *b)
{
    const struct layer *l = s->at.l;
    if (s->shard >= l->spread.shards)
        return false;
    size_t first = l->spread.rank * s->routes.here;
    size_t n = (size_t)s->routes.counts[s->sender * l->moe.experts + first + s->expert];
    *b = block_here(s, n);
    s->kept += n;
    s->of_shard += n;
    s->of_sender += n;
    if (++s->expert < s->routes.here)
        return true;
    s->expert = s->of_sender = 0;
    if (++s->sender < l->spread.ranks)
        return true;
    s->sender = s->of_shard = 0;
    if (++s->shard < l->spread.shards)
        s->routes = routes_from(l, s->at.met->counts, s->shard);
    return true;
}

/* ---- passes */

void experts_exchange_forward(const struct layer *l, struct layer_io *io)
{
    const struct experts_kept kept = experts_kept(l, io);
    struct exchange_block b;
    if (!exchange_send_counts(l, io, &kept))
        return;
    const struct met met = exchange_count_rows(l, kept.all_counts);
    const struct exchange_place at = exchange_place(l, io, &met);
    real *data = layer_grow(io, io->rows, met.total * experts_row_size(l));
    if (!at.p || !data)
        return;
    move_own(&met.own, io, at.p, io->x[0], false);
    exchange_parts(l, io, at.p, at.part);
    exchange_gather_counts(&at, io);
    for (struct exchange_blocks all = exchange_blocks(&at, experts_rows(l, data, met.total));
         next_block(&all, &b);) {
        memcpy(b.rows.x, b.from, b.rows.n * l->in * sizeof *b.rows.x);
        experts_forward(l, io, &b.rows, b.expert, b.to);
    }
    exchange_scatter(&at, io);
    exchange_parts(l, io, at.p, at.part);
    for (size_t m = 0, row = 0; m < l->spread.ranks; m++) {
        size_t n = rows_between(&met.own, l->spread.rank, m);
        memcpy(kept.y + row * l->in, come(l, at.p, at.part, m), n * l->in * sizeof *kept.y);
        row += n;
    }
}

void experts_exchange_backward(const struct layer *l, struct layer_io *io)
{
    const struct experts_kept kept = experts_kept(l, io);
    const struct met met = exchange_count_rows(l, kept.all_counts);
    const struct exchange_place at = exchange_place(l, io, &met);
    struct exchange_block b;
    if (!at.p)
        return;
    move_own(&met.own, io, at.p, io->dy, true);
    exchange_parts(l, io, at.p, at.part);
    exchange_gather_counts(&at, io);
    for (struct exchange_blocks all =
             exchange_blocks(&at, experts_rows(l, io->rows->data, met.total));
         next_block(&all, &b);)
        experts_backward(l, io, &b.rows, b.expert, b.from, b.to);
    exchange_scatter(&at, io);
    exchange_parts(l, io, at.p, at.part);
    for (size_t m = 0, row = 0; m < l->spread.ranks; m++) {
        size_t n = rows_between(&met.own, l->spread.rank, m);
        experts_scatter(l, io, row, n, come(l, at.p, at.part, m));
        row += n;
    }
}
