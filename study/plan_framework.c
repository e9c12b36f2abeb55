/* Which framework a plan is made for where nobody names one: the only place that decides it. */
#include <math.h>
#include <string.h>

#include "core/cost/op_kernels.h"
#include "core/strategy/framework.h"
#include "study/planning.h"
#include "topologies/catalogue.h"

/* Of a model's FLOP, those of ops whose kernels are known: all other ops are one pass each, and a
 * convolution is none. */
static const double known_share = 0.9;

static double shaped_share(const struct model *m)
{
    double all = 0, shaped = 0;
    for (size_t i = 0; i < m->n; i++) {
        all += m->op[i].forward_flop;
        shaped += op_kernels_shaped(&m->op[i]) ? m->op[i].forward_flop : 0;
    }
    return all > 0 ? shaped / all : 0;
}

/* Measured times need no model of who issues the kernels: they have it. */
static bool framework_is_measured(const struct model *m, const struct device_type *type)
{
    for (size_t k = 0; k < m->profiles; k++)
        if (!*m->profile[k].device || !strcmp(m->profile[k].device, type->name))
            return true;
    return type->rates > 0;
}

const char *framework_unknown(const struct model *m, const struct topology *t)
{
    for (size_t k = 0; k < t->types; k++)
        if (!gpu_of_type(t->type[k].name))
            return "these devices are not in the catalogue, so their kernel speeds are unknown";
    for (size_t k = 0; k < t->types; k++)
        if (framework_is_measured(m, &t->type[k]))
            return "the model has measured times";
    for (size_t k = 0; k < t->types; k++)
        if (!kernels_known(&t->type[k].kernels))
            return "the platform gives no peak speeds of its GPUs, which kernel times need";
    return shaped_share(m) < known_share ? "kernel speeds are unknown for most of its FLOP" : NULL;
}

/* Cores of a CPU have less. */
static bool framework_has_gpus(const struct topology *t)
{
    double most = 0;
    for (size_t k = 0; k < t->types; k++)
        most = fmax(most, t->type[k].flops);
    return most > 1e12;
}

struct framework_choice plan_choose_framework(const struct arguments *a, const struct model *m,
                                              const struct topology *t)
{
    if (a->framework || !framework_has_gpus(t))
        return (struct framework_choice){a->framework, NULL};
    if (a->search.executable)
        return (struct framework_choice){NULL, "--executable plans run with foreline run"};
    const char *why = framework_unknown(m, t);
    if (why)
        return (struct framework_choice){NULL, why};
    return (struct framework_choice){
        framework_usual, "the default for GPUs of the catalogue; override with --framework"};
}

void framework_choice_print(const struct framework_choice *f, FILE *out)
{
    if (f->why)
        fprintf(out, "framework   %s: %s\n", f->name ? f->name : framework_name(0), f->why);
}
