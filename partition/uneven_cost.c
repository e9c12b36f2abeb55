/* Estimates of stages whose replicas differ, and the dynamic programs that minimise them. */
#include "partition/uneven_cost.h"

#include <math.h>
#include <string.h>

#include "core/cost/op_costs.h"

void uneven_free(struct uneven_family *f)
{
    arena_free(&f->memory);
    *f = (struct uneven_family){0};
}

/* An estimate by so much above the best plan is not worth a look. */
static const double doubt = 1.2;

/* ---- the family */

/* Layers where stages may begin; where these are too many, those nearest to even shares of the
 * work. */
static enum status choose_layers(struct uneven_family *f, const double *work_s)
{
    const struct model *m = f->s->m;
    size_t *begins, found = 0;
    PASS(ARENA_NEW(&f->memory, begins, m->n + 1));
    PASS(ARENA_NEW(&f->memory, f->begin, UNEVEN_LAYERS + 1));
    size_t all = partition_begins(m, f->shape.tensor_parallel, f->s->layers, begins);
    double share = work_s[m->n] / UNEVEN_LAYERS;
    for (size_t i = 0; i < m->n && found < UNEVEN_LAYERS; i++)
        if (begins[i + 1] > begins[i] &&
            (all <= UNEVEN_LAYERS || i == 0 || work_s[i] >= share * (double)found))
            f->begin[found++] = i;
    f->layers = found;
    f->begin[found] = m->n;
    return STATUS_OK;
}

/* Prefix sums per type of device over the layers, from those over the ops. */
static enum status sum_work(struct uneven_family *f)
{
    const struct model *m = f->s->m;
    const struct topology *t = f->s->t;
    struct partition_request r = auto_request_for(f->s, &f->shape);
    struct cost_split spread = partition_spread(&r);
    struct cost_memory factor = partition_memory(&r, m);
    double *work_s, *bytes;
    PASS(ARENA_NEW(&f->memory, work_s, t->types * (m->n + 1)));
    PASS(ARENA_NEW(&f->memory, bytes, m->n + 1));
    for (size_t k = 0; k < t->types; k++) {
        const struct op_costs_key key = {&t->type[k], f->shape.microbatch_size, r.optimizer,
                                         spread};
        op_costs_begin(r.costs, &key);
        for (uint32_t i = 0; i < m->n; i++) {
            struct op_cost c = op_costs_of(r.costs, m, &key, i);
            work_s[k * (m->n + 1) + i + 1] =
                work_s[k * (m->n + 1) + i] + op_cost_forward(&c) + op_cost_backward(&c);
        }
    }
    for (uint32_t i = 0; i < m->n; i++)
        bytes[i + 1] = bytes[i] + (double)m->op[i].parameter_bytes * (double)factor.gradients *
                                      cost_part(&m->op[i], &spread).parameters;
    PASS(choose_layers(f, work_s));
    PASS(ARENA_NEW(&f->memory, f->until_s, t->types * (f->layers + 1)));
    PASS(ARENA_NEW(&f->memory, f->bytes, f->layers + 1));
    for (size_t i = 0; i <= f->layers; i++) {
        f->bytes[i] = bytes[f->begin[i]];
        for (size_t k = 0; k < t->types; k++)
            f->until_s[k * (f->layers + 1) + i] = work_s[k * (m->n + 1) + f->begin[i]];
    }
    return STATUS_OK;
}

/* Every tensor crosses all layers between what makes it and its last reader. */
static enum status sum_crossings(struct uneven_family *f)
{
    const struct model *m = f->s->m;
    PASS(ARENA_NEW(&f->memory, f->crossing, f->layers + 1));
    for (size_t layer = 1; layer < f->layers; layer++)
        for (size_t i = 0; i < f->begin[layer]; i++) {
            size_t readers = m->out_start[i + 1] - m->out_start[i];
            if (readers > 0 && m->out[m->out_start[i + 1] - 1] >= f->begin[layer])
                f->crossing[layer] += (double)m->op[i].output_bytes * f->shape.microbatch_size /
                                      f->shape.tensor_parallel;
        }
    return STATUS_OK;
}

static enum status find_links(struct uneven_family *f)
{
    const struct auto_state *s = f->s;
    uint32_t shards = f->shape.tensor_parallel;
    f->slots = s->t->n / shards;
    PASS(ARENA_NEW(&f->memory, f->near_Bps, f->slots));
    PASS(ARENA_NEW(&f->memory, f->type_of, f->slots));
    for (size_t i = 0; i < f->slots; i++) {
        f->type_of[i] = s->t->type_of[s->fast_order[i * shards]];
        f->near_Bps[i] = i == 0 ? INFINITY
                                : topology_between(s->t, s->fast_order[(i - 1) * shards],
                                                   s->fast_order[i * shards])
                                      ->bandwidth_Bps;
    }
    for (uint32_t k = 0; k < s->t->types; k++) {
        const double *until = f->until_s + k * (f->layers + 1);
        const double *slow = f->until_s + f->slowest * (f->layers + 1);
        const double *fast = f->until_s + f->fastest * (f->layers + 1);
        f->slowest = until[f->layers] > slow[f->layers] ? k : f->slowest;
        f->fastest = until[f->layers] < fast[f->layers] ? k : f->fastest;
    }
    return STATUS_OK;
}

enum status uneven_open(const struct auto_state *s, const struct auto_shape *shape,
                        struct uneven_family *out)
{
    enum status st;
    struct uneven_family f = {.s = s, .shape = *shape};
    f.microbatches = (double)(s->r->samples / shape->microbatch_size);
    TRY(sum_work(&f));
    TRY(sum_crossings(&f));
    TRY(find_links(&f));
    *out = f;
    f = (struct uneven_family){0};
out:
    uneven_free(&f);
    return st;
}

/* ---- a stage */

/* Where the replicas of a stage are. */
struct replica_place {
    double replicas;
    double ring_Bps, link_Bps; /* among them; to the stages before and behind */
    const double *until_s;     /* [layers + 1] on the slowest of its devices */
};

static double stage_s(const struct uneven_family *f, enum uneven_load load,
                      const struct replica_place *at, size_t i, size_t j)
{
    double work_s = at->until_s[j] - at->until_s[i], n = ceil(f->microbatches / at->replicas);
    double in_s = f->crossing[i] / at->link_Bps, out_s = f->crossing[j] / at->link_Bps;
    double busy_s = load == UNEVEN_SUM ? work_s + 2 * in_s : fmax(work_s, in_s + out_s);
    double sum_s = 2 * (at->replicas - 1) / at->replicas * (f->bytes[j] - f->bytes[i]);
    double rest_s = at->replicas > 1 ? sum_s / at->ring_Bps - work_s * 2 / 3 : 0;
    return at->until_s[i] + n * busy_s + fmax(0, rest_s);
}

static double least_Bps(const struct uneven_family *f, size_t first, size_t end)
{
    double least = INFINITY;
    for (size_t i = first; i < end && i < f->slots; i++)
        least = fmin(least, f->near_Bps[i]);
    return least;
}

/* Of `replicas` slots from `first` on. */
static struct replica_place uneven_place(const struct uneven_family *f, size_t first,
                                         size_t replicas)
{
    struct replica_place at = {.replicas = (double)replicas};
    uint32_t slowest = f->type_of[first];
    for (size_t i = first; i < first + replicas; i++)
        if (f->until_s[f->type_of[i] * (f->layers + 1) + f->layers] >
            f->until_s[slowest * (f->layers + 1) + f->layers])
            slowest = f->type_of[i];
    at.until_s = f->until_s + slowest * (f->layers + 1);
    at.ring_Bps = least_Bps(f, first + 1, first + replicas);
    at.link_Bps = least_Bps(f, first > 0 ? first : 1, first + replicas + 1);
    return at;
}

/* ---- the cut of given replicas */

double uneven_cut(const struct uneven_family *f, enum uneven_load load, size_t stages,
                  const uint32_t *replicas, size_t *first)
{
    double best[UNEVEN_LAYERS + 1], next[UNEVEN_LAYERS + 1];
    uint8_t start[UNEVEN_STAGES][UNEVEN_LAYERS + 1] = {{0}};
    size_t slot = 0, n = f->layers;
    if (stages > n || stages > UNEVEN_STAGES)
        return INFINITY;
    for (size_t j = 0; j <= n; j++)
        best[j] = j == 0 ? 0 : INFINITY;
    for (size_t s = 0; s < stages; s++) {
        struct replica_place at = uneven_place(f, slot, replicas[s]);
        for (size_t j = 0; j <= n; j++)
            next[j] = INFINITY;
        for (size_t j = s + 1; j + (stages - 1 - s) <= n; j++)
            for (size_t i = s; i < j; i++) {
                double value = best[i] < next[j] ? stage_s(f, load, &at, i, j) : INFINITY;
                value = fmax(value, best[i]);
                if (value < next[j]) {
                    next[j] = value;
                    start[s][j] = (uint8_t)i;
                }
            }
        memcpy(best, next, sizeof best);
        slot += replicas[s];
    }
    for (size_t s = stages, j = n; s-- > 0 && isfinite(best[n]);) {
        j = start[s][j];
        first[s] = f->begin[j];
    }
    return best[n];
}

double uneven_bound(const struct uneven_family *f, size_t stages, const uint32_t *replicas)
{
    double rate = 0;
    for (size_t s = 0; s < stages; s++)
        rate += 1 / ceil(f->microbatches / replicas[s]);
    return f->until_s[f->fastest * (f->layers + 1) + f->layers] / rate;
}

/* ---- replicas and cut together */

/* best[s][j][d]: the stages 0 .. s - 1 on the layers before j and d units. */
struct units {
    size_t unit, units;
    double *best;   /* [(stages + 1) * (layers + 1) * (units + 1)] */
    uint8_t *start; /* likewise: the first layer of stage s - 1, */
    uint8_t *used;  /* ... and its units */
    struct replica_place at[UNEVEN_UNITS + 1];
};

static size_t uneven_index(const struct uneven_family *f, const struct units *u, size_t s, size_t j,
                           size_t d)
{
    return (s * (f->layers + 1) + j) * (u->units + 1) + d;
}

/* The last stage of s stages begins with layer i and has any number of units, own_s[units + 1]
 * seconds. */
static void try_units(const struct uneven_family *f, const double *own_s, struct units *u, size_t s,
                      size_t i, size_t j)
{
    for (size_t mine = 1; mine <= u->units; mine++) {
        if (own_s[mine] > doubt * f->s->best_s)
            continue;
        for (size_t d = mine; d <= u->units; d++) {
            size_t here = uneven_index(f, u, s, j, d);
            double value = fmax(own_s[mine], u->best[uneven_index(f, u, s - 1, i, d - mine)]);
            if (value < u->best[here]) {
                u->best[here] = value;
                u->start[here] = (uint8_t)i;
                u->used[here] = (uint8_t)mine;
            }
        }
    }
}

static enum status units_open(const struct uneven_family *f, size_t stages, struct arena *a,
                              struct units *out)
{
    struct units u = {.unit = (f->slots + UNEVEN_UNITS - 1) / UNEVEN_UNITS};
    u.units = f->slots / u.unit;
    size_t n = (stages + 1) * (f->layers + 1) * (u.units + 1);
    PASS(ARENA_NEW(a, u.best, n));
    PASS(ARENA_NEW(a, u.start, n));
    PASS(ARENA_NEW(a, u.used, n));
    for (size_t k = 0; k < n; k++)
        u.best[k] = k <= u.units ? 0 : INFINITY; /* no stages, no layers */
    double all_Bps = least_Bps(f, 1, f->slots);
    for (size_t d = 1; d <= u.units; d++) {
        u.at[d] = uneven_place(f, 0, d * u.unit);
        u.at[d].link_Bps = all_Bps;
    }
    *out = u;
    return STATUS_OK;
}

/* The way back from the best number of units. */
static void walk_back(const struct uneven_family *f, const struct units *u, size_t stages,
                      uint32_t *replicas)
{
    double found = INFINITY;
    size_t d = 0;
    for (size_t k = stages; k <= u->units; k++)
        if (u->best[uneven_index(f, u, stages, f->layers, k)] < found) {
            found = u->best[uneven_index(f, u, stages, f->layers, k)];
            d = k;
        }
    for (size_t s = stages, j = f->layers; s > 0 && isfinite(found); s--) {
        size_t here = uneven_index(f, u, s, j, d);
        replicas[s - 1] = (uint32_t)(u->used[here] * u->unit);
        j = u->start[here];
        d -= u->used[here];
    }
}

enum status uneven_replicas(const struct uneven_family *f, enum uneven_load load, size_t stages,
                            uint32_t replicas[UNEVEN_STAGES + 1][UNEVEN_STAGES])
{
    enum status st;
    struct arena scratch = {0};
    struct units u;
    double own_s[UNEVEN_UNITS + 1]; /* what a stage takes hangs on no others */
    TRY(units_open(f, stages, &scratch, &u));
    for (size_t j = 1; j <= f->layers; j++)
        for (size_t i = 0; i < j; i++) {
            for (size_t mine = 1; mine <= u.units; mine++)
                own_s[mine] = stage_s(f, load, &u.at[mine], i, j);
            for (size_t s = 1; s <= stages && s <= i + 1; s++)
                try_units(f, own_s, &u, s, i, j);
        }
    for (size_t s = 2; s <= stages; s++)
        walk_back(f, &u, s, replicas[s]);
out:
    arena_free(&scratch);
    return st;
}
