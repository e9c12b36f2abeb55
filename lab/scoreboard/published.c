/* Predicts published rows: configuration -> platform, model, plan -> the analytic engine, as plan
 * and simulate have it; row by row on all cores. */
#include "lab/scoreboard/published.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/order.h"
#include "core/base/text.h"
#include "core/cost/kernel.h"
#include "core/strategy/constants.h"
#include "sim/engines.h"
#include "study/evaluate.h"
#include "study/load.h"
#include "study/pool.h"
#include "topologies/catalogue.h"

/* What a worker keeps from row to row: reading a large platform takes longer than using it. */
struct predictor {
    const struct published *p;
    const char *framework; /* of all rows; NULL: their own */
    const struct published_variation *variation;
    const size_t *order; /* [rows] rows of one platform after each other */
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

static enum status published_need_platform(struct predictor *w, const char *platform)
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
static void published_take_row(const struct published_row *row, const struct measurement *m,
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

static enum status published_evaluate_row(struct predictor *w, const struct published_row *row,
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
    enum status st = evaluate_plan(plan, &context, engine_quick(), &m, NULL, NULL);
    if (st == STATUS_OK)
        published_take_row(row, &m, out);
    measurement_free(&m);
    return st;
}

/* A run that happened had room: what its row leaves unsaid is the least with which it has. What was
 * predicted first stays where nothing helps. */
static enum status assume(struct predictor *w, const struct published_row *row, struct setup *s,
                          const struct model *m, struct published_prediction *out)
{
    const char *words;
    out->assumed = published_spare(&row->config, out);
    bool fits = out->peak_bytes <= out->device_bytes;
    for (size_t k = 0; !fits && (words = published_assume(&row->config, k, s)); k++) {
        struct published_prediction other = {0};
        struct plan p = {0};
        enum status st = published_plan(&row->config, s, m, &w->topology, w->framework, &p);
        if (st == STATUS_OK)
            st = published_evaluate_row(w, row, m, &p, &other);
        plan_free(&p);
        if (st != STATUS_OK)
            return st == STATUS_NOMEM ? st : STATUS_OK;
        other.assumed = words;
        fits = other.peak_bytes <= other.device_bytes;
        if (fits)
            *out = other;
    }
    return STATUS_OK;
}

/* A row's configuration as what is simulated; the platform is the worker's. */
struct prepared {
    struct keys keys;
    struct setup setup;
    struct model model;
    struct plan plan;
};

static enum status published_prepare_row(struct predictor *w, const struct published_row *row,
                                         struct prepared *out)
{
    char platform[PUBLISHED_PLATFORM];
    const struct published_config *c = &row->config;
    *out = (struct prepared){.keys = {.path = "the row", .format = KEYS_TREE}};
    out->setup.keys = &out->keys;
    PASS(published_platform(c, platform));
    PASS(published_setup(c, &out->setup));
    PASS(published_model(c, &out->setup, &out->model));
    PASS(published_need_platform(w, platform));
    PASS(published_attach(w->p, c, w->topology.type[0].name, &out->model));
    return published_plan(c, &out->setup, &out->model, &w->topology, w->framework, &out->plan);
}

static void prepared_free(struct prepared *x)
{
    plan_free(&x->plan);
    model_free(&x->model);
    keys_free(&x->keys);
}

/* A row by its configuration alone. */
static enum status published_predict_row(struct predictor *w, const struct published_row *row,
                                         struct published_prediction *out)
{
    enum status st;
    struct prepared x;
    TRY(published_prepare_row(w, row, &x));
    TRY(published_evaluate_row(w, row, &x.model, &x.plan, out));
    TRY(assume(w, row, &x.setup, &x.model, out));
out:
    prepared_free(&x);
    return st;
}

/* ---- other constants */

/* What of the constants reaches a row. */
struct reach {
    struct framework framework;
    struct device_kernels kernels;
};

/* The framework and the device of a row with these constants. Platforms of rows have one type. */
static enum status published_vary_row(const struct published_config *c,
                                      const struct device_type *type,
                                      const struct constants *constants, struct reach *out)
{
    bool all;
    char text[PUBLISHED_PLATFORM];
    enum data_type dtype = DATA_ANY;
    PASS(published_dtype(c, &dtype));
    published_framework(c, constants, text);
    PASS(framework_parse_with(constants, text, &out->framework));
    out->kernels = kernels_vary(type, dtype, constants);
    double times = gpu_varied(type->name, constants, &all);
    for (size_t i = 0; i < DATA_TYPES; i++)
        out->kernels.product[i] *= times;
    for (size_t i = 0; i < FLASH_KINDS && all; i++)
        out->kernels.flash[i] *= times;
    return STATUS_OK;
}

/* The same without what no op of the row asks for, so that equal ones are equally long. */
static struct reach needed(const struct published_config *c, const struct setup *s, struct reach r)
{
    bool narrow = data_type_narrow((enum data_type)s->dtype), wide = s->dtype == DATA_fp32;
    if (!narrow)
        r.framework.narrow = r.framework.cast = 0;
    if (c->tp < 2)
        r.framework.sum_kernels = 0;
    if (c->cp < 2)
        r.framework.context = r.framework.context_interference = 0;
    if (c->experts < 2)
        r.framework.expert_kernels = r.framework.exchange_hidden = r.framework.permuted = 0;
    if (s->plain_attention || wide)
        memset(r.kernels.flash, 0, sizeof r.kernels.flash), r.kernels.flash_backward = 0;
    else
        r.framework.square = 0;
    return r;
}

static void set_pace(const double times[PUBLISHED_PACES], struct framework *f)
{
    f->layers *= times[PACE_LAYERS];
    f->head *= times[PACE_HEAD];
    f->step_s *= times[PACE_STEP];
}

/* Seconds of a row with a group of constants, which reach it as the first one does or have their
 * own. */
static enum status vary_group(struct predictor *w, size_t i, size_t group, struct prepared *x,
                              double *out)
{
    const struct published_variation *v = w->variation;
    const struct constants *constants = v->constants + group * v->each;
    const struct published_row *row = &w->p->row[i];
    struct device_type *type = w->topology.type;
    const struct device_kernels shipped = type->kernels;
    struct reach first = {0};
    for (size_t k = 0; k < v->each; k++) {
        struct reach all;
        struct published_prediction q = {0};
        PASS(published_vary_row(&row->config, type, &constants[k], &all));
        struct reach reach = needed(&row->config, &x->setup, all);
        out[k] = out[0];
        if (k > 0 && !memcmp(&first, &reach, sizeof reach))
            continue;
        first = k == 0 ? reach : first;
        x->plan.issue = all.framework;
        if (v->pace)
            set_pace(v->pace[i * v->groups + group].times, &x->plan.issue);
        type->kernels = all.kernels;
        enum status st = published_evaluate_row(w, row, &x->model, &x->plan, &q);
        type->kernels = shipped;
        PASS(st);
        out[k] = q.step_s;
    }
    return STATUS_OK;
}

static enum status vary_row(struct predictor *w, size_t i, double *out)
{
    enum status st = STATUS_OK;
    const struct published_variation *v = w->variation;
    struct prepared x;
    TRY(published_prepare_row(w, &w->p->row[i], &x));
    for (size_t g = 0; g < v->groups; g++)
        if (!v->want || v->want[i * v->groups + g])
            TRY(vary_group(w, i, g, &x, out + g * v->each));
out:
    prepared_free(&x);
    return st;
}

/* What rows have to do with is theirs; *reason gets it, or the error is everybody's. */
static enum status published_judge_row(const struct predictor *w, const struct published_row *row,
                                       enum status st, char *reason)
{
    if (st == STATUS_NOMEM || (st != STATUS_OK && w->broken))
        return error_context(st, "%s", row->id ? row->id : row->set);
    if (st != STATUS_OK)
        snprintf(reason, PUBLISHED_REASON, "%s", error_message());
    return STATUS_OK;
}

static enum status published_run_row(void *context, size_t i, void *slot)
{
    struct predictor *w = context;
    struct published_prediction *out = slot;
    char reason[PUBLISHED_REASON] = "";
    const struct published_row *row = &w->p->row[w->order[i]];
    if (row->left_out)
        return STATUS_OK;
    PASS(published_judge_row(w, row, published_predict_row(w, row, out), reason));
    if (reason[0]) {
        *out = (struct published_prediction){0};
        memcpy(out->reason, reason, sizeof reason);
    }
    return STATUS_OK;
}

static enum status work_varied(void *context, size_t i, void *slot)
{
    struct predictor *w = context;
    const struct published_variation *v = w->variation;
    const struct published_row *row = &w->p->row[w->order[i]];
    char reason[PUBLISHED_REASON] = "";
    bool any = !v->want;
    for (size_t g = 0; g < v->groups && !any; g++)
        any = v->want[w->order[i] * v->groups + g];
    if (row->left_out || !any)
        return STATUS_OK;
    PASS(published_judge_row(w, row, vary_row(w, w->order[i], slot), reason));
    if (reason[0])
        memset(slot, 0, v->groups * v->each * sizeof(double));
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

static enum status published_order_rows(const struct published *p, size_t *order)
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

/* Do `each` for all rows, on all cores: size bytes each, to out + row * size. */
static enum status for_rows(struct predictor *w, size_t size, void *out,
                            enum status (*each)(void *context, size_t i, void *slot))
{
    enum status st;
    size_t *order = NULL, rows = w->p->rows;
    char *slots = NULL;
    TRY(ARRAY_NEW(order, rows));
    TRY(ARRAY_NEW(slots, rows * size));
    TRY(published_order_rows(w->p, order));
    w->order = order;
    TRY(pool_for(0, rows, size, slots, each, w));
    for (size_t i = 0; i < rows; i++)
        memcpy((char *)out + order[i] * size, slots + i * size, size);
out:
    forget_platform(w);
    free(order);
    free(slots);
    return st;
}

enum status published_predict(const struct published *p, const char *framework,
                              struct published_prediction *out)
{
    struct predictor w = {.p = p, .framework = framework};
    return for_rows(&w, sizeof *out, out, published_run_row);
}

enum status published_vary(const struct published *p, const struct published_variation *v,
                           double *out)
{
    struct predictor w = {.p = p, .variation = v};
    return for_rows(&w, v->groups * v->each * sizeof *out, out, work_varied);
}
