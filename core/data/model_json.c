/* Models as JSON. */
#include "core/data/model.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/text.h"

static const char model_format[] = "foreline-model";
enum {
    MODEL_VERSION = 1,
    MAX_ATTRIBUTES = 64,
    MAX_EDGES = 16 * MODEL_MAX_OPS,
    MAX_PROFILES = 1024
};

static const char *const tensor_names[TENSOR_KINDS] = {
    [TENSOR_WHOLE] = "whole",
    [TENSOR_SPLIT] = "split",
    [TENSOR_COLUMN] = "column",
    [TENSOR_ROW] = "row",
};

/* ---- reading */

/* Attributes count as they are read, so that model_free() finds those that were. */
static enum status model_json_read_attributes(const struct json_at *op, void *into)
{
    struct model_op *o = into;
    struct json_at at;
    PASS(json_optional(op, "attributes", &at));
    if (!at.value)
        return STATUS_OK;
    size_t n = json_members(&at);
    if (n > MAX_ATTRIBUTES)
        return json_error(&at, "got %zu attributes, expected at most %d", n, MAX_ATTRIBUTES);
    PASS(ARRAY_NEW(o->attribute, n));
    for (struct json_at member = json_first(&at); member.key; member = json_next(&member)) {
        struct model_attribute *one = &o->attribute[o->attributes];
        PASS(json_get_integer(&member, INT64_MIN, INT64_MAX, &one->value));
        PASS(text_copy(member.key, &one->name));
        o->attributes++;
    }
    return STATUS_OK;
}

static void write_attributes(struct json_writer *w, const void *from)
{
    const struct model_op *o = from;
    if (o->attributes == 0)
        return;
    json_open_object(w, "attributes", true);
    for (size_t k = 0; k < o->attributes; k++)
        json_put_integer(w, o->attribute[k].name, o->attribute[k].value);
    json_close(w);
}

/* Fields before and after those that name other ops, "inputs" and "shares", as they are written. */
#define OP(member) JSON_MEMBER(struct model_op, member)
#define BYTES      .max = INT64_MAX / 65536
static const struct json_row kind_rows[] = {
    {"name", OP(name), FIELD_NEED},
    {"kind", OP(kind), FIELD_NEED},
    {"attributes", .read = model_json_read_attributes, .write = write_attributes},
    {0},
};
static const struct json_row work_rows[] = {
    {"forward_flop", OP(forward_flop)},
    {"backward_flop", OP(backward_flop)},
    {"forward_bytes", OP(forward_bytes)},
    {"backward_bytes", OP(backward_bytes)},
    {"parameter_bytes", OP(parameter_bytes), BYTES},
    {"sparse", OP(sparse), FIELD_SPARE},
    {"tensor", FIELD_CHOICE, offsetof(struct model_op, tensor), FIELD_SPARE, .name = tensor_names,
     .names = TENSOR_KINDS},
    {"dtype", FIELD_CHOICE, offsetof(struct model_op, dtype), FIELD_SPARE, .name = data_type_names,
     .names = DATA_TYPES},
    {"exchange_bytes", OP(exchange_bytes), FIELD_SPARE, BYTES},
    {"context_bytes", OP(context_bytes), FIELD_SPARE, BYTES},
    {0},
};
static const struct json_row shared_rows[] = {{"shared_bytes", OP(shared_bytes), BYTES}, {0}};
static const struct json_row kept_rows[] = {
    {"stash_bytes", OP(stash_bytes), BYTES},
    {"output_bytes", OP(output_bytes), BYTES},
    {0},
};
#undef BYTES
#undef OP

static enum status read_op(const struct json_at *at, struct model_op *o)
{
    o->shares = MODEL_NO_OP;
    PASS(json_check_keys(at, "inputs shares",
                         JSON_TABLES(kind_rows, work_rows, shared_rows, kept_rows)));
    PASS(json_rows_read(at, kind_rows, o));
    PASS(json_rows_read(at, work_rows, o));
    PASS(json_rows_read(at, shared_rows, o));
    return json_rows_read(at, kept_rows, o);
}

/* "inputs" of every op become edges; *edge is malloc'd. */
static enum status read_edges(const struct json_at *ops, const struct json_name *index, size_t n,
                              struct model_edge **edge, size_t *edges)
{
    for (size_t i = 0; i < n; i++) {
        struct json_at op = json_item(ops, i), inputs;
        size_t count = 0;
        PASS(json_optional(&op, "inputs", &inputs));
        if (inputs.value)
            PASS(json_get_array(&inputs, n, &count));
        if (*edges + count > MAX_EDGES)
            return json_error(&inputs, "model has more than %d edges", MAX_EDGES);
        for (size_t k = 0; k < count; k++) {
            struct json_at input = json_item(&inputs, k);
            PASS(ARRAY_ROOM(*edge, *edges));
            (*edge)[*edges].to = (uint32_t)i;
            PASS(json_get_name(&input, "op", index, n, &(*edge)[*edges].from));
            (*edges)++;
        }
    }
    return STATUS_OK;
}

/* One time for every op. */
static enum status read_times(const struct json_at *at, const struct model *m, double **out)
{
    size_t count;
    PASS(json_get_reals(at, 0, DBL_MAX, false, out, &count));
    return count == m->n
               ? STATUS_OK
               : json_error(at, "got times of %zu ops, expected %zu (one per op)", count, m->n);
}

/* One time for every layer (model_begins_layer()), in the order of the ops. */
static enum status read_layer_times(const struct json_at *at, const struct model *m, double **out)
{
    enum status st;
    double *layer = NULL;
    size_t count, layers = 0;
    for (size_t i = 0; i < m->n; i++)
        layers += model_begins_layer(m, i);
    TRY(json_get_reals(at, 0, DBL_MAX, false, &layer, &count));
    if (count != layers) {
        st = json_error(at, "got times of %zu layers, expected %zu (one per layer)", count, layers);
        goto out;
    }
    TRY(ARRAY_NEW(*out, m->n));
    for (size_t begin = 0, end, k = 0; begin < m->n; begin = end, k++) {
        for (end = begin + 1; end < m->n && !model_begins_layer(m, end);)
            end++;
        for (size_t i = begin; i < end; i++)
            (*out)[i] = layer[k] * model_layer_share(m, begin, end, i);
    }
out:
    free(layer);
    return st;
}

static const struct json_row profile_rows[] = {
    {"device", JSON_MEMBER(struct model_profile, device), FIELD_NEED},
    {"samples", JSON_MEMBER(struct model_profile, samples), FIELD_NEED, .min = DBL_MIN},
    {"tensor_parallel", JSON_MEMBER(struct model_profile, tensor_parallel), .min = 1, .max = 65536},
    {"tensor_sums", JSON_MEMBER(struct model_profile, sums), FIELD_SPARE},
    {0},
};

/* What a profile says of ops, or with "layers" of layers. */
static const struct profile_times {
    const char *key;
    size_t offset;
    bool optional;
} profile_times[] = {
    {"forward_s", offsetof(struct model_profile, forward_s), false},
    {"backward_s", offsetof(struct model_profile, backward_s), false},
    {"again_s", offsetof(struct model_profile, again_s), true},
    {"update_s", offsetof(struct model_profile, update_s), true},
};
enum { PROFILE_TIMES = sizeof profile_times / sizeof *profile_times };

static enum status model_json_read_profile(const struct json_at *item, const struct model *m,
                                           struct model_profile *p)
{
    bool layers = false;
    p->tensor_parallel = 1;
    PASS(json_check_keys(item, "layers forward_s backward_s again_s update_s",
                         JSON_TABLES(profile_rows)));
    PASS(json_rows_read(item, profile_rows, p));
    PASS(json_may_bool(item, "layers", &layers));
    for (size_t k = 0; k < PROFILE_TIMES; k++) {
        const struct profile_times *row = &profile_times[k];
        struct json_at at;
        PASS((row->optional ? json_optional : json_field)(item, row->key, &at));
        if (at.value)
            PASS((layers ? read_layer_times
                         : read_times)(&at, m, (double **)(void *)((char *)p + row->offset)));
    }
    return STATUS_OK;
}

/* A profile counts as it is begun, so that model_free() finds what it holds. */
static enum status read_profiles(const struct json_at *root, struct model *m)
{
    struct json_at at;
    size_t n = 0;
    PASS(json_optional(root, "profiles", &at));
    if (!at.value)
        return STATUS_OK;
    PASS(json_get_array(&at, MAX_PROFILES, &n));
    PASS(ARRAY_NEW(m->profile, n));
    for (size_t k = 0; k < n; k++) {
        struct model_profile *p = &m->profile[m->profiles++];
        struct json_at item = json_item(&at, k);
        PASS(model_json_read_profile(&item, m, p));
    }
    return STATUS_OK;
}

static const struct json_row head_rows[] = {
    {"name", JSON_MEMBER(struct model, name), FIELD_NEED},
    {"note", JSON_MEMBER(struct model, note), FIELD_SPARE},
    {"tokens_per_sample", JSON_MEMBER(struct model, tokens_per_sample)},
    {"dtype", FIELD_CHOICE, offsetof(struct model, dtype), FIELD_SPARE, .name = data_type_names,
     .names = DATA_TYPES},
    {"element_bytes", JSON_MEMBER(struct model, element_bytes), .min = 1, .max = 8},
    {0},
};

static enum status model_json_read_ops(const struct json_at *ops, size_t n, struct model *m)
{
    PASS(ARRAY_NEW(m->op, n));
    m->n = n;
    for (size_t i = 0; i < n; i++) {
        struct json_at item = json_item(ops, i);
        PASS(read_op(&item, &m->op[i]));
    }
    return STATUS_OK;
}

/* Owners of shared parameters, which may stand anywhere in the file: hence a second pass. */
static enum status read_shares(const struct json_at *ops, const struct json_name *index,
                               struct model *m)
{
    for (size_t i = 0; i < m->n; i++) {
        struct json_at item = json_item(ops, i), owner;
        PASS(json_optional(&item, "shares", &owner));
        if (owner.value)
            PASS(json_get_name(&owner, "op", index, m->n, &m->op[i].shares));
    }
    return STATUS_OK;
}

/* Steps: (1) ops with all fields but names of other ops; (2) an index of their names; (3) owners
 * of shared parameters and edges by that index; (4) profiles; (5) topological order and the
 * contract of models, in model_finish(). */
static enum status model_json_parse(const struct json_document *d, struct model *m)
{
    enum status st;
    struct json_at root = json_root(d), ops;
    struct json_name *index = NULL;
    struct model_edge *edge = NULL;
    size_t edges = 0, n = 0;

    m->element_bytes = 4;
    TRY(json_check_keys(&root, "parameters active_parameters forward_flop_per_token ops profiles",
                        JSON_TABLES(head_rows)));
    TRY(json_rows_read(&root, head_rows, m));
    TRY(json_field(&root, "ops", &ops));
    TRY(json_get_array(&ops, MODEL_MAX_OPS, &n));
    TRY(model_json_read_ops(&ops, n, m));
    TRY(ARRAY_NEW(index, n));
    for (size_t i = 0; i < n; i++)
        index[i] = (struct json_name){m->op[i].name, (uint32_t)i};
    json_names_sort(index, n);
    TRY(read_shares(&ops, index, m));
    TRY(read_edges(&ops, index, n, &edge, &edges));
    TRY(read_profiles(&root, m));
    TRY(model_finish(m, edge, edges, d->path));
out:
    free(index);
    free(edge);
    return st;
}

enum status model_from_json(const struct json_document *d, struct model *out)
{
    enum status st;
    struct model m = {0};

    TRY(json_check_format(d, model_format, MODEL_VERSION));
    TRY(model_json_parse(d, &m));
    MOVE(out, m);
out:
    model_free(&m);
    return st;
}

enum status model_read(const char *path, struct model *out)
{
    enum status st;
    struct json_document d = {0};

    TRY(json_read(path, NULL, 0, &d));
    TRY(model_from_json(&d, out));
out:
    json_document_free(&d);
    return st;
}

/* ---- writing */

/* Fields in the order of the format: names, inputs, work, sharing, memory. */
static void model_json_put_op(struct json_writer *w, const struct model *m, size_t i)
{
    const struct model_op *o = &m->op[i];
    json_open_object(w, NULL, true);
    json_rows_write(w, kind_rows, o);
    json_open_array(w, "inputs", true);
    for (size_t k = m->in_start[i]; k < m->in_start[i + 1]; k++)
        json_put_string(w, NULL, m->op[m->in[k]].name);
    json_close(w);
    json_rows_write(w, work_rows, o);
    if (o->shares != MODEL_NO_OP) {
        json_put_string(w, "shares", m->op[o->shares].name);
        json_rows_write(w, shared_rows, o);
    }
    json_rows_write(w, kept_rows, o);
    json_close(w);
}

/* Totals for readers; model_read() passes them over. */
static void put_totals(struct json_writer *w, const struct model *m)
{
    double flop = 0;
    for (size_t i = 0; i < m->n; i++)
        flop += m->op[i].forward_flop;
    json_put_integer(w, "parameters", model_parameters(m));
    json_put_integer(w, "active_parameters", model_active_parameters(m));
    if (m->tokens_per_sample > 0)
        json_put_real(w, "forward_flop_per_token", flop / m->tokens_per_sample);
}

enum status model_write(const struct model *m, const char *path, const struct provenance *p)
{
    enum status st;
    struct file_out f = {0};

    TRY(file_create(path, &f));
    struct json_writer w = {.stream = f.stream};
    json_put_header(&w, model_format, MODEL_VERSION, p);
    const char *slash = *m->name == '/' ? strrchr(m->name, '/') : NULL; /* an imported file */
    struct model head = *m;
    head.name = slash ? (char *)slash + 1 : m->name;
    json_rows_write(&w, head_rows, &head);
    put_totals(&w, m);
    json_open_array(&w, "ops", false);
    for (size_t i = 0; i < m->n; i++)
        model_json_put_op(&w, m, i);
    json_close(&w);
    json_open_array(&w, "profiles", false);
    for (size_t k = 0; k < m->profiles; k++) {
        const struct model_profile *q = &m->profile[k];
        json_open_object(&w, NULL, false);
        json_rows_write(&w, profile_rows, q);
        for (size_t i = 0; i < PROFILE_TIMES; i++) {
            const char *at = (const char *)q + profile_times[i].offset;
            const double *time_s = *(double *const *)(const void *)at;
            if (time_s)
                json_put_reals(&w, profile_times[i].key, time_s, m->n);
        }
        json_close(&w);
    }
    json_close(&w);
    json_close(&w);
    TRY(file_commit(&f));
out:
    file_discard(&f);
    return st;
}
