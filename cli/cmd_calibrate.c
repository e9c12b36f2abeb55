/* calibrate - measure what ops and messages cost on this machine and write a platform. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "core/json.h"
#include "core/topology.h"
#include "core/units.h"
#include "exec/calibrate.h"
#include "topologies/write.h"

static const char *device = "cpu", *output;
static size_t ranks = 2, repeats = 5;
static bool json;

static const struct option_spec options[] = {
    {OPTION_STRING, "device", &device, "cpu", "what to measure"},
    {OPTION_SIZE, "ranks", &ranks, "N", "processes that measure at the same time"},
    {OPTION_SIZE, "repeats", &repeats, "N", "timed repetitions; the median counts"},
    {OPTION_STRING, "output", &output, "FILE", "write the platform as SimGrid XML (also -o)"},
    {OPTION_FLAG, "json", &json, NULL, "print the topology as JSON, SI units"},
    {.type = OPTION_END},
};

static void print(const struct topology *t, const struct calibrate_spread *spread)
{
    char a[UNITS_TEXT], b[UNITS_TEXT];
    const struct device_type *type = &t->type[0];
    printf("%zu ranks at the same time; interquartile range / median of repetitions: %.1f %% "
           "(median figure), %.0f %% (worst)\n",
           t->n, 100 * spread->median, 100 * spread->worst);
    printf("memory      %s", units_print(UNIT_RATE, type->memory_Bps, a));
    printf(", %s per rank\n", units_print(UNIT_BYTES, (double)type->memory_bytes, b));
    for (size_t k = 0; k < t->tiers; k++) {
        printf("messages    latency %s", units_print(UNIT_SECONDS, t->tier[k].latency_s, a));
        printf(", bandwidth %s\n", units_print(UNIT_RATE, t->tier[k].bandwidth_Bps, b));
    }
    printf("\n%-20s %14s  %s\n", "op", "rate",
           "at so much work per call: smallest to largest of the points");
    for (size_t k = 0; k < type->rates; k++) {
        const struct topology_rate *r = &type->rate[k];
        size_t last = r->n - 1;
        printf("%-20s %14s", r->kind, units_print(UNIT_FLOPS, r->flops[0], a));
        printf("  %-12s", units_print(UNIT_FLOP, r->flop[0], b));
        printf(" to %14s", units_print(UNIT_FLOPS, r->flops[last], a));
        printf("  %s (%zu points)\n", units_print(UNIT_FLOP, r->flop[last], b), r->n);
    }
}

static enum status calibrate(int argc, char **argv)
{
    enum status st;
    struct calibrate_spread spread;
    struct topology t = {0};
    struct provenance by = command_provenance(0);
    char host[256] = "";

    (void)argv;
    if (argc != 0)
        return error_set(STATUS_USAGE, "expected no operands, got %d", argc);
    if (strcmp(device, "cpu") != 0)
        return error_set(STATUS_USAGE, "--device %s: this build has only cpu", device);
    const struct calibrate_options o = {
        .ranks = ranks, .repeats = repeats, .progress = isatty(STDERR_FILENO)};
    TRY(calibrate_cpu(&o, &t, &spread));
    if (gethostname(host, sizeof host - 1) == 0)
        by.host = host;
    if (output)
        TRY(topology_write_platform(&t, output, &by));
    if (json)
        TRY(topology_write(&t, "-", &by));
    else
        print(&t, &spread);
out:
    topology_free(&t);
    return st;
}

const struct command command_calibrate = {
    .name = "calibrate",
    .synopsis = "",
    .summary = "measure this machine and write a platform file",
    .details =
        "Forks N ranks that measure at the same time, as they will run: for every kind of layer "
        "and\n"
        "optimizer the speed of a call at several sizes, memory bandwidth by copying, and latency\n"
        "and bandwidth of messages between every two ranks over the TCP transport (4 KiB to 8 "
        "MiB,\n"
        "fitted as latency + bytes / bandwidth). Medians of the repetitions after a warm-up; how "
        "far\n"
        "those lie apart is printed: above some 10 % in the median the machine was not idle.\n"
        "\n"
        "The platform file has one host per rank, rank0, rank1, ..., with the measured rates as\n"
        "properties: `foreline plan --platform FILE` predicts with them.",
    .options = options,
    .run = calibrate,
};
