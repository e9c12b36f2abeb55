/* Captures as programs. Steps:
 *   1. seconds of every entry of a class, on each type of device that has ranks of it;
 *   2. the groups of the script with more than one member, and which of them each rank is in;
 *   3. rank by rank the entries of its class, its own groups and peers put in. */
#include "core/lower/captured.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/intern.h"
#include "core/base/text.h"
#include "core/data/program_check.h"

enum { CAPTURED_MOST = 1 << 28 }; /* entries of all ranks */

/* A lowering under way. */
struct captured_work {
    const struct capture *c;
    const struct topology *t;
    const struct captured_options *o;
    uint32_t *device;  /* [ranks] */
    size_t *own_start; /* [ranks + 1] */
    uint32_t *own;     /* groups of each rank, in the script's order */
    uint32_t *number;  /* [groups] of the program's groups; PROGRAM_NONE: it has one member */
    struct interner channel, message; /* source, destination, tag; the so-manieth of a channel */
    uint32_t *count[2];               /* [channels] of SENDs, RECVs so far */
    size_t channels;
    struct program p;
    struct captured_map map;
    /* of the rank at hand */
    uint32_t rank;
    struct program_op next; /* COMPUTE that is being put together */
    bool open, works;       /* is it? has it operators? */
    uint32_t entry, first;  /* of the class: the one at hand, the first of `next` */
    uint32_t *after;        /* [afters] what it waits for */
    size_t afters;
    uint32_t last;    /* the COMPUTE before it, PROGRAM_NONE */
    uint32_t *issued; /* [id] op of a communication, PROGRAM_NONE: of nobody else */
};

/* ---- devices */

/* Those that the trace names if the platform has all of them, each once; else rank r is on the r-th
 * one. */
static enum status captured_devices(struct captured_work *w)
{
    size_t n = w->c->ranks;
    bool named = w->c->device_name != NULL;
    uint32_t *sorted;
    PASS(ARRAY_NEW(w->device, n));
    PASS(ARRAY_NEW(sorted, n));
    for (size_t r = 0; named && r < n; r++) {
        const char *name = w->c->device_name[r];
        bool usual = r < w->t->n && !strcmp(w->t->device[r], name);
        sorted[r] = w->device[r] = usual ? (uint32_t)r : topology_find(w->t, name);
        named = w->device[r] < w->t->n;
    }
    if (named)
        qsort(sorted, n, sizeof *sorted, array_by_number);
    for (size_t r = 1; named && r < n; r++)
        named = sorted[r] != sorted[r - 1];
    for (size_t r = 0; !named && r < n; r++)
        w->device[r] = (uint32_t)r;
    free(sorted);
    return STATUS_OK;
}

/* ---- seconds */

static bool op_communicates(const struct capture_op *o)
{
    return o->kind != CAPTURE_COMPUTE && o->kind != CAPTURE_WAIT;
}

/* Entries first .. end - 1 take what a dry run took, each its share of it. */
static void scale_to(const struct capture_class *c, size_t first, size_t end, double dry_s,
                     double *seconds)
{
    double sum = 0, n = 0;
    for (size_t i = first; i < end; i++) {
        sum += seconds[i];
        n += c->op[i].kind == CAPTURE_COMPUTE;
    }
    for (size_t i = first; i < end; i++)
        if (c->op[i].kind == CAPTURE_COMPUTE)
            seconds[i] = sum > 0 ? seconds[i] * (dry_s / sum) : dry_s / n;
}

static enum status scale_class(const struct capture_class *c, double *seconds)
{
    size_t first = 0, k = 0;
    if (c->dry == 0)
        return error_set(STATUS_INVALID,
                         "%s has no dry run; capture the script again with foreline capture --dry",
                         c->file);
    for (size_t i = 0; i < c->ops; i++)
        if (op_communicates(&c->op[i])) {
            scale_to(c, first, i, c->dry_s[k++], seconds);
            first = i;
        }
    scale_to(c, first, c->ops, c->dry_s[k], seconds);
    return STATUS_OK;
}

/* Entries whose time is the trace's: without FLOP and bytes there is no other. */
static bool captured_timed(const struct captured_options *o, const struct capture_class *c,
                           const struct capture_op *op)
{
    const struct capture_operator *k = &c->operation[op->operation];
    bool traced = !o->model && !o->times && !o->dry;
    return op->timed && (traced || (k->flop <= 0 && k->bytes == 0));
}

/* Of one class on one type of device. */
static enum status time_class(const struct captured_work *w, const struct capture_class *c,
                              const struct device_type *type, double *seconds)
{
    enum status st = STATUS_OK;
    double *each;
    TRY(ARRAY_NEW(each, c->operators));
    for (size_t k = 0; k < c->operators; k++) {
        const struct operator_time *row =
            w->o->times ? operator_times_find(w->o->times, c->operation[k].key) : NULL;
        each[k] = row ? row->seconds : operator_seconds(&c->operation[k], type);
    }
    for (size_t i = 0; i < c->ops; i++)
        if (c->op[i].kind == CAPTURE_COMPUTE)
            seconds[i] =
                captured_timed(w->o, c, &c->op[i]) ? c->op[i].seconds : each[c->op[i].operation];
    if (w->o->dry)
        TRY(scale_class(c, seconds));
out:
    free(each);
    return st;
}

static enum status captured_count_class(const struct captured_work *w,
                                        const struct capture_class *c, struct captured_tally *tally)
{
    bool *timed;
    PASS(ARRAY_NEW(timed, c->operators));
    for (size_t i = 0; i < c->ops; i++)
        if (c->op[i].kind == CAPTURE_COMPUTE && captured_timed(w->o, c, &c->op[i]))
            timed[c->op[i].operation] = true;
    for (size_t i = 0; i < c->operators; i++) {
        const struct capture_operator *o = &c->operation[i];
        if (timed[i] || (w->o->times && operator_times_find(w->o->times, o->key)))
            tally->measured++;
        else if (operator_is_shaped(o))
            tally->shaped++;
        else
            tally->bytes++;
    }
    free(timed);
    return STATUS_OK;
}

static enum status captured_count(const struct captured_work *w, struct captured_tally *tally)
{
    *tally = (struct captured_tally){0};
    for (size_t k = 0; k < w->c->classes; k++)
        PASS(captured_count_class(w, &w->c->class[k], tally));
    return STATUS_OK;
}

static enum status captured_times(struct captured_work *w)
{
    w->map.kinds = w->c->classes * w->t->types;
    PASS(ARRAY_NEW(w->map.seconds, w->map.kinds));
    for (size_t r = 0; r < w->c->ranks; r++) {
        const struct capture_class *c = &w->c->class[w->c->class_of[r]];
        double **at =
            &w->map.seconds[w->c->class_of[r] * w->t->types + w->t->type_of[w->device[r]]];
        if (*at)
            continue;
        PASS(ARRAY_NEW(*at, c->ops + 1));
        PASS(time_class(w, c, topology_type(w->t, w->device[r]), *at));
    }
    return STATUS_OK;
}

/* ---- groups */

/* Which groups each rank is in. */
static enum status captured_own(struct captured_work *w)
{
    const struct capture *c = w->c;
    size_t members = c->group_start[c->groups];
    uint32_t *at;
    PASS(ARRAY_NEW(w->own_start, c->ranks + 1));
    PASS(ARRAY_NEW(w->own, members));
    PASS(ARRAY_NEW(at, c->ranks));
    for (size_t k = 0; k < members; k++)
        w->own_start[c->member[k] + 1]++;
    for (size_t r = 0; r < c->ranks; r++)
        w->own_start[r + 1] += w->own_start[r];
    for (size_t g = 0; g < c->groups; g++)
        for (size_t k = c->group_start[g]; k < c->group_start[g + 1]; k++)
            w->own[w->own_start[c->member[k]] + at[c->member[k]]++] = (uint32_t)g;
    free(at);
    return STATUS_OK;
}

/* Members ascending, as programs have them. */
static enum status captured_groups(struct captured_work *w)
{
    const struct capture *c = w->c;
    struct program *p = &w->p;
    size_t members = 0;
    PASS(ARRAY_NEW(w->number, c->groups));
    PASS(ARRAY_NEW(p->group_start, c->groups + 1));
    PASS(ARRAY_NEW(p->member, c->group_start[c->groups]));
    for (size_t g = 0; g < c->groups; g++) {
        const uint32_t *from = c->member + c->group_start[g];
        size_t n = c->group_start[g + 1] - c->group_start[g];
        w->number[g] = n > 1 ? (uint32_t)p->groups : PROGRAM_NONE;
        if (n < 2)
            continue;
        for (size_t k = 0; k < n; k++)
            p->member[members + k] = from[k];
        qsort(p->member + members, n, sizeof *p->member, array_by_number);
        for (size_t k = 1; k < n; k++)
            if (p->member[members + k] == p->member[members + k - 1])
                return error_set(STATUS_INVALID, "process group %zu lists rank %u twice", g,
                                 p->member[members + k]);
        p->group_start[++p->groups] = members += n;
    }
    return STATUS_OK;
}

/* ---- ops of a rank */

static enum status captured_add(struct captured_work *w, const struct program_op *op,
                                const uint32_t *after, size_t afters)
{
    struct program *p = &w->p;
    PASS(ARRAY_ROOM(p->op, p->ops));
    PASS(ARRAY_ROOM(w->map.entry, p->ops));
    w->map.entry[p->ops] = op->kind == OP_COMPUTE ? w->first : w->entry;
    p->op[p->ops] = *op;
    p->op[p->ops].dep_start = (uint32_t)p->deps;
    for (size_t k = 0; k < afters; k++) {
        PASS(ARRAY_ROOM(p->dep, p->deps));
        p->dep[p->deps++] = after[k];
    }
    p->ops++;
    return STATUS_OK;
}

static struct program_op captured_op(enum op_kind kind)
{
    return (struct program_op){.kind = (uint8_t)kind,
                               .microbatch = PROGRAM_NONE,
                               .peer = PROGRAM_NONE,
                               .tag = PROGRAM_NONE,
                               .match = PROGRAM_NONE,
                               .channel = PROGRAM_NONE,
                               .count = 1};
}

/* What was computed so far is an op. */
static enum status captured_close(struct captured_work *w)
{
    if (!w->open)
        return STATUS_OK;
    w->next.tag = (uint32_t)(w->p.ops - w->p.op_start[w->rank]);
    w->last = (uint32_t)w->p.ops;
    PASS(captured_add(w, &w->next, w->after, w->afters));
    w->open = w->works = false;
    w->afters = 0;
    return STATUS_OK;
}

static void captured_open(struct captured_work *w, uint8_t phase)
{
    if (!w->open) {
        w->next = captured_op(OP_COMPUTE);
        w->first = w->entry;
    }
    w->open = true;
    w->next.phase = phase;
}

static enum status captured_compute(struct captured_work *w, const struct capture_op *o,
                                    double seconds)
{
    int64_t held = o->bytes - program_static_bytes(&w->p.rank[w->rank]);
    if (w->open && w->works && w->next.phase != o->phase)
        PASS(captured_close(w));
    captured_open(w, o->phase);
    w->works = true;
    w->next.seconds += seconds;
    w->next.bytes = held > w->next.bytes ? held : w->next.bytes;
    return STATUS_OK;
}

/* What comes next waits for an op. */
static enum status captured_wait(struct captured_work *w, uint32_t op)
{
    if (op == PROGRAM_NONE)
        return STATUS_OK;
    if (w->works)
        PASS(captured_close(w));
    captured_open(w, w->next.phase);
    PASS(ARRAY_ROOM(w->after, w->afters));
    w->after[w->afters++] = op;
    return STATUS_OK;
}

/* Messages between two ranks that have one tag meet in order: each gets a tag of its own. */
static enum status captured_tag(struct captured_work *w, const struct capture_op *o, uint32_t peer,
                                uint32_t *tag)
{
    bool sends = o->kind == CAPTURE_SEND, fresh;
    const uint64_t ends[3] = {sends ? w->rank : peer, sends ? peer : w->rank, (uint64_t)o->tag};
    uint32_t channel;
    PASS(intern(&w->channel, ends, sizeof ends, &channel, &fresh));
    if (fresh) {
        for (int k = 0; k < 2; k++) {
            PASS(ARRAY_ROOM(w->count[k], w->channels));
            w->count[k][w->channels] = 0;
        }
        w->channels++;
    }
    const uint64_t message[2] = {channel, w->count[sends][channel]++};
    return intern(&w->message, message, sizeof message, tag, NULL);
}

/* What the collectives of a class are for, a guess by their kinds; a group that sums in forwards
 * holds parts of tensors. */
static enum status captured_purposes(const struct capture_class *c, uint8_t *purpose)
{
    uint32_t *sums = NULL;
    size_t n = 0;
    uint8_t phase = IN_UPDATE;
    for (size_t i = 0; i < c->ops; i++) {
        phase = c->op[i].kind == CAPTURE_COMPUTE ? c->op[i].phase : phase;
        if (phase != IN_FORWARD || c->op[i].op_kind != OP_ALLREDUCE)
            continue;
        PASS(ARRAY_ROOM(sums, n));
        sums[n++] = c->op[i].group;
    }
    if (n > 1)
        qsort(sums, n, sizeof *sums, array_by_number);
    for (size_t i = 0; i < c->ops; i++) {
        const struct capture_op *o = &c->op[i];
        bool tensor = o->op_kind == OP_ALLREDUCE && n > 0 &&
                      bsearch(&o->group, sums, n, sizeof *sums, array_by_number);
        purpose[i] = o->kind != CAPTURE_COLLECTIVE                                  ? FOR_PIPELINE
                     : o->op_kind == OP_ALLTOALL                                    ? FOR_EXPERTS
                     : o->op_kind == OP_ALLGATHER || o->op_kind == OP_REDUCESCATTER ? FOR_SHARDS
                     : tensor                                                       ? FOR_TENSOR
                                                                                    : FOR_DATA;
    }
    free(sums);
    return STATUS_OK;
}

/* The op that was added last waits for other communication, too. */
static enum status captured_after(struct captured_work *w, const struct capture_op *o)
{
    struct program *p = &w->p;
    for (size_t k = 0; k < o->afters; k++) {
        if (w->issued[o->after[k]] == PROGRAM_NONE)
            continue;
        PASS(ARRAY_ROOM(p->dep, p->deps));
        p->dep[p->deps++] = w->issued[o->after[k]];
    }
    return STATUS_OK;
}

static enum status captured_communicate(struct captured_work *w, const struct capture_op *o,
                                        const uint8_t *purpose)
{
    const struct capture *c = w->c;
    size_t first = w->own_start[w->rank], own = w->own_start[w->rank + 1] - first;
    if (o->group >= own)
        return error_set(
            STATUS_INVALID,
            "rank %u: an op uses process group %u (from 0) of the rank's list, which has %zu",
            w->rank, o->group, own);
    uint32_t group = w->own[first + o->group];
    w->issued[o->id] = PROGRAM_NONE;
    if (w->number[group] == PROGRAM_NONE)
        return STATUS_OK; /* alone in it */
    struct program_op op = captured_op((enum op_kind)o->op_kind);
    op.bytes = o->bytes > 0 ? o->bytes : 1;
    op.reduction = op_reduces(&op) ? o->reduction : REDUCTION_SUM;
    if (o->kind == CAPTURE_COLLECTIVE) {
        op.peer = w->number[group];
        op.count = o->calls > 0 ? o->calls : 1;
        op.purpose = *purpose;
    } else {
        const uint32_t *member = c->member + c->group_start[group];
        size_t n = c->group_start[group + 1] - c->group_start[group], place = 0;
        while (member[place] != w->rank)
            place++;
        op.peer = member[(place + o->distance) % n];
        op.peer_stage = 0;
        PASS(captured_tag(w, o, op.peer, &op.tag));
    }
    PASS(captured_close(w));
    w->issued[o->id] = (uint32_t)w->p.ops;
    PASS(captured_add(w, &op, &w->last, w->last != PROGRAM_NONE));
    PASS(captured_after(w, o));
    return w->o->serial && o->kind == CAPTURE_COLLECTIVE ? captured_wait(w, w->issued[o->id])
                                                         : STATUS_OK;
}

/* purpose  [ops of the class] */
static enum status captured_rank(struct captured_work *w, uint32_t r, const uint8_t *purpose)
{
    const struct capture_class *c = &w->c->class[w->c->class_of[r]];
    uint32_t device = w->device[r];
    const double *seconds = w->map.seconds[w->c->class_of[r] * w->t->types + w->t->type_of[device]];
    struct program_rank *rank = &w->p.rank[r];
    *rank = (struct program_rank){.device = device,
                                  .weight_bytes = c->weight_bytes,
                                  .gradient_bytes = c->gradient_bytes,
                                  .state_bytes = c->state_bytes};
    PASS(text_copy(w->t->device[device], &rank->name));
    w->rank = r;
    w->last = PROGRAM_NONE;
    w->p.ranks++;
    for (size_t i = 0; i < c->ops; i++) {
        const struct capture_op *o = &c->op[i];
        w->entry = (uint32_t)i;
        PASS(o->kind == CAPTURE_COMPUTE ? captured_compute(w, o, seconds[i])
             : o->kind == CAPTURE_WAIT  ? captured_wait(w, w->issued[o->id])
                                        : captured_communicate(w, o, &purpose[i]));
    }
    PASS(captured_close(w));
    w->p.op_start[r + 1] = w->p.ops;
    return STATUS_OK;
}

/* ---- the program */

static enum status captured_head(struct captured_work *w)
{
    struct program *p = &w->p;
    p->microbatches = p->microbatch_size = 1;
    p->number_bytes = p->reduce_bytes = 4;
    p->stages = 1;
    p->captured = true;
    PASS(text_copy("script", &p->optimizer));
    PASS(ARRAY_NEW(p->stage_start, 2));
    PASS(ARRAY_NEW(p->stage_op, 1));
    PASS(program_plain_stages(p));
    for (size_t r = 0; r < w->c->ranks; r++) {
        const struct capture_class *c = &w->c->class[w->c->class_of[r]];
        p->microbatch_size = c->steps;
        p->attained = p->attained ||
                      (!w->c->ideal && kernels_known(&topology_type(w->t, w->device[r])->kernels));
        for (size_t i = 0; i < c->ops; i++)
            if (c->op[i].kind == CAPTURE_COMPUTE)
                p->sample_flop += c->operation[c->op[i].operation].flop / c->steps;
    }
    return STATUS_OK;
}

static enum status captured_ranks(struct captured_work *w)
{
    enum status st = STATUS_OK;
    const struct capture *c = w->c;
    size_t most = 0, all = 0;
    uint8_t **purpose = NULL; /* [classes] [ops] */
    for (size_t r = 0; r < c->ranks; r++) {
        size_t n = c->class[c->class_of[r]].ops;
        most = n > most ? n : most;
        all += n;
    }
    if (all > CAPTURED_MOST)
        return error_set(STATUS_INVALID,
                         "the captured step has %zu ops in total, expected at most %d; capture "
                         "fewer ranks or shorter steps",
                         all, CAPTURED_MOST);
    TRY(ARRAY_NEW(purpose, c->classes));
    TRY(ARRAY_NEW(w->issued, most + 1));
    TRY(ARRAY_NEW(w->p.rank, c->ranks));
    TRY(ARRAY_NEW(w->p.op_start, c->ranks + 1));
    for (uint32_t r = 0; r < c->ranks; r++) {
        const struct capture_class *class = &c->class[c->class_of[r]];
        uint8_t **at = &purpose[c->class_of[r]];
        if (!*at) {
            TRY(ARRAY_NEW(*at, class->ops + 1));
            TRY(captured_purposes(class, *at));
        }
        TRY(captured_rank(w, r, *at));
    }
    TRY(ARRAY_ROOM(w->p.op, w->p.ops));
    w->p.op[w->p.ops] = (struct program_op){.dep_start = (uint32_t)w->p.deps};
out:
    for (size_t k = 0; purpose && k < c->classes; k++)
        free(purpose[k]);
    free(purpose);
    return st;
}

void captured_map_free(struct captured_map *m)
{
    for (size_t k = 0; m->seconds && k < m->kinds; k++)
        free(m->seconds[k]);
    free(m->seconds);
    free(m->entry);
    *m = (struct captured_map){0};
}

static void captured_free(struct captured_work *w)
{
    captured_map_free(&w->map);
    free(w->device);
    free(w->own_start);
    free(w->own);
    free(w->number);
    free(w->count[0]);
    free(w->count[1]);
    free(w->after);
    free(w->issued);
    interner_free(&w->channel);
    interner_free(&w->message);
    program_free(&w->p);
}

enum status capture_lower(const struct capture *c, const struct topology *t,
                          const struct captured_options *o, struct program *out,
                          struct captured_tally *tally, struct captured_map *map)
{
    enum status st;
    struct captured_work w = {.c = c,
                              .t = t,
                              .o = o,
                              .channel.size = 3 * sizeof(uint64_t),
                              .message.size = 2 * sizeof(uint64_t)};
    if (t->n < c->ranks)
        return error_set(STATUS_INVALID,
                         "the capture has %zu ranks, but platform '%s' has %zu devices; choose a "
                         "larger --platform",
                         c->ranks, t->name, t->n);
    TRY(captured_devices(&w));
    TRY(captured_times(&w));
    TRY(captured_own(&w));
    TRY(captured_groups(&w));
    TRY(captured_head(&w));
    TRY(captured_ranks(&w));
    TRY(program_match(&w.p));
    TRY(program_check(&w.p));
    TRY(captured_count(&w, tally));
    MOVE(out, w.p);
    if (map)
        MOVE(map, w.map);
out:
    captured_free(&w);
    return st;
}
