/* Predicted seconds of ops, and the part of them that one rank has. */
#include "core/cost/cost.h"

#include <math.h>
#include <string.h>

#include "core/cost/cost_profile.h"
#include "core/cost/kernel.h"
#include "core/cost/op_kernels.h"
#include "core/data/plan.h"
#include "core/strategy/framework.h"
#include "core/strategy/optimizer.h"

/* FLOP per parameter of one optimizer step, as calibration counts them; momentum is one more
 * product and sum. */
static double update_flop(const char *optimizer)
{
    static const double flop[] = {2, 4, 12};
    return flop[optimizer_moments(optimizer)];
}

struct cost_memory cost_memory(const char *optimizer, int64_t element_bytes, int64_t reduce_bytes,
                               const struct framework *framework)
{
    int64_t moments = optimizer_moments(optimizer) * optimizer_moment_bytes(optimizer),
            copy = element_bytes < 4 ? 4 : 0;
    bool summed = framework && framework->gradient <= 0 && framework->summed >= 0.5;
    double wide = summed      ? (double)reduce_bytes / (double)element_bytes
                  : framework ? framework->gradient / (double)element_bytes
                              : 1;
    return (struct cost_memory){1, wide > 1 ? (int64_t)ceil(wide) : 1,
                                (moments + copy) / (element_bytes < 4 ? element_bytes : 4)};
}

struct cost_split cost_split_by(const struct strategy *shared, const struct strategy_stage *own,
                                const struct framework *f, uint32_t microbatches)
{
    uint32_t streams = strategy_streams(own);
    return (struct cost_split){.shards = own->tensor_parallel,
                               .sequence = shared->sequence_parallel ? own->tensor_parallel : 1,
                               .experts = own->expert_parallel,
                               .context = own->context_parallel,
                               .imbalance = shared->expert_imbalance,
                               .framework = f,
                               .microbatches = microbatches / (streams > 0 ? streams : 1)};
}

struct cost_split cost_split_of(const struct plan *p, const struct plan_stage *s)
{
    return cost_split_by(&p->shared, &s->own, plan_framework(p), p->microbatches);
}

/* Dropout: a byte of mask for each number of a residual; where scores of attention are kept, mask
 * and what is left of them, besides. Korthikanti et al. 2023, section 4.1: 2 sbh and 3 as^2b.
 * Weights of experts (Megatron-Core since 2025): where they are factors of what is inside of an
 * expert, no backward needs what it gives back. */
int64_t cost_stash(const struct model *m, const struct model_op *op,
                   const struct framework *framework)
{
    int64_t bytes = op->stash_bytes, e = m->element_bytes;
    if (!framework)
        return bytes;
    if (framework->kept > 0)
        bytes = (int64_t)(framework->kept * (double)bytes);
    if (framework->weighted >= 0.5 && model_op_is(op, OPERATOR_EXPERTS))
        bytes -= model_attribute(op, "slots", 0) * model_attribute(op, "channels", 0) * e;
    if (framework->dropout < 0.5)
        return bytes;
    if (model_op_is(op, OPERATOR_ATTENTION) && !model_attribute(op, "flash", 0)) {
        int64_t tokens = model_attribute(op, "tokens", 0);
        bytes += (1 + e) * model_attribute(op, "heads", 0) * tokens *
                 model_attribute(op, "memory", tokens);
    }
    return bytes + (model_op_is(op, OPERATOR_STREAM) ? op->output_bytes / e : 0);
}

/* Memory traffic per parameter byte: parameter read and written, gradient read and cleared, and
 * all of the state read and written; a 16-bit parameter is only written, its copy is read. */
static double update_traffic(const char *optimizer, int64_t element_bytes)
{
    int64_t state = cost_memory(optimizer, element_bytes, element_bytes, NULL).state;
    return (double)(element_bytes < 4 ? 3 + 2 * state : 4 + 2 * state);
}

/* Experts with a capacity always work on all of their slots, and take no more. */
static bool is_padded(const struct model_op *op)
{
    int64_t slots = model_attribute(op, "slots", 0);
    return slots > 0 && slots != model_attribute(op, "tokens", 0) * model_attribute(op, "top_k", 0);
}

struct cost_part cost_part(const struct model_op *op, const struct cost_split *split)
{
    struct cost_part part = {1, 1, 1, 1, false};
    if (!split)
        return part;
    if (split->shards > 1) {
        double share = 1.0 / split->shards;
        bool whole = op->tensor == TENSOR_WHOLE, sequence = split->sequence > 1;
        part.work = !whole || sequence ? share : 1;
        part.parameters = whole ? 1 : share;
        /* the output of a row-parallel op is whole on every shard */
        part.stash = (whole || op->tensor == TENSOR_ROW) && !sequence ? 1 : share;
        part.replicated = whole;
    }
    if (cost_spreads(split, op)) {
        part.parameters /= split->experts; /* as much work comes in as goes out, but */
        if (split->imbalance > 1 && !is_padded(op))
            part.load = split->imbalance;
        part.work *= part.load; /* all wait for the busiest rank */
    }
    part.work /= split->context;
    part.stash /= split->context;
    return part;
}

/* The measured rate called "KIND.PHASE"; NULL when the device has none. */
static const struct topology_rate *find_rate(const struct device_type *type, const char *kind,
                                             const char *phase)
{
    size_t length = strlen(kind);
    for (size_t k = 0; k < type->rates; k++) {
        const char *name = type->rate[k].kind;
        if (!strncmp(name, kind, length) && name[length] == '.' &&
            !strcmp(name + length + 1, phase))
            return &type->rate[k];
    }
    return NULL;
}

/* Seconds of `flop` at the measured rate; sets *outside beyond the measured range. */
static double rated(const struct topology_rate *r, double flop, bool *outside)
{
    size_t last = r->n - 1, i = 0;
    if (flop <= r->flop[0] || flop >= r->flop[last]) {
        *outside = *outside || flop < r->flop[0] || flop > r->flop[last];
        return flop / r->flops[flop <= r->flop[0] ? 0 : last];
    }
    while (r->flop[i + 1] < flop)
        i++;
    double x = log(flop / r->flop[i]) / log(r->flop[i + 1] / r->flop[i]);
    return flop / (r->flops[i] + x * (r->flops[i + 1] - r->flops[i]));
}

/* The measured rate of a phase of an op; fused attention may have one of its own. */
static const struct topology_rate *cost_rate_of(const struct device_type *type,
                                                const struct model_op *op, const char *phase)
{
    if (type->rates == 0)
        return NULL;
    bool flash = model_attribute(op, "flash", 0) > 0;
    const struct topology_rate *r = flash ? find_rate(type, "flash", phase) : NULL;
    return r ? r : find_rate(type, op->kind, phase);
}

/* Seconds of one phase of an op: by the measured rate if there is one, else by the roofline. */
static double phase_cost(const struct device_type *type, const struct model_op *op,
                         enum data_type dtype, const char *phase, double flop, double bytes,
                         bool *outside)
{
    const struct topology_rate *r = cost_rate_of(type, op, phase);
    if (r && flop > 0)
        return rated(r, flop, outside);
    if (flop == 0 && bytes == 0)
        return 0;
    return type->launch_s + fmax(flop / device_flops(type, dtype), bytes / type->memory_Bps);
}

/* Are ops lists of kernels here, and does the device say how long these take? */
static bool by_kernel(const struct device_type *type, const struct cost_split *split)
{
    return split && split->framework && split->framework->by_kernel &&
           kernels_known(&type->kernels);
}

/* Seconds of a pass over the op's kernels, unless the device has a measured rate for the op. */
static bool kernel_cost(const struct model *m, const struct device_type *type, uint32_t op,
                        double samples, const struct cost_split *split, bool backward,
                        struct op_cost *c)
{
    struct op_kernels k;
    if (!by_kernel(type, split) ||
        cost_rate_of(type, &m->op[op], backward ? "backward" : "forward") != NULL)
        return false;
    const struct framework *f = split->framework;
    double times = model_in_block(m, op) ? f->layers : f->head;
    op_kernels(m, op, samples, split, backward, &k);
    *(backward ? &c->backward_s : &c->forward_s) = times * op_kernels_seconds(type, &k);
    *(backward ? &c->backward_host_s : &c->forward_host_s) =
        times * op_kernels_host(f, &k) * fitted_times(type->fitted.host);
    return true;
}

/* The roofline, or a measured rate, of a pass over so many samples' share of work. */
static void roofline_cost(const struct model *m, const struct device_type *type, uint32_t op,
                          double samples, double read, bool backward, struct op_cost *c)
{
    const struct model_op *o = &m->op[op];
    if (!backward)
        c->forward_s = phase_cost(type, o, model_dtype(m, o), "forward", samples * o->forward_flop,
                                  samples * o->forward_bytes + read, &c->extrapolated);
    else /* Weight gradients are read and written besides the weights. */
        c->backward_s =
            phase_cost(type, o, model_dtype(m, o), "backward", samples * o->backward_flop,
                       samples * o->backward_bytes + 3 * read, &c->extrapolated);
}

/* Optimizers go over many tensors in one launch: the traffic is all. */
static double update_cost(const struct model *m, const struct device_type *type, double held,
                          const char *optimizer, bool kernels)
{
    struct model_op update = {.kind = (char *)(uintptr_t)optimizer_name_of(optimizer)};
    double flop = held / (double)m->element_bytes * update_flop(optimizer);
    double bytes = held * update_traffic(optimizer, m->element_bytes);
    bool outside = false; /* large parameter blocks stream: constant rate is right there */
    struct kernel pass = {.kind = KERNEL_PASS, .dtype = DATA_fp32, .bytes = bytes};
    if (held <= 0)
        return 0;
    if (kernels && !cost_rate_of(type, &update, "update"))
        return kernel_seconds(type, &pass);
    return phase_cost(type, &update, DATA_ANY, "update", flop, bytes, &outside);
}

struct op_cost cost_op(const struct model *m, const struct device_type *type, uint32_t op,
                       double samples, const char *optimizer, const struct cost_split *split)
{
    const struct model_op *o = &m->op[op];
    struct cost_part part = cost_part(o, split);
    double held = part.parameters * (double)(o->parameter_bytes + o->shared_bytes);
    double read = o->sparse ? 0 : held; /* per microbatch */
    struct op_cost c = {.update_s = -1};

    if (!profile_cost(m, type, op, samples, split, &c)) {
        for (int backward = 0; backward < 2; backward++)
            if (!kernel_cost(m, type, op, samples, split, backward, &c))
                roofline_cost(m, type, op, samples * part.work, read, backward, &c);
        c.again_s = c.forward_s;
    }
    if (c.update_s < 0)
        c.update_s = update_cost(m, type, held, optimizer, by_kernel(type, split));
    return c;
}

void cost_pass_forward(struct cost_pass *p, double device_s, double host_s)
{
    p->device_s += device_s;
    p->host_s += host_s;
    p->pass_s = fmax(p->pass_s, p->host_s) + device_s;
}

void cost_pass_backward(struct cost_pass *p, double device_s, double host_s)
{
    p->device_s += device_s;
    p->host_s += host_s;
    p->pass_s = host_s + fmax(p->pass_s, p->device_s);
}

double cost_pass_stretch(const struct cost_pass *p)
{
    return p->pass_s > p->device_s && p->device_s > 0 ? p->pass_s / p->device_s : 1;
}

double cost_again(const struct model *m, const struct device_type *type, uint32_t op,
                  const struct plan_part *part, double samples, const struct cost_split *split)
{
    const struct model_op *o = &m->op[op];
    struct model_op activation = {.kind = model_attribute(o, "gated", 0) > 0 ? "gated" : "gelu"};
    double parts = samples * cost_part(o, split).work;
    bool outside = false;
    struct kernel pass = {
        .kind = KERNEL_PASS, .dtype = DATA_fp32, .launches = 1, .bytes = parts * part->traffic};
    if (by_kernel(type, split) && !cost_rate_of(type, &activation, "forward"))
        return kernel_seconds(type, &pass);
    return phase_cost(type, &activation, DATA_ANY, "forward", parts * part->flop,
                      parts * part->traffic, &outside);
}

double cost_host_update(const struct model *m, const struct device_type *type,
                        const char *optimizer, double bytes)
{
    return bytes * update_traffic(optimizer, m->element_bytes) / device_host_memory_Bps(type);
}

double cost_transfer(const struct topology *t, uint32_t from, uint32_t to, double bytes)
{
    if (from == to)
        return 0;
    const struct topology_tier *tier = topology_between(t, from, to);
    return tier->latency_s + bytes / tier->bandwidth_Bps;
}
