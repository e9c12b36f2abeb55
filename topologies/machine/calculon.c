/* Calculon's systems (Isaev et al., SC 2023): what a processor computes, its memory, and networks
 * within each other, of which the first is a node's NVLink and the second what nodes are joined by.
 *
 *     {"matrix": {"float16": {"tflops": 312, ...}}, "mem1": {"GiB": 80, ...},
 *      "networks": [{"bandwidth": 300, "efficiency": 0.65, "size": 8, "latency": 0.00001}, {...}]}
 *
 * Bandwidths are GB/s of a processor, of which it attains `efficiency`. Older and newer files
 * differ in where tflops stand. The processor becomes the GPU of the catalogue that is nearest to
 * it.
 *
 * Source: calculon-ai/calculon, systems/ and calculon/network.py at 71f6435. */
#include <math.h>
#include <string.h>

#include "core/base/json.h"
#include "topologies/catalogue.h"
#include "topologies/machine/machine.h"

enum { NETWORKS = 8, GPUS = 1024 };
static const double most = 1e9, near = 0.05;

static bool recognises(const struct machine_source *s)
{
    return s->text[strspn(s->text, " \t\r\n")] == '{' && strstr(s->text, "\"networks\"") &&
           strstr(s->text, "\"matrix\"");
}

/* matrix.tflops, or that of 16 bits: matrix.float16.tflops. */
static enum status read_tflops(const struct json_at *root, double *out)
{
    struct json_at matrix, type;
    PASS(json_field(root, "matrix", &matrix));
    PASS(json_optional(&matrix, "float16", &type));
    return json_need_real(type.value ? &type : &matrix, "tflops", 0, most, out);
}

/* By the peak of products of 16 bits, of several by the memory. */
static enum status find_gpu(const struct json_at *root, struct machine *m, const char **model)
{
    struct json_at memory;
    const struct gpu *best = NULL;
    double tflops, gib = 0, nearest = near;
    PASS(read_tflops(root, &tflops));
    PASS(json_optional(root, "mem1", &memory));
    if (memory.value)
        PASS(json_need_real(&memory, "GiB", 0, 1e12, &gib));
    for (size_t k = 0; k < gpus_n; k++) {
        const struct gpu *g = &gpus[k];
        double peak = fabs(g->peak[DATA_fp16] / (tflops * 1e12) - 1);
        double size = fabs((double)g->memory_bytes / (gib * 1073741824) - 1);
        double far = peak + 1e-3 * (size < 1 ? size : 1);
        if (peak <= near && far < nearest)
            best = g, nearest = far;
    }
    if (!best)
        return machine_warn(m, "no GPU of the catalogue computes %g TFLOP/s: --gpu says which",
                            tflops);
    *model = best->name;
    return machine_assume(m, "a processor of %g TFLOP/s and %g GiB is taken for %s", tflops, gib,
                          best->name);
}

/* What a processor attains of one network. */
static enum status read_network(const struct json_at *at, double *Bps, size_t *size)
{
    double bandwidth, efficiency = 1;
    int64_t n;
    PASS(json_need_real(at, "bandwidth", 0, most, &bandwidth));
    PASS(json_may_real(at, "efficiency", 0, 1, &efficiency));
    PASS(json_need_integer(at, "size", 1, 1 << 30, &n));
    if (!(bandwidth * efficiency > 0))
        return json_error(at, "a network without bandwidth");
    *Bps = bandwidth * efficiency * 1e9;
    *size = (size_t)n;
    return STATUS_OK;
}

/* A node: its GPUs, the switch of their NVLinks, and a port each. */
static enum status add_node(struct machine *m, size_t n, const double Bps[2], const char *model)
{
    uint32_t hub = 0, gpu, port;
    char name[32];
    m->nodes = 1;
    if (Bps[0] > 0)
        PASS(machine_add_part(m, MACHINE_NVSWITCH, 0, MACHINE_NONE, "nvswitch", &hub));
    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "GPU%zu", i);
        PASS(machine_add_part(m, MACHINE_GPU, 0, MACHINE_NONE, name, &gpu));
        m->part[gpu].model = model;
        if (Bps[0] > 0)
            PASS(machine_join(
                m, &(struct machine_link){.a = gpu, .b = hub, .count = 1, .Bps = Bps[0]}));
        if (!(Bps[1] > 0))
            continue;
        snprintf(name, sizeof name, "NIC%zu", i);
        PASS(machine_add_part(m, MACHINE_NIC, 0, MACHINE_NONE, name, &port));
        m->part[port].Bps = Bps[1];
    }
    return STATUS_OK;
}

static enum status read(const struct json_at *root, struct machine *m)
{
    struct json_at list;
    size_t n, size[2] = {0, 0}, gpus_of_node;
    double Bps[2] = {0, 0};
    const char *model = NULL;
    PASS(json_field(root, "networks", &list));
    PASS(json_get_array(&list, NETWORKS, &n));
    if (n == 0)
        return json_error(&list, "no network");
    for (size_t i = 0; i < n && i < 2; i++) {
        struct json_at one = json_item(&list, i);
        PASS(read_network(&one, &Bps[i], &size[i]));
    }
    if (n > 2)
        PASS(machine_warn(m, "networks beyond two are left out"));
    gpus_of_node = size[0];
    if (gpus_of_node > GPUS)
        return json_error(&list, "a node of %zu processors, expected up to %d", gpus_of_node, GPUS);
    if (gpus_of_node == 1) /* nothing to join */
        Bps[0] = 0;
    PASS(find_gpu(root, m, &model));
    if (n > 1)
        PASS(machine_assume(m, "one node of up to %zu processors; --nodes N for more", size[1]));
    PASS(machine_warn(m, "latencies, efficiencies by size, and the second memory are left out"));
    return add_node(m, gpus_of_node, Bps, model);
}

static enum status parse(const struct machine_source *s, struct machine *m)
{
    enum status st;
    struct json_document d = {0};
    TRY(json_parse(s->path, s->text, s->length, NULL, 0, &d));
    struct json_at root = json_root(&d);
    TRY(read(&root, m));
out:
    json_document_free(&d);
    return st;
}

const struct machine_format machine_calculon = {
    .name = "Calculon system",
    .summary = "systems of Calculon: a processor and the networks around it",
    .recognises = recognises,
    .parse = parse,
};
