/* Loads the module with SimGrid in it, and runs its tasks in children. */
#include "sim/simgrid_module.h"

#include <math.h>
#include <stdlib.h>

#include "sim/ns3.h"

/* A task on its way into the child. */
struct simgrid_call {
    const struct simgrid_module *module;
    enum simgrid_task task;
    void *argument;
};

/* In the child: the module has its own error message, which becomes ours. */
static enum status run_task(void *argument, int fd)
{
    const struct simgrid_call *call = argument;
    enum status st = call->module->task[call->task](call->argument, fd);
    return st == STATUS_OK ? st : error_set(st, "%s", call->module->message());
}

void simgrid_take_latencies(struct simgrid_run *w)
{
    for (size_t k = 0; k < w->shapes.n; k++) {
        struct shaped *s = &w->shapes.shaped[k];
        const uint32_t *device = w->p->device + w->p->device_start[s->group];
        for (size_t p = 0; p < s->shape.phases; p++) {
            struct collective_phase *phase = &s->shape.phase[p];
            double first_s = 0;
            for (size_t f = phase->flow_start; f < phase->flow_end; f++)
                first_s = fmax(first_s, topology_between(w->t, device[s->shape.flow[f].from],
                                                         device[s->shape.flow[f].to])
                                            ->latency_s);
            phase->latency_s = fmax(0, phase->latency_s - first_s);
        }
    }
}

/* With settings of ns-3 that it may be used with, unless there are some. */
static enum status load_module(const void **module)
{
    if (!getenv("NS_ATTRIBUTE_DEFAULT"))
        PASS(ns3_settings_use(NULL));
    return module_load(SIMGRID_MODULE, "simgrid_module", module);
}

enum status simgrid_load_module(void)
{
    const void *module;
    return load_module(&module);
}

enum status simgrid_child(enum simgrid_task task, void *argument, const struct child_watch *watch,
                          struct child_output *out)
{
    struct simgrid_call call = {.task = task, .argument = argument};
    const void *module;
    PASS(load_module(&module));
    call.module = module;
    return child_run_watched(run_task, &call, watch, out);
}
