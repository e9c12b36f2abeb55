#include "core/program.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/file.h"
#include "core/json.h"
#include "core/plan.h"

static const char program_format[] = "foreline-program";
enum { PROGRAM_VERSION = 1, MAX_RANKS = 1 << 20, MAX_OPS = 1 << 28 };

static const char *const kind_names[OP_KINDS] = {
    [OP_FORWARD] = "forward",
    [OP_BACKWARD] = "backward",
    [OP_BACKWARD_INPUT] = "backward-input",
    [OP_BACKWARD_WEIGHT] = "backward-weight",
    [OP_UPDATE] = "update",
    [OP_SEND] = "send",
    [OP_RECV] = "recv",
    [OP_ALLREDUCE] = "allreduce",
    [OP_ALLGATHER] = "allgather",
    [OP_REDUCESCATTER] = "reducescatter",
    [OP_ALLTOALL] = "alltoall",
};

/* ---- reading */

static enum status field_id(const struct json_at *object, const char *key, uint32_t *out)
{
    enum status st;
    struct json_at at;
    int64_t value = PROGRAM_NONE;
    TRY(json_optional(object, key, &at));
    if (at.value)
        TRY(json_get_integer(&at, 0, PROGRAM_NONE - 1, &value));
    *out = (uint32_t)value;
out:
    return st;
}

static enum status read_kind(const struct json_at *op, struct program_op *o)
{
    enum status st;
    struct json_at at;
    size_t kind = 0, purpose = FOR_PIPELINE;
    int64_t part = 0, count = 1;
    TRY(json_field(op, "op", &at));
    TRY(json_may_choice(op, "op", kind_names, OP_KINDS, &kind));
    TRY(json_may_choice(op, "for", op_purpose_names, OP_PURPOSES, &purpose));
    TRY(json_may_integer(op, "part", 0, UINT8_MAX, &part));
    TRY(json_may_integer(op, "count", 1, PROGRAM_NONE - 1, &count));
    o->kind = (uint8_t)kind;
    o->purpose = (uint8_t)purpose;
    o->part = (uint8_t)part;
    o->count = (uint32_t)count;
out:
    return st;
}

/* Dependencies are positions in the rank's own list in the file. */
static enum status read_deps(const struct json_at *op, struct program *p, size_t base, size_t self,
                             size_t *room)
{
    enum status st;
    struct json_at at;
    size_t n = 0;
    TRY(json_optional(op, "after", &at));
    if (at.value)
        TRY(json_get_array(&at, MAX_OPS, &n));
    if (p->deps + n > *room) {
        *room = 2 * (p->deps + n);
        uint32_t *larger = realloc(p->dep, *room * sizeof *larger);
        if (!larger)
            return error_set(STATUS_NOMEM, "out of memory");
        p->dep = larger;
    }
    p->op[self].dep_start = (uint32_t)p->deps;
    for (size_t k = 0; k < n; k++) {
        struct json_at item = json_item(&at, k);
        int64_t position;
        TRY(json_get_integer(&item, 0, (int64_t)(self - base) - 1, &position));
        p->dep[p->deps++] = (uint32_t)(base + (size_t)position);
    }
out:
    return st;
}

static enum status read_op(const struct json_at *at, struct program_op *o)
{
    enum status st;

    TRY(read_kind(at, o));
    TRY(field_id(at, "stage", &o->stage));
    TRY(field_id(at, "microbatch", &o->microbatch));
    TRY(field_id(at, "peer", &o->peer));
    TRY(field_id(at, "peer_stage", &o->peer_stage));
    TRY(field_id(at, "tag", &o->tag));
    TRY(json_may_integer(at, "bytes", 0, INT64_MAX / 65536, &o->bytes));
    TRY(json_may_real(at, "seconds", 0, DBL_MAX, &o->seconds));
    TRY(json_may_bool(at, "backward", &o->backward));
out:
    return st;
}

static enum status check_stages(const struct program *p, size_t i, const struct json_at *at)
{
    const struct program_op *o = &p->op[i];
    bool message = op_is_message(o);
    if (o->stage >= p->stages || (message && o->peer_stage >= p->stages))
        return json_error(at, "stage %u does not exist",
                          o->stage >= p->stages ? o->stage : o->peer_stage);
    bool pass = op_computes(o) && o->kind != OP_UPDATE;
    if ((message || pass || o->microbatch != PROGRAM_NONE) && o->microbatch >= p->microbatches)
        return json_error(at, "microbatch out of range");
    return STATUS_OK;
}

static enum status read_rank(const struct json_at *at, struct program *p, uint32_t r,
                             size_t *op_room, size_t *dep_room)
{
    enum status st;
    struct json_at field;
    size_t n, base = p->ops;
    struct program_rank *rank = &p->rank[r];
    TRY(json_need_text(at, "name", &rank->name));
    TRY(field_id(at, "device", &rank->device));
    TRY(field_id(at, "stage", &rank->stage));
    if (rank->stage >= p->stages)
        return json_error(at, "stage does not exist");
    TRY(field_id(at, "replica", &rank->replica));
    TRY(field_id(at, "shard", &rank->shard));
    if (rank->shard == PROGRAM_NONE)
        rank->shard = 0;
    TRY(json_may_integer(at, "weight_bytes", 0, INT64_MAX / 65536, &rank->weight_bytes));
    TRY(json_may_integer(at, "gradient_bytes", 0, INT64_MAX / 65536, &rank->gradient_bytes));
    TRY(json_may_integer(at, "state_bytes", 0, INT64_MAX / 65536, &rank->state_bytes));
    TRY(json_may_integer(at, "scratch_bytes", 0, INT64_MAX / 65536, &rank->scratch_bytes));
    TRY(json_field(at, "ops", &field));
    TRY(json_get_array(&field, MAX_OPS - p->ops, &n));
    if (p->ops + n + 1 > *op_room) {
        *op_room = 2 * (p->ops + n + 1);
        struct program_op *larger = realloc(p->op, *op_room * sizeof *larger);
        if (!larger)
            return error_set(STATUS_NOMEM, "out of memory");
        p->op = larger;
    }
    for (size_t i = 0; i < n; i++) {
        struct json_at item = json_item(&field, i);
        p->op[base + i] = (struct program_op){0};
        TRY(read_op(&item, &p->op[base + i]));
        TRY(check_stages(p, base + i, &item));
        TRY(read_deps(&item, p, base, base + i, dep_room));
    }
    p->ops += n;
    p->op_start[r + 1] = p->ops;
    p->op[p->ops] = (struct program_op){.dep_start = (uint32_t)p->deps};
out:
    return st;
}

static enum status read_ranks(const struct json_at *root, struct program *p)
{
    enum status st;
    struct json_at at;
    size_t n, op_room = 0, dep_room = 0;
    TRY(json_field(root, "ranks", &at));
    TRY(json_get_array(&at, MAX_RANKS, &n));
    if (n == 0)
        return json_error(&at, "a program without ranks");
    p->rank = calloc(n, sizeof *p->rank);
    p->op_start = calloc(n + 1, sizeof *p->op_start);
    if (!p->rank || !p->op_start)
        return error_set(STATUS_NOMEM, "out of memory");
    for (uint32_t r = 0; r < n; r++) {
        struct json_at item = json_item(&at, r);
        p->ranks++;
        TRY(read_rank(&item, p, r, &op_room, &dep_room));
    }
out:
    return st;
}

/* An array of arrays of ids below `limit`, ascending: CSR. */
static enum status read_lists(const struct json_at *root, const char *key, size_t limit,
                              size_t *lists, size_t **start, uint32_t **id)
{
    enum status st;
    struct json_at at;
    size_t n, total = 0, count;
    TRY(json_field(root, key, &at));
    TRY(json_get_array(&at, MAX_RANKS, &n));
    for (size_t k = 0; k < n; k++) {
        struct json_at item = json_item(&at, k);
        TRY(json_get_array(&item, limit, &count));
        total += count;
    }
    *start = calloc(n + 1, sizeof **start);
    *id = calloc(total + 1, sizeof **id);
    if (!*start || !*id)
        return error_set(STATUS_NOMEM, "out of memory");
    *lists = n;
    for (size_t k = 0, i = 0; k < n; k++) {
        struct json_at item = json_item(&at, k);
        int64_t value, last = -1;
        TRY(json_get_array(&item, limit, &count));
        for (size_t j = 0; j < count; j++, last = value) {
            struct json_at entry = json_item(&item, j);
            TRY(json_get_integer(&entry, last + 1, (int64_t)limit - 1, &value));
            (*id)[i++] = (uint32_t)value;
        }
        (*start)[k + 1] = i;
    }
out:
    return st;
}

static enum status read_recompute(const struct json_at *root, struct program *p)
{
    enum status st;
    struct json_at at;
    size_t n;
    TRY(json_optional(root, "recompute", &at));
    if (!at.value)
        return STATUS_OK;
    TRY(json_get_array(&at, p->stages, &n));
    if (n != p->stages)
        return json_error(&at, "expected one entry for each of the %zu stages", p->stages);
    if (!(p->recompute = calloc(n + 1, sizeof *p->recompute)))
        return error_set(STATUS_NOMEM, "%zu stages", n);
    for (size_t s = 0; s < n; s++) {
        struct json_at item = json_item(&at, s);
        const char *name;
        uint8_t kind = 0;
        TRY(json_get_string(&item, &name));
        while (kind < RECOMPUTE_KINDS && strcmp(name, plan_recompute_names[kind]))
            kind++;
        if (kind == RECOMPUTE_KINDS)
            return json_error(&item, "no way to recompute is called '%s'", name);
        p->recompute[s] = kind;
    }
out:
    return st;
}

static enum status read_head(const struct json_at *root, struct program *p)
{
    enum status st;

    int64_t value;
    TRY(json_need_integer(root, "microbatches", 1, PROGRAM_NONE - 1, &value));
    p->microbatches = (uint32_t)value;
    TRY(json_need_integer(root, "microbatch_size", 1, PROGRAM_NONE - 1, &value));
    p->microbatch_size = (uint32_t)value;
    TRY(json_need_real(root, "tokens_per_sample", 0, DBL_MAX, &p->tokens_per_sample));
    TRY(json_may_real(root, "sample_flop", 0, DBL_MAX, &p->sample_flop));
    TRY(json_may_real(root, "recompute_flop", 0, DBL_MAX, &p->recompute_flop));
    TRY(json_may_bool(root, "asynchronous", &p->asynchronous));
    TRY(json_need_text(root, "optimizer", &p->optimizer));
    TRY(json_need_integer(root, "seed", 0, INT64_MAX, &value));
    p->seed = (uint64_t)value;
    TRY(read_lists(root, "stages", MAX_OPS, &p->stages, &p->stage_start, &p->stage_op));
    TRY(read_recompute(root, p));
out:
    return st;
}

enum status program_read(const char *path, struct program *out)
{
    enum status st;
    struct json_document d = {0};
    struct program p = {0};
    TRY(json_read(path, program_format, PROGRAM_VERSION, &d));
    struct json_at root = json_root(&d);
    TRY(read_head(&root, &p));
    TRY(read_ranks(&root, &p));
    TRY(read_lists(&root, "groups", p.ranks, &p.groups, &p.group_start, &p.member));
    st = program_match(&p);
    if (st == STATUS_OK)
        st = program_check(&p);
    if (st != STATUS_OK) {
        st = error_context(st, "%s", path);
        goto out;
    }
    *out = p;
    p = (struct program){0};
out:
    program_free(&p);
    json_document_free(&d);
    return st;
}

/* ---- writing */

static void put_id(struct json_writer *w, const char *key, uint32_t id)
{
    if (id != PROGRAM_NONE)
        json_put_integer(w, key, id);
}

static void put_op(struct json_writer *w, const struct program *p, uint32_t r, size_t i)
{
    const struct program_op *o = &p->op[i];
    json_open_object(w, NULL, true);
    json_put_string(w, "op", kind_names[o->kind]);
    if (!op_computes(o) && o->purpose != FOR_PIPELINE)
        json_put_string(w, "for", op_purpose_names[o->purpose]);
    json_put_integer(w, "stage", o->stage);
    put_id(w, "microbatch", o->microbatch);
    if (o->part > 0)
        json_put_integer(w, "part", o->part);
    if (o->count > 1)
        json_put_integer(w, "count", o->count);
    put_id(w, "peer", o->peer);
    put_id(w, "peer_stage", o->peer_stage);
    put_id(w, "tag", o->tag);
    if (o->backward)
        json_put_bool(w, "backward", true);
    if (op_computes(o))
        json_put_real(w, "seconds", o->seconds);
    json_put_integer(w, "bytes", o->bytes);
    json_open_array(w, "after", true);
    for (uint32_t d = o->dep_start; d < o[1].dep_start; d++)
        json_put_integer(w, NULL, (int64_t)(p->dep[d] - p->op_start[r]));
    json_close(w);
    json_close(w);
}

static void put_lists(struct json_writer *w, const char *key, size_t n, const size_t *start,
                      const uint32_t *id)
{
    json_open_array(w, key, false);
    for (size_t k = 0; k < n; k++) {
        json_open_array(w, NULL, true);
        for (size_t i = start[k]; i < start[k + 1]; i++)
            json_put_integer(w, NULL, id[i]);
        json_close(w);
    }
    json_close(w);
}

enum status program_write(const struct program *p, const char *path, const struct provenance *by)
{
    enum status st;
    struct file_out f = {0};
    if (p->folded)
        return error_set(STATUS_UNSUPPORTED, "a folded program is not for files");
    TRY(file_create(path, &f));
    struct json_writer w = {.stream = f.stream};
    json_put_header(&w, program_format, PROGRAM_VERSION, by);
    json_put_integer(&w, "microbatches", p->microbatches);
    json_put_integer(&w, "microbatch_size", p->microbatch_size);
    json_put_real(&w, "tokens_per_sample", p->tokens_per_sample);
    json_put_real(&w, "sample_flop", p->sample_flop);
    if (p->recompute_flop > 0)
        json_put_real(&w, "recompute_flop", p->recompute_flop);
    if (p->asynchronous)
        json_put_bool(&w, "asynchronous", true);
    json_put_string(&w, "optimizer", p->optimizer);
    json_put_integer(&w, "seed", (int64_t)p->seed);
    put_lists(&w, "stages", p->stages, p->stage_start, p->stage_op);
    if (p->recompute) {
        json_open_array(&w, "recompute", true);
        for (size_t s = 0; s < p->stages; s++)
            json_put_string(&w, NULL, plan_recompute_names[p->recompute[s]]);
        json_close(&w);
    }
    put_lists(&w, "groups", p->groups, p->group_start, p->member);
    json_open_array(&w, "ranks", false);
    for (uint32_t r = 0; r < p->ranks; r++) {
        const struct program_rank *rank = &p->rank[r];
        json_open_object(&w, NULL, false);
        json_put_string(&w, "name", rank->name);
        put_id(&w, "device", rank->device);
        put_id(&w, "stage", rank->stage);
        put_id(&w, "replica", rank->replica);
        if (rank->shard > 0)
            json_put_integer(&w, "shard", rank->shard);
        json_put_integer(&w, "weight_bytes", rank->weight_bytes);
        json_put_integer(&w, "gradient_bytes", rank->gradient_bytes);
        json_put_integer(&w, "state_bytes", rank->state_bytes);
        if (rank->scratch_bytes > 0)
            json_put_integer(&w, "scratch_bytes", rank->scratch_bytes);
        json_open_array(&w, "ops", false);
        for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++)
            put_op(&w, p, r, i);
        json_close(&w);
        json_close(&w);
    }
    json_close(&w);
    json_close(&w);
    TRY(file_commit(&f));
out:
    file_discard(&f);
    return st;
}
