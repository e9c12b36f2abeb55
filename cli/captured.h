/* captured.h - `foreline simulate` of a capture: a folder instead of a plan. */
#ifndef CLI_CAPTURED_H
#define CLI_CAPTURED_H

#include "cli/command.h"

/* Is the command called with a capture? */
bool cli_captured_given(const struct invocation *in);
enum status cli_captured_simulate(struct invocation *in) MUST_CHECK;

#endif
