/* simgrid_module.h - the shared object that has SimGrid in it, and what is asked of it.
 *
 * libsimgrid takes with it ns-3, boost and more: 20 ms and 30 MB at every start, whatever for. So
 * all that calls SimGrid is in sim/simgrid/, a module with copies of what it needs of core and sim,
 * which is loaded when something is asked of it. */
#ifndef SIM_SIMGRID_MODULE_H
#define SIM_SIMGRID_MODULE_H

#include <stdio.h>

#include "core/base/module.h"
#include "core/data/topology.h"
#include "core/engine/engine.h"
#include "core/engine/flows.h"
#include "core/engine/shapes.h"
#include "sim/alternatives.h"
#include "sim/child.h"
#include "sim/platform/fault.h"

/* What can be asked, and what of. */
enum simgrid_task {
    SIMGRID_DESCRIBE, /* struct simgrid_platform; answers as topology_send() */
    SIMGRID_SIMULATE, /* struct simgrid_run; answers as simgrid_parse() reads it */
    SIMGRID_TASKS,
};

/* The route being asked for, in memory shared with the parent: SimGrid 3.32 does not survive asking
 * a Dijkstra zone for a route that it lacks. */
struct route_asked {
    uint32_t asking;     /* 0: none */
    uint32_t exhaustive; /* 1: ask for every pair whatever the platform looks like */
    char from[256], to[256];
};

struct simgrid_platform {
    struct platform_text file;
    struct route_asked *asked;
};

struct simgrid_run {
    const struct program *p;
    const struct topology *t;
    const char *platform;
    const struct simulation_options *options; /* may be NULL */
    const char *model;                        /* of the network, as SimGrid calls it */
    bool inside;                              /* which charges latencies itself */
    FILE *wires; /* the platform for ns-3, whose hosts are "d" and the device's number; NULL:
                        * the file is simulated */
    struct shapes shapes;
    bool apart;         /* runs on the flows' own network, not on the platform's file */
    struct flows flows; /* then */
    struct alternatives ways;
    size_t *shown; /* shared: completed ops, for the parent to see; NULL: it does not look */
};

/* The one thing that the module exports, as "simgrid_module". */
struct simgrid_module {
    struct module module;
    enum status (*task[SIMGRID_TASKS])(void *argument, int); /* in a child, as child.h has it */
    const char *(*message)(void);                            /* error_message() of a task */
};

/* Load the module (core/base/module.h), once for all children and what they fork. */
enum status simgrid_load_module(void) MUST_CHECK;
/* Of a run whose network charges latencies itself: a phase of a collective gets none for its first
 * step, which the network has. */
void simgrid_take_latencies(struct simgrid_run *w);
/* Load it and run a task in a child (child.h); `watch` may be NULL. */
enum status simgrid_child(enum simgrid_task task, void *argument, const struct child_watch *watch,
                          struct child_output *out) MUST_CHECK;

#endif
