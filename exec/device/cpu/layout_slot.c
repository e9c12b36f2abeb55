/* What a microbatch keeps from forward to backward, its slot, and what backwards make again, a unit
 * at a time (plan_units()), which all microbatches have one place for. */
#include <stdlib.h>

#include "core/base/array.h"
#include "core/data/plan.h"
#include "exec/device/cpu/stage_parts.h"

/* Blocks of memory that one tensor after the other uses: at most as many as were ever needed at
 * once. */
struct slot_block {
    size_t offset, size;
    bool used;
};
struct slot_blocks {
    size_t n, end;            /* end: of all of them together */
    struct slot_block *block; /* room for as many as there are tensors */
};

/* The smallest free block that is large enough, or a new one at the end: best fit. */
static size_t blocks_take(struct slot_blocks *a, size_t size)
{
    struct slot_block *best = NULL;
    for (size_t i = 0; i < a->n; i++) {
        struct slot_block *b = &a->block[i];
        if (!b->used && b->size >= size && (!best || b->size < best->size))
            best = b;
    }
    if (!best) {
        best = &a->block[a->n++];
        *best = (struct slot_block){.offset = a->end, .size = size};
        a->end = size_plus(a->end, size);
    }
    best->used = true;
    return best->offset;
}

static void blocks_give(struct slot_blocks *a, size_t offset)
{
    for (size_t i = 0; i < a->n; i++)
        if (a->block[i].used && a->block[i].offset == offset)
            a->block[i].used = false;
}

bool stage_sends(const struct stage *s, size_t t)
{
    for (size_t c = 0; c < s->layout.consumers; c++)
        for (size_t i = 0; i < s->layout.consumer[c].n; i++)
            if (s->layout.consumer[c].tensor[i] == t)
                return true;
    return false;
}

/* The next `size` numbers of a slot. */
static size_t slot_place_block(struct stage *s, size_t size)
{
    size_t offset = s->layout.slot_size;
    s->layout.slot_size = size_plus(s->layout.slot_size, stage_room(s, size));
    return offset;
}

/* In the place of what is made again: *end is where the op's unit has come to. */
static size_t place_again(struct stage *s, size_t size, size_t *end)
{
    size_t offset = *end;
    *end = size_plus(offset, stage_room(s, size));
    if (*end > s->layout.recomputed_size)
        s->layout.recomputed_size = *end;
    return offset;
}

/* The unit of every op, as positions of its first and its last one, what stays of it, and when it
 * is made again. */
static enum status slot_find_units(struct stage *s, uint32_t *unit, bool *kept, size_t *needed)
{
    const struct program *p = s->program;
    const struct program_stage *of = &p->stage[s->index];
    const struct plan_stage how = {
        .ops = s->layout.n, .op = p->stage_op + p->stage_start[s->index], .own = of->own};
    plan_units(&how, s->model, unit, kept);
    plan_needs(&how, s->model, unit, kept, needed);
    for (size_t k = 0; k < s->layout.n; k++) {
        struct stage_op *o = &s->layout.op[k];
        bool same = k > 0 && unit[k] > 0 && unit[k] == unit[k - 1];
        o->recomputed = unit[k] > 0;
        o->unit_low = same ? s->layout.op[k - 1].unit_low : (uint32_t)k;
        s->layout.tensor[k].recomputed = o->recomputed && !kept[k];
    }
    for (size_t k = s->layout.n; k-- > 0;) {
        bool same = k + 1 < s->layout.n && unit[k] > 0 && unit[k] == unit[k + 1];
        s->layout.op[k].unit_high = same ? s->layout.op[k + 1].unit_high : (uint32_t)k + 1;
        s->layout.op[k].remakes = (uint32_t)k;
        if (unit[k] > 0 && s->layout.op[k].unit_low == k)
            s->layout.op[needed[k]].remakes = (uint32_t)k;
        s->layout.op[k].needed = (uint32_t)needed[k];
    }
    for (size_t b = 1; b < s->share.buckets && s->share.reshards; b++) {
        const struct stage_op *o = &s->layout.op[s->share.bucket[b].high - 1];
        if (p->bucket[of->bucket + b].again != (o->unit_high > s->share.bucket[b].high))
            return error_set(STATUS_INVALID,
                             "stage %u: bucket %zu and the recomputed layers do not match: the "
                             "program marks the wrong buckets as recomputed",
                             s->index, b);
    }
    return STATUS_OK;
}

/* ---- what only the forward reads
 *
 * An output that no backward reads again, its own op's included, neither another stage nor another
 * unit's forward, is in memory that is the next op's when its last reader has read it, if the model
 * does not count it among what is kept (model/graph.h: graph_keep_needed()). */

/* Does the model keep less of the op than its output and what it saves? */
static bool is_counted(const struct stage *s, const struct stage_op *o, bool *counted)
{
    const struct model_op *op = &s->model->op[o->index];
    struct layer whole;
    if (layer_shape(s->model, o->index, s->layout.batch, &whole) != STATUS_OK)
        return false; /* it was checked before */
    *counted = op->stash_bytes >= op->output_bytes + (int64_t)(whole.saved * sizeof(float));
    return true;
}

/* last: of the ops that read tensor t. */
static bool is_passing(const struct stage *s, size_t t, size_t *last)
{
    const struct stage_op *o = &s->layout.op[t];
    bool counted = true, passes = !stage_sends(s, t) && !o->layer.kind->reads_output &&
                                  is_counted(s, o, &counted) && !counted;
    *last = t;
    for (size_t k = t + 1; k < s->layout.n && passes; k++)
        for (size_t i = 0; i < s->layout.op[k].layer.inputs; i++) {
            const struct stage_op *reader = &s->layout.op[k];
            if (reader->input[i] != t)
                continue;
            *last = k;
            passes = passes && reader->layer.kind->forgets &&
                     (!reader->recomputed || (o->recomputed && reader->unit_low == o->unit_low));
        }
    return passes && *last > t;
}

/* Places for them behind what is made again; last_of [n], 0: the output stays. */
static enum status place_passing(struct stage *s, size_t *last_of)
{
    enum status st;
    struct slot_blocks a = {0};
    TRY(ARRAY_NEW(a.block, s->layout.n));
    for (size_t k = 0; k < s->layout.n; k++) {
        struct stage_tensor *to = &s->layout.tensor[k];
        if (last_of[k] > 0)
            to->value = s->layout.recomputed_size + blocks_take(&a, stage_room(s, to->size));
        for (size_t t = 0; t < k; t++)
            if (last_of[t] == k)
                blocks_give(&a, s->layout.tensor[t].value - s->layout.recomputed_size);
    }
    s->layout.recomputed_size = size_plus(s->layout.recomputed_size, a.end);
out:
    free(a.block);
    return st;
}

/* Where the place of each unit begins, end[] by its first op: all have one, but those that are made
 * again for ops behind them have places beside it as long as they are needed. */
static enum status place_units(struct stage *s, const size_t *last_of, size_t *end)
{
    enum status st;
    struct slot_blocks a = {0};
    size_t *size = NULL, most = 0; /* of each unit, by its first op; of those with one place */
    TRY(ARRAY_NEW(a.block, s->layout.n));
    TRY(ARRAY_NEW(size, s->layout.n));
    for (size_t k = 0; k < s->layout.n; k++) {
        const struct stage_op *o = &s->layout.op[k];
        size_t *of = &size[o->unit_low];
        *of = size_plus(*of, stage_room(s, size_times(s->layout.batch, o->layer.saved)));
        if (s->layout.tensor[k].recomputed && last_of[k] == 0)
            *of = size_plus(*of, stage_room(s, s->layout.tensor[k].size));
        if (o->recomputed && o->needed + 1 == o->unit_high && *of > most)
            most = *of;
    }
    for (size_t k = s->layout.n; k-- > 0;) {
        const struct stage_op *own = &s->layout.op[k], *o = &s->layout.op[own->remakes];
        for (; o <= own; o = &s->layout.op[o->unit_high])
            if (o->recomputed && o->needed == k && o->unit_high <= k && size[o->unit_low] > 0)
                end[o->unit_low] = most + blocks_take(&a, size[o->unit_low]);
        if (own->recomputed && own->unit_low == k && end[k] > 0)
            blocks_give(&a, end[k] - most);
    }
out:
    free(a.block);
    free(size);
    return st;
}

size_t stage_kept(const struct stage *s, size_t k)
{
    const struct stage_op *o = &s->layout.op[k];
    return o->scatters ? size_times(s->layout.batch, o->layer.output) : s->layout.tensor[k].size;
}

/* What every shard has is summed over the shards with the first half (sequence.c). */
static bool delays(const struct stage *s, const struct stage_op *o)
{
    bool whole = s->share.sequence && s->model->op[o->index].tensor == TENSOR_WHOLE;
    return s->share.split && o->layer.kind->backward_weight && !whole;
}

static void place_ops(struct stage *s, size_t *end, const size_t *last_of)
{
    for (size_t k = 0; k < s->layout.n; k++) {
        struct stage_op *o = &s->layout.op[k];
        size_t saved = size_times(s->layout.batch, o->layer.saved);
        o->saved =
            o->recomputed ? place_again(s, saved, &end[o->unit_low]) : slot_place_block(s, saved);
    }
    for (size_t k = 0; k < s->layout.n; k++) {
        struct stage_op *o = &s->layout.op[k];
        o->delays = delays(s, o);
        if (o->delays)
            o->kept = slot_place_block(s, stage_kept(s, k));
        o->gathered = slot_place_block(s, stage_rows_kept(s, k));
    }
    for (size_t t = 0; t < s->layout.tensors; t++) {
        struct stage_tensor *to = &s->layout.tensor[t];
        if (t < s->layout.n && last_of[t] > 0) {
            to->recomputed = true;
            continue;
        }
        to->value = to->recomputed ? place_again(s, to->size, &end[s->layout.op[t].unit_low])
                                   : slot_place_block(s, to->size);
    }
}

/* Is the stage that this one reads from on the same device, and of the same microbatches? Then the
 * program has no messages between them. */
static bool is_local(const struct stage *s, uint32_t stage)
{
    const struct program *p = s->program;
    bool messages = false;
    for (size_t i = p->op_start[s->rank]; i < p->op_start[s->rank + 1] && !messages; i++)
        messages =
            op_is_message(&p->op[i]) && p->op[i].stage == s->index && p->op[i].peer_stage == stage;
    return !messages && program_rank_has(p, s->rank, stage);
}

/* Does every shard send its part only? The program's messages say so. */
static enum status slot_find_parts(const struct stage *s, struct stage_link *link)
{
    const struct program *p = s->program;
    size_t shards = s->share.shard.shards, bytes = link->size * sizeof(real);
    link->parts = 1;
    for (size_t i = p->op_start[s->rank]; i < p->op_start[s->rank + 1]; i++) {
        const struct program_op *o = &p->op[i];
        if (!op_is_message(o) || o->stage != s->index || o->peer_stage != link->stage ||
            (size_t)o->bytes == bytes)
            continue;
        if ((size_t)o->bytes * shards != bytes || link->size % shards > 0)
            return error_set(
                STATUS_UNSUPPORTED,
                "stage %u: message has %zu bytes, expected %zu shards of %lld bytes each", s->index,
                bytes, shards, (long long)o->bytes);
        link->parts = shards;
    }
    return STATUS_OK;
}

/* Gradients of received tensors, areas for what consumers send back. */
static enum status place_links(struct stage *s)
{
    for (size_t t = s->layout.n; t < s->layout.tensors; t++)
        s->layout.tensor[t].gradient = slot_place_block(s, s->layout.tensor[t].size);
    for (size_t p = 0; p < s->layout.producers; p++)
        s->layout.producer[p].local = is_local(s, s->layout.producer[p].stage);
    for (size_t p = 0; p < s->layout.producers; p++)
        for (size_t i = 0; i < s->layout.producer[p].n; i++)
            s->layout.producer[p].size += s->layout.tensor[s->layout.producer[p].tensor[i]].size;
    for (size_t c = 0; c < s->layout.consumers; c++) {
        for (size_t i = 0; i < s->layout.consumer[c].n; i++)
            s->layout.consumer[c].size += s->layout.tensor[s->layout.consumer[c].tensor[i]].size;
        s->layout.consumer[c].area = slot_place_block(s, s->layout.consumer[c].size);
        PASS(slot_find_parts(s, &s->layout.consumer[c]));
    }
    for (size_t p = 0; p < s->layout.producers; p++)
        PASS(slot_find_parts(s, &s->layout.producer[p]));
    return STATUS_OK;
}

/* In this order: what the ops save, kept gradients of split backwards, values of own and received
 * tensors, gradients of the received ones, areas for what consumers send back. */
enum status stage_place_slot(struct stage *s)
{
    enum status st = STATUS_OK;
    uint32_t *unit = NULL;
    bool *kept = NULL;
    size_t *end = NULL; /* of each unit, by its first op */
    size_t *last_of = NULL, *needed = NULL;
    TRY(ARRAY_NEW(unit, s->layout.n));
    TRY(ARRAY_NEW(kept, s->layout.n));
    TRY(ARRAY_NEW(end, s->layout.n));
    TRY(ARRAY_NEW(needed, s->layout.n));
    TRY(slot_find_units(s, unit, kept, needed));
    TRY(ARRAY_NEW(last_of, s->layout.n));
    for (size_t k = 0; k < s->layout.n; k++) {
        size_t last;
        bool unit_keeps = s->layout.op[k].recomputed && kept[k];
        last_of[k] = is_passing(s, k, &last) && !unit_keeps ? last : 0;
    }
    TRY(place_units(s, last_of, end));
    place_ops(s, end, last_of);
    TRY(place_passing(s, last_of));
    TRY(place_links(s));
out:
    free(unit);
    free(kept);
    free(end);
    free(last_of);
    free(needed);
    return st;
}
