/* measured.h - what has been measured of collectives elsewhere, as curves of a platform: importers,
 * one file and one line of importers.def each. */
#ifndef TOPOLOGIES_MEASURED_H
#define TOPOLOGIES_MEASURED_H

#include <stddef.h>

#include "core/cost/fabric.h"

struct measured {
    size_t n;
    struct fabric_curve *curve; /* [n] */
    /* Rows that are no points: of 0 bytes, of 0.00 us, of a size not above the one before, "...";
     * tables of what no curve is for, or of what another one before was of. */
    size_t empty, timeless, repeated, elided, tables;
};

/* What the caller knows and a file may not say: kind, members and those of a node; members 0:
 * nothing. */
struct measured_hint {
    bool has_kind;
    enum fabric_kind kind;
    uint32_t members, per_node;
};

struct measured_format {
    const char *name, *summary;
    /* Looks at the text only; the last format takes what no other one does. */
    bool (*recognises)(const char *text);
    /* STATUS_PARSE "path:line: ...": not in this format, or damaged. */
    enum status (*parse)(const char *path, const char *text, const struct measured_hint *hint,
                         struct measured *out);
};

#define MACHINE(name)
#define MEASURED(name) extern const struct measured_format measured_##name;
#include "topologies/importers.def"
#undef MEASURED
#undef MACHINE
extern const struct measured_format *const measured_formats[]; /* [measured_formats_n] */
extern const size_t measured_formats_n;

/* "all-reduce:2x8=FILE" (2 nodes of 8 GPUs each), "all-gather=FILE" or FILE: what is known, and the
 * path, inside of `operand`. STATUS_INVALID. */
enum status measured_hint(const char *operand, struct measured_hint *hint,
                          const char **path) MUST_CHECK;
/* Does a table's busbw / algbw, which is between low and high as far as it is printed, fit the
 * curve's members? STATUS_PARSE "path:line: what it fits". Broadcasts and messages always do. */
enum status measured_check_ratio(const char *path, size_t line, const struct fabric_curve *c,
                                 double low, double high) MUST_CHECK;
void measured_free(struct measured *m); /* accepts {0}; leaves {0} */

#endif
