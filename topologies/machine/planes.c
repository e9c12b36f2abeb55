/* Switches side by side become one: those that the same ports lead to (planes, rails of GPUs with
 * several ports), then those between the same switches (spines). Networks spread messages over
 * them, a route of SimGrid takes one; so one switch has the cables of all, which merge_cables()
 * adds up. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "topologies/machine/complete.h"

enum { LEVELS = 8 }; /* of networks; a hostile file may have more, which stay as they are */

struct planes {
    struct machine *m;
    size_t *first;       /* [parts + 2] neighbours of a part in `neighbour` */
    uint32_t *neighbour; /* sorted, each once */
    size_t *count;       /* [parts] of them */
    uint32_t *same;      /* [parts] the switch that stands for this one */
    uint32_t *order;     /* [parts] */
};

/* By what they are joined to, then by number. */
static int compare_switches(const void *a, const void *b, void *data)
{
    const struct planes *p = data;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (p->count[x] != p->count[y])
        return p->count[x] < p->count[y] ? -1 : 1;
    for (size_t k = 0; k < p->count[x]; k++) {
        uint32_t i = p->neighbour[p->first[x] + k], j = p->neighbour[p->first[y] + k];
        if (i != j)
            return i < j ? -1 : 1;
    }
    return array_by_number(a, b);
}

static bool is_switch(const struct planes *p, uint32_t part)
{
    return p->m->part[part].kind == MACHINE_SWITCH;
}

/* Who is joined to each switch: ports where there are any, as switches count by them, else
 * switches. */
static void find_neighbours(struct planes *p)
{
    struct machine *m = p->m;
    memset(p->first, 0, (m->parts + 2) * sizeof *p->first);
    for (size_t k = 0; k < m->links; k++)
        if (m->link[k].net)
            p->first[m->link[k].a + 2]++, p->first[m->link[k].b + 2]++;
    for (size_t i = 2; i < m->parts + 2; i++)
        p->first[i] += p->first[i - 1];
    for (size_t k = 0; k < m->links; k++)
        if (m->link[k].net) {
            p->neighbour[p->first[m->link[k].a + 1]++] = m->link[k].b;
            p->neighbour[p->first[m->link[k].b + 1]++] = m->link[k].a;
        }
    for (uint32_t i = 0; i < m->parts; i++) {
        uint32_t *of = p->neighbour + p->first[i];
        size_t n = p->first[i + 1] - p->first[i], ports = 0, kept = 0;
        if (!is_switch(p, i))
            continue;
        for (size_t k = 0; k < n; k++)
            ports += !is_switch(p, of[k]);
        for (size_t k = 0; k < n; k++)
            if (ports == 0 || !is_switch(p, of[k]))
                of[kept++] = of[k];
        if (kept > 0)
            qsort(of, kept, sizeof *of, array_by_number);
        p->count[i] = 0;
        for (size_t k = 0; k < kept; k++)
            if (k == 0 || of[k] != of[k - 1])
                of[p->count[i]++] = of[k];
    }
}

/* One level: how many switches became others. */
static size_t join_level(struct planes *p)
{
    struct machine *m = p->m;
    size_t n = 0, joined = 0, links = 0;
    find_neighbours(p);
    for (uint32_t i = 0; i < m->parts; i++) {
        p->same[i] = i;
        if (is_switch(p, i) && p->count[i] > 0)
            p->order[n++] = i;
    }
    if (n > 1)
        qsort_r(p->order, n, sizeof *p->order, compare_switches, p);
    for (size_t k = 1; k < n; k++) {
        uint32_t x = p->order[k - 1], y = p->order[k];
        bool twins = p->count[x] == p->count[y] &&
                     !memcmp(p->neighbour + p->first[x], p->neighbour + p->first[y],
                             p->count[x] * sizeof *p->neighbour);
        p->same[y] = twins ? p->same[x] : y;
        joined += twins;
    }
    for (size_t k = 0; joined > 0 && k < m->links; k++) {
        struct machine_link l = m->link[k];
        l.a = p->same[l.a];
        l.b = p->same[l.b];
        if (l.a != l.b)
            m->link[links++] = l;
    }
    m->links = joined > 0 ? links : m->links;
    return joined;
}

/* Switches that stand for others are left without cables: they are no part of the platform. */
enum status machine_join_planes(struct machine *m)
{
    enum status st;
    struct planes p = {.m = m};
    size_t joined = 0, more = 1;
    TRY(ARRAY_NEW(p.first, m->parts + 2));
    TRY(ARRAY_NEW(p.neighbour, 2 * m->links));
    TRY(ARRAY_NEW(p.count, m->parts));
    TRY(ARRAY_NEW(p.same, m->parts));
    TRY(ARRAY_NEW(p.order, m->parts));
    for (int level = 0; level < LEVELS && more > 0; level++)
        joined += more = join_level(&p);
    if (joined > 0)
        TRY(machine_assume(
            m, "%zu parallel switch%s merged into others; messages spread over the cables of all",
            joined, joined == 1 ? "" : "es"));
out:
    free(p.first);
    free(p.neighbour);
    free(p.count);
    free(p.same);
    free(p.order);
    return st;
}
