/* split.h - reading a split to be scored: {"parts": [{"ops": ["name", ...], "replicas": 2}, ...]}.
 */
#ifndef PAPERS_COMMON_SPLIT_H
#define PAPERS_COMMON_SPLIT_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

struct model;

enum { SPLIT_NONE = UINT32_MAX, SPLIT_MAX_PARTS = 65536 };

struct split {
    size_t parts;
    uint32_t *part_of;  /* [m->n] part of each op, SPLIT_NONE where the file does not name it */
    uint32_t *replicas; /* [parts] 1 where the file says nothing */
};

/* Read `path` against the ops of `m`. Unknown fields are ignored. Returns STATUS_PARSE with the
 * place in the file for unknown ops, ops in two parts and replicas outside 1..65536; STATUS_IO,
 * STATUS_NOMEM. O(ops^2). */
enum status split_read(const char *path, const struct model *m, struct split *out) MUST_CHECK;
void split_free(struct split *s); /* accepts {0}; leaves {0} */

#endif
