/* Measured profiles: which of them are near, and what they say between and outside of their
 * sizes. */
#include "core/cost/cost_profile.h"

#include <string.h>

/* Is a profile for this type of device, or for any, and for this degree? */
static bool profile_matches(const struct model_profile *p, const struct device_type *type,
                            uint32_t tensor_parallel)
{
    return p->tensor_parallel == tensor_parallel && (!*p->device || !strcmp(p->device, type->name));
}

/* Times of one or two profiles, each with its weight. */
struct mixture {
    const struct model_profile *low, *high; /* low NULL: there is none; high NULL: low alone */
    double low_weight, high_weight;
    bool outside;
};

static struct mixture mixture_of(const struct model *m, const struct device_type *type,
                                 double samples, uint32_t tensor_parallel)
{
    const struct model_profile *below = NULL, *above = NULL;
    for (size_t k = 0; k < m->profiles; k++) {
        const struct model_profile *p = &m->profile[k];
        if (!profile_matches(p, type, tensor_parallel))
            continue;
        if (p->samples <= samples && (!below || p->samples > below->samples))
            below = p;
        if (p->samples >= samples && (!above || p->samples < above->samples))
            above = p;
    }
    if (below && above) {
        double gap = above->samples - below->samples;
        double x = gap > 0 ? (samples - below->samples) / gap : 0;
        return (struct mixture){below, above, 1 - x, x, false};
    }
    const struct model_profile *only = below ? below : above;
    return (struct mixture){only, NULL, only ? samples / only->samples : 0, 0, only != NULL};
}

static double mixed(const struct mixture *x, const double *low, const double *high, uint32_t op)
{
    return x->low_weight * low[op] + (high ? x->high_weight * high[op] : 0);
}

/* What is made again takes as long as the forward where nobody measured it by itself. */
static const double *again_of(const struct model_profile *p)
{
    return p ? p->again_s ? p->again_s : p->forward_s : NULL;
}

static bool profiled(const struct model *m, const struct device_type *type, uint32_t op,
                     double samples, uint32_t tensor_parallel, struct op_cost *out)
{
    const struct mixture x = mixture_of(m, type, samples, tensor_parallel);
    if (!x.low)
        return false;
    out->forward_s = mixed(&x, x.low->forward_s, x.high ? x.high->forward_s : NULL, op);
    out->backward_s = mixed(&x, x.low->backward_s, x.high ? x.high->backward_s : NULL, op);
    out->again_s = mixed(&x, again_of(x.low), again_of(x.high), op);
    out->extrapolated = x.outside;
    const struct model_profile *with = x.low->update_s ? x.low : x.high;
    if (with && with->update_s) /* of parameters: samples are nothing to it */
        out->update_s = with->update_s[op];
    return true;
}

bool profile_cost(const struct model *m, const struct device_type *type, uint32_t op,
                  double samples, const struct cost_split *split, struct op_cost *out)
{
    uint32_t degree = split ? split->shards : 1;
    struct cost_part part = cost_part(&m->op[op], split);
    double work = part.load / (split ? split->context : 1); /* profiles are of whole sequences */
    bool exact = profiled(m, type, op, samples, degree, out);
    if (exact && work == 1)
        return true;
    if (!exact) {
        if (degree == 1 || !profiled(m, type, op, samples, 1, out))
            return false;
        work = part.work;
        out->update_s *= part.parameters;
    }
    out->forward_s *= work;
    out->backward_s *= work;
    out->again_s *= work;
    out->extrapolated = true;
    return true;
}

bool profile_has_sums(const struct model *m, const struct device_type *type,
                      uint32_t tensor_parallel)
{
    for (size_t k = 0; k < m->profiles && tensor_parallel > 1; k++)
        if (profile_matches(&m->profile[k], type, tensor_parallel))
            return m->profile[k].sums; /* model_finish(): all of them, or none */
    return false;
}
