/* Wirings for measurements: a link alone, and senders that share one. */
#define _DEFAULT_SOURCE
#include "exec/netns/inside.h"

#include <string.h>

/* Two nodes and the link between them, for measurements. */
enum status wiring_pair(struct wiring *out)
{
    enum status st;
    struct wiring w = {0};
    TRY(wiring_allocate(2, 2, 1, &w));
    w.nodes = w.spaces = 2;
    w.links = 1;
    for (uint32_t k = 0; k < 2; k++) {
        w.space[k] = (struct wiring_space){.ranks = 1, .first = k, .interfaces = 1};
        wiring_name(NULL, k, &w.space[k]);
        w.space_of[k] = k;
        w.link[0].space[k] = k;
        w.way[k * 2 + 1 - k] = 0;
    }
    MOVE(out, w);
out:
    wiring_free(&w);
    return st;
}

static void wiring_join_link(struct wiring *w, size_t link, uint32_t a, uint32_t b)
{
    struct wiring_link *l = &w->link[link];
    const uint32_t end[2] = {a, b};
    for (int k = 0; k < 2; k++) {
        l->space[k] = end[k];
        l->interface[k] = w->space[end[k]].interfaces++;
    }
}

/* Senders on one side, receivers on the other, and one link that all share in the middle. */
enum status wiring_dumbbell(uint32_t pairs, double bandwidth_Bps, struct wiring *out)
{
    enum status st;
    struct wiring w = {0};
    uint32_t nodes = 2 * pairs, uplink = nodes;
    TRY(wiring_allocate(nodes, nodes + 2, nodes + 1, &w));
    w.nodes = nodes;
    w.spaces = nodes + 2;
    w.links = nodes + 1;
    for (uint32_t k = 0; k < nodes + 2; k++) {
        w.space[k] = (struct wiring_space){.ranks = k < nodes, .first = k, .forwards = k >= nodes};
        wiring_name(NULL, k, &w.space[k]);
    }
    for (uint32_t k = 0; k < nodes; k++) {
        uint32_t near = nodes + k / pairs, far = 2 * nodes + 1 - near;
        wiring_join_link(&w, k, k, near);
        w.space_of[k] = k;
        w.way[near * nodes + k] = k;
        w.way[far * nodes + k] = uplink;
        for (uint32_t other = 0; other < nodes; other++)
            if (other != k)
                w.way[other * nodes + k] = other;
    }
    wiring_join_link(&w, uplink, nodes, nodes + 1);
    w.link[uplink].bandwidth_Bps = bandwidth_Bps;
    MOVE(out, w);
out:
    wiring_free(&w);
    return st;
}
