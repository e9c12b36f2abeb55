/* What would make a plan fit when none does: an option less, more devices, devices with more
 * memory. Each is tried. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/units.h"
#include "core/strategy/framework.h"
#include "study/frameworks/port.h"
#include "study/memory_answer.h"
#include "study/paths.h"
#include "study/planning.h"

enum { MOST_NODES = 256, MOST_DEVICES = 2048, STEPS = 8, SPEC = 512 };

struct remedies_text {
    const volatile int *stop;
    char *text; /* [PLAN_REMEDIES] */
    size_t n;
};

static void remedies_add(struct remedies_text *t, const char *what, const char *value)
{
    if (t->n < PLAN_REMEDIES)
        t->n += (size_t)snprintf(t->text + t->n, PLAN_REMEDIES - t->n, what, value);
}

/* ---- an option less */

/* As if the option had not been given; false: it is not one that can stand in the way. */
static bool drop_number(struct arguments *a, const char *option)
{
    const struct {
        const char *name;
        size_t *value;
    } numbers[] = {{"stages", &a->stages},
                   {"pipeline-parallel", &a->pipeline},
                   {"chunks", &a->chunks},
                   {"microbatches", &a->microbatches},
                   {"microbatch-size", &a->microbatch_size}};
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
        if (!strcmp(option, numbers[k].name)) {
            *numbers[k].value = 0;
            return true;
        }
    return false;
}

static const char *const dropped[] = {"stages",       "pipeline-parallel", "chunks",
                                      "microbatches", "microbatch-size",   "schedule",
                                      "reserve",      "executable"};
enum { DROPPED = sizeof dropped / sizeof *dropped };

static void drop_option(struct arguments *a, const char *option)
{
    if (drop_number(a, option) && !strcmp(option, "microbatch-size") &&
        !arguments_given(a, "microbatches"))
        a->microbatches = 0; /* followed from it */
    if (!strcmp(option, "schedule"))
        a->schedule = NULL;
    if (!strcmp(option, "reserve"))
        a->reserve = NULL;
    if (!strcmp(option, "executable"))
        a->search.executable = false;
}

/* Out of the arguments that the search would have: batch and all. */
static enum status try_without(const struct arguments *a, const struct evaluation_context *context,
                               const char *option, struct remedies_text *text)
{
    struct evaluation_context c = *context;
    bool fits;
    PASS(plan_could_fit(a, &c, text->stop, &fits));
    if (fits)
        remedies_add(text, "; without --%s a plan fits", option);
    return STATUS_OK;
}

static enum status try_options(const struct arguments *a, const struct evaluation_context *context,
                               struct remedies_text *text)
{
    for (size_t k = 0; k < DROPPED; k++) {
        struct arguments without = *a;
        drop_option(&without, dropped[k]);
        if (arguments_given(a, dropped[k]))
            PASS(try_without(&without, context, dropped[k], text));
    }
    for (size_t k = 0; k < STRATEGY_KNOBS; k++) {
        const struct strategy_knob *knob = &strategy_knobs[k];
        struct arguments without = *a;
        if (!knob->option || !arguments_given(a, knob->option) || (!knob->searched))
            continue;
        without.chosen &= ~(UINT64_C(1) << k);
        strategy_put(knob, 0,
                     knob->scope == STRATEGY_PLAN ? (void *)&without.shared : (void *)&without.own);
        PASS(try_without(&without, context, knob->option, text));
    }
    return STATUS_OK;
}

/* ---- an option more */

/* One that the plan's launcher can express, if it has one. */
static enum status try_saving(const struct auto_candidate *least, const struct arguments *a,
                              const struct evaluation_context *context, struct remedies_text *text)
{
    enum status st;
    struct memory_saving saving = {0};
    struct topology nodes = *context->topology; /* owns its nodes alone */
    struct evaluation_context c = *context;
    const struct framework *f = plan_framework(&least->plan);
    nodes.node_of = NULL;
    TRY(topology_find_nodes(&nodes));
    c.topology = &nodes;
    c.launched = a->model;
    c.launches = f && f->launcher ? port_launches : NULL;
    TRY(memory_saving_find(&least->plan, &c, 1, &saving));
    if (*saving.option) {
        remedies_add(text, "; with %s", saving.option);
        remedies_add(text, " it needs %s", units_of(UNIT_BYTES, (double)saving.peak_bytes).text);
    }
out:
    free(nodes.node_of);
    return st;
}

/* ---- more devices */

/* The number behind a key of a generated platform's description, NULL: it has none. */
static const char *find_nodes(const char *spec)
{
    static const char *const keys[] = {":nodes=", ",nodes=", ":domains=", ",domains="};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        const char *at = strstr(spec, keys[k]);
        if (at)
            return at + strlen(keys[k]);
    }
    return NULL;
}

/* The description with `nodes` nodes; one node becomes several with a rail. false: it cannot. */
static bool grow_platform(const char *spec, size_t *now, size_t nodes, char out[SPEC])
{
    static const char one[] = "node:";
    const char *at = find_nodes(spec);
    char *end = NULL;
    *now = at ? strtoul(at, &end, 10) : 1;
    int n = at ? snprintf(out, SPEC, "%.*s%zu%s", (int)(at - spec), spec, nodes, end)
            : !strncmp(spec, one, strlen(one))
                ? snprintf(out, SPEC, "rail:nodes=%zu,%s", nodes, spec + strlen(one))
                : -1;
    bool written = n > 0 && n < SPEC;
    return written && *now > 0 && *now <= MOST_NODES && !strchr(spec, '@');
}

/* Where the family has no such platform, no plan fits on it. */
static enum status try_nodes(const struct arguments *a, const struct model *m,
                             const volatile int *stop, bool *fits, size_t *devices)
{
    enum status st;
    struct topology t = {0};
    char *path = NULL;
    *fits = false;
    st = load_topology(a->platform, &t, &path);
    if (st != STATUS_OK)
        return st == STATUS_NOMEM ? st : STATUS_OK;
    struct evaluation_context c = {.model = m, .topology = &t, .platform = path};
    *devices = t.n;
    TRY(paths_read(a, &t, &c.options.paths));
    if (t.n <= MOST_DEVICES)
        TRY(plan_could_fit(a, &c, stop, fits));
out:
    free(path);
    topology_free(&t);
    return st;
}

static enum status try_devices(const struct arguments *a, const struct evaluation_context *context,
                               struct remedies_text *text)
{
    char spec[SPEC] = "", count[SPEC + 64];
    struct arguments on = *a;
    on.platform = spec;
    size_t now = 0, devices = context->topology->n;
    bool fits = false, can = a->platform && grow_platform(a->platform, &now, 1, spec);
    size_t none = now, nodes = now;
    while (can && !fits && nodes <= MOST_NODES / 2 && devices <= MOST_DEVICES / 2) {
        none = nodes;
        nodes *= 2;
        can = grow_platform(a->platform, &now, nodes, spec);
        PASS(try_nodes(&on, context->model, text->stop, &fits, &devices));
    }
    if (!fits)
        return STATUS_OK;
    size_t most = nodes, step = (most - none + STEPS - 1) / STEPS;
    fits = false;
    for (nodes = none + step; nodes < most && !fits; nodes += fits ? 0 : step) {
        (void)grow_platform(a->platform, &now, nodes, spec);
        PASS(try_nodes(&on, context->model, text->stop, &fits, &devices));
    }
    nodes = fits ? nodes : most;
    (void)grow_platform(a->platform, &now, nodes, spec);
    snprintf(count, sizeof count, "%zu such devices a plan fits (--platform %s)",
             nodes * (context->topology->n / now), spec);
    remedies_add(text, "; on %s", count);
    return STATUS_OK;
}

/* ---- all of it */

enum status plan_remedies(const struct auto_candidate *least, const struct arguments *a,
                          const struct evaluation_context *context, const volatile int *stop,
                          char text[PLAN_REMEDIES])
{
    struct remedies_text t = {stop, text, 0};
    struct arguments same = *a;
    const struct evaluation *e = auto_evaluation(least);
    const struct device_type *type = topology_type(context->topology, e->device);
    int64_t reserve = 0;
    text[0] = '\0';
    same.batch = plan_samples(a, context->topology);
    PASS(plan_reserve(a, type, &reserve));
    PASS(try_saving(least, &same, context, &t));
    PASS(try_options(&same, context, &t));
    PASS(try_devices(&same, context, &t));
    /* the reserve may be a part of the memory */
    double room = (double)(type->memory_bytes - reserve);
    if (room > 0)
        remedies_add(
            &t, "; devices with %s would be enough",
            units_of(UNIT_BYTES, (double)e->peak_bytes / room * (double)type->memory_bytes).text);
    return STATUS_OK;
}
