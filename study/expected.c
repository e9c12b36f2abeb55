/* Finds the published runs that are like a plan in the table that bench/expected.sh writes. */
#include "study/expected.h"

#include <stdbool.h>
#include <string.h>

#include "core/base/units.h"
#include "core/data/program_check.h"
#include "core/strategy/framework.h"
#include "study/planning.h"
#include "study/warn.h"
#include "topologies/catalogue.h"

static const struct expected all[] = {
#define EXPECTED(device, dtype, framework, parallelism, runs, mean)                                \
    {device, dtype, framework, parallelism, runs, mean},
#include "study/expected.def"
#undef EXPECTED
    {NULL, NULL, NULL, NULL, 0, 0},
};

const char *expected_kind(const struct plan *p, char text[EXPECTED_KIND])
{
    bool shards = false, experts = false, context = false;
    size_t devices = 0;
    for (size_t s = 0; s < p->stages; s++) {
        shards |= p->stage[s].tensor_parallel > 1;
        experts |= p->stage[s].expert_parallel > 1;
        context |= p->stage[s].context_parallel > 1;
        devices += p->stage[s].devices;
    }
    const struct {
        const char *name;
        bool is;
    } kinds[] = {{"zero3", p->zero == 3},
                 {"tp", shards},
                 {"pp", p->stages > plan_chunks(p)},
                 {"cp", context},
                 {"ep", experts}};
    text[0] = '\0';
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].is)
            snprintf(text + strlen(text), EXPECTED_KIND - strlen(text), "%s%s", text[0] ? "+" : "",
                     kinds[i].name);
    if (!text[0])
        snprintf(text, EXPECTED_KIND, "%s", devices > 1 ? "dp" : "one");
    return text;
}

static bool expected_is_same(const char *wanted, const char *own)
{
    return !wanted || !strcmp(wanted, own);
}

/* Both kinds of 16 bits are as fast. */
static bool is_as_wide(const char *wanted, enum data_type own)
{
    bool half = own == DATA_fp16 || own == DATA_bf16;
    return !wanted || !strcmp(wanted, data_type_names[own]) ||
           (half && (!strcmp(wanted, "fp16") || !strcmp(wanted, "bf16")));
}

/* Of a framework that issues kernels; NULL: of foreline's own executor. */
static const char *issued_by(const struct plan *p)
{
    const struct framework *f = plan_framework(p);
    return f && f->by_kernel ? f->name : NULL;
}

/* Has the model times that were measured on this type? Then the roofline's runs say nothing about
 * it. */
static bool expected_is_measured(const struct plan *p, const struct model *m,
                                 const struct topology *t)
{
    const char *type = topology_type(t, p->stage[0].device[0])->name;
    for (size_t k = 0; k < m->profiles && !issued_by(p); k++)
        if (!*m->profile[k].device || !strcmp(m->profile[k].device, type))
            return true;
    return false;
}

const struct expected *expected_find(const struct plan *p, const struct model *m,
                                     const struct topology *t)
{
    const struct device_type *type = topology_type(t, p->stage[0].device[0]);
    const char *device = type->name, *framework = issued_by(p) ? issued_by(p) : "foreline";
    char kind[EXPECTED_KIND], doubt[WARN_TYPE];
    if (expected_is_measured(p, m, t) || !gpu_of_type(device) || p->steps > 0 ||
        warn_of_type(m, type, doubt) || (issued_by(p) && framework_unknown(m, t)))
        return NULL;
    for (const struct expected *e = all; e->runs > 0; e++)
        if (expected_is_same(e->device, device) && is_as_wide(e->dtype, m->dtype) &&
            expected_is_same(e->framework, framework) &&
            expected_is_same(e->parallelism, expected_kind(p, kind)))
            return e;
    return NULL;
}

/* The same plan as the usual framework would run it, and how far predictions of its runs were off;
 * nothing where its kernels would be the roofline's. */
static enum status print_usual(const struct plan *p, const struct evaluation_context *context,
                               FILE *out)
{
    enum status st;
    struct plan with = {0};
    struct evaluation e;
    if (framework_unknown(context->model, context->topology))
        return STATUS_OK;
    TRY(plan_copy(p, &with));
    TRY(plan_set_framework(&with, framework_usual));
    TRY(evaluate_once(context, &with, &e));
    fprintf(out, "; with\n            --framework %s this plan takes %s, %.4g samples/s",
            framework_usual, units_of(UNIT_SECONDS, e.iteration_s).text, e.samples_per_s);
    const struct expected *known = expected_find(&with, context->model, context->topology);
    if (known)
        fprintf(out, " (%zu runs: %.0f %% off)", known->runs, 100 * known->mean);
out:
    plan_free(&with);
    return st == STATUS_NOMEM ? st : STATUS_OK;
}

enum status expected_print(const struct plan *p, const struct evaluation_context *context,
                           FILE *out)
{
    enum status st = STATUS_OK;
    const struct expected *e = expected_find(p, context->model, context->topology);
    const char *dtype = e && e->dtype ? e->dtype : "any type",
               *device = e && e->device ? e->device : "any GPU";
    if (expected_is_measured(p, context->model, context->topology)) {
        fprintf(out,
                "rests on    times of ops that were measured on '%s'; compare says how far it is "
                "off of a run\n",
                topology_type(context->topology, p->stage[0].device[0])->name);
    } else if (e && !issued_by(p)) {
        fprintf(out, "published   by the roofline %zu runs in %s on %s were %.0f %% off", e->runs,
                dtype, device, 100 * e->mean);
        st = print_usual(p, context, out);
        fputc('\n', out);
    } else if (e) {
        fprintf(out,
                "published   %zu runs of %s in %s on %s, %s: predictions %.1f %% off on average\n",
                e->runs, e->framework, dtype, device,
                e->parallelism ? e->parallelism : "however parallel", 100 * e->mean);
    } else if (issued_by(p)) {
        fprintf(out,
                "published   no runs like this were compared: how far it is off, nobody knows\n");
    }
    return st;
}

void expected_put(const struct plan *p, const struct model *m, const struct topology *t,
                  struct json_writer *w)
{
    const struct expected *e = expected_find(p, m, t);
    if (!e) {
        json_put_string(w, "published", NULL);
        return;
    }
    json_open_object(w, "published", true);
    json_put_string(w, "framework", issued_by(p) ? e->framework : NULL);
    json_put_string(w, "device", e->device);
    json_put_string(w, "dtype", e->dtype);
    json_put_string(w, "parallelism", e->parallelism);
    json_put_integer(w, "runs", (int64_t)e->runs);
    json_put_real(w, "mean_error", e->mean);
    json_close(w);
}
