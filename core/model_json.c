#include "core/model.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/json.h"

static const char model_format[] = "foreline-model";
enum {
    MODEL_VERSION = 1,
    MAX_ATTRIBUTES = 64,
    MAX_EDGES = 16 * MODEL_MAX_OPS,
    MAX_PROFILES = 1024
};
static const int64_t max_bytes = INT64_MAX / 65536;

static const char *const tensor_names[TENSOR_KINDS] = {
    [TENSOR_WHOLE] = "whole",
    [TENSOR_SPLIT] = "split",
    [TENSOR_COLUMN] = "column",
    [TENSOR_ROW] = "row",
};

/* ---- reading */

static enum status read_attributes(const struct json_at *op, struct model_op *o)
{
    enum status st;
    struct json_at at;
    TRY(json_optional(op, "attributes", &at));
    if (!at.value)
        goto out;
    size_t n = json_members(&at);
    if (n > MAX_ATTRIBUTES)
        return json_error(&at, "%zu attributes, at most %d are allowed", n, MAX_ATTRIBUTES);
    o->attribute = calloc(n + 1, sizeof *o->attribute);
    if (!o->attribute)
        return error_set(STATUS_NOMEM, "out of memory");
    for (size_t k = 0; k < n; k++) {
        struct json_at member = json_member(&at, k);
        size_t length = strlen(member.key) + 1;
        TRY(json_get_integer(&member, INT64_MIN, INT64_MAX, &o->attribute[k].value));
        if (!(o->attribute[k].name = malloc(length)))
            return error_set(STATUS_NOMEM, "out of memory");
        memcpy(o->attribute[k].name, member.key, length);
        o->attributes++;
    }
out:
    return st;
}

static enum status read_op(const struct json_at *at, struct model_op *o, char **shares)
{
    enum status st;
    size_t tensor = TENSOR_WHOLE;
    o->shares = MODEL_NO_OP;
    TRY(json_need_text(at, "name", &o->name));
    TRY(json_need_text(at, "kind", &o->kind));
    TRY(read_attributes(at, o));
    TRY(json_may_real(at, "forward_flop", 0, DBL_MAX, &o->forward_flop));
    TRY(json_may_real(at, "backward_flop", 0, DBL_MAX, &o->backward_flop));
    TRY(json_may_real(at, "forward_bytes", 0, DBL_MAX, &o->forward_bytes));
    TRY(json_may_real(at, "backward_bytes", 0, DBL_MAX, &o->backward_bytes));
    TRY(json_may_integer(at, "parameter_bytes", 0, max_bytes, &o->parameter_bytes));
    TRY(json_may_integer(at, "shared_bytes", 0, max_bytes, &o->shared_bytes));
    TRY(json_may_integer(at, "stash_bytes", 0, max_bytes, &o->stash_bytes));
    TRY(json_may_integer(at, "output_bytes", 0, max_bytes, &o->output_bytes));
    TRY(json_may_bool(at, "sparse", &o->sparse));
    TRY(json_may_choice(at, "tensor", tensor_names, TENSOR_KINDS, &tensor));
    o->tensor = (enum model_tensor)tensor;
    TRY(json_may_integer(at, "exchange_bytes", 0, max_bytes, &o->exchange_bytes));
    TRY(json_may_text(at, "shares", shares));
out:
    return st;
}

struct named {
    const char *name;
    uint32_t op;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static enum status find_op(const struct named *index, size_t n, const struct json_at *at,
                           uint32_t *op)
{
    struct named key = {0};
    enum status st = json_get_string(at, &key.name);
    if (st != STATUS_OK)
        return st;
    const struct named *found = bsearch(&key, index, n, sizeof *index, by_name);
    if (!found)
        return json_error(at, "no op is called '%.100s'", key.name);
    *op = found->op;
    return STATUS_OK;
}

/* "inputs" of every op become edges; *edge is malloc'd. */
static enum status read_edges(const struct json_at *ops, const struct named *index, size_t n,
                              struct model_edge **edge, size_t *edges)
{
    enum status st = STATUS_OK;
    size_t room = 0;
    for (size_t i = 0; i < n; i++) {
        struct json_at op = json_item(ops, i), inputs;
        size_t count = 0;
        TRY(json_optional(&op, "inputs", &inputs));
        if (inputs.value)
            TRY(json_get_array(&inputs, n, &count));
        if (*edges + count > room) {
            if (*edges + count > MAX_EDGES)
                return json_error(&inputs, "more than %d edges", MAX_EDGES);
            room = 2 * (*edges + count);
            struct model_edge *larger = realloc(*edge, room * sizeof *larger);
            if (!larger)
                return error_set(STATUS_NOMEM, "out of memory");
            *edge = larger;
        }
        for (size_t k = 0; k < count; k++) {
            struct json_at input = json_item(&inputs, k);
            (*edge)[*edges].to = (uint32_t)i;
            TRY(find_op(index, n, &input, &(*edge)[*edges].from));
            (*edges)++;
        }
    }
out:
    return st;
}

static enum status read_times(const struct json_at *profile, const char *key, size_t n,
                              bool optional, double **out)
{
    enum status st;
    struct json_at at;
    size_t count;
    TRY(optional ? json_optional(profile, key, &at) : json_field(profile, key, &at));
    if (!at.value)
        goto out;
    TRY(json_get_array(&at, MODEL_MAX_OPS, &count));
    if (count != n)
        return json_error(&at, "%zu times for %zu ops", count, n);
    if (!(*out = calloc(n, sizeof **out)))
        return error_set(STATUS_NOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        struct json_at item = json_item(&at, i);
        TRY(json_get_real(&item, 0, DBL_MAX, &(*out)[i]));
    }
out:
    return st;
}

static enum status read_profiles(const struct json_at *root, struct model *m)
{
    enum status st;
    struct json_at at;
    size_t n = 0;
    TRY(json_optional(root, "profiles", &at));
    if (!at.value)
        goto out;
    TRY(json_get_array(&at, MAX_PROFILES, &n));
    if (!(m->profile = calloc(n + 1, sizeof *m->profile)))
        return error_set(STATUS_NOMEM, "out of memory");
    for (size_t k = 0; k < n; k++) {
        struct model_profile *p = &m->profile[m->profiles++];
        struct json_at item = json_item(&at, k);
        int64_t degree = 1;
        TRY(json_need_text(&item, "device", &p->device));
        TRY(json_need_real(&item, "samples", DBL_MIN, DBL_MAX, &p->samples));
        TRY(json_may_integer(&item, "tensor_parallel", 1, 65536, &degree));
        p->tensor_parallel = (uint32_t)degree;
        TRY(read_times(&item, "forward_s", m->n, false, &p->forward_s));
        TRY(read_times(&item, "backward_s", m->n, false, &p->backward_s));
        TRY(read_times(&item, "update_s", m->n, true, &p->update_s));
    }
out:
    return st;
}

static enum status read_head(const struct json_at *root, struct model *m)
{
    enum status st;
    m->element_bytes = 4;
    TRY(json_need_text(root, "name", &m->name));
    TRY(json_may_text(root, "note", &m->note));
    TRY(json_may_real(root, "tokens_per_sample", 0, DBL_MAX, &m->tokens_per_sample));
    TRY(json_may_integer(root, "element_bytes", 1, 8, &m->element_bytes));
out:
    return st;
}

/* The ops themselves; names of owners of shared parameters go to shares[]. */
static enum status read_ops(const struct json_at *ops, struct model *m, char **shares)
{
    enum status st = STATUS_OK;
    for (size_t i = 0; i < m->n; i++)
        m->op[i].shares = MODEL_NO_OP;
    for (size_t i = 0; i < m->n; i++) {
        struct json_at item = json_item(ops, i);
        TRY(read_op(&item, &m->op[i], &shares[i]));
    }
out:
    return st;
}

static enum status parse(const struct json_document *d, struct model *m)
{
    enum status st;
    struct json_at root = json_root(d), ops;
    struct named *index = NULL;
    struct model_edge *edge = NULL;
    char **shares = NULL;
    size_t edges = 0, n = 0;

    TRY(read_head(&root, m));
    TRY(json_field(&root, "ops", &ops));
    TRY(json_get_array(&ops, MODEL_MAX_OPS, &n));
    m->op = calloc(n + 1, sizeof *m->op);
    shares = calloc(n + 1, sizeof *shares);
    index = calloc(n + 1, sizeof *index);
    if (!m->op || !shares || !index) {
        st = error_set(STATUS_NOMEM, "%s: out of memory", d->path);
        goto out;
    }
    m->n = n;
    TRY(read_ops(&ops, m, shares));
    for (size_t i = 0; i < n; i++)
        index[i] = (struct named){m->op[i].name, (uint32_t)i};
    qsort(index, n, sizeof *index, by_name);
    for (size_t i = 0; i < n; i++) {
        struct json_at item = json_item(&ops, i), field;
        if (shares[i]) {
            TRY(json_field(&item, "shares", &field));
            TRY(find_op(index, n, &field, &m->op[i].shares));
        }
    }
    TRY(read_edges(&ops, index, n, &edge, &edges));
    TRY(read_profiles(&root, m));
    TRY(model_finish(m, edge, edges, d->path));
out:
    for (size_t i = 0; shares && i < n; i++)
        free(shares[i]);
    free(shares);
    free(index);
    free(edge);
    return st;
}

enum status model_from_json(const struct json_document *d, struct model *out)
{
    enum status st;
    struct model m = {0};

    TRY(json_check_format(d, model_format, MODEL_VERSION));
    TRY(parse(d, &m));
    *out = m;
    m = (struct model){0};
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

static void put_op(struct json_writer *w, const struct model *m, size_t i)
{
    const struct model_op *o = &m->op[i];
    json_open_object(w, NULL, true);
    json_put_string(w, "name", o->name);
    json_put_string(w, "kind", o->kind);
    if (o->attributes > 0) {
        json_open_object(w, "attributes", true);
        for (size_t k = 0; k < o->attributes; k++)
            json_put_integer(w, o->attribute[k].name, o->attribute[k].value);
        json_close(w);
    }
    json_open_array(w, "inputs", true);
    for (size_t k = m->in_start[i]; k < m->in_start[i + 1]; k++)
        json_put_string(w, NULL, m->op[m->in[k]].name);
    json_close(w);
    json_put_real(w, "forward_flop", o->forward_flop);
    json_put_real(w, "backward_flop", o->backward_flop);
    json_put_real(w, "forward_bytes", o->forward_bytes);
    json_put_real(w, "backward_bytes", o->backward_bytes);
    json_put_integer(w, "parameter_bytes", o->parameter_bytes);
    if (o->sparse)
        json_put_bool(w, "sparse", true);
    if (o->tensor != TENSOR_WHOLE)
        json_put_string(w, "tensor", tensor_names[o->tensor]);
    if (o->exchange_bytes > 0)
        json_put_integer(w, "exchange_bytes", o->exchange_bytes);
    if (o->shares != MODEL_NO_OP) {
        json_put_string(w, "shares", m->op[o->shares].name);
        json_put_integer(w, "shared_bytes", o->shared_bytes);
    }
    json_put_integer(w, "stash_bytes", o->stash_bytes);
    json_put_integer(w, "output_bytes", o->output_bytes);
    json_close(w);
}

static void put_times(struct json_writer *w, const char *key, const double *time_s, size_t n)
{
    if (!time_s)
        return;
    json_open_array(w, key, true);
    for (size_t i = 0; i < n; i++)
        json_put_real(w, NULL, time_s[i]);
    json_close(w);
}

enum status model_write(const struct model *m, const char *path, const struct provenance *p)
{
    enum status st;
    struct file_out f = {0};

    TRY(file_create(path, &f));
    struct json_writer w = {.stream = f.stream};
    json_put_header(&w, model_format, MODEL_VERSION, p);
    const char *slash = *m->name == '/' ? strrchr(m->name, '/') : NULL; /* an imported file */
    json_put_string(&w, "name", slash ? slash + 1 : m->name);
    if (m->note)
        json_put_string(&w, "note", m->note);
    json_put_real(&w, "tokens_per_sample", m->tokens_per_sample);
    json_put_integer(&w, "element_bytes", m->element_bytes);
    json_open_array(&w, "ops", false);
    for (size_t i = 0; i < m->n; i++)
        put_op(&w, m, i);
    json_close(&w);
    json_open_array(&w, "profiles", false);
    for (size_t k = 0; k < m->profiles; k++) {
        const struct model_profile *q = &m->profile[k];
        json_open_object(&w, NULL, false);
        json_put_string(&w, "device", q->device);
        json_put_real(&w, "samples", q->samples);
        json_put_integer(&w, "tensor_parallel", q->tensor_parallel);
        put_times(&w, "forward_s", q->forward_s, m->n);
        put_times(&w, "backward_s", q->backward_s, m->n);
        put_times(&w, "update_s", q->update_s, m->n);
        json_close(&w);
    }
    json_close(&w);
    json_close(&w);
    TRY(file_commit(&f));
out:
    file_discard(&f);
    return st;
}
