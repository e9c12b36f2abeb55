/* driver.h - driver files of PipeDream's runtime (YAML: module, machines, log_directory, ...) as
 * files of `foreline run --config`. */
#ifndef PAPERS_PIPEDREAM_DRIVER_H
#define PAPERS_PIPEDREAM_DRIVER_H

#include <stddef.h>

#include "core/base/error.h"

/* *out: a text that says the same in foreline's settings, every one of them in the line in which
 * the driver file says it; malloc'd. NULL: this is no driver file. What a driver file says in other
 * words is taken from foreline's own keys (model, platform, plan.split-at, steps) where they stand
 * in it, too; what has no meaning here (container, data_dir) is a comment.
 *   path  where config_file and the text come from: modules of a conf file lie beside it or a
 *         folder up
 * STATUS_PARSE, with path:line; STATUS_UNSUPPORTED, STATUS_NOMEM.
 * Source of the keys: PipeDream's runtime/driver_configs (msr-fiddle/pipedream). */
enum status driver_translate(const char *path, const char *text, size_t length,
                             char **out) MUST_CHECK;

#endif
