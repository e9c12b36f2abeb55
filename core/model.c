#include "core/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- contract */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum status check_names(const struct model *m, const char *path)
{
    enum status st = STATUS_OK;
    const char **name = calloc(m->n, sizeof *name);
    if (!name)
        return error_set(STATUS_NOMEM, "%s: out of memory", path);
    for (size_t i = 0; i < m->n; i++)
        name[i] = m->op[i].name;
    qsort(name, m->n, sizeof *name, by_name);
    for (size_t i = 0; i < m->n && st == STATUS_OK; i++) {
        if (!*name[i])
            st = error_set(STATUS_INVALID, "%s: an op has an empty name", path);
        else if (i > 0 && !strcmp(name[i - 1], name[i]))
            st = error_set(STATUS_INVALID, "%s: op '%s' twice", path, name[i]);
    }
    free(name);
    return st;
}

static enum status check_op(const struct model *m, size_t i, const char *path)
{
    const struct model_op *o = &m->op[i];
    const double real[] = {o->forward_flop, o->backward_flop, o->forward_bytes, o->backward_bytes};
    const int64_t bytes[] = {o->parameter_bytes, o->shared_bytes, o->stash_bytes, o->output_bytes};
    for (size_t k = 0; k < sizeof real / sizeof *real; k++)
        if (!(real[k] >= 0 && isfinite(real[k])))
            return error_set(STATUS_INVALID, "%s: op '%s': work of %g is not a finite number >= 0",
                             path, o->name, real[k]);
    for (size_t k = 0; k < sizeof bytes / sizeof *bytes; k++)
        if (bytes[k] < 0 || bytes[k] > INT64_MAX / 65536)
            return error_set(STATUS_INVALID, "%s: op '%s': size of %lld bytes", path, o->name,
                             (long long)bytes[k]);
    if (o->shares != MODEL_NO_OP &&
        (o->shares >= m->n || o->shares == i || m->op[o->shares].parameter_bytes < o->shared_bytes))
        return error_set(STATUS_INVALID, "%s: op '%s' shares more parameters than its owner has",
                         path, o->name);
    return STATUS_OK;
}

static enum status check_profile(const struct model *m, const struct model_profile *p,
                                 const char *path)
{
    if (!(p->samples > 0 && isfinite(p->samples)) || p->tensor_parallel < 1)
        return error_set(STATUS_INVALID, "%s: profile for %g samples", path, p->samples);
    for (size_t i = 0; i < m->n; i++) {
        double update = p->update_s ? p->update_s[i] : 0;
        double sum = p->forward_s[i] + p->backward_s[i] + update;
        if (!(p->forward_s[i] >= 0 && p->backward_s[i] >= 0 && update >= 0 && isfinite(sum)))
            return error_set(STATUS_INVALID, "%s: op '%s': measured time is not a number >= 0",
                             path, m->op[i].name);
    }
    return STATUS_OK;
}

static enum status check(const struct model *m, const char *path)
{
    enum status st = STATUS_OK;
    if (m->n == 0 || m->n > MODEL_MAX_OPS)
        return error_set(STATUS_INVALID, "%s: a model of %zu ops (1 to %d are possible)", path,
                         m->n, MODEL_MAX_OPS);
    if (m->element_bytes < 1 || m->element_bytes > 8 || !(m->tokens_per_sample >= 0) ||
        !isfinite(m->tokens_per_sample))
        return error_set(STATUS_INVALID, "%s: element size %lld bytes, %g tokens per sample", path,
                         (long long)m->element_bytes, m->tokens_per_sample);
    TRY(check_names(m, path));
    for (size_t i = 0; i < m->n; i++)
        TRY(check_op(m, i, path));
    for (size_t k = 0; k < m->profiles; k++)
        TRY(check_profile(m, &m->profile[k], path));
out:
    return st;
}

/* ---- order */

/* Name one cycle among the ops that could not be placed (waiting[i] > 0). */
static enum status cycle_error(const struct model *m, const struct model_edge *edge, size_t edges,
                               const size_t *waiting, const char *path)
{
    uint32_t at = 0;
    while (waiting[at] == 0)
        at++;
    /* Walk backwards along unplaced producers n times: certainly on a cycle then. */
    for (size_t step = 0; step < m->n; step++)
        for (size_t e = 0; e < edges; e++)
            if (edge[e].to == at && waiting[edge[e].from] > 0) {
                at = edge[e].from;
                break;
            }
    return error_set(STATUS_INVALID, "%s: the graph has a cycle through op '%s'", path,
                     m->op[at].name);
}

/* position[i] becomes the place of op i. Depth first: an op follows its producer directly when it
 * can, so that branches stay together and few tensors cross a cut. */
static enum status order(const struct model *m, const struct model_edge *edge, size_t edges,
                         uint32_t *position, const char *path)
{
    enum status st = STATUS_OK;
    size_t *waiting = calloc(m->n, sizeof *waiting); /* producers not placed yet */
    size_t *start = calloc(m->n + 2, sizeof *start); /* CSR of consumers */
    uint32_t *consumer = calloc(edges + 1, sizeof *consumer), *stack = calloc(m->n, sizeof *stack);
    if (!waiting || !start || !consumer || !stack) {
        st = error_set(STATUS_NOMEM, "%s: out of memory", path);
        goto out;
    }
    for (size_t e = 0; e < edges; e++) {
        waiting[edge[e].to]++;
        start[edge[e].from + 2]++;
    }
    for (size_t i = 0; i < m->n; i++)
        start[i + 2] += start[i + 1];
    for (size_t e = 0; e < edges; e++)
        consumer[start[edge[e].from + 1]++] = edge[e].to;

    size_t depth = 0, placed = 0;
    for (size_t i = m->n; i-- > 0;)
        if (waiting[i] == 0)
            stack[depth++] = (uint32_t)i;
    while (depth > 0) {
        uint32_t i = stack[--depth];
        position[i] = (uint32_t)placed++;
        for (size_t k = start[i + 1]; k-- > start[i];)
            if (--waiting[consumer[k]] == 0)
                stack[depth++] = consumer[k];
    }
    if (placed < m->n)
        st = cycle_error(m, edge, edges, waiting, path);
out:
    free(stack);
    free(consumer);
    free(start);
    free(waiting);
    return st;
}

static void permute_reals(double *value, const uint32_t *position, size_t n, double *room)
{
    for (size_t i = 0; value && i < n; i++)
        room[position[i]] = value[i];
    if (value)
        memcpy(value, room, n * sizeof *value);
}

static enum status permute(struct model *m, const uint32_t *position, const char *path)
{
    enum status st = STATUS_OK;
    struct model_op *op = calloc(m->n, sizeof *op);
    double *room = calloc(m->n, sizeof *room);
    if (!op || !room) {
        st = error_set(STATUS_NOMEM, "%s: out of memory", path);
        goto out;
    }
    for (size_t i = 0; i < m->n; i++) {
        op[position[i]] = m->op[i];
        if (m->op[i].shares != MODEL_NO_OP)
            op[position[i]].shares = position[m->op[i].shares];
    }
    memcpy(m->op, op, m->n * sizeof *op);
    for (size_t k = 0; k < m->profiles; k++) {
        permute_reals(m->profile[k].forward_s, position, m->n, room);
        permute_reals(m->profile[k].backward_s, position, m->n, room);
        permute_reals(m->profile[k].update_s, position, m->n, room);
    }
out:
    free(room);
    free(op);
    return st;
}

/* ---- CSR */

static enum status link_edges(struct model *m, const struct model_edge *edge, size_t edges,
                              const uint32_t *position, const char *path)
{
    m->edges = edges;
    m->in_start = calloc(m->n + 2, sizeof *m->in_start);
    m->out_start = calloc(m->n + 2, sizeof *m->out_start);
    m->in = calloc(edges + 1, sizeof *m->in);
    m->out = calloc(edges + 1, sizeof *m->out);
    if (!m->in_start || !m->out_start || !m->in || !m->out)
        return error_set(STATUS_NOMEM, "%s: out of memory", path);
    for (size_t e = 0; e < edges; e++) {
        m->in_start[position[edge[e].to] + 2]++;
        m->out_start[position[edge[e].from] + 2]++;
    }
    for (size_t i = 0; i < m->n; i++) {
        m->in_start[i + 2] += m->in_start[i + 1];
        m->out_start[i + 2] += m->out_start[i + 1];
    }
    for (size_t e = 0; e < edges; e++) /* argument order is the order of the edge list */
        m->in[m->in_start[position[edge[e].to] + 1]++] = position[edge[e].from];
    for (uint32_t i = 0; i < m->n; i++) /* consumers ascending */
        for (size_t k = m->in_start[i]; k < m->in_start[i + 1]; k++)
            m->out[m->out_start[m->in[k] + 1]++] = i;
    for (size_t i = 0; i < m->n; i++)
        for (size_t k = m->out_start[i] + 1; k < m->out_start[i + 1]; k++)
            if (m->out[k] == m->out[k - 1])
                return error_set(STATUS_INVALID, "%s: edge from '%s' to '%s' twice", path,
                                 m->op[i].name, m->op[m->out[k]].name);
    return STATUS_OK;
}

enum status model_finish(struct model *m, const struct model_edge *edge, size_t edges,
                         const char *path)
{
    enum status st = STATUS_OK;
    uint32_t *position = NULL;
    bool ordered = true;

    TRY(check(m, path));
    for (size_t e = 0; e < edges; e++) {
        if (edge[e].from >= m->n || edge[e].to >= m->n) {
            st = error_set(STATUS_INVALID, "%s: an edge to an op that does not exist", path);
            goto out;
        }
        ordered = ordered && edge[e].from < edge[e].to;
    }
    position = calloc(m->n, sizeof *position);
    if (!position) {
        st = error_set(STATUS_NOMEM, "%s: out of memory", path);
        goto out;
    }
    for (size_t i = 0; i < m->n; i++)
        position[i] = (uint32_t)i;
    if (!ordered) {
        TRY(order(m, edge, edges, position, path));
        TRY(permute(m, position, path));
    }
    TRY(link_edges(m, edge, edges, position, path));
    for (size_t i = 0; i < m->n; i++)
        if (m->op[i].shares != MODEL_NO_OP && m->op[i].shares > i) {
            st = error_set(STATUS_INVALID, "%s: op '%s' shares parameters of a later op", path,
                           m->op[i].name);
            goto out;
        }
out:
    free(position);
    if (st != STATUS_OK)
        model_free(m);
    return st;
}

void model_free(struct model *m)
{
    for (size_t i = 0; m->op && i < m->n; i++) {
        struct model_op *o = &m->op[i];
        for (size_t k = 0; o->attribute && k < o->attributes; k++)
            free(o->attribute[k].name);
        free(o->attribute);
        free(o->kind);
        free(o->name);
    }
    for (size_t k = 0; m->profile && k < m->profiles; k++) {
        free(m->profile[k].device);
        free(m->profile[k].forward_s);
        free(m->profile[k].backward_s);
        free(m->profile[k].update_s);
    }
    free(m->profile);
    free(m->op);
    free(m->in_start);
    free(m->out_start);
    free(m->in);
    free(m->out);
    free(m->note);
    free(m->name);
    *m = (struct model){0};
}

uint32_t model_find(const struct model *m, const char *name)
{
    for (size_t i = 0; i < m->n; i++)
        if (!strcmp(m->op[i].name, name))
            return (uint32_t)i;
    return MODEL_NO_OP;
}

int64_t model_attribute(const struct model_op *op, const char *name, int64_t fallback)
{
    for (size_t k = 0; k < op->attributes; k++)
        if (!strcmp(op->attribute[k].name, name))
            return op->attribute[k].value;
    return fallback;
}

int64_t model_parameters(const struct model *m)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < m->n; i++)
        bytes += m->op[i].parameter_bytes;
    return bytes / m->element_bytes;
}
