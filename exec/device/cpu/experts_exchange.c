/* Experts that are spread over ranks: member m of a group has those from m E / members on.
 *
 * Every member tells all others how many rows it has for each expert. Then rows go to the ranks of
 * their experts, and what these make of them comes back; likewise gradients. A part of an exchange
 * is as long as the longest that any member sends, so that all members know its length. Rows that
 * have come are kept by sender and then by expert, in memory that grows with them. */
#include <string.h>

#include "exec/device/cpu/experts.h"

/* Numbers of rows, as told: counts [member][expert]. */
struct routes {
    const struct layer *l;
    const real *counts;
    size_t here;  /* experts of a member */
    size_t most;  /* rows of a part */
    size_t total; /* that come here */
};

/* Rows from member `from` for member `to`. */
static size_t rows_between(const struct routes *r, size_t from, size_t to)
{
    size_t n = 0;
    for (size_t e = to * r->here; e < (to + 1) * r->here; e++)
        n += (size_t)r->counts[from * r->l->experts + e];
    return n;
}

static struct routes routes_of(const struct layer *l, const real *counts)
{
    struct routes r = {.l = l, .counts = counts, .here = l->experts / l->spread};
    for (size_t from = 0; from < l->spread; from++) {
        r.total += rows_between(&r, from, l->member);
        for (size_t to = 0; to < l->spread; to++) {
            size_t n = rows_between(&r, from, to);
            r.most = n > r.most ? n : r.most;
        }
    }
    return r;
}

/* Parts of `n` numbers for all members and from all; NULL: there is no memory, which is noted. */
static real *parts(const struct layer *l, struct layer_io *io, size_t n)
{
    return layer_grow(io, io->parts, 2 * l->spread * n);
}

/* What member m sends is at m's place in the first half, what comes from it in the second. */
static real *sent(real *parts, size_t n, size_t m)
{
    return parts + m * n;
}
static real *come(const struct layer *l, real *parts, size_t n, size_t m)
{
    return parts + (l->spread + m) * n;
}

/* Parts for oneself stay here. */
static void exchange(const struct layer *l, struct layer_io *io, real *parts, size_t n)
{
    memcpy(come(l, parts, n, l->member), sent(parts, n, l->member), n * sizeof *parts);
    if (n > 0)
        io->reduction->exchange(io->reduction->self, FOR_EXPERTS, OP_ALLTOALL, parts,
                                2 * l->spread * n);
}

/* counts [member][expert] from the own ones, which are in the first row. */
static bool tell_counts(const struct layer *l, struct layer_io *io, real *counts)
{
    real *p = parts(l, io, l->experts);
    for (size_t m = 0; p && m < l->spread; m++)
        memcpy(sent(p, l->experts, m), counts, l->experts * sizeof *counts);
    if (!p)
        return false;
    exchange(l, io, p, l->experts);
    memcpy(counts, come(l, p, l->experts, 0), l->spread * l->experts * sizeof *counts);
    return true;
}

/* Rows of the own tokens, sorted by expert, to their parts, or back. */
static void move_own(const struct routes *r, struct layer_io *io, real *p, const real *x,
                     bool weighted)
{
    size_t c = r->l->in, part = r->most * c;
    for (size_t m = 0, at = 0; m < r->l->spread; m++) {
        size_t n = rows_between(r, r->l->member, m);
        experts_gather(r->l, io, at, n, x, weighted, sent(p, part, m));
        at += n;
    }
}

/* One expert of those here and the rows that one sender has for it, in the order in which rows are
 * kept; false: there are no more. */
struct block {
    size_t sender, expert;
    size_t at; /* among the rows kept */
    size_t in; /* in the sender's part */
    size_t n;
};

static bool next_block(const struct routes *r, struct block *b)
{
    b->at += b->n;
    b->in += b->n;
    if (++b->expert >= r->here) {
        b->expert = 0;
        b->in = 0;
        b->sender++;
    }
    if (b->sender >= r->l->spread)
        return false;
    b->n = (size_t)r->counts[b->sender * r->l->experts + r->l->member * r->here + b->expert];
    return true;
}

static struct block before_blocks(const struct routes *r)
{
    return (struct block){.expert = r->here, .sender = (size_t)-1};
}

static struct expert_rows rows_at(const struct layer *l, const struct expert_rows *all,
                                  const struct block *b)
{
    size_t wide = l->gated ? 2 * l->inner : l->inner;
    return (struct expert_rows){b->n, all->x + b->at * l->in, all->inner + b->at * wide,
                                all->act + b->at * l->inner};
}

void experts_exchange_forward(const struct layer *l, struct layer_io *io)
{
    const struct experts_kept kept = experts_kept(l, io);
    if (!tell_counts(l, io, kept.counts))
        return;
    const struct routes r = routes_of(l, kept.counts);
    size_t part = r.most * l->in;
    real *p = parts(l, io, part), *data = layer_grow(io, io->rows, r.total * experts_row_size(l));
    if (!p || !data)
        return;
    const struct expert_rows all = experts_rows(l, data, r.total);
    move_own(&r, io, p, io->x[0], false);
    exchange(l, io, p, part);
    for (struct block b = before_blocks(&r); next_block(&r, &b);) {
        const struct expert_rows rows = rows_at(l, &all, &b);
        memcpy(rows.x, come(l, p, part, b.sender) + b.in * l->in, b.n * l->in * sizeof *rows.x);
        experts_forward(l, io, &rows, b.expert, sent(p, part, b.sender) + b.in * l->in);
    }
    exchange(l, io, p, part);
    for (size_t m = 0, at = 0; m < l->spread; m++) {
        size_t n = rows_between(&r, l->member, m);
        memcpy(kept.y + at * l->in, come(l, p, part, m), n * l->in * sizeof *p);
        at += n;
    }
}

void experts_exchange_backward(const struct layer *l, struct layer_io *io)
{
    const struct experts_kept kept = experts_kept(l, io);
    const struct routes r = routes_of(l, kept.counts);
    size_t part = r.most * l->in;
    real *p = parts(l, io, part);
    if (!p)
        return;
    const struct expert_rows all = experts_rows(l, io->rows->data, r.total);
    move_own(&r, io, p, io->dy, true);
    exchange(l, io, p, part);
    for (struct block b = before_blocks(&r); next_block(&r, &b);) {
        const struct expert_rows rows = rows_at(l, &all, &b);
        size_t at = b.in * l->in;
        experts_backward(l, io, &rows, b.expert, come(l, p, part, b.sender) + at,
                         sent(p, part, b.sender) + at);
    }
    exchange(l, io, p, part);
    for (size_t m = 0, at = 0; m < l->spread; m++) {
        size_t n = rows_between(&r, l->member, m);
        experts_scatter(l, io, at, n, come(l, p, part, m));
        at += n;
    }
}
