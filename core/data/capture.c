/* Captures from their folders: docs/how-to/capture.md has the keys. */
#include "core/data/capture.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/json.h"
#include "core/base/path.h"
#include "core/data/program.h"

static const char capture_format[] = "foreline-capture", class_format[] = "foreline-capture-class";
enum {
    CAPTURE_VERSION = 1,
    CAPTURE_RANKS = 1 << 16,
    CAPTURE_GROUPS = 1 << 18,
    CAPTURE_MEMBERS = 1 << 24, /* of all groups together */
    CAPTURE_OPS = 1 << 22,     /* of a class */
    CAPTURE_MODULES = 1 << 18,
    CAPTURE_AFTER = 1 << 12, /* of one op */
    CAPTURE_FOLDER = 4096
};

static const char *const kernel_names[CAPTURE_KERNELS] = {"pass", "product", "attention"};

/* Names of entries; collectives by those of programs. */
static const struct {
    const char *name;
    enum capture_kind kind;
    enum op_kind op_kind;
} capture_words[] = {
    {"compute", CAPTURE_COMPUTE, OP_COMPUTE},
    {"wait", CAPTURE_WAIT, OP_KINDS},
    {"send", CAPTURE_SEND, OP_SEND},
    {"recv", CAPTURE_RECV, OP_RECV},
    {"allreduce", CAPTURE_COLLECTIVE, OP_ALLREDUCE},
    {"allgather", CAPTURE_COLLECTIVE, OP_ALLGATHER},
    {"reducescatter", CAPTURE_COLLECTIVE, OP_REDUCESCATTER},
    {"alltoall", CAPTURE_COLLECTIVE, OP_ALLTOALL},
    {"broadcast", CAPTURE_COLLECTIVE, OP_BROADCAST},
    {"reduce", CAPTURE_COLLECTIVE, OP_REDUCE},
    {"gather", CAPTURE_COLLECTIVE, OP_GATHER},
    {"scatter", CAPTURE_COLLECTIVE, OP_SCATTER},
};
enum { CAPTURE_WORDS = sizeof capture_words / sizeof *capture_words };

#define BYTES .max = INT64_MAX / 65536 /* sums of them still fit */
#define INDEX FIELD_SPARE, .max = UINT32_MAX - 1

#define OPERATION(member) JSON_MEMBER(struct capture_operator, member)
static const struct json_row operator_rows[] = {
    {"op", OPERATION(name), FIELD_NEED},
    {"key", OPERATION(key), FIELD_NEED},
    {"kernel", FIELD_CHOICE, offsetof(struct capture_operator, kernel), FIELD_NEED,
     .name = kernel_names, .names = CAPTURE_KERNELS},
    {"type", FIELD_CHOICE, offsetof(struct capture_operator, type), FIELD_SPARE,
     .name = data_type_names, .names = DATA_TYPES},
    {"dims", FIELD_REALS, offsetof(struct capture_operator, dims), FIELD_SPARE, .max = 1e15,
     .count = offsetof(struct capture_operator, n_dims)},
    {"times", OPERATION(times), FIELD_SPARE, .max = 1e6},
    {"flop", OPERATION(flop), FIELD_NEED, .max = 1e24},
    {"bytes", OPERATION(bytes), FIELD_NEED, BYTES},
    {"backward", OPERATION(backward), FIELD_SPARE},
    {0},
};
#undef OPERATION

static enum status capture_read_word(const struct json_at *at, void *into)
{
    struct capture_op *o = into;
    struct json_at field;
    const char *word;
    PASS(json_field(at, "op", &field));
    PASS(json_get_string(&field, &word));
    for (size_t k = 0; k < CAPTURE_WORDS; k++)
        if (!strcmp(capture_words[k].name, word)) {
            o->kind = (uint8_t)capture_words[k].kind;
            o->op_kind = (uint8_t)capture_words[k].op_kind;
            return STATUS_OK;
        }
    return json_error(&field, "unknown op '%.40s'", word);
}

static enum status capture_read_words(const struct json_at *at, void *into)
{
    struct capture_op *o = into;
    size_t phase = IN_FORWARD, reduction = REDUCTION_SUM;
    PASS(json_may_choice(at, "phase", op_phase_names, OP_PHASES, &phase));
    PASS(json_may_choice(at, "reduction", op_reduction_names, REDUCTIONS, &reduction));
    o->phase = (uint8_t)phase;
    o->reduction = (uint8_t)reduction;
    return STATUS_OK;
}

static enum status capture_read_seconds(const struct json_at *at, void *into)
{
    struct capture_op *o = into;
    struct json_at field;
    PASS(json_optional(at, "seconds", &field));
    o->timed = field.value != NULL;
    return o->timed ? json_get_real(&field, 0, 1e6, &o->seconds) : STATUS_OK;
}

static enum status capture_read_after(const struct json_at *at, void *into)
{
    struct capture_op *o = into;
    struct json_at field;
    size_t n;
    PASS(json_optional(at, "after", &field));
    if (!field.value)
        return STATUS_OK;
    PASS(json_get_array(&field, CAPTURE_AFTER, &n));
    PASS(ARRAY_NEW(o->after, n));
    for (; o->afters < n; o->afters++) {
        struct json_at item = json_item(&field, o->afters);
        int64_t id;
        PASS(json_get_integer(&item, 0, UINT32_MAX - 1, &id));
        o->after[o->afters] = (uint32_t)id;
    }
    return STATUS_OK;
}

#define OP(member) JSON_MEMBER(struct capture_op, member)
static const struct json_row capture_op_rows[] = {
    {"op", .read = capture_read_word},
    {"phase", .read = capture_read_words, .also = "reduction type"},
    {"seconds", .read = capture_read_seconds},
    {"after", .read = capture_read_after},
    {"operator", OP(operation), INDEX},
    {"module", OP(module), INDEX},
    {"id", OP(id), INDEX},
    {"group", OP(group), INDEX},
    {"distance", OP(distance), INDEX},
    {"tag", OP(tag), FIELD_SPARE},
    {"calls", OP(calls), FIELD_SPARE, .min = 1, .max = 1 << 20},
    {"bytes", OP(bytes), FIELD_SPARE, BYTES},
    {"held", OP(bytes), FIELD_SPARE, BYTES},
    {0},
};
#undef OP

#define CLASS(member) JSON_MEMBER(struct capture_class, member)
static const struct json_row class_rows[] = {
    {"steps", CLASS(steps), FIELD_NEED, .min = 1, .max = 1 << 20},
    {"weight_bytes", CLASS(weight_bytes), FIELD_NEED, BYTES},
    {"gradient_bytes", CLASS(gradient_bytes), FIELD_NEED, BYTES},
    {"state_bytes", CLASS(state_bytes), FIELD_NEED, BYTES},
    {"peak_bytes", CLASS(peak_bytes), FIELD_NEED, BYTES},
    {"dry_s", FIELD_REALS, offsetof(struct capture_class, dry_s), FIELD_SPARE, .max = 1e9,
     .count = offsetof(struct capture_class, dry)},
    {0},
};
#undef CLASS
#undef BYTES
#undef INDEX

/* ---- a class */

static enum status capture_read_operators(const struct json_at *root, struct capture_class *c)
{
    struct json_at at;
    size_t n;
    PASS(json_field(root, "operators", &at));
    PASS(json_get_array(&at, CAPTURE_OPS, &n));
    PASS(ARRAY_NEW(c->operation, n));
    for (; c->operators < n; c->operators++) {
        struct json_at item = json_item(&at, c->operators);
        struct capture_operator *o = &c->operation[c->operators];
        o->times = 1;
        PASS(json_check_keys(&item, "call limits", JSON_TABLES(operator_rows)));
        enum status st = json_rows_read(&item, operator_rows, o);
        if (st == STATUS_OK && o->kernel != CAPTURE_PASS && o->n_dims != CAPTURE_DIMENSIONS)
            st = json_error(&item,
                            "operator with kernel '%s': key 'dims' must have exactly %d dimensions",
                            kernel_names[o->kernel], CAPTURE_DIMENSIONS);
        if (st != STATUS_OK) {
            json_rows_free(operator_rows, o);
            return st;
        }
    }
    return STATUS_OK;
}

static enum status capture_read_modules(const struct json_at *root, struct capture_class *c)
{
    struct json_at at;
    size_t n;
    PASS(json_field(root, "modules", &at));
    PASS(json_get_array(&at, CAPTURE_MODULES, &n));
    PASS(ARRAY_NEW(c->module, n));
    for (; c->modules < n; c->modules++) {
        struct json_at item = json_item(&at, c->modules);
        PASS(json_get_copy(&item, &c->module[c->modules]));
    }
    return STATUS_OK;
}

/* Indices are within what they are into; ids count up, and waits are for what has been issued. */
static enum status capture_check_op(const struct capture_class *c, const struct capture_op *o,
                                    const struct json_at *at, uint32_t *issued)
{
    if (o->kind == CAPTURE_COMPUTE && (o->operation >= c->operators || o->module >= c->modules))
        return json_error(at, "got operator %u and module %u, expected less than %zu and %zu",
                          o->operation, o->module, c->operators, c->modules);
    if (o->kind == CAPTURE_COMPUTE)
        return STATUS_OK;
    if (o->kind == CAPTURE_WAIT)
        return o->id < *issued
                   ? STATUS_OK
                   : json_error(
                         at,
                         "op waits for communication %u, which no earlier op of the rank starts",
                         o->id);
    for (size_t k = 0; k < o->afters; k++)
        if (o->after[k] >= *issued)
            return json_error(
                at, "op must start after communication %u, which no earlier op of the rank starts",
                o->after[k]);
    if (o->id != (*issued)++)
        return json_error(at, "got id %u, expected %u", o->id, *issued - 1);
    return STATUS_OK;
}

static enum status capture_read_period(const struct json_at *root, struct capture_class *c)
{
    struct json_at at;
    size_t n;
    uint32_t issued = 0;
    PASS(json_field(root, "ops", &at));
    PASS(json_get_array(&at, CAPTURE_OPS, &n));
    PASS(ARRAY_NEW(c->op, n));
    for (; c->ops < n; c->ops++) {
        struct json_at item = json_item(&at, c->ops);
        PASS(json_check_keys(&item, "", JSON_TABLES(capture_op_rows)));
        enum status st = json_rows_read(&item, capture_op_rows, &c->op[c->ops]);
        if (st == STATUS_OK)
            st = capture_check_op(c, &c->op[c->ops], &item, &issued);
        if (st != STATUS_OK) {
            free(c->op[c->ops].after);
            return st;
        }
    }
    if (c->dry > 0 && c->dry != (size_t)issued + 1)
        return json_error(
            root,
            "dry_s: got a list of %zu times, expected %u (one per communication and a last one)",
            c->dry, issued + 1);
    return STATUS_OK;
}

enum status capture_get_class(const struct json_at *root, struct capture_class *c)
{
    PASS(json_check_keys(root, "rank torch modules operators ops", JSON_TABLES(class_rows)));
    PASS(json_rows_read(root, class_rows, c));
    PASS(capture_read_modules(root, c));
    PASS(capture_read_operators(root, c));
    return capture_read_period(root, c);
}

static enum status capture_read_class(const char *folder, struct capture_class *c)
{
    enum status st;
    char path[CAPTURE_FOLDER];
    struct json_document d = {0};
    snprintf(path, sizeof path, "%s/%s", folder, c->file);
    TRY(json_read(path, class_format, CAPTURE_VERSION, &d));
    struct json_at root = json_root(&d);
    TRY(capture_get_class(&root, c));
out:
    json_document_free(&d);
    return st;
}

/* ---- the whole */

/* Ranks in any order, appended to (*id)[*n]. */
static enum status capture_read_ranks(const struct json_at *at, size_t ranks, uint32_t **id,
                                      size_t *n)
{
    size_t count;
    PASS(json_get_array(at, ranks, &count));
    if (count == 0)
        return json_error(at, "list of ranks is empty, expected at least one rank");
    if (*n + count > CAPTURE_MEMBERS)
        return json_error(at,
                          "the process groups of the capture have more than %d members in total",
                          CAPTURE_MEMBERS);
    for (size_t k = 0; k < count; k++) {
        struct json_at item = json_item(at, k);
        int64_t value;
        PASS(json_get_integer(&item, 0, (int64_t)ranks - 1, &value));
        PASS(ARRAY_ROOM(*id, *n));
        (*id)[(*n)++] = (uint32_t)value;
    }
    return STATUS_OK;
}

static enum status capture_read_groups(const struct json_at *root, struct capture *c)
{
    struct json_at at;
    size_t n, members = 0;
    PASS(json_field(root, "groups", &at));
    PASS(json_get_array(&at, CAPTURE_GROUPS, &n));
    PASS(ARRAY_NEW(c->group_start, n + 1));
    for (; c->groups < n; c->groups++) {
        struct json_at item = json_item(&at, c->groups);
        PASS(capture_read_ranks(&item, c->ranks, &c->member, &members));
        c->group_start[c->groups + 1] = members;
    }
    return STATUS_OK;
}

/* Which ranks are of a class: none of another. */
static enum status capture_place_class(const struct json_at *at, struct capture *c, size_t k)
{
    struct capture_class *class = &c->class[k];
    struct json_at ranks;
    PASS(json_check_keys(at, "file captured ranks", JSON_TABLES(NULL)));
    PASS(json_need_text(at, "file", &class->file));
    if (!path_is_name(class->file))
        return json_error(
            at, "'%.40s' is not a file name, expected the name of a file in the capture folder",
            class->file);
    PASS(json_field(at, "ranks", &ranks));
    PASS(capture_read_ranks(&ranks, c->ranks, &class->rank, &class->ranks));
    for (size_t i = 0; i < class->ranks; i++) {
        uint32_t *of = &c->class_of[class->rank[i]];
        if (*of != PROGRAM_NONE)
            return json_error(
                at, "rank %u is in two classes (ranks that run the same ops), expected one",
                class->rank[i]);
        *of = (uint32_t)k;
    }
    return STATUS_OK;
}

static enum status capture_read_classes(const struct json_at *root, struct capture *c)
{
    struct json_at at;
    size_t n;
    PASS(json_field(root, "classes", &at));
    PASS(json_get_array(&at, c->ranks, &n));
    PASS(ARRAY_NEW(c->class, n));
    PASS(ARRAY_NEW(c->class_of, c->ranks));
    for (size_t r = 0; r < c->ranks; r++)
        c->class_of[r] = PROGRAM_NONE;
    for (; c->classes < n;) {
        struct json_at item = json_item(&at, c->classes++);
        PASS(capture_place_class(&item, c, c->classes - 1));
    }
    for (size_t r = 0; r < c->ranks; r++)
        if (c->class_of[r] == PROGRAM_NONE)
            return json_error(
                &at, "rank %zu is in no class (ranks that run the same ops), expected one", r);
    return STATUS_OK;
}

static enum status capture_read_devices(const struct json_at *root, struct capture *c)
{
    struct json_at at;
    size_t n;
    PASS(json_optional(root, "devices", &at));
    if (!at.value)
        return STATUS_OK;
    PASS(json_get_array(&at, c->ranks, &n));
    if (n != c->ranks)
        return json_error(&at, "got %zu devices, expected %zu (one per rank)", n, c->ranks);
    PASS(ARRAY_NEW(c->device_name, n));
    for (size_t r = 0; r < n; r++) {
        struct json_at item = json_item(&at, r);
        PASS(json_get_copy(&item, &c->device_name[r]));
    }
    return STATUS_OK;
}

enum status capture_get_head(const struct json_at *root, struct capture *c)
{
    int64_t ranks;
    PASS(json_check_keys(root,
                         "command torch device fake ideal world_size node groups classes notes "
                         "devices",
                         JSON_TABLES(NULL)));
    PASS(json_need_integer(root, "world_size", 1, CAPTURE_RANKS, &ranks));
    c->ranks = (size_t)ranks;
    PASS(json_need_text(root, "command", &c->command));
    PASS(json_need_text(root, "torch", &c->torch));
    PASS(json_need_text(root, "device", &c->device));
    PASS(json_may_bool(root, "fake", &c->fake));
    PASS(json_may_bool(root, "ideal", &c->ideal));
    PASS(capture_read_devices(root, c));
    PASS(capture_read_groups(root, c));
    return capture_read_classes(root, c);
}

static enum status capture_read_head(const char *path, struct capture *c)
{
    enum status st;
    struct json_document d = {0};
    TRY(json_read(path, capture_format, CAPTURE_VERSION, &d));
    struct json_at root = json_root(&d);
    TRY(capture_get_head(&root, c));
out:
    json_document_free(&d);
    return st;
}

static void capture_head(const char *folder, char path[CAPTURE_FOLDER])
{
    snprintf(path, CAPTURE_FOLDER, "%s/capture.json", folder);
}

bool capture_is(const char *folder)
{
    char path[CAPTURE_FOLDER];
    capture_head(folder, path);
    return access(path, F_OK) == 0;
}

enum status capture_read(const char *folder, struct capture *out)
{
    enum status st;
    char path[CAPTURE_FOLDER];
    struct capture c = {0};
    if (strlen(folder) + 256 > sizeof path)
        return error_set(STATUS_INVALID,
                         "path of the capture folder has %zu bytes, expected at most %d",
                         strlen(folder), CAPTURE_FOLDER - 256);
    capture_head(folder, path);
    TRY(capture_read_head(path, &c));
    for (size_t k = 0; k < c.classes; k++)
        TRY(capture_read_class(folder, &c.class[k]));
    MOVE(out, c);
out:
    capture_free(&c);
    return st;
}

void capture_free(struct capture *c)
{
    for (size_t k = 0; c->class && k < c->classes; k++) {
        struct capture_class *class = &c->class[k];
        for (size_t i = 0; i < class->operators; i++)
            json_rows_free(operator_rows, &class->operation[i]);
        for (size_t i = 0; class->module && i < class->modules; i++)
            free(class->module[i]);
        json_rows_free(class_rows, class);
        for (size_t i = 0; i < class->ops; i++)
            free(class->op[i].after);
        free(class->file);
        free(class->rank);
        free(class->operation);
        free(class->module);
        free(class->op);
    }
    for (size_t r = 0; c->device_name && r < c->ranks; r++)
        free(c->device_name[r]);
    free(c->device_name);
    free(c->class);
    free(c->class_of);
    free(c->command);
    free(c->torch);
    free(c->device);
    free(c->group_start);
    free(c->member);
    *c = (struct capture){0};
}
