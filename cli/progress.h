/* progress.h - how far a long search or simulation is, on a terminal or for a program; and Ctrl-C
 * as a wish to stop it. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "core/engine/engine.h"

struct progress {
    const volatile int *interrupted; /* cli/interrupt.h */
    const char *what, *of;           /* of the line: the engine's name; NULL: "ops" */
    const double *best_s;            /* iteration of the best plan so far; NULL: there is none */
    double started_s, shown_s;       /* shown_s 0: no line yet */
    size_t completed, ops;           /* as last heard */
    int pipe;                        /* descriptor FORELINE_PROGRESS; -1: none */
};

/* A watch for simulation_options.watch. It stops the engine once *interrupted is set and writes
 * "simgrid: 43 % of 123456 ops", or "plan: 290 plans scored, 12 s" where nobody knows of how many,
 * to stderr, when that is a terminal, after the first second and at most five times a second.
 *
 * Where the variable FORELINE_PROGRESS is the number of a descriptor, a line goes there instead,
 * from the beginning on: "DONE ALL TEXT", "290 0 plan: 290 plans scored, 12 s, best 5.27 s", ALL
 * being 0 where nobody knows. A line that does not fit into a pipe is dropped if the pipe does not
 * block. Borrows *p. */
struct simulation_watch progress_watch(struct progress *p);
/* Wipe the line. */
void progress_end(struct progress *p);

#endif
