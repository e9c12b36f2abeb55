/* topology_machine.h - machines that other programs describe, as platforms. */
#ifndef CLI_TOPOLOGY_MACHINE_H
#define CLI_TOPOLOGY_MACHINE_H

#include "cli/command.h"

enum status topology_import_machine(const struct invocation *in, int files, char **file) MUST_CHECK;
enum status topology_discover(const struct invocation *in) MUST_CHECK;

#endif
