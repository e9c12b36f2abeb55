/* Pools errors of predictions that did not know the sets of their runs, and asks tables without a
 * set about it. */
#include "lab/scoreboard/published_expected.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "topologies/catalogue.h"

static const double shared = 2; /* a run counts this for each word that it shares */
enum { FEWEST = 5 };            /* runs of a line */

/* ---- runs */

static int by_words(const char *const *x, const char *const *y)
{
    int order = 0;
    for (size_t k = 0; k < EXPECTED_LIKE && order == 0; k++)
        order = !x[k] || !y[k] ? (x[k] != NULL) - (y[k] != NULL) : strcmp(x[k], y[k]);
    return order;
}

static int by_error(const void *a, const void *b)
{
    const struct published_miss *x = a, *y = b;
    int order = (x->error > y->error) - (x->error < y->error);
    order = order ? order : strcmp(x->set, y->set);
    return order ? order : by_words(x->like, y->like);
}

void published_misses_sort(struct published_misses *m)
{
    qsort(m->miss, m->n, sizeof *m->miss, by_error);
}

static enum status add_miss(struct published *p, const struct published_row *row, bool roofline,
                            double seconds, struct published_misses *m)
{
    const struct constants shipped = constants_shipped();
    const struct published_config *c = &row->config;
    const struct gpu *gpu = c->gpu ? gpu_named(c->gpu) : NULL;
    char framework[PUBLISHED_PLATFORM], kind[64];
    enum data_type dtype = DATA_ANY;
    if (row->left_out || !gpu || !(seconds > 0) || !(published_step_s(row) > 0) ||
        published_dtype(c, &dtype) != STATUS_OK)
        return STATUS_OK;
    published_framework(c, &shipped, framework);
    framework[strcspn(framework, ":")] = '\0';
    struct published_miss *miss = &m->miss[m->n++];
    *miss = (struct published_miss){.set = row->set,
                                    .error = fabs(seconds / published_step_s(row) - 1)};
    miss->like[EXPECTED_FRAMEWORK] =
        roofline ? expected_roofline : arena_text(&p->memory, framework);
    miss->like[EXPECTED_WIDTH] = expected_width(dtype);
    miss->like[EXPECTED_PARALLELISM] = arena_text(&p->memory, published_kind(c, kind));
    miss->like[EXPECTED_DEVICE] = gpu->type;
    return miss->like[EXPECTED_FRAMEWORK] && miss->like[EXPECTED_PARALLELISM]
               ? STATUS_OK
               : error_set(STATUS_NOMEM, "out of memory");
}

enum status published_misses_find(struct published *p, const struct published_fits *f,
                                  const struct published_prediction *roofline,
                                  struct published_misses *out)
{
    enum status st;
    struct published_misses m = {0};
    TRY(ARRAY_NEW(m.miss, 2 * p->rows));
    for (size_t i = 0; i < p->rows; i++) {
        TRY(add_miss(p, &p->row[i], false, f->set_s[i], &m));
        if (roofline)
            TRY(add_miss(p, &p->row[i], true, roofline[i].step_s, &m));
    }
    published_misses_sort(&m);
    MOVE(out, m);
out:
    published_misses_free(&m);
    return st;
}

void published_misses_free(struct published_misses *m)
{
    free(m->miss);
    *m = (struct published_misses){0};
}

/* ---- a table */

static bool is_of(const char *name, const char *set)
{
    return set && !strcmp(name, set);
}

static bool is_roofline(const char *const *like)
{
    return like[EXPECTED_FRAMEWORK] && !strcmp(like[EXPECTED_FRAMEWORK], expected_roofline);
}

/* The words, from the first, that both have; a line's end with NULL. */
static size_t count_shared(const char *const *line, const char *const *like)
{
    size_t k = 0;
    while (k < EXPECTED_LIKE && line[k] && !strcmp(line[k], like[k]))
        k++;
    return k;
}

/* What counts of a run, in a table without the set; 0: it does not. */
static double weigh(const struct published_misses *m, size_t i, const char *without,
                    const double *each, const char *const *line)
{
    const struct published_miss *miss = &m->miss[i];
    return is_of(miss->set, without) || is_roofline(miss->like) != is_roofline(line)
               ? 0
               : each[i] * pow(shared, (double)count_shared(line, miss->like));
}

/* The least error that has `part` (n + 1) / n of the weight at or below it, or all, where the
 * weights are worth n equal ones (Kish 1965): of n errors, so many are below the next one. Errors
 * ascend. */
static double find_quantile(const struct published_misses *m, const double *weight, double part)
{
    double all = 0, squares = 0, below = 0;
    size_t i = 0;
    for (size_t k = 0; k < m->n; k++) {
        all += weight[k];
        squares += weight[k] * weight[k];
    }
    double enough = fmin(part * (1 + squares / (all * all)), 1) * all * (1 - 1e-12);
    while ((below += weight[i]) < enough)
        i++;
    return ceil(1000 * m->miss[i].error - 1e-9) / 1000;
}

/* A line of the first words of a run; only where enough runs have them. */
static enum status add_line(const struct published_misses *m, const char *without,
                            const double *each, const struct expected *line, double *weight,
                            struct expected **table, size_t *lines)
{
    struct expected e = *line;
    size_t words = 0;
    for (size_t k = 0; k < *lines; k++)
        if (by_words((*table)[k].like, e.like) == 0)
            return STATUS_OK;
    while (words < EXPECTED_LIKE && e.like[words])
        words++;
    for (size_t i = 0; i < m->n; i++) {
        weight[i] = weigh(m, i, without, each, e.like);
        e.runs += weight[i] > 0 && count_shared(e.like, m->miss[i].like) == words;
    }
    if (e.runs < FEWEST)
        return STATUS_OK;
    e.median = find_quantile(m, weight, 0.5);
    e.nine_in_ten = find_quantile(m, weight, 0.9);
    PASS(ARRAY_ROOM(*table, *lines));
    (*table)[(*lines)++] = e;
    return STATUS_OK;
}

/* Every set counts as one, by prediction. */
static void weigh_sets(const struct published_misses *m, double *each)
{
    for (size_t i = 0; i < m->n; i++) {
        size_t n = 0;
        for (size_t k = 0; k < m->n; k++)
            n += is_of(m->miss[k].set, m->miss[i].set) &&
                 is_roofline(m->miss[k].like) == is_roofline(m->miss[i].like);
        each[i] = 1 / (double)n;
    }
}

static int by_words_known(const void *a, const void *b)
{
    const struct expected *x = a, *y = b;
    for (size_t k = EXPECTED_LIKE; k-- > 0;)
        if (!x->like[k] != !y->like[k])
            return x->like[k] ? -1 : 1;
    return by_words(x->like, y->like);
}

enum status published_expect(const struct published_misses *m, const char *without,
                             struct expected **table, size_t *lines)
{
    enum status st;
    double *room = NULL;
    struct expected *t = NULL;
    size_t n = 0;
    TRY(ARRAY_NEW(room, 2 * m->n));
    weigh_sets(m, room);
    for (size_t i = 0; i < m->n; i++) {
        const struct published_miss *miss = &m->miss[i];
        bool roofline = is_roofline(miss->like);
        for (size_t words = roofline; words <= (roofline ? EXPECTED_PARALLELISM : EXPECTED_LIKE) &&
                                      !is_of(miss->set, without);
             words++) {
            struct expected line = {0};
            memcpy(line.like, miss->like, words * sizeof *line.like);
            TRY(add_line(m, without, room, &line, room + m->n, &t, &n));
        }
    }
    if (n > 0)
        qsort(t, n, sizeof *t, by_words_known);
    *table = t;
    *lines = n;
    t = NULL;
out:
    free(t);
    free(room);
    return st;
}

/* ---- tables without a set */

/* What counts of a set, before it becomes shares. */
static enum status cover_set(const struct published_misses *m, struct published_coverage *c)
{
    struct expected *table, e;
    size_t lines;
    PASS(published_expect(m, c->name, &table, &lines));
    for (size_t i = 0; i < m->n; i++) {
        const struct published_miss *miss = &m->miss[i];
        if (!is_of(miss->set, c->name) || is_roofline(miss->like) ||
            !expected_among(table, lines, miss->like, &e))
            continue;
        c->runs++;
        c->median += miss->error <= e.median;
        c->nine_in_ten += miss->error <= e.nine_in_ten;
    }
    free(table);
    return STATUS_OK;
}

static int by_set(const void *a, const void *b)
{
    const struct published_coverage *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static void add_shares(struct published_coverage *to, const struct published_coverage *c,
                       double over)
{
    to->runs += c->runs;
    to->median += c->median / over;
    to->nine_in_ten += c->nine_in_ten / over;
}

enum status published_cover(const struct published_misses *m, struct published_coverage **out,
                            size_t *lines)
{
    enum status st;
    struct published_coverage *c = NULL, mean = {.name = "mean of sets"},
                              all = {.name = "all runs"};
    size_t n = 0;
    for (size_t i = 0; i < m->n; i++) {
        size_t k = 0;
        while (k < n && strcmp(c[k].name, m->miss[i].set) != 0)
            k++;
        TRY(ARRAY_ROOM(c, n));
        if (k == n && !is_roofline(m->miss[i].like))
            c[n++] = (struct published_coverage){.name = m->miss[i].set};
    }
    for (size_t k = 0; k < n; k++) {
        struct published_coverage own = {.name = c[k].name};
        TRY(cover_set(m, &c[k]));
        add_shares(&all, &c[k], 1);
        add_shares(&own, &c[k], fmax((double)c[k].runs, 1));
        add_shares(&mean, &own, (double)n);
        c[k] = own;
    }
    all.median /= fmax((double)all.runs, 1);
    all.nine_in_ten /= fmax((double)all.runs, 1);
    if (n > 0)
        qsort(c, n, sizeof *c, by_set);
    TRY(ARRAY_ROOM(c, n));
    c[n++] = mean;
    TRY(ARRAY_ROOM(c, n));
    c[n++] = all;
    *out = c;
    *lines = n;
    c = NULL;
out:
    free(c);
    return st;
}

enum status published_coverage_print(const struct published_misses *m, FILE *out)
{
    struct published_coverage *c;
    size_t n;
    PASS(published_cover(m, &c, &n));
    fputs("expected_of\truns\twithin_median_%\twithin_nine_in_ten_%\n", out);
    for (size_t k = 0; k < n; k++)
        fprintf(out, "%s\t%zu\t%.1f\t%.1f\n", c[k].name, c[k].runs, 100 * c[k].median,
                100 * c[k].nine_in_ten);
    free(c);
    return STATUS_OK;
}

enum status published_coverage_put_json(const struct published_misses *m, struct json_writer *w)
{
    struct published_coverage *c;
    size_t n;
    PASS(published_cover(m, &c, &n));
    json_open_array(w, "expected", false);
    for (size_t k = 0; k < n; k++) {
        json_open_object(w, NULL, true);
        json_put_string(w, "name", c[k].name);
        json_put_integer(w, "runs", (int64_t)c[k].runs);
        json_put_real(w, "within_median", c[k].median);
        json_put_real(w, "within_nine_in_ten", c[k].nine_in_ten);
        json_close(w);
    }
    json_close(w);
    free(c);
    return STATUS_OK;
}

/* ---- the file */

enum status published_expected_write(const struct published_misses *m, FILE *out)
{
    struct expected *table;
    size_t lines;
    PASS(published_expect(m, NULL, &table, &lines));
    fputs(
        "/* How far off a prediction may be: framework, width of numbers, parallelism, GPU (NULL:\n"
        " * whatever they are), published runs that are so, and the error that half of such runs\n"
        " * and nine in ten do not exceed. Written by bench/fidelity.sh, as\n"
        " * lab/scoreboard/published_expected.h says. */\n/* clang-format off */\n",
        out);
    for (size_t i = 0; i < lines; i++) {
        fputs("EXPECTED(", out);
        for (size_t k = 0; k < EXPECTED_LIKE; k++)
            table[i].like[k] ? fprintf(out, "\"%s\", ", table[i].like[k]) : fputs("NULL, ", out);
        fprintf(out, "%zu, %.3f, %.3f)\n", table[i].runs, table[i].median, table[i].nine_in_ten);
    }
    fputs("/* clang-format on */\n", out);
    free(table);
    return STATUS_OK;
}
