/* shapes.h - the collectives of a program, each distinct one (group, kind, bytes) turned into
 * phases and flows once (core/collective/collective.h: a shape), with one flow at most from one
 * member to another in a phase. (core/collective/shapes.h is what the algorithms share.) */
#ifndef CORE_ENGINE_SHAPES_H
#define CORE_ENGINE_SHAPES_H

#include "core/collective/collective.h"
#include "core/data/program.h"

/* One (group, kind, bytes) of the program. */
struct shaped {
    uint32_t group, next; /* next of the same group, PROGRAM_NONE at the end */
    uint8_t kind;         /* enum op_kind */
    int64_t bytes;
    double calls; /* per iteration */
    struct collective_shape shape;
};

struct shapes {
    size_t groups;
    struct collective_group *group; /* [groups] {0} where nothing is ever called */
    uint32_t *first;                /* [groups] */
    size_t n;
    struct shaped *shaped; /* [n] */
    struct collective_options options;
};

/* Collectives use the ways out of their nodes that the platform has (device_type.nics), unless the
 * options say otherwise. `options` may be NULL. O(ops + flows). STATUS_INVALID, STATUS_NOMEM. */
enum status shapes_make(const struct program *p, const struct topology *t,
                        const struct collective_options *options, struct shapes *out) MUST_CHECK;
/* The number of collective op `o`'s shape in shaped[]. */
size_t shapes_number(const struct shapes *s, const struct program_op *o);
static inline const struct collective_shape *shapes_of(const struct shapes *s,
                                                       const struct program_op *o)
{
    return &s->shaped[shapes_number(s, o)].shape;
}
/* The shape with the bytes that are moved, where its flows are lengthened; O(flows).
 * STATUS_NOMEM. */
enum status shapes_moved(const struct shapes *s, const struct shaped *shaped,
                         struct collective_shape *out) MUST_CHECK;
/* Would these devices, as many as group g has, get the same flows and latencies for all its
 * collectives? O(flows). STATUS_INVALID, STATUS_NOMEM. */
enum status shapes_fit(const struct shapes *s, uint32_t g, const struct topology *t,
                       const uint32_t *devices, bool *fit) MUST_CHECK;
void shapes_free(struct shapes *s); /* accepts {0}; leaves {0} */

#endif
