/* Parts of the cores that a thread may use. */
#define _GNU_SOURCE
#include "exec/cores.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 65536 }; /* CPUs, as Linux numbers them */

/* A hardware thread. */
struct core_cpu {
    int core, number; /* core: the least number among its threads */
};

static int core_of(int number)
{
    char path[96];
    int core = number;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
             number);
    FILE *f = fopen(path, "r");
    if (!f)
        return number;
    if (fscanf(f, "%5d", &core) != 1)
        core = number;
    fclose(f);
    return core;
}

static int by_core(const void *a, const void *b)
{
    const struct core_cpu *x = a, *y = b;
    return x->core != y->core ? x->core - y->core : x->number - y->number;
}

/* Threads of the same core stand together; *cores: how many different ones. */
static size_t cores_list(const cpu_set_t *set, size_t bytes, struct core_cpu *cpu, size_t *cores)
{
    size_t n = 0;
    for (int k = 0; k < MOST; k++)
        if (CPU_ISSET_S((size_t)k, bytes, set))
            cpu[n++] = (struct core_cpu){core_of(k), k};
    qsort(cpu, n, sizeof *cpu, by_core);
    *cores = 0;
    for (size_t k = 0; k < n; k++)
        *cores += k == 0 || cpu[k].core != cpu[k - 1].core;
    return n;
}

void cores_bind(size_t i, size_t n)
{
    const size_t bytes = CPU_ALLOC_SIZE(MOST);
    cpu_set_t *set = CPU_ALLOC(MOST);
    struct core_cpu *cpu = calloc(MOST, sizeof *cpu);
    size_t cores, cpus, at = 0;
    if (n < 2 || !set || !cpu || sched_getaffinity(0, bytes, set) != 0)
        goto out;
    cpus = cores_list(set, bytes, cpu, &cores);
    if (cpus < n)
        goto out;
    bool whole = cores >= n;
    size_t parts = whole ? cores : cpus;
    CPU_ZERO_S(bytes, set);
    for (size_t k = 0; k < cpus; k++) {
        at += whole ? k > 0 && cpu[k].core != cpu[k - 1].core : k > 0;
        if (at >= i * parts / n && at < (i + 1) * parts / n)
            CPU_SET_S((size_t)cpu[k].number, bytes, set);
    }
    (void)sched_setaffinity(0, bytes, set);
out:
    free(cpu);
    if (set)
        CPU_FREE(set);
}
