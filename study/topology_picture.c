/* A platform as a picture, and as a matrix of bandwidths. */
#include "study/topology_picture.h"

#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "partition/tiers.h"
#include "plots/tree.h"

/* The groups that partition/tiers.h finds become the levels of the tree, innermost first. */
enum status topology_draw(const struct topology *t, const struct plot_style *style,
                          const char *output, const struct provenance *by)
{
    enum status st;
    struct tiers tiers = {0};
    struct plot_tree_level *level = NULL;
    const char **type = NULL;
    TRY(ARRAY_NEW(type, t->n));
    TRY(tiers_find(t, &tiers));
    TRY(ARRAY_NEW(level, tiers.levels));
    for (size_t i = 0; i < t->n; i++)
        type[i] = topology_type(t, (uint32_t)i)->name;
    for (size_t i = 0; i < tiers.levels; i++) {
        const struct topology_tier *tier = &t->tier[tiers.level[i].tier];
        level[i] = (struct plot_tree_level){.name = tier->name,
                                            .bandwidth_Bps = tier->bandwidth_Bps,
                                            .latency_s = tier->latency_s,
                                            .oversubscription =
                                                t->oversubscription && i + 1 < tiers.levels
                                                    ? t->oversubscription[tiers.level[i].tier]
                                                    : 0,
                                            .groups = tiers.level[i].groups,
                                            .group_of = tiers.level[i].group_of};
    }
    const struct plot_tree tree = {.devices = t->n,
                                   .levels = tiers.levels,
                                   .bisection_Bps = t->bisection_Bps,
                                   .device = (const char *const *)t->device,
                                   .type = type,
                                   .level = level};
    TRY(plot_tree(&tree, style, output, by));
out:
    free(level);
    free(type);
    tiers_free(&tiers);
    return st;
}

/* For `foreline plot heatmap` and spreadsheets: n^2 numbers, so not for large platforms. */
static void topology_put_name(FILE *to, char before, const char *name)
{
    putc(before, to);
    text_put_cell(to, name);
}

enum status topology_write_matrix(const struct topology *t, const char *path,
                                  const struct provenance *by)
{
    struct file_out f;
    if (t->n > TOPOLOGY_MATRIX)
        return error_set(STATUS_INVALID, "--matrix: got %zu devices, expected up to %d", t->n,
                         TOPOLOGY_MATRIX);
    PASS(file_create(path, &f));
    fprintf(f.stream, "# %s: %s\n# bandwidth_Bps", by->version, by->command);
    for (size_t i = 0; i < t->n; i++)
        topology_put_name(f.stream, '\t', t->device[i]);
    for (uint32_t i = 0; i < t->n; i++) {
        topology_put_name(f.stream, '\n', t->device[i]);
        for (uint32_t k = 0; k < t->n; k++)
            if (i == k)
                fputs("\t-", f.stream);
            else
                fprintf(f.stream, "\t%.9g", topology_between(t, i, k)->bandwidth_Bps);
    }
    putc('\n', f.stream);
    return file_commit(&f);
}
