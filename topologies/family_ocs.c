/* Pods of nodes, whose switches optical circuit switches join: a circuit is a cable from one pod to
 * another, and messages between pods without one pass the pods between. Which pods have circuits,
 * the matching, stays as it is: a list, or a word by which every pod has the same circuits, to pods
 * so many places further on and back. Sources: Jouppi et al., "TPU v4: an
 * optically reconfigurable supercomputer", ISCA 2023; Wang et al., "TopoOpt", NSDI 2023. */
#include "topologies/ocs.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "topologies/generate.h"

enum { PODS, NODES, GPUS, NICS, TYPE, CIRCUITS, MATCHING, NIC, NVLINK, PATHS, FABRIC, PARAMETERS };
enum matching { EVEN, RING, TORUS, GIVEN };
static const char *const matchings[] = {"even", "ring", "torus"};
enum { OCS_PODS = 1024 };

static const struct family_parameter parameter[PARAMETERS] = {
    [PODS] = {"pods", "pods", FAMILY_COUNT, "4", 1, OCS_PODS},
    [NODES] = {"nodes", "nodes of a pod", FAMILY_COUNT, "4", 1, 65536},
    [GPUS] = {"gpus", "GPUs of a node", FAMILY_COUNT, "8", 1, 1024},
    [NICS] = {"nics", "network ports of a node", FAMILY_COUNT, "8", 1, 1024},
    [TYPE] = {"type", "GPU type", FAMILY_GPU, "H100", 0, 0},
    [CIRCUITS] = {"circuits",
                  "ports of a pod to circuits (default: one for each port of its nodes)",
                  FAMILY_COUNT, NULL, 1, PATHS_LANES_MAX},
    [MATCHING] = {"matching",
                  "even: to all pods; ring, torus: to neighbours; or 0-1x8+1-2x4: so many",
                  FAMILY_TEXT, "even", 0, 0},
    [NIC] = {"nic", "one network port, and one circuit", FAMILY_RATE, NULL, 0, 0},
    [NVLINK] = {"nvlink", "of a GPU into the NVSwitch", FAMILY_RATE, NULL, 0, 0},
    [PATHS] = FAMILY_POLICY,
    [FABRIC] = FAMILY_FABRICS,
};

struct ocs {
    struct cluster_node node;
    size_t pods, nodes, circuits, rows; /* rows of a torus, which divide the pods */
    enum matching matching;
    const char *given; /* "0-1x8+1-2x4" */
    enum paths_policy policy;
};

static struct ocs ocs(const struct family_value *v)
{
    struct ocs o = {.node = cluster_node(v[GPUS].number, v[NICS].number, 0, &v[TYPE],
                                         v[NVLINK].number, v[NIC].number),
                    .pods = (size_t)v[PODS].number,
                    .nodes = (size_t)v[NODES].number,
                    .circuits = (size_t)v[CIRCUITS].number,
                    .rows = 1,
                    .matching = GIVEN,
                    .given = v[MATCHING].text,
                    .policy = (enum paths_policy)v[PATHS].number};
    for (size_t r = 2; r * r <= o.pods; r++)
        o.rows = o.pods % r == 0 ? r : o.rows;
    for (size_t k = 0; k < GIVEN; k++)
        if (!strcmp(matchings[k], o.given))
            o.matching = (enum matching)k;
    if (o.circuits == 0)
        o.circuits = o.nodes * o.node.nics;
    return o;
}

/* Where pod a has its circuits of kind k: the pod, or a itself when there are no such circuits; and
 * what the kind takes of a pod's ports: two, or one where forth and back are the same. Kinds are
 * steps of 1, 2, ... pods (even), along a row and along a column (torus). */
static size_t kind_end(const struct ocs *o, size_t a, size_t k, size_t *ports)
{
    size_t row = o->matching == TORUS && o->rows > 1 ? o->pods / o->rows : o->pods;
    bool column = o->matching == TORUS && k == 1;
    size_t length = column ? o->rows : row, step = o->matching == EVEN ? k + 1 : 1;
    size_t kinds = o->matching == EVEN ? o->pods / 2 : o->matching == TORUS && o->rows > 1 ? 2 : 1;
    if (k >= kinds || length < 2)
        return a;
    *ports = 2 * step == length ? 1 : 2;
    return column ? (a + row) % o->pods : a / row * row + (a % row + step) % row;
}

/* How many circuits of kind k each pod has to either side: ports are dealt out to the kinds in
 * turn, as long as there are enough for the next. */
static size_t kind_circuits(const struct ocs *o, size_t k)
{
    size_t all = 0, before = 0, ports, left;
    for (size_t i = 0; kind_end(o, 0, i, &ports) != 0; all += ports, i++)
        before += i < k ? ports : 0;
    if (all == 0 || kind_end(o, 0, k, &ports) == 0)
        return 0;
    left = o->circuits % all;
    return o->circuits / all + (left >= before + ports);
}

static size_t ocs_devices(const struct family_value *v)
{
    double n = v[PODS].number * v[NODES].number * v[GPUS].number;
    return n < 1e15 ? (size_t)n : SIZE_MAX;
}

/* A number of up to four digits, and what is behind it. */
static bool matching_read_number(const char **at, const char *behind, size_t *out)
{
    char *end;
    size_t digits = strspn(*at, "0123456789");
    *out = (size_t)strtoul(*at, &end, 10);
    if (digits == 0 || digits > 4 || !strchr(behind, *end) || (*end && !end[1]))
        return false;
    *at = *end ? end + 1 : end;
    return true;
}

/* The next circuits of a list, "0-1x8+...". */
static bool matching_read(const char **at, size_t *a, size_t *b, size_t *n)
{
    return matching_read_number(at, "-", a) && matching_read_number(at, "x", b) &&
           matching_read_number(at, "+", n);
}

/* Have two pods circuits already, before this place of the list? */
static bool matching_has(const struct ocs *o, const char *end, size_t a, size_t b)
{
    size_t x, y, n;
    for (const char *at = o->given; at < end && matching_read(&at, &x, &y, &n) && at < end;)
        if (x == a && y == b)
            return true;
    return false;
}

/* Are they of pods that there are, each two once, and do they join all? */
static enum status matching_check(const struct ocs *o)
{
    size_t used[OCS_PODS] = {0}, joined[OCS_PODS], a, b, n, parts = o->pods;
    for (size_t p = 0; p < o->pods; p++)
        joined[p] = p;
    for (const char *at = o->given; *at;) {
        if (!matching_read(&at, &a, &b, &n) || a >= b || b >= o->pods || n == 0 ||
            matching_has(o, at, a, b))
            return error_set(
                STATUS_INVALID,
                "ocs: got matching=%s, expected even, ring, torus, or circuits between pods 0 to "
                "%zu such as 0-1x8+1-2x4 (lower pod first, each pair once)",
                o->given, o->pods - 1);
        used[a] += n;
        used[b] += n;
        if (used[a] > o->circuits || used[b] > o->circuits)
            return error_set(STATUS_INVALID,
                             "ocs: matching has more than circuits=%zu circuits at pod %zu",
                             o->circuits, used[a] > o->circuits ? a : b);
        size_t from = joined[b], to = joined[a];
        parts -= from != to;
        for (size_t p = 0; p < o->pods; p++)
            joined[p] = joined[p] == from ? to : joined[p];
    }
    return parts == 1 ? STATUS_OK
                      : error_set(STATUS_INVALID, "ocs: matching=%s does not connect all %zu pods",
                                  o->given, o->pods);
}

static enum status ocs_check(const struct family_value *v)
{
    const struct ocs o = ocs(v);
    size_t least = 0, ports;
    if (o.matching == GIVEN)
        return matching_check(&o);
    for (size_t k = 0; k < (o.matching == TORUS ? 2 : 1) && kind_end(&o, 0, k, &ports) != 0; k++)
        least += ports;
    if (o.circuits < least)
        return error_set(STATUS_INVALID,
                         "ocs: circuits=%zu are too few to connect %zu pods, expected at least %zu",
                         o.circuits, o.pods, least);
    return STATUS_OK;
}

static void ocs_describe(const struct family_value *v, FILE *to)
{
    static const char *const to_whom[] = {"to all pods", "around a ring", "in a torus", "as said"};
    const struct ocs o = ocs(v);
    describe_cluster(to, &o.node, o.pods * o.nodes);
    fprintf(to, ", %zu pods with %zu circuits %s", o.pods, o.circuits, to_whom[o.matching]);
}

/* Call for each two pods that have circuits, with how many. */
static void each_match(const struct ocs *o,
                       void (*put)(const struct ocs *o, size_t a, size_t b, size_t n, void *out),
                       void *out)
{
    size_t ports, x, y, some;
    for (const char *at = o->given; o->matching == GIVEN && matching_read(&at, &x, &y, &some);)
        put(o, x, y, some, out);
    for (size_t a = 0; o->matching != GIVEN && a < o->pods; a++)
        for (size_t k = 0; kind_end(o, a, k, &ports) != a; k++) {
            size_t b = kind_end(o, a, k, &ports), n = kind_circuits(o, k);
            if (n > 0 && (ports == 2 || a < b))
                put(o, a, b, n, out);
        }
}

static void ocs_put_circuits(const struct ocs *o, size_t a, size_t b, size_t n, void *out)
{
    const struct cable c = {"ocs", (double)n * o->node.nic_Bps, switch_latency_s};
    put_bundle(out, &c, &(struct family_ways){n > 1, n, o->policy},
               named("circuits%zux%zu", a, b).id);
}

static void ocs_put_route(const struct ocs *o, size_t a, size_t b, size_t n, void *out)
{
    (void)o, (void)n;
    put_route(out, named("pod%zu", a).id, named("pod%zu", b).id, named("circuits%zux%zu", a, b).id);
}

static void ocs_write(const struct family_value *v, FILE *to)
{
    const struct ocs o = ocs(v);
    size_t nodes = o.pods * o.nodes;
    put_gpu_properties(to, o.node.gpu);
    put_paths(to, o.policy);
    for (size_t n = 0; n < nodes; n++)
        put_cluster_node(to, &o.node, n);
    for (size_t p = 0; p < o.pods; p++)
        fprintf(to, "    <router id=\"pod%zu\"/>\n", p);
    each_match(&o, ocs_put_circuits, to);
    for (size_t n = 0; n < nodes; n++)
        put_cluster_routes(to, &o.node, n, named("pod%zu", n / o.nodes).id);
    each_match(&o, ocs_put_route, to);
}

const struct topology_family family_ocs = {
    .name = "ocs",
    .summary = "pods of nodes, joined by optical circuits that stay as they are",
    .parameters = PARAMETERS,
    .parameter = parameter,
    .devices = ocs_devices,
    .check = ocs_check,
    .describe = ocs_describe,
    .write = ocs_write,
};

/* ---- other matchings of a description */

static void ocs_count_circuits(const struct ocs *o, size_t a, size_t b, size_t n, void *out)
{
    size_t *circuits = out;
    circuits[a * o->pods + b] += n;
    circuits[b * o->pods + a] += n;
}

enum status ocs_circuits(const char *spec, struct ocs_circuits *out)
{
    const struct topology_family *f;
    struct family_value value[FAMILY_PARAMETERS];
    PASS(generate_values(spec, &f, value));
    if (f != &family_ocs)
        return error_set(STATUS_INVALID, "got family '%s', expected ocs", f->name);
    const struct ocs o = ocs(value);
    out->pods = o.pods;
    out->ports = o.circuits;
    PASS(ARRAY_NEW(out->n, o.pods * o.pods));
    each_match(&o, ocs_count_circuits, out->n);
    return STATUS_OK;
}

enum status ocs_describe_circuits(const char *spec, const struct ocs_circuits *c, char **out)
{
    char text[FAMILY_TEXT_SIZE];
    size_t used = 0;
    for (size_t a = 0; a < c->pods; a++)
        for (size_t b = a + 1; b < c->pods; b++)
            if (c->n[a * c->pods + b] > 0 && used < sizeof text)
                used += (size_t)snprintf(text + used, sizeof text - used, "%s%zu-%zux%zu",
                                         used ? "+" : "", a, b, c->n[a * c->pods + b]);
    if (used >= sizeof text)
        return error_set(STATUS_UNSUPPORTED, "matching takes more than %d characters",
                         FAMILY_TEXT_SIZE - 1);
    return generate_with(spec, "matching", text, out);
}
