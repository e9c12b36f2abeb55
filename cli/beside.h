/* beside.h - programs that are installed beside this one: foreline-lab, foreline-explore. */
#ifndef CLI_BESIDE_H
#define CLI_BESIDE_H

#include "core/base/error.h"

/* Replaces this process by the program, as it was called: words[0] becomes its path, NULL stands
 * behind the last word. Returns only when that fails: STATUS_UNSUPPORTED where it is not installed,
 * with `option`, the CMake option that builds it; STATUS_IO. */
enum status beside_become(const char *program, const char *option, char **words) MUST_CHECK;

#endif
