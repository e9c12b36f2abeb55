/* Slots out of channels and shapes, their routes, the links that matter, and who meets whom there.
 *
 * 1. Every distinct pair of members that a group's shapes use is a carrier. 2. Slots get the routes
 * of their devices. 3. A link is kept when everything that may use it at the same time (channels
 * carry one message each, groups one phase of one collective) wants more than it has. 4. Owners,
 * channels and groups, that meet on a kept link are joined; one that is joined to none is alone. */
#include "sim/flows.h"

#include <math.h>
#include <stdlib.h>

#include "core/array.h"

/* A demand of this much more than a link has is rounding. */
static const double rounding = 1e-9;

/* A flow of some shape of a group, to be given a carrier. */
struct use {
    uint32_t from, to; /* members */
    size_t at;         /* in flows.slot */
};

static int by_members(const void *a, const void *b)
{
    const struct use *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

/* What is wanted of links: all zero but for those of the list. */
struct load {
    double *Bps;    /* [links of the topology] */
    uint32_t *link; /* [n] */
    size_t n;
};

/* What building needs besides the result. */
struct building {
    const struct program *p;
    const struct topology *t;
    const struct shapes *shapes;
    const struct pair *pair;
    size_t pairs;
    struct flows *f;
    struct use *use; /* of the group at hand */
    struct load all, group, phase;
    uint32_t *kept; /* [links of the topology] number in the network, PROGRAM_NONE: not kept */
};

/* ---- slots */

static enum status add_slot(struct building *b, uint32_t from, uint32_t to)
{
    struct flows *f = b->f;
    PASS(ARRAY_ROOM(f->pair, f->slots));
    f->pair[f->slots++] = (uint32_t)pairs_find(b->pair, b->pairs, from, to);
    return STATUS_OK;
}

/* The carriers of group g, numbered from f->slots on. */
static enum status add_carriers(struct building *b, uint32_t g)
{
    struct flows *f = b->f;
    const struct shapes *shapes = b->shapes;
    const uint32_t *device = b->p->device + b->p->device_start[g];
    size_t n = 0;
    for (uint32_t k = shapes->first[g]; k != PROGRAM_NONE; k = shapes->shaped[k].next)
        for (size_t i = 0; i < shapes->shaped[k].shape.flows; i++) {
            const struct collective_flow *flow = &shapes->shaped[k].shape.flow[i];
            PASS(ARRAY_ROOM(b->use, n));
            b->use[n++] = (struct use){flow->from, flow->to, f->slot_start[k] + i};
        }
    if (n > 0)
        qsort(b->use, n, sizeof *b->use, by_members);
    for (size_t k = 0; k < n; k++) {
        if (k == 0 || by_members(&b->use[k - 1], &b->use[k]) != 0)
            PASS(add_slot(b, device[b->use[k].from], device[b->use[k].to]));
        f->slot[b->use[k].at] = (uint32_t)(f->slots - 1);
    }
    return STATUS_OK;
}

static enum status make_slots(struct building *b)
{
    const struct program *p = b->p;
    struct flows *f = b->f;
    size_t all = 0;
    PASS(ARRAY_NEW(f->slot_start, b->shapes->n + 1));
    for (size_t k = 0; k < b->shapes->n; k++)
        f->slot_start[k + 1] = all += b->shapes->shaped[k].shape.flows;
    PASS(ARRAY_NEW(f->slot, all + 1));
    PASS(ARRAY_NEW(f->carrier_start, p->groups + 1));
    for (size_t c = 0; c < p->channels; c++)
        PASS(add_slot(b, p->rank[p->channel[c].from].device, p->rank[p->channel[c].to].device));
    f->carrier_start[0] = f->slots;
    for (uint32_t g = 0; g < p->groups; g++) {
        free(b->use);
        b->use = NULL;
        PASS(add_carriers(b, g));
        f->carrier_start[g + 1] = f->slots;
    }
    return STATUS_OK;
}

/* ---- routes and bounds */

static enum status find_routes(struct building *b)
{
    enum status st = STATUS_OK;
    struct flows *f = b->f;
    struct device_pair *pair = NULL;
    size_t all = 0;
    TRY(ARRAY_NEW(pair, b->pairs + 1));
    for (size_t k = 0; k < b->pairs; k++)
        pair[k] = (struct device_pair){b->pair[k].from, b->pair[k].to};
    TRY(topology_routes(b->t, b->pairs, pair, &f->routes));
    TRY(ARRAY_NEW(f->bound_Bps, f->slots + 1));
    TRY(ARRAY_NEW(f->start, f->slots + 1));
    for (size_t s = 0; s < f->slots; s++) {
        const struct pair *between = &b->pair[f->pair[s]];
        f->bound_Bps[s] = topology_between(b->t, between->from, between->to)->bandwidth_Bps;
        all += f->routes.start[f->pair[s] + 1] - f->routes.start[f->pair[s]];
    }
    TRY(ARRAY_NEW(f->link, all + 1));
    TRY(ARRAY_NEW(f->weight, all + 1));
out:
    free(pair);
    return st;
}

/* ---- which links matter */

static void load_add(struct load *load, uint32_t link, double Bps)
{
    if (load->Bps[link] <= 0)
        load->link[load->n++] = link;
    load->Bps[link] += Bps;
}

/* A slot at its bound on all links of its route. */
static void load_add_slot(const struct building *b, struct load *load, size_t slot)
{
    size_t pair = b->f->pair[slot];
    for (size_t e = b->f->routes.start[pair]; e < b->f->routes.start[pair + 1]; e++)
        load_add(load, b->f->routes.link[e], b->f->bound_Bps[slot]);
}

/* What group g may want of each link is what its worst phase wants there. */
static void add_group(struct building *b, uint32_t g)
{
    const struct shapes *shapes = b->shapes;
    struct load *phase = &b->phase, *group = &b->group;
    for (uint32_t k = shapes->first[g]; k != PROGRAM_NONE; k = shapes->shaped[k].next) {
        const struct collective_shape *shape = &shapes->shaped[k].shape;
        for (size_t i = 0; i < shape->phases; i++) {
            for (size_t j = shape->phase[i].flow_start; j < shape->phase[i].flow_end; j++)
                load_add_slot(b, phase, flows_slot(b->f, k, j));
            for (; phase->n > 0; phase->n--) {
                uint32_t l = phase->link[phase->n - 1];
                if (phase->Bps[l] > group->Bps[l])
                    load_add(group, l, phase->Bps[l] - group->Bps[l]);
                phase->Bps[l] = 0;
            }
        }
    }
    for (; group->n > 0; group->n--) {
        uint32_t l = group->link[group->n - 1];
        load_add(&b->all, l, group->Bps[l]);
        group->Bps[l] = 0;
    }
}

/* Number the links that those who may use them together could fill, and make the slots' rows of
 * these. */
static enum status keep_links(struct building *b)
{
    struct flows *f = b->f;
    const struct topology *t = b->t;
    size_t kept = 0;
    for (size_t s = 0; s < b->p->channels; s++)
        load_add_slot(b, &b->all, s);
    for (uint32_t g = 0; g < b->p->groups; g++)
        add_group(b, g);
    PASS(ARRAY_NEW(f->capacity_Bps, b->all.n + 1));
    for (size_t k = 0; k < b->all.n; k++) {
        uint32_t l = b->all.link[k];
        b->kept[l] = PROGRAM_NONE;
        if (t->link[l].fat || b->all.Bps[l] <= t->link[l].bandwidth_Bps * (1 + rounding))
            continue;
        b->kept[l] = (uint32_t)kept;
        f->capacity_Bps[kept++] = t->link[l].bandwidth_Bps;
    }
    size_t used = 0;
    for (size_t s = 0; s < f->slots; s++) {
        size_t pair = f->pair[s];
        for (size_t e = b->f->routes.start[pair]; e < b->f->routes.start[pair + 1]; e++)
            if (b->kept[b->f->routes.link[e]] != PROGRAM_NONE) {
                f->link[used] = b->kept[b->f->routes.link[e]];
                f->weight[used++] = 1;
            }
        f->start[s + 1] = used;
    }
    f->network = (struct sharing_network){f->slots,  kept,         f->start,       f->link,
                                          f->weight, f->bound_Bps, f->capacity_Bps};
    return STATUS_OK;
}

/* ---- who meets whom */

static uint32_t root_of(uint32_t *owner, uint32_t k)
{
    while (owner[k] != k)
        k = owner[k] = owner[owner[k]];
    return k;
}

/* The slots [first, last) of one owner meet whoever was on their links before: on_link[]. */
static void meet(const struct flows *f, uint32_t me, size_t first, size_t last, uint32_t *owner,
                 uint32_t *on_link)
{
    for (size_t e = f->start[first]; e < f->start[last]; e++) {
        uint32_t *other = &on_link[f->link[e]];
        if (*other != PROGRAM_NONE)
            owner[root_of(owner, *other)] = root_of(owner, me);
        *other = me;
    }
}

static enum status find_alone(struct building *b)
{
    enum status st = STATUS_OK;
    struct flows *f = b->f;
    size_t channels = b->p->channels, owners = channels + b->p->groups;
    uint32_t *owner = NULL, *on_link = NULL;
    TRY(ARRAY_NEW(f->alone, owners + 1));
    TRY(ARRAY_NEW(owner, owners + 1));
    TRY(ARRAY_NEW(on_link, f->network.links + 1));
    for (size_t l = 0; l < f->network.links; l++)
        on_link[l] = PROGRAM_NONE;
    for (uint32_t k = 0; k < owners; k++)
        owner[k] = k;
    for (uint32_t k = 0; k < owners; k++) {
        size_t first = k < channels ? k : f->carrier_start[k - channels];
        size_t last = k < channels ? k + 1 : f->carrier_start[k - channels + 1];
        meet(f, k, first, last, owner, on_link);
    }
    for (uint32_t k = 0; k < owners; k++)
        f->alone[k] = true;
    for (uint32_t k = 0; k < owners; k++)
        if (root_of(owner, k) != k)
            f->alone[k] = f->alone[root_of(owner, k)] = false;
out:
    free(owner);
    free(on_link);
    return st;
}

static enum status load_make(struct load *load, size_t links)
{
    PASS(ARRAY_NEW(load->Bps, links + 1));
    return ARRAY_NEW(load->link, links + 1);
}

enum status flows_make(const struct program *p, const struct topology *t,
                       const struct shapes *shapes, const struct pair *pair, size_t pairs,
                       struct flows *out)
{
    enum status st;
    struct flows f = {0};
    struct building b = {.p = p, .t = t, .shapes = shapes, .pair = pair, .pairs = pairs, .f = &f};
    struct load *const loads[] = {&b.all, &b.group, &b.phase};
    TRY(make_slots(&b));
    TRY(find_routes(&b));
    for (size_t k = 0; k < sizeof loads / sizeof *loads; k++)
        TRY(load_make(loads[k], t->links));
    TRY(ARRAY_NEW(b.kept, t->links + 1));
    TRY(keep_links(&b));
    TRY(find_alone(&b));
    *out = f;
    f = (struct flows){0};
out:
    flows_free(&f);
    for (size_t k = 0; k < sizeof loads / sizeof *loads; k++) {
        free(loads[k]->Bps);
        free(loads[k]->link);
    }
    free(b.use);
    free(b.kept);
    return st;
}

void flows_free(struct flows *f)
{
    routes_free(&f->routes);
    free(f->carrier_start);
    free(f->slot);
    free(f->slot_start);
    free(f->pair);
    free(f->start);
    free(f->link);
    free(f->weight);
    free(f->bound_Bps);
    free(f->capacity_Bps);
    free(f->alone);
    *f = (struct flows){0};
}

/* ---- collectives that have the network to themselves */

/* What a phase takes on its own. */
static void run_phase(const struct flows *f, struct sharing *s, size_t k,
                      struct collective_shape *shape, size_t number)
{
    struct collective_phase *phase = &shape->phase[number];
    uint32_t slot;
    double end_s = 0, when;
    for (size_t i = phase->flow_start; i < phase->flow_end; i++)
        sharing_start(s, flows_slot(f, k, i), shape->flow[i].bytes, 0);
    while (isfinite(when = sharing_next(s)))
        while (sharing_take(s, when, &slot, &end_s))
            ;
    phase->transfer_s = end_s;
}

void flows_time_shapes(const struct flows *f, const struct program *p, struct sharing *s,
                       struct shapes *shapes)
{
    for (size_t k = 0; k < shapes->n; k++) {
        struct collective_shape *shape = &shapes->shaped[k].shape;
        if (!f->alone[p->channels + shapes->shaped[k].group])
            continue;
        shape->seconds = 0;
        for (size_t i = 0; i < shape->phases; i++) {
            run_phase(f, s, k, shape, i);
            shape->seconds += shape->phase[i].latency_s + shape->phase[i].transfer_s;
        }
    }
}
