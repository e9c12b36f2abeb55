/* Machines as JSON, as the programs of tools/ write them:
 *
 *     {"format": "foreline-machine", "version": 1, "nodes": 1,
 *      "parts": [[kind, name, node, model, domain, up, up_Bps, Bps], ...],
 *      "links": [["net" or "nvlink", a, b, count, Bps, latency_s], ...],
 *      "assumed": [text, ...], "warnings": [text, ...], "inside": {the same of a node}}
 *
 * Rows may end early; null is what the file does not say. Nothing is believed: parts of nodes that
 * are not there, circles of PCIe and NVLink between what has none are refused. */
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "topologies/machine/program.h"

enum { COLUMNS_OF_PART = 8, COLUMNS_OF_LINK = 6 };
static const double most_Bps = 1e16, most_latency = 1e6;

static const char *const kinds[] = {
    [MACHINE_GPU] = "gpu",  [MACHINE_CPU] = "cpu",       [MACHINE_BRIDGE] = "bridge",
    [MACHINE_NIC] = "nic",  [MACHINE_SWITCH] = "switch", [MACHINE_NVSWITCH] = "nvswitch",
    [MACHINE_NODE] = "node"};
enum { KINDS = sizeof kinds / sizeof *kinds };

static bool machine_json_recognises(const struct machine_source *s)
{
    return s->text[strspn(s->text, " \t\r\n")] == '{' && strstr(s->text, "\"foreline-machine\"");
}

/* A column that may be null or not there: value NULL. */
static struct json_at column(const struct json_at *row, size_t n, size_t k)
{
    struct json_at at = json_item(row, k);
    if (k >= n || json_kind(&at) == JSON_IS_NULL)
        at.value = NULL;
    return at;
}

static enum status get_index(const struct json_at *at, size_t n, uint32_t *out)
{
    int64_t value = 0;
    *out = MACHINE_NONE;
    if (!at->value)
        return STATUS_OK;
    PASS(json_get_integer(at, 0, (int64_t)n - 1, &value));
    *out = (uint32_t)value;
    return STATUS_OK;
}

static enum status get_text(struct machine *m, const struct json_at *at, const char **out)
{
    const char *text;
    *out = NULL;
    if (!at->value)
        return STATUS_OK;
    PASS(json_get_string(at, &text));
    *out = arena_text(&m->arena, text);
    return *out ? STATUS_OK : error_set(STATUS_NOMEM, "out of memory");
}

static enum status get_real(const struct json_at *at, double most, double *out)
{
    return at->value ? json_get_real(at, 0, most, out) : STATUS_OK;
}

static enum status machine_json_read_part(const struct json_at *row, struct machine *m,
                                          size_t parts)
{
    struct json_at at[COLUMNS_OF_PART];
    const char *kind, *name;
    uint32_t node, up, index;
    size_t n, k = 0;
    PASS(json_get_array(row, COLUMNS_OF_PART, &n));
    for (size_t i = 0; i < COLUMNS_OF_PART; i++)
        at[i] = column(row, n, i);
    PASS(json_get_string(&at[0], &kind));
    PASS(json_get_string(&at[1], &name));
    while (k < KINDS && strcmp(kind, kinds[k]) != 0)
        k++;
    if (k == KINDS)
        return json_error(&at[0], "unknown kind of part '%.40s'", kind);
    PASS(get_index(&at[2], m->nodes, &node));
    PASS(get_index(&at[5], parts, &up));
    if ((node == MACHINE_NONE) != (k == MACHINE_SWITCH || k == MACHINE_NODE))
        return json_error(
            row, "a %s %s", kind,
            node == MACHINE_NONE
                ? "is outside of all nodes, expected the index of the node that contains it"
                : "is inside a node, expected one outside of all nodes");
    PASS(machine_add_part(m, (enum machine_kind)k, node, up, name, &index));
    struct machine_part *p = &m->part[index];
    PASS(get_text(m, &at[3], &p->model));
    PASS(get_text(m, &at[4], &p->domain));
    PASS(get_real(&at[6], most_Bps, &p->up_Bps));
    return get_real(&at[7], most_Bps, &p->Bps);
}

/* What is above a part is inside of the same node, and nothing is above itself: each part is gone
 * through once, `seen` being the part from which the walk began that came by. */
static enum status check_forest(const struct json_at *rows, const struct machine *m)
{
    enum status st = STATUS_OK;
    uint32_t *seen = NULL;
    TRY(ARRAY_NEW(seen, m->parts));
    for (uint32_t i = 0; i < m->parts; i++) {
        const struct machine_part *p = &m->part[i],
                                  *up = &m->part[p->up == MACHINE_NONE ? i : p->up];
        struct json_at row = json_item(rows, i);
        if (up != p &&
            (up->node != p->node || up->node == MACHINE_NONE || up->kind == MACHINE_NVSWITCH))
            TRY(json_error(
                &row,
                "the part above is a %s, expected a part of the same node that is not an NVSwitch",
                kinds[up->kind]));
        uint32_t at = i;
        for (; at != MACHINE_NONE && seen[at] == 0; at = m->part[at].up)
            seen[at] = i + 1;
        if (p->up == i || (at != MACHINE_NONE && seen[at] == i + 1))
            TRY(json_error(&row, "this part is below itself in the tree of parts"));
    }
out:
    free(seen);
    return st;
}

static enum status machine_json_read_link(const struct json_at *row, struct machine *m)
{
    struct json_at at[COLUMNS_OF_LINK];
    struct machine_link l = {0};
    const char *kind;
    int64_t count = 1;
    size_t n;
    PASS(json_get_array(row, COLUMNS_OF_LINK, &n));
    for (size_t i = 0; i < COLUMNS_OF_LINK; i++)
        at[i] = column(row, n, i);
    PASS(json_get_string(&at[0], &kind));
    PASS(get_index(&at[1], m->parts, &l.a));
    PASS(get_index(&at[2], m->parts, &l.b));
    if (at[3].value)
        PASS(json_get_integer(&at[3], 1, 1 << 16, &count));
    PASS(get_real(&at[4], most_Bps, &l.Bps));
    PASS(get_real(&at[5], most_latency, &l.latency_s));
    l.net = !strcmp(kind, "net");
    l.count = (uint32_t)count;
    if (!l.net && strcmp(kind, "nvlink") != 0)
        return json_error(&at[0], "got '%.40s', expected net or nvlink", kind);
    if (l.a == MACHINE_NONE || l.b == MACHINE_NONE)
        return json_error(row, "link does not name its two ends");
    const struct machine_part *a = &m->part[l.a], *b = &m->part[l.b];
    if (!l.net &&
        (a->kind != MACHINE_GPU || (b->kind != MACHINE_GPU && b->kind != MACHINE_NVSWITCH)))
        return json_error(row, "NVLink from a %s to a %s, expected from a gpu to a gpu or nvswitch",
                          kinds[a->kind], kinds[b->kind]);
    return machine_join(m, &l);
}

static enum status read_notes(const struct json_at *root, const char *key, struct machine *m,
                              enum status (*put)(struct machine *m, const char *format, ...))
{
    struct json_at list;
    const char *text;
    size_t n;
    PASS(json_optional(root, key, &list));
    if (!list.value)
        return STATUS_OK;
    PASS(json_get_array(&list, MACHINE_PARTS, &n));
    for (size_t i = 0; i < n; i++) {
        struct json_at at = json_item(&list, i);
        PASS(json_get_string(&at, &text));
        PASS(put(m, "%s", text));
    }
    return STATUS_OK;
}

static enum status machine_json_read_one(const struct json_at *root, struct machine *m)
{
    struct json_at rows, row;
    int64_t nodes;
    size_t n;
    PASS(json_need_integer(root, "nodes", 0, MACHINE_PARTS, &nodes));
    m->nodes = (size_t)nodes;
    PASS(json_field(root, "parts", &rows));
    PASS(json_get_array(&rows, MACHINE_PARTS, &n));
    for (size_t i = 0; i < n; i++) {
        row = json_item(&rows, i);
        PASS(machine_json_read_part(&row, m, n));
    }
    PASS(check_forest(&rows, m));
    PASS(json_field(root, "links", &rows));
    PASS(json_get_array(&rows, MACHINE_LINKS, &n));
    for (size_t i = 0; i < n; i++) {
        row = json_item(&rows, i);
        PASS(machine_json_read_link(&row, m));
    }
    PASS(read_notes(root, "assumed", m, machine_assume));
    return read_notes(root, "warnings", m, machine_warn);
}

enum status machine_json_read(const struct json_at *root, struct machine *m)
{
    struct json_at inside;
    PASS(machine_json_read_one(root, m));
    PASS(json_optional(root, "inside", &inside));
    if (!inside.value)
        return STATUS_OK;
    PASS(ARRAY_NEW(m->inside, 1));
    m->inside->format = m->format;
    m->inside->path = m->path;
    return machine_json_read_one(&inside, m->inside);
}

static enum status machine_json_parse(const struct machine_source *s, struct machine *m)
{
    enum status st;
    struct json_document d = {0};
    TRY(json_parse(s->path, s->text, s->length, machine_json_format, MACHINE_JSON_VERSION, &d));
    struct json_at root = json_root(&d);
    TRY(machine_json_read(&root, m));
out:
    json_document_free(&d);
    return st;
}

const char machine_json_format[] = "foreline-machine";

const struct machine_format machine_json = {
    .name = "foreline-machine",
    .summary = "machines as JSON, as programs of tools/ write them",
    .recognises = machine_json_recognises,
    .parse = machine_json_parse,
};
