/* What crosses the cuts of a model's order, and where it may be cut. */
#include "partition/graph.h"

void graph_entering_bytes(const struct model *m, double *in_bytes)
{
    for (size_t i = 0; i < m->n; i++) {
        double sum = 0;
        for (size_t j = i; j < m->n; j++) {
            for (size_t k = m->in_start[j]; k < m->in_start[j + 1]; k++) {
                uint32_t p = m->in[k];
                if (p >= i)
                    continue;
                /* Counted already if a consumer between i and j - 1 reads it too. */
                bool counted = false;
                for (size_t c = m->out_start[p]; c < m->out_start[p + 1] && m->out[c] < j; c++)
                    counted = counted || m->out[c] >= i;
                if (!counted)
                    sum += (double)m->op[p].output_bytes;
            }
            in_bytes[i * m->n + j] = sum;
        }
    }
}

size_t graph_whole_begins(const struct model *m, bool shards, size_t *begins)
{
    size_t found = 0, read_until = 0; /* the last op that reads a divided tensor so far */
    for (size_t i = 0; i < m->n; i++) {
        enum model_tensor tensor = m->op[i].tensor;
        if (begins)
            begins[i] = found;
        found += i == 0 || i > read_until;
        if (shards && (tensor == TENSOR_COLUMN || tensor == TENSOR_SPLIT) &&
            m->out_start[i + 1] > m->out_start[i] && m->out[m->out_start[i + 1] - 1] > read_until)
            read_until = m->out[m->out_start[i + 1] - 1];
    }
    if (begins)
        begins[m->n] = found;
    return found;
}
