/* tasks.h - what the module can do, each in a process of its own (child.h). */
#ifndef SIM_SIMGRID_TASKS_H
#define SIM_SIMGRID_TASKS_H

#include "core/base/error.h"

/* A struct simgrid_platform: load it, and send the topology. STATUS_PARSE as "path:line: what". */
enum status simgrid_describe(void *argument, int fd) MUST_CHECK;
/* A struct simgrid_run: simulate it, and send what simgrid_parse() reads. */
enum status simgrid_simulate(void *argument, int fd) MUST_CHECK;

#endif
