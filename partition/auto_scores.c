/* A hash table from the bytes that make a plan to its scores. */
#include "partition/auto_scores.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/random.h"

enum {
    MOST_PLANS = 1 << 14,
    LISTS = 1 << 15,
    MOST_BYTES = 1 << 27, /* of what tells them apart */
};

struct scored_plan {
    uint64_t hash;
    size_t length;
    unsigned char *key; /* [length] */
    uint32_t next;      /* number + 1 of the next one of the list */
    struct auto_scored scored;
};

struct auto_scores {
    size_t n, bytes;
    struct scored_plan *plan; /* [MOST_PLANS] */
    uint32_t *list;           /* [LISTS] number + 1 of the first one; 0: none */
    unsigned char *key;       /* of the plan that is looked for */
    size_t length, room;
};

static void auto_scores_forget(struct auto_scores *x)
{
    for (size_t i = 0; i < x->n; i++)
        free(x->plan[i].key);
    memset(x->plan, 0, x->n * sizeof *x->plan);
    memset(x->list, 0, LISTS * sizeof *x->list);
    x->n = x->bytes = 0;
}

void auto_scores_close(struct auto_scores *x)
{
    if (!x)
        return;
    if (x->plan && x->list)
        auto_scores_forget(x);
    free(x->plan);
    free(x->list);
    free(x->key);
    free(x);
}

enum status auto_scores_open(struct auto_scores **out)
{
    enum status st;
    struct auto_scores *x = NULL;
    TRY(ARRAY_NEW(x, 1));
    TRY(ARRAY_NEW(x->plan, MOST_PLANS));
    TRY(ARRAY_NEW(x->list, LISTS));
    *out = x;
    x = NULL;
out:
    auto_scores_close(x);
    return st;
}

/* ---- what makes a plan */

static enum status put(struct auto_scores *x, const void *data, size_t n)
{
    PASS(ARRAY_RESERVE(x->key, x->length + n, x->room));
    memcpy(x->key + x->length, data, n);
    x->length += n;
    return STATUS_OK;
}

static enum status put_numbers(struct auto_scores *x, const uint32_t *number, size_t n)
{
    PASS(put(x, &n, sizeof n));
    return put(x, number, n * sizeof *number);
}

/* Most stages have ops in a row: first and last say which. */
static enum status put_ops(struct auto_scores *x, const struct plan_stage *s)
{
    bool row = s->ops > 0 && s->op[s->ops - 1] - s->op[0] == s->ops - 1;
    const uint32_t ends[] = {row, row ? s->op[0] : 0, row ? s->op[s->ops - 1] : 0};
    PASS(put(x, ends, sizeof ends));
    return row ? STATUS_OK : put_numbers(x, s->op, s->ops);
}

/* Member by member, as what lies between them is not defined. */
static enum status put_stage(struct auto_scores *x, const struct plan_stage *s)
{
#define PLAN_KNOB(...)
#define STAGE_KNOB(type, name, ...) PASS(put(x, &s->name, sizeof s->name));
#include "core/strategy/strategy.def"
    PASS(put_ops(x, s));
    return put_numbers(x, s->device, s->devices);
}

static enum status put_plan(struct auto_scores *x, const struct plan *p)
{
    x->length = 0;
#define STAGE_KNOB(...)
#define PLAN_KNOB(type, name, ...) PASS(put(x, &p->name, sizeof p->name));
#include "core/strategy/strategy.def"
    PASS(put(x, &p->microbatches, sizeof p->microbatches));
    PASS(put(x, &p->microbatch_size, sizeof p->microbatch_size));
    PASS(put(x, p->schedule, strlen(p->schedule) + 1));
    for (size_t s = 0; s < p->stages; s++)
        PASS(put_stage(x, &p->stage[s]));
    return STATUS_OK;
}

static uint64_t hash_of(const unsigned char *key, size_t length)
{
    uint64_t hash = length;
    for (size_t i = 0; i < length; i += sizeof hash) {
        uint64_t part = 0;
        memcpy(&part, key + i, length - i < sizeof part ? length - i : sizeof part);
        hash = random_at(hash ^ part, 0);
    }
    return hash;
}

/* ---- the table */

static enum status add(struct auto_scores *x, uint64_t hash, struct scored_plan **out)
{
    struct scored_plan new = {.hash = hash, .length = x->length};
    if (x->n == MOST_PLANS || x->bytes + x->length > MOST_BYTES)
        auto_scores_forget(x);
    PASS(ARRAY_COPY(new.key, x->key, x->length));
    new.next = x->list[hash % LISTS];
    x->plan[x->n] = new;
    x->bytes += x->length;
    *out = &x->plan[x->n++];
    x->list[hash % LISTS] = (uint32_t)x->n;
    return STATUS_OK;
}

enum status auto_scores_at(struct auto_scores *x, const struct plan *p, struct auto_scored **out)
{
    PASS(put_plan(x, p));
    uint64_t hash = hash_of(x->key, x->length);
    struct scored_plan *found = NULL;
    for (uint32_t i = x->list[hash % LISTS]; i > 0 && !found; i = x->plan[i - 1].next) {
        struct scored_plan *at = &x->plan[i - 1];
        if (at->hash == hash && at->length == x->length && memcmp(at->key, x->key, x->length) == 0)
            found = at;
    }
    if (!found)
        PASS(add(x, hash, &found));
    *out = &found->scored;
    return STATUS_OK;
}
