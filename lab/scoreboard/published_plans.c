/* Published rows as plan files beside a table of what was measured, as `foreline calibrate --from`
 * and other tools read them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/digest.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "lab/scoreboard/published.h"
#include "study/load.h"

enum { PLANS_PATH = 4096 };

struct plans_folder {
    const struct published *p;
    const char *folder;
    const struct provenance *by;
    FILE *table;
    char platform[PUBLISHED_PLATFORM]; /* of the topology */
    struct topology topology;
};

static enum status plans_path(const struct plans_folder *w, const char *name, char path[PLANS_PATH])
{
    if (snprintf(path, PLANS_PATH, "%s/%s", w->folder, name) >= PLANS_PATH)
        return error_set(STATUS_INVALID,
                         "%s: path is too long, expected at most %d bytes with the file name",
                         w->folder, PLANS_PATH - 1);
    return STATUS_OK;
}

/* The file is named by its digest, so that rows of one model share it. */
static enum status plans_write_model(const struct plans_folder *w, const struct model *m,
                                     char path[PLANS_PATH])
{
    char name[32], hex[DIGEST_HEX], fresh[PLANS_PATH];
    PASS(plans_path(w, "model.json", fresh));
    PASS(model_write(m, fresh, w->by));
    PASS(digest_file(fresh, hex));
    snprintf(name, sizeof name, "model-%.12s.json", hex);
    PASS(plans_path(w, name, path));
    if (rename(fresh, path) != 0)
        return error_set(STATUS_IO, "%s: %s", path, strerror(errno));
    return STATUS_OK;
}

static void plans_put_row(const struct plans_folder *w, const struct published_row *row,
                          const char *plan, const struct plan *p)
{
    const struct published_config *c = &row->config;
    const char *const cells[] = {row->set,   row->id,  c->name,      c->gpu,
                                 c->network, c->dtype, p->framework, plan};
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        for (const char *at = cells[i] ? cells[i] : ""; *at; at++)
            fputc((unsigned char)*at < ' ' ? ' ' : *at, w->table);
        fputc('\t', w->table);
    }
    fprintf(w->table, "%lld\t%.9g\t", (long long)c->gpus, published_step_s(row));
    if (row->measured.memory_gib > 0)
        fprintf(w->table, "%.9gGiB", row->measured.memory_gib);
    fputc('\n', w->table);
}

static enum status plans_write_row(struct plans_folder *w, size_t i)
{
    enum status st;
    char name[32], plan[PLANS_PATH], model[PLANS_PATH], platform[PUBLISHED_PLATFORM];
    const struct published_config *c = &w->p->row[i].config;
    struct keys keys = {.path = "the row", .format = KEYS_TREE};
    struct setup s = {.keys = &keys};
    struct model m = {0};
    struct plan p = {0};
    TRY(published_platform(c, platform));
    TRY(published_setup(c, &s));
    TRY(published_model(c, &s, &m));
    if (strcmp(platform, w->platform) != 0) {
        char *path = NULL;
        topology_free(&w->topology);
        w->platform[0] = '\0';
        TRY(load_topology(platform, &w->topology, &path));
        free(path);
        memcpy(w->platform, platform, sizeof platform);
    }
    TRY(published_attach(w->p, c, w->topology.type[0].name, &m));
    TRY(published_plan(c, &s, &m, &w->topology, NULL, &p));
    snprintf(name, sizeof name, "plan-%zu.json", i);
    TRY(plans_path(w, name, plan));
    TRY(plans_write_model(w, &m, model));
    free(p.model);
    free(p.platform);
    p.model = p.platform = NULL;
    TRY(text_copy(model, &p.model));
    TRY(text_copy(platform, &p.platform));
    TRY(plan_write(&p, &m, &w->topology, plan, w->by));
    plans_put_row(w, &w->p->row[i], name, &p);
out:
    plan_free(&p);
    model_free(&m);
    keys_free(&keys);
    return st;
}

enum status published_write_plans(const struct published *p, const char *folder,
                                  const struct provenance *by)
{
    enum status st;
    char path[PLANS_PATH];
    struct file_out table = {0};
    struct plans_folder w = {.p = p, .folder = folder, .by = by};
    TRY(plans_path(&w, "runs.tsv", path));
    TRY(file_create(path, &table));
    w.table = table.stream;
    fputs("set\tid\tmodel\tgpu\tnetwork\tdtype\tframework\tplan\tgpus\titeration_s\tmemory\n",
          w.table);
    for (size_t i = 0; i < p->rows; i++) {
        const struct published_row *row = &p->row[i];
        bool whole = !row->config.optimizer_step ||
                     strncmp(row->config.optimizer_step, "not included", 12) != 0;
        if (row->left_out || !whole || published_step_s(row) <= 0)
            continue;
        st = plans_write_row(&w, i);
        if (st == STATUS_NOMEM || st == STATUS_IO)
            goto out;
    }
    st = file_commit(&table);
out:
    topology_free(&w.topology);
    file_discard(&table);
    return st;
}
