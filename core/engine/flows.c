/* Slots out of channels and shapes, their routes, the links that matter, and who meets whom there.
 *
 * 1. Every distinct pair of members that a group's shapes use is a carrier. 2. Slots get the routes
 * of their devices. 3. Only links that can be full are kept (contended.h). 4. Owners, channels and
 * groups, that meet on a kept link are joined; one that is joined to none is alone. In between,
 * folded programs are folded (folding.h). */
#include "core/engine/flows.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    struct slot_use *use;         /* of the group at hand */
    struct paths_options paths;   /* with the policy that holds */
    const struct topology *wired; /* whose links the routes have: t, or the lanes' */
    double *share;                /* [PATHS_LANES_MAX] of the bundle at hand */
    struct routes detours;        /* of UGAL's flows */
    uint32_t *kept; /* [links of wired] number in the network, PROGRAM_NONE: not kept; of a bundle,
                     * of its first lane */
};

/* May flows of a bundle use any of its lanes, so that routes have the bundle? */
static bool has_loose_lanes(const struct building *b)
{
    return b->f->lanes.t && b->wired == b->t;
}

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

/* A slot's route, that of its pair, becomes those of its flows, which may be the same.
 *   first  [pairs + 1] queue pairs of each pair, one after the other */
static enum status list_queue_pairs(struct building *b, const size_t *first)
{
    struct flows *f = b->f;
    size_t slots = b->all.n;
    uint32_t *route;
    PASS(ARRAY_NEW(f->flow_start, slots + 1));
    for (size_t s = 0; s < slots; s++) {
        uint32_t pair = b->all.route[s];
        f->flow_start[s + 1] = f->flow_start[s] + first[pair + 1] - first[pair];
    }
    PASS(ARRAY_NEW(route, f->flow_start[slots] + 1));
    for (size_t s = 0; s < slots; s++)
        for (size_t k = f->flow_start[s]; k < f->flow_start[s + 1]; k++)
            route[k] = !f->hashed ? b->all.route[s]
                                  : (uint32_t)(first[b->all.route[s]] + (k - f->flow_start[s]));
    free(b->all.route);
    b->all.route = route;
    return STATUS_OK;
}

/* A path is left for each pair. */
static enum status check_ways(const struct building *b, size_t pairs,
                              const struct device_pair *pair)
{
    const struct routes *r = &b->all.routes;
    for (size_t k = 0; b->f->lanes.down && k < pairs; k++)
        if (lanes_usable_ways(&b->f->lanes, r->link + r->start[k], r->start[k + 1] - r->start[k]) ==
            0)
            return error_set(STATUS_EXTERNAL,
                             "no path left from %s to %s: on every path, a lane (one cable of a "
                             "link) has failed",
                             b->t->device[pair[k].from], b->t->device[pair[k].to]);
    return STATUS_OK;
}

/* The routes of queue pairs instead of those of pairs of devices. */
static enum status hash_routes(struct building *b, const struct device_pair *pair,
                               const size_t *first)
{
    struct flows *f = b->f;
    struct routes shortest = b->all.routes, hashed;
    bool around = b->paths.policy == PATHS_VALIANT;
    PASS(lanes_hash(&f->lanes, &b->paths, pair, first, around, &shortest, &hashed));
    b->all.routes = hashed;
    enum status st = STATUS_OK;
    if (b->paths.policy == PATHS_UGAL)
        st = lanes_hash(&f->lanes, &b->paths, pair, first, true, &shortest, &b->detours);
    routes_free(&shortest);
    b->wired = &f->lanes.view;
    return st;
}

/* The queue pairs of connections, and which lanes they take, where that is known beforehand. */
static enum status choose_lanes(struct building *b, size_t pairs, const struct device_pair *pair)
{
    enum status st;
    struct flows *f = b->f;
    size_t *first = NULL;
    TRY(lanes_open(b->t, b->paths.faults, &f->lanes));
    TRY(ARRAY_NEW(b->share, PATHS_LANES_MAX));
    TRY(check_ways(b, pairs, pair));
    if (paths_lead_around(b->paths.policy))
        TRY(detours_open(b->t, &f->lanes.detours));
    if (b->paths.policy == PATHS_SPRAY)
        goto out;
    TRY(ARRAY_NEW(first, pairs + 1));
    lanes_queue_pairs(&f->lanes, &b->paths, &b->all.routes, first);
    f->hashed = paths_are_hashed(b->paths.policy);
    if (f->hashed)
        TRY(hash_routes(b, pair, first));
    TRY(list_queue_pairs(b, first));
out:
    free(first);
    return st;
}

/* What of a sprayed flow goes over each lane of its link number e, into b->share. */
static void find_shares(const struct building *b, size_t flow, size_t e)
{
    size_t first = slots_first(&b->all, flow), n = slots_end(&b->all, flow) - first;
    lanes_spray(&b->f->lanes, b->all.routes.link + first, n, e - first, b->share);
}

/* What link number e has for the flow whose it is. */
static double link_Bps(const struct building *b, size_t flow, size_t e)
{
    const struct topology_link *l = &b->wired->link[b->all.routes.link[e]];
    uint32_t lanes = has_loose_lanes(b) ? topology_lanes(l) : 1;
    double most = 0;
    if (lanes == 1)
        return l->bandwidth_Bps;
    if (b->paths.policy == PATHS_ADAPTIVE)
        return l->bandwidth_Bps / lanes;
    if (!b->f->lanes.down)
        return l->bandwidth_Bps;
    find_shares(b, flow, e);
    for (uint32_t k = 0; k < lanes; k++)
        most = fmax(most, b->share[k]);
    return l->bandwidth_Bps / lanes / most;
}

/* The narrowest link of each flow: it is never faster. */
static enum status find_bounds(struct building *b)
{
    struct flows *f = b->f;
    size_t flows = flows_first(f, b->all.n);
    PASS(ARRAY_NEW(f->bound_Bps, flows + 1));
    for (size_t s = 0; s < b->all.n; s++)
        for (size_t k = flows_first(f, s); k < flows_first(f, s + 1); k++) {
            const struct device_pair *between = &b->all.between[s];
            size_t first = slots_first(&b->all, k), end = slots_end(&b->all, k);
            double Bps = topology_between(b->t, between->from, between->to)->bandwidth_Bps;
            if (end > first)
                Bps = INFINITY;
            for (size_t e = first; e < end; e++)
                Bps = fmin(Bps, link_Bps(b, k, e));
            f->bound_Bps[k] = Bps;
        }
    return STATUS_OK;
}

/* The links of every slot, each pair of devices searched once. */
static enum status find_routes(struct building *b)
{
    enum status st = STATUS_OK;
    struct device_pair *pair = NULL;
    size_t pairs = 0;
    TRY(ARRAY_NEW(b->all.route, b->all.n + 1));
    if (b->t->links > 0)
        TRY(list_pairs(b, &pair, &pairs));
    else
        pairs = 1; /* no way has any links */
    if (b->t->links > 0)
        TRY(topology_routes(b->t, pairs, pair, &b->all.routes));
    else
        TRY(ARRAY_NEW(b->all.routes.start, pairs + 1));
    if (b->paths.policy != PATHS_IDEAL)
        TRY(choose_lanes(b, pairs, pair));
    TRY(find_bounds(b));
out:
    free(pair);
    return st;
}

/* ---- which links matter */

/* How many links of the network a link is: its lanes, where flows may use any of them. */
static uint32_t lanes_in_network(const struct building *b, uint32_t link)
{
    return has_loose_lanes(b) ? topology_lanes(&b->t->link[link]) : 1;
}

/* Make room for lanes side by side. A lane of an adaptive bundle can be full although the bundle is
 * not, and so it is where others have failed: these are all kept. Returns how many links there
 * are. */
static size_t number_lanes(struct building *b)
{
    size_t n = 0;
    for (uint32_t l = 0; l < b->wired->links; l++) {
        uint32_t lanes = lanes_in_network(b, l);
        bool may = lanes > 1 && (b->paths.policy == PATHS_ADAPTIVE || b->f->lanes.down);
        if (b->kept[l] == PROGRAM_NONE && !may)
            continue;
        b->kept[l] = (uint32_t)n;
        n += lanes;
    }
    return n;
}

/* A flow's row: of a bundle all lanes, each with its share, when it is sprayed over them; else one,
 * which may be changed when the flow starts. With link NULL these are only counted. */
static size_t put_row(const struct building *b, size_t flow, uint32_t *link, double *weight)
{
    size_t n = 0;
    for (size_t e = slots_first(&b->all, flow); e < slots_end(&b->all, flow); e++) {
        uint32_t l = b->all.routes.link[e];
        uint32_t lanes = b->paths.policy == PATHS_SPRAY ? lanes_in_network(b, l) : 1;
        bool uneven = lanes > 1 && b->f->lanes.down;
        if (uneven)
            find_shares(b, flow, e);
        for (uint32_t k = 0; b->kept[l] != PROGRAM_NONE && k < lanes; k++) {
            double share = uneven ? b->share[k] : 1.0 / lanes;
            if (share <= 0)
                continue;
            if (link) {
                link[n] = b->kept[l] + k;
                weight[n] = share;
            }
            n++;
        }
    }
    return n;
}

/* The flows' rows of the links that can be full. */
static enum status keep_links(struct building *b)
{
    struct flows *f = b->f;
    size_t flows = flows_first(f, b->all.n), used = 0;
    PASS(ARRAY_NEW(b->kept, b->wired->links + 1));
    PASS(contended_links(b->p, b->wired, b->shapes, f, &b->all, b->kept));
    size_t kept = number_lanes(b);
    PASS(ARRAY_NEW(f->capacity_Bps, kept + 1));
    for (uint32_t l = 0; l < b->wired->links; l++)
        for (uint32_t k = 0, n = lanes_in_network(b, l); k < n && b->kept[l] != PROGRAM_NONE; k++)
            f->capacity_Bps[b->kept[l] + k] = b->wired->link[l].bandwidth_Bps / n;
    PASS(ARRAY_NEW(f->start, flows + 1));
    for (size_t k = 0; k < flows; k++)
        f->start[k + 1] = f->start[k] + put_row(b, k, NULL, NULL);
    PASS(ARRAY_NEW(f->link, f->start[flows] + 1));
    PASS(ARRAY_NEW(f->weight, f->start[flows] + 1));
    for (size_t k = 0; k < flows; k++)
        used += put_row(b, k, f->link + used, f->weight + used);
    f->slots = b->all.n;
    f->network = (struct sharing_network){flows,     kept,         f->start,       f->link,
                                          f->weight, f->bound_Bps, f->capacity_Bps};
    return b->paths.policy == PATHS_ADAPTIVE
               ? adaptive_open(&f->lanes, b->kept, kept, f->capacity_Bps, &f->adaptive)
               : STATUS_OK;
}

/* What one way of a flow has: its links, their number, and the narrowest. */
static void put_way(const struct building *b, const struct routes *r, size_t flow, int way)
{
    struct flows *f = b->f;
    struct ugal *u = &f->ugal;
    size_t route = b->all.route[flow], at = f->start[flow];
    double Bps = f->bound_Bps[flow];
    for (size_t e = r->start[route]; e < r->start[route + 1]; e++) {
        uint32_t link = r->link[e];
        u->link[way][at++] = link;
        u->hops[way][flow] +=
            detours_between_switches(&f->lanes.detours, lanes_link(&f->lanes, link));
        Bps = e == r->start[route] ? f->capacity_Bps[link] : fmin(Bps, f->capacity_Bps[link]);
    }
    while (at < f->start[flow + 1])
        u->link[way][at++] = u->nothing;
    u->bound_Bps[way][flow] = Bps;
}

/* Flows that may take either of two ways: all links are kept, and one more, without limit. */
static enum status keep_ways(struct building *b)
{
    struct flows *f = b->f;
    const struct routes *way[UGAL_WAYS] = {&b->all.routes, &b->detours};
    size_t flows = flows_first(f, b->all.n), links = b->wired->links;
    PASS(ARRAY_NEW(f->capacity_Bps, links + 1));
    for (size_t l = 0; l < links; l++)
        f->capacity_Bps[l] = b->wired->link[l].bandwidth_Bps;
    f->capacity_Bps[links] = DBL_MAX;
    PASS(ARRAY_NEW(f->start, flows + 1));
    for (size_t k = 0; k < flows; k++) {
        size_t route = b->all.route[k], most = 0;
        for (int i = 0; i < UGAL_WAYS; i++)
            most = way[i]->start[route + 1] - way[i]->start[route] > most
                       ? way[i]->start[route + 1] - way[i]->start[route]
                       : most;
        f->start[k + 1] = f->start[k] + most;
    }
    PASS(ARRAY_NEW(f->weight, f->start[flows] + 1));
    for (size_t e = 0; e < f->start[flows]; e++)
        f->weight[e] = 1;
    f->slots = b->all.n;
    f->network = (struct sharing_network){flows,     links + 1,    f->start,       NULL,
                                          f->weight, f->bound_Bps, f->capacity_Bps};
    PASS(ugal_open(&f->network, &f->ugal));
    for (size_t k = 0; k < flows; k++)
        for (int i = 0; i < UGAL_WAYS; i++)
            put_way(b, way[i], k, i);
    PASS(ARRAY_COPY(f->link, f->ugal.link[UGAL_SHORTEST], f->start[flows] + 1));
    f->network.link = f->link;
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

/* Add a slot's bytes to the links of its routes. */
static void flows_load_links(struct building *b, size_t slot, double bytes)
{
    size_t first = flows_first(b->f, slot), end = flows_first(b->f, slot + 1);
    for (size_t k = first; k < end; k++)
        for (size_t e = slots_first(&b->all, k); e < slots_end(&b->all, k); e++)
            b->f->link_bytes[b->all.routes.link[e]] += bytes / (double)(end - first);
}

const struct topology *flows_links(const struct flows *f, const struct topology *t)
{
    return f->hashed ? &f->lanes.view : t;
}

/* What each link carries in an iteration, all copies together. */
static enum status flows_add_bytes(struct building *b)
{
    enum status st;
    const struct program *p = b->p;
    const struct slots *all = &b->all;
    double *bytes = NULL;
    TRY(ARRAY_NEW(bytes, all->n));
    TRY(ARRAY_NEW(b->f->link_bytes, b->wired->links));
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
    for (size_t e = f->network.start[flows_first(f, first)];
         e < f->network.start[flows_first(f, last)]; e++) {
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

/* A channel of several flows has no closed form. */
static enum status list_channels(struct flows *f, size_t channels)
{
    PASS(ARRAY_NEW(f->channel_Bps, channels + 1));
    for (size_t c = 0; c < channels; c++) {
        f->channel_Bps[c] = f->bound_Bps[f->flow_start[c]];
        if (f->flow_start[c + 1] - f->flow_start[c] > 1)
            f->alone[c] = false;
    }
    return STATUS_OK;
}

enum status flows_meet(const struct program *p, struct flows *f)
{
    PASS(find_alone(p, f));
    for (size_t k = 0; f->ugal.load_Bps && k < p->channels + p->groups; k++)
        f->alone[k] = false; /* they may meet on either way */
    if (f->folding)
        bound_alone(f, p->channels);
    return f->flow_start ? list_channels(f, p->channels) : STATUS_OK;
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

enum status flows_policy(const struct topology *t, const struct paths_options *paths,
                         enum paths_policy *out)
{
    bool said = paths && paths->policy != PATHS_UNSAID;
    enum paths_policy policy = said ? paths->policy : t->paths;
    bool chosen = policy != PATHS_UNSAID && policy != PATHS_IDEAL;
    bool around = paths_lead_around(policy);
    bool choice = chosen && (around ? detours_exist(t) : topology_has_lanes(t));
    if (chosen && !choice && said)
        return error_set(STATUS_INVALID,
                         around ? "paths %s: no link of '%s' has an alternative path. Try a "
                                  "dragonfly+ of three groups"
                                : "paths %s: '%s' has a single path between two devices. Try a "
                                  "platform with spines=16",
                         paths_name(policy), t->name ? t->name : "the platform");
    *out = choice ? policy : PATHS_IDEAL;
    return STATUS_OK;
}

bool flows_lose_lanes(const struct topology *t, const struct faults *faults)
{
    for (size_t k = 0; faults && k < faults->n; k++)
        if (lanes_match(t, &faults->fault[k], NULL) > 0)
            return true;
    return false;
}

enum status flows_check_faults(const struct topology *t, const struct faults *faults)
{
    for (size_t k = 0; faults && k < faults->n; k++) {
        const struct fault *f = &faults->fault[k];
        bool lane = lanes_match(t, f, NULL) > 0;
        if (lane && f->at_s > 0)
            return error_set(STATUS_UNSUPPORTED,
                             "lane %s fails at %g s, but lanes can fail only from the start of the "
                             "iteration. Try %s@0",
                             f->name, f->at_s, f->name);
        if (!lane && f->kind != FAULT_KILL && !topology_has_lanes(t))
            return error_set(STATUS_UNSUPPORTED,
                             "the analytic engine does not know the links of this platform, so "
                             "they cannot fail or slow down. Try --engine simgrid");
        if (!lane && f->kind != FAULT_KILL)
            return error_set(
                STATUS_UNSUPPORTED,
                "link %s cannot fail or slow down: with parallel paths or the analytic engine, "
                "only lanes (single cables) such as leaf0-up.3 can fail",
                f->name);
    }
    return STATUS_OK;
}

enum status flows_make(const struct program *p, const struct topology *t,
                       const struct shapes *shapes, const struct paths_options *paths,
                       struct plan_classes *finer, struct flows *out)
{
    enum status st;
    struct flows f = {0};
    struct building b = {.p = p, .t = t, .shapes = shapes, .f = &f, .wired = t};
    if (paths)
        b.paths = *paths;
    TRY(flows_policy(t, paths, &b.paths.policy));
    if (flows_lose_lanes(t, b.paths.faults)) {
        if (p->folded)
            FAIL(STATUS_UNSUPPORTED, "ranks are not symmetric, so all must be simulated: lanes "
                                     "(single cables of a link) have failed");
        if (b.paths.policy == PATHS_IDEAL) /* evenly over what is left */
            b.paths.policy = PATHS_SPRAY;
    }
    if (p->folded && paths_are_apart(b.paths.policy))
        FAIL(STATUS_UNSUPPORTED, "ranks are not symmetric, so all must be simulated: paths are %s",
             paths_adapt(b.paths.policy) ? "adaptive" : "hashed");
    if (p->folded) /* sprayed alike over all lanes: one link */
        b.paths.policy = PATHS_IDEAL;
    TRY(make_slots(&b));
    TRY(find_routes(&b));
    TRY(b.paths.policy == PATHS_UGAL ? keep_ways(&b) : keep_links(&b));
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
    routes_free(&b.detours);
    free(b.use);
    free(b.kept);
    free(b.share);
    return st;
}

/* Everything is owned; what the network borrows goes with it. */
void flows_free(struct flows *f)
{
    free(f->flow_start);
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
    free(f->channel_Bps);
    adaptive_free(&f->adaptive);
    ugal_free(&f->ugal);
    lanes_free(&f->lanes);
    *f = (struct flows){0};
}

/* ---- flows that fly */

/* Between two ways, whose links become the flow's. */
static uint32_t take_way(const struct flows *f, uint32_t flow)
{
    uint32_t way = ugal_start(&f->ugal, &f->network, flow);
    size_t first = f->start[flow], n = f->start[flow + 1] - first;
    memcpy(f->link + first, f->ugal.link[way] + first, n * sizeof *f->link);
    f->bound_Bps[flow] = f->ugal.bound_Bps[way][flow];
    return way;
}

uint32_t flows_choose(const struct flows *f, uint32_t flow)
{
    if (f->ugal.load_Bps)
        return take_way(f, flow);
    return f->adaptive.load_Bps
               ? adaptive_start(&f->adaptive, flow, f->bound_Bps[flow], f->link + f->start[flow],
                                f->start[flow + 1] - f->start[flow])
               : 0;
}

size_t flows_start(struct flows *f, struct sharing *s, uint32_t slot, double bytes, double now)
{
    size_t first = flows_first(f, slot), end = flows_first(f, slot + 1);
    for (size_t k = first; k < end; k++) {
        flows_choose(f, (uint32_t)k);
        sharing_start(s, (uint32_t)k, bytes / (double)(end - first), now);
    }
    return end - first;
}

void flows_end(const struct flows *f, uint32_t flow)
{
    if (f->ugal.load_Bps)
        ugal_end(&f->ugal, &f->network, flow);
    if (f->adaptive.load_Bps)
        adaptive_end(&f->adaptive, f->bound_Bps[flow], f->link + f->start[flow],
                     f->start[flow + 1] - f->start[flow]);
}

/* ---- collectives that have the network to themselves */

/* What a phase takes on its own. */
static void run_phase(struct flows *f, struct sharing *s, size_t k, struct collective_shape *shape,
                      size_t number)
{
    struct collective_phase *phase = &shape->phase[number];
    uint32_t slot;
    double end_s = 0, when;
    for (size_t i = phase->flow_start; i < phase->flow_end; i++)
        if ((slot = flows_slot(f, k, i)) != PROGRAM_NONE)
            flows_start(f, s, slot, shape->flow[i].bytes, 0);
    while (isfinite(when = sharing_next(s)))
        while (sharing_take(s, when, &slot, &end_s))
            flows_end(f, slot);
    phase->transfer_s = end_s;
}

void flows_time_shapes(struct flows *f, const struct program *p, struct sharing *s,
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
