/* InfraGraph: devices with components and "a.0.link.b.1" connections, instances of devices and
 * connections between those. A file of one device is a machine; one of instances a network, whose
 * switches are the devices of ports that reach several others. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "core/base/text.h"
#include "topologies/machine/machine.h"
#include "topologies/yaml.h"

enum { PATH_WORDS = 12, COPIES = 1 << 16 };

struct reader {
    struct machine *m;
    const char *path;
    const struct yaml_value *root, *devices, *instances, *links, *connections;
};

static const char *text_at(const struct yaml_value *map, const char *key)
{
    const struct yaml_value *v = yaml_get(map, key);
    return v && v->text ? v->text : "";
}

static bool recognises(const struct machine_source *s)
{
    return machine_begins(s, "infrastructure:", 64) || machine_begins(s, "openapi:", 4) ||
           ((machine_begins(s, "devices:", 64) || machine_begins(s, "device:", 64)) &&
            strstr(s->text, "components:"));
}

/* What a component is. Custom ones are told by their names. */
static enum machine_kind kind_of(const char *type, const char *name)
{
    if (!strcmp(type, "xpu") || !strcmp(type, "gpu"))
        return MACHINE_GPU;
    if (!strcmp(type, "cpu"))
        return MACHINE_CPU;
    if (!strcmp(type, "nic"))
        return MACHINE_NIC;
    return strncmp(name, "nvl", 3) && strncmp(name, "nvs", 3) ? MACHINE_BRIDGE : MACHINE_NVSWITCH;
}

/* Split "server.0.nic.1.eth1.leaf.0.port.3" at its points; 0: too many words. */
static size_t split(struct reader *r, const char *text, char **word)
{
    char *copy = arena_text(&r->m->arena, text), *rest;
    size_t n = 0;
    for (char *at = copy ? strtok_r(copy, ".", &rest) : NULL; at; at = strtok_r(NULL, ".", &rest)) {
        if (n == PATH_WORDS)
            return 0;
        word[n++] = at;
    }
    return n;
}

/* Bytes per second of a link: gigabytes, gigabits or transfers (of 16 lanes of PCIe) a second; 0:
 * not said. */
static double bandwidth_of(const struct yaml_value *links, const char *name)
{
    for (size_t i = 0; links && i < links->items; i++) {
        const struct yaml_value *b = yaml_get(&links->item[i], "bandwidth");
        if (strcmp(text_at(&links->item[i], "name"), name) != 0)
            continue;
        for (size_t k = 0; b && k < b->entries; k++) {
            double value;
            if (!text_real(text_at(b, b->entry[k].key), &value) || value <= 0 || value > 1e7)
                continue;
            return strstr(b->entry[k].key, "transfer") ? value * 16 / 8 * 128 / 130 * 1e9
                   : strstr(b->entry[k].key, "bits")   ? value * 1e9 / 8
                                                       : value * 1e9;
        }
    }
    return 0;
}

static bool nvlink_name(const char *name)
{
    return !strncasecmp(name, "nvl", 3) || !strncasecmp(name, "xgmi", 4);
}

/* ---- a device as a machine */

/* One part of a component; a GPU's description may name its type. */
static enum status add_one(struct reader *r, const struct yaml_value *c, const char *name,
                           uint32_t *part)
{
    enum machine_kind kind = kind_of(text_at(c, "type"), text_at(c, "name"));
    const char *said = text_at(c, "description");
    PASS(machine_add_part(r->m, kind, 0, MACHINE_NONE, name, part));
    if (kind == MACHINE_GPU && gpu_named(said)) {
        r->m->part[*part].model = arena_text(&r->m->arena, said);
        if (!r->m->part[*part].model)
            return STATUS_NOMEM;
    }
    return machine_name_put(r->m, NAMES_PARTS, name, *part);
}

static enum status add_components(struct reader *r, const struct yaml_value *list, uint64_t copies)
{
    char name[96];
    uint32_t part;
    for (size_t i = 0; list && i < list->items; i++) {
        const struct yaml_value *c = &list->item[i], *inside = yaml_get(c, "components");
        const char *called = text_at(c, "name"), *count = text_at(c, "count");
        uint64_t n = 1;
        if (*count && (!text_count(count, COPIES, &n) || n * copies > COPIES))
            return error_set(STATUS_PARSE, "%s:%zu: count '%.20s'", r->path, c->line, count);
        if (!*count) /* as many as the connections name */
            n = 0;
        if (inside) {
            PASS(add_components(r, inside, copies * (n ? n : 1)));
            continue;
        }
        for (uint64_t k = 0; k < n * copies; k++) {
            snprintf(name, sizeof name, "%.60s.%llu", called, (unsigned long long)k);
            PASS(add_one(r, c, name, &part));
        }
    }
    return STATUS_OK;
}

static const struct yaml_value *component(const struct yaml_value *list, const char *name)
{
    for (size_t i = 0; list && i < list->items; i++) {
        const struct yaml_value *inside = component(yaml_get(&list->item[i], "components"), name);
        if (inside || !strcmp(text_at(&list->item[i], "name"), name))
            return inside ? inside : &list->item[i];
    }
    return NULL;
}

/* The part "xpu.3", made when the components give no count; MACHINE_NONE: of something without
 * parts. */
static enum status end_of(struct reader *r, const struct yaml_value *components, const char *name,
                          const char *index, size_t line, uint32_t *part)
{
    char key[96];
    uint64_t k;
    const struct yaml_value *c = component(components, name);
    if (!c || !text_count(index, COPIES, &k))
        return error_set(STATUS_PARSE, "%s:%zu: no component '%.40s.%.20s'", r->path, line, name,
                         index);
    snprintf(key, sizeof key, "%.60s.%llu", name, (unsigned long long)k);
    *part = machine_name_find(r->m, NAMES_PARTS, key);
    if (*part != MACHINE_NONE || yaml_get(c, "components"))
        return STATUS_OK;
    if (*text_at(c, "count"))
        return error_set(STATUS_PARSE, "%s:%zu: '%s', and only %s of them", r->path, line, key,
                         text_at(c, "count"));
    return add_one(r, c, key, part);
}

/* Nearer to the CPU: what goes below what. */
static int height(enum machine_kind kind)
{
    return kind == MACHINE_CPU ? 2 : kind == MACHINE_BRIDGE ? 1 : 0;
}

static enum status connect(struct reader *r, const struct yaml_value *device, const char *link,
                           uint32_t a, uint32_t b)
{
    struct machine *m = r->m;
    double Bps = bandwidth_of(yaml_get(device, "links"), link);
    enum machine_kind ka = m->part[a].kind, kb = m->part[b].kind;
    if (nvlink_name(link) || ka == MACHINE_NVSWITCH || kb == MACHINE_NVSWITCH) {
        bool turn = ka == MACHINE_NVSWITCH;
        uint32_t gpu = turn ? b : a, other = turn ? a : b;
        if (m->part[gpu].kind != MACHINE_GPU)
            return STATUS_OK;
        return machine_join(m,
                            &(struct machine_link){.a = gpu, .b = other, .count = 1, .Bps = Bps});
    }
    uint32_t upper = height(ka) >= height(kb) ? a : b, lower = upper == a ? b : a;
    if (ka == kb || m->part[lower].up != MACHINE_NONE)
        return STATUS_OK;
    for (uint32_t up = upper; up != MACHINE_NONE; up = m->part[up].up)
        if (up == lower)
            return STATUS_OK; /* a circle */
    m->part[lower].up = upper;
    m->part[lower].up_Bps = Bps;
    return STATUS_OK;
}

static enum status read_device(struct reader *r, const struct yaml_value *device)
{
    const struct yaml_value *components = yaml_get(device, "components");
    const struct yaml_value *connections = yaml_get(device, "connections");
    char *word[PATH_WORDS];
    r->m->nodes = 1;
    PASS(add_components(r, components, 1));
    for (size_t i = 0; connections && i < connections->items; i++) {
        const struct yaml_value *c = &connections->item[i];
        uint32_t a, b;
        if (!c->text || split(r, c->text, word) != 5)
            return error_set(STATUS_PARSE, "%s:%zu: '%.60s', expected a.0.link.b.0", r->path,
                             c->line, c->text ? c->text : "");
        PASS(end_of(r, components, word[0], word[1], c->line, &a));
        PASS(end_of(r, components, word[3], word[4], c->line, &b));
        if (a != MACHINE_NONE && b != MACHINE_NONE && a != b)
            PASS(connect(r, device, word[2], a, b));
    }
    return STATUS_OK;
}

/* Cards that are devices of their own: "server.0.pciesw.0.pcie.server-nic.0.port.0" */
static enum status read_cards(struct reader *r, const struct yaml_value *device)
{
    char *word[PATH_WORDS], name[96];
    for (size_t i = 0; r->connections && i < r->connections->items; i++) {
        const struct yaml_value *c = &r->connections->item[i];
        uint32_t bridge, nic;
        if (!c->text || split(r, c->text, word) != 9)
            continue;
        PASS(end_of(r, yaml_get(device, "components"), word[2], word[3], c->line, &bridge));
        snprintf(name, sizeof name, "%.60s.%.20s", word[5], word[6]);
        if (bridge == MACHINE_NONE || machine_name_find(r->m, NAMES_PARTS, name) != MACHINE_NONE)
            continue;
        PASS(machine_add_part(r->m, MACHINE_NIC, 0, bridge, name, &nic));
        PASS(machine_name_put(r->m, NAMES_PARTS, name, nic));
    }
    return STATUS_OK;
}

/* ---- instances as a network */

static const struct yaml_value *device_of(const struct reader *r, const char *instance)
{
    const char *device = "";
    for (size_t i = 0; r->instances && i < r->instances->items; i++)
        if (!strcmp(text_at(&r->instances->item[i], "name"), instance))
            device = text_at(&r->instances->item[i], "device");
    for (size_t i = 0; r->devices && i < r->devices->items; i++)
        if (!strcmp(text_at(&r->devices->item[i], "name"), device))
            return &r->devices->item[i];
    return NULL;
}

static bool has_xpu(const struct yaml_value *device)
{
    const struct yaml_value *list = yaml_get(device, "components");
    for (size_t i = 0; list && i < list->items; i++)
        if (kind_of(text_at(&list->item[i], "type"), text_at(&list->item[i], "name")) ==
            MACHINE_GPU)
            return true;
    return false;
}

/* An end "leaf.0": a node when its device has GPUs, or nothing is known of it and a "nic" is what
 * is joined. */
static enum status instance_of(struct reader *r, const char *instance, const char *index,
                               const char *through, uint32_t *part)
{
    char key[96];
    const struct yaml_value *device = device_of(r, instance);
    bool node = device ? has_xpu(device) : !strcmp(through, "nic");
    snprintf(key, sizeof key, "%.60s.%.20s", instance, index);
    *part = machine_name_find(r->m, NAMES_PARTS, key);
    if (*part != MACHINE_NONE)
        return STATUS_OK;
    PASS(machine_add_part(r->m, node ? MACHINE_NODE : MACHINE_SWITCH, MACHINE_NONE, MACHINE_NONE,
                          key, part));
    return machine_name_put(r->m, NAMES_PARTS, key, *part);
}

static enum status read_network(struct reader *r)
{
    struct machine *m = r->m;
    char *word[PATH_WORDS];
    for (size_t i = 0; i < r->connections->items; i++) {
        const struct yaml_value *c = &r->connections->item[i];
        uint32_t a, b;
        if (!c->text || split(r, c->text, word) != 9)
            return error_set(STATUS_PARSE,
                             "%s:%zu: '%.60s', expected server.0.nic.0.link.leaf.0.port.0", r->path,
                             c->line, c->text ? c->text : "");
        PASS(instance_of(r, word[0], word[1], word[2], &a));
        PASS(instance_of(r, word[5], word[6], word[7], &b));
        bool turn = m->part[a].kind == MACHINE_NODE || m->part[b].kind == MACHINE_SWITCH;
        if (a == b || (m->part[a].kind == MACHINE_NODE && m->part[b].kind == MACHINE_NODE))
            return error_set(STATUS_PARSE, "%s:%zu: nodes without a switch between them", r->path,
                             c->line);
        struct machine_link l = {.net = true,
                                 .a = turn ? b : a,
                                 .b = turn ? a : b,
                                 .count = 1,
                                 .Bps = bandwidth_of(r->links, word[4])};
        PASS(machine_join(m, &l));
    }
    return STATUS_OK;
}

/* A network whose nodes' device is in the file too. */
static enum status read_inside(struct reader *r, const struct yaml_value *device)
{
    struct machine *m = r->m;
    PASS(ARRAY_NEW(m->inside, 1));
    m->inside->format = m->format;
    m->inside->path = m->path;
    struct reader inside = {.m = m->inside, .path = r->path};
    PASS(read_device(&inside, device));
    return read_network(r);
}

static enum status parse(const struct machine_source *s, struct machine *m)
{
    struct reader r = {.m = m, .path = s->path};
    struct yaml_value root = {0};
    if (machine_begins(s, "openapi:", 4))
        return error_set(STATUS_PARSE, "%s:1: the schema of InfraGraph, not an infrastructure",
                         s->path);
    PASS(yaml_read_foreign(s->path, s->text, s->length, &m->arena, &root));
    const struct yaml_value *inside = yaml_get(&root, "infrastructure");
    r.root = inside ? inside : &root;
    r.devices =
        yaml_get(r.root, "devices") ? yaml_get(r.root, "devices") : yaml_get(r.root, "device");
    r.instances = yaml_get(r.root, "instances");
    r.links = yaml_get(r.root, "links");
    r.connections = yaml_get(r.root, "connections");
    const struct yaml_value *machine = NULL;
    for (size_t i = 0; r.devices && i < r.devices->items; i++)
        machine = !machine && has_xpu(&r.devices->item[i]) ? &r.devices->item[i] : machine;
    bool joins = false; /* instances of machines, more than cards of one */
    for (size_t i = 0; r.instances && i < r.instances->items; i++)
        joins |= !machine || device_of(&r, text_at(&r.instances->item[i], "name")) == machine;
    if (r.connections && joins)
        return machine ? read_inside(&r, machine) : read_network(&r);
    if (!machine)
        return error_set(STATUS_PARSE,
                         "%s: devices without an xpu: part of an infrastructure, not a "
                         "machine or a network",
                         s->path);
    PASS(read_device(&r, machine));
    return read_cards(&r, machine);
}

const struct machine_format machine_infragraph = {
    .name = "InfraGraph",
    .summary = "devices and infrastructures of InfraGraph",
    .recognises = recognises,
    .parse = parse,
};
