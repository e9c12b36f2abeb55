/* topology_match.h - which pods of an optical network get circuits. */
#ifndef CLI_TOPOLOGY_MATCH_H
#define CLI_TOPOLOGY_MATCH_H

#include "cli/command.h"

enum status topology_match(const struct invocation *in, const char *plan) MUST_CHECK;

#endif
