/* igraph_try.h - igraph's errors as ours. Private to partition/. */
#ifndef PARTITION_IGRAPH_TRY_H
#define PARTITION_IGRAPH_TRY_H

#include <igraph/igraph.h>

#include "core/error.h"

static inline enum status status_of_igraph(igraph_error_t e)
{
    if (e == IGRAPH_ENOMEM)
        return error_set(STATUS_NOMEM, "igraph: out of memory");
    return error_set(STATUS_EXTERNAL, "igraph: %s", igraph_strerror(e));
}

/* As TRY(); the error handler must be igraph_error_handler_ignore. */
#define TRY_IGRAPH(call)                                                                           \
    do {                                                                                           \
        igraph_error_t e_ = (call);                                                                \
        if (e_ != IGRAPH_SUCCESS) {                                                                \
            st = status_of_igraph(e_);                                                             \
            goto out;                                                                              \
        }                                                                                          \
    } while (0)

#endif
