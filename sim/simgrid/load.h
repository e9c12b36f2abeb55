/* load.h - starts SimGrid with foreline's network model and loads a platform. */
#ifndef SIM_SIMGRID_LOAD_H
#define SIM_SIMGRID_LOAD_H

/* CM02 with nothing added (docs/simulation.md): no cross-traffic, no TCP window. Factors that the
 * file's <config> has are put into its links, so that whoever asks a link or a route gets what a
 * flow gets. Once per process, which dies of a faulty file (child.h). */
void simgrid_load(const char *path);

#endif
