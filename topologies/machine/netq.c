/* NetQ's topologyGraph JSON: devices in tiers, switches and what LLDP found below them, and bundles
 * of links. */
#include <string.h>

#include "core/base/json.h"
#include "topologies/machine/fabric.h"

enum { ITEMS = 1 << 16 };

static bool recognises(const struct machine_source *s)
{
    return s->text[strspn(s->text, " \t\r\n")] == '[' && strstr(s->text, "\"compounded_links\"");
}

static enum status read_tier(const struct json_at *tier, struct fabric *f)
{
    struct json_at list;
    size_t n;
    PASS(json_field(tier, "compounded_nodes", &list));
    PASS(json_get_array(&list, ITEMS, &n));
    for (size_t i = 0; i < n; i++) {
        struct json_at device = json_item(&list, i), at;
        const char *id, *type;
        uint32_t part;
        PASS(json_field(&device, "id", &at));
        PASS(json_get_string(&at, &id));
        PASS(json_field(&device, "device_type", &at));
        PASS(json_get_string(&at, &type));
        PASS(machine_add_part(f->m, !strcmp(type, "switch") ? MACHINE_SWITCH : MACHINE_NODE,
                              MACHINE_NONE, MACHINE_NONE, id, &part));
        PASS(machine_name_put(f->m, NAMES_NODES, id, part));
    }
    return STATUS_OK;
}

static enum status read_link(const struct json_at *link, struct fabric *f)
{
    const char *end[2];
    static const char *const keys[] = {"src", "target"};
    uint32_t part[2];
    int64_t size = 1;
    for (int k = 0; k < 2; k++) {
        struct json_at at;
        PASS(json_field(link, keys[k], &at));
        PASS(json_get_string(&at, &end[k]));
        part[k] = machine_name_find(f->m, NAMES_NODES, end[k]);
        if (part[k] == MACHINE_NONE)
            return json_error(&at, "no device is called '%.60s'", end[k]);
    }
    PASS(json_may_integer(link, "size", 1, 1 << 16, &size));
    bool turn = f->m->part[part[0]].kind == MACHINE_NODE;
    if (turn && f->m->part[part[1]].kind == MACHINE_NODE)
        return machine_warn(f->m, "cables between nodes are left out");
    return machine_join(
        f->m, &(struct machine_link){
                  .net = true, .a = part[turn], .b = part[!turn], .count = (uint32_t)size});
}

static enum status each(const struct json_at *object, const char *key, struct fabric *f,
                        enum status (*read)(const struct json_at *, struct fabric *))
{
    struct json_at list;
    size_t n;
    PASS(json_field(object, key, &list));
    PASS(json_get_array(&list, ITEMS, &n));
    for (size_t i = 0; i < n; i++) {
        struct json_at item = json_item(&list, i);
        PASS(read(&item, f));
    }
    return STATUS_OK;
}

static enum status parse(const struct machine_source *s, struct machine *m)
{
    enum status st;
    struct json_document d = {0};
    struct fabric f = {.m = m};
    size_t n;
    TRY(json_parse(s->path, s->text, s->length, NULL, 0, &d));
    struct json_at root = json_root(&d);
    TRY(json_get_array(&root, 1, &n));
    if (n == 0)
        FAIL(STATUS_PARSE, "%s:1: an empty list", s->path);
    struct json_at graph = json_item(&root, 0);
    TRY(each(&graph, "nodes", &f, read_tier));
    TRY(each(&graph, "links", &f, read_link));
    if (machine_count(m, MACHINE_NODE) == 0)
        FAIL(STATUS_PARSE, "%s: no nodes below the switches", s->path);
out:
    json_document_free(&d);
    return st;
}

const struct machine_format machine_netq = {
    .name = "NetQ topology graph",
    .summary = "topologyGraph JSON of NVIDIA NetQ",
    .recognises = recognises,
    .parse = parse,
};
