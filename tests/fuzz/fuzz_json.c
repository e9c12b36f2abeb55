/* All JSON readers of core on the same input: each decides by "format" whether it is meant. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/data/measurement.h"
#include "core/data/model.h"
#include "core/data/plan.h"
#include "core/data/program.h"
#include "core/data/topology.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(const char *path)
{
    struct model model = {0};
    struct program program = {0};
    struct measurement measurement = {0};
    if (model_read(path, &model) == STATUS_OK)
        model_free(&model);
    if (program_read(path, &program) == STATUS_OK)
        program_free(&program);
    if (measurement_read(path, &measurement) == STATUS_OK)
        measurement_free(&measurement);
}

/* A plan needs a model and a topology to be read against. */
static void read_plan(const char *path)
{
    static char a[] = "a", b[] = "b", kind[] = "x", name[] = "m";
    static size_t start[3] = {0, 0, 1}, end[3] = {0, 1, 1};
    static uint32_t in[1] = {0}, out[1] = {1}, type_of[2];
    static struct model_op op[2] = {{.name = a, .kind = kind, .shares = MODEL_NO_OP},
                                    {.name = b, .kind = kind, .shares = MODEL_NO_OP}};
    static char *device[2] = {a, b};
    static struct device_type type = {.name = name, .flops = 1, .memory_Bps = 1, .memory_bytes = 1};
    static struct topology_tier tier = {name, 0, 1};
    const struct model m = {.name = name,
                            .element_bytes = 4,
                            .n = 2,
                            .op = op,
                            .edges = 1,
                            .in_start = start,
                            .out_start = end,
                            .in = in,
                            .out = out};
    const struct topology t = {.name = name,
                               .n = 2,
                               .device = device,
                               .type_of = type_of,
                               .types = 1,
                               .type = &type,
                               .tiers = 1,
                               .tier = &tier};
    struct json_document d = {0};
    struct plan p = {0};
    if (json_read(path, plan_format, PLAN_VERSION, &d) == STATUS_OK &&
        plan_read(&d, &m, &t, &p) == STATUS_OK)
        plan_free(&p);
    json_document_free(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int fd = memfd_create("input", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    read_all(path);
    read_plan(path);
    close(fd);
    return 0;
}
