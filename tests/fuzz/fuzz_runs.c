/* Runs that others recorded, in every format: read, taken apart and written as a timeline; times of
 * a rank add up, and whatever is refused has one line. */
#define _GNU_SOURCE /* memfd_create() */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/provenance.h"
#include "measured/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_times(const struct run_times *t, size_t n)
{
    for (size_t r = 0; r < n; r++)
        if (!(fabs(t[r].busy_s + t[r].exposed_s + t[r].idle_s - t[r].window_s) <=
              1e-9 * t[r].window_s) ||
            t[r].busy_s < 0 || t[r].exposed_s < 0 || t[r].idle_s < 0 ||
            t[r].copy_alone_s > t[r].copy_s * (1 + 1e-9))
            abort();
}

/* Once more with layers: the profile of a chain is one of a model. */
static void read_layers(const char *path, enum run_layers layers)
{
    const struct run_profile_options o = {.samples = 1, .microbatches = 2, .tensor_parallel = 1};
    struct measured_run run = {0};
    struct model m = {0};
    struct run_profile_told t;
    enum status st = measured_run_read(&path, 1, layers, &run);
    if (st == STATUS_OK)
        st = measured_run_profile(&run, path, &o, &m, &t);
    if (st == STATUS_OK && (m.profiles != 1 || t.layers == 0 || !(t.all_s > 0)))
        abort();
    if (st != STATUS_OK && (!*error_message() || strchr(error_message(), '\n')))
        abort();
    measured_run_free(&run);
    model_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct provenance by = {"fuzz", "fuzz", NULL, 0};
    const struct run_options o = {.samples = 8, .tokens = 64, .devices = 2};
    struct measured_run run = {0};
    struct measurement m = {0};
    struct run_times *t = NULL;
    char name[32];
    const char *path = name;
    int fd = memfd_create("run", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    enum status st = measured_run_read(&path, 1, LAYERS_NONE, &run);
    if (st == STATUS_OK && !(t = calloc(run.ranks + 1, sizeof *t)))
        abort();
    if (st == STATUS_OK && (st = measured_run_measure(&run, path, &o, &m, t)) == STATUS_OK) {
        check_times(t, run.ranks);
        if (run.ranks > 0)
            st = measured_run_trace(&run, 0, "/dev/null", &by);
    }
    if (st != STATUS_OK && (!*error_message() || strchr(error_message(), '\n')))
        abort();
    read_layers(path, size & 1 ? LAYERS_OPS : LAYERS_RANGES);
    free(t);
    measurement_free(&m);
    measured_run_free(&run);
    close(fd);
    return 0;
}
