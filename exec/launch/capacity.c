/* Can this machine hold the ranks that are to be started on it? Asked before the first one is. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "core/base/limit.h"
#include "core/base/units.h"
#include "core/data/program_check.h"
#include "exec/launch/run.h"

/* Of a worker without a model, and of the launcher's descriptors besides one for each rank. */
static const double process_bytes = 8 << 20;
enum { DESCRIPTORS = 64, LINE = 4096 };
/* Values of JSON in memory over their text, as core/base/limits.def has it. */
static const double parsed = 5;

/* ---- what there is */

/* The number behind `key` in a file of such lines, "" for a file that is one number; -1: none. */
static double number_in(const char *path, const char *key)
{
    char line[256];
    double found = -1;
    FILE *f = fopen(path, "r");
    while (f && found < 0 && fgets(line, sizeof line, f))
        if (!strncmp(line, key, strlen(key)))
            (void)sscanf(line + strlen(key), " %lf", &found);
    if (f)
        fclose(f);
    return found;
}

/* What a control group of this process (version 2), or one above it, leaves; INFINITY: no limit.
 * Its cache of files can be had. */
static double left_in_groups(void)
{
    char line[LINE], path[LINE + 64], group[LINE] = "";
    double left = INFINITY;
    FILE *f = fopen("/proc/self/cgroup", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "0::", 3))
            snprintf(group, sizeof group, "%.*s", (int)strcspn(line + 3, "\n"), line + 3);
    if (f)
        fclose(f);
    for (char *end = group + strlen(group); end; end = strrchr(group, '/')) {
        *end = '\0';
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", group);
        double most = number_in(path, "");
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.current", group);
        double used = number_in(path, "");
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.stat", group);
        double cache = number_in(path, "inactive_file ");
        if (most >= 0 && used >= 0)
            left = fmin(left, fmax(0, most - used + fmax(0, cache)));
    }
    return left;
}

/* Bytes; INFINITY: not known. */
static double available(void)
{
    double free_kib = number_in("/proc/meminfo", "MemAvailable:"), groups = left_in_groups();
    return fmin(groups, free_kib >= 0 ? free_kib * 1024 : INFINITY);
}

/* ---- what is needed */

static bool is_here(const struct launch_state *run, uint32_t rank)
{
    size_t local;
    if (launch_by_environment(run))
        return rank >= run->meeting.rank && rank - run->meeting.rank < run->meeting.ranks;
    const char *host = run->hosts.n ? hosts_of(&run->hosts, rank, &local) : NULL;
    return !run->hosts.n || (host && hosts_is_here(host));
}

static double file_bytes(const char *path)
{
    struct stat s;
    return stat(path, &s) ? 0 : (double)s.st_size;
}

struct need {
    size_t ranks;         /* on this machine */
    double bytes, most;   /* of their models, and of the largest one */
    double process_bytes; /* of a process besides */
};

/* Models are in the host's memory where it computes them; paced ops have none. */
static struct need need_of(const struct launch_state *run)
{
    struct need n = {.process_bytes =
                         process_bytes + parsed * (file_bytes(run->files.program_path) +
                                                   file_bytes(run->files.model_path))};
    bool computes = !strcmp(run->options->device, "cpu");
    for (uint32_t r = 0; r < run->program->ranks; r++) {
        uint32_t at;
        if (!is_here(run, r))
            continue;
        double bytes = computes ? (double)program_peak(run->program, r, &at) : 0;
        n.ranks++;
        n.bytes += bytes;
        n.most = fmax(n.most, bytes);
    }
    return n;
}

static enum status launch_capacity_check_memory(const struct need *n, bool one)
{
    double all = n->bytes + n->process_bytes * (double)(one ? 1 : n->ranks), has = available();
    if (all <= has * limit(LIMIT_overcommit))
        return STATUS_OK;
    return error_set(STATUS_INFEASIBLE,
                     "out of memory: %zu ranks on this machine need about %s (up to %s each, and "
                     "%s per process), %s available. Spread them over machines with --hosts, or "
                     "run anyway with --limit overcommit=%.0f",
                     n->ranks, units_of(UNIT_BYTES, all).text, units_of(UNIT_BYTES, n->most).text,
                     units_of(UNIT_BYTES, n->process_bytes).text, units_of(UNIT_BYTES, has).text,
                     ceil(all / fmax(has, 1)));
}

/* One connection for each rank of the run, and a few threads for each rank here. */
static enum status check_processes(const struct launch_state *run, const struct need *n, bool one)
{
    struct rlimit files, processes;
    size_t descriptors = run->program->ranks + DESCRIPTORS;
    if (!getrlimit(RLIMIT_NOFILE, &files) && files.rlim_cur != RLIM_INFINITY &&
        files.rlim_cur < descriptors)
        return error_set(STATUS_INFEASIBLE,
                         "%zu ranks need %zu open files, but the limit is %" PRIu64
                         "; raise it with ulimit -n %zu",
                         run->program->ranks, descriptors, (uint64_t)files.rlim_cur, descriptors);
    if (!one && !getrlimit(RLIMIT_NPROC, &processes) && processes.rlim_cur != RLIM_INFINITY &&
        processes.rlim_cur < 2 * n->ranks)
        return error_set(
            STATUS_INFEASIBLE,
            "%zu ranks on this machine need %zu processes and threads, but the limit is %" PRIu64
            "; raise it with ulimit -u %zu, or spread the ranks over machines with --hosts",
            n->ranks, 2 * n->ranks, (uint64_t)processes.rlim_cur, 4 * n->ranks);
    return STATUS_OK;
}

enum status launch_check_capacity(const struct launch_state *run)
{
    const struct launch_options *o = run->options;
    bool one = launch_in_one_process(run);
    if (launch_by_hand(run) || o->mpirun || (o->launcher && !launch_by_environment(run)))
        return STATUS_OK; /* where ranks will be, others know */
    struct need n = need_of(run);
    PASS(check_processes(run, &n, one));
    return launch_capacity_check_memory(&n, one);
}
