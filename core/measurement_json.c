#include "core/measurement.h"

#include <float.h>
#include <stdlib.h>

#include "core/breakdown.h"
#include "core/file.h"
#include "core/json.h"
#include "core/path.h"

static const char measurement_format[] = "foreline-measurement";
enum { MEASUREMENT_VERSION = 1, MAX_ITEMS = 1 << 24 };

/* ---- reading */

/* An array of numbers >= 0; absent: none. */
static enum status read_reals(const struct json_at *object, const char *key, double **out,
                              size_t *out_n)
{
    enum status st;
    struct json_at at;
    size_t n = 0;
    double *value = NULL;
    TRY(json_optional(object, key, &at));
    if (!at.value)
        goto out;
    TRY(json_get_array(&at, MAX_ITEMS, &n));
    value = calloc(n + 1, sizeof *value);
    if (!value) {
        st = error_set(STATUS_NOMEM, "out of memory");
        goto out;
    }
    for (size_t i = 0; i < n; i++) {
        struct json_at item = json_item(&at, i);
        TRY(json_get_real(&item, 0, DBL_MAX, &value[i]));
    }
    *out = value;
    *out_n = n;
    value = NULL;
out:
    free(value);
    return st;
}

static enum status read_exposed(const struct json_at *rank, double *exposed_s)
{
    enum status st;
    struct json_at at;
    TRY(json_optional(rank, "exposed_s", &at));
    for (size_t k = 0; at.value && k < OP_PURPOSES; k++)
        TRY(json_may_real(&at, op_purpose_names[k], 0, DBL_MAX, &exposed_s[k]));
out:
    return st;
}

static enum status read_memory(const struct json_at *at, struct measured_rank *rank)
{
    enum status st;
    struct json_at memory;
    int64_t stage = rank->stage;
    TRY(json_may_integer(at, "stage", 0, UINT32_MAX, &stage));
    rank->stage = (uint32_t)stage;
    TRY(json_may_integer(at, "memory_bytes", 0, INT64_MAX, &rank->memory_bytes));
    TRY(json_optional(at, "peak_of", &memory));
    if (!memory.value)
        goto out;
    TRY(json_may_integer(&memory, "weight_bytes", 0, INT64_MAX, &rank->weight_bytes));
    TRY(json_may_integer(&memory, "gradient_bytes", 0, INT64_MAX, &rank->gradient_bytes));
    TRY(json_may_integer(&memory, "state_bytes", 0, INT64_MAX, &rank->state_bytes));
    TRY(json_may_integer(&memory, "stash_bytes", 0, INT64_MAX, &rank->stash_bytes));
    TRY(json_may_integer(&memory, "scratch_bytes", 0, INT64_MAX, &rank->scratch_bytes));
out:
    return st;
}

static enum status read_ranks(const struct json_at *root, struct measurement *m)
{
    enum status st;
    struct json_at at;
    size_t n;
    TRY(json_field(root, "ranks", &at));
    TRY(json_get_array(&at, MAX_ITEMS, &n));
    if (!(m->rank = calloc(n + 1, sizeof *m->rank)))
        return error_set(STATUS_NOMEM, "out of memory");
    for (size_t r = 0; r < n; r++) {
        struct json_at item = json_item(&at, r);
        struct measured_rank *rank = &m->rank[m->ranks++];
        TRY(json_need_text(&item, "name", &rank->name));
        TRY(json_need_real(&item, "busy_s", 0, DBL_MAX, &rank->busy_s));
        TRY(json_need_real(&item, "exposed_comm_s", 0, DBL_MAX, &rank->exposed_comm_s));
        TRY(json_need_real(&item, "idle_s", 0, DBL_MAX, &rank->idle_s));
        TRY(json_may_real(&item, "update_s", 0, DBL_MAX, &rank->update_s));
        TRY(read_exposed(&item, rank->exposed_s));
        TRY(json_need_integer(&item, "peak_bytes", 0, INT64_MAX, &rank->peak_bytes));
        TRY(json_may_text(&item, "peak_at", &rank->peak_at));
        TRY(read_memory(&item, rank));
    }
out:
    return st;
}

static enum status read_calls(const struct json_at *root, struct measurement *m)
{
    enum status st;
    struct json_at at;
    size_t n = 0;
    TRY(json_optional(root, "collectives", &at));
    if (!at.value)
        goto out;
    TRY(json_get_array(&at, MAX_ITEMS, &n));
    if (!(m->call = calloc(n + 1, sizeof *m->call)))
        return error_set(STATUS_NOMEM, "out of memory");
    for (size_t k = 0; k < n; k++) {
        struct json_at item = json_item(&at, k);
        struct measured_call *call = &m->call[m->calls++];
        size_t purpose = 0, kind = 0;
        int64_t members;
        TRY(json_may_choice(&item, "for", op_purpose_names, OP_PURPOSES, &purpose));
        TRY(json_may_choice(&item, "kind", measured_call_names, MEASURED_CALLS, &kind));
        TRY(json_need_integer(&item, "members", 1, UINT32_MAX, &members));
        TRY(json_need_integer(&item, "bytes", 0, INT64_MAX, &call->bytes));
        TRY(json_need_real(&item, "calls", 0, DBL_MAX, &call->calls));
        TRY(json_need_real(&item, "total_s", 0, DBL_MAX, &call->seconds));
        TRY(json_may_text(&item, "algorithm", &call->algorithm));
        call->purpose = (uint8_t)purpose;
        call->kind = measured_call_kinds[kind];
        call->members = (uint32_t)members;
    }
out:
    return st;
}

static enum status read_links(const struct json_at *root, struct measurement *m)
{
    enum status st;
    struct json_at at;
    size_t n = 0;
    TRY(json_optional(root, "links", &at));
    if (!at.value)
        goto out;
    TRY(json_get_array(&at, MAX_ITEMS, &n));
    if (!(m->link = calloc(n + 1, sizeof *m->link)))
        return error_set(STATUS_NOMEM, "out of memory");
    for (size_t k = 0; k < n; k++) {
        struct json_at item = json_item(&at, k);
        struct measured_link *link = &m->link[m->links++];
        TRY(json_need_text(&item, "name", &link->name));
        TRY(json_need_real(&item, "bytes", 0, DBL_MAX, &link->bytes));
        TRY(json_need_real(&item, "busy_fraction", 0, DBL_MAX, &link->busy_fraction));
    }
out:
    return st;
}

static enum status read_warnings(const struct json_at *root, struct measurement *m)
{
    enum status st;
    struct json_at at;
    size_t n = 0;
    TRY(json_optional(root, "warnings", &at));
    if (at.value)
        TRY(json_get_array(&at, MAX_ITEMS, &n));
    for (size_t k = 0; k < n; k++) {
        struct json_at item = json_item(&at, k);
        const char *text;
        TRY(json_get_string(&item, &text));
        TRY(measurement_warn(m, "%s", text));
    }
out:
    return st;
}

static enum status read_folding(const struct json_at *root, struct measurement *m)
{
    enum status st;
    int64_t microbatches = 0, simulated = 0;
    TRY(json_may_integer(root, "microbatches", 0, UINT32_MAX, &microbatches));
    TRY(json_may_integer(root, "microbatches_simulated", 0, UINT32_MAX, &simulated));
    TRY(json_may_text(root, "not_folded", &m->not_folded));
    m->microbatches = (uint32_t)microbatches;
    m->simulated = (uint32_t)simulated;
out:
    return st;
}

static enum status parse(const struct json_document *d, struct measurement *m)
{
    enum status st;
    struct json_at root = json_root(d);
    TRY(json_need_text(&root, "engine", &m->engine));
    TRY(json_may_text(&root, "plan", &m->plan));
    TRY(json_may_text(&root, "plan_sha256", &m->plan_sha256));
    TRY(json_may_text(&root, "model", &m->model));
    TRY(json_may_text(&root, "platform", &m->platform));
    TRY(json_may_text(&root, "parameters_sha256", &m->parameters_sha256));
    TRY(json_need_real(&root, "iteration_s", 0, DBL_MAX, &m->iteration_s));
    TRY(read_reals(&root, "iterations_s", &m->iterations_s, &m->iterations));
    TRY(json_need_real(&root, "samples_per_s", 0, DBL_MAX, &m->samples_per_s));
    TRY(json_need_real(&root, "tokens_per_s", 0, DBL_MAX, &m->tokens_per_s));
    TRY(json_need_real(&root, "bubble_fraction", 0, DBL_MAX, &m->bubble_fraction));
    TRY(json_may_real(&root, "flops", 0, DBL_MAX, &m->flops));
    TRY(json_may_real(&root, "mfu", 0, DBL_MAX, &m->mfu));
    TRY(json_may_real(&root, "hfu", 0, DBL_MAX, &m->hfu));
    TRY(json_need_real(&root, "cpu_s", 0, DBL_MAX, &m->cpu_s));
    TRY(read_ranks(&root, m));
    TRY(read_folding(&root, m));
    TRY(read_links(&root, m));
    TRY(read_calls(&root, m));
    TRY(read_reals(&root, "loss", &m->loss, &m->losses));
    TRY(read_warnings(&root, m));
out:
    return st;
}

enum status measurement_read(const char *path, struct measurement *out)
{
    enum status st;
    struct json_document d = {0};
    struct measurement m = {0};
    TRY(json_read(path, measurement_format, MEASUREMENT_VERSION, &d));
    TRY(parse(&d, &m));
    *out = m;
    m = (struct measurement){0};
out:
    measurement_free(&m);
    json_document_free(&d);
    return st;
}

/* ---- writing */

static void put_text(struct json_writer *w, const char *key, const char *text)
{
    if (text)
        json_put_string(w, key, text);
}

static void put_reals(struct json_writer *w, const char *key, const double *value, size_t n)
{
    json_open_array(w, key, true);
    for (size_t i = 0; i < n; i++)
        json_put_real(w, NULL, value[i]);
    json_close(w);
}

static void put_memory(struct json_writer *w, const struct measured_rank *rank)
{
    json_open_object(w, "peak_of", true);
    json_put_integer(w, "weight_bytes", rank->weight_bytes);
    json_put_integer(w, "gradient_bytes", rank->gradient_bytes);
    json_put_integer(w, "state_bytes", rank->state_bytes);
    json_put_integer(w, "stash_bytes", rank->stash_bytes);
    json_put_integer(w, "scratch_bytes", rank->scratch_bytes);
    json_close(w);
    if (rank->memory_bytes > 0)
        json_put_integer(w, "memory_bytes", rank->memory_bytes);
}

static void put_exposed(struct json_writer *w, const double *exposed_s)
{
    json_open_object(w, "exposed_s", true);
    for (size_t k = 0; k < OP_PURPOSES; k++)
        if (exposed_s[k] > 0)
            json_put_real(w, op_purpose_names[k], exposed_s[k]);
    json_close(w);
}

static void put_breakdown(struct json_writer *w, const struct measurement *m)
{
    struct breakdown b = breakdown_of(m);
    char text[BREAKDOWN_TEXT];
    json_open_object(w, "breakdown", true);
    json_put_real(w, "compute_s", b.compute_s);
    put_exposed(w, b.exposed_s);
    json_put_real(w, "optimizer_s", b.optimizer_s);
    json_put_real(w, "bubble_s", b.bubble_s);
    json_close(w);
    json_put_string(w, "bottleneck", breakdown_bottleneck(m, text));
}

static void put_folding(struct json_writer *w, const struct measurement *m)
{
    if (m->microbatches == 0)
        return;
    json_put_integer(w, "microbatches", m->microbatches);
    json_put_integer(w, "microbatches_simulated", m->simulated);
    json_put_bool(w, "folded", m->simulated < m->microbatches);
    put_text(w, "not_folded", m->not_folded);
}

static void put_calls(struct json_writer *w, const struct measurement *m)
{
    json_open_array(w, "collectives", false);
    for (size_t k = 0; k < m->calls; k++) {
        const struct measured_call *c = &m->call[k];
        json_open_object(w, NULL, true);
        json_put_string(w, "for", op_purpose_names[c->purpose]);
        json_put_string(w, "kind", measured_call_name(c));
        json_put_integer(w, "members", c->members);
        json_put_integer(w, "bytes", c->bytes);
        json_put_real(w, "calls", c->calls);
        json_put_real(w, "total_s", c->seconds);
        put_text(w, "algorithm", c->algorithm);
        json_put_real(w, "algbw_Bps", measured_call_algbw(c));
        json_put_real(w, "busbw_Bps", measured_call_busbw(c));
        json_close(w);
    }
    json_close(w);
}

static void put_ranks(struct json_writer *w, const struct measurement *m)
{
    json_open_array(w, "ranks", false);
    for (size_t r = 0; r < m->ranks; r++) {
        const struct measured_rank *rank = &m->rank[r];
        json_open_object(w, NULL, true);
        json_put_string(w, "name", rank->name);
        json_put_real(w, "busy_s", rank->busy_s);
        json_put_real(w, "exposed_comm_s", rank->exposed_comm_s);
        json_put_real(w, "idle_s", rank->idle_s);
        json_put_real(w, "update_s", rank->update_s);
        put_exposed(w, rank->exposed_s);
        json_put_integer(w, "peak_bytes", rank->peak_bytes);
        put_text(w, "peak_at", rank->peak_at);
        json_put_integer(w, "stage", rank->stage);
        put_memory(w, rank);
        json_close(w);
    }
    json_close(w);
}

static void put_links(struct json_writer *w, const struct measurement *m)
{
    json_open_array(w, "links", false);
    for (size_t k = 0; k < m->links; k++) {
        json_open_object(w, NULL, true);
        json_put_string(w, "name", m->link[k].name);
        json_put_real(w, "bytes", m->link[k].bytes);
        json_put_real(w, "busy_fraction", m->link[k].busy_fraction);
        json_close(w);
    }
    json_close(w);
}

enum status measurement_write(const struct measurement *m, const char *path,
                              const struct provenance *by)
{
    enum status st;
    struct file_out f = {0};
    char *plan = NULL;
    if (m->plan && *m->plan == '/')
        TRY(path_reference(m->plan, path, &plan));
    TRY(file_create(path, &f));
    struct json_writer w = {.stream = f.stream};
    json_put_header(&w, measurement_format, MEASUREMENT_VERSION, by);
    json_put_string(&w, "engine", m->engine);
    put_text(&w, "plan", plan ? plan : m->plan);
    put_text(&w, "plan_sha256", m->plan_sha256);
    put_text(&w, "model", m->model);
    put_text(&w, "platform", m->platform);
    json_put_real(&w, "iteration_s", m->iteration_s);
    put_reals(&w, "iterations_s", m->iterations_s, m->iterations);
    json_put_real(&w, "samples_per_s", m->samples_per_s);
    json_put_real(&w, "tokens_per_s", m->tokens_per_s);
    json_put_real(&w, "bubble_fraction", m->bubble_fraction);
    if (m->flops > 0)
        json_put_real(&w, "flops", m->flops);
    if (m->mfu > 0) {
        json_put_real(&w, "mfu", m->mfu);
        json_put_real(&w, "hfu", m->hfu);
    }
    json_put_real(&w, "cpu_s", m->cpu_s);
    put_folding(&w, m);
    if (measurement_fullest(m) < m->ranks)
        json_put_bool(&w, "fits", measurement_overfull(m) == 0);
    put_breakdown(&w, m);
    put_ranks(&w, m);
    put_links(&w, m);
    put_calls(&w, m);
    if (m->losses > 0)
        put_reals(&w, "loss", m->loss, m->losses);
    put_text(&w, "parameters_sha256", m->parameters_sha256);
    json_open_array(&w, "warnings", false);
    for (size_t k = 0; k < m->warnings; k++)
        json_put_string(&w, NULL, m->warning[k]);
    json_close(&w);
    json_close(&w);
    TRY(file_commit(&f));
out:
    free(plan);
    file_discard(&f);
    return st;
}
