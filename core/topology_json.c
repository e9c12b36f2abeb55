#include "core/topology.h"

#include <float.h>
#include <stdlib.h>

#include "core/file.h"
#include "core/json.h"

static const char topology_format[] = "foreline-topology";
enum {
    TOPOLOGY_VERSION = 1,
    MAX_TYPES = 4096,
    MAX_TIERS = 65535,
    MAX_RATES = 256,
    MAX_POINTS = 256
};

/* calloc of n + 1 items into a pointer, or STATUS_NOMEM. */
#define ALLOCATE(pointer, n)                                                                       \
    (((pointer) = calloc((n) + 1, sizeof *(pointer))) ? STATUS_OK                                  \
                                                      : error_set(STATUS_NOMEM, "out of memory"))

static enum status read_reals(const struct json_at *at, size_t n, double *out)
{
    enum status st = STATUS_OK;
    for (size_t i = 0; i < n; i++) {
        struct json_at item = json_item(at, i);
        TRY(json_get_real(&item, DBL_MIN, DBL_MAX, &out[i]));
    }
out:
    return st;
}

static enum status read_rate(const struct json_at *at, struct topology_rate *r)
{
    enum status st;
    struct json_at flop, flops;
    size_t n, m;
    TRY(json_need_text(at, "kind", &r->kind));
    TRY(json_field(at, "flop", &flop));
    TRY(json_field(at, "flops", &flops));
    TRY(json_get_array(&flop, MAX_POINTS, &n));
    TRY(json_get_array(&flops, MAX_POINTS, &m));
    if (n == 0 || n != m)
        return json_error(&flop, "%zu amounts of work for %zu rates", n, m);
    TRY(ALLOCATE(r->flop, n));
    TRY(ALLOCATE(r->flops, n));
    r->n = n;
    TRY(read_reals(&flop, n, r->flop));
    TRY(read_reals(&flops, n, r->flops));
    for (size_t i = 1; i < n; i++)
        if (r->flop[i] <= r->flop[i - 1])
            return json_error(&flop, "the amounts of work must increase");
out:
    return st;
}

static enum status read_type(const struct json_at *at, struct device_type *t)
{
    enum status st;
    struct json_at field;
    size_t n = 0;
    TRY(json_need_text(at, "name", &t->name));
    TRY(json_need_real(at, "flops", DBL_MIN, DBL_MAX, &t->flops));
    TRY(json_need_real(at, "memory_Bps", DBL_MIN, DBL_MAX, &t->memory_Bps));
    TRY(json_need_integer(at, "memory_bytes", 1, INT64_MAX, &t->memory_bytes));
    TRY(json_need_real(at, "launch_s", 0, DBL_MAX, &t->launch_s));
    TRY(json_optional(at, "rates", &field));
    if (field.value)
        TRY(json_get_array(&field, MAX_RATES, &n));
    TRY(ALLOCATE(t->rate, n));
    for (size_t k = 0; k < n; k++) {
        struct json_at item = json_item(&field, k);
        t->rates++;
        TRY(read_rate(&item, &t->rate[k]));
    }
out:
    return st;
}

static enum status read_tier(const struct json_at *at, struct topology_tier *t)
{
    enum status st;
    TRY(json_need_text(at, "name", &t->name));
    TRY(json_need_real(at, "latency_s", 0, DBL_MAX, &t->latency_s));
    TRY(json_need_real(at, "bandwidth_Bps", DBL_MIN, DBL_MAX, &t->bandwidth_Bps));
out:
    return st;
}

static enum status read_devices(const struct json_at *root, struct topology *t)
{
    enum status st;
    struct json_at at;
    size_t n;
    TRY(json_field(root, "devices", &at));
    TRY(json_get_array(&at, TOPOLOGY_MAX_DEVICES, &n));
    if (n == 0)
        return json_error(&at, "a topology without devices");
    TRY(ALLOCATE(t->device, n));
    TRY(ALLOCATE(t->type_of, n));
    t->n = n;
    for (size_t i = 0; i < n; i++) {
        struct json_at item = json_item(&at, i);
        int64_t type;
        TRY(json_need_text(&item, "name", &t->device[i]));
        TRY(json_need_integer(&item, "type", 0, (int64_t)t->types - 1, &type));
        t->type_of[i] = (uint32_t)type;
    }
out:
    return st;
}

/* "between": per sender one row of tier numbers, the diagonal 0. */
static enum status read_between(const struct json_at *root, struct topology *t)
{
    enum status st;
    struct json_at at;
    size_t rows, columns;
    TRY(json_field(root, "between", &at));
    TRY(json_get_array(&at, t->n, &rows));
    if (rows != t->n)
        return json_error(&at, "%zu rows for %zu devices", rows, t->n);
    TRY(ALLOCATE(t->tier_of, t->n * t->n));
    for (size_t i = 0; i < t->n; i++) {
        struct json_at row = json_item(&at, i);
        TRY(json_get_array(&row, t->n, &columns));
        if (columns != t->n)
            return json_error(&row, "%zu entries for %zu devices", columns, t->n);
        for (size_t j = 0; j < t->n; j++) {
            struct json_at item = json_item(&row, j);
            int64_t tier = 0;
            TRY(json_get_integer(&item, 0, i == j ? 0 : (int64_t)t->tiers - 1, &tier));
            t->tier_of[i * t->n + j] = (uint16_t)tier;
        }
    }
out:
    return st;
}

static enum status parse(const struct json_document *d, struct topology *t)
{
    enum status st;
    struct json_at root = json_root(d), at;
    size_t n;
    TRY(json_need_text(&root, "name", &t->name));
    TRY(json_field(&root, "types", &at));
    TRY(json_get_array(&at, MAX_TYPES, &n));
    TRY(ALLOCATE(t->type, n));
    for (size_t i = 0; i < n; i++) {
        struct json_at item = json_item(&at, i);
        t->types++;
        TRY(read_type(&item, &t->type[i]));
    }
    TRY(json_field(&root, "tiers", &at));
    TRY(json_get_array(&at, MAX_TIERS, &n));
    TRY(ALLOCATE(t->tier, n));
    for (size_t i = 0; i < n; i++) {
        struct json_at item = json_item(&at, i);
        t->tiers++;
        TRY(read_tier(&item, &t->tier[i]));
    }
    TRY(read_devices(&root, t));
    TRY(read_between(&root, t));
out:
    return st;
}

enum status topology_read(const char *path, struct topology *out)
{
    enum status st;
    struct json_document d = {0};
    struct topology t = {0};
    TRY(json_read(path, topology_format, TOPOLOGY_VERSION, &d));
    TRY(parse(&d, &t));
    *out = t;
    t = (struct topology){0};
out:
    topology_free(&t);
    json_document_free(&d);
    return st;
}

/* ---- writing */

static void put_type(struct json_writer *w, const struct device_type *t)
{
    json_open_object(w, NULL, false);
    json_put_string(w, "name", t->name);
    json_put_real(w, "flops", t->flops);
    json_put_real(w, "memory_Bps", t->memory_Bps);
    json_put_integer(w, "memory_bytes", t->memory_bytes);
    json_put_real(w, "launch_s", t->launch_s);
    json_open_array(w, "rates", false);
    for (size_t k = 0; k < t->rates; k++) {
        const struct topology_rate *r = &t->rate[k];
        json_open_object(w, NULL, true);
        json_put_string(w, "kind", r->kind);
        json_open_array(w, "flop", true);
        for (size_t i = 0; i < r->n; i++)
            json_put_real(w, NULL, r->flop[i]);
        json_close(w);
        json_open_array(w, "flops", true);
        for (size_t i = 0; i < r->n; i++)
            json_put_real(w, NULL, r->flops[i]);
        json_close(w);
        json_close(w);
    }
    json_close(w);
    json_close(w);
}

static void put_devices(struct json_writer *w, const struct topology *t)
{
    json_open_array(w, "devices", false);
    for (size_t i = 0; i < t->n; i++) {
        json_open_object(w, NULL, true);
        json_put_string(w, "name", t->device[i]);
        json_put_integer(w, "type", t->type_of[i]);
        json_close(w);
    }
    json_close(w);
    json_open_array(w, "between", false);
    for (size_t i = 0; i < t->n; i++) {
        json_open_array(w, NULL, true);
        for (size_t j = 0; j < t->n; j++)
            json_put_integer(w, NULL, i == j ? 0 : t->tier_of[i * t->n + j]);
        json_close(w);
    }
    json_close(w);
}

enum status topology_write(const struct topology *t, const char *path, const struct provenance *p)
{
    enum status st;
    struct file_out f = {0};
    TRY(file_create(path, &f));
    struct json_writer w = {.stream = f.stream};
    json_put_header(&w, topology_format, TOPOLOGY_VERSION, p);
    json_put_string(&w, "name", t->name);
    json_open_array(&w, "types", false);
    for (size_t i = 0; i < t->types; i++)
        put_type(&w, &t->type[i]);
    json_close(&w);
    json_open_array(&w, "tiers", false);
    for (size_t i = 0; i < t->tiers; i++) {
        json_open_object(&w, NULL, true);
        json_put_string(&w, "name", t->tier[i].name);
        json_put_real(&w, "latency_s", t->tier[i].latency_s);
        json_put_real(&w, "bandwidth_Bps", t->tier[i].bandwidth_Bps);
        json_close(&w);
    }
    json_close(&w);
    put_devices(&w, t);
    json_close(&w);
    TRY(file_commit(&f));
out:
    file_discard(&f);
    return st;
}
