/* What the devices of a plan can do together. */
#include "study/machine.h"

#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/data/compare.h"

static const double kilo = 1e3;

const char *machine_convention(bool mask_subtracted)
{
    return mask_subtracted ? "causal mask subtracted" : "causal mask not subtracted";
}

static bool subtracts_mask(const struct model *m)
{
    double middle =
        (model_convention_flop(m, MODEL_CAUSAL) + model_convention_flop(m, MODEL_SQUARE)) / 2;
    return model_sample_flop(m) < middle;
}

/* A sum with something unknown in it is unknown: 0, and stays so. */
static double sum_known(double sum, double devices_before, double copies, double value)
{
    return value > 0 && (sum > 0 || devices_before == 0) ? sum + copies * value : 0;
}

void machine_add(struct training_machine *m, const struct model *model,
                 const struct device_type *type, double copies)
{
    m->flops += copies * device_flops(type, model->dtype);
    m->peak_flops = sum_known(m->peak_flops, m->devices, copies, type->peak[model->dtype]);
    m->watts = sum_known(m->watts, m->devices, copies, type->watts);
    m->price_per_hour = sum_known(m->price_per_hour, m->devices, copies, type->price_per_hour);
    m->devices += copies;
}

void machine_finish(struct training_machine *m, const struct model *model, double samples_per_s)
{
    m->tokens_per_s = samples_per_s * model->tokens_per_sample;
    m->done_flops = samples_per_s * model_sample_flop(model);
    m->mask_subtracted = subtracts_mask(model);
}

enum status machine_of_plan(const struct plan *p, const struct model *model,
                            const struct topology *t, double samples_per_s,
                            struct training_machine *out)
{
    bool *used; /* [t->n]: several stages may be on one device */
    *out = (struct training_machine){0};
    PASS(ARRAY_NEW(used, t->n));
    for (size_t s = 0; s < p->stages; s++)
        for (size_t k = 0; k < p->stage[s].devices; k++) {
            uint32_t device = p->stage[s].device[k];
            if (!used[device])
                machine_add(out, model, topology_type(t, device), 1);
            used[device] = true;
        }
    free(used);
    machine_finish(out, model, samples_per_s);
    return STATUS_OK;
}

double machine_nominal(const struct training_machine *m)
{
    return m->peak_flops > 0 ? m->peak_flops : m->flops;
}

void machine_measure(const struct model *model, const struct program *p, const struct topology *t,
                     struct measurement *m)
{
    struct training_machine all = {0};
    for (size_t r = 0; r < p->ranks; r++) {
        const struct device_type *type = topology_type(t, p->rank[r].device);
        machine_add(&all, model, type, (double)program_rank_copies(p, r)); /* on devices alike */
        m->rank[r].memory_bytes = type->memory_bytes;
        if (!m->engine || engine_predicts(m->engine))
            m->rank[r].reserve_bytes = device_reserve(type);
    }
    machine_finish(&all, model, m->samples_per_s);
    m->flops = all.flops;
    m->peak_flops = all.peak_flops;
    m->watts = all.watts;
    m->price_per_hour = all.price_per_hour;
    if (all.flops <= 0)
        return;
    m->mask_subtracted = all.mask_subtracted;
    m->mfu = p->sample_flop * m->samples_per_s / machine_nominal(&all);
    m->hfu = (p->sample_flop + p->recompute_flop) * m->samples_per_s / machine_nominal(&all);
}

void machine_measure_cpu(const struct model *model, const struct program *p,
                         const struct topology *t, bool emulated, struct measurement *m)
{
    machine_measure(model, p, t, m);
    if (emulated || m->peak_flops > 0)
        m->mfu = m->hfu = 0;
}

void machine_print_speed(const struct training_machine *m, FILE *out)
{
    char all[TEXT_GROUPED], each[TEXT_GROUPED];
    if (m->tokens_per_s > 0)
        fprintf(out, ", %s tokens/s (%s per device)", text_grouped(m->tokens_per_s, all),
                text_grouped(m->tokens_per_s / m->devices, each));
    if (m->tokens_per_s > 0 && m->peak_flops > 0)
        fprintf(out, "\nMFU         %.1f %% of the nominal peak (%s per device; %s)",
                100 * m->done_flops / m->peak_flops,
                units_of(UNIT_FLOPS, m->done_flops / m->devices).text,
                machine_convention(m->mask_subtracted));
}

void machine_print_training(const struct training_machine *m, double tokens, FILE *out)
{
    if (tokens <= 0 || m->tokens_per_s <= 0)
        return;
    double s = tokens / m->tokens_per_s, hours = s / HOUR_S;
    fprintf(out, "training    %.4g days for %s tokens, %.4g device-hours", s / DAY_S,
            units_of(UNIT_COUNT, tokens).text, hours * m->devices);
    if (m->watts > 0)
        fprintf(out, ", %.4g kWh", m->watts / kilo * hours);
    if (m->price_per_hour > 0)
        fprintf(out, ", a price of %.4g", m->price_per_hour * hours);
    fputc('\n', out);
}
