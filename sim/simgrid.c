/* simgrid - the program on SimGrid's flow-level network: links are shared, fairly.
 *
 * Flows are prepared here, and what happens to them is asked of the module, in a child
 * (sim/simgrid/simulate.c). A folded program runs on the quotient of the platform's links (flows.h,
 * quotient.h) instead of the platform; one whose flows are hashed onto parallel links, on a network
 * in which each flow has a route of its own. */
#include "sim/engines.h"

#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "core/engine/fluid.h"
#include "sim/network_models.h"
#include "sim/simgrid_answer.h"
#include "sim/simgrid_module.h"

enum { PERIOD_MS = 200 };

static bool simgrid_tick(void *context)
{
    const struct simgrid_run *w = context;
    const struct simulation_watch *watch = w->options->watch;
    return watch->tick(watch->context, *(volatile size_t *)w->shown, w->p->ops);
}

/* Run in a child; the watch of the options sees how far it is in memory shared with it. */
static enum status run_child(struct simgrid_run *w, struct child_output *output)
{
    const struct child_watch watch = {simgrid_tick, w, PERIOD_MS};
    if (!w->options || !w->options->watch)
        return simgrid_child(SIMGRID_SIMULATE, w, NULL, output);
    void *shared =
        mmap(NULL, sizeof *w->shown, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return error_set(STATUS_NOMEM, "out of memory: no shared memory for SimGrid's process");
    w->shown = shared;
    enum status st = simgrid_child(SIMGRID_SIMULATE, w, &watch, output);
    munmap(shared, sizeof *w->shown);
    return st;
}

/* The links of all flows. Folded: of all copies, and what may be one flow, by proof: the fluid
 * model's run, since SimGrid shares links as that does. */
static enum status find_flows(struct simgrid_run *w)
{
    enum status st;
    struct plan_classes *finer = w->options ? w->options->finer : NULL;
    struct timeline timeline = {0};
    size_t messages;
    struct paths_options paths = {0};
    if (w->options)
        paths = w->options->paths;
    paths.faults = w->options ? w->options->faults : NULL;
    TRY(flows_make(w->p, w->t, &w->shapes, &paths, finer, &w->flows));
    if (w->p->folded && !flows_are_proved(&w->flows)) {
        TRY(timeline_init(&timeline, w->p->ops));
        TRY(fluid_run(w->p, w->t, &w->shapes, &w->flows, finer, &timeline, &messages));
    }
    TRY(alternatives_make(&w->flows, &w->ways));
out:
    timeline_free(&timeline);
    return st;
}

/* Does the program run on the platform's file? What is sprayed alike over all lanes of a bundle is
 * on one link, which the file has. */
static enum status choose_network(struct simgrid_run *w)
{
    enum paths_policy policy;
    const struct faults *faults = w->options ? w->options->faults : NULL;
    bool lost = flows_lose_lanes(w->t, faults);
    PASS(flows_policy(w->t, w->options ? &w->options->paths : NULL, &policy));
    bool chosen = paths_are_apart(policy);
    if (lost && !chosen)
        return error_set(
            STATUS_UNSUPPORTED,
            "simgrid: lanes can fail only with --paths ecmp or adaptive. Try --engine analytic");
    w->apart = w->p->folded || chosen;
    if (w->inside && w->apart)
        return error_set(STATUS_UNSUPPORTED,
                         "ranks are not symmetric, so all must be simulated: --network-model %s "
                         "depends on the platform's links",
                         w->options->network_model);
    return chosen ? flows_check_faults(w->t, faults) : STATUS_OK;
}

/* Collectives as flows, and what folded programs need. */
static enum status simgrid_prepare(struct simgrid_run *w)
{
    if (w->p->folded && w->options && faults_of_links(w->options->faults))
        return error_set(
            STATUS_UNSUPPORTED,
            "ranks are not symmetric, so all must be simulated: links fail or become slow");
    const struct network_model *model;
    PASS(network_model_find(w->options ? w->options->network_model : NULL, &model));
    w->model = model->simgrid;
    w->inside = model->inside;
    PASS(choose_network(w));
    PASS(shapes_make(w->p, w->t, w->options ? &w->options->collective : NULL, &w->shapes));
    if (w->inside)
        simgrid_take_latencies(w);
    return w->apart ? find_flows(w) : STATUS_OK;
}

/* The links are those of the platform, not of the network that was simulated. */
static enum status report_links(const struct simgrid_run *w, struct simulation *out)
{
    double iteration_s = 0;
    for (size_t i = 0; i < w->p->ops; i++)
        iteration_s = fmax(iteration_s, out->timeline.end_s[i]);
    free(out->link);
    out->link = NULL;
    return simulation_add_links(flows_links(&w->flows, w->t), w->flows.link_bytes, iteration_s,
                                out);
}

static enum status simgrid_run_engine(const struct program *p, const struct topology *t,
                                      const char *platform,
                                      const struct simulation_options *options,
                                      struct simulation *out)
{
    enum status st;
    struct simgrid_run w = {.p = p, .t = t, .platform = platform, .options = options};
    struct simulation result = {0};
    struct child_output output = {0};

    TRY(simgrid_prepare(&w));
    st = run_child(&w, &output);
    if (st != STATUS_OK) {
        st = error_context(st, "simulating on %s", platform);
        goto out;
    }
    TRY(simgrid_parse(&output, p->ops, &result));
    if (w.apart)
        TRY(report_links(&w, &result));
    *out = result;
    result = (struct simulation){0};
out:
    child_output_free(&output);
    simulation_free(&result);
    shapes_free(&w.shapes);
    flows_free(&w.flows);
    alternatives_free(&w.ways);
    return st;
}

const struct engine engine_simgrid = {
    .name = "simgrid",
    .summary = "flow-level network contention on the platform file; 1e5 messages per CPU second",
    .judge = true,
    .file = true,
    .folds = true,
    .models = true,
    .resolution_s = 1e-9,
    .run = simgrid_run_engine,
    .load = simgrid_load_module,
};
