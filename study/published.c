/* Predicts published rows: configuration -> platform, model, plan -> the analytic engine, as plan and
 * simulate have it; row by row on all cores. */
#include "study/published.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/order.h"
#include "core/text.h"
#include "study/evaluate.h"
#include "study/load.h"
#include "study/pool.h"

/* What a worker keeps from row to row: reading a large platform takes longer than using it. */
struct predictor {
    const struct published *p;
    const char *framework; /* of all rows; NULL: their own */
    const size_t *order;   /* [rows] rows of one platform after each other */
    char platform[PUBLISHED_PLATFORM];
    char *path;
    struct topology topology;
    bool broken; /* platforms cannot be read, which is no fault of rows */
};

static void forget_platform(struct predictor *w)
{
    topology_free(&w->topology);
    free(w->path);
    w->path = NULL;
    w->platform[0] = '\0';
}

static enum status need_platform(struct predictor *w, const char *platform)
{
    if (strcmp(w->platform, platform) == 0)
        return STATUS_OK;
    forget_platform(w);
    w->broken = true;
    PASS(load_topology(platform, &w->topology, &w->path));
    w->broken = false;
    snprintf(w->platform, sizeof w->platform, "%s", platform);
    return STATUS_OK;
}

/* Of a rank. What is copied to the host layer by layer goes while the next one computes. */
static void take_memory(const struct measured_rank *rank, double away,
                        struct published_prediction *out)
{
    out->weight_bytes = rank->weight_bytes;
    out->gradient_bytes = rank->gradient_bytes;
    out->state_bytes = rank->state_bytes;
    out->stash_bytes = (int64_t)((1 - away) * (double)rank->stash_bytes);
    out->scratch_bytes = rank->scratch_bytes;
}

/* What is asked of the measurement of an iteration. */
static void take(const struct published_row *row, const struct measurement *m,
                 struct published_prediction *out)
{
    const struct published_config *c = &row->config;
    double away = published_away(c);
    bool last = row->measured.memory_gib <= 0 && row->measured.last_gib > 0;
    double all = 0;
    for (size_t r = 0; r < m->ranks; r++) {
        const struct measured_rank *rank = &m->rank[r];
        out->busy += rank->busy_s;
        out->exposed += rank->exposed_comm_s;
        all += rank->busy_s + rank->exposed_comm_s + rank->idle_s;
        out->update_s = fmax(out->update_s, rank->update_s);
        int64_t peak = rank->peak_bytes - (int64_t)(away * (double)rank->stash_bytes);
        if (last || peak > out->peak_bytes)
            take_memory(rank, away, out);
        if (peak > out->peak_bytes)
            out->peak_bytes = peak;
        out->last_bytes = peak;
        out->device_bytes = published_memory(c, rank->memory_bytes);
    }
    out->busy /= all;
    out->exposed /= all;
    out->idle = fmax(1 - out->busy - out->exposed, 0);
    out->idle = out->idle < 1e-9 ? 0 : out->idle; /* what is left of rounding */
    out->step_s = m->iteration_s;
    if (c->optimizer_step && strncmp(c->optimizer_step, "not included", 12) == 0)
        out->step_s -= out->update_s;
}

static enum status evaluate(struct predictor *w, const struct published_row *row,
                            const struct model *model, const struct plan *plan,
                            struct published_prediction *out)
{
    struct measurement m = {0};
    const struct evaluation_context context = {.model = model,
                                               .topology = &w->topology,
                                               .platform = w->path,
                                               .simulated_only = true,
                                               .fold_from = 2,
                                               .no_links = true};
    enum status st = evaluate_plan(plan, &context, &engine_analytic, &m, NULL, NULL);
    if (st == STATUS_OK)
        take(row, &m, out);
    measurement_free(&m);
    return st;
}

static void put_memory(const struct published_prediction *from, struct published_prediction *to)
{
    to->peak_bytes = from->peak_bytes;
    to->last_bytes = from->last_bytes;
    to->weight_bytes = from->weight_bytes;
    to->gradient_bytes = from->gradient_bytes;
    to->state_bytes = from->state_bytes;
    to->stash_bytes = from->stash_bytes;
    to->scratch_bytes = from->scratch_bytes;
    to->assumed = from->assumed;
}

/* A run that happened had room: what its row leaves unsaid is the least with which it has. Nothing is
 * concluded about its time: these runs are as fast as if they computed nothing again, so that what they
 * saved with is not known. What was predicted first stays where nothing helps. */
static enum status assume(struct predictor *w, const struct published_row *row, struct setup *s,
                          const struct model *m, struct published_prediction *out)
{
    const char *words;
    bool fits = out->peak_bytes <= out->device_bytes;
    for (size_t k = 0; !fits && (words = published_assume(&row->config, k, s)); k++) {
        struct published_prediction other = {.assumed = words};
        struct plan p = {0};
        enum status st = published_plan(&row->config, s, m, &w->topology, w->framework, &p);
        if (st == STATUS_OK)
            st = evaluate(w, row, m, &p, &other);
        plan_free(&p);
        if (st != STATUS_OK)
            return st == STATUS_NOMEM ? st : STATUS_OK;
        fits = other.peak_bytes <= other.device_bytes;
        if (fits)
            put_memory(&other, out);
    }
    return STATUS_OK;
}

/* A row by its configuration alone. */
static enum status predict(struct predictor *w, const struct published_row *row,
                           struct published_prediction *out)
{
    enum status st;
    char platform[PUBLISHED_PLATFORM];
    const struct published_config *c = &row->config;
    struct keys keys = {.path = "the row", .format = KEYS_TREE};
    struct setup s = {.keys = &keys};
    struct model m = {0};
    struct plan p = {0};
    TRY(published_platform(c, platform));
    TRY(published_setup(c, &s));
    TRY(published_model(c, &s, &m));
    TRY(need_platform(w, platform));
    TRY(published_plan(c, &s, &m, &w->topology, w->framework, &p));
    TRY(evaluate(w, row, &m, &p, out));
    TRY(assume(w, row, &s, &m, out));
out:
    plan_free(&p);
    model_free(&m);
    keys_free(&keys);
    return st;
}

static enum status work(void *context, size_t i, void *slot)
{
    struct predictor *w = context;
    struct published_prediction *out = slot;
    const struct published_row *row = &w->p->row[w->order[i]];
    if (row->left_out)
        return STATUS_OK;
    enum status st = predict(w, row, out);
    if (st == STATUS_NOMEM || (st != STATUS_OK && w->broken))
        return error_context(st, "%s", row->id ? row->id : row->set);
    if (st != STATUS_OK) {
        *out = (struct published_prediction){0};
        snprintf(out->reason, sizeof out->reason, "%s", error_message());
    }
    return STATUS_OK;
}

/* ---- rows of one platform together, so that each is read few times */

struct place {
    char platform[PUBLISHED_PLATFORM];
    size_t row;
};

static int by_platform(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    int order = strcmp(x->platform, y->platform);
    return order ? order : (x->row > y->row) - (x->row < y->row);
}

static enum status order_rows(const struct published *p, size_t *order)
{
    struct place *place;
    PASS(ARRAY_NEW(place, p->rows));
    for (size_t i = 0; i < p->rows; i++) {
        place[i].row = i;
        if (published_platform(&p->row[i].config, place[i].platform) != STATUS_OK)
            place[i].platform[0] = '\0';
    }
    qsort(place, p->rows, sizeof *place, by_platform);
    for (size_t i = 0; i < p->rows; i++)
        order[i] = place[i].row;
    free(place);
    return STATUS_OK;
}

enum status published_predict(const struct published *p, const char *framework,
                              struct published_prediction *out)
{
    enum status st;
    size_t *order = NULL;
    struct published_prediction *slots = NULL;
    struct predictor w = {.p = p, .framework = framework};
    TRY(ARRAY_NEW(order, p->rows));
    TRY(ARRAY_NEW(slots, p->rows));
    TRY(order_rows(p, order));
    w.order = order;
    TRY(pool_for(p->rows, sizeof *slots, slots, work, &w));
    for (size_t i = 0; i < p->rows; i++)
        out[order[i]] = slots[i];
out:
    forget_platform(&w);
    free(order);
    free(slots);
    return st;
}
