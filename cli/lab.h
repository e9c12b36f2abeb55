/* lab.h - foreline-lab, a program beside this one: the scoreboard of published runs and fits of
 * constants. `foreline lab` starts it, and so do options that were commands' own. */
#ifndef CLI_LAB_H
#define CLI_LAB_H

#include <stdbool.h>

#include "core/base/error.h"

/* Is the option among the words? Then it is taken out of them; what stands behind its '=' stays.
 * "": every call is the lab's. Nothing behind "--" is an option. */
bool lab_takes(const char *option, int *argc, char **argv);

/* Replaces this process by `foreline-lab COMMAND WORD...`; command NULL: the words name it. Returns
 * only when that fails: STATUS_UNSUPPORTED where foreline-lab is not installed, STATUS_IO. */
enum status lab_become(const char *command, int argc, char **argv) MUST_CHECK;

#endif
