/* Which choice is best, for each combination of the rest. */
#include <math.h>
#include <stdlib.h>

#include "study/sweep.h"

/* The same point with the first seed; with the first of what is chosen over, too. */
static size_t first_seed(const struct experiment *e, size_t point)
{
    for (size_t i = 0; i < e->axes; i++)
        if (e->axis[i].seeds)
            point = experiment_with(e, point, i, 0);
    return point;
}

static size_t group_of(const struct experiment *e, size_t point)
{
    for (size_t i = 0; i < e->axes; i++)
        if (e->axis[i].seeds || e->axis[i].chosen)
            point = experiment_with(e, point, i, 0);
    return point;
}

bool sweep_is_group(const struct experiment *e, size_t point)
{
    return group_of(e, point) == point;
}

static size_t seeds_of(const struct experiment *e)
{
    for (size_t i = 0; i < e->axes; i++)
        if (e->axis[i].seeds)
            return e->axis[i].n;
    return 1;
}

/* Add up what the points say; a point that is not ok spoils its mean. */
static enum status add_scores(const struct sweep_points *p, struct database *db,
                              double *score)
{
    enum status st = STATUS_OK;
    size_t seeds = seeds_of(p->e);
    for (size_t i = 0; i < p->n; i++) {
        struct point_result r;
        bool found;
        TRY(database_get(db, p->hash[i], &found, &r));
        bool usable = found && r.status == POINT_OK && r.iteration_s > 0;
        double value = !usable ? NAN : p->e->fewest_seconds ? -r.iteration_s : r.samples_per_s;
        score[first_seed(p->e, p->number[i])] += value / (double)seeds;
    }
out:
    return st;
}

enum status sweep_rank(const struct sweep_points *all, const struct sweep_points *finalists,
                       struct database *db, struct sweep_ranking *out)
{
    enum status st;
    const struct experiment *e = all->e;
    double *score = calloc(e->points + 1, sizeof *score);
    bool *replaced = calloc(e->points + 1, sizeof *replaced);
    if (!score || !replaced) {
        st = error_set(STATUS_NOMEM, "out of memory");
        goto out;
    }
    TRY(add_scores(all, db, score));
    for (size_t i = 0; finalists && i < finalists->n; i++) {
        replaced[group_of(e, finalists->number[i])] = true;
        score[first_seed(e, finalists->number[i])] = INFINITY; /* marks them */
    }
    for (size_t i = 0; i < e->points; i++)
        if (replaced[group_of(e, i)])
            score[i] = isinf(score[i]) ? 0 : NAN;
    if (finalists)
        TRY(add_scores(finalists, db, score));
    *out = (struct sweep_ranking){e, score};
    score = NULL;
out:
    free(replaced);
    free(score);
    return st;
}

void sweep_ranking_free(struct sweep_ranking *r)
{
    free(r->score);
    *r = (struct sweep_ranking){0};
}

/* Visit a group's points: the next one in the order of numbers, or `group` again at the end. */
static size_t next_in_group(const struct experiment *e, size_t point)
{
    for (size_t i = e->axes; i-- > 0;) {
        if (!e->axis[i].chosen || e->axis[i].seeds)
            continue;
        size_t choice = experiment_choice(e, point, i) + 1;
        point = experiment_with(e, point, i, choice % e->axis[i].n);
        if (choice < e->axis[i].n)
            break;
    }
    return point;
}

size_t sweep_best(const struct sweep_ranking *r, size_t group, size_t *best, size_t most)
{
    size_t n = 0, scored = 0, point = group;
    do {
        if (!isnan(r->score[point])) {
            size_t at = n < most ? n++ : most;
            scored++;
            for (; at > 0 && r->score[best[at - 1]] < r->score[point]; at--)
                if (at < most)
                    best[at] = best[at - 1];
            if (at < most)
                best[at] = point;
        }
        point = next_in_group(r->e, point);
    } while (point != group);
    return scored;
}

enum status sweep_finalists(const struct sweep_ranking *r, size_t **number, size_t *n)
{
    const struct experiment *e = r->e;
    size_t seeds = seeds_of(e), filled = 0, most = e->finalists, axis = 0;
    size_t *best = malloc((most + 1) * sizeof *best);
    size_t *all = malloc((e->points + 1) * sizeof *all);
    if (!best || !all) {
        free(best);
        free(all);
        return error_set(STATUS_NOMEM, "out of memory");
    }
    while (axis < e->axes && !e->axis[axis].seeds)
        axis++;
    for (size_t g = 0; g < e->points; g++) {
        if (!sweep_is_group(e, g))
            continue;
        size_t scored = sweep_best(r, g, best, most);
        for (size_t k = 0; k < most && k < scored; k++)
            for (size_t s = 0; s < seeds; s++)
                all[filled++] = axis < e->axes ? experiment_with(e, best[k], axis, s) : best[k];
    }
    free(best);
    *number = all;
    *n = filled;
    return STATUS_OK;
}
