/* topology - what a platform consists of, and whether a platform file is right. */
#include "cli/command.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/array.h"
#include "core/file.h"
#include "core/json.h"
#include "core/topology.h"
#include "core/units.h"
#include "partition/tiers.h"
#include "sim/platform/platform.h"
#include "study/load.h"
#include "study/topology_picture.h"
#include "topologies/generate.h"
#include "topologies/systems.h"
#include "topologies/write.h"

enum {
    LETTERS = 26,    /* tiers that the matrix can name */
    SINGLY = 16,     /* up to so many devices have a row each */
    MAX_GROUPS = 32, /* rows of the matrix at most */
};

static const char details[] =
    "list             the platforms that come with foreline\n"
    "show PLATFORM    device types, tiers with latency and bandwidth, the groups of devices that\n"
    "                 they make, and which tier joins which devices\n"
    "draw PLATFORM    a picture of the groups, what joins them and at which bandwidth; large\n"
    "                 platforms are collapsed ('30 more')\n"
    "check FILE...    'FILE: ok: 16 devices, 3 tiers', or 'FILE:LINE: what is wrong' and exit 1\n"
    "generate SPEC    write a platform file from a description such as\n"
    "                 rail:nodes=128,gpus=8,type=H100; 'generate list' prints the families, their\n"
    "                 parameters and the GPU types\n"
    "\n"
    "PLATFORM is a name from the list, a description as above or a SimGrid platform file (XML). A\n"
    "tier is a distinct pair of latency and bandwidth that a device gets to another one while\n"
    "nothing else uses the network; what happens when they share links is for 'foreline "
    "simulate'.\n"
    "Speeds are flop/s, bandwidths bytes per second and direction. docs/topology.md explains how "
    "to\n"
    "describe a cluster. With --json, show prints a foreline-topology document.";

/* ---- show */

static void print_types(const struct topology *t)
{
    printf("%-20s  %7s  %14s  %12s  %12s  %8s  %s\n", "# type", "devices", "speed", "memory",
           "mem. bandw.", "launch", "first device");
    for (size_t k = 0; k < t->types; k++) {
        const struct device_type *type = &t->type[k];
        size_t devices = 0, first = t->n;
        for (size_t i = t->n; i-- > 0;)
            if (t->type_of[i] == k) {
                devices++;
                first = i;
            }
        printf("%-20s  %7zu  %14s  %12s  %12s  %8s  %s\n", type->name, devices,
               units_of(UNIT_FLOPS, type->flops).text,
               units_of(UNIT_BYTES, (double)type->memory_bytes).text,
               units_of(UNIT_RATE, type->memory_Bps).text,
               units_of(UNIT_SECONDS, type->launch_s).text, t->device[first]);
    }
}

static void print_rates(const struct topology *t)
{
    size_t rates = 0;
    for (size_t k = 0; k < t->types; k++)
        rates += t->type[k].rates;
    if (rates == 0)
        return;
    printf("\n%-20s  %-28s  %6s  %14s  %14s\n", "# type", "measured kind", "points",
           "smallest call", "largest call");
    for (size_t k = 0; k < t->types; k++)
        for (size_t r = 0; r < t->type[k].rates; r++) {
            const struct topology_rate *rate = &t->type[k].rate[r];
            printf("%-20s  %-28s  %6zu  %14s  %14s\n", t->type[k].name, rate->kind, rate->n,
                   units_of(UNIT_FLOPS, rate->flops[0]).text,
                   units_of(UNIT_FLOPS, rate->flops[rate->n - 1]).text);
        }
}

static void letter(size_t tier, char text[24])
{
    if (tier < LETTERS)
        snprintf(text, 24, "%c", (char)('a' + tier));
    else
        snprintf(text, 24, "%zu", tier + 1);
}

static enum status print_tiers(const struct topology *t)
{
    enum status st;
    int width = 24;
    uint64_t *pairs = NULL;
    TRY(ARRAY_NEW(pairs, t->tiers));
    TRY(topology_map_count(&t->between, t->n, t->tiers, pairs));
    for (size_t k = 0; k < t->tiers; k++) {
        int length = (int)strlen(t->tier[k].name);
        width = length > width ? length : width;
    }
    printf("\n%-6s  %-*s  %10s  %12s  %s\n", "# tier", width, "name", "latency", "bandwidth",
           "pairs (each direction counts)");
    for (size_t k = 0; k < t->tiers; k++) {
        char key[24];
        letter(k, key);
        printf("%-6s  %-*s  %10s  %12s  %" PRIu64 "\n", key, width, t->tier[k].name,
               units_of(UNIT_SECONDS, t->tier[k].latency_s).text,
               units_of(UNIT_RATE, t->tier[k].bandwidth_Bps).text, pairs[k]);
    }
out:
    free(pairs);
    return st;
}

/* One line per level of groups, innermost first: "4 x 8   nvlink, 370.8 GB/s". */
static enum status print_found_groups(const struct topology *t)
{
    struct tiers x = {0};
    enum status st = tiers_find(t, &x);
    if (st != STATUS_OK || x.levels == 0)
        return st;
    printf("\n%-16s  %s\n", "# groups",
           x.measured ? "joined by (estimated: bandwidths scatter)" : "joined by");
    for (size_t l = 0; l < x.levels; l++) {
        const struct tiers_level *level = &x.level[l];
        const struct topology_tier *tier = &t->tier[level->tier];
        char size[48];
        if (level->smallest == level->largest)
            snprintf(size, sizeof size, "%zu x %zu", level->groups, level->largest);
        else
            snprintf(size, sizeof size, "%zu x %zu..%zu", level->groups, level->smallest,
                     level->largest);
        printf("%-16s  %s, %s\n", size, tier->name, units_of(UNIT_RATE, tier->bandwidth_Bps).text);
    }
    tiers_free(&x);
    return STATUS_OK;
}

/* The last tier before bandwidth falls most: as a rule what joins the devices of one node. */
static size_t last_near_tier(const struct topology *t)
{
    size_t last = 0;
    double most = 0;
    for (size_t k = 0; k + 1 < t->tiers; k++) {
        double fall = t->tier[k].bandwidth_Bps / t->tier[k + 1].bandwidth_Bps;
        if (fall > most) {
            most = fall;
            last = k;
        }
    }
    return last;
}

/* First device of each group of neighbours in device order, first[groups] == t->n: single devices,
 * or, when these are many, runs of near ones. Returns how many groups there are, MAX_GROUPS + 1 if
 * too many. */
static size_t find_groups(const struct topology *t, size_t first[MAX_GROUPS + 2])
{
    size_t groups = 0, near = last_near_tier(t);
    for (size_t i = 0; i < t->n; i++) {
        bool joins = t->n > SINGLY && i > 0 &&
                     topology_map_at(&t->between, (uint32_t)first[groups - 1], (uint32_t)i) <= near;
        if (joins)
            continue;
        if (groups == MAX_GROUPS)
            return MAX_GROUPS + 1;
        first[groups++] = i;
    }
    first[groups] = t->n;
    return groups;
}

/* The letters of all tiers from the devices a..a_end-1 to b..b_end-1; "." for a device to itself.
 */
static void print_cell(const struct topology *t, const size_t a[2], const size_t b[2], int width)
{
    bool used[LETTERS] = {0};
    char text[LETTERS + 1];
    size_t n = 0, seen = 0;
    for (size_t i = a[0]; i < a[1] && seen < t->tiers; i++)
        for (size_t j = b[0]; j < b[1] && seen < t->tiers; j++) {
            uint32_t tier = topology_map_at(&t->between, (uint32_t)i, (uint32_t)j);
            if (i != j && !used[tier]) {
                used[tier] = true;
                seen++;
            }
        }
    for (size_t k = 0; k < t->tiers; k++)
        if (used[k])
            text[n++] = (char)('a' + k);
    if (n == 0)
        text[n++] = '.';
    text[n] = '\0';
    printf(" %*s", width, text);
}

static void print_matrix(const struct topology *t)
{
    size_t first[MAX_GROUPS + 2], groups = find_groups(t, first);
    if (t->n < 2 || groups > MAX_GROUPS || t->tiers > LETTERS) {
        if (t->n >= 2)
            puts("\n(too large for a matrix; --json has every pair)");
        return;
    }
    int width = groups < t->n ? 3 : 2, names = 12;
    for (size_t g = 0; g < groups; g++) {
        int length = (int)strlen(t->device[first[g]]);
        names = length > names ? length : names;
    }
    printf("\n# tier from row to column%s\n%*s", groups < t->n ? ", by groups of devices" : "",
           names, "");
    for (size_t g = 0; g < groups; g++)
        printf(" %*zu", width, g);
    putchar('\n');
    for (size_t g = 0; g < groups; g++) {
        printf("%-*s", names, t->device[first[g]]);
        for (size_t h = 0; h < groups; h++)
            print_cell(t, &first[g], &first[h], width);
        if (first[g + 1] - first[g] > 1)
            printf("  to %s", t->device[first[g + 1] - 1]);
        putchar('\n');
    }
}

static enum status print_topology(const struct topology *t, const char *name, const char *summary)
{
    printf("# %s%s%s\n# %zu devices, %zu tier%s\n\n", name, *summary ? ": " : "", summary, t->n,
           t->tiers, t->tiers == 1 ? "" : "s");
    print_types(t);
    print_rates(t);
    if (t->tiers > 0)
        PASS(print_tiers(t));
    PASS(print_found_groups(t));
    print_matrix(t);
    return STATUS_OK;
}

static enum status show(const struct invocation *in, const char *name)
{
    enum status st;
    struct topology t = {0};
    char *path = NULL, *summary = NULL;
    TRY(load_platform(name, &path));
    TRY(platform_read(path, &t));
    if (in->a.matrix)
        TRY(topology_write_matrix(&t, in->a.matrix, &in->by));
    if (in->a.json) {
        TRY(topology_write(&t, "-", &in->by));
        goto out;
    }
    TRY(topology_summary(path, &summary));
    TRY(print_topology(&t, name, summary));
out:
    free(summary);
    free(path);
    topology_free(&t);
    return st;
}

static enum status draw(const struct invocation *in, const char *name)
{
    enum status st;
    struct topology t = {0};
    char *path = NULL;
    if (!in->a.output)
        return error_set(STATUS_USAGE, "topology draw needs -o FILE.svg, .png or .pdf");
    TRY(load_platform(name, &path));
    TRY(platform_read(path, &t));
    TRY(topology_draw(&t, in->a.output, &in->by));
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

static enum status list(const struct invocation *in)
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
    char *path = NULL;
    TRY(load_platform(name, &path));
    TRY(platform_read(path, &t));
    printf("%s: ok: %zu device%s, %zu tier%s\n", name, t.n, t.n == 1 ? "" : "s", t.tiers,
           t.tiers == 1 ? "" : "s");
out:
    free(path);
    topology_free(&t);
    return st;
}

/* One file's fault is the command's; of several files each has its line in the report. */
static enum status check(int files, char **file)
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
                    : error_set(STATUS_PARSE, "%d of %d platform files have a fault", bad, files);
}

/* ---- generate */

static enum status generate(const struct invocation *in, const char *spec)
{
    enum status st;
    const char *output = in->a.output;
    struct file_out f = {0};
    char *canonical = NULL;
    st = generate_canonical(spec, &canonical); /* before any file is made */
    TRY(st == STATUS_INVALID ? STATUS_USAGE : st);
    TRY(file_create(output ? output : "-", &f));
    TRY(generate_platform(spec, f.stream));
    TRY(file_commit(&f));
out:
    file_discard(&f);
    free(canonical);
    return st;
}

static enum status list_families(void)
{
    static const char *const kinds[] = {[FAMILY_COUNT] = "whole number",
                                        [FAMILY_FACTOR] = "number",
                                        [FAMILY_RATE] = "rate",
                                        [FAMILY_TIME] = "time",
                                        [FAMILY_GPU] = "GPU type"};
    for (size_t i = 0; i < families_n; i++) {
        const struct family *f = families[i];
        printf("%s%s: %s\n", i > 0 ? "\n" : "", f->name, f->summary);
        for (size_t k = 0; k < f->parameters; k++) {
            const struct family_parameter *p = &f->parameter[k];
            printf("  %-16s  %-12s  %-14s  %s\n", p->name, kinds[p->kind],
                   p->preset ? p->preset : "the type's", p->help);
        }
    }
    printf("\n%-8s  %-16s  %12s  %12s  %10s  %12s  %12s  %10s\n", "# GPU", "type", "peak",
           "attained", "memory", "mem. bandw.", "NVLink", "port");
    for (size_t i = 0; i < gpus_n; i++)
        printf("%-8s  %-16s  %12s  %12s  %10s  %12s  %12s  %10s\n", gpus[i].name, gpus[i].type,
               units_of(UNIT_FLOPS, gpus[i].peak_flops).text,
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
    PASS(arguments_check(&in->a, settings_taker("topology", word)));
    if (n == 1 && !strcmp(word, "list"))
        return list(in);
    if (n == 2 && !strcmp(word, "show"))
        return show(in, of);
    if (n == 2 && !strcmp(word, "draw"))
        return draw(in, of);
    if (n >= 2 && !strcmp(word, "check"))
        return check(n - 1, in->operand + 1);
    if (n == 2 && !strcmp(word, "generate"))
        return !strcmp(of, "list") ? list_families() : generate(in, of);
    return error_set(STATUS_USAGE,
                     "expected topology list, topology show PLATFORM, topology draw PLATFORM, "
                     "topology check FILE... or topology generate SPEC");
}

const struct command command_topology = {
    .name = "topology",
    .synopsis = "list | show PLATFORM | draw PLATFORM | check FILE... | generate SPEC",
    .summary = "platforms: devices, tiers between them, faults of a platform file",
    .details = details,
    .run = topology,
};
