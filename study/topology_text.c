/* A platform for people: its types of devices, its tiers, the groups of devices that these make,
 * and which tier joins which. */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/units.h"
#include "core/data/topology_map.h"
#include "partition/tiers.h"
#include "study/topology_picture.h"

enum {
    LETTERS = 26,    /* tiers that the matrix can name */
    SINGLY = 16,     /* up to so many devices have a row each */
    MAX_GROUPS = 32, /* rows of the matrix at most */
};

/* A row per type of device: how many there are, what they can do, and where the first one is. */
static void print_types(const struct topology *t, FILE *out)
{
    fprintf(out, "%-20s  %7s  %14s  %12s  %12s  %8s  %s\n", "# type", "devices", "speed", "memory",
            "mem. bandw.", "launch", "first device");
    for (size_t k = 0; k < t->types; k++) {
        const struct device_type *type = &t->type[k];
        size_t devices = 0, first = t->n;
        for (size_t i = t->n; i-- > 0;)
            if (t->type_of[i] == k) {
                devices++;
                first = i;
            }
        fprintf(out, "%-20s  %7zu  %14s  %12s  %12s  %8s  %s\n", type->name, devices,
                units_of(UNIT_FLOPS, type->flops).text,
                units_of(UNIT_BYTES, (double)type->memory_bytes).text,
                units_of(UNIT_RATE, type->memory_Bps).text,
                units_of(UNIT_SECONDS, type->launch_s).text, t->device[first]);
        if (type->fabric.share <= 0 && type->fabric.nic > 0)
            fprintf(out,
                    "  collectives between nodes get %.3g of the bandwidth, times %.3g at each "
                    "doubling beyond two\n",
                    type->fabric.nic, type->fabric.doubling > 0 ? type->fabric.doubling : 1);
        if (type->fitted.host > 0)
            fprintf(out, "  fitted to measured runs (calibrate --from)\n");
    }
}

/* Calibrated platforms know the speed of kinds of ops at several sizes
 * (docs/reference/calibrate.md): the speed at the smallest and at the largest one. */
static void print_rates(const struct topology *t, FILE *out)
{
    size_t rates = 0;
    for (size_t k = 0; k < t->types; k++)
        rates += t->type[k].rates;
    if (rates == 0)
        return;
    fprintf(out, "\n%-20s  %-28s  %6s  %14s  %14s\n", "# type", "measured kind", "points",
            "smallest call", "largest call");
    for (size_t k = 0; k < t->types; k++)
        for (size_t r = 0; r < t->type[k].rates; r++) {
            const struct topology_rate *rate = &t->type[k].rate[r];
            fprintf(out, "%-20s  %-28s  %6zu  %14s  %14s\n", t->type[k].name, rate->kind, rate->n,
                    units_of(UNIT_FLOPS, rate->flops[0]).text,
                    units_of(UNIT_FLOPS, rate->flops[rate->n - 1]).text);
        }
}

/* The name of a tier in the matrix: a letter, beyond z its number. */
static void letter(size_t tier, char text[24])
{
    if (tier < LETTERS)
        snprintf(text, 24, "%c", (char)('a' + tier));
    else
        snprintf(text, 24, "%zu", tier + 1);
}

/* A row per tier with the number of ordered pairs of devices that it joins. O(devices^2) at most,
 * less where the map is regular (core/data/topology_map.h). */
static enum status print_tiers(const struct topology *t, FILE *out)
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
    fprintf(out, "\n%-6s  %-*s  %10s  %12s  %s\n", "# tier", width, "name", "latency", "bandwidth",
            "pairs (each direction counts)");
    for (size_t k = 0; k < t->tiers; k++) {
        char key[24];
        letter(k, key);
        fprintf(out, "%-6s  %-*s  %10s  %12s  %" PRIu64 "\n", key, width, t->tier[k].name,
                units_of(UNIT_SECONDS, t->tier[k].latency_s).text,
                units_of(UNIT_RATE, t->tier[k].bandwidth_Bps).text, pairs[k]);
    }
out:
    free(pairs);
    return st;
}

/* One line per level of groups, innermost first: "4 x 8   nvlink, 370.8 GB/s". */
static enum status print_found_groups(const struct topology *t, FILE *out)
{
    struct tiers x = {0};
    enum status st = tiers_find(t, &x);
    if (st != STATUS_OK || x.levels == 0)
        return st;
    fprintf(out, "\n%-16s  %s\n", "# groups",
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
        fprintf(out, "%-16s  %s, %s", size, tier->name,
                units_of(UNIT_RATE, tier->bandwidth_Bps).text);
        double over = t->oversubscription ? t->oversubscription[level->tier] : 0;
        if (over > 0 && l + 1 < x.levels)
            fprintf(out, "; %s%.4g:1 upwards", over > 1 + 1e-9 ? "oversubscribed " : "", over);
        putc('\n', out);
    }
    tiers_free(&x);
    return STATUS_OK;
}

/* What half of the devices can send to the other half. */
static void print_bisection(const struct topology *t, FILE *out)
{
    if (t->oversubscription)
        fprintf(out, "\n# bisection       %s each direction, %zu device%s to the other %zu\n",
                isfinite(t->bisection_Bps) ? units_of(UNIT_RATE, t->bisection_Bps).text
                                           : "without limit",
                t->n / 2, t->n / 2 == 1 ? "" : "s", t->n - t->n / 2);
    else if (t->n > 1)
        fputs(t->links == 0 ? "\n(no links known: pairs share nothing, no bisection)\n"
                            : "\n(too large for a bisection)\n",
              out);
}

/* A row per kind of bundle: how many there are, each direction apart, and the first. */
static void print_bundles(const struct topology *t, FILE *out)
{
    bool head = false;
    for (size_t l = 0; l < t->links; l++) {
        const struct topology_link *link = &t->link[l];
        size_t alike = 0, before = 0;
        if (topology_lanes(link) < 2)
            continue;
        for (size_t k = 0; k < t->links && before == 0; k++) {
            const struct topology_link *other = &t->link[k];
            bool same =
                other->lanes == link->lanes && other->cables == link->cables &&
                fabs(other->bandwidth_Bps - link->bandwidth_Bps) <= 1e-9 * link->bandwidth_Bps;
            alike += same;
            before += same && k < l;
        }
        if (before > 0)
            continue;
        if (!head)
            fprintf(out, "\n%-10s  %8s  %6s  %12s  %s\n", "# bundles", "switches", "cables",
                    "each cable", "first");
        head = true;
        fprintf(out, "%-10zu  %8u  %6u  %12s  %s\n", alike, link->lanes / link->cables,
                link->cables, units_of(UNIT_RATE, link->bandwidth_Bps / link->lanes).text,
                link->name);
    }
    if (head)
        fprintf(out, "# paths       %s\n", paths_name(t->paths));
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
static size_t topology_find_groups(const struct topology *t, size_t first[MAX_GROUPS + 2])
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
static void topology_print_cell(const struct topology *t, const size_t a[2], const size_t b[2],
                                int width, FILE *out)
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
    fprintf(out, " %*s", width, text);
}

/* Which tier joins which devices or groups, as far as that can be read: at most MAX_GROUPS rows. A
 * cell of two groups has the letters of all tiers between their devices. */
static void print_matrix(const struct topology *t, FILE *out)
{
    size_t first[MAX_GROUPS + 2], groups = topology_find_groups(t, first);
    if (t->n < 2 || groups > MAX_GROUPS || t->tiers > LETTERS) {
        if (t->n >= 2)
            fputs("\n(too large for a matrix; --json has every pair)\n", out);
        return;
    }
    int width = groups < t->n ? 3 : 2, names = 12;
    for (size_t g = 0; g < groups; g++) {
        int length = (int)strlen(t->device[first[g]]);
        names = length > names ? length : names;
    }
    fprintf(out, "\n# tier from row to column%s\n%*s",
            groups < t->n ? ", by groups of devices" : "", names, "");
    for (size_t g = 0; g < groups; g++)
        fprintf(out, " %*zu", width, g);
    putc('\n', out);
    for (size_t g = 0; g < groups; g++) {
        fprintf(out, "%-*s", names, t->device[first[g]]);
        for (size_t h = 0; h < groups; h++)
            topology_print_cell(t, &first[g], &first[h], width, out);
        if (first[g + 1] - first[g] > 1)
            fprintf(out, "  to %s", t->device[first[g + 1] - 1]);
        putc('\n', out);
    }
}

enum status topology_print(const struct topology *t, const char *name, const char *summary,
                           FILE *out)
{
    fprintf(out, "# %s%s%s\n# %zu devices, %zu tier%s\n\n", name, *summary ? ": " : "", summary,
            t->n, t->tiers, t->tiers == 1 ? "" : "s");
    print_types(t, out);
    print_rates(t, out);
    if (t->tiers > 0)
        PASS(print_tiers(t, out));
    PASS(print_found_groups(t, out));
    print_bundles(t, out);
    print_bisection(t, out);
    print_matrix(t, out);
    return STATUS_OK;
}
