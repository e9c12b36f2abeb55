/* pipedream_text.h - the lines of a PipeDream graph.txt, before they make sense together.
 *
 * Grammar, one item per line:
 *   ID " -- " DESCRIPTION " -- forward_compute_time=" MS ", backward_compute_time=" MS
 *      ", activation_size=" SIZE ", parameter_size=" BYTES [" -- stage_id=" N]
 *   "\t" ID " -- " ID                       an edge; both nodes must stand above it
 *   SIZE = BYTES | "[" BYTES {"; " BYTES} "]"   the outputs of a tuple, summed
 * Printable ASCII; a line may end in "\r\n"; empty lines do not count. Times are milliseconds, all
 * figures are for one minibatch. Private to model/. */
#ifndef PAPERS_PIPEDREAM_PIPEDREAM_TEXT_H
#define PAPERS_PIPEDREAM_PIPEDREAM_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

/* Part of the text; not NUL-terminated. */
struct text_slice {
    const char *text;
    size_t length;
};

struct pipedream_node {
    struct text_slice id, description; /* at most SLICE_LIMIT long: id, and description up to '(' */
    size_t line;
    double forward_ms, backward_ms, activation_bytes, parameter_bytes;
    int64_t stage; /* -1: not given */
};

struct pipedream_edge {
    struct text_slice from_id, to_id;
    uint32_t from, to; /* nodes; filled in later */
    size_t line;
};

struct pipedream_text {
    const char *path;
    size_t nodes, edges;
    struct pipedream_node *node; /* [nodes] in file order */
    struct pipedream_edge *edge; /* [edges] in file order */
};

enum { SLICE_LIMIT = 255, PIPEDREAM_MAX_EDGES = 1 << 21 };

/* Split `text` into nodes and edges, which point into it. Returns STATUS_PARSE with path:line,
 * STATUS_NOMEM. O(length). */
enum status pipedream_text_parse(const char *path, const char *text, size_t length,
                                 struct pipedream_text *out) MUST_CHECK;
void pipedream_text_free(struct pipedream_text *t); /* accepts {0}; leaves {0} */

/* Report what is wrong in a line: returns STATUS_PARSE with "path:line: ". */
enum status pipedream_error(const char *path, size_t line, const char *fmt, ...) PRINTF_LIKE(3, 4);

#endif
