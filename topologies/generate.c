/* Descriptions of platforms: parsed against the parameters of their family, written in canonical
 * form, and expanded into a file. */
#include "topologies/generate.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/base/units.h"
#include "core/data/fabric_text.h"
#include "core/data/topology.h"
#include "topologies/systems.h"
#include "topologies/write.h"

enum { LIST = 400, CANONICAL = FAMILY_TEXT_SIZE + 1024, VALUE = FAMILY_TEXT_SIZE + 64 };

const struct topology_family *const families[] = {
#define FAMILY(name) &family_##name,
#include "topologies/families.def"
#undef FAMILY
};
const size_t families_n = sizeof families / sizeof *families;

/* NCCL's latency of one ring step of large messages is 3.4 us over NVLink and 14 us over a network
 * (src/graph/tuning.cc); half stands at each end. A further switch: assumed. */
const double nvlink_latency_s = 1.7e-6, nic_latency_s = 7e-6, switch_latency_s = 0.3e-6;

/* ---- parsing */

/* A named system stands for its description. */
static const char *generate_expand(const char *spec)
{
    for (size_t i = 0; i < systems_n; i++)
        if (!strcmp(systems[i].name, spec))
            return systems[i].spec;
    return spec;
}

static const struct topology_family *generate_find_family(const char *spec)
{
    size_t n = strcspn(spec, ":");
    for (size_t i = 0; i < families_n; i++)
        if (strlen(families[i]->name) == n && !memcmp(families[i]->name, spec, n))
            return families[i];
    return NULL;
}

bool generate_has(const char *spec)
{
    return generate_find_family(generate_expand(spec)) != NULL;
}

const struct family_parameter *generate_parameter(const char *spec, const char *key)
{
    const struct topology_family *f = generate_find_family(generate_expand(spec));
    for (size_t i = 0; f && i < f->parameters; i++)
        if (text_same_key(f->parameter[i].name, key))
            return &f->parameter[i];
    return NULL;
}

static enum status generate_unknown_family(const char *spec)
{
    char list[LIST] = "", name[81], hint[TEXT_HINT];
    const char *nearest = NULL;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(spec, ":"), spec);
    for (size_t i = 0, best = text_reach(name); i < families_n; i++) {
        text_list_add(list, LIST, families[i]->name);
        nearest = text_is_nearer(name, families[i]->name, &best) ? families[i]->name : nearest;
    }
    return error_set(STATUS_INVALID, "unknown platform family '%s'%s known: %s", name,
                     *text_hint(nearest, hint) ? hint : ";", list);
}

static enum status generate_unknown_parameter(const struct topology_family *f, const char *key)
{
    char list[LIST] = "", hint[TEXT_HINT];
    const char *nearest = NULL;
    for (size_t i = 0, best = text_reach(key); i < f->parameters; i++) {
        text_list_add(list, LIST, f->parameter[i].name);
        nearest = text_is_nearer(key, f->parameter[i].name, &best) ? f->parameter[i].name : nearest;
    }
    return error_set(STATUS_INVALID, "%s: unknown parameter '%s'%s known: %s", f->name, key,
                     *text_hint(nearest, hint) ? hint : ";", list);
}

static enum status parse_gpu(const struct topology_family *f, const char *text,
                             struct family_value *v)
{
    char list[LIST] = "", hint[TEXT_HINT];
    const char *nearest = NULL;
    size_t best = text_reach(text);
    for (size_t i = 0; i < gpus_n; i++) {
        if (!strcmp(gpus[i].name, text)) {
            v->gpu = &gpus[i];
            return STATUS_OK;
        }
        text_list_add(list, LIST, gpus[i].name);
        nearest = text_is_nearer(text, gpus[i].name, &best) ? gpus[i].name : nearest;
    }
    return error_set(STATUS_INVALID, "%s: unknown GPU type '%s'%s known: %s", f->name, text,
                     *text_hint(nearest, hint) ? hint : ";", list);
}

static enum status parse_number(const struct topology_family *f, const struct family_parameter *p,
                                const char *text, struct family_value *v)
{
    char *end;
    errno = 0;
    double number = strtod(text, &end);
    bool whole = p->kind == FAMILY_COUNT;
    size_t span = strspn(text, whole ? "0123456789" : "0123456789.");
    if (*end || end == text || text[span] || errno != 0 || !(number >= p->min && number <= p->max))
        return error_set(STATUS_INVALID, "%s: got '%s=%s', expected a %s from %g to %g", f->name,
                         p->name, text, whole ? "whole number" : "number", p->min, p->max);
    v->number = number;
    return STATUS_OK;
}

static enum status parse_fabric(const struct topology_family *f, const char *text,
                                struct family_value *v)
{
    char list[LIST] = "", hint[TEXT_HINT];
    const char *name, *nearest = NULL;
    size_t best = text_reach(text), i;
    for (i = 0; (name = fabric_name(i)) && strcmp(name, text) != 0; i++) {
        text_list_add(list, LIST, name);
        nearest = text_is_nearer(text, name, &best) ? name : nearest;
    }
    v->number = (double)(i + 1);
    return name ? STATUS_OK
                : error_set(STATUS_INVALID, "%s: unknown fabric '%s'%s known: %s", f->name, text,
                            *text_hint(nearest, hint) ? hint : ";", list);
}

static enum status parse_text(const struct topology_family *f, const struct family_parameter *p,
                              const char *text, struct family_value *v)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789+-");
    if (text[n] || n == 0 || n >= sizeof v->text)
        return error_set(
            STATUS_INVALID,
            "%s: got '%s=%.40s', expected up to %zu lower-case letters, digits, + and -", f->name,
            p->name, text, sizeof v->text - 1);
    memcpy(v->text, text, n + 1);
    return STATUS_OK;
}

static enum status parse_value(const struct topology_family *f, const struct family_parameter *p,
                               const char *text, struct family_value *v)
{
    enum paths_policy policy = PATHS_UNSAID;
    if (p->kind == FAMILY_GPU)
        return parse_gpu(f, text, v);
    if (p->kind == FAMILY_TEXT)
        return parse_text(f, p, text, v);
    if (p->kind == FAMILY_FABRIC)
        return parse_fabric(f, text, v);
    if (p->kind == FAMILY_PATHS && paths_find(text, &policy) != STATUS_OK)
        return error_context(STATUS_INVALID, "%s", f->name);
    v->number = policy;
    if (p->kind == FAMILY_PATHS)
        return STATUS_OK;
    if (p->kind != FAMILY_RATE && p->kind != FAMILY_TIME)
        return parse_number(f, p, text, v);
    bool rate = p->kind == FAMILY_RATE;
    enum status st = units_parse(rate ? UNIT_RATE : UNIT_SECONDS, text, &v->number);
    if (st == STATUS_OK && rate && !(v->number >= 1 && v->number <= 1e15))
        st = error_set(STATUS_INVALID, "got '%s', expected a bandwidth from 1Bps to 1PBps", text);
    if (st == STATUS_OK && !rate && !(v->number <= 10))
        st = error_set(STATUS_INVALID, "got '%s', expected a latency up to 10s", text);
    return st == STATUS_OK ? st : error_context(STATUS_INVALID, "%s: %s", f->name, p->name);
}

/* One "key=value" of n characters. */
static enum status generate_set_parameter(const struct topology_family *f, const char *text,
                                          size_t n, struct family_value *value, bool *seen)
{
    char key[VALUE];
    size_t i = 0;
    snprintf(key, sizeof key, "%.*s", (int)(n < sizeof key ? n : sizeof key - 1), text);
    char *equals = strchr(key, '=');
    if (!equals || n >= sizeof key)
        return error_set(STATUS_INVALID, "%s: got '%s', expected KEY=VALUE", f->name, key);
    *equals = '\0';
    while (i < f->parameters && !text_same_key(f->parameter[i].name, key))
        i++;
    if (i == f->parameters)
        return generate_unknown_parameter(f, key);
    if (seen[i])
        return error_set(STATUS_INVALID, "%s: %s is given twice", f->name, f->parameter[i].name);
    seen[i] = true;
    return parse_value(f, &f->parameter[i], equals + 1, &value[i]);
}

enum status generate_values(const char *spec, const struct topology_family **out,
                            struct family_value *value)
{
    enum status st = STATUS_OK;
    spec = generate_expand(spec);
    const struct topology_family *f = generate_find_family(spec);
    bool seen[FAMILY_PARAMETERS] = {false};
    if (!f)
        return generate_unknown_family(spec);
    for (size_t i = 0; i < f->parameters; i++) {
        value[i] = (struct family_value){0};
        if (f->parameter[i].preset)
            TRY(parse_value(f, &f->parameter[i], f->parameter[i].preset, &value[i]));
    }
    const char *next = spec + strlen(f->name);
    while (*next) { /* at ':' or ',' */
        next++;
        size_t n = strcspn(next, ",");
        TRY(generate_set_parameter(f, next, n, value, seen));
        next += n;
    }
    if (f->devices(value) > TOPOLOGY_MAX_DEVICES)
        st = error_set(STATUS_INVALID, "%s: got %zu GPUs, expected up to %d", f->name,
                       f->devices(value), TOPOLOGY_MAX_DEVICES);
    else if (f->check)
        st = f->check(value);
    *out = f;
out:
    return st;
}

static enum status generate_describe(const struct topology_family *f,
                                     const struct family_value *value, char **out)
{
    char *text = malloc(CANONICAL);
    if (!text)
        return error_set(STATUS_NOMEM, "out of memory");
    int n = snprintf(text, CANONICAL, "%s", f->name);
    char before = ':';
    for (size_t i = 0; i < f->parameters; i++) {
        const struct family_parameter *p = &f->parameter[i];
        char *at = text + n;
        size_t left = CANONICAL - (size_t)n;
        if (p->kind == FAMILY_GPU)
            n += snprintf(at, left, "%c%s=%s", before, p->name, value[i].gpu->name);
        else if (!p->preset && value[i].number <= 0)
            continue;
        else if (p->kind == FAMILY_PATHS)
            n += snprintf(at, left, "%c%s=%s", before, p->name,
                          paths_name((enum paths_policy)value[i].number));
        else if (p->kind == FAMILY_FABRIC)
            n += snprintf(at, left, "%c%s=%s", before, p->name,
                          fabric_name((size_t)value[i].number - 1));
        else if (p->kind == FAMILY_TEXT)
            n += snprintf(at, left, "%c%s=%s", before, p->name, value[i].text);
        else if (p->kind == FAMILY_TIME)
            n += snprintf(at, left, "%c%s=%.15gs", before, p->name, value[i].number);
        else if (p->kind != FAMILY_RATE)
            n += snprintf(at, left, "%c%s=%.15g", before, p->name, value[i].number);
        else
            n += snprintf(at, left, "%c%s=%.15gBps", before, p->name, value[i].number);
        before = ',';
    }
    *out = text;
    return STATUS_OK;
}

enum status generate_canonical(const char *spec, char **out)
{
    const struct topology_family *f;
    struct family_value value[FAMILY_PARAMETERS];
    PASS(generate_values(spec, &f, value));
    return generate_describe(f, value, out);
}

enum status generate_with(const char *spec, const char *key, const char *text, char **out)
{
    const struct topology_family *f;
    struct family_value value[FAMILY_PARAMETERS];
    const struct family_parameter *p = generate_parameter(spec, key);
    if (!p)
        return error_set(STATUS_INVALID, "%s: unknown parameter '%s'", spec, key);
    PASS(generate_values(spec, &f, value));
    PASS(parse_value(f, p, text, &value[p - f->parameter]));
    if (f->check)
        PASS(f->check(value));
    return generate_describe(f, value, out);
}

enum status generate_platform(const char *spec, FILE *to)
{
    enum status st;
    const struct topology_family *f;
    struct family_value value[FAMILY_PARAMETERS];
    char *canonical = NULL;
    TRY(generate_values(spec, &f, value));
    TRY(generate_canonical(spec, &canonical));
    fputs("<?xml version='1.0'?>\n"
          "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n<!-- ",
          to);
    f->describe(value, to);
    fprintf(to,
            "\n\n     foreline topology generate %s\n"
            "     Device nNgG is GPU G of node N. Routing takes the fewest links.\n"
            "     %s -->\n"
            "<platform version=\"4.1\">\n  <zone id=\"%s\" routing=\"DijkstraCache\">\n",
            canonical, write_settings, f->name);
    for (size_t i = 0; i < f->parameters; i++)
        if (f->parameter[i].kind == FAMILY_FABRIC && value[i].number > 0)
            fprintf(to, "    <prop id=\"collectives\" value=\"fabric=%s\"/>\n",
                    fabric_name((size_t)value[i].number - 1));
    f->write(value, to);
    fputs("  </zone>\n</platform>\n", to);
out:
    free(canonical);
    return st;
}

/* ---- pieces */

void put_gpu_properties(FILE *to, const struct gpu *gpu)
{
    fprintf(to,
            "    <prop id=\"type\" value=\"%s\"/>\n"
            "    <prop id=\"memory\" value=\"%lldB\"/>\n"
            "    <prop id=\"memory_bandwidth\" value=\"%.12gBps\"/>\n"
            "    <prop id=\"launch_overhead\" value=\"5us\"/>\n"
            "    <prop id=\"host_bandwidth\" value=\"%.12gBps\"/>\n"
            "    <prop id=\"host_memory_bandwidth\" value=\"%.12gBps\"/>\n",
            gpu->type, (long long)gpu->memory_bytes, gpu->memory_Bps,
            gpu->host_Bps > 0 ? gpu->host_Bps : gpu->pcie_Bps, gpu->host_memory_Bps);
    for (size_t k = 1; k < DATA_TYPES; k++) /* fp16's is bf16's */
        if (gpu->peak[k] > 0 && k != DATA_fp16)
            fprintf(to, "    <prop id=\"%s\" value=\"%.12gf\"/>\n", data_type_peaks[k],
                    gpu->peak[k]);
    if (gpu->kernels)
        fprintf(to, "    <prop id=\"kernels\" value=\"%s\"/>\n", gpu->kernels);
}

void put_bundle(FILE *to, const struct cable *c, const struct family_ways *ways, const char *id)
{
    fprintf(to,
            "    <link id=\"%s\" bandwidth=\"%.12gBps\" latency=\"%.12gs\" "
            "sharing_policy=\"SPLITDUPLEX\"",
            id, c->bandwidth_Bps, c->latency_s);
    if (!c->tier && ways->switches == 0) {
        fputs("/>\n", to);
        return;
    }
    putc('>', to);
    if (c->tier)
        fprintf(to, "<prop id=\"tier\" value=\"%s\"/>", c->tier);
    if (ways->switches > 0)
        fprintf(to, "<prop id=\"lanes\" value=\"%zux%zu\"/>", ways->switches, ways->cables);
    fputs("</link>\n", to);
}

void put_cable(FILE *to, const struct cable *c, const char *id_format, ...)
{
    static const struct family_ways one = {0};
    struct topology_name id;
    va_list arguments;
    va_start(arguments, id_format);
    vsnprintf(id.id, sizeof id.id, id_format, arguments);
    va_end(arguments);
    put_bundle(to, c, &one, id.id);
}

void put_node(FILE *to, size_t node, size_t gpus_per_node, const struct gpu *gpu, double nvlink_Bps)
{
    const struct cable nvlink = {"nvlink", nvlink_Bps, nvlink_latency_s};
    for (size_t g = 0; g < gpus_per_node; g++)
        fprintf(to, "    <host id=\"n%zug%zu\" speed=\"%.12gf\"/>\n", node, g, gpu->flops);
    if (gpus_per_node == 1)
        return;
    fprintf(to, "    <router id=\"n%zu\"/>\n", node);
    for (size_t g = 0; g < gpus_per_node; g++)
        put_cable(to, &nvlink, "n%zug%zu-nvlink", node, g);
}

void put_node_routes(FILE *to, size_t node, size_t gpus_per_node)
{
    for (size_t g = 0; gpus_per_node > 1 && g < gpus_per_node; g++)
        fprintf(to,
                "    <route src=\"n%zug%zu\" dst=\"n%zu\">"
                "<link_ctn id=\"n%zug%zu-nvlink\" direction=\"UP\"/></route>\n",
                node, g, node, node, g);
}
