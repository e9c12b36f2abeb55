/* The load of a split by the paper's cost model, and splits read from files, in the published
 * checker's format or in ours. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/data/edges.h"
#include "papers/placement/problem.h"

enum { MAX_GROUPS = 65536, DEVICE = 24 };

struct scored_split {
    uint32_t *group; /* [nodes] */
    size_t groups;
    char (*name)[DEVICE]; /* [groups] in our own format */
    bool *on_cpu;         /* [groups] */
    struct arena memory;
};

static const uint32_t nowhere = UINT32_MAX;

/* CSR of edges by source, sums of costs over the groups a node's output reaches. */
enum status placement_loads(const struct placement_problem *p, const uint32_t *group, size_t groups,
                            const bool *on_cpu, double *load)
{
    struct arena scratch = {0};
    enum status st = STATUS_OK;
    size_t *start;
    uint32_t *reader;
    uint32_t *seen; /* node + 1 that a group was charged for */
    TRY(ARENA_NEW(&scratch, start, p->n + 2));
    TRY(ARENA_NEW(&scratch, reader, p->edges + 1));
    TRY(ARENA_NEW(&scratch, seen, groups + 1));
    edges_list(p->n, p->edge, p->edges, EDGES_BY_TAIL, start, reader);
    memset(load, 0, groups * sizeof *load);
    for (uint32_t u = 0; u < p->n; u++) {
        uint32_t own = group[u];
        bool leaves = false;
        load[own] += on_cpu[own] ? p->latency[u].cpu_ms : p->latency[u].accelerator_ms;
        for (size_t i = start[u]; i < start[u + 1]; i++) {
            uint32_t there = group[reader[i]];
            if (there == own || seen[there] == u + 1)
                continue;
            leaves = true;
            seen[there] = u + 1;
            load[there] += on_cpu[there] ? 0 : p->cost[u];
        }
        load[own] += leaves && !on_cpu[own] ? p->cost[u] : 0;
    }
out:
    arena_free(&scratch);
    return st;
}

/* A device by its name, or a new one; the checker's format has no names. */
static enum status placement_score_add_group(struct scored_split *s, bool on_cpu, const char *name,
                                             uint32_t *out)
{
    for (size_t g = 0; name && g < s->groups; g++)
        if (!strcmp(s->name[g], name)) {
            *out = (uint32_t)g;
            return STATUS_OK;
        }
    PASS(ARENA_ROOM(&s->memory, s->on_cpu, s->groups));
    PASS(ARENA_ROOM(&s->memory, s->name, s->groups));
    s->on_cpu[s->groups] = on_cpu;
    snprintf(s->name[s->groups], DEVICE, "%s", name ? name : "");
    *out = (uint32_t)s->groups++;
    return STATUS_OK;
}

/* A node is named by its id, as a number or as text. */
static enum status placement_score_get_node(const struct json_at *at,
                                            const struct placement_problem *p, size_t *out)
{
    enum status st;
    int64_t id;
    const char *text;
    st = json_get_integer(at, INT64_MIN, INT64_MAX, &id);
    if (st != STATUS_OK) {
        char *end;
        TRY(json_get_string(at, &text));
        id = strtoll(text, &end, 10);
        if (end == text || *end)
            return json_error(at, "'%.60s' is not the id of a node", text);
    }
    *out = nodes_find(&p->file, id);
    if (*out == p->n)
        st = json_error(at, "the model has no node %lld", (long long)id);
out:
    return st;
}

/* The published files name nodes more than once on one device: allowed. */
static enum status placement_score_put_nodes(const struct json_at *list,
                                             const struct placement_problem *p,
                                             struct scored_split *s, uint32_t group)
{
    size_t n, v = 0;
    PASS(json_get_array(list, 10 * p->n + 10, &n));
    for (size_t i = 0; i < n; i++) {
        struct json_at at = json_item(list, i);
        PASS(placement_score_get_node(&at, p, &v));
        if (s->group[v] != nowhere && s->group[v] != group)
            return json_error(&at, "node %lld is on two devices", (long long)p->id[v]);
        s->group[v] = group;
    }
    return STATUS_OK;
}

/* The checker's format: all CPUs are one group, every accelerator is one. */
static enum status read_machines(const struct json_at *root, const char *key,
                                 const struct placement_problem *p, struct scored_split *s)
{
    size_t n;
    struct json_at list, nodes;
    bool on_cpu = key[0] == 'c';
    uint32_t group = 0;
    PASS(json_field(root, key, &list));
    PASS(json_get_array(&list, MAX_GROUPS, &n));
    for (size_t i = 0; i < n; i++) {
        struct json_at machine = json_item(&list, i);
        if (!on_cpu || i == 0)
            PASS(placement_score_add_group(s, on_cpu, NULL, &group));
        PASS(json_field(&machine, "nodes", &nodes));
        PASS(placement_score_put_nodes(&nodes, p, s, group));
    }
    return STATUS_OK;
}

/* Parts without a device are on an accelerator of their own. */
static enum status get_device(const struct json_at *part, size_t i, char name[DEVICE], bool *on_cpu)
{
    struct json_at at;
    const char *text;
    snprintf(name, DEVICE, "fpga%u", (unsigned)(i + 1));
    *on_cpu = false;
    PASS(json_optional(part, "device", &at));
    if (!at.value)
        return STATUS_OK;
    PASS(json_get_string(&at, &text));
    *on_cpu = !strncmp(text, "cpu", 3);
    const char *digits = text + (*on_cpu ? 3 : 4);
    if ((!*on_cpu && (strncmp(text, "fpga", 4) != 0 || !*digits)) ||
        strspn(digits, "0123456789") != strlen(digits) || strlen(text) > 20)
        return json_error(&at, "got device '%.60s', expected cpu, cpu1, ... or fpga1, ...", text);
    snprintf(name, DEVICE, "%s", text);
    return STATUS_OK;
}

static enum status placement_score_read_parts(const struct json_at *parts,
                                              const struct placement_problem *p,
                                              struct scored_split *s)
{
    size_t n;
    PASS(json_get_array(parts, MAX_GROUPS, &n));
    for (size_t i = 0; i < n; i++) {
        struct json_at part = json_item(parts, i), ops;
        char name[DEVICE];
        bool on_cpu;
        uint32_t group;
        PASS(get_device(&part, i, name, &on_cpu));
        PASS(json_field(&part, "ops", &ops));
        PASS(placement_score_add_group(s, on_cpu, name, &group));
        PASS(placement_score_put_nodes(&ops, p, s, group));
    }
    return STATUS_OK;
}

/* Nodes that are not named follow their colour; colours may not be torn apart. */
static enum status placement_score_complete(const struct placement_problem *p,
                                            struct scored_split *s)
{
    uint32_t *of, *which;
    PASS(ARENA_NEW(&s->memory, of, p->colours));
    PASS(ARENA_NEW(&s->memory, which, p->colours));
    memset(of, 0xff, p->colours * sizeof *of);
    for (uint32_t v = 0; v < p->n; v++) {
        uint32_t colour = p->latency[v].colour;
        if (s->group[v] == nowhere)
            continue;
        if (of[colour] != nowhere && of[colour] != s->group[v])
            return error_set(
                STATUS_INFEASIBLE,
                "nodes %lld and %lld have the same colorClass, but are on different devices",
                (long long)p->id[which[colour]], (long long)p->id[v]);
        of[colour] = s->group[v];
        which[colour] = v;
    }
    for (size_t v = 0; v < p->n; v++) {
        s->group[v] = of[p->latency[v].colour];
        if (s->group[v] == nowhere)
            return error_set(STATUS_INFEASIBLE, "node %lld is on no device", (long long)p->id[v]);
    }
    return STATUS_OK;
}

/* One CPU is allowed even where the file has none, as in the checker. */
static enum status rate(const struct placement_problem *p, struct scored_split *s, double *value)
{
    size_t used[2] = {0, 0};
    double *load, largest = 0;
    bool *filled;
    PASS(ARENA_NEW(&s->memory, load, s->groups));
    PASS(ARENA_NEW(&s->memory, filled, s->groups));
    PASS(placement_loads(p, s->group, s->groups, s->on_cpu, load));
    for (size_t v = 0; v < p->n; v++)
        filled[s->group[v]] = true;
    for (size_t g = 0; g < s->groups; g++) {
        used[s->on_cpu[g]] += filled[g];
        largest = load[g] > largest ? load[g] : largest;
    }
    if (used[0] > p->accelerators || used[1] > (p->cpus ? p->cpus : 1))
        return error_set(
            STATUS_INFEASIBLE,
            "the split uses %zu accelerators and %zu CPUs, but the file has only %zu and %zu",
            used[0], used[1], p->accelerators, p->cpus);
    *value = largest;
    return STATUS_OK;
}

/* The file says by its fields which format it has. */
enum status placement_score(const struct objective_request *r, const char *split, double *value)
{
    enum status st;
    struct placement_problem p = {0};
    struct json_document d = {0};
    struct scored_split s = {0};
    struct json_at parts;
    TRY(placement_read(r, &p));
    TRY(json_read(split, NULL, 0, &d));
    TRY(ARENA_NEW(&s.memory, s.group, p.n));
    memset(s.group, 0xff, p.n * sizeof *s.group);
    struct json_at root = json_root(&d);
    TRY(json_optional(&root, "parts", &parts));
    if (parts.value) {
        TRY(placement_score_read_parts(&parts, &p, &s));
    } else {
        TRY(read_machines(&root, "cpus", &p, &s));
        TRY(read_machines(&root, "fpgas", &p, &s));
    }
    TRY(placement_score_complete(&p, &s));
    TRY(rate(&p, &s, value));
out:
    arena_free(&s.memory);
    json_document_free(&d);
    placement_free(&p);
    return st;
}
