/* cache.h - generated files that engines open by path. */
#ifndef TOPOLOGIES_CACHE_H
#define TOPOLOGIES_CACHE_H

#include <stddef.h>

#include "core/error.h"

/* Path of a file `name` with this text, in $XDG_CACHE_HOME/foreline, ~/.cache/foreline or
 * $TMPDIR/foreline-UID (/tmp without it), the first that is ours or can be made; malloc'd. Written
 * atomically, and only when it is not there already with the same text. STATUS_IO, STATUS_NOMEM. */
enum status cache_file(const char *name, const char *text, size_t length, char **path) MUST_CHECK;

#endif
