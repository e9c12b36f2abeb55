/* Max-min fair shares, resolved lazily: starts and ends only note which flows and links changed,
 * and rates are found when somebody asks what ends next. Ends wait in a binary heap that knows
 * where each flow stands in it. */
#include "core/engine/sharing.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/random.h"

enum { NONE = UINT32_MAX };
/* Equal but for the rounding of sums: levels, demands and the ends of symmetric flows. */
static const double rounding = 1e-12;
/* Of a link that rounding says is full although flows are left: they go on, if slowly. */
static const double least = 1e-15;

struct shared_flow {
    double rate, left, at_s, end_s; /* bytes left at at_s */
    uint32_t place;                 /* in the heap, NONE: does not fly */
    bool marked;                    /* in the component at hand */
    bool fixed;                     /* by the step of the filling at hand */
};

struct link {
    double demand;     /* of the flows that fly, each at its bound */
    double left, open; /* while filling: capacity, and weight of the flows that are not fixed, */
    uint32_t unfixed;  /* and how many these are */
    uint32_t first;    /* incidence of a flow that flies */
    bool marked, changed;
};

/* Where a flow meets a link: in the link's list while the flow flies. */
struct incidence {
    uint32_t flow, next, before;
};

struct sharing {
    struct sharing_network n;
    struct shared_flow *flow;    /* [flows] */
    struct link *link;           /* [links] */
    struct incidence *incidence; /* [start[flows]] */
    uint32_t *heap;              /* [flows] earliest end first */
    size_t flying;
    double now;
    uint32_t *changed_flow, *changed_link; /* [flows], [links] since rates were last found */
    size_t changed_flows, changed_links;
    uint32_t *member, *edge; /* [flows], [links] of the component at hand */
    size_t members, edges;
    struct sharing_kinds kinds; /* NULLs: every flow stands for itself */
    size_t unequal;             /* flows whose kinds differed, so far */
};

enum status sharing_open(const struct sharing_network *n, struct sharing **out)
{
    enum status st;
    struct sharing *s = NULL;
    TRY(ARRAY_NEW(s, 1));
    s->n = *n;
    TRY(ARRAY_NEW(s->flow, n->flows + 1));
    TRY(ARRAY_NEW(s->link, n->links + 1));
    TRY(ARRAY_NEW(s->incidence, n->start[n->flows] + 1));
    TRY(ARRAY_NEW(s->heap, n->flows + 1));
    TRY(ARRAY_NEW(s->changed_flow, n->flows + 1));
    TRY(ARRAY_NEW(s->changed_link, n->links + 1));
    TRY(ARRAY_NEW(s->member, n->flows + 1));
    TRY(ARRAY_NEW(s->edge, n->links + 1));
    for (size_t f = 0; f < n->flows; f++) {
        s->flow[f].place = NONE;
        for (size_t e = n->start[f]; e < n->start[f + 1]; e++)
            s->incidence[e].flow = (uint32_t)f;
    }
    for (size_t l = 0; l < n->links; l++)
        s->link[l].first = NONE;
    *out = s;
    s = NULL;
out:
    sharing_close(s);
    return st;
}

void sharing_close(struct sharing *s)
{
    if (!s)
        return;
    free(s->flow);
    free(s->link);
    free(s->incidence);
    free(s->heap);
    free(s->changed_flow);
    free(s->changed_link);
    free(s->member);
    free(s->edge);
    free(s);
}

void sharing_watch(struct sharing *s, const struct sharing_kinds *kinds)
{
    s->kinds = *kinds;
}

size_t sharing_unequal(const struct sharing *s)
{
    return s->unequal;
}

/* ---- the heap of ends */

/* A flow stands at a place of the heap, and knows it. */
static void heap_put_flow(struct sharing *s, size_t place, uint32_t flow)
{
    s->heap[place] = flow;
    s->flow[flow].place = (uint32_t)place;
}

/* Does a end before b? Ties go to the lower number, so that results repeat. */
static bool earlier(const struct sharing *s, uint32_t a, uint32_t b)
{
    double x = s->flow[a].end_s, y = s->flow[b].end_s;
    return x < y || (x <= y && a < b);
}

/* Bring the flow at a place to where it belongs. */
static void heap_settle(struct sharing *s, size_t place)
{
    uint32_t flow = s->heap[place];
    for (; place > 0 && earlier(s, flow, s->heap[(place - 1) / 2]); place = (place - 1) / 2)
        heap_put_flow(s, place, s->heap[(place - 1) / 2]);
    for (;;) {
        size_t child = 2 * place + 1;
        if (child + 1 < s->flying && earlier(s, s->heap[child + 1], s->heap[child]))
            child++;
        if (child >= s->flying || !earlier(s, s->heap[child], flow))
            break;
        heap_put_flow(s, place, s->heap[child]);
        place = child;
    }
    heap_put_flow(s, place, flow);
}

/* Take the earliest end out: the last of the heap moves to the top and sinks to where it
 * belongs. */
static void remove_first(struct sharing *s)
{
    uint32_t first = s->heap[0], last = s->heap[--s->flying];
    s->flow[first].place = NONE;
    if (s->flying > 0) {
        heap_put_flow(s, 0, last);
        heap_settle(s, 0);
    }
}

/* ---- starts and ends */

/* Do the flows on a link want more than it has? */
static bool is_tight(const struct sharing *s, uint32_t l)
{
    return s->link[l].demand > s->n.capacity_Bps[l] * (1 + rounding);
}

/* The flow joins the lists of its links and waits in the heap with no end yet; what it is worth is
 * found when somebody asks. */
void sharing_start(struct sharing *s, uint32_t flow, double bytes, double now)
{
    s->now = now;
    s->flow[flow] = (struct shared_flow){.left = bytes, .at_s = now, .end_s = INFINITY};
    for (size_t e = s->n.start[flow]; e < s->n.start[flow + 1]; e++) {
        struct link *l = &s->link[s->n.link[e]];
        l->demand += s->n.weight[e] * s->n.bound_Bps[flow];
        s->incidence[e].before = NONE;
        s->incidence[e].next = l->first;
        if (l->first != NONE)
            s->incidence[l->first].before = (uint32_t)e;
        l->first = (uint32_t)e;
    }
    s->flying++;
    heap_put_flow(s, s->flying - 1, flow);
    heap_settle(s, s->flying - 1);
    s->changed_flow[s->changed_flows++] = flow;
}

/* Take a flow off its links; those that were tight let the others go faster. */
static void sharing_leave_links(struct sharing *s, uint32_t flow)
{
    for (size_t e = s->n.start[flow]; e < s->n.start[flow + 1]; e++) {
        uint32_t number = s->n.link[e];
        struct link *l = &s->link[number];
        struct incidence *i = &s->incidence[e];
        if (is_tight(s, number) && !l->changed) {
            l->changed = true;
            s->changed_link[s->changed_links++] = number;
        }
        if (i->before == NONE)
            l->first = i->next;
        else
            s->incidence[i->before].next = i->next;
        if (i->next != NONE)
            s->incidence[i->next].before = i->before;
        l->demand -= s->n.weight[e] * s->n.bound_Bps[flow];
        if (l->first == NONE)
            l->demand = 0; /* and with it the rounding of many sums */
    }
}

bool sharing_take(struct sharing *s, double when, uint32_t *flow, double *end_s)
{
    if (s->flying == 0 || s->flow[s->heap[0]].end_s > when * (1 + rounding))
        return false;
    *flow = s->heap[0];
    *end_s = s->flow[*flow].end_s;
    s->now = fmax(s->now, *end_s);
    remove_first(s);
    sharing_leave_links(s, *flow);
    return true;
}

/* ---- rates */

/* A flow that flies becomes part of the component at hand, once. */
static void add_member(struct sharing *s, uint32_t flow)
{
    if (s->flow[flow].marked || s->flow[flow].place == NONE)
        return;
    s->flow[flow].marked = true;
    s->member[s->members++] = flow;
}

/* And all that fly over a link. */
static void add_flows_of(struct sharing *s, uint32_t link)
{
    for (uint32_t e = s->link[link].first; e != NONE; e = s->incidence[e].next)
        add_member(s, s->incidence[e].flow);
}

/* The flows that changed, those on links that changed, and all that tight links join to them. */
static void find_component(struct sharing *s)
{
    s->members = s->edges = 0;
    for (size_t k = 0; k < s->changed_flows; k++)
        add_member(s, s->changed_flow[k]);
    for (size_t k = 0; k < s->changed_links; k++) {
        s->link[s->changed_link[k]].changed = false;
        add_flows_of(s, s->changed_link[k]);
    }
    s->changed_flows = s->changed_links = 0;
    for (size_t k = 0; k < s->members; k++) {
        uint32_t flow = s->member[k];
        for (size_t e = s->n.start[flow]; e < s->n.start[flow + 1]; e++) {
            uint32_t l = s->n.link[e];
            if (is_tight(s, l) && !s->link[l].marked) {
                s->link[l].marked = true;
                s->link[l].left = s->n.capacity_Bps[l];
                s->link[l].open = 0;
                s->link[l].unfixed = 0;
                s->edge[s->edges++] = l;
                add_flows_of(s, l);
            }
            if (s->link[l].marked) {
                s->link[l].open += s->n.weight[e];
                s->link[l].unfixed++;
            }
        }
    }
}

/* The rate of a flow is settled: what is left of its links is for the others. When it differs from
 * the rate so far, the bytes that have gone are accounted and its end moves. */
static void fix(struct sharing *s, uint32_t flow, double rate)
{
    struct shared_flow *f = &s->flow[flow];
    for (size_t e = s->n.start[flow]; e < s->n.start[flow + 1]; e++) {
        struct link *l = &s->link[s->n.link[e]];
        if (!l->marked)
            continue;
        double left = l->left - s->n.weight[e] * rate;
        l->left = left > 0 ? left : 0;
        l->open -= s->n.weight[e];
        l->unfixed--;
    }
    if (fabs(rate - f->rate) <= rounding * f->rate)
        return;
    f->left = fmax(0, f->left - f->rate * (s->now - f->at_s));
    f->at_s = s->now;
    f->rate = rate;
    f->end_s = s->now + f->left / rate;
    heap_settle(s, f->place);
}

/* What a link has for the flows that are not fixed. Calls of fmax() would take most of the time. */
static double has_left(const struct sharing *s, uint32_t link)
{
    double left = s->link[link].left, some = least * s->n.capacity_Bps[link];
    return left > some ? left : some;
}

/* Is one of these links full at this level? */
static bool is_full(const struct sharing *s, const uint32_t *link, size_t n, double level)
{
    for (size_t e = 0; e < n; e++) {
        const struct link *l = &s->link[link[e]];
        if (l->marked && has_left(s, link[e]) <= level * l->open * (1 + rounding))
            return true;
    }
    return false;
}

/* A flow is stopped at this level: are all kinds that it stands for? */
static void look_at_kinds(struct sharing *s, uint32_t flow, double level)
{
    const struct sharing_kinds *x = &s->kinds;
    bool equal = true;
    if (!x->faster || x->kind_start[flow + 1] - x->kind_start[flow] < 2)
        return;
    for (size_t k = x->kind_start[flow]; k < x->kind_start[flow + 1]; k++) {
        size_t n = x->link_start[k + 1] - x->link_start[k];
        if (is_full(s, x->link + x->link_start[k], n, level))
            continue;
        equal = false;
        x->faster[k] = random_at(x->faster[k], s->unequal);
    }
    s->unequal += !equal;
}

/* Is a flow on a link that is full at this level? */
static bool sharing_is_stopped(struct sharing *s, uint32_t flow, double level)
{
    size_t first = s->n.start[flow];
    if (!is_full(s, s->n.link + first, s->n.start[flow + 1] - first, level))
        return false;
    look_at_kinds(s, flow, level);
    return true;
}

/* One step of the filling: at the level at which the next link is full, flows with lower bounds
 * have reached these; when there are none, the flows on full links stay at the level. The members
 * that are left stand first afterwards. */
static size_t sharing_fill_links(struct sharing *s, size_t members)
{
    double level = INFINITY;
    size_t left = 0;
    bool bounded = false;
    for (size_t k = 0; k < s->edges; k++) {
        const struct link *l = &s->link[s->edge[k]];
        double full = l->unfixed > 0 ? has_left(s, s->edge[k]) / l->open : INFINITY;
        level = full < level ? full : level;
    }
    for (size_t k = 0; k < members && !bounded; k++)
        bounded = s->n.bound_Bps[s->member[k]] <= level * (1 + rounding);
    for (size_t k = 0; k < members; k++) { /* full at the level is known before anything is fixed */
        uint32_t flow = s->member[k];
        s->flow[flow].fixed = bounded ? s->n.bound_Bps[flow] <= level * (1 + rounding)
                                      : sharing_is_stopped(s, flow, level);
    }
    for (size_t k = 0; k < members; k++) {
        uint32_t flow = s->member[k];
        if (s->flow[flow].fixed)
            fix(s, flow, bounded ? s->n.bound_Bps[flow] : level);
        else
            s->member[left++] = flow;
    }
    return left;
}

/* Find the rates that starts and ends since the last call have changed, step by step of the
 * filling, and look at the top of the heap. */
double sharing_next(struct sharing *s)
{
    if (s->changed_flows + s->changed_links > 0) {
        find_component(s);
        for (size_t k = 0; k < s->members; k++)
            s->flow[s->member[k]].marked = false;
        for (size_t left = s->members; left > 0;)
            left = sharing_fill_links(s, left);
        for (size_t k = 0; k < s->edges; k++)
            s->link[s->edge[k]].marked = false;
    }
    return s->flying > 0 ? s->flow[s->heap[0]].end_s : INFINITY;
}
