/* igraph_error.h - igraph's errors as ours; its handler must be igraph_error_handler_ignore. */
#ifndef PARTITION_IGRAPH_ERROR_H
#define PARTITION_IGRAPH_ERROR_H

#include <igraph/igraph.h>

#include "core/base/error.h"

static inline enum status from_igraph(igraph_error_t e)
{
    return e == IGRAPH_SUCCESS  ? STATUS_OK
           : e == IGRAPH_ENOMEM ? error_set(STATUS_NOMEM, "igraph: out of memory")
                                : error_set(STATUS_EXTERNAL, "igraph: %s", igraph_strerror(e));
}

#define TRY_IGRAPH(call) TRY(from_igraph(call))

#endif
