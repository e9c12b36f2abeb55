/* Each distinct collective of a program is shaped once: a list per group, searched by kind and
 * size, since a group rarely has more than a handful. */
#include "sim/shapes.h"

#include "core/array.h"

#include <stdlib.h>

/* The collective that an op of the program stands for. */
static const enum collective_kind kind_of[OP_KINDS] = {
    [OP_ALLREDUCE] = COLLECTIVE_ALLREDUCE,
    [OP_ALLGATHER] = COLLECTIVE_ALLGATHER,
    [OP_REDUCESCATTER] = COLLECTIVE_REDUCESCATTER,
    [OP_ALLTOALL] = COLLECTIVE_ALLTOALL,
};

/* The shape that op `o` shares with earlier ones of its group, NULL when it is the first of its
 * kind and size. */
static struct shaped *find(const struct shapes *s, const struct program_op *o)
{
    for (uint32_t k = s->first[o->peer]; k != PROGRAM_NONE; k = s->shaped[k].next)
        if (s->shaped[k].kind == o->kind && s->shaped[k].bytes == o->bytes)
            return &s->shaped[k];
    return NULL;
}

const struct collective_shape *shapes_of(const struct shapes *s, const struct program_op *o)
{
    return &find(s, o)->shape;
}

/* Ways out of a node that members of the group share: as many as the platform has, but not more
 * than the smallest node has members. */
static uint32_t shared_nics(const struct collective_group *g)
{
    size_t least = g->n;
    for (size_t k = 0; k < g->nodes; k++) {
        size_t members = g->node_start[k + 1] - g->node_start[k];
        least = members < least ? members : least;
    }
    for (size_t m = 0; m < g->n && g->nodes > 1; m++) {
        uint32_t nics = topology_type(g->topology, g->device[m])->nics;
        least = nics > 0 && nics < least ? nics : least;
    }
    return g->nodes > 1 ? (uint32_t)least : 1;
}

/* Shape the collective of op `o` and put it in front of its group's list. The group itself
 * (which member is on which node) is made when its first collective is met. */
static enum status add(struct shapes *s, const struct program *p, const struct topology *t,
                       const struct program_op *o, const struct collective_options *options,
                       struct shaped **out)
{
    struct collective_group *g = &s->group[o->peer];
    struct collective_options with = options ? *options : (struct collective_options){0};
    PASS(ARRAY_ROOM(s->shaped, s->n));
    if (g->n == 0) {
        size_t first = p->device_start[o->peer];
        PASS(collective_group_make(t, p->device + first, p->device_start[o->peer + 1] - first, g));
    }
    if (with.nics == 0)
        with.nics = shared_nics(g);
    struct shaped *new = &s->shaped[s->n];
    *new = (struct shaped){
        .group = o->peer, .next = s->first[o->peer], .kind = o->kind, .bytes = o->bytes};
    PASS(collective_shape_make(g, kind_of[o->kind], o->bytes, &with, &new->shape));
    s->first[o->peer] = (uint32_t)s->n++;
    *out = new;
    return STATUS_OK;
}

enum status shapes_make(const struct program *p, const struct topology *t,
                        const struct collective_options *options, struct shapes *out)
{
    enum status st = STATUS_OK;
    struct shapes s = {.groups = p->groups};
    TRY(ARRAY_NEW(s.group, p->groups + 1));
    TRY(ARRAY_NEW(s.first, p->groups + 1));
    for (size_t g = 0; g < p->groups; g++)
        s.first[g] = PROGRAM_NONE;
    for (size_t g = 0; g < p->groups; g++) { /* every member says the same */
        uint32_t rank = p->member[p->group_start[g]];
        for (size_t i = p->op_start[rank]; i < p->op_start[rank + 1]; i++) {
            const struct program_op *o = &p->op[i];
            if (!op_is_collective(o) || o->peer != g)
                continue;
            struct shaped *known = find(&s, o);
            if (!known)
                TRY(add(&s, p, t, o, options, &known));
            known->calls += o->count;
        }
    }
    MOVE(out, s);
out:
    shapes_free(&s);
    return st;
}

void shapes_free(struct shapes *s)
{
    for (size_t g = 0; s->group && g < s->groups; g++)
        collective_group_free(&s->group[g]);
    for (size_t k = 0; k < s->n; k++)
        collective_shape_free(&s->shaped[k].shape);
    free(s->group);
    free(s->first);
    free(s->shaped);
    *s = (struct shapes){0};
}
