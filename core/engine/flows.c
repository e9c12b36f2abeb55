/* Slots out of channels and shapes, their routes, the links that matter, and who meets whom there.
 *
 * 1. Every distinct pair of members that a group's shapes use is a carrier. 2. Slots get the routes
 * of their devices. 3. Only links that can be full are kept (contended.h). 4. Owners, channels and
 * groups, that meet on a kept link are joined; one that is joined to none is alone. In between,
 * folded programs are folded (folding.h). */
#include "core/engine/flows.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/order.h"
#include "core/data/routes.h"
#include "core/engine/contended.h"
#include "core/engine/folding.h"

/* A flow of some shape of a group, to be given a carrier. */
struct slot_use {
    uint32_t from, to; /* members */
    size_t at;         /* in flows.slot */
    uint64_t colour;   /* of shape, phase and bytes */
};

/* What building needs besides the result: slots of all copies at first. */
struct building {
    const struct program *p;
    const struct topology *t;
    const struct shapes *shapes;
    struct flows *f;
    struct slots all;
    struct slot_use *use; /* of the group at hand */
    uint32_t *kept; /* [links of the topology] number in the network, PROGRAM_NONE: not kept */
};

/* ---- slots */

/* One more slot between two devices. */
static enum status add_slot(struct building *b, uint32_t from, uint32_t to, uint64_t colour)
{
    struct slots *all = &b->all;
    PASS(ARRAY_ROOM(all->between, all->n));
    all->between[all->n] = (struct device_pair){from, to};
    if (b->p->folded) {
        PASS(ARRAY_ROOM(all->colour, all->n));
        all->colour[all->n] = colour;
    }
    all->n++;
    return STATUS_OK;
}

/* The flows of all shapes of group g, those between the same members side by side. */
static enum status list_uses(struct building *b, uint32_t g, size_t *uses)
{
    const struct shapes *shapes = b->shapes;
    size_t n = 0;
    free(b->use);
    b->use = NULL;
    for (uint32_t k = shapes->first[g]; k != PROGRAM_NONE; k = shapes->shaped[k].next) {
        const struct collective_shape *shape = &shapes->shaped[k].shape;
        for (size_t i = 0, phase = 0; i < shape->flows; i++) {
            const struct collective_flow *flow = &shape->flow[i];
            PASS(ARRAY_ROOM(b->use, n));
            while (i >= shape->phase[phase].flow_end)
                phase++;
            b->use[n++] = (struct slot_use){flow->from, flow->to, b->f->slot_start[k] + i,
                                            folding_colour(k, phase, flow->bytes)};
        }
    }
    *uses = n;
    return order_pairs(b->use, n, sizeof *b->use, (uint32_t)shapes->group[g].n);
}

/* Without links nobody meets anybody: each flow gets a slot of its own. */
static enum status add_flows(struct building *b, uint32_t g)
{
    const struct shapes *shapes = b->shapes;
    const uint32_t *device = program_group_devices(b->p, g, 0);
    for (uint32_t k = shapes->first[g]; k != PROGRAM_NONE; k = shapes->shaped[k].next) {
        const struct collective_shape *shape = &shapes->shaped[k].shape;
        for (size_t i = 0; i < shape->flows; i++) {
            b->f->slot[b->f->slot_start[k] + i] = (uint32_t)b->all.n;
            PASS(add_slot(b, device[shape->flow[i].from], device[shape->flow[i].to], 0));
        }
    }
    return STATUS_OK;
}

/* The carriers of group g, copy by copy. Those of one colour bring equally many bytes in each phase
 * of each shape. */
static enum status add_carriers(struct building *b, uint32_t g)
{
    size_t n = 0, first = b->all.n, copies = program_group_copies(b->p, g);
    bool apart = b->t->links == 0 && !b->p->folded;
    PASS(apart ? add_flows(b, g) : list_uses(b, g, &n));
    for (size_t copy = 0; copy < copies; copy++) {
        const uint32_t *device = program_group_devices(b->p, g, copy);
        for (size_t k = 0, end; k < n; k = end) {
            uint64_t colour = g;
            for (end = k; end < n && order_by_pair(&b->use[k], &b->use[end]) == 0; end++) {
                colour += b->use[end].colour;
                if (copy == 0)
                    b->f->slot[b->use[end].at] = (uint32_t)b->all.n;
            }
            colour = folding_colour(b->p->channels + g, colour, 0);
            PASS(add_slot(b, device[b->use[k].from], device[b->use[k].to], colour));
        }
    }
    b->all.carriers[g] = (b->all.n - first) / copies;
    b->all.group_start[g + 1] = b->all.n;
    return STATUS_OK;
}

/* Channels first, a slot for each copy, then the carriers of one group after another. */
static enum status make_slots(struct building *b)
{
    const struct program *p = b->p;
    struct flows *f = b->f;
    size_t all = 0;
    PASS(ARRAY_NEW(f->slot_start, b->shapes->n + 1));
    for (size_t k = 0; k < b->shapes->n; k++)
        f->slot_start[k + 1] = all += b->shapes->shaped[k].shape.flows;
    PASS(ARRAY_NEW(f->slot, all + 1));
    PASS(ARRAY_NEW(b->all.group_start, p->groups + 1));
    PASS(ARRAY_NEW(b->all.carriers, p->groups + 1));
    for (size_t c = 0; c < p->channels; c++) {
        struct program_channel own = {p->rank[p->channel[c].from].device,
                                      p->rank[p->channel[c].to].device};
        const struct program_channel *copy =
            p->folded ? &p->copies.channel[p->copies.channel_start[c]] : &own;
        size_t copies = p->folded ? p->copies.channel_start[c + 1] - p->copies.channel_start[c] : 1;
        for (size_t k = 0; k < copies; k++)
            PASS(add_slot(b, copy[k].from, copy[k].to, folding_colour(c, 0, 0)));
    }
    b->all.group_start[0] = b->all.n;
    for (uint32_t g = 0; g < p->groups; g++)
        PASS(add_carriers(b, g));
    return STATUS_OK;
}

/* ---- routes and bounds */

/* A slot by its devices. */
struct flow_place {
    uint32_t from, to;
    uint32_t slot;
};

/* Every pair of devices once, sorted, and which of them each slot lies between. */
static enum status list_pairs(struct building *b, struct device_pair **pair, size_t *n)
{
    enum status st;
    struct flow_place *place = NULL;
    size_t slots = b->all.n;
    TRY(ARRAY_NEW(place, slots));
    TRY(ARRAY_NEW(*pair, slots));
    for (size_t s = 0; s < slots; s++)
        place[s] = (struct flow_place){b->all.between[s].from, b->all.between[s].to, (uint32_t)s};
    TRY(order_pairs(place, slots, sizeof *place, (uint32_t)b->t->n));
    for (size_t k = 0; k < slots; k++) {
        if (k == 0 || order_by_pair(&place[k], &place[k - 1]) != 0)
            (*pair)[(*n)++] = b->all.between[place[k].slot];
        b->all.route[place[k].slot] = (uint32_t)(*n - 1);
    }
out:
    free(place);
    return st;
}

/* The links of every slot, each pair of devices searched once, and the narrowest of them: no flow
 * of the slot is ever faster. */
static enum status find_routes(struct building *b)
{
    enum status st = STATUS_OK;
    struct flows *f = b->f;
    struct device_pair *pair = NULL;
    size_t pairs = 0, all = 0, slots = b->all.n;
    TRY(ARRAY_NEW(b->all.route, slots + 1));
    if (b->t->links > 0)
        TRY(list_pairs(b, &pair, &pairs));
    else
        pairs = 1; /* no way has any links */
    if (b->t->links > 0)
        TRY(topology_routes(b->t, pairs, pair, &b->all.routes));
    else
        TRY(ARRAY_NEW(b->all.routes.start, pairs + 1));
    TRY(ARRAY_NEW(f->bound_Bps, slots + 1));
    TRY(ARRAY_NEW(f->start, slots + 1));
    for (size_t s = 0; s < slots; s++) {
        const struct device_pair *between = &b->all.between[s];
        f->bound_Bps[s] = topology_between(b->t, between->from, between->to)->bandwidth_Bps;
        size_t first = slots_first(&b->all, s), end = slots_end(&b->all, s);
        if (end > first)
            f->bound_Bps[s] = INFINITY;
        for (size_t e = first; e < end; e++)
            f->bound_Bps[s] =
                fmin(f->bound_Bps[s], b->t->link[b->all.routes.link[e]].bandwidth_Bps);
        all += end - first;
    }
    TRY(ARRAY_NEW(f->link, all + 1));
    TRY(ARRAY_NEW(f->weight, all + 1));
out:
    free(pair);
    return st;
}

/* ---- which links matter */

/* The slots' rows of the links that can be full. */
static enum status keep_links(struct building *b)
{
    struct flows *f = b->f;
    const struct topology *t = b->t;
    const struct slots *all = &b->all;
    size_t kept = 0, used = 0;
    PASS(contended_links(b->p, t, b->shapes, f, all, b->kept));
    for (size_t l = 0; l < t->links; l++)
        kept += b->kept[l] != PROGRAM_NONE;
    PASS(ARRAY_NEW(f->capacity_Bps, kept + 1));
    for (size_t l = 0; l < t->links; l++)
        if (b->kept[l] != PROGRAM_NONE)
            f->capacity_Bps[b->kept[l]] = t->link[l].bandwidth_Bps;
    for (size_t s = 0; s < all->n; s++) {
        for (size_t e = slots_first(all, s); e < slots_end(all, s); e++)
            if (b->kept[all->routes.link[e]] != PROGRAM_NONE) {
                f->link[used] = b->kept[all->routes.link[e]];
                f->weight[used++] = 1;
            }
        f->start[s + 1] = used;
    }
    f->slots = all->n;
    f->network = (struct sharing_network){all->n,    kept,         f->start,       f->link,
                                          f->weight, f->bound_Bps, f->capacity_Bps};
    return STATUS_OK;
}

/* Bytes per iteration of a channel, or of a carrier in each copy of its group: by first slots. */
static void count_bytes(const struct building *b, double *bytes)
{
    const struct program *p = b->p;
    const struct shapes *shapes = b->shapes;
    for (size_t i = 0; i < p->ops; i++)
        if (p->op[i].kind == OP_SEND) {
            size_t c = p->op[i].channel;
            bytes[p->folded ? p->copies.channel_start[c] : c] += (double)p->op[i].bytes;
        }
    for (size_t k = 0; k < shapes->n; k++)
        for (size_t i = 0; i < shapes->shaped[k].shape.flows; i++)
            bytes[flows_slot(b->f, k, i)] +=
                shapes->shaped[k].calls * shapes->shaped[k].shape.flow[i].bytes;
}

/* Add a slot's bytes to the links of its route. */
static void flows_load_links(struct building *b, size_t slot, double bytes)
{
    for (size_t e = slots_first(&b->all, slot); e < slots_end(&b->all, slot); e++)
        b->f->link_bytes[b->all.routes.link[e]] += bytes;
}

/* What each link carries in an iteration, all copies together. */
static enum status flows_add_bytes(struct building *b)
{
    enum status st;
    const struct program *p = b->p;
    const struct slots *all = &b->all;
    double *bytes = NULL;
    TRY(ARRAY_NEW(bytes, all->n));
    TRY(ARRAY_NEW(b->f->link_bytes, b->t->links));
    count_bytes(b, bytes);
    for (size_t c = 0; c < p->channels; c++) {
        size_t first = p->folded ? p->copies.channel_start[c] : c;
        size_t end = p->folded ? p->copies.channel_start[c + 1] : c + 1;
        for (size_t s = first; s < end; s++)
            flows_load_links(b, s, bytes[first]);
    }
    for (size_t g = 0; g < p->groups; g++)
        for (size_t s = all->group_start[g]; s < all->group_start[g + 1]; s++) {
            size_t k = (s - all->group_start[g]) % all->carriers[g];
            flows_load_links(b, s, bytes[all->group_start[g] + k]);
        }
out:
    free(bytes);
    return st;
}

/* ---- who meets whom */

/* The representative of an owner, with the path to it halved. */
static uint32_t flows_owner_root(uint32_t *owner, uint32_t k)
{
    while (owner[k] != k)
        k = owner[k] = owner[owner[k]];
    return k;
}

/* The slots [first, last) of one owner meet whoever was on their links before: on_link[]. */
static void flows_join_owners(const struct flows *f, uint32_t me, size_t first, size_t last,
                              uint32_t *owner, uint32_t *on_link)
{
    for (size_t e = f->network.start[first]; e < f->network.start[last]; e++) {
        uint32_t *other = &on_link[f->network.link[e]];
        if (*other != PROGRAM_NONE)
            owner[flows_owner_root(owner, *other)] = flows_owner_root(owner, me);
        *other = me;
    }
}

/* Owners that meet on a kept link are joined; who has been joined to nobody is alone. */
static enum status find_alone(const struct program *p, struct flows *f)
{
    enum status st = STATUS_OK;
    size_t channels = p->channels, owners = channels + p->groups;
    uint32_t *owner = NULL, *on_link = NULL;
    free(f->alone);
    f->alone = NULL;
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
        flows_join_owners(f, k, first, last, owner, on_link);
    }
    for (uint32_t k = 0; k < owners; k++)
        f->alone[k] = true;
    for (uint32_t k = 0; k < owners; k++)
        if (flows_owner_root(owner, k) != k)
            f->alone[k] = f->alone[flows_owner_root(owner, k)] = false;
out:
    free(owner);
    free(on_link);
    return st;
}

/* What a copy of a channel gets of these links when nobody but the other copies uses them. */
static double flows_slot_part(const struct flows *f, size_t c, const uint32_t *link, size_t n)
{
    double Bps = INFINITY;
    const struct sharing_network *w = &f->network;
    for (size_t e = w->start[c]; e < w->start[c + 1]; e++)
        for (size_t k = 0; k < n; k++)
            if (link[k] == w->link[e])
                Bps = fmin(Bps, w->capacity_Bps[w->link[e]] / w->weight[e]);
    return Bps;
}

/* Folded: the copies of a channel share the links alike, so that one that meets no other owner has
 * its part of them from beginning to end; if that is not the same for all copies, it is to be found
 * out. */
static void bound_alone(struct flows *f, size_t channels)
{
    const struct symmetry *s = &f->folding->symmetry;
    for (size_t c = 0; c < channels; c++) {
        double least = s->bound_Bps[c], most = 0;
        for (size_t k = s->kind_start[c]; f->alone[c] && k < s->kind_start[c + 1]; k++) {
            size_t first = s->class_start[k], n = s->class_start[k + 1] - first;
            double Bps = fmin(s->bound_Bps[c], flows_slot_part(f, c, s->class_of + first, n));
            least = fmin(least, Bps);
            most = fmax(most, Bps);
        }
        if (most > least)
            f->alone[c] = false;
        else
            s->bound_Bps[c] = least;
    }
}

enum status flows_meet(const struct program *p, struct flows *f)
{
    PASS(find_alone(p, f));
    if (f->folding)
        bound_alone(f, p->channels);
    return STATUS_OK;
}

/* What was built so far are all copies; these become fewer. */
static enum status flows_fold_copies(struct building *b, struct plan_classes *finer)
{
    struct flows *f = b->f;
    struct folding *x;
    PASS(ARRAY_NEW(x, 1));
    *x = (struct folding){.all = b->all,
                          .whole = f->network,
                          .start = f->start,
                          .link = f->link,
                          .weight = f->weight,
                          .bound_Bps = f->bound_Bps,
                          .capacity_Bps = f->capacity_Bps};
    f->folding = x;
    b->all = (struct slots){0};
    f->start = NULL;
    f->link = NULL;
    f->weight = f->bound_Bps = f->capacity_Bps = NULL;
    PASS(ARRAY_COPY(x->slot, f->slot, f->slot_start[b->shapes->n] + 1));
    return folding_divide(b->p, b->t, b->shapes, f, finer);
}

enum status flows_make(const struct program *p, const struct topology *t,
                       const struct shapes *shapes, struct plan_classes *finer, struct flows *out)
{
    enum status st;
    struct flows f = {0};
    struct building b = {.p = p, .t = t, .shapes = shapes, .f = &f};
    TRY(make_slots(&b));
    TRY(find_routes(&b));
    TRY(ARRAY_NEW(b.kept, t->links + 1));
    TRY(keep_links(&b));
    TRY(flows_add_bytes(&b));
    TRY(ARRAY_COPY(f.carrier_start, b.all.group_start, p->groups + 1));
    if (p->folded)
        TRY(flows_fold_copies(&b, finer));
    TRY(flows_meet(p, &f));
    *out = f;
    f = (struct flows){0};
out:
    flows_free(&f);
    slots_free(&b.all);
    free(b.use);
    free(b.kept);
    return st;
}

/* Everything is owned; what the network borrows goes with it. */
void flows_free(struct flows *f)
{
    free(f->carrier_start);
    free(f->slot);
    free(f->slot_start);
    free(f->start);
    free(f->link);
    free(f->weight);
    free(f->bound_Bps);
    free(f->capacity_Bps);
    folding_free(f->folding);
    free(f->alone);
    free(f->link_bytes);
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
        if ((slot = flows_slot(f, k, i)) != PROGRAM_NONE)
            sharing_start(s, slot, shape->flow[i].bytes, 0);
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
