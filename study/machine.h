/* machine.h - what the devices of a plan can do, draw and cost together, and what a training run of
 * so many tokens comes to. */
#ifndef STUDY_MACHINE_H
#define STUDY_MACHINE_H

#include <stdbool.h>
#include <stdio.h>

#include "core/data/measurement.h"
#include "core/data/model.h"
#include "core/data/plan.h"
#include "core/data/program.h"
#include "core/data/topology.h"

/* Sums over devices; of what is not known of one of them: 0. */
struct training_machine {
    double devices;
    double flops;                 /* FLOP/s that products attain */
    double peak_flops;            /* nominal, of the model's type of numbers */
    double watts, price_per_hour; /* at work */
    double tokens_per_s;          /* of the plan; 0: the model has none */
    double done_flops;            /* the model's FLOP per second */
    bool mask_subtracted;         /* from these: its attention skips what a causal mask hides */
};

/* {0} and then every device once; `copies` devices of the type. */
void machine_add(struct training_machine *m, const struct model *model,
                 const struct device_type *type, double copies);
/* After the last device. */
void machine_finish(struct training_machine *m, const struct model *model, double samples_per_s);
/* The devices of a plan. O(stages x devices). STATUS_NOMEM. */
enum status machine_of_plan(const struct plan *p, const struct model *model,
                            const struct topology *t, double samples_per_s,
                            struct training_machine *out) MUST_CHECK;

/* What only the platform knows: memory of every rank's device, what they could compute at the
 * stated speeds and at their nominal peak, and so MFU and HFU; what they draw and cost. */
void machine_measure(const struct model *model, const struct program *p, const struct topology *t,
                     struct measurement *m);

/* The same of a run whose numerics this machine's CPUs computed as fast as they could: MFU and HFU
 * stay unknown where they are not what the platform has: its nodes are `emulated`, or it has GPUs
 * (devices with a nominal peak). */
void machine_measure_cpu(const struct model *model, const struct program *p,
                         const struct topology *t, bool emulated, struct measurement *m);

/* What MFU is a share of: the nominal peak, else the attained speed. */
double machine_nominal(const struct training_machine *m);

/* What of attention counts as FLOP, where a share of the peak is printed. */
const char *machine_convention(bool mask_subtracted);

/* ", 449,800 tokens/s (14,056 per device), MFU 73.2 % of the nominal peak (724 Tflop/s per
 * device)": each where it is known. */
void machine_print_speed(const struct training_machine *m, FILE *out);
/* "training    36.6 days for 1e+12 tokens, 1758 device-hours, 2242 kWh, a price of 4396"; nothing
 * for no tokens or an unknown speed. Energy and money only where the platform says them. */
void machine_print_training(const struct training_machine *m, double tokens, FILE *out);

#endif
