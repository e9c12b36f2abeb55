/* Which framework a plan is made for where nobody names one: the only place that decides it. */
#include <string.h>

#include "core/framework.h"
#include "core/op_kernels.h"
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
static bool is_measured(const struct model *m, const struct device_type *type)
{
    for (size_t k = 0; k < m->profiles; k++)
        if (!*m->profile[k].device || !strcmp(m->profile[k].device, type->name))
            return true;
    return type->rates > 0;
}

struct framework_choice plan_choose_framework(const struct arguments *a, const struct model *m,
                                              const struct topology *t)
{
    bool measured = false, known = true;
    if (a->framework)
        return (struct framework_choice){a->framework, NULL};
    for (size_t k = 0; k < t->types; k++) {
        measured |= is_measured(m, &t->type[k]);
        known &= kernels_known(&t->type[k].kernels);
        if (!gpu_of_type(t->type[k].name))
            return (struct framework_choice){NULL, NULL};
    }
    if (a->executable)
        return (struct framework_choice){NULL,
                                         "foreline run is who issues kernels of --executable"};
    if (measured)
        return (struct framework_choice){NULL, "the times of ops are measured"};
    if (!known)
        return (struct framework_choice){NULL, "the platform states no peaks of its GPUs, without "
                                               "which nothing is known of kernels"};
    if (shaped_share(m) < known_share)
        return (struct framework_choice){NULL,
                                         "nothing is known of the kernels of most of its FLOP"};
    return (struct framework_choice){
        framework_usual,
        "none is named, and the catalogue has these GPUs; --framework says another"};
}

void framework_choice_print(const struct framework_choice *f, FILE *out)
{
    if (f->why)
        fprintf(out, "framework   %s: %s\n", f->name ? f->name : framework_name(0), f->why);
}
