/* Scores of points, and their order within groups. */
#include "study/rank.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/statistics.h"

/* The same point with the first seed; with the first of what is chosen over, too. */
static size_t rank_first_of(const struct experiment *e, size_t point, bool group)
{
    for (size_t i = 0; i < e->axes; i++)
        if (e->axis[i].seeds || (group && e->axis[i].chosen))
            point = experiment_with(e, point, i, 0);
    return point;
}

bool rank_is_group(const struct experiment *e, size_t point)
{
    return rank_first_of(e, point, true) == point;
}

/* The axis of seeds, e->axes if there is none; how many seeds there are. */
static size_t seed_axis(const struct experiment *e, size_t *seeds)
{
    size_t i = 0;
    while (i < e->axes && !e->axis[i].seeds)
        i++;
    *seeds = i < e->axes ? e->axis[i].n : 1;
    return i;
}

/* What each point says; NAN: it is not ok. */
static enum status read_scores(const struct sweep *s, const struct sweep_points *p, double *score)
{
    for (size_t i = 0; i < p->n; i++) {
        struct point_result r;
        bool found;
        PASS(database_get(s->db, p->hash[i], &found, &r));
        bool usable = found && r.status == POINT_OK && r.iteration_s > 0;
        score[p->number[i]] = !usable || (s->e.by_days && !(r.days > 0)) ? NAN
                              : s->e.by_days                             ? -r.days
                              : s->e.fewest_seconds                      ? -r.iteration_s
                                                                         : r.samples_per_s;
    }
    return STATUS_OK;
}

/* The median over seeds, as in pictures, at the point with the first. A plan that fails with one
 * seed is not ranked by the others. */
static enum status join_seeds(const struct experiment *e, double *score)
{
    size_t seeds, axis = seed_axis(e, &seeds);
    double *of_seed;
    if (axis == e->axes)
        return STATUS_OK;
    PASS(ARRAY_NEW(of_seed, seeds));
    for (size_t i = 0; i < e->points; i++) {
        bool all = true;
        if (rank_first_of(e, i, false) != i)
            continue;
        for (size_t k = 0; k < seeds; k++) {
            of_seed[k] = score[experiment_with(e, i, axis, k)];
            all = all && !isnan(of_seed[k]);
        }
        score[i] = all ? median(of_seed, seeds) : NAN;
    }
    free(of_seed);
    return STATUS_OK;
}

/* Scores by all points; groups that have finalists are ranked by these alone. */
enum status rank_points(const struct sweep *s, bool finalists, struct ranking *out)
{
    enum status st;
    const struct experiment *e = &s->e;
    const struct sweep_points *last = &s->finalists;
    double *score = NULL;
    bool *replaced = NULL; /* [points] groups that finalists rank */
    TRY(ARRAY_NEW(score, e->points));
    TRY(ARRAY_NEW(replaced, e->points));
    for (size_t i = 0; finalists && i < last->n; i++)
        replaced[rank_first_of(e, last->number[i], true)] = true;
    for (size_t i = 0; i < e->points; i++)
        score[i] = NAN;
    TRY(read_scores(s, &s->all, score));
    for (size_t i = 0; i < e->points; i++)
        score[i] = replaced[rank_first_of(e, i, true)] ? NAN : score[i];
    if (finalists)
        TRY(read_scores(s, last, score));
    TRY(join_seeds(e, score));
    *out = (struct ranking){e, score};
    score = NULL;
out:
    free(replaced);
    free(score);
    return st;
}

void ranking_free(struct ranking *r)
{
    free(r->score);
    *r = (struct ranking){0};
}

/* Count up in the axes that are chosen over, the last one fastest, as an odometer does; the others
 * stay. */
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

/* Insertion into a short sorted list. Of equal scores the one with the lower number comes first,
 * so that ties do not depend on anything but the file. */
size_t rank_best(const struct ranking *r, size_t group, size_t *best, size_t most)
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

/* A finalist is a plan, so that all its seeds are looked at. */
enum status rank_finalists(const struct ranking *r, size_t **number, size_t *n)
{
    enum status st;
    const struct experiment *e = r->e;
    size_t seeds, filled = 0, most = e->finalists, axis = seed_axis(e, &seeds);
    size_t *best = NULL, *all = NULL;
    TRY(ARRAY_NEW(best, most));
    TRY(ARRAY_NEW(all, e->points));
    for (size_t g = 0; g < e->points; g++) {
        if (!rank_is_group(e, g))
            continue;
        size_t scored = rank_best(r, g, best, most);
        for (size_t k = 0; k < most && k < scored; k++)
            for (size_t s = 0; s < seeds; s++)
                all[filled++] = axis < e->axes ? experiment_with(e, best[k], axis, s) : best[k];
    }
    *number = all;
    *n = filled;
    all = NULL;
out:
    free(best);
    free(all);
    return st;
}

/* ---- axes */

bool rank_is_column(const struct experiment *e, size_t axis, bool chosen)
{
    return e->axis[axis].n > 1 && !e->axis[axis].seeds && e->axis[axis].chosen == chosen;
}

size_t rank_along(const struct experiment *e)
{
    size_t last = e->axes;
    for (size_t i = 0; i < e->axes; i++)
        if (rank_is_column(e, i, false) && (last == e->axes || strcmp(e->axis[i].name, "engine")))
            last = i;
    return last;
}

size_t rank_before(const struct experiment *e, const size_t *best, size_t row)
{
    size_t along = rank_along(e), before = row - 1;
    while (before > 0 &&
           (best[before] == SIZE_MAX || !rank_alike(e, best[before], best[row], false, along)))
        before--;
    return before;
}

bool rank_alike(const struct experiment *e, size_t a, size_t b, bool chosen, size_t along)
{
    for (size_t i = 0; i < e->axes; i++)
        if (i != along && rank_is_column(e, i, chosen) &&
            experiment_choice(e, a, i) != experiment_choice(e, b, i))
            return false;
    return true;
}

size_t rank_plans(const struct experiment *e)
{
    size_t n = 1;
    for (size_t i = 0; i < e->axes; i++)
        n *= rank_is_column(e, i, true) ? e->axis[i].n : 1;
    return n;
}

const char *rank_plan_label(const struct experiment *e, size_t point, char text[RESULT_VALUE])
{
    size_t n = 0;
    snprintf(text, RESULT_VALUE, "-");
    for (size_t i = 0; i < e->axes && n < RESULT_VALUE; i++) {
        const char *name = e->axis[i].name;
        if (!rank_is_column(e, i, true))
            continue;
        bool alone = e->axis[i].cases || !strcmp(name, "plan"); /* labels that say what they are */
        name = !strncmp(name, "plan.", strlen("plan.")) ? name + strlen("plan.") : name;
        n += (size_t)snprintf(text + n, RESULT_VALUE - n, "%s%s%s%s", n ? ", " : "",
                              alone ? "" : name, alone ? "" : " ", experiment_label(e, point, i));
    }
    return text;
}

const char *rank_group_label(const struct experiment *e, size_t point, size_t along, bool names,
                             char text[RESULT_VALUE])
{
    size_t n = 0;
    *text = '\0';
    for (size_t i = 0; i < e->axes && n < RESULT_VALUE; i++)
        if (i != along && rank_is_column(e, i, false))
            n += (size_t)snprintf(text + n, RESULT_VALUE - n, "%s%s%s%s", n ? ", " : "",
                                  names ? e->axis[i].name : "", names ? " " : "",
                                  experiment_label(e, point, i));
    return text;
}
