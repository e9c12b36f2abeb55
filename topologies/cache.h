/* cache.h - generated files that engines open by path. */
#ifndef TOPOLOGIES_CACHE_H
#define TOPOLOGIES_CACHE_H

#include <stddef.h>

#include "core/base/error.h"

/* Path of a file with this text, malloc'd; its name begins with `name` (its first 100 bytes) and
 * has a hash of the text. It lies in $XDG_CACHE_HOME/foreline/platforms or
 * ~/.cache/foreline/platforms, whichever is ours or can be made, and stays there for others until
 * all files there exceed LIMIT_cache: then the ones that were used longest ago and are not in use
 * go. Where there is no such folder, or it takes no more, the file lies in a temporary folder that
 * goes with this process. Written atomically, and only when it is not there already. Thread-safe.
 * STATUS_IO when there is no temporary folder either, STATUS_NOMEM. */
enum status cache_file(const char *name, const char *text, size_t length, char **path) MUST_CHECK;

#endif
