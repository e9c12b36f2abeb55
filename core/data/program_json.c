/* Programs as JSON: docs/reference/program.md has the keys. */
#include "core/data/program.h"

#include <float.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/data/plan.h"
#include "core/data/program_check.h"

static const char program_format[] = "foreline-program";
enum { PROGRAM_VERSION = 3, PROGRAM_PLANNED = 2, MAX_RANKS = 1 << 20, MAX_OPS = 1 << 28 };

static const char *const kind_names[OP_KINDS] = {
    [OP_FORWARD] = "forward",
    [OP_BACKWARD] = "backward",
    [OP_BACKWARD_INPUT] = "backward-input",
    [OP_BACKWARD_WEIGHT] = "backward-weight",
    [OP_UPDATE] = "update",
    [OP_COMPUTE] = "compute",
    [OP_SEND] = "send",
    [OP_RECV] = "recv",
    [OP_ALLREDUCE] = "allreduce",
    [OP_ALLGATHER] = "allgather",
    [OP_REDUCESCATTER] = "reducescatter",
    [OP_ALLTOALL] = "alltoall",
    [OP_BROADCAST] = "broadcast",
    [OP_REDUCE] = "reduce",
    [OP_GATHER] = "gather",
    [OP_SCATTER] = "scatter",
    [OP_COPY] = "copy",
};

/* ---- reading: nothing of a file is trusted; program_check() looks at what one field alone cannot
 * show to be wrong */

#define BYTES .max = INT64_MAX / 65536 /* sums of them still fit */
#define ID    FIELD_SPARE, .usual = PROGRAM_NONE, .max = PROGRAM_NONE - 1
#define COUNT .min = 1, .max = PROGRAM_NONE - 1

/* Kind and purpose are bytes in the struct, names in the file. */
static enum status program_json_read_kind(const struct json_at *op, void *into)
{
    struct program_op *o = into;
    struct json_at at;
    size_t kind = 0, purpose = FOR_PIPELINE;
    PASS(json_field(op, "op", &at));
    PASS(json_may_choice(op, "op", kind_names, OP_KINDS, &kind));
    PASS(json_may_choice(op, "for", op_purpose_names, OP_PURPOSES, &purpose));
    o->kind = (uint8_t)kind;
    o->purpose = (uint8_t)purpose;
    return STATUS_OK;
}

static void program_json_write_kind(struct json_writer *w, const void *from)
{
    const struct program_op *o = from;
    json_put_string(w, "op", kind_names[o->kind]);
    if (o->purpose != FOR_PIPELINE)
        json_put_string(w, "for", op_purpose_names[o->purpose]);
}

/* Sums do not say so. */
static enum status read_reduction(const struct json_at *op, void *into)
{
    struct program_op *o = into;
    size_t reduction = REDUCTION_SUM;
    PASS(json_may_choice(op, "reduction", op_reduction_names, REDUCTIONS, &reduction));
    if (reduction != REDUCTION_SUM && !op_reduces(o))
        return json_error(op, "reduction '%s' in an op that does not reduce",
                          op_reduction_names[reduction]);
    o->reduction = (uint8_t)reduction;
    return STATUS_OK;
}

static void write_reduction(struct json_writer *w, const void *from)
{
    const struct program_op *o = from;
    if (o->reduction != REDUCTION_SUM)
        json_put_string(w, "reduction", op_reduction_names[o->reduction]);
}

static enum status read_phase(const struct json_at *op, void *into)
{
    struct program_op *o = into;
    size_t phase = IN_FORWARD;
    PASS(json_may_choice(op, "phase", op_phase_names, OP_PHASES, &phase));
    o->phase = (uint8_t)phase;
    return STATUS_OK;
}

static void write_phase(struct json_writer *w, const void *from)
{
    const struct program_op *o = from;
    if (o->kind == OP_COMPUTE)
        json_put_string(w, "phase", op_phase_names[o->phase]);
}

/* Only what computes has them, also when they are 0. */
static enum status read_seconds(const struct json_at *op, void *into)
{
    return json_may_real(op, "seconds", 0, DBL_MAX, &((struct program_op *)into)->seconds);
}

static void write_seconds(struct json_writer *w, const void *from)
{
    const struct program_op *o = from;
    if (op_computes(o))
        json_put_real(w, "seconds", o->seconds);
}

#define OP(member) JSON_MEMBER(struct program_op, member)
static const struct json_row op_rows[] = {
    {"op", .read = program_json_read_kind, .write = program_json_write_kind, .also = "for"},
    {"reduction", .read = read_reduction, .write = write_reduction},
    {"stage", OP(stage), ID},
    {"microbatch", OP(microbatch), ID},
    {"part", OP(part), FIELD_SPARE},
    {"phase", .read = read_phase, .write = write_phase},
    {"count", OP(count), FIELD_SPARE, .usual = 1, COUNT},
    {"peer", OP(peer), ID},
    {"peer_stage", OP(peer_stage), ID},
    {"tag", OP(tag), ID},
    {"backward", OP(backward), FIELD_SPARE},
    {"seconds", .read = read_seconds, .write = write_seconds},
    {"bytes", OP(bytes), BYTES},
    {0},
};
#undef OP

#define RANK(member) JSON_MEMBER(struct program_rank, member)
static const struct json_row rank_rows[] = {
    {"name", RANK(name), FIELD_NEED},
    {"device", RANK(device), ID},
    {"stage", RANK(stage), ID},
    {"replica", RANK(replica), ID},
    {"shard", RANK(shard), FIELD_SPARE, .max = PROGRAM_NONE - 1},
    {"weight_bytes", RANK(weight_bytes), BYTES},
    {"gradient_bytes", RANK(gradient_bytes), BYTES},
    {"state_bytes", RANK(state_bytes), BYTES},
    {"scratch_bytes", RANK(scratch_bytes), FIELD_SPARE, BYTES},
    {"host_bytes", RANK(host_bytes), FIELD_SPARE, BYTES},
    {0},
};
#undef RANK

_Static_assert(offsetof(struct program_stage, own) == 0,
               "rows of a stage's knobs read and write it");
#define STAGE(member) JSON_MEMBER(struct program_stage, member)
static const struct json_row stage_rows[] = {
    {"replicas", STAGE(replicas), FIELD_NEED, COUNT},
    {"shards", STAGE(tensor_parallel), FIELD_NEED, COUNT},
    {"experts", STAGE(expert_parallel), FIELD_SPARE, .usual = 1, COUNT},
    {"sequence", STAGE(sequence), FIELD_SPARE},
    {"inside", STAGE(inside), FIELD_SPARE},
    {"stepped", STAGE(stepped), FIELD_SPARE},
    {"context", STAGE(context_parallel), FIELD_SPARE, .usual = 1, COUNT},
    {"exchange", FIELD_CHOICE, offsetof(struct program_stage, exchange), FIELD_SPARE,
     .name = plan_exchange_names, .names = EXCHANGE_KINDS},
    {"zero", STAGE(zero), FIELD_SPARE, .max = 3},
    {"keep", STAGE(keep), FIELD_SPARE},
    {"group", STAGE(group), FIELD_SPARE, .max = PROGRAM_NONE - 1},
    {"recompute", FIELD_CHOICE, offsetof(struct program_stage, recompute), FIELD_SPARE,
     .name = plan_recompute_names, .names = RECOMPUTE_KINDS},
    {"recompute_layers", STAGE(recompute_layers), FIELD_SPARE, .max = UINT32_MAX},
    {"recompute_unit", STAGE(recompute_unit), FIELD_SPARE, .usual = 1, .max = UINT32_MAX},
    {"recompute_modules", .read = strategy_read_modules, .write = strategy_write_modules},
    {"split", STAGE(split), FIELD_SPARE},
    {0},
};
#undef STAGE

static const struct json_row bucket_rows[] = {
    {"low", JSON_MEMBER(struct program_bucket, low), FIELD_NEED, .max = MAX_OPS},
    {"bytes", JSON_MEMBER(struct program_bucket, bytes), FIELD_NEED, BYTES},
    {"again", JSON_MEMBER(struct program_bucket, again), FIELD_SPARE},
    {0},
};

#define HEAD(member) JSON_MEMBER(struct program, member)
static const struct json_row head_rows[] = {
    {"microbatches", HEAD(microbatches), FIELD_NEED, COUNT},
    {"microbatch_size", HEAD(microbatch_size), FIELD_NEED, COUNT},
    {"tokens_per_sample", HEAD(tokens_per_sample), FIELD_NEED},
    {"sample_flop", HEAD(sample_flop)},
    {"recompute_flop", HEAD(recompute_flop), FIELD_SPARE},
    {"asynchronous", HEAD(asynchronous), FIELD_SPARE},
    {"forward_only", HEAD(forward_only), FIELD_SPARE},
    {"attained", HEAD(attained), FIELD_SPARE},
    {"captured", HEAD(captured), FIELD_SPARE},
    {"optimizer", HEAD(optimizer), FIELD_NEED},
    {"schedule", HEAD(schedule), FIELD_SPARE},
    {"seed", HEAD(seed), FIELD_NEED},
    {0},
};
#undef HEAD
#undef COUNT
#undef ID
#undef BYTES

/* Dependencies are positions in the rank's own list in the file. */
static enum status program_json_read_deps(const struct json_at *op, struct program *p, size_t base,
                                          size_t self)
{
    struct json_at at;
    size_t n = 0;
    PASS(json_optional(op, "after", &at));
    if (at.value)
        PASS(json_get_array(&at, MAX_OPS, &n));
    p->op[self].dep_start = (uint32_t)p->deps;
    for (size_t k = 0; k < n; k++) {
        struct json_at item = json_item(&at, k);
        int64_t position;
        PASS(json_get_integer(&item, 0, (int64_t)(self - base) - 1, &position));
        PASS(ARRAY_ROOM(p->dep, p->deps));
        p->dep[p->deps++] = (uint32_t)(base + (size_t)position);
    }
    return STATUS_OK;
}

/* Ids that later code uses as indices without looking. */
static enum status program_json_check_stages(const struct program *p, size_t i,
                                             const struct json_at *at)
{
    const struct program_op *o = &p->op[i];
    bool message = op_is_message(o);
    if (o->stage >= p->stages || (message && o->peer_stage >= p->stages))
        return json_error(at, "stage %u does not exist",
                          o->stage >= p->stages ? o->stage : o->peer_stage);
    bool pass = op_computes(o) && o->kind != OP_UPDATE;
    if (p->captured != (o->kind == OP_COMPUTE) && op_computes(o))
        return json_error(at, "op '%s' is not allowed in a program that is %s", kind_names[o->kind],
                          p->captured ? "captured" : "not captured");
    if (p->captured && o->microbatch == PROGRAM_NONE)
        return STATUS_OK;
    if ((message || pass || o->microbatch != PROGRAM_NONE) && o->microbatch >= p->microbatches)
        return o->microbatch == PROGRAM_NONE ? json_error(at, "\"microbatch\" is missing")
                                             : json_error(at, "got microbatch %u, expected 0 to %u",
                                                          o->microbatch, p->microbatches - 1);
    return STATUS_OK;
}

/* The rank's ops, behind those of the ranks before it, and the sentinel behind them. */
static enum status program_json_read_ops(const struct json_at *at, struct program *p)
{
    struct json_at field;
    size_t n, base = p->ops;
    PASS(json_field(at, "ops", &field));
    PASS(json_get_array(&field, MAX_OPS - p->ops, &n));
    for (size_t i = base; i < base + n; i++) {
        struct json_at item = json_item(&field, i - base);
        PASS(ARRAY_ROOM(p->op, i));
        p->op[i] = (struct program_op){.stage = PROGRAM_NONE,
                                       .microbatch = PROGRAM_NONE,
                                       .peer = PROGRAM_NONE,
                                       .peer_stage = PROGRAM_NONE,
                                       .tag = PROGRAM_NONE,
                                       .count = 1};
        PASS(json_check_keys(&item, "after", JSON_TABLES(op_rows)));
        PASS(json_rows_read(&item, op_rows, &p->op[i]));
        PASS(program_json_check_stages(p, i, &item));
        PASS(program_json_read_deps(&item, p, base, i));
    }
    p->ops += n;
    PASS(ARRAY_ROOM(p->op, p->ops));
    p->op[p->ops] = (struct program_op){.dep_start = (uint32_t)p->deps};
    return STATUS_OK;
}

static enum status program_json_read_rank(const struct json_at *at, struct program *p,
                                          struct program_rank *rank)
{
    rank->device = rank->stage = rank->replica = PROGRAM_NONE;
    PASS(json_check_keys(at, "ops", JSON_TABLES(rank_rows)));
    PASS(json_rows_read(at, rank_rows, rank));
    if (rank->stage >= p->stages)
        return json_error(at, "got stage %u, expected less than %zu (the stages of the program)",
                          rank->stage, p->stages);
    return program_json_read_ops(at, p);
}

static enum status read_ranks(const struct json_at *root, struct program *p)
{
    struct json_at at;
    size_t n;
    PASS(json_field(root, "ranks", &at));
    PASS(json_get_array(&at, MAX_RANKS, &n));
    if (n == 0)
        return json_error(&at, "program has no ranks");
    PASS(ARRAY_NEW(p->rank, n));
    PASS(ARRAY_NEW(p->op_start, n + 1));
    for (uint32_t r = 0; r < n; r++) {
        struct json_at item = json_item(&at, r);
        p->ranks++;
        PASS(program_json_read_rank(&item, p, &p->rank[r]));
        p->op_start[r + 1] = p->ops;
    }
    return STATUS_OK;
}

/* Ids below `limit`, ascending, appended to (*id)[*n]. */
static enum status read_ids(const struct json_at *at, size_t limit, uint32_t **id, size_t *n)
{
    size_t count;
    int64_t value, last = -1;
    PASS(json_get_array(at, limit, &count));
    for (size_t k = 0; k < count; k++, last = value) {
        struct json_at entry = json_item(at, k);
        PASS(json_get_integer(&entry, last + 1, (int64_t)limit - 1, &value));
        PASS(ARRAY_ROOM(*id, *n));
        (*id)[(*n)++] = (uint32_t)value;
    }
    return STATUS_OK;
}

/* Members of each group, ascending. */
static enum status read_groups(const struct json_at *root, struct program *p)
{
    struct json_at at;
    size_t n, members = 0;
    PASS(json_field(root, "groups", &at));
    PASS(json_get_array(&at, MAX_RANKS, &n));
    PASS(ARRAY_NEW(p->group_start, n + 1));
    p->groups = n;
    for (size_t g = 0; g < n; g++) {
        struct json_at item = json_item(&at, g);
        PASS(read_ids(&item, p->ranks, &p->member, &members));
        p->group_start[g + 1] = members;
    }
    PASS(ARRAY_ROOM(p->member, members)); /* never NULL */
    return STATUS_OK;
}

static enum status program_json_read_buckets(const struct json_at *stage, struct program *p,
                                             struct program_stage *s)
{
    struct json_at at;
    size_t n;
    PASS(json_field(stage, "buckets", &at));
    PASS(json_get_array(&at, UINT8_MAX, &n)); /* program_op.part is a byte */
    s->bucket = (uint32_t)p->buckets;
    s->buckets = (uint32_t)n;
    for (size_t b = 0; b < n; b++) {
        struct json_at item = json_item(&at, b);
        PASS(ARRAY_ROOM(p->bucket, p->buckets));
        PASS(json_check_keys(&item, "", JSON_TABLES(bucket_rows)));
        PASS(json_rows_read(&item, bucket_rows, &p->bucket[p->buckets++]));
        s->again += p->bucket[p->buckets - 1].again;
    }
    return STATUS_OK;
}

/* One stage: its ops, and how its ranks divide it (struct program_stage). */
static enum status program_json_read_stage(const struct json_at *at, struct program *p,
                                           struct program_stage *s, size_t *ops)
{
    struct json_at field;
    PASS(json_check_keys(at, "ops buckets", JSON_TABLES(stage_rows)));
    PASS(json_field(at, "ops", &field));
    PASS(read_ids(&field, MAX_OPS, &p->stage_op, ops));
    s->own = strategy_at_least_usual(&s->own);
    PASS(json_rows_read(at, stage_rows, s));
    return program_json_read_buckets(at, p, s);
}

static enum status read_stages(const struct json_at *root, struct program *p)
{
    struct json_at at;
    size_t n, ops = 0;
    PASS(json_field(root, "stages", &at));
    PASS(json_get_array(&at, MAX_RANKS, &n));
    PASS(ARRAY_NEW(p->stage_start, n + 1));
    PASS(ARRAY_NEW(p->stage, n));
    p->stages = n;
    for (size_t s = 0; s < n; s++) {
        struct json_at item = json_item(&at, s);
        PASS(program_json_read_stage(&item, p, &p->stage[s], &ops));
        p->stage_start[s + 1] = ops;
    }
    PASS(ARRAY_ROOM(p->stage_op, ops)); /* never NULL */
    return STATUS_OK;
}

/* fp32 where nothing else is said. */
static enum status read_numbers(const struct json_at *root, struct program *p)
{
    int64_t number = 4, reduce = 4;
    PASS(json_may_integer(root, "number_bytes", 1, 16, &number));
    PASS(json_may_integer(root, "reduce_bytes", 1, 16, &reduce));
    p->number_bytes = (uint32_t)number;
    p->reduce_bytes = (uint32_t)reduce;
    return STATUS_OK;
}

static enum status read_head(const struct json_at *root, struct program *p)
{
    int64_t value;
    PASS(json_need_integer(root, "version", 1, PROGRAM_VERSION, &value));
    if (value < PROGRAM_PLANNED)
        return json_error(root,
                          "program version %d lacks the parallelism of each stage, expected "
                          "version %d or newer; run the plan again",
                          (int)value, PROGRAM_PLANNED);
    PASS(json_check_keys(root, "number_bytes reduce_bytes stages operators groups ranks",
                         JSON_TABLES(head_rows)));
    PASS(json_rows_read(root, head_rows, p));
    PASS(read_numbers(root, p));
    PASS(operators_get(root, &p->operators));
    return read_stages(root, p);
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
    TRY(read_groups(&root, &p));
    st = program_match(&p);
    if (st == STATUS_OK)
        st = program_check(&p);
    if (st != STATUS_OK) {
        st = error_context(st, "%s", path);
        goto out;
    }
    MOVE(out, p);
out:
    program_free(&p);
    json_document_free(&d);
    return st;
}

/* ---- writing */

static void program_json_put_op(struct json_writer *w, const struct program *p, uint32_t r,
                                size_t i)
{
    const struct program_op *o = &p->op[i];
    json_open_object(w, NULL, true);
    json_rows_write(w, op_rows, o);
    json_open_array(w, "after", true);
    for (uint32_t d = o->dep_start; d < o[1].dep_start; d++)
        json_put_integer(w, NULL, (int64_t)(p->dep[d] - p->op_start[r]));
    json_close(w);
    json_close(w);
}

static void put_ids(struct json_writer *w, const char *key, const uint32_t *id, size_t n)
{
    json_open_array(w, key, true);
    for (size_t i = 0; i < n; i++)
        json_put_integer(w, NULL, id[i]);
    json_close(w);
}

static void program_json_put_stage(struct json_writer *w, const struct program *p, size_t s)
{
    const struct program_stage *stage = &p->stage[s];
    json_open_object(w, NULL, true);
    put_ids(w, "ops", p->stage_op + p->stage_start[s], p->stage_start[s + 1] - p->stage_start[s]);
    json_rows_write(w, stage_rows, stage);
    json_open_array(w, "buckets", true);
    for (size_t b = stage->bucket; b < stage->bucket + stage->buckets; b++) {
        json_open_object(w, NULL, true);
        json_rows_write(w, bucket_rows, &p->bucket[b]);
        json_close(w);
    }
    json_close(w);
    json_close(w);
}

static void program_json_put_rank(struct json_writer *w, const struct program *p, uint32_t r)
{
    json_open_object(w, NULL, false);
    json_rows_write(w, rank_rows, &p->rank[r]);
    json_open_array(w, "ops", false);
    for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++)
        program_json_put_op(w, p, r, i);
    json_close(w);
    json_close(w);
}

enum status program_write(const struct program *p, const char *path, const struct provenance *by)
{
    enum status st;
    struct file_out f = {0};
    if (p->folded)
        return error_set(STATUS_UNSUPPORTED, "a folded program (one rank stands for several equal "
                                             "ones) cannot be written to a file");
    TRY(file_create(path, &f));
    struct json_writer w = {.stream = f.stream};
    json_put_header(&w, program_format, p->captured ? PROGRAM_VERSION : PROGRAM_PLANNED, by);
    json_rows_write(&w, head_rows, p);
    if (p->number_bytes > 0 && p->number_bytes != 4)
        json_put_integer(&w, "number_bytes", p->number_bytes);
    if (p->reduce_bytes > 0 && p->reduce_bytes != 4)
        json_put_integer(&w, "reduce_bytes", p->reduce_bytes);
    json_open_array(&w, "stages", false);
    for (size_t s = 0; s < p->stages; s++)
        program_json_put_stage(&w, p, s);
    json_close(&w);
    operators_put(&w, &p->operators);
    json_open_array(&w, "groups", false);
    for (size_t g = 0; g < p->groups; g++)
        put_ids(&w, NULL, p->member + p->group_start[g], p->group_start[g + 1] - p->group_start[g]);
    json_close(&w);
    json_open_array(&w, "ranks", false);
    for (uint32_t r = 0; r < p->ranks; r++)
        program_json_put_rank(&w, p, r);
    json_close(&w);
    json_close(&w);
    TRY(file_commit(&f));
out:
    file_discard(&f);
    return st;
}
