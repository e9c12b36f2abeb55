/* Piper's cost model of a whole plan, and plans read from split files to be scored by it. The
 * search never uses this sum over the plan, so that each checks the other. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/json.h"
#include "papers/piper/piper.h"

static const double ROUNDING = 1e-12; /* of sums in another order than the search's */

void piper_plan_free(struct piper_plan *p)
{
    arena_free(&p->memory);
    *p = (struct piper_plan){0};
}

/* ---- the cost model */

struct piper_load {
    double time_s, edge_bytes, parameter_bytes, memory_bytes;
};

/* Replicas take turns with whole numbers of microbatches; together stages may not take more
 * than there are. */
static enum status piper_plan_check_counts(const struct piper_input *in, const struct piper_plan *p)
{
    size_t devices = 0, replicas = 0;
    for (size_t s = 0; s < p->stages; s++) {
        if (in->batch % p->stage[s].replicas)
            return error_set(STATUS_INFEASIBLE,
                             "stage %zu: %u replicas do not divide the %zu microbatches evenly", s,
                             p->stage[s].replicas, in->batch);
        replicas += p->stage[s].replicas;
        devices += (size_t)p->stage[s].replicas * in->degree[p->stage[s].degree];
    }
    if (devices > in->devices)
        return error_set(STATUS_INFEASIBLE, "the plan uses %zu devices, but only %zu are available",
                         devices, in->devices);
    if (replicas > in->batch)
        return error_set(
            STATUS_INFEASIBLE,
            "got %zu replicas, but only %zu microbatches; each replica needs at least one",
            replicas, in->batch);
    return STATUS_OK;
}

/* Stages stand in the order of the edges. */
static enum status check_edges(const struct piper_input *in, const struct piper_plan *p)
{
    for (size_t e = 0; e < in->edges; e++) {
        uint32_t from = p->stage_of[in->edge[e].from], to = p->stage_of[in->edge[e].to];
        if (from > to)
            return error_set(
                STATUS_INFEASIBLE, "edge %lld -> %lld leads from stage %u to the earlier stage %u",
                (long long)in->id[in->edge[e].from], (long long)in->id[in->edge[e].to], from, to);
    }
    return STATUS_OK;
}

/* Add node v, whose stage stashes activations of `in_flight` microbatches. */
static void piper_plan_add_node(const struct piper_input *in, const struct piper_plan *p, size_t v,
                                double in_flight, struct piper_load *l)
{
    const struct piper_config *c = &in->config[p->config[v]];
    l->time_s += c->time_s;
    l->parameter_bytes += c->parameter_bytes;
    l->memory_bytes += c->stash_bytes * in_flight + c->fixed_bytes;
    for (size_t i = in->in_start[v]; i < in->in_start[v + 1]; i++) {
        const struct piper_edge *e = &in->edge[in->in[i]];
        if (p->stage_of[e->from] != p->stage_of[v])
            l->edge_bytes += 2 * (e->bytes + c->forward_bytes[i - in->in_start[v]]);
    }
    for (size_t i = in->out_start[v]; i < in->out_start[v + 1]; i++) {
        const struct piper_edge *e = &in->edge[in->out[i]];
        if (p->stage_of[e->to] != p->stage_of[v])
            l->edge_bytes += 2 * (e->bytes + c->backward_bytes[i - in->out_start[v]]);
    }
}

/* Replicas of this stage and of those behind, over its own replicas, rounded up: so many
 * microbatches are in flight in each. */
enum status piper_evaluate(const struct piper_input *in, const struct piper_plan *p, double *value)
{
    struct arena scratch = {0};
    enum status st;
    double worst = 0;
    size_t behind = 0; /* replicas of this stage and those after it */
    struct piper_load *load;
    double *in_flight;
    TRY(ARENA_NEW(&scratch, load, p->stages + 1));
    TRY(ARENA_NEW(&scratch, in_flight, p->stages + 1));
    TRY(piper_plan_check_counts(in, p));
    TRY(check_edges(in, p));
    for (size_t s = p->stages; s-- > 0;) {
        size_t d = p->stage[s].replicas;
        behind += d;
        in_flight[s] = (double)((behind + d - 1) / d);
    }
    for (size_t v = 0; v < in->nodes; v++)
        piper_plan_add_node(in, p, v, in_flight[p->stage_of[v]], &load[p->stage_of[v]]);
    for (size_t s = 0; s < p->stages; s++) {
        double d = p->stage[s].replicas;
        double sync = 4 * (d - 1) * load[s].parameter_bytes / (d * (double)in->batch);
        worst =
            fmax(worst, load[s].time_s / d + (load[s].edge_bytes / d + sync) / in->bandwidth_Bps);
        if (load[s].memory_bytes > in->memory_bytes * (1 + ROUNDING))
            FAIL(STATUS_INFEASIBLE, "stage %zu needs %.0f bytes of memory, but the limit is %.0f",
                 s, load[s].memory_bytes, in->memory_bytes);
    }
    *value = worst;
out:
    arena_free(&scratch);
    return st;
}

/* ---- a split to be scored */

/* The published files tell by the name of a configuration. */
static bool recomputes(const struct piper_config *c)
{
    return strstr(c->name, "recomp") != NULL;
}

/* Which configuration of node v at degree t the part asks for: `at` is its name, or whether to
 * recompute; absent: the first. */
static enum status piper_plan_choose(const struct json_at *at, const struct piper_input *in,
                                     size_t v, size_t t, size_t *out)
{
    const char *name = NULL;
    bool recompute = false;
    size_t first = in->config_start[v * in->degrees + t], c = first;
    size_t end = in->config_start[v * in->degrees + t + 1];
    if (first == end)
        return json_error(at, "node %lld has no configuration for tensor-parallel degree %u",
                          (long long)in->id[v], in->degree[t]);
    *out = first;
    if (!at->value)
        return STATUS_OK;
    if (json_get_string(at, &name) != STATUS_OK && json_get_bool(at, &recompute) != STATUS_OK)
        return json_error(at, "expected true, false, or the name of a configuration");
    while (c < end &&
           (name ? strcmp(in->config[c].name, name) != 0 : recomputes(&in->config[c]) != recompute))
        c++;
    if (c == end)
        return json_error(at, "node %lld has no configuration of this name", (long long)in->id[v]);
    *out = c;
    return STATUS_OK;
}

/* A node's id as a number or as text, as results are printed. */
static enum status piper_plan_read_op(const struct json_at *at, const struct piper_input *in,
                                      size_t *v)
{
    const char *text;
    int64_t id;
    if (json_get_integer(at, INT64_MIN, INT64_MAX, &id) != STATUS_OK) {
        char *end;
        if (json_get_string(at, &text) != STATUS_OK)
            return json_error(at, "expected the id of a node");
        id = strtoll(text, &end, 10);
        if (!*text || *end)
            return json_error(at, "expected the id of a node");
    }
    *v = nodes_find(&in->file, id);
    return *v < in->nodes ? STATUS_OK : json_error(at, "no node has the id %lld", (long long)id);
}

/* Configurations are named or told by `recompute`, one for all nodes of the part or one each. */
static enum status piper_plan_read_part(const struct json_at *part, const struct piper_input *in,
                                        uint32_t s, struct piper_plan *p)
{
    struct json_at ops, choice;
    int64_t replicas = 1, degree = 1;
    size_t n, choices, t = 0;
    PASS(json_may_integer(part, "replicas", 1, PIPER_MAX_DEVICES, &replicas));
    PASS(json_may_integer(part, "tensor_parallel", 1, PIPER_MAX_DEVICES, &degree));
    while (t < in->degrees && in->degree[t] != degree)
        t++;
    if (t == in->degrees)
        return json_error(part, "no node has configurations for tensor-parallel degree %lld",
                          (long long)degree);
    p->stage[s] = (struct piper_stage){(uint32_t)replicas, (uint32_t)t};
    PASS(json_field(part, "ops", &ops));
    PASS(json_get_array(&ops, in->nodes, &n));
    PASS(json_optional(part, "configurations", &choice));
    if (!choice.value)
        PASS(json_optional(part, "recompute", &choice));
    bool each = choice.value && json_get_array(&choice, n, &choices) == STATUS_OK;
    for (size_t i = 0; i < n; i++) {
        struct json_at op = json_item(&ops, i), one = choice;
        size_t v = 0;
        if (each && choices == n)
            one = json_item(&choice, i);
        PASS(piper_plan_read_op(&op, in, &v));
        if (p->stage_of[v] != UINT32_MAX)
            return json_error(&op, "node %lld is listed twice", (long long)in->id[v]);
        p->stage_of[v] = s;
        PASS(piper_plan_choose(&one, in, v, t, &p->config[v]));
    }
    return STATUS_OK;
}

/* All nodes have to be in parts; the order of the parts is that of the stages. */
static enum status read_split(const char *path, const struct piper_input *in, struct piper_plan *p)
{
    enum status st;
    struct json_document d = {0};
    struct json_at root, parts;
    TRY(json_read(path, NULL, 0, &d));
    root = json_root(&d);
    TRY(json_field(&root, "parts", &parts));
    TRY(json_get_array(&parts, in->nodes, &p->stages));
    TRY(ARENA_NEW(&p->memory, p->stage, p->stages + 1));
    TRY(ARENA_NEW(&p->memory, p->stage_of, in->nodes));
    TRY(ARENA_NEW(&p->memory, p->config, in->nodes));
    for (size_t v = 0; v < in->nodes; v++)
        p->stage_of[v] = UINT32_MAX;
    for (size_t s = 0; s < p->stages; s++) {
        struct json_at part = json_item(&parts, s);
        TRY(piper_plan_read_part(&part, in, (uint32_t)s, p));
    }
    for (size_t v = 0; v < in->nodes; v++)
        if (p->stage_of[v] == UINT32_MAX) {
            st = json_error(&parts, "node %lld is in no part of the split", (long long)in->id[v]);
            goto out;
        }
out:
    json_document_free(&d);
    return st;
}

enum status piper_score(const struct objective_request *r, const char *split, double *value)
{
    enum status st;
    struct piper_input in = {0};
    struct piper_plan p = {0};
    TRY(piper_read(r, &in));
    TRY(read_split(split, &in, &p));
    TRY(piper_evaluate(&in, &p, value));
out:
    piper_input_free(&in);
    piper_plan_free(&p);
    return st;
}
