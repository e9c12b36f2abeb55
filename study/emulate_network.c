/* Plans and commands on network namespaces: turns a platform into the options of exec/netns, runs
 * there what a plan or a command line says, and reads times back in the platform's seconds.
 *
 * With dilation F every link is F times slower than the platform's and every op of the plan takes F
 * times as long, so that a machine too slow for the platform can still carry it; measured times are
 * divided by F at the end. */
#include "study/emulate_network.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/limit.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "exec/launch/launch.h"
#include "exec/netns/netns.h"
#include "sim/platform/network.h"
#include "study/emulate_faults.h"
#include "study/evaluate.h"
#include "study/machine.h"

enum { PORT = 29500, MPIRUN = 1024 };

/* Each ability of the machine is a line: what is needed and missing is the error at the end. */
enum status emulate_check(void)
{
    struct netns_ability ability[NETNS_ABILITIES];
    const char *missing = NULL;
    PASS(netns_check(ability));
    for (int i = 0; i < NETNS_ABILITIES; i++) {
        const struct netns_ability *a = &ability[i];
        printf("%-11s %-8s %s\n", a->name,
               a->there    ? "yes"
               : a->needed ? "MISSING"
                           : "no",
               a->detail);
        if (a->needed && !a->there && !missing)
            missing = a->name;
    }
    if (missing)
        return error_set(
            STATUS_UNSUPPORTED,
            "cannot emulate networks on this machine: no %s; see foreline emulate --check",
            missing);
    return STATUS_OK;
}

/* How much of a link's rate arrives, as measured by sending over it. */
static void emulate_network_print_rate(const struct netns_rate *r, double dilation)
{
    char whole[UNITS_TEXT];
    units_print(UNIT_RATE, r->bandwidth_Bps, whole);
    printf("%-11s %-8s %.1f %% of %s", "link rate",
           fabs(r->share - 1) <= netns_exact ? "yes" : "no", 100 * r->share,
           units_of(UNIT_RATE, r->bandwidth_Bps / dilation).text);
    if (dilation != 1)
        printf(", which is %s dilated %g times", whole, dilation);
    printf("; %zu link%s\n", r->links, r->links == 1 ? "" : "s");
}

enum status emulate_check_platform(const char *platform, size_t ranks, double dilation)
{
    enum status st;
    struct topology t = {0};
    struct network net = {0};
    struct netns_rate *rate = NULL;
    size_t n = 0;
    char *path = NULL;
    TRY(load_topology(platform, &t, &path));
    TRY(platform_network(path, &t, &net));
    const struct netns_options options = {
        .topology = &t, .network = &net, .ranks = ranks ? ranks : t.n, .dilation = dilation};
    TRY(netns_check_rates(&options, &dilation, &rate, &n));
    for (size_t i = 0; i < n; i++)
        emulate_network_print_rate(&rate[i], dilation);
    if (n == 0)
        printf("%-11s %-8s no links between nodes\n", "link rate", "none");
out:
    free(rate);
    network_free(&net);
    topology_free(&t);
    free(path);
    return st;
}

void emulate_warn_of_bundles(const struct topology *t)
{
    if (topology_has_lanes(t) && t->paths != PATHS_ECMP)
        fprintf(stderr,
                "warning: parallel cables are emulated as one link with ideal load balance. To "
                "hash connections onto single cables, set paths=ecmp in the platform\n");
}

/* Ranks are on devices 0, 1, ... of the platform. The process takes over the exit status of the
 * first program that fails, as mpirun does. */
enum status emulate_command(const char *platform, const struct emulate_command *c)
{
    enum status st;
    struct topology t = {0};
    struct network net = {0};
    char *path = NULL;
    int code = 0;

    if (!c->shell && !c->words[0])
        return error_set(STATUS_USAGE, "expected '-- COMMAND...' after --platform, or --shell");
    if (c->shell && c->words[0])
        return error_set(STATUS_USAGE, "--shell takes no command");
    TRY(load_topology(platform, &t, &path));
    TRY(platform_network(path, &t, &net));
    emulate_warn_of_bundles(&t);
    const struct netns_options options = {.topology = &t,
                                          .network = &net,
                                          .ranks = c->ranks ? c->ranks : t.n,
                                          .dilation = c->dilation,
                                          .command = c->words,
                                          .notes = stderr,
                                          .shell = c->shell,
                                          .port = PORT};
    TRY(netns_run(&options, &code));
out:
    network_free(&net);
    topology_free(&t);
    free(path);
    if (code) /* the program's own: 1 and 2 are ours */
        exit(code);
    return st;
}

enum status emulate_join(const char *host, size_t pid)
{
    int code = 0;
    if (pid > INT32_MAX)
        return error_set(STATUS_USAGE, "--pid: got %zu, expected the id of a process", pid);
    enum status st = netns_join(host, (uint32_t)pid, PORT, &code);
    if (code)
        exit(code);
    return st;
}

enum status emulate_parse_dilation(const char *text, double *out)
{
    double value = 0;
    if (strcmp(text, "auto") != 0 && !(text_real(text, &value) && value > 0 && value <= 1e9))
        return error_set(STATUS_USAGE, "--dilate: got %s, expected auto or a number above 0", text);
    *out = value;
    return STATUS_OK;
}

/* ---- a plan's workers */

struct plan_job {
    const struct loaded_plan *p;
    const struct emulate_options *o;
    enum status (*done)(void *argument, struct measurement *m, const struct timeline *t);
    void *argument;
};

enum status emulate_dilate(const struct program *p, double factor, struct program *out,
                           struct program_op **ops)
{
    PASS(ARRAY_COPY(*ops, p->op, p->ops + 1)); /* with the sentinel */
    for (size_t i = 0; i < p->ops; i++)
        (*ops)[i].seconds *= factor;
    *out = *p;
    out->op = *ops;
    return STATUS_OK;
}

/* Daemons through our remote shell, MPI over the emulated links only. */
static enum status emulate_network_write_mpirun(const struct netns_inside *inside,
                                                char words[MPIRUN])
{
    if (!inside->hosts)
        return error_set(
            STATUS_UNSUPPORTED,
            "--transport mpi: the plan must number the ranks of each node consecutively");
    int n = snprintf(words, MPIRUN,
                     "-H %s --map-by slot --mca plm rsh --mca plm_rsh_agent %s "
                     "--mca plm_rsh_no_tree_spawn 1 --mca pml ob1 --mca btl tcp,self "
                     "--mca btl_tcp_if_include 10.99.0.0/16 --mca oob_tcp_if_include 10.99.0.0/16",
                     inside->hosts, inside->remote_shell);
    return n < MPIRUN ? STATUS_OK
                      : error_set(STATUS_UNSUPPORTED,
                                  "--transport mpi: the host list does not fit into mpirun's "
                                  "command line of %d characters; use fewer nodes",
                                  MPIRUN - 1);
}

/* Inside the namespaces: workers are launched as anywhere else, told which addresses the ranks
 * have. Silences are dilated like everything else, and shorter where a link is going to fail, for
 * then a silence is what has to be found. */
static enum status emulate_network_run_workers(void *argument, const struct netns_inside *inside)
{
    enum status st;
    const struct plan_job *j = argument;
    struct measurement m = {0};
    struct timeline t = {0};
    struct program program;
    struct program_op *ops = NULL;
    char words[MPIRUN] = "";
    const struct faults *faults = j->o->faults;
    double silent_s = limit_wait(faults_of_links(faults) ? 10 : 60);
    struct fault_clock clock = {0};
    bool paced = j->o->real && j->o->dilation != 1;
    const struct launch_options o = {.transport = j->o->mpi ? "mpi" : "tcp",
                                     .mpirun = words,
                                     .address = inside->address,
                                     .device = j->o->real ? "cpu" : "paced",
                                     .collective = j->o->collective,
                                     .paced = paced,
                                     .steps = j->o->steps,
                                     /* the first step is not judged: it makes its memory */
                                     .warmup = paced && j->o->warmup == 0 ? 1 : j->o->warmup,
                                     .learning_rate = 0.001,
                                     .timeout_s = fmin(silent_s * inside->dilation, 1e6),
                                     .measuring = faults->n > 0 ? fault_clock_start : NULL,
                                     .measuring_context = &clock,
                                     .dilation = inside->dilation,
                                     .delay = inside->delay,
                                     .latency_s = inside->latency_s,
                                     .enter = inside->enter,
                                     .enter_context = inside->context,
                                     .network = inside->line};
    /* Of this process and its workers only; the sandbox's /dev/shm goes with it. */
    setenv("FORELINE_PEERS", inside->addresses, 1);
    setenv("TMPDIR", "/dev/shm", 1);
    if (j->o->mpi)
        TRY(emulate_network_write_mpirun(inside, words));
    TRY(emulate_dilate(&j->p->program, inside->dilation, &program, &ops));
    TRY(fault_clock_open(faults, &j->p->program, inside, j->o->log, &clock));
    st = launch_run(&program, &j->p->model, &o, &m, &t);
    if (st == STATUS_UNSUPPORTED && paced)
        st = error_context(
            st, "emulated time is stretched by a factor of %g, which is too little; raise --dilate",
            inside->dilation);
    TRY(fault_clock_close(&clock, st));
    if (j->o->real && !paced)
        machine_measure_cpu(&j->p->model, &j->p->program, &j->p->topology, true, &m);
    else
        machine_measure(&j->p->model, &j->p->program, &j->p->topology, &m);
    TRY(j->done(j->argument, &m, &t));
    if (fflush(stdout) != 0)
        st = error_set(STATUS_IO, "standard output");
out:
    free(ops);
    timeline_free(&t);
    measurement_free(&m);
    return st;
}

double emulate_mean_traffic(const struct program *p, const struct topology *t)
{
    double bytes = 0, busiest_s = 0;
    for (size_t r = 0; r < p->ranks; r++) {
        double busy_s = 0, sends_s = 0;
        for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++) {
            const struct program_op *o = &p->op[i];
            bytes += op_computes(o) || o->kind == OP_RECV ? 0 : (double)o->bytes;
            busy_s += op_computes(o) ? o->seconds : 0;
            if (o->kind == OP_SEND)
                sends_s +=
                    (double)o->bytes /
                    topology_between(t, p->rank[r].device, p->rank[o->peer].device)->bandwidth_Bps;
        }
        busiest_s = fmax(busiest_s, fmax(busy_s, sends_s));
    }
    return busiest_s > 0 ? bytes / busiest_s : 0;
}

/* Namespaces live as long as the process that makes them, so all of it is a process of its own. */
enum status emulate_plan(const struct loaded_plan *p, const struct emulate_options *o,
                         enum status (*done)(void *argument, struct measurement *m,
                                             const struct timeline *t),
                         void *argument)
{
    enum status st;
    struct network net = {0};
    struct plan_job job = {p, o, done, argument};
    uint32_t *device = NULL;
    TRY(ARRAY_NEW(device, p->program.ranks));
    for (size_t r = 0; r < p->program.ranks; r++)
        device[r] = p->program.rank[r].device;
    TRY(platform_network(p->platform, &p->topology, &net));
    emulate_warn_of_bundles(&p->topology);
    TRY(fault_check(o->faults, &p->program, &net));
    const struct netns_options options = {.topology = &p->topology,
                                          .network = &net,
                                          .ranks = p->program.ranks,
                                          .device = device,
                                          .notes = stderr,
                                          .delays = !o->mpi,
                                          .traffic_Bps =
                                              emulate_mean_traffic(&p->program, &p->topology),
                                          .dilation = o->dilation};
    TRY(netns_call(&options, emulate_network_run_workers, &job));
out:
    network_free(&net);
    free(device);
    return st;
}
