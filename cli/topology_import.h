/* topology_import.h - `foreline topology import`: cmd_topology.c hands over. */
#ifndef CLI_TOPOLOGY_IMPORT_H
#define CLI_TOPOLOGY_IMPORT_H

#include "cli/command.h"

/* Measured collectives of the files into the platform of the options. */
enum status topology_import(const struct invocation *in, int files, char **file) MUST_CHECK;

#endif
