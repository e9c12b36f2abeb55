/* simgrid_answer.h - how a simulation comes back from the child it ran in. Private to the
 * engine. */
#ifndef SIM_SIMGRID_ANSWER_H
#define SIM_SIMGRID_ANSWER_H

#include "core/engine/engine.h"
#include "sim/child.h"

enum status simgrid_send(const struct simulation *s, int fd) MUST_CHECK;
/* Of a program of so many ops. STATUS_EXTERNAL when the stream is not what simgrid_send()
 * writes. */
enum status simgrid_parse(const struct child_output *output, size_t ops,
                          struct simulation *out) MUST_CHECK;

#endif
