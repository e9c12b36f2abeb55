/* Where gradients of outputs are: each lives from its last reader's backward to its own op's, and a
 * place is free again after that. */
#include <stdlib.h>

#include "core/base/array.h"
#include "exec/device/cpu/half.h"
#include "exec/device/cpu/stage_parts.h"

/* Rows of what one op reads, this device's own, no message and no sum of shards, are as far apart
 * as it wants them. */
void stage_part_rows(struct stage *s)
{
    for (size_t k = 0; k < s->layout.n; k++) {
        struct stage_op *o = &s->layout.op[k];
        uint32_t t = o->layer.inputs == 1 ? o->input[0] : NOWHERE;
        size_t readers = 0;
        if (!o->layer.kind->row || t >= s->layout.n || stage_sends(s, t) ||
            s->layout.op[t].layer.reduces_output)
            continue;
        for (size_t i = 0; i < s->layout.n; i++)
            for (size_t j = 0; j < s->layout.op[i].layer.inputs; j++)
                readers += s->layout.op[i].input[j] == t;
        struct layer *l = &s->layout.op[t].layer;
        size_t row = readers == 1 ? o->layer.kind->row(&o->layer, l) : 0;
        if (row == 0)
            continue;
        o->layer.row = l->row = row;
        s->layout.tensor[t].size =
            layer_room(l, size_times(size_times(s->layout.batch, l->tokens), row));
    }
}

/* The backward from last readers to first ones: what it says of tensors, own outputs [n] alone. */
struct lives {
    size_t *from;   /* the op in whose backward the gradient begins to be, SIZE_MAX: none has it, or
                     * it is in another's place; */
    size_t *second; /* the next op that adds to it, SIZE_MAX: none; */
    uint32_t *to;   /* and the op behind whose backward it is no longer needed */
    uint32_t *root; /* whose place it has, its own but for those that are passed on */
};

/* ---- gradients that are others': sums pass theirs on to what they add (layer_kind.passes)
 *
 * Where x is read by op k last, and nobody else has a share of its gradient yet, that begins as the
 * gradient of k's output, which nobody needs any longer: it has the same place, and nothing is
 * copied. Both of what k adds may have it, if whatever is added to the one later comes after the
 * other was needed last. The gradient of a transformer's residual stream so has one place from the
 * loss to the embedding. */

/* May tensor t have the place of the output of op k, which reads it? */
static bool is_first_share(const struct stage *s, const struct lives *l, uint32_t t, size_t k)
{
    return t < s->layout.n && l->from[t] == k && l->root[t] == t && !stage_sends(s, t);
}

/* Is it read by op k alone, and its gradient by its own op alone? */
static bool is_branch(const struct stage *s, const struct lives *l, uint32_t t, size_t k)
{
    return is_first_share(s, l, t, k) && l->second[t] == SIZE_MAX &&
           !s->layout.op[t].layer.kind->passes;
}

static void lives_join(struct lives *l, uint32_t t, size_t k)
{
    uint32_t root = l->root[k];
    l->root[t] = root;
    l->from[t] = SIZE_MAX;
    l->to[root] = t < l->to[root] ? t : l->to[root];
}

/* Do `stream` and `branch`, which op k adds, both have the place of its output? */
static bool join_both(const struct stage *s, struct lives *l, uint32_t stream, uint32_t branch,
                      size_t k)
{
    if (!is_first_share(s, l, stream, k) || !is_branch(s, l, branch, k) ||
        (l->second[stream] != SIZE_MAX && l->second[stream] > branch))
        return false;
    lives_join(l, branch, k);
    lives_join(l, stream, k);
    return true;
}

static void lives_pass_on(const struct stage *s, struct lives *l)
{
    for (size_t k = s->layout.n; k-- > 0;) {
        const struct stage_op *o = &s->layout.op[k];
        uint32_t a = o->input[0], b = o->input[1];
        if (!o->layer.kind->passes || a == b || join_both(s, l, a, b, k) ||
            join_both(s, l, b, a, k))
            continue;
        if (is_first_share(s, l, a, k))
            lives_join(l, a, k);
        else if (is_first_share(s, l, b, k))
            lives_join(l, b, k);
    }
}

/* ---- backwards of two ops at once: the gradient of the first one's input is made with the second
 * one's, unless something before them is made again between the two */

static void join_backwards(struct stage *s, struct lives *l)
{
    for (size_t k = 1; k < s->layout.n; k++) {
        struct stage_op *o = &s->layout.op[k], *before = o - 1;
        bool whole = !o->gathers && !o->scatters && !o->layer.reduces_input && !before->gathers &&
                     !before->scatters && !before->layer.reduces_input;
        o->joins = o->layer.kind->backward_with && o->layer.inputs == 1 && o->input[0] == k - 1 &&
                   before->layer.inputs == 1 && whole && before->remakes == k - 1 &&
                   is_first_share(s, l, (uint32_t)k - 1, k) && l->second[k - 1] == SIZE_MAX &&
                   is_first_share(s, l, before->input[0], k - 1);
        if (o->joins)
            l->from[before->input[0]] = k;
    }
}

/* ---- gradients in the place of their tensors, which only their readers have read: not where the
 * backward makes the tensor again, even one that was kept */

static void overwrite(struct stage *s, struct lives *l)
{
    for (size_t k = 0; k < s->layout.n; k++) {
        const struct stage_op *o = &s->layout.op[k];
        uint32_t t = o->layer.inputs == 1 ? o->input[0] : NOWHERE;
        if (!o->layer.kind->overwrites || t >= s->layout.n || o->recomputed || o->gathers ||
            s->layout.op[t].recomputed || s->layout.tensor[t].recomputed ||
            !is_branch(s, l, t, k) || !o->layer.kind->overwrites(&o->layer, &s->layout.op[t].layer))
            continue;
        s->layout.tensor[t].overwritten = true;
        l->from[t] = SIZE_MAX;
    }
}

/* ---- places */

/* Tensor t's gradient is there from the backward of op from[t] down to that of to[t]. The lowest
 * offset at which none of those placed before is in its way. */
static size_t lowest_offset(const struct stage *s, const struct lives *l, const uint32_t *before,
                            size_t n, uint32_t t)
{
    const struct stage_tensor *all = s->layout.tensor;
    size_t offset = 0, room = stage_room(s, all[t].size);
    for (size_t i = 0; i < n; i++) {
        uint32_t o = before[i];
        size_t end = all[o].gradient + stage_room(s, all[o].size);
        if (l->to[o] > l->from[t] || l->to[t] > l->from[o] || end <= offset ||
            all[o].gradient >= offset + room)
            continue;
        offset = end;
        i = (size_t)-1; /* from the first one again */
    }
    return offset;
}

/* The largest first: little is left free between them. Returns where the last one ends. */
static size_t place_in_order(struct stage *s, const struct lives *l, uint32_t *order)
{
    size_t n = 0, end = 0;
    for (uint32_t k = 0; k < s->layout.n; k++)
        if (l->from[k] != SIZE_MAX)
            order[n++] = k;
    for (size_t i = 1; i < n; i++)
        for (size_t j = i; j > 0; j--) {
            uint32_t last = order[j - 1];
            if (s->layout.tensor[last].size >= s->layout.tensor[order[j]].size)
                break;
            order[j - 1] = order[j];
            order[j] = last;
        }
    for (size_t i = 0; i < n; i++) {
        struct stage_tensor *t = &s->layout.tensor[order[i]];
        t->gradient = lowest_offset(s, l, order, i, order[i]);
        size_t top = size_plus(t->gradient, stage_room(s, t->size));
        end = top > end ? top : end;
    }
    return end;
}

/* Replays a backward pass. Loss ops have no output, so no gradient. A share of a gradient that
 * others are in already is made in scratch and then added. */
static void lives_replay(struct stage *s, struct lives *l, bool *placed)
{
    for (uint32_t k = 0; k < s->layout.n; k++) {
        l->from[k] = l->second[k] = SIZE_MAX;
        l->to[k] = l->root[k] = k;
    }
    for (size_t k = s->layout.n; k-- > 0;) {
        const struct stage_op *o = &s->layout.op[k];
        for (size_t i = 0; i <= o->layer.inputs; i++) { /* inputs, then the output */
            size_t t = i < o->layer.inputs ? o->input[i] : k;
            size_t size = s->layout.tensor[t].size;
            if (t != k && (placed[t] || stage_sends(s, t)) && size > s->layout.scratch_size)
                s->layout.scratch_size = size;
            if (t < s->layout.n && !placed[t] && size > 0)
                l->from[t] = k;
            else if (t < k && t < s->layout.n && l->second[t] == SIZE_MAX)
                l->second[t] = k;
            placed[t] = true;
        }
    }
}

/* Scratch of layers: of that which needs most. */
static size_t lives_layer_work(const struct stage *s)
{
    size_t most = s->layout.layer_work;
    for (const struct stage_op *o = s->layout.op; o < s->layout.op + s->layout.n; o++) {
        size_t work = half_work(&o->layer, s->layout.batch);
        most = work > most ? work : most;
    }
    return most;
}

enum status stage_place_gradients(struct stage *s)
{
    enum status st;
    struct lives l = {0};
    uint32_t *order = NULL;
    bool *placed = NULL;
    TRY(ARRAY_NEW(l.from, s->layout.n));
    TRY(ARRAY_NEW(l.second, s->layout.n));
    TRY(ARRAY_NEW(l.to, s->layout.n));
    TRY(ARRAY_NEW(l.root, s->layout.n));
    TRY(ARRAY_NEW(order, s->layout.n));
    TRY(ARRAY_NEW(placed, s->layout.tensors));
    lives_replay(s, &l, placed);
    lives_pass_on(s, &l);
    join_backwards(s, &l);
    overwrite(s, &l);
    size_t layer_work = lives_layer_work(s);
    s->layout.scratch_size = stage_room(s, s->layout.scratch_size);
    s->layout.rows = place_in_order(s, &l, order);
    for (size_t k = 0; k < s->layout.n; k++)
        s->layout.tensor[k].gradient = s->layout.tensor[l.root[k]].gradient;
    s->layout.scratch = size_plus(s->layout.rows, stage_room(s, stage_whole_rows(s)));
    s->layout.layer_work =
        size_plus(s->layout.scratch, size_times(LAYER_INPUTS, s->layout.scratch_size));
    s->layout.work_size = size_plus(s->layout.layer_work, stage_room(s, layer_work));
out:
    free(l.from);
    free(l.second);
    free(l.to);
    free(l.root);
    free(order);
    free(placed);
    return st;
}
