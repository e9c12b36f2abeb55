/* Fits constants of kernels and collectives to measured ones, and says how far off they are on
 * rows that were not fitted. */
#include "lab/kernels/kernel_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/statistics.h"
#include "core/cost/fabric.h"
#include "core/cost/kernel.h"
#include "core/data/topology.h"
#include "study/least_squares.h"

/* Beyond this error a residual counts by its size, not by its square. */
static const double huber = 0.05;
/* Constants that no row says anything about stay near what was guessed: a tenth of a residual per
 * e-fold. */
static const double prior = 0.1;

/* ---- prediction */

/* What rows of one kind leave open: nobody asks. */
static const struct fabric_model nothing_lost = {.share = 1, .nic = 1, .exponent = 1};

/* What the catalogue says of a GPU, as a device type; name and lists are left out. */
static struct device_type kernel_fit_type_of(uint32_t gpu)
{
    const struct gpu *g = &gpus[gpu];
    struct device_type t = {.flops = g->flops, .memory_Bps = g->memory_Bps};
    memcpy(t.peak, g->peak, sizeof t.peak);
    t.kernels = kernels_derive(&t);
    if (g->kernels && kernels_read(g->kernels, &t.kernels) != STATUS_OK)
        t.kernels = kernels_derive(&t);
    return t;
}

/* The best product that the catalogue knows of a type of numbers. */
static double best_product(const struct device_type *t, enum data_type dtype)
{
    return t->kernels.product[dtype] > 0 ? t->kernels.product[dtype] : device_flops(t, dtype);
}

static double *fabric_field(struct fabric_model *m, const char *name)
{
    return !strcmp(name, "start")      ? &m->start_s
           : !strcmp(name, "share")    ? &m->share
           : !strcmp(name, "half")     ? &m->half_bytes
           : !strcmp(name, "exponent") ? &m->exponent
           : !strcmp(name, "nic")      ? &m->nic
           : !strcmp(name, "hop")      ? &m->hop_s
                                       : &m->reduce;
}

static struct fabric_model kernel_fit_fabric(const struct kernel_constants *c,
                                             struct fabric_model m)
{
    for (size_t k = 0; k < c->n; k++)
        *fabric_field(&m, c->name[k]) = c->value[k];
    return m;
}

/* The type, of that GPU, with constants put in. */
static void set_constants(const struct kernel_constants *c, enum data_type dtype, uint32_t gpu,
                          struct device_type *t)
{
    struct device_kernels *k = &t->kernels;
    if (c->kind == ROW_PRODUCT) {
        k->units = gpus[gpu].units;
        k->product[dtype] = c->value[0] * best_product(t, dtype);
        k->rows = c->value[1];
        k->depth = c->value[2];
        k->wave = c->value[3];
        k->pace_s = c->value[4];
        k->cache = c->value[5];
    } else if (c->kind == ROW_ATTENTION) {
        k->flash[FLASH_VENDOR] = c->value[0];
        k->flash_tokens = c->value[1];
        k->flash_narrow = c->value[2];
    }
    k->memory = c->value[c->n - 2];
    k->shortest_s = c->value[c->n - 1];
}

double kernel_fit_seconds(const struct kernel_constants *c, const struct kernel_row *row)
{
    if (c->kind == ROW_COLLECTIVE) {
        struct fabric_model m = kernel_fit_fabric(c, nothing_lost);
        return fabric_model_seconds(&m, row->collective, &row->where, row->bytes);
    }
    struct device_type t = kernel_fit_type_of(row->gpu);
    set_constants(c, row->kernel.dtype, row->gpu, &t);
    return kernel_seconds(&t, &row->kernel);
}

/* ---- the fit */

struct kernel_problem {
    const struct kernel_rows *rows;
    const size_t *index; /* [n] rows that are fitted */
    size_t n;
    struct kernel_constants *constants;
    double guess[KERNEL_FIT_CONSTANTS];     /* logarithms */
    struct device_type (*type)[DATA_TYPES]; /* [gpus_n] types with the constants of the moment */
};

/* Shares are at most 1: kernels_read() takes no more. */
static double kernel_fit_value(const struct kernel_problem *p, size_t k, double x)
{
    const char *name = p->constants->name[k];
    bool share = !strcmp(name, "memory") || !strcmp(name, "wave") || !strcmp(name, "flash3");
    return share ? fmin(exp(x), 1) : exp(x);
}

static void set_types(const struct kernel_problem *p)
{
    for (uint32_t g = 0; p->type && g < gpus_n; g++)
        for (int d = 0; d < DATA_TYPES; d++) {
            p->type[g][d] = kernel_fit_type_of(g);
            if (d != DATA_ANY)
                set_constants(p->constants, (enum data_type)d, g, &p->type[g][d]);
        }
}

static double kernel_fit_seconds_of(const struct kernel_problem *p, const struct fabric_model *m,
                                    const struct kernel_row *row)
{
    return p->constants->kind == ROW_COLLECTIVE
               ? fabric_model_seconds(m, row->collective, &row->where, row->bytes)
               : kernel_seconds(&p->type[row->gpu][row->kernel.dtype], &row->kernel);
}

static double robust(double e)
{
    double root = sqrt(1 + e / huber * (e / huber)) - 1;
    return copysign(huber * sqrt(2 * root), e);
}

/* Residuals of the rows, then those of the guess. */
static enum status kernel_fit_residuals(void *self, const double *x, double *out)
{
    struct kernel_problem *p = self;
    struct fabric_model m = {0};
    for (size_t k = 0; k < p->constants->n; k++) {
        if (!(fabs(x[k]) < 200))
            return error_set(
                STATUS_EXTERNAL,
                "constant '%s' diverges in the fit: the rows of the table do not determine it",
                p->constants->name[k]);
        p->constants->value[k] = kernel_fit_value(p, k, x[k]);
        out[p->n + k] = prior * (x[k] - p->guess[k]);
    }
    if (p->constants->kind == ROW_COLLECTIVE)
        m = kernel_fit_fabric(p->constants, nothing_lost);
    else
        set_types(p);
    for (size_t i = 0; i < p->n; i++) {
        const struct kernel_row *row = &p->rows->row[p->index[i]];
        out[i] = robust(log(kernel_fit_seconds_of(p, &m, row) / row->seconds));
    }
    return STATUS_OK;
}

/* To three digits: what is said, and tested, is what a platform gets. */
static double kernel_fit_rounded(double x)
{
    char text[32];
    snprintf(text, sizeof text, "%.3g", x);
    return strtod(text, NULL);
}

/* The constants of these rows. */
static enum status kernel_fit_solve(struct kernel_problem *p)
{
    struct kernel_constants *c = p->constants;
    const struct least_squares problem = {.rows = p->n + c->n,
                                          .constants = c->n,
                                          .residuals = kernel_fit_residuals,
                                          .self = p,
                                          .tolerance = 1e-8,
                                          .iterations = 100};
    double x[KERNEL_FIT_CONSTANTS];
    if (p->n < KERNEL_FIT_ROWS_PER_CONSTANT * c->n)
        return error_set(
            STATUS_INVALID,
            "%zu rows are too few to fit %zu constants: expected at least %d rows per constant",
            p->n, c->n, KERNEL_FIT_ROWS_PER_CONSTANT);
    for (size_t k = 0; k < c->n; k++)
        x[k] = p->guess[k] = log(c->value[k]);
    PASS(least_squares(&problem, x));
    for (size_t k = 0; k < c->n; k++)
        c->value[k] = kernel_fit_rounded(kernel_fit_value(p, k, x[k]));
    return STATUS_OK;
}

/* ---- which constants */

static void kernel_fit_add(struct kernel_constants *c, const char *name, double value)
{
    c->name[c->n] = name;
    c->value[c->n++] = value;
}

static struct kernel_constants constants_of(const struct kernel_rows *rows)
{
    struct kernel_constants c = {.kind = rows->kind};
    bool inside = false, across = false, switched = false;
    if (c.kind == ROW_PRODUCT) {
        kernel_fit_add(&c, "product", 1);
        kernel_fit_add(&c, "rows", 20);
        kernel_fit_add(&c, "depth", 100);
        kernel_fit_add(&c, "wave", 0.3);
        kernel_fit_add(&c, "pace", 3e-10);
        kernel_fit_add(&c, "cache", 1e6);
    } else if (c.kind == ROW_ATTENTION) {
        kernel_fit_add(&c, "flash3", 0.5);
        kernel_fit_add(&c, "flash_tokens", 900);
        kernel_fit_add(&c, "flash_narrow", 0.8);
    }
    if (c.kind != ROW_COLLECTIVE) {
        kernel_fit_add(&c, "memory", 0.88);
        kernel_fit_add(&c, "shortest", 8e-6);
        return c;
    }
    for (size_t i = 0; i < rows->n; i++) {
        const struct fabric_where *w = &rows->row[i].where;
        inside |= w->members == w->per_node;
        across |= w->members != w->per_node;
        switched |= w->switched && w->members == w->per_node;
    }
    kernel_fit_add(&c, "start", 25e-6);
    if (inside) {
        kernel_fit_add(&c, "share", 0.98);
        kernel_fit_add(&c, "half", 5e6);
        kernel_fit_add(&c, "exponent", 0.8);
    }
    if (across) {
        kernel_fit_add(&c, "nic", 0.92);
        kernel_fit_add(&c, "hop", 4e-6);
    }
    if (switched)
        kernel_fit_add(&c, "reduce", 0.7);
    return c;
}

/* ---- errors */

/* Which rows are fitted, and which are tested with that: of one GPU or of all (NO_GPU), but for
 * those of a GPU or of a fifth of the shapes, which are tested; or of nothing, and all are. */
struct choice {
    uint32_t only, without;
    int part; /* -1: none */
};
static const uint32_t NO_GPU = UINT32_MAX;

static bool is_left_out(const struct kernel_row *row, const struct choice *c)
{
    uint64_t x = (row->shape + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return row->gpu == c->without ||
           (c->part >= 0 && (int)((x >> 32) % KERNEL_FIT_FOLDS) == c->part);
}

/* Fit, and note the errors of what is tested. */
static enum status fit_part(struct kernel_problem *p, size_t *index, const struct choice *choice,
                            struct kernel_constants *c, double *error)
{
    const struct kernel_rows *rows = p->rows;
    struct fabric_model m = {0};
    *c = constants_of(rows);
    p->constants = c;
    p->index = index;
    p->n = 0;
    for (size_t i = 0; i < rows->n; i++)
        if ((choice->only == NO_GPU || rows->row[i].gpu == choice->only) &&
            !is_left_out(&rows->row[i], choice))
            index[p->n++] = i;
    PASS(kernel_fit_solve(p));
    if (c->kind == ROW_COLLECTIVE)
        m = kernel_fit_fabric(c, nothing_lost);
    else
        set_types(p);
    bool all = choice->without == NO_GPU && choice->part < 0;
    for (size_t i = 0; i < rows->n; i++) {
        const struct kernel_row *row = &rows->row[i];
        if ((choice->only == NO_GPU || row->gpu == choice->only) &&
            (all || is_left_out(row, choice)))
            error[i] = fabs(kernel_fit_seconds_of(p, &m, row) / row->seconds - 1);
    }
    return STATUS_OK;
}

/* Quantiles of the errors of a GPU's rows, or of all (gpus_n). */
static double quantile_of(const struct kernel_rows *rows, uint32_t gpu, const double *error,
                          double q, double *room, size_t *n)
{
    *n = 0;
    for (size_t i = 0; i < rows->n; i++)
        if ((gpu >= gpus_n || rows->row[i].gpu == gpu) && !isnan(error[i]))
            room[(*n)++] = error[i];
    return *n > 0 ? quantile(room, *n, q) : NAN;
}

enum { FITTED, CROSSED, OWN, APART, ROOM, LISTS }; /* lists of errors, a row's each; and room */

static void kernel_fit_summarise(const struct kernel_rows *rows, double *error,
                                 struct kernel_fit *f)
{
    size_t n, all = rows->n;
    double *room = error + ROOM * all;
    for (uint32_t g = 0; g <= gpus_n; g++) {
        struct fit_error *e = g < gpus_n ? &f->gpu[g] : &f->all;
        e->median = quantile_of(rows, g, error, 0.5, room, &e->rows);
        e->p95 = quantile_of(rows, g, error, 0.95, room, &n);
        e->crossed = quantile_of(rows, g, error + CROSSED * all, 0.5, room, &n);
        e->own = quantile_of(rows, g, error + OWN * all, 0.5, room, &n);
        e->left_out = quantile_of(rows, g, error + APART * all, 0.5, room, &n);
    }
}

/* A fit whose rows do not bear the constants is left out of what is said. */
static enum status try_part(struct kernel_problem *p, size_t *index, const struct choice *choice,
                            double *error)
{
    struct kernel_constants c;
    enum status st = fit_part(p, index, choice, &c, error);
    return st == STATUS_INVALID ? STATUS_OK : st;
}

/* Five parts by shape: of all rows, and of each GPU's own; and every GPU by the others. */
static enum status cross(struct kernel_problem *p, size_t *index, bool by_gpu, double *error)
{
    size_t n = p->rows->n;
    for (int part = 0; part < KERNEL_FIT_FOLDS; part++)
        PASS(try_part(p, index, &(struct choice){NO_GPU, NO_GPU, part}, error + CROSSED * n));
    for (uint32_t g = 0; by_gpu && g < gpus_n; g++) {
        size_t own = 0;
        for (size_t i = 0; i < n; i++)
            own += p->rows->row[i].gpu == g;
        for (int part = 0; own > 0 && part < KERNEL_FIT_FOLDS; part++)
            PASS(try_part(p, index, &(struct choice){g, NO_GPU, part}, error + OWN * n));
        if (own > 0 && own < n)
            PASS(try_part(p, index, &(struct choice){NO_GPU, g, -1}, error + APART * n));
    }
    return STATUS_OK;
}

enum status kernel_fit(const struct kernel_rows *rows, bool apart, struct kernel_fit *out)
{
    enum status st;
    struct kernel_fit f = {0};
    struct kernel_problem p = {.rows = rows};
    size_t *index = NULL;
    double *error = NULL;
    TRY(ARRAY_NEW(f.gpu, gpus_n));
    TRY(ARRAY_NEW(index, rows->n + 1));
    TRY(ARRAY_NEW(error, LISTS * rows->n + 1));
    if (rows->kind != ROW_COLLECTIVE)
        TRY(ARRAY_NEW(p.type, gpus_n));
    for (size_t i = 0; i < LISTS * rows->n; i++)
        error[i] = NAN;
    TRY(fit_part(&p, index, &(struct choice){NO_GPU, NO_GPU, -1}, &f.constants, error));
    TRY(cross(&p, index, apart, error));
    kernel_fit_summarise(rows, error, &f);
    MOVE(out, f);
out:
    kernel_fit_free(&f);
    free(p.type);
    free(index);
    free(error);
    return st;
}

/* ---- what becomes of it */

void kernel_rows_keep(struct kernel_rows *rows, const struct gpu *gpu)
{
    size_t kept = 0;
    for (size_t i = 0; i < rows->n; i++)
        if (&gpus[rows->row[i].gpu] == gpu)
            rows->row[kept++] = rows->row[i];
    rows->n = kept;
}

void kernel_fit_put(const struct kernel_fit *f, const struct kernel_row *first,
                    const struct device_kernels *known, char **property, FILE *to)
{
    struct device_type t = kernel_fit_type_of(first->gpu);
    struct fabric_model m = kernel_fit_fabric(&f->constants, fabric_derive(&t));
    static char collectives[] = "collectives", kernels[] = "kernels";
    *property = f->constants.kind == ROW_COLLECTIVE ? collectives : kernels;
    if (f->constants.kind == ROW_COLLECTIVE) {
        fabric_model_put(to, &m);
        return;
    }
    double best = best_product(&t, first->kernel.dtype);
    if (known)
        t.kernels = *known;
    const struct device_kernels before = t.kernels;
    t.kernels.product[first->kernel.dtype] = best;
    set_constants(&f->constants, first->kernel.dtype, first->gpu, &t);
    if (f->constants.kind == ROW_ATTENTION) { /* one start and one memory for all kernels */
        t.kernels.memory = before.memory;
        t.kernels.shortest_s = before.shortest_s;
    }
    if (f->constants.kind != ROW_PRODUCT)
        memcpy(t.kernels.product, before.product, sizeof before.product);
    if (first->kernel.dtype == DATA_fp16)
        t.kernels.product[DATA_bf16] = t.kernels.product[DATA_fp16];
    kernels_put(&t.kernels, to);
}

void kernel_fit_free(struct kernel_fit *f)
{
    free(f->gpu);
    *f = (struct kernel_fit){0};
}
