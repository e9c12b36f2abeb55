/* Ops that are alike, and for a few keys what those cost that were asked for. */
#include "core/cost/op_costs.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/strategy/framework.h"

enum {
    KINDS = 64,  /* the last kinds of ops that an op is compared with */
    KEYS = 64,   /* keys that are remembered, */
    MOST = 65536 /* and costs of all of them together; when there are more all are forgotten */
};

/* What was found for a key. */
struct answers {
    struct op_costs_key key;
    char optimizer[32];
    struct framework framework; /* which the key borrows */
    struct op_cost *cost;       /* [kinds] */
    bool *known;                /* [kinds] */
};

struct op_costs {
    uint32_t *kind;  /* [ops] number of the ops that it is like */
    uint32_t *first; /* [kinds] of them the first */
    size_t kinds, keys, most;
    struct answers answer[KEYS];
    struct answers *now; /* NULL: the key cannot be remembered */
    bool casts;
    struct op_costs_beside beside;
};

/* ---- alike */

static bool same_attributes(const struct model_op *a, const struct model_op *b)
{
    bool same = a->attributes == b->attributes;
    for (size_t k = 0; same && k < a->attributes; k++)
        same = a->attribute[k].value == b->attribute[k].value &&
               strcmp(a->attribute[k].name, b->attribute[k].name) == 0;
    return same;
}

static bool same_sizes(const struct model_op *a, const struct model_op *b)
{
    const double x[] = {a->forward_flop, a->backward_flop, a->forward_bytes, a->backward_bytes},
                 y[] = {b->forward_flop, b->backward_flop, b->forward_bytes, b->backward_bytes};
    const int64_t p[] = {a->parameter_bytes, a->shared_bytes, a->exchange_bytes,
                         a->context_bytes,   a->stash_bytes,  a->output_bytes},
                  q[] = {b->parameter_bytes, b->shared_bytes, b->exchange_bytes,
                         b->context_bytes,   b->stash_bytes,  b->output_bytes};
    return memcmp(x, y, sizeof x) == 0 && memcmp(p, q, sizeof p) == 0;
}

/* The operator that reads the op's output first; none: OPERATOR_UNREAD. */
static enum operator_type reader_of(const struct model *m, uint32_t op)
{
    bool read = m->out_start[op] < m->out_start[op + 1];
    return read ? model_op_type(&m->op[m->out[m->out_start[op]]]) : OPERATOR_UNREAD;
}

/* In all that cost_op() looks at. */
static bool is_alike(const struct model *m, uint32_t i, uint32_t k)
{
    const struct model_op *a = &m->op[i], *b = &m->op[k];
    return same_sizes(a, b) && a->sparse == b->sparse && a->tensor == b->tensor &&
           a->dtype == b->dtype && strcmp(a->kind, b->kind) == 0 && same_attributes(a, b) &&
           reader_of(m, i) == reader_of(m, k) && model_in_block(m, i) == model_in_block(m, k);
}

/* Measured times are each op's own. */
static void number_kinds(const struct model *m, struct op_costs *c)
{
    for (uint32_t i = 0; i < m->n; i++) {
        c->casts = c->casts || data_type_narrow(model_dtype(m, &m->op[i]));
        size_t k = c->kinds, least = m->profiles > 0 ? k : k > KINDS ? k - KINDS : 0;
        while (k > least && !is_alike(m, i, c->first[k - 1]))
            k--;
        if (k > least) {
            c->kind[i] = (uint32_t)k - 1;
        } else {
            c->kind[i] = (uint32_t)c->kinds;
            c->first[c->kinds++] = i;
        }
    }
}

static void forget(struct op_costs *c)
{
    for (size_t k = 0; k < c->keys; k++) {
        free(c->answer[k].cost);
        free(c->answer[k].known);
    }
    c->keys = 0;
    c->now = NULL;
}

void op_costs_close(struct op_costs *c)
{
    if (!c)
        return;
    if (c->beside.kept)
        c->beside.drop(c->beside.kept);
    forget(c);
    free(c->kind);
    free(c->first);
    free(c);
}

enum status op_costs_open(const struct model *m, struct op_costs **out)
{
    enum status st;
    struct op_costs *c = NULL;
    TRY(ARRAY_NEW(c, 1));
    TRY(ARRAY_NEW(c->kind, m->n));
    TRY(ARRAY_NEW(c->first, m->n));
    number_kinds(m, c);
    c->most = c->kinds > 0 && MOST / c->kinds < KEYS ? MOST / c->kinds : KEYS;
    *out = c;
    c = NULL;
out:
    op_costs_close(c);
    return st;
}

bool op_costs_casts(const struct op_costs *c)
{
    return c->casts;
}

struct op_costs_beside *op_costs_beside(struct op_costs *c)
{
    return &c->beside;
}

uint32_t op_costs_like(const struct op_costs *c, uint32_t op)
{
    return c->first[c->kind[op]];
}

/* ---- keys */

static bool is_for(const struct op_costs *c, const struct answers *a,
                   const struct op_costs_key *key)
{
    const struct cost_split *x = &a->key.split, *y = &key->split;
    return a->key.type == key->type &&
           memcmp(&a->key.samples, &key->samples, sizeof key->samples) == 0 &&
           x->shards == y->shards && x->sequence == y->sequence && x->experts == y->experts &&
           x->context == y->context &&
           memcmp(&x->imbalance, &y->imbalance, sizeof x->imbalance) == 0 &&
           (!c->casts || x->microbatches == y->microbatches) && !x->framework == !y->framework &&
           (!x->framework || memcmp(&a->framework, y->framework, sizeof a->framework) == 0) &&
           strcmp(a->optimizer, key->optimizer) == 0;
}

/* Room for another key, the oldest ones gone together; NULL: there is none. */
static struct answers *new_answers(struct op_costs *c, const struct op_costs_key *key)
{
    struct answers a = {.key = *key};
    if (strlen(key->optimizer) >= sizeof a.optimizer || c->most == 0)
        return NULL;
    if (c->keys == c->most)
        forget(c);
    strcpy(a.optimizer, key->optimizer);
    if (key->split.framework)
        memcpy(&a.framework, key->split.framework, sizeof a.framework);
    a.cost = calloc(c->kinds, sizeof *a.cost);
    a.known = calloc(c->kinds, sizeof *a.known);
    if (!a.cost || !a.known) {
        free(a.cost);
        free(a.known);
        return NULL;
    }
    c->answer[c->keys] = a;
    return &c->answer[c->keys++];
}

void op_costs_begin(struct op_costs *c, const struct op_costs_key *key)
{
    if (!c || (c->now && is_for(c, c->now, key)))
        return;
    c->now = NULL;
    for (size_t k = c->keys; k-- > 0 && !c->now;)
        if (is_for(c, &c->answer[k], key))
            c->now = &c->answer[k];
    if (!c->now)
        c->now = new_answers(c, key);
}

struct op_cost op_costs_of(struct op_costs *c, const struct model *m,
                           const struct op_costs_key *key, uint32_t op)
{
    if (!c || !c->now)
        return cost_op(m, key->type, op, key->samples, key->optimizer, &key->split);
    size_t kind = c->kind[op];
    struct answers *now = c->now;
    if (!now->known[kind]) {
        now->cost[kind] = cost_op(m, key->type, op, key->samples, key->optimizer, &key->split);
        now->known[kind] = true;
    }
    return now->cost[kind];
}
