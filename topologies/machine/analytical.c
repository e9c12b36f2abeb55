/* ASTRA-sim's analytical networks: dimensions of rings, of all joined to all, and of switches, with
 * a bandwidth and a latency each. The first dimension is what a node has inside. ASTRA-sim's other
 * files are recognised to say what they are. */
#include <string.h>

#include "core/base/text.h"
#include "topologies/machine/machine.h"
#include "topologies/yaml.h"

enum { DIMENSIONS = 8, DEVICES = 1 << 16 };

struct dimension {
    const char *kind;
    size_t n;
    double Bps, latency_s;
};

static const struct {
    const char *begins, *what;
} others[] = {
    {"Nodes ", "a fat tree of ASTRA-sim's htsim; 'foreline topology generate fat-tree' makes such"},
    {"ENABLE_QCN", "settings of SimAI's ns-3, without machines"},
    {"Size,1 Node",
     "a table of SimAI of what shares of bandwidth collectives attain, without machines"},
    {"VM_hostname", "adapters of hosts as ibstat prints them, without what joins them; expected "
                    "ibnetdiscover's output"},
};
static const char *const keys[] = {"\"scheduling-policy\"", "\"logical-dims\""};

static bool recognises(const struct machine_source *s)
{
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        if (!strncmp(s->text, others[k].begins, strlen(others[k].begins)))
            return true;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        if (*s->text == '{' && strstr(s->text, keys[k]))
            return true;
    return strstr(s->text, "npus_count:") && machine_begins(s, "topology:", 4096);
}

static enum status refuse_others(const struct machine_source *s)
{
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        if (!strncmp(s->text, others[k].begins, strlen(others[k].begins)))
            return error_set(STATUS_PARSE, "%s:1: %s", s->path, others[k].what);
    return *s->text == '{' ? error_set(STATUS_PARSE,
                                       "%s:1: ASTRA-sim's system or logical dimensions, without "
                                       "bandwidths; expected its network (.yml)",
                                       s->path)
                           : STATUS_OK;
}

static enum status read_list(const char *path, const struct yaml_value *root, const char *key,
                             struct dimension *d, size_t *n)
{
    const struct yaml_value *v = NULL;
    double value = 0;
    for (size_t i = 0; i < root->entries; i++)
        v = !strcmp(root->entry[i].key, key) ? &root->entry[i].value : v;
    if (!v || v->items < 1 || v->items > DIMENSIONS || (*n > 0 && v->items != *n))
        return error_set(STATUS_PARSE, "%s:%zu: expected '%s: [...]' of %s dimensions", path,
                         v ? v->line : 1, key, *n > 0 ? "as many" : "1 to 8");
    *n = v->items;
    for (size_t i = 0; i < *n; i++) {
        const char *text = v->item[i].text ? v->item[i].text : "";
        if (!strcmp(key, "topology")) {
            if (strcmp(text, "Ring") != 0 && strcmp(text, "FullyConnected") != 0 &&
                strcmp(text, "Switch") != 0)
                return error_set(STATUS_PARSE,
                                 "%s:%zu: '%.40s', expected Ring, FullyConnected or Switch", path,
                                 v->item[i].line, text);
            d[i].kind = text;
            continue;
        }
        if (!text_real(text, &value) || value < 0 || value > 1e9 ||
            (*key == 'n' && (value < 1 || value > DEVICES || value != (double)(size_t)value)) ||
            (*key == 'b' && value <= 0))
            return error_set(STATUS_PARSE, "%s:%zu: '%.40s' of %s", path, v->item[i].line, text,
                             key);
        if (*key == 'n')
            d[i].n = (size_t)value;
        else if (*key == 'b')
            d[i].Bps = value * 1e9;
        else
            d[i].latency_s = value * 1e-9;
    }
    return STATUS_OK;
}

/* Devices first, first + step, ...: one row along a dimension. */
static enum status join_row(struct machine *m, const struct dimension *d, size_t first, size_t step)
{
    uint32_t hub = 0;
    struct machine_link l = {.net = true, .count = 1, .Bps = d->Bps, .latency_s = d->latency_s};
    bool hubbed = !strcmp(d->kind, "Switch"), ring = !strcmp(d->kind, "Ring");
    if (d->n == 1)
        return STATUS_OK;
    if (hubbed)
        PASS(machine_add_part(m, MACHINE_SWITCH, MACHINE_NONE, MACHINE_NONE, "switch", &hub));
    for (size_t i = 0; i < d->n; i++) {
        l.a = hub;
        l.b = (uint32_t)(first + i * step);
        if (hubbed) {
            PASS(machine_join(m, &l));
            continue;
        }
        l.a = l.b;
        size_t last = ring ? (i + 1 < d->n ? i + 1 : d->n > 2 ? d->n : i) : d->n - 1;
        for (size_t j = i + 1; j <= last; j++) {
            l.b = (uint32_t)(first + j % d->n * step);
            PASS(machine_join(m, &l));
        }
    }
    return STATUS_OK;
}

static enum status parse(const struct machine_source *s, struct machine *m)
{
    struct yaml_value root = {0};
    struct dimension d[DIMENSIONS];
    size_t n = 0, total = 1;
    char name[32];
    static const char *const wanted[] = {"topology", "npus_count", "bandwidth", "latency"};
    PASS(refuse_others(s));
    PASS(yaml_read_foreign(s->path, s->text, s->length, &m->arena, &root));
    for (size_t k = 0; k < 4; k++)
        PASS(read_list(s->path, &root, wanted[k], d, &n));
    for (size_t i = 0; i < n; i++)
        if ((total *= d[i].n) > DEVICES)
            return error_set(STATUS_PARSE, "%s: more than %d devices", s->path, DEVICES);
    m->nodes = total / d[0].n;
    for (size_t i = 0; i < total; i++) {
        snprintf(name, sizeof name, "NPU%zu", i);
        PASS(machine_add_part(m, MACHINE_GPU, (uint32_t)(i / d[0].n), MACHINE_NONE, name, NULL));
    }
    for (size_t k = 0, step = 1; k < n; step *= d[k++].n)
        for (size_t i = 0; i < total; i++)
            if (i / step % d[k].n == 0)
                PASS(join_row(m, &d[k], i, step));
    return STATUS_OK;
}

const struct machine_format machine_analytical = {
    .name = "ASTRA-sim network",
    .summary = "analytical networks of ASTRA-sim: rings, switches, all to all",
    .recognises = recognises,
    .parse = parse,
};
