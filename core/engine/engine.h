/* engine.h - what a simulator is: a program in, a timeline out. */
#ifndef CORE_ENGINE_ENGINE_H
#define CORE_ENGINE_ENGINE_H

#include "core/collective/collective.h"
#include "core/data/faults.h"
#include "core/data/measurement.h"
#include "core/data/program.h"
#include "core/data/topology.h"
#include "core/lower/lower.h"

struct simulation {
    struct timeline timeline;
    size_t links; /* links of the platform (simgrid) or directed device pairs (analytic) */
    struct measured_link *link; /* [links] names owned */
    double cpu_s;               /* of the engine itself, without loading the platform */
    size_t messages;            /* transfers made, collective steps included */
};

/* Asked now and then by engines that take long how to go on; false: stop, STATUS_EXTERNAL. */
struct simulation_watch {
    bool (*tick)(void *context, size_t completed, size_t ops);
    void *context;
};

struct simulation_options {
    struct collective_options collective;
    struct paths_options paths;
    const struct simulation_watch *watch; /* NULL: none */
    bool unproved; /* on a topology without links a folded program's copies are taken to be alike:
                    * for scores, by the analytic engine */
    bool no_links; /* what links have carried is not asked for */
    struct plan_classes *finer;  /* out: of a folded program that is not symmetric the classes of
                                 * replicas that may be, if any; what was there is not released.
                                 * NULL: not asked for */
    const struct faults *faults; /* of links; NULL: none. Only SimGrid: STATUS_UNSUPPORTED */
    const char *network_model;   /* of engines with `models`: a name of sim/network_models.h; NULL:
                                  * the first */
    const char *ns3;             /* of engines with `packets`: sim/ns3.h; NULL: all as they are */
};

struct engine {
    const char *name, *summary;
    bool quick;   /* milliseconds: for scores, fits, and answers that cannot wait */
    bool judge;   /* what finalists are judged by, and predictions that say no engine are made by */
    bool file;    /* reads the platform's file, not the topology alone */
    bool packets; /* simulates packets, not flows: small cases only, and nothing is exact */
    bool models;  /* takes options.network_model */
    bool folds;   /* runs folded programs; STATUS_UNSUPPORTED: replicas or shards are not alike */
    double resolution_s; /* times nearer to each other than this are not told apart */
    /*   program   matched and checked
     *   platform  path of the XML file the topology was loaded from (analytic: not used)
     *   options   may be NULL
     * Returns STATUS_EXTERNAL when SimGrid fails, STATUS_INVALID, STATUS_NOMEM. */
    enum status (*run)(const struct program *program, const struct topology *topology,
                       const char *platform, const struct simulation_options *options,
                       struct simulation *out);
    /* Loads what run() needs, for whoever forks before it is called: else each process loads it.
     * NULL: nothing. STATUS_IO */
    enum status (*load)(void);
};
static inline enum status engine_load(const struct engine *e)
{
    return e->load ? e->load() : STATUS_OK;
}

extern const struct engine engine_analytic; /* the others: sim/engines.h */

/* Lower a plan folded and run it; when its replicas are not alike, again with as many classes of
 * them as that takes, but not more than half as many as there are replicas, nor than 64.
 *   platform  as of run()
 *   classes   in: what to begin with, {0} for one class; out: what did, also when that was not
 *             enough
 *   program   out: what was run; it is not folded (lower.h) where ranks differ by themselves,
 *             and then nothing has been run
 * Fails as plan_lower_folded() and run() do: STATUS_UNSUPPORTED, "not symmetric: ...". */
struct engine_folded {
    const struct plan *plan;
    const struct model *model;
    const struct topology *topology;
    const char *platform;
    const struct simulation_options *options;           /* may be NULL */
    void (*change)(const void *how, struct program *p); /* before it is run; NULL: nothing */
    const void *change_how;
    struct op_costs *costs; /* of the model; NULL: none */
};
enum status engine_run_folded(const struct engine *engine, const struct engine_folded *what,
                              struct plan_classes *classes, struct program *program,
                              struct simulation *out) MUST_CHECK;

/* Links of the platform that carried something, as the simulation's links.
 *   bytes  [t->links] per iteration */
enum status simulation_add_links(const struct topology *t, const double *bytes, double iteration_s,
                                 struct simulation *out) MUST_CHECK;
void simulation_free(struct simulation *s); /* accepts {0}; leaves {0} */

#endif
