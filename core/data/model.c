/* Models: checking their contract, sorting their ops topologically, looking things up. */
#include "core/data/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/order.h"
#include "core/data/edges.h"

/* ---- contract */

/* Names are compared as neighbours in sorted order. */
static enum status check_names(const struct model *m, const char *path)
{
    enum status st;
    const char **name = NULL;
    TRY(ARRAY_NEW(name, m->n));
    for (size_t i = 0; i < m->n; i++)
        name[i] = m->op[i].name;
    qsort(name, m->n, sizeof *name, order_by_name);
    for (size_t i = 0; i < m->n && st == STATUS_OK; i++)
        if (!*name[i])
            st = error_set(STATUS_INVALID, "%s: an op has an empty name", path);
        else if (i > 0 && !strcmp(name[i - 1], name[i]))
            st = error_set(STATUS_INVALID, "%s: op '%s' is declared twice", path, name[i]);
out:
    free(name);
    return st;
}

/* Numbers of an op: finite, not negative, small enough for sums over 65,536 of them. */
static enum status model_check_op(const struct model *m, size_t i, const char *path)
{
    const struct model_op *o = &m->op[i];
    const double real[] = {o->forward_flop, o->backward_flop, o->forward_bytes, o->backward_bytes};
    const int64_t bytes[] = {o->parameter_bytes, o->shared_bytes, o->stash_bytes, o->output_bytes};
    for (size_t k = 0; k < sizeof real / sizeof *real; k++)
        if (!(real[k] >= 0 && isfinite(real[k])))
            return error_set(
                STATUS_INVALID,
                "%s: op '%s': its FLOP or memory traffic is %g, expected a finite number >= 0",
                path, o->name, real[k]);
    for (size_t k = 0; k < sizeof bytes / sizeof *bytes; k++)
        if (bytes[k] < 0 || bytes[k] > INT64_MAX / 65536)
            return error_set(STATUS_INVALID, "%s: op '%s': size is %lld bytes, expected 0 to %lld",
                             path, o->name, (long long)bytes[k], INT64_MAX / 65536LL);
    if (o->shares == MODEL_NO_OP)
        return STATUS_OK;
    if (o->shares >= m->n || o->shares == i)
        return error_set(STATUS_INVALID, "%s: op '%s' shares the parameters of %s", path, o->name,
                         o->shares == i ? "itself" : "an op that does not exist");
    if (m->op[o->shares].parameter_bytes < o->shared_bytes)
        return error_set(
            STATUS_INVALID,
            "%s: op '%s' shares %lld bytes of parameters of op '%s', which has only %lld", path,
            o->name, (long long)o->shared_bytes, m->op[o->shares].name,
            (long long)m->op[o->shares].parameter_bytes);
    return STATUS_OK;
}

/* Times are finite and not negative, for a positive number of samples. */
static enum status check_profile(const struct model *m, const struct model_profile *p,
                                 const char *path)
{
    if (!(p->samples > 0 && isfinite(p->samples)) || p->tensor_parallel < 1)
        return error_set(STATUS_INVALID, "%s: profile is for %g samples, expected more than 0",
                         path, p->samples);
    for (size_t i = 0; i < m->n; i++) {
        double update = p->update_s ? p->update_s[i] : 0, again = p->again_s ? p->again_s[i] : 0;
        double sum = p->forward_s[i] + p->backward_s[i] + update + again;
        double least = fmin(fmin(p->forward_s[i], p->backward_s[i]), fmin(update, again));
        if (!(least >= 0 && isfinite(sum)))
            return error_set(STATUS_INVALID,
                             "%s: op '%s': profile has a negative or infinite time, expected "
                             "finite times of at least 0 s",
                             path, m->op[i].name);
    }
    return STATUS_OK;
}

/* Profiles of one device and degree are of one kind: with the sums of shards, or without. */
static enum status model_check_sums(const struct model *m, const char *path)
{
    for (size_t k = 0; k < m->profiles; k++)
        for (size_t i = 0; i < k; i++) {
            const struct model_profile *p = &m->profile[i], *q = &m->profile[k];
            if (p->sums != q->sums && p->tensor_parallel == q->tensor_parallel &&
                !strcmp(p->device, q->device))
                return error_set(STATUS_INVALID,
                                 "%s: some profiles of device '%s' with %u shards set "
                                 "'tensor_sums' and others do not, expected all or none",
                                 path, p->device, p->tensor_parallel);
        }
    return STATUS_OK;
}

static enum status model_check(const struct model *m, const char *path)
{
    if (m->n == 0 || m->n > MODEL_MAX_OPS)
        return error_set(STATUS_INVALID, "%s: model has %zu ops, expected 1 to %d", path, m->n,
                         MODEL_MAX_OPS);
    if (m->dtype != DATA_ANY && m->element_bytes != data_type_bytes(m->dtype))
        return error_set(STATUS_INVALID,
                         "%s: got %lld bytes per element, expected %lld for data type %s", path,
                         (long long)m->element_bytes, (long long)data_type_bytes(m->dtype),
                         data_type_names[m->dtype]);
    if (m->element_bytes < 1 || m->element_bytes > 8)
        return error_set(STATUS_INVALID, "%s: got %lld bytes per element, expected 1 to 8", path,
                         (long long)m->element_bytes);
    if (!(m->tokens_per_sample >= 0) || !isfinite(m->tokens_per_sample))
        return error_set(STATUS_INVALID, "%s: got %g tokens per sample, expected 0 or more", path,
                         m->tokens_per_sample);
    PASS(check_names(m, path));
    for (size_t i = 0; i < m->n; i++)
        PASS(model_check_op(m, i, path));
    for (size_t k = 0; k < m->profiles; k++)
        PASS(check_profile(m, &m->profile[k], path));
    PASS(model_check_sums(m, path));
    return STATUS_OK;
}

/* ---- order */

static void permute_reals(double *value, const uint32_t *position, size_t n, double *room)
{
    for (size_t i = 0; value && i < n; i++)
        room[position[i]] = value[i];
    if (value)
        memcpy(value, room, n * sizeof *value);
}

/* Move ops and times to their positions; indices of owners follow. */
static enum status permute(struct model *m, const uint32_t *position)
{
    enum status st;
    struct model_op *op = NULL;
    double *room = NULL;
    TRY(ARRAY_COPY(op, m->op, m->n));
    TRY(ARRAY_NEW(room, m->n));
    for (size_t i = 0; i < m->n; i++) {
        struct model_op *to = &m->op[position[i]];
        *to = op[i];
        if (to->shares != MODEL_NO_OP)
            to->shares = position[to->shares];
    }
    for (size_t k = 0; k < m->profiles; k++) {
        permute_reals(m->profile[k].forward_s, position, m->n, room);
        permute_reals(m->profile[k].backward_s, position, m->n, room);
        permute_reals(m->profile[k].again_s, position, m->n, room);
        permute_reals(m->profile[k].update_s, position, m->n, room);
    }
out:
    free(room);
    free(op);
    return st;
}

/* Sort edge[] and the ops topologically unless they are. */
static enum status sort_ops(struct model *m, struct model_edge *edge, size_t edges,
                            const char *path)
{
    enum status st = STATUS_OK;
    uint32_t *position = NULL;
    size_t cyclic;
    bool sorted = true;
    for (size_t e = 0; e < edges; e++)
        sorted = sorted && edge[e].from < edge[e].to;
    if (sorted)
        return STATUS_OK;
    TRY(ARRAY_NEW(position, m->n));
    TRY(edges_order(m->n, edge, edges, position, &cyclic));
    if (cyclic < edges)
        FAIL(STATUS_INVALID, "%s: the graph has a cycle through op '%s'", path,
             m->op[edge[cyclic].to].name);
    TRY(permute(m, position));
    for (size_t e = 0; e < edges; e++)
        edge[e] = (struct model_edge){position[edge[e].from], position[edge[e].to]};
out:
    free(position);
    return st;
}

/* ---- CSR */

/* Producers of each op in the order of its arguments, consumers ascending; an edge that stands
 * twice shows as equal neighbours among the consumers. */
static enum status link_edges(struct model *m, const struct model_edge *edge, size_t edges,
                              const char *path)
{
    PASS(ARRAY_NEW(m->in_start, m->n + 2));
    PASS(ARRAY_NEW(m->out_start, m->n + 2));
    PASS(ARRAY_NEW(m->in, edges));
    PASS(ARRAY_NEW(m->out, edges));
    m->edges = edges;
    edges_list(m->n, edge, edges, EDGES_BY_HEAD, m->in_start, m->in); /* in argument order */
    for (size_t k = 0; k < edges; k++)
        m->out_start[m->in[k] + 2]++;
    for (size_t i = 0; i < m->n; i++)
        m->out_start[i + 2] += m->out_start[i + 1];
    for (uint32_t i = 0; i < m->n; i++) /* consumers ascending */
        for (size_t k = m->in_start[i]; k < m->in_start[i + 1]; k++)
            m->out[m->out_start[m->in[k] + 1]++] = i;
    for (size_t i = 0; i < m->n; i++)
        for (size_t k = m->out_start[i] + 1; k < m->out_start[i + 1]; k++)
            if (m->out[k] == m->out[k - 1])
                return error_set(STATUS_INVALID, "%s: edge from '%s' to '%s' is declared twice",
                                 path, m->op[i].name, m->op[m->out[k]].name);
    return STATUS_OK;
}

/* Steps: (1) the contract of ops and profiles, the operators that kinds name; (2) the topological
 * order, of ops and edges; (3) CSR of producers and consumers; (4) owners of shared parameters
 * stand before their borrowers. */
enum status model_finish(struct model *m, const struct model_edge *edge, size_t edges,
                         const char *path)
{
    enum status st = STATUS_OK;
    struct model_edge *sorted = NULL;

    TRY(model_check(m, path));
    for (size_t i = 0; i < m->n; i++) {
        m->op[i].type = operator_find(m->op[i].kind);
        m->op[i].block = 1 + model_block(m->op[i].name);
    }
    for (size_t e = 0; e < edges; e++)
        if (edge[e].from >= m->n || edge[e].to >= m->n)
            FAIL(STATUS_INVALID, "%s: an edge names an op that does not exist", path);
    TRY(ARRAY_COPY(sorted, edge, edges));
    TRY(sort_ops(m, sorted, edges, path));
    TRY(link_edges(m, sorted, edges, path));
    for (size_t i = 0; i < m->n; i++)
        if (m->op[i].shares != MODEL_NO_OP && m->op[i].shares > i)
            FAIL(STATUS_INVALID,
                 "%s: op '%s' shares the parameters of a later op, expected an earlier one", path,
                 m->op[i].name);
out:
    free(sorted);
    if (st != STATUS_OK)
        model_free(m);
    return st;
}

void model_profile_free(struct model_profile *p)
{
    free(p->device);
    free(p->forward_s);
    free(p->backward_s);
    free(p->again_s);
    free(p->update_s);
    *p = (struct model_profile){0};
}

enum status model_put_profile(struct model *m, struct model_profile *p)
{
    size_t k = 0;
    while (k < m->profiles &&
           (strcmp(m->profile[k].device, p->device) != 0 || m->profile[k].samples != p->samples ||
            m->profile[k].tensor_parallel != p->tensor_parallel))
        k++;
    if (k == m->profiles) {
        struct model_profile *grown = realloc(m->profile, (k + 1) * sizeof *grown);
        if (!grown)
            return error_set(STATUS_NOMEM, "out of memory for the model's %zu profiles", k + 1);
        m->profile = grown;
        m->profiles++;
    } else {
        model_profile_free(&m->profile[k]);
    }
    m->profile[k] = *p;
    *p = (struct model_profile){0};
    return STATUS_OK;
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
    for (size_t k = 0; m->profile && k < m->profiles; k++)
        model_profile_free(&m->profile[k]);
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
        if (*op->attribute[k].name == *name && !strcmp(op->attribute[k].name, name))
            return op->attribute[k].value;
    return fallback;
}

double model_sample_flop(const struct model *m)
{
    double flop = 0;
    for (size_t i = 0; i < m->n; i++)
        flop += m->op[i].forward_flop + m->op[i].backward_flop;
    return flop;
}

/* Pairs of tokens behind a causal mask over all T^2; 1: the op hides none. */
static double model_share_seen(const struct model_op *op)
{
    double t = (double)model_attribute(op, "tokens", 0);
    double w = (double)model_attribute(op, "window", (int64_t)t);
    bool masked = strcmp(op->kind, "attention") == 0 && model_attribute(op, "causal", 0) &&
                  !model_attribute(op, "memory", 0);
    return masked && t > 0 ? (w * t - w * (w - 1) / 2) / (t * t) : 1;
}

double model_convention_flop(const struct model *m, enum model_convention convention)
{
    double flop = 0;
    for (size_t i = 0; i < m->n; i++) {
        const struct model_op *op = &m->op[i];
        double seen = model_share_seen(op), counted = model_attribute(op, "flash", 0) ? seen : 1;
        flop += (op->forward_flop + op->backward_flop) * (convention == MODEL_CAUSAL ? seen : 1) /
                counted;
    }
    return flop;
}

int64_t model_active_parameters(const struct model *m)
{
    int64_t n = model_parameters(m);
    for (size_t i = 0; i < m->n; i++) {
        const struct model_op *op = &m->op[i];
        int64_t all = model_attribute(op, "experts", 0), met = model_attribute(op, "top_k", all);
        if (model_op_is(op, OPERATOR_EXPERTS) && all > 0)
            n -= op->parameter_bytes / m->element_bytes / all * (all - met);
    }
    return n;
}

int64_t model_parameters(const struct model *m)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < m->n; i++)
        bytes += m->op[i].parameter_bytes;
    return bytes / m->element_bytes;
}

static bool model_same_op(const struct model_op *a, const struct model_op *b)
{
    const double x[] = {a->forward_flop, a->backward_flop, a->forward_bytes, a->backward_bytes},
                 y[] = {b->forward_flop, b->backward_flop, b->forward_bytes, b->backward_bytes};
    bool same = array_same_numbers(x, y, sizeof x / sizeof *x) && !strcmp(a->name, b->name) &&
                !strcmp(a->kind, b->kind) && a->attributes == b->attributes;
    for (size_t i = 0; same && i < a->attributes; i++)
        same = model_attribute(b, a->attribute[i].name, INT64_MIN) == a->attribute[i].value;
    return same && a->parameter_bytes == b->parameter_bytes && a->sparse == b->sparse &&
           a->shared_bytes == b->shared_bytes && a->shares == b->shares && a->tensor == b->tensor &&
           a->dtype == b->dtype && a->exchange_bytes == b->exchange_bytes &&
           a->context_bytes == b->context_bytes && a->stash_bytes == b->stash_bytes &&
           a->output_bytes == b->output_bytes;
}

bool model_same(const struct model *a, const struct model *b)
{
    bool same = a->n == b->n && a->edges == b->edges && a->dtype == b->dtype &&
                a->element_bytes == b->element_bytes && a->profiles + b->profiles == 0 &&
                array_same_numbers(&a->tokens_per_sample, &b->tokens_per_sample, 1) &&
                !memcmp(a->in_start, b->in_start, (a->n + 1) * sizeof *a->in_start) &&
                (a->edges == 0 || !memcmp(a->in, b->in, a->edges * sizeof *a->in));
    for (size_t i = 0; same && i < a->n; i++)
        same = model_same_op(&a->op[i], &b->op[i]);
    return same;
}
