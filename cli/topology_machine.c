/* topology import of machines and clusters, topology discover: what was found, what was assumed,
 * and the platform. */
#include "cli/topology_machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/units.h"
#include "topologies/machine/discover.h"
#include "topologies/machine/machine.h"

enum { PAIRS = 4096 };

/* "400Gbps", "all", "mlx5_[0-3],ib0", "all@400Gbps". */
static enum status read_nic(const char *text, struct machine_options *o)
{
    const char *at = strrchr(text, '@'), *rate = at ? at + 1 : text;
    enum status st = units_parse(UNIT_RATE, rate, &o->nic_Bps);
    if (st != STATUS_OK && !at) { /* no rate, so names */
        o->nics = text;
        return STATUS_OK;
    }
    if (st == STATUS_OK && !(o->nic_Bps >= 1e6 && o->nic_Bps <= 1e13))
        st = error_set(STATUS_INVALID, "got '%s', expected a bandwidth from 1MBps to 10TBps", rate);
    if (st != STATUS_OK)
        return error_context(STATUS_USAGE, "--nic");
    o->nics = at ? text : NULL;
    return STATUS_OK;
}

static enum status read_options(const struct arguments *a, struct machine_options *o)
{
    *o = (struct machine_options){.nodes = a->machine.nodes, .gpus = a->devices};
    if (a->machine.gpu && !(o->gpu = gpu_named(a->machine.gpu)))
        return error_set(
            STATUS_USAGE,
            "--gpu: unknown GPU type %s; list the catalogue with foreline topology generate list",
            a->machine.gpu);
    return a->machine.nic ? read_nic(a->machine.nic, o) : STATUS_OK;
}

/* Two GPUs of the first node, and the lanes of NVLink between them; none between cores. */
struct link_pair {
    uint32_t a, b, links;
};
static enum status nvlink_pairs(const struct machine *m, struct link_pair **out, size_t *n)
{
    uint32_t *gpu = NULL;
    size_t gpu_count = 0;
    struct link_pair *pair = NULL;
    enum status st;
    *n = 0;
    TRY(ARRAY_NEW(gpu, m->parts));
    for (uint32_t i = 0; i < m->parts; i++)
        if (m->part[i].kind == MACHINE_GPU && m->part[i].node == 0 && gpu_count < 128 && !m->cores)
            gpu[gpu_count++] = i;
    for (size_t i = 0; i < gpu_count; i++)
        for (size_t j = i + 1; j < gpu_count && *n < PAIRS; j++) {
            uint32_t links = machine_nvlinks(m, gpu[i], gpu[j]);
            if (links == 0)
                continue;
            TRY(ARRAY_ROOM(pair, *n));
            pair[(*n)++] = (struct link_pair){gpu[i], gpu[j], links};
        }
    st = STATUS_OK;
    *out = pair;
    pair = NULL;
out:
    free(gpu);
    free(pair);
    return st;
}

static void put_json_notes(struct json_writer *w, const char *key, const struct machine_notes *n)
{
    json_open_array(w, key, false);
    for (size_t k = 0; k < n->n; k++)
        json_put_string(w, NULL, n->text[k]);
    json_close(w);
}

static bool has_numa(const struct machine_part *p)
{
    return p->node == 0 && p->numa && (p->kind == MACHINE_GPU || p->kind == MACHINE_NIC);
}

static void put_json_numa(struct json_writer *w, const struct machine *m)
{
    json_open_array(w, "numa", false);
    for (size_t i = 0; i < m->parts; i++)
        if (has_numa(&m->part[i])) {
            json_open_object(w, NULL, true);
            json_put_string(w, "part", m->part[i].name);
            json_put_string(w, "node", m->part[i].numa);
            json_close(w);
        }
    json_close(w);
}

/* "NUMA: 0 GPU0 GPU1 mlx5_0; 1 GPU2": of the first node, by the first of each. */
static void print_numa(const struct machine *m, FILE *out)
{
    bool any = false;
    for (size_t i = 0; i < m->parts; i++) {
        const struct machine_part *p = &m->part[i];
        bool before = false;
        for (size_t k = 0; k < i && has_numa(p) && !before; k++)
            before = has_numa(&m->part[k]) && !strcmp(m->part[k].numa, p->numa);
        if (!has_numa(p) || before)
            continue;
        fprintf(out, "%s%s", any ? "; " : "NUMA nodes: ", p->numa);
        for (size_t k = i; k < m->parts; k++)
            if (has_numa(&m->part[k]) && !strcmp(m->part[k].numa, p->numa))
                fprintf(out, " %s", m->part[k].name);
        any = true;
    }
    if (any)
        fputc('\n', out);
}

static void machine_put_json(const struct machine *m, const struct link_pair *pair, size_t pairs)
{
    struct json_writer w = {.stream = stdout};
    json_open_object(&w, NULL, false);
    json_put_string(&w, "format", m->format);
    json_put_integer(&w, "devices", (int64_t)machine_count(m, MACHINE_GPU));
    json_put_integer(&w, "nodes", (int64_t)m->nodes);
    json_put_integer(&w, "nics", (int64_t)machine_count(m, MACHINE_NIC));
    json_put_integer(&w, "switches", (int64_t)machine_count(m, MACHINE_SWITCH));
    json_open_array(&w, "nvlink_pairs", false);
    for (size_t k = 0; k < pairs; k++) {
        json_open_object(&w, NULL, true);
        json_put_string(&w, "a", m->part[pair[k].a].name);
        json_put_string(&w, "b", m->part[pair[k].b].name);
        json_put_integer(&w, "links", pair[k].links);
        json_close(&w);
    }
    json_close(&w);
    put_json_numa(&w, m);
    put_json_notes(&w, "assumed", &m->assumed);
    put_json_notes(&w, "warnings", &m->warnings);
    json_close(&w);
}

static void machine_print(const struct machine *m, const struct link_pair *pair, size_t pairs,
                          FILE *out)
{
    uint32_t least = UINT32_MAX, most = 0;
    size_t devices = machine_count(m, MACHINE_GPU), ports = machine_count(m, MACHINE_NIC);
    size_t switches = machine_count(m, MACHINE_SWITCH);
    for (size_t k = 0; k < pairs; k++) {
        least = pair[k].links < least ? pair[k].links : least;
        most = pair[k].links > most ? pair[k].links : most;
    }
    fprintf(out, "%s: %zu device%s on %zu node%s, %zu port%s, %zu switch%s", m->format, devices,
            devices == 1 ? "" : "s", m->nodes, m->nodes == 1 ? "" : "s", ports,
            ports == 1 ? "" : "s", switches, switches == 1 ? "" : "es");
    if (m->cores)
        fputs(", joined by memory", out);
    if (pairs > 0)
        fprintf(out, ", NVLink between %zu pair%s of the first node's, ", pairs,
                pairs == 1 ? "" : "s");
    if (pairs > 0 && least < most)
        fprintf(out, "%u to ", least);
    if (pairs > 0)
        fprintf(out, "%u lane%s", most, most == 1 ? "" : "s");
    fputc('\n', out);
    print_numa(m, out);
    for (size_t k = 0; k < m->assumed.n; k++)
        fprintf(out, "assumed: %s\n", m->assumed.text[k]);
    for (size_t k = 0; k < m->warnings.n; k++)
        fprintf(out, "warning: %s\n", m->warnings.text[k]);
}

/* What a machine is, then its platform. */
static enum status machine_write_platform(const struct invocation *in, struct machine *m,
                                          const struct machine_options *o)
{
    enum status st;
    struct link_pair *pair = NULL;
    size_t pairs = 0;
    TRY(machine_complete(m, o));
    TRY(nvlink_pairs(m, &pair, &pairs));
    if (in->a.output)
        TRY(machine_write(m, &in->by, in->a.output));
    if (in->a.json)
        machine_put_json(m, pair, pairs);
    else
        machine_print(m, pair, pairs, arguments_prose(&in->a));
    if (!in->a.output && !in->a.json)
        fputs("no platform was written; write it with -o FILE.xml\n", stderr);
out:
    free(pair);
    return st;
}

enum status topology_import_machine(const struct invocation *in, int files, char **file)
{
    enum status st;
    const struct arguments *a = &in->a;
    struct machine m = {0}, node = {0};
    struct machine_options o;
    const char *inside = a->machine.node, *between = a->machine.fabric;
    TRY(read_options(a, &o));
    if (files == 1 && !between)
        between = file[0];
    else if (files == 1 && !inside)
        inside = file[0];
    else if (files != 0 || !between)
        FAIL(STATUS_USAGE,
             "'topology import' needs one FILE of a machine or a network, or both --node FILE and "
             "--fabric FILE; to import collectives, add --platform P");
    TRY(machine_read(between, &m));
    if (inside)
        TRY(machine_read(inside, &node));
    TRY(machine_combine(&m, inside ? &node : NULL, &o));
    TRY(machine_write_platform(in, &m, &o));
out:
    machine_free(&m);
    machine_free(&node);
    return st;
}

enum status topology_discover(const struct invocation *in)
{
    enum status st;
    struct machine m = {0};
    struct machine_options o;
    TRY(read_options(&in->a, &o));
    TRY(machine_discover(&m));
    if (m.cores && in->a.machine.nic)
        FAIL(STATUS_USAGE, "--nic has no effect: this machine has no GPU");
    TRY(machine_write_platform(in, &m, &o));
out:
    machine_free(&m);
    return st;
}
