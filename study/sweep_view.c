/* Databases of sweeps for plots and reports. */
#include <stdlib.h>
#include <string.h>

#include "plots/table.h"
#include "study/sweep.h"

enum status sweep_view_open(const char *path, struct sweep_view *v)
{
    enum status st;
    *v = (struct sweep_view){0};
    TRY(database_open_to_read(path, &v->db));
    TRY(database_experiment(v->db, &v->e, &v->id));
    v->all.e = v->finalists.e = &v->e;
    TRY(database_members(v->db, v->id, false, &v->e, &v->all.n, &v->all.number, &v->all.hash));
    TRY(database_members(v->db, v->id, true, &v->e, &v->finalists.n, &v->finalists.number,
                         &v->finalists.hash));
    if (v->all.n != v->e.points)
        st = error_set(STATUS_IO, "%s: %zu of the experiment's %zu points are in it", path,
                       v->all.n, v->e.points);
out:
    if (st != STATUS_OK)
        sweep_view_close(v);
    return st;
}

void sweep_view_close(struct sweep_view *v)
{
    sweep_points_free(&v->all);
    sweep_points_free(&v->finalists);
    experiment_free(&v->e);
    database_close(v->db);
    *v = (struct sweep_view){0};
}

const struct sweep_points *sweep_view_finalists(const struct sweep_view *v)
{
    return v->finalists.n ? &v->finalists : NULL;
}

enum status sweep_view_get(const struct sweep_view *v, size_t point, bool finalist, bool *found,
                           struct point_result *out)
{
    return sweep_get(finalist ? &v->finalists : &v->all, v->db, point, found, out);
}

static enum status some_of(const struct sweep_points *all,
                           bool (*keep)(const void *context, size_t point), const void *context,
                           struct sweep_points *out)
{
    struct sweep_points some = {.e = all->e};
    some.number = malloc((all->n + 1) * sizeof *some.number);
    some.hash = malloc((all->n + 1) * sizeof *some.hash);
    if (!some.number || !some.hash) {
        sweep_points_free(&some);
        return error_set(STATUS_NOMEM, "%zu points", all->n);
    }
    for (size_t i = 0; i < all->n; i++)
        if (!keep || keep(context, all->number[i])) {
            some.number[some.n] = all->number[i];
            memcpy(some.hash[some.n++], all->hash[i], DIGEST_HEX);
        }
    *out = some;
    return STATUS_OK;
}

enum status sweep_view_table(const struct sweep_view *v,
                             bool (*keep)(const void *context, size_t point), const void *context,
                             struct table *out)
{
    enum status st;
    char *text = NULL;
    size_t length;
    struct sweep_points all = {0}, finalists = {0};
    FILE *to = NULL;
    TRY(some_of(&v->all, keep, context, &all));
    TRY(some_of(&v->finalists, keep, context, &finalists));
    to = open_memstream(&text, &length);
    if (!to) {
        st = error_set(STATUS_NOMEM, "out of memory");
        goto out;
    }
    st = sweep_print_rows(&all, &finalists, v->db, '\t', to);
    if (fclose(to) != 0 && st == STATUS_OK)
        st = error_set(STATUS_NOMEM, "out of memory");
    TRY(st);
    TRY(table_parse(v->e.name, text, length, out));
out:
    free(text);
    sweep_points_free(&all);
    sweep_points_free(&finalists);
    return st;
}
