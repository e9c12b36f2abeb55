/* topology - what a platform consists of, and whether a platform file is right. */
#include "cli/command.h"
#include "cli/topology_import.h"
#include "cli/topology_machine.h"
#include "cli/topology_match.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/units.h"
#include "core/data/topology.h"
#include "partition/capacity.h"
#include "sim/platform/platform.h"
#include "study/campaign_settings.h"
#include "study/costs.h"
#include "study/load.h"
#include "study/topology_picture.h"
#include "study/warn.h"
#include "topologies/generate.h"
#include "topologies/systems.h"
#include "topologies/write.h"

static const char details[] =
    "list             list the platforms that come with foreline\n"
    "show PLATFORM    print device types, tiers with latency and bandwidth, groups of devices and "
    "the\n"
    "                 tier that joins them, switches, cables and transceivers; with --prices "
    "their\n"
    "                 cost\n"
    "draw PLATFORM    draw the groups of devices and the bandwidth between them; large platforms "
    "are\n"
    "                 collapsed ('30 more')\n"
    "check FILE...    print 'FILE: ok: 16 devices, 3 tiers', or 'FILE:LINE: ERROR' and exit with "
    "1\n"
    "generate SPEC    write a platform file from a description such as\n"
    "                 rail:nodes=128,gpus=8,type=H100; 'generate list' prints the families, their\n"
    "                 parameters and the GPU types\n"
    "match PLAN       search the optical circuits (family ocs) that make a plan fastest; -o "
    "writes\n"
    "                 the plan on the platform with these circuits\n"
    "import FILE      write a platform (-o) from another program's description of a machine or a\n"
    "                 cluster: nvidia-smi topo -m, NCCL's topology, hwloc, Slurm, ibnetdiscover,\n"
    "                 topograph, InfraGraph, ASTRA-sim, ns-3. Options and the GPU catalogue "
    "supply\n"
    "                 what the file lacks, and such values are listed as assumed. --node FILE and\n"
    "                 --fabric FILE combine a description of nodes with one of their network\n"
    "discover         write a platform (-o) of this machine\n"
    "import FILE...   add curves of time over bytes from the output of nccl-tests to --platform;\n"
    "                 collectives are then simulated by them. Name the collective and its size if "
    "the\n"
    "                 table does not: all-gather:2x8=FILE, 2 nodes of 8 GPUs each\n"
    "\n"
    "PLATFORM is a name from the list, a description as above or a SimGrid platform file (XML). A\n"
    "tier is a distinct pair of latency and bandwidth from one device to another while nothing\n"
    "else uses the network; 'foreline simulate' computes the contention on shared links. Speeds "
    "are\n"
    "flop/s, bandwidths bytes per second and direction. docs/reference/topologies.md explains how "
    "to\n"
    "describe a cluster. With --json, show prints a foreline-topology document.";

/* ---- show */

static enum status topology_show_file(const struct invocation *in, const char *name)
{
    enum status st;
    struct topology t = {0};
    struct prices table = {0};
    const struct prices *prices = in->a.measure.prices ? &table : NULL;
    char *path = NULL, *summary = NULL;
    if (prices)
        TRY(prices_read(in->a.measure.prices, &table));
    TRY(load_platform(name, &path));
    TRY(platform_read(path, &t));
    TRY(capacity_find(&t));
    TRY(costs_find(path, prices, &t.inventory));
    if (in->a.measure.matrix)
        TRY(topology_write_matrix(&t, in->a.measure.matrix, &in->by));
    if (in->a.json) {
        TRY(topology_write(&t, "-", &in->by));
        goto out;
    }
    TRY(topology_summary(path, &summary));
    TRY(topology_print(&t, name, summary, arguments_prose(&in->a)));
    costs_print(&t.inventory, prices, arguments_prose(&in->a));
    TRY(topology_print_numa(path, arguments_prose(&in->a)));
out:
    prices_free(&table);
    free(summary);
    free(path);
    topology_free(&t);
    return st;
}

static enum status topology_draw_file(const struct invocation *in, const char *name)
{
    enum status st;
    struct topology t = {0};
    char *path = NULL;
    struct plot_style style;
    if (!in->a.output)
        return error_set(STATUS_USAGE, "'topology draw' needs -o FILE.svg, FILE.png or FILE.pdf");
    TRY(style_read(&in->a.picture.look, "topology draw", 0, NULL, NULL, &style));
    TRY(load_platform(name, &path));
    TRY(platform_read(path, &t));
    TRY(capacity_find(&t));
    TRY(topology_draw(&t, &style, in->a.output, &in->by));
out:
    free(path);
    topology_free(&t);
    return st;
}

/* ---- list */

static enum status list_one(const char *name, bool as_json, struct json_writer *w)
{
    enum status st;
    struct topology t = {0};
    char *path = NULL, *summary = NULL;
    TRY(load_platform(name, &path));
    TRY(platform_read(path, &t));
    TRY(topology_summary(path, &summary));
    if (as_json) {
        json_open_object(w, NULL, false);
        json_put_string(w, "name", name);
        json_put_integer(w, "devices", (int64_t)t.n);
        json_put_integer(w, "tiers", (int64_t)t.tiers);
        json_put_string(w, "summary", summary);
        json_put_string(w, "path", path);
        json_close(w);
    } else {
        printf("%-16s  %7zu  %5zu  %s\n", name, t.n, t.tiers, summary);
    }
out:
    free(summary);
    free(path);
    topology_free(&t);
    return st;
}

static enum status topology_list_all(const struct invocation *in)
{
    bool as_json = in->a.json;
    enum status st;
    char **names = NULL;
    size_t n = 0;
    struct json_writer w = {.stream = stdout};
    TRY(topology_list(&names, &n));
    if (as_json) {
        json_open_object(&w, NULL, false);
        json_open_array(&w, "platforms", false);
    } else {
        printf("%-16s  %7s  %5s  %s\n", "# platform", "devices", "tiers", "summary");
    }
    for (size_t i = 0; i < n; i++)
        TRY(list_one(names[i], as_json, &w));
    if (as_json) {
        json_close(&w);
        json_close(&w);
    }
out:
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
    return st;
}

/* ---- check */

static enum status check_one(const char *name)
{
    enum status st;
    struct topology t = {0};
    struct arguments none = {0};
    struct campaign_settings campaign = {0};
    char *path = NULL;
    TRY(load_platform(name, &path));
    TRY(platform_read(path, &t));
    TRY(campaign_settings_read(&none, path, &campaign));
    printf("%s: ok: %zu device%s, %zu tier%s\n", name, t.n, t.n == 1 ? "" : "s", t.tiers,
           t.tiers == 1 ? "" : "s");
    warn_of_catalogue(&t, stderr);
out:
    campaign_settings_free(&campaign);
    free(path);
    topology_free(&t);
    return st;
}

/* One file's fault is the command's; of several files each has its line in the report. */
static enum status topology_check_files(int files, char **file)
{
    int bad = 0;
    if (files == 1)
        return check_one(file[0]);
    for (int i = 0; i < files; i++) {
        enum status st = check_one(file[i]);
        if (st == STATUS_OK)
            continue;
        if (st == STATUS_NOMEM)
            return st;
        puts(error_message());
        bad++;
    }
    return bad == 0 ? STATUS_OK
                    : error_set(STATUS_PARSE, "%d of %d platform files are invalid", bad, files);
}

/* ---- generate */

static enum status topology_generate(const struct invocation *in, const char *spec)
{
    enum status st;
    const char *output = in->a.output;
    struct file_out f = {0};
    struct file_text t = {0};
    char *canonical = NULL;
    st = generate_canonical(spec, &canonical); /* before any file is made */
    TRY(st == STATUS_INVALID ? STATUS_USAGE : st);
    TRY(file_create(output ? output : "-", &f));
    if (campaign_settings_given(&in->a)) {
        TRY(file_text_open(&t));
        TRY(file_text_close(&t, generate_platform(spec, t.stream)));
        TRY(campaign_settings_put(&in->a, t.text, f.stream));
    } else {
        TRY(generate_platform(spec, f.stream));
    }
    TRY(file_commit(&f));
out:
    file_discard(&f);
    free(t.text);
    free(canonical);
    return st;
}

static enum status list_families(void)
{
    static const char *const kinds[] = {
        [FAMILY_COUNT] = "whole number", [FAMILY_FACTOR] = "number", [FAMILY_RATE] = "rate",
        [FAMILY_TIME] = "time",          [FAMILY_GPU] = "GPU type",  [FAMILY_PATHS] = "policy",
        [FAMILY_FABRIC] = "network",     [FAMILY_TEXT] = "text"};
    for (size_t i = 0; i < families_n; i++) {
        const struct topology_family *f = families[i];
        printf("%s%s: %s\n", i > 0 ? "\n" : "", f->name, f->summary);
        for (size_t k = 0; k < f->parameters; k++) {
            const struct family_parameter *p = &f->parameter[k];
            printf("  %-16s  %-12s  %-14s  %s\n", p->name, kinds[p->kind],
                   p->preset                ? p->preset
                   : p->kind == FAMILY_RATE ? "the type's"
                                            : "not said",
                   p->help);
        }
    }
    printf("\n%-8s  %-16s  %12s  %12s  %10s  %12s  %12s  %10s\n", "# GPU", "type", "peak",
           "attained", "memory", "mem. bandw.", "NVLink", "port");
    for (size_t i = 0; i < gpus_n; i++)
        printf("%-8s  %-16s  %12s  %12s  %10s  %12s  %12s  %10s\n", gpus[i].name, gpus[i].type,
               units_of(UNIT_FLOPS, fmax(gpus[i].peak[DATA_bf16], gpus[i].peak[DATA_fp32])).text,
               units_of(UNIT_FLOPS, gpus[i].flops).text,
               units_of(UNIT_BYTES, (double)gpus[i].memory_bytes).text,
               units_of(UNIT_RATE, gpus[i].memory_Bps).text,
               units_of(UNIT_RATE, gpus[i].nvlink_Bps).text,
               units_of(UNIT_RATE, gpus[i].nic_Bps).text);
    printf("\n%-14s  %s\n", "# system", "stands for");
    for (size_t i = 0; i < systems_n; i++)
        printf("%-14s  %s\n%-14s    %s\n", systems[i].name, systems[i].summary, "",
               systems[i].spec);
    return STATUS_OK;
}

static enum status topology(struct invocation *in)
{
    int n = in->operands;
    const char *word = n > 0 ? in->operand[0] : "", *of = n > 1 ? in->operand[1] : NULL;
    bool curves = in->a.platform && !strcmp(word, "import");
    PASS(arguments_check(&in->a, settings_taker("topology", curves ? "import --platform" : word)));
    if (n == 1 && !strcmp(word, "list"))
        return topology_list_all(in);
    if (n == 2 && !strcmp(word, "show"))
        return topology_show_file(in, of);
    if (n == 2 && !strcmp(word, "draw"))
        return topology_draw_file(in, of);
    if (n >= 2 && !strcmp(word, "check"))
        return topology_check_files(n - 1, in->operand + 1);
    if (n == 2 && !strcmp(word, "generate"))
        return strcmp(of, "list") != 0 ? topology_generate(in, of)
               : in->a.output || campaign_settings_given(&in->a)
                   ? error_set(STATUS_USAGE, "'topology generate list' writes no platform file: "
                                             "drop -o and the other options of 'topology generate'")
                   : list_families();
    if (n == 2 && !strcmp(word, "match"))
        return topology_match(in, of);
    if (n >= 1 && !strcmp(word, "import"))
        return topology_import(in, n - 1, in->operand + 1);
    if (n == 1 && !strcmp(word, "discover"))
        return topology_discover(in);
    return error_set(
        STATUS_USAGE,
        "expected topology list, topology show PLATFORM, topology draw PLATFORM, "
        "topology check FILE..., topology generate SPEC, topology match PLAN, topology "
        "import FILE... or topology discover");
}

const struct command command_topology = {
    .name = "topology",
    .synopsis = "list | show PLATFORM | draw PLATFORM | check FILE... | generate SPEC | match PLAN "
                "| import "
                "FILE... | discover",
    .summary = "show, draw, check, generate and import platforms",
    .details = details,
    .examples = "foreline topology show two-racks\n"
                "foreline topology generate rail:nodes=4,gpus=8,type=H100 -o rail.xml\n",
    .often = "gpu nic nodes platform matrix prices output json",
    .run = topology,
};
