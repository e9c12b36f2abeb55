/* What the algorithms share: room for flows, phases, sizes of nodes, and the worst path of a
 * ring. */
#include "core/collective/shapes.h"

#include <math.h>

#include "core/base/array.h"

enum status collective_shape_open(struct collective_shape *s, size_t phases, size_t flows)
{
    PASS(ARRAY_NEW(s->phase, phases));
    return ARRAY_NEW(s->flow, flows);
}

void collective_end_phase(struct collective_shape *s, double latency_s)
{
    size_t start = s->phases > 0 ? s->phase[s->phases - 1].flow_end : 0;
    s->phase[s->phases++] = (struct collective_phase){
        .latency_s = latency_s, .flow_start = start, .flow_end = s->flows};
}

size_t collective_smallest_node(const struct collective_group *g)
{
    size_t smallest = g->n;
    for (size_t k = 0; k < g->nodes; k++) {
        size_t size = collective_node_size(g, k);
        smallest = size < smallest ? size : smallest;
    }
    return smallest;
}

bool collective_equal_nodes(const struct collective_group *g)
{
    return collective_smallest_node(g) * g->nodes == g->n;
}

/* NCCL's buffers of 4 MiB are passed on in eighths; smaller parts are cut into 64 while these are
 * not less than a page. */
double collective_chunks(double bytes)
{
    double least = bytes / 524288, most = bytes / 4096;
    return ceil(larger(larger(least, 1), most < 64 ? most : 64));
}

double collective_worst_window(const double *value, size_t n, size_t length)
{
    double all = 0, window = 0, worst = 0;
    size_t rounds = length / n, rest = length % n;
    for (size_t i = 0; i < n; i++)
        all += value[i];
    for (size_t i = 0; i < rest; i++)
        window += value[i];
    worst = window;
    for (size_t i = 0; rest > 0 && i + 1 < n; i++) {
        size_t in = i + rest < n ? i + rest : i + rest - n;
        window += value[in] - value[i];
        worst = larger(worst, window);
    }
    return (double)rounds * all + worst;
}
