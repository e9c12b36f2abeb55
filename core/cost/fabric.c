/* Seconds of collectives by curves, and what is taken where there are none. */
#include "core/cost/fabric.h"

#include <math.h>
#include <string.h>

#include "core/data/topology.h"

/* ---- curves */

/* Above the last point: seconds per byte over the last doubling, or on the whole where noise makes
 * that one negative or leaves one point. */
static double last_slope(const struct fabric_curve *c)
{
    size_t last = c->n - 1, from = last;
    while (from > 0 && c->bytes[from] * 2 > c->bytes[last])
        from--;
    double slope =
        from < last ? (c->seconds[last] - c->seconds[from]) / (c->bytes[last] - c->bytes[from]) : 0;
    return slope > 0 ? slope : c->seconds[last] / c->bytes[last];
}

double fabric_curve_seconds(const struct fabric_curve *c, double bytes)
{
    size_t low = 0, high = c->n - 1;
    if (bytes <= c->bytes[low])
        return c->seconds[low];
    if (bytes >= c->bytes[high])
        return c->seconds[high] + (bytes - c->bytes[high]) * last_slope(c);
    while (high - low > 1) { /* bytes[low] <= bytes < bytes[high] */
        size_t middle = low + (high - low) / 2;
        if (c->bytes[middle] <= bytes)
            low = middle;
        else
            high = middle;
    }
    double at = log(bytes / c->bytes[low]) / log(c->bytes[high] / c->bytes[low]);
    return c->seconds[low] * pow(c->seconds[high] / c->seconds[low], at);
}

/* The least of all points: what a buffer of any size takes. */
static double fabric_least(const struct fabric_curve *c)
{
    double s = c->seconds[0];
    for (size_t i = 1; i < c->n; i++)
        s = fmin(s, c->seconds[i]);
    return s;
}

/* Are the members of both on nodes alike: all in one, or as many in each of several? */
static bool fabric_is_alike(const struct fabric_curve *c, uint32_t members, uint32_t per_node)
{
    return c->members == c->per_node ? members == per_node
                                     : members != per_node && c->per_node == per_node;
}

/* Is a the better curve of the same number of members? One of the tier alone is. */
static bool fabric_is_nearer(const struct fabric_curve *a, const struct fabric_curve *than,
                             bool more)
{
    if (!than || a->members == than->members)
        return !than || *a->tier != '*';
    return more ? a->members > than->members : a->members < than->members;
}

bool fabric_seconds(const struct device_type *type, enum fabric_kind kind, uint32_t members,
                    uint32_t per_node, const char *tier, double bytes, double *seconds,
                    double *latency_s)
{
    const struct fabric_curve *low = NULL, *high = NULL; /* <= and >= members */
    const struct fabric_curve *below = NULL;             /* < low */
    for (size_t pass = 0; pass < 2; pass++)
        for (size_t k = 0; k < type->curves; k++) {
            const struct fabric_curve *c = &type->curve[k];
            if (c->kind != kind || !fabric_is_alike(c, members, per_node) ||
                (*c->tier != '*' && strcmp(c->tier, tier) != 0))
                continue;
            if (pass == 1 && low && c->members < low->members && fabric_is_nearer(c, below, true))
                below = c;
            if (pass == 0 && c->members <= members && fabric_is_nearer(c, low, true))
                low = c;
            if (pass == 0 && c->members >= members && fabric_is_nearer(c, high, false))
                high = c;
        }
    bool beyond = low && below && !high && members != per_node;
    if (beyond)
        high = low, low = below;
    if (!low || !high)
        return false;
    double at = low->members == high->members ? 0
                                              : log((double)members / low->members) /
                                                    log((double)high->members / low->members);
    double a = fabric_curve_seconds(low, bytes), b = fabric_curve_seconds(high, bytes);
    double least_a = fabric_least(low), least_b = fabric_least(high);
    if (beyond) /* more members never take less */
        b = fmax(a, b), least_b = fmax(least_a, least_b);
    *seconds = a * pow(b / a, at);
    *latency_s = fmin(*seconds, least_a * pow(least_b / least_a, at));
    return true;
}

/* ---- the model */

/* Two digits of `foreline lab kernels` for 106 all-reduces of nccl-tests on nodes of 8
 * A100, H200, B200 and MI300X and on four nodes of B200 (docs/reference/collectives.md). */
struct fabric_model fabric_derive(const struct device_type *type)
{
    struct fabric_model usual = {0};
    if (type->peak[DATA_bf16] <= 0 || !fabric_named("infiniband", &usual))
        return (struct fabric_model){0};
    struct fabric_model m = {.start_s = 44e-6,
                             .share = 1,
                             .half_bytes = 6.2e6,
                             .exponent = 0.46,
                             .nic = usual.nic,
                             .doubling = usual.doubling,
                             .hop_s = usual.hop_s,
                             .reduce = type->peak[DATA_fp8] > 0 ? 0.82 : 0};
    if (type->fabric.nic > 0) { /* what is between nodes, the platform says */
        m.nic = type->fabric.nic;
        m.doubling = type->fabric.doubling;
        m.hop_s = type->fabric.hop_s;
    }
    return m;
}

double fabric_across(const struct fabric_model *m, double nodes)
{
    return m->doubling > 0 && nodes > 2 ? m->nic * pow(m->doubling, log2(nodes) - 1) : m->nic;
}

double fabric_model_seconds(const struct fabric_model *m, enum fabric_kind kind,
                            const struct fabric_where *where, double bytes)
{
    double n = where->members, nodes = n / where->per_node, inside = where->link_Bps * m->share,
           out = where->nic_Bps * fabric_across(m, nodes);
    bool sums = kind == FABRIC_ALLREDUCE, sends = kind == FABRIC_SEND;
    double passes = sends || kind == FABRIC_BROADCAST ? 1 : (sums ? 2 : 1) * (n - 1) / n;
    if (where->members == where->per_node) {
        double lost = m->half_bytes > 0 ? 1 + pow(m->half_bytes / bytes, m->exponent) : 1;
        double busy = passes / inside;
        if (sums && where->switched && n > 2 && m->reduce > 0)
            busy = fmin(busy, (n + 1) / n / (m->reduce * where->link_Bps));
        return (sends ? 0.5 : 1) * m->start_s + bytes * lost * busy;
    }
    if (sends)
        return m->start_s / 2 + bytes / out;
    double hops = sums ? 8 * log2(nodes) : kind == FABRIC_ALLTOALL ? nodes - 1 : n - 1;
    return 1.5 * m->start_s + m->hop_s * hops +
           bytes * passes / fmin(inside, where->per_node * out);
}
