/* Finds how far off the prediction of a plan is expected to be, in the table that bench/fidelity.sh
 * writes. */
#include "study/expected.h"

#include <math.h>
#include <string.h>

#include "core/base/units.h"
#include "core/data/program_check.h"
#include "core/strategy/framework.h"
#include "study/planning.h"
#include "study/warn.h"
#include "topologies/catalogue.h"

static const struct expected all[] = {
#define EXPECTED(framework, width, parallelism, device, runs, median, nine_in_ten)                 \
    {{framework, width, parallelism, device}, runs, median, nine_in_ten},
#include "study/expected.def"
#undef EXPECTED
};

const char expected_roofline[] = "foreline";

/* Where no run had the framework, or the GPU, it is not expected to be less. */
static const double least_median = 0.1, least_nine_in_ten = 0.25;

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

const char *expected_width(enum data_type dtype)
{
    return dtype == DATA_fp16 || dtype == DATA_bf16 ? "16 bits" : data_type_names[dtype];
}

static bool expected_agrees(const struct expected *e, const char *const like[EXPECTED_LIKE])
{
    for (size_t k = 0; k < EXPECTED_LIKE; k++)
        if (e->like[k] && strcmp(e->like[k], like[k]) != 0)
            return false;
    return true;
}

static bool expected_knows(const struct expected *table, size_t n, size_t k, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (table[i].like[k] && !strcmp(table[i].like[k], name))
            return true;
    return false;
}

bool expected_among(const struct expected *table, size_t n, const char *const like[EXPECTED_LIKE],
                    struct expected *out)
{
    size_t i = 0;
    while (i < n && !expected_agrees(&table[i], like))
        i++;
    if (i == n)
        return false;
    *out = table[i];
    if (!expected_knows(table, n, EXPECTED_FRAMEWORK, like[EXPECTED_FRAMEWORK]) ||
        !expected_knows(table, n, EXPECTED_DEVICE, like[EXPECTED_DEVICE])) {
        out->median = fmax(out->median, least_median);
        out->nine_in_ten = fmax(out->nine_in_ten, least_nine_in_ten);
    }
    return true;
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

bool expected_find(const struct plan *p, const struct model *m, const struct topology *t,
                   struct expected *out)
{
    char kind[EXPECTED_KIND], doubt[WARN_TYPE];
    const struct device_type *type = topology_type(t, p->stage[0].device[0]);
    const char *const like[EXPECTED_LIKE] = {issued_by(p) ? issued_by(p) : expected_roofline,
                                             expected_width(m->dtype), expected_kind(p, kind),
                                             type->name};
    if (expected_is_measured(p, m, t) || !gpu_of_type(type->name) || p->steps > 0 ||
        warn_of_type(m, type, doubt) || (issued_by(p) && framework_unknown(m, t)))
        return false;
    return expected_among(all, sizeof all / sizeof *all, like, out);
}

const char *expected_text(const struct expected *e, char text[EXPECTED_TEXT])
{
    const char *const *like = e->like;
    const char *framework = like[EXPECTED_FRAMEWORK];
    bool any = !framework || !strcmp(framework, expected_roofline);
    snprintf(text, EXPECTED_TEXT, "%s in %s on %s%s%s", any ? "any framework" : framework,
             like[EXPECTED_WIDTH] ? like[EXPECTED_WIDTH] : "any precision",
             like[EXPECTED_DEVICE] ? like[EXPECTED_DEVICE] : "any GPU",
             like[EXPECTED_PARALLELISM] ? ", " : "",
             like[EXPECTED_PARALLELISM] ? like[EXPECTED_PARALLELISM] : "");
    return text;
}

static void print_band(const struct expected *e, FILE *out)
{
    fprintf(out, "half of similar runs within %.0f %%, nine in ten within %.0f %%", 100 * e->median,
            100 * e->nine_in_ten);
}

/* The runs most like it, and what none of all published runs of the framework had. */
static void print_alike(const struct expected *e, const struct model *m,
                        const struct device_type *type, FILE *out)
{
    char text[EXPECTED_TEXT];
    const char *const *like = e->like, *width = expected_width(m->dtype);
    fprintf(out, ";\n            similar: %zu published runs of %s", e->runs,
            expected_text(e, text));
    if (!like[EXPECTED_WIDTH])
        fprintf(out, ", of these under 5 in %s", width);
    if (!like[EXPECTED_DEVICE] &&
        !expected_knows(all, sizeof all / sizeof *all, EXPECTED_DEVICE, type->name))
        fprintf(out, ", none on %s", type->name);
}

/* The same plan as the usual framework would run it, and how far off that is expected to be;
 * nothing where its kernels would be the roofline's. */
static enum status print_usual(const struct plan *p, const struct evaluation_context *context,
                               FILE *out)
{
    enum status st;
    struct plan with = {0};
    struct evaluation e;
    struct expected known;
    if (framework_unknown(context->model, context->topology))
        return STATUS_OK;
    TRY(plan_copy(p, &with));
    TRY(plan_set_framework(&with, framework_usual));
    TRY(evaluate_once(context, &with, &e));
    fprintf(out, ";\n            with --framework %s this plan takes %s, %.4g samples/s",
            framework_usual, units_of(UNIT_SECONDS, e.iteration_s).text, e.samples_per_s);
    if (expected_find(&with, context->model, context->topology, &known)) {
        fputs(":\n            ", out);
        print_band(&known, out);
    }
out:
    plan_free(&with);
    return st == STATUS_NOMEM ? st : STATUS_OK;
}

enum status expected_print(const struct plan *p, const struct evaluation_context *context,
                           FILE *out)
{
    enum status st = STATUS_OK;
    struct expected e;
    const struct device_type *type = topology_type(context->topology, p->stage[0].device[0]);
    if (type->fitted.host > 0)
        fputs(
            "fitted      to measured runs: 'calibrate --from' printed the error on those left out; "
            "without the fit:\n",
            out);
    bool known = expected_find(p, context->model, context->topology, &e);
    if (expected_is_measured(p, context->model, context->topology)) {
        fprintf(out,
                "accuracy    from op times measured on '%s'; check it against a run with foreline "
                "compare\n",
                type->name);
    } else if (known) {
        fputs(issued_by(p) ? "accuracy    " : "accuracy    by the roofline: ", out);
        print_band(&e, out);
        if (issued_by(p))
            print_alike(&e, context->model, type, out);
        else
            st = print_usual(p, context, out);
        fputc('\n', out);
    } else if (issued_by(p)) {
        fprintf(out, "accuracy    unknown: no published runs like this one were compared\n");
    }
    return st;
}

void expected_put(const struct plan *p, const struct model *m, const struct topology *t,
                  struct json_writer *w)
{
    struct expected e;
    char text[EXPECTED_TEXT];
    if (!expected_find(p, m, t, &e)) {
        json_put_string(w, "expected_error", NULL);
        return;
    }
    json_open_object(w, "expected_error", true);
    json_put_real(w, "median", e.median);
    json_put_real(w, "nine_in_ten", e.nine_in_ten);
    json_put_integer(w, "runs", (int64_t)e.runs);
    json_put_string(w, "of", expected_text(&e, text));
    json_close(w);
}
