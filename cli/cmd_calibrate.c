/* calibrate - measure what ops and messages cost on this machine and write a platform. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/progress.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/data/topology.h"
#include "exec/calibrate/calibrate.h"
#include "host/screen.h"
#include "study/fit.h"
#include "study/load.h"
#include "topologies/write.h"

/* Of GPUs: what the host and the clocks were. */
static void print_gpu(const struct calibration *c, FILE *out)
{
    const struct device_type *type = &c->topology.type[0];
    if (c->host_s > 0)
        fprintf(out, "host        %s per launch\n", units_of(UNIT_SECONDS, c->host_s).text);
    if (type->curves > 0)
        fprintf(out, "beside      collectives an op takes %.3g times as long\n",
                1 + type->slowdown);
    if (c->clock_Hz > 0)
        fprintf(out, "at work     %.0f MHz, memory %.0f MHz, %.3g W\n", c->clock_Hz / 1e6,
                c->memory_Hz / 1e6, type->watts);
}

/* Of CPUs: what multiplied, beside what the instructions allow. */
static void calibrate_print_cpu(const struct calibration *c, FILE *out)
{
    if (!*c->library)
        return;
    fprintf(out, "computed by %s: products %s", c->library,
            units_of(UNIT_FLOPS, c->gemm_flops).text);
    if (c->fma_flops > 0)
        fprintf(out, " of %s", units_of(UNIT_FLOPS, c->fma_flops).text);
    fprintf(out, "\n");
}

static void calibrate_print_machine(const struct calibration *c, FILE *out)
{
    const struct topology *t = &c->topology;
    const struct calibrate_spread *spread = &c->noise.spread;
    const struct device_type *type = &t->type[0];
    fprintf(out,
            "%zu rank%s at the same time; interquartile range / median of repetitions: %.1f %% "
            "(median figure), %.0f %% (worst)\n",
            t->n, t->n == 1 ? "" : "s", 100 * spread->median, 100 * spread->worst);
    fprintf(out, "memory      %s", units_of(UNIT_RATE, type->memory_Bps).text);
    fprintf(out, ", %s per rank\n", units_of(UNIT_BYTES, (double)type->memory_bytes).text);
    for (size_t k = 0; k < t->tiers; k++) {
        fprintf(out, "messages    latency %s", units_of(UNIT_SECONDS, t->tier[k].latency_s).text);
        fprintf(out, ", bandwidth %s\n", units_of(UNIT_RATE, t->tier[k].bandwidth_Bps).text);
    }
    print_gpu(c, out);
    calibrate_print_cpu(c, out);
    fprintf(out, "\n%-20s %14s  %s\n", "op", "rate",
            "at so much work per call: smallest to largest of the points");
    for (size_t k = 0; k < type->rates; k++) {
        const struct topology_rate *r = &type->rate[k];
        size_t last = r->n - 1;
        fprintf(out, "%-20s %14s", r->kind, units_of(UNIT_FLOPS, r->flops[0]).text);
        fprintf(out, "  %-12s", units_of(UNIT_FLOP, r->flop[0]).text);
        fprintf(out, " to %14s", units_of(UNIT_FLOPS, r->flops[last]).text);
        fprintf(out, "  %s (%zu points)\n", units_of(UNIT_FLOP, r->flop[last]).text, r->n);
    }
}

static const char *timing_name(const struct calibrate_timing *t)
{
    return t->collective ? collective_kind_name[t->kind] : "send";
}

static void calibrate_print_table(const struct calibration *c, const char *transport, FILE *out)
{
    const char *name = "";
    size_t members = 0;
    for (size_t k = 0; k < c->timings; k++) {
        const struct calibrate_timing *t = &c->timing[k];
        size_t n = t->members;
        double algbw = (double)t->bytes / t->seconds;
        double factor = t->collective ? collective_bus_factor(t->kind, n) : 1;
        if (strcmp(name, timing_name(t)) != 0 || t->members != members) {
            name = timing_name(t);
            members = t->members;
            fprintf(out, "\n# %s, %zu ranks, %s\n", name, t->collective ? n : 2, transport);
            if (t->collective && t->kind == COLLECTIVE_REDUCESCATTER)
                fprintf(out,
                        "# (size is the input, as in nccl-tests; by the output, busbw is 1/%zu)\n",
                        n);
            fprintf(out, "# %10s %12s %8s %12s %10s %10s %12s %6s\n", "size (B)", "count", "type",
                    "time (us)", "algbw GB/s", "busbw GB/s", "model (us)", "ratio");
        }
        fprintf(out, "  %10lld %12lld %8s %12.2f %10.3f %10.3f %12.2f %6.2f\n", (long long)t->bytes,
                (long long)t->bytes / 4, "float", t->seconds * 1e6, algbw / 1e9,
                algbw * factor / 1e9, t->model_s * 1e6, t->seconds / t->model_s);
    }
}

/* Figures of a busy machine are refused, or marked: here, in the name of what is written, and as a
 * property that plans and predictions warn of. */
static enum status calibrate_check_noise(struct calibration *c, bool force)
{
    char doubt[CALIBRATE_DOUBT], name[CALIBRATE_DOUBT + 64];
    enum calibrate_verdict verdict = calibrate_judge(&c->noise, doubt);
    if (verdict == CALIBRATE_IDLE)
        return STATUS_OK;
    if (verdict == CALIBRATE_USELESS && !force)
        return error_set(STATUS_INFEASIBLE,
                         "the machine is too busy to calibrate: %s; nothing was written. Stop "
                         "other work, or keep the results with --force",
                         doubt);
    fprintf(stderr, "warning: the machine was not idle: %s\n", doubt);
    for (size_t k = 0; k < c->topology.types; k++)
        c->topology.type[k].busy_spread = fmax(c->noise.spread.median, 1e-3);
    snprintf(name, sizeof name, "calibrated on a busy machine (%s)", doubt);
    free(c->topology.name);
    return text_copy(name, &c->topology.name);
}

/* Ranks that are too many for the cores are refused before they have measured for a minute. mpirun
 * may know other machines. */
static enum status check_cores(const struct arguments *a, bool gpu, size_t ranks)
{
    char doubt[CALIBRATE_DOUBT];
    size_t cores = calibrate_cores();
    if (gpu || a->measure.force || strcmp(a->launch.transport, "tcp") != 0 ||
        calibrate_foresee(ranks, cores, doubt) != CALIBRATE_USELESS)
        return STATUS_OK;
    return error_set(STATUS_INFEASIBLE,
                     "%zu ranks cannot be measured on %zu core%s: each rank needs a core. Use "
                     "fewer with --ranks or PLATFORM@devices=%zu, or measure anyway with --force",
                     ranks, cores, cores == 1 ? "" : "s", cores);
}

/* What was measured takes the names of a platform's devices, and what ranks cannot measure of them:
 * memory, peaks, the way to the host, watts and price. Their type is the one that profiles of
 * models are of. */
static void calibrate_complete(struct topology *t, struct topology *from)
{
    struct device_type *to = t->type;
    const struct device_type *known = from->type;
    char **device = t->device;
    t->device = from->device;
    from->device = device;
    to->memory_bytes = known->memory_bytes;
    to->framework_bytes = known->framework_bytes;
    memcpy(to->peak, known->peak, sizeof to->peak);
    to->host_Bps = known->host_Bps;
    to->host_memory_Bps = known->host_memory_Bps;
    to->watts = known->watts;
    to->price_per_hour = known->price_per_hour;
}

/* The platform to complete, and how many ranks measure: one for each of its devices. */
static enum status read_platform(const struct arguments *a, size_t *ranks, struct topology *t)
{
    enum status st;
    char *path = NULL;
    TRY(load_topology(a->platform, t, &path));
    if (t->types != 1)
        FAIL(STATUS_INVALID,
             "%s: platform has %zu types of devices, expected one, because all ranks run on this "
             "machine",
             a->platform, t->types);
    if (t->type->peak[DATA_bf16] > 0)
        FAIL(STATUS_INVALID,
             "%s: devices are %s, but calibrate measures CPU cores. Try --device cuda", a->platform,
             t->type->name);
    if (*ranks > 0 && *ranks != t->n)
        FAIL(
            STATUS_USAGE,
            "--ranks: got %zu, but %s has %zu devices; drop --ranks to measure one rank per device",
            *ranks, a->platform, t->n);
    *ranks = t->n;
out:
    free(path);
    return st;
}

/* Nothing is measured here: constants of a platform, by what was measured anywhere. */
static enum status calibrate_fit_platform(const struct invocation *in)
{
    enum status st;
    static const volatile int never;
    const struct arguments *a = &in->a;
    struct fit f = {0};
    struct progress progress = {.what = "fitting", .of = "predictions", .interrupted = &never};
    const struct simulation_watch watch = progress_watch(&progress);
    const struct fit_options o = {
        .rows = a->measure.from, .only = a->measure.fit, .watch = &watch, .notes = stderr};
    PASS(arguments_check(a, TAKES(CALIBRATE_FROM)));
    if (a->platform && !a->output)
        return error_set(STATUS_USAGE, "--platform has no effect without -o, which writes it with "
                                       "the fitted constants");
    PASS(arguments_try_files(a));
    st = fit_measured(&o, &f);
    progress_end(&progress);
    TRY(st);
    if (a->output)
        TRY(fit_write_platform(&f, a->platform, a->output, &in->by));
    if (a->json)
        fit_print_json(&f, &in->by, arguments_prose(a));
    else
        fit_print(&f, arguments_prose(a));
    fit_warn(&f, stderr);
out:
    fit_free(&f);
    return st;
}

/* Of --model, if there is one: its numbers are those that are measured in. */
static enum status load_shapes(const struct arguments *a, struct model *m)
{
    bool half = !strcmp(a->run.dtype, "bf16");
    if (!a->model && arguments_given(a, "batch"))
        return error_set(STATUS_USAGE, "--batch needs --model");
    if (!a->model)
        return STATUS_OK;
    PASS(load_model(a->model, m));
    if (arguments_given(a, "dtype") && half != (m->element_bytes == 2))
        return error_set(STATUS_USAGE,
                         "--dtype %s does not match model %s, which has %lld bytes per parameter",
                         a->run.dtype, a->model, (long long)m->element_bytes);
    if (m->element_bytes != 2 && m->element_bytes != 4)
        return error_set(
            STATUS_UNSUPPORTED,
            "model %s has %lld bytes per parameter, expected 4 (fp32) or 2 (bf16, fp16)", a->model,
            (long long)m->element_bytes);
    return STATUS_OK;
}

/* Bytes of the largest message or collective; 0: the CPU's default. */
static int64_t calibrate_largest_of(const struct arguments *a, bool gpu)
{
    if (arguments_given(a, "largest"))
        return (int64_t)fmin(a->measure.largest_bytes, 1e18);
    return gpu ? INT64_C(4) << 30 : 0;
}

static enum status cmd_calibrate(struct invocation *in)
{
    enum status st;
    const struct arguments *a = &in->a;
    struct calibration c = {0};
    struct topology platform = {0};
    char host[256] = "";
    const bool gpu = !strcmp(a->launch.device, "cuda"), half = !strcmp(a->run.dtype, "bf16");
    struct model m = {0};
    struct calibrate_options o = {
        .ranks = gpu && a->run.ranks == 0 ? 1 : a->run.ranks,
        .half = half ? ELEMENT_BF16 : ELEMENT_FP32,
        .cudnn = a->launch.cudnn,
        .repeats = a->run.repeats,
        .notes = screen_drawing(),
        .transport = a->launch.transport,
        .model = a->model ? &m : NULL,
        .batch = a->batch,
        .largest = calibrate_largest_of(a, gpu),
        .curves = a->measure.curves,
    };
    PASS(command_expect(in, 0, "no operands"));
    if (a->measure.from)
        return calibrate_fit_platform(in);
    TRY(arguments_check(a, (gpu ? TAKES(CALIBRATE_CUDA) : TAKES(CALIBRATE_CPU)) |
                               (a->json ? TAKES(CALIBRATE_JSON) : 0)));
    if (half && !gpu)
        return error_set(STATUS_USAGE,
                         "--dtype bf16 needs --device cuda: CPUs are measured in fp32 only");
    if (gpu && (o.largest < 1 << 10 || o.largest > INT64_C(1) << 40))
        return error_set(STATUS_USAGE, "--largest: expected 1 KiB to 1 TiB");
    if (a->measure.curves && !a->output && !a->json)
        return error_set(STATUS_USAGE, "--curves needs -o FILE.xml");
    TRY(load_shapes(a, &m));
    if (a->platform)
        TRY(read_platform(a, &o.ranks, &platform));
    o.ranks = o.ranks > 0 ? o.ranks : 2;
    TRY(check_cores(a, gpu, o.ranks));
    TRY(arguments_try_files(a));
    TRY(gpu ? calibrate_cuda(&o, &c) : calibrate_cpu(&o, &c));
    TRY(calibrate_check_noise(&c, a->measure.force));
    if (a->platform)
        calibrate_complete(&c.topology, &platform);
    if (gethostname(host, sizeof host - 1) == 0)
        in->by.host = host;
    if (a->output)
        TRY(topology_write_platform(&c.topology, a->output, &in->by));
    if (a->measure.matrix)
        TRY(calibration_write_matrix(&c, a->measure.matrix));
    if (a->json && arguments_prose(a) == stdout)
        TRY(topology_write(&c.topology, "-", &in->by));
    else if (!a->json)
        calibrate_print_machine(&c, arguments_prose(a));
    if (a->measure.table)
        calibrate_print_table(&c, gpu ? "nccl" : a->launch.transport, arguments_prose(a));
out:
    calibration_free(&c);
    topology_free(&platform);
    model_free(&m);
    return st;
}

const struct command command_calibrate = {
    .name = "calibrate",
    .synopsis = "",
    .summary = "measure this machine and write a platform file",
    .details =
        "Starts N ranks that measure at the same time, as they will run: the speed of every type "
        "of\n"
        "layer and optimizer at several sizes per call, memory bandwidth by copying, latency and\n"
        "bandwidth of messages between every pair of ranks over the transport (4 KiB to "
        "--largest,\n"
        "fitted as latency + bytes / bandwidth), then collectives of all ranks. Uses medians of "
        "the\n"
        "repetitions after a warm-up and prints their spread. A machine that was not idle\n"
        "(repetitions more than 20 % apart in the median figure, a rank with a core for less than\n"
        "95 % of its time, other work on the ranks' cores) is marked in the platform file. A busy\n"
        "machine (100 %, 75 %) is refused. With --transport mpi, mpirun starts the ranks\n"
        "(foreline-worker-mpi).\n"
        "\n"
        "With --device cuda each rank is a GPU of this machine. foreline-worker-cuda measures it "
        "with\n"
        "CUDA events around many calls in a queue. With several GPUs, NCCL carries messages and\n"
        "collectives: all-reduce, reduce-scatter, all-gather, all-to-all and broadcast of groups "
        "of\n"
        "2 ... N ranks from 1 KiB to --largest become curves of the platform, and the slowdown of "
        "ops\n"
        "beside them becomes its slowdown. --model measures the shapes of a model and of its "
        "shards.\n"
        "Prints the host's time per launch, clocks and power (from NVML); the platform stores the\n"
        "power as watts.\n"
        "\n"
        "--table prints size, count, type, time, algbw and busbw as nccl-tests define them, and "
        "the\n"
        "prediction of the fitted platform: for messages the fit, for collectives the closed form "
        "of a\n"
        "ring (all-to-all: of every pair); ratio = measured / predicted. With --curves the "
        "platform\n"
        "stores the measured times of collectives size by size, and predictions for all ranks use "
        "them.\n"
        "\n"
        "With --from, foreline measures nothing here. It fits constants of the platform (FLOP/s "
        "of\n"
        "matrix multiplications and attention, bandwidth of memory and links, seconds of the host "
        "and\n"
        "of collectives) to measured runs, as many constants as these runs can determine, and "
        "writes\n"
        "the platform with them. Prints which constants the runs determine, their uncertainty, "
        "and\n"
        "the error on runs left out. 'foreline lab kernels', or --kernels, fits the constants of\n"
        "kernels and collectives.\n"
        "\n"
        "The platform file has one host per rank, rank0, rank1, ..., with the measured rates as\n"
        "properties: `foreline plan --platform FILE` predicts with them. With --platform, the file "
        "has\n"
        "the devices of that platform with their memory, and the measurements for the rest: this\n"
        "completes a file of 'topology discover'.",
    .examples =
        "foreline calibrate -o here.xml\n"
        "foreline topology discover -o found.xml && foreline calibrate --platform found.xml "
        "-o here.xml\n"
        "foreline calibrate --from runs.csv -o here.xml\n",
    .often = "from device platform ranks transport model repeats curves table output json",
    .run = cmd_calibrate,
    .lab_option = "--kernels",
    .lab_command = "kernels",
};
