#include "core/topology.h"

#include <float.h>
#include <stdlib.h>

#include "core/file.h"
#include "core/json.h"

static const char topology_format[] = "foreline-topology";
enum {
    TOPOLOGY_VERSION = 2, /* 1: no compressed form of "between" */
    MAX_MATRIX = 4096,    /* devices that a matrix is read for */
    WRITE_MATRIX = 256,   /* and written */
    MAX_SQUARES = 1 << 22,
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
    for (size_t i = 0; i < n; i++) {
        struct json_at item = json_item(at, i);
        PASS(json_get_real(&item, DBL_MIN, DBL_MAX, &out[i]));
    }
    return STATUS_OK;
}

static enum status read_rate(const struct json_at *at, struct topology_rate *r)
{
    struct json_at flop, flops;
    size_t n, m;
    PASS(json_need_text(at, "kind", &r->kind));
    PASS(json_field(at, "flop", &flop));
    PASS(json_field(at, "flops", &flops));
    PASS(json_get_array(&flop, MAX_POINTS, &n));
    PASS(json_get_array(&flops, MAX_POINTS, &m));
    if (n == 0 || n != m)
        return json_error(&flop, "%zu amounts of work for %zu rates", n, m);
    PASS(ALLOCATE(r->flop, n));
    PASS(ALLOCATE(r->flops, n));
    r->n = n;
    PASS(read_reals(&flop, n, r->flop));
    PASS(read_reals(&flops, n, r->flops));
    for (size_t i = 1; i < n; i++)
        if (r->flop[i] <= r->flop[i - 1])
            return json_error(&flop, "the amounts of work must increase");
    return STATUS_OK;
}

static enum status read_type(const struct json_at *at, struct device_type *t)
{
    struct json_at field;
    size_t n = 0;
    int64_t nics = 0;
    PASS(json_need_text(at, "name", &t->name));
    PASS(json_need_real(at, "flops", DBL_MIN, DBL_MAX, &t->flops));
    PASS(json_need_real(at, "memory_Bps", DBL_MIN, DBL_MAX, &t->memory_Bps));
    PASS(json_need_integer(at, "memory_bytes", 1, INT64_MAX, &t->memory_bytes));
    PASS(json_need_real(at, "launch_s", 0, DBL_MAX, &t->launch_s));
    PASS(json_may_real(at, "slowdown", 0, DBL_MAX, &t->slowdown));
    PASS(json_may_integer(at, "nics", 0, UINT32_MAX, &nics));
    t->nics = (uint32_t)nics;
    PASS(json_optional(at, "rates", &field));
    if (field.value)
        PASS(json_get_array(&field, MAX_RATES, &n));
    PASS(ALLOCATE(t->rate, n));
    for (size_t k = 0; k < n; k++) {
        struct json_at item = json_item(&field, k);
        t->rates++;
        PASS(read_rate(&item, &t->rate[k]));
    }
    return STATUS_OK;
}

static enum status read_tier(const struct json_at *at, struct topology_tier *t)
{
    PASS(json_need_text(at, "name", &t->name));
    PASS(json_need_real(at, "latency_s", 0, DBL_MAX, &t->latency_s));
    PASS(json_need_real(at, "bandwidth_Bps", DBL_MIN, DBL_MAX, &t->bandwidth_Bps));
    return STATUS_OK;
}

static enum status read_devices(const struct json_at *root, struct topology *t)
{
    struct json_at at;
    size_t n;
    PASS(json_field(root, "devices", &at));
    PASS(json_get_array(&at, TOPOLOGY_MAX_DEVICES, &n));
    if (n == 0)
        return json_error(&at, "a topology without devices");
    PASS(ALLOCATE(t->device, n));
    PASS(ALLOCATE(t->type_of, n));
    t->n = n;
    for (size_t i = 0; i < n; i++) {
        struct json_at item = json_item(&at, i);
        int64_t type;
        PASS(json_need_text(&item, "name", &t->device[i]));
        PASS(json_need_integer(&item, "type", 0, (int64_t)t->types - 1, &type));
        t->type_of[i] = (uint32_t)type;
    }
    return STATUS_OK;
}

/* "between" as a matrix: per sender one row of tier numbers, the diagonal 0. */
static enum status read_matrix(const struct json_at *at, struct topology *t)
{
    enum status st;
    size_t rows, columns;
    struct topology_map_builder *b = NULL;
    uint32_t *tier = NULL;
    TRY(json_get_array(at, MAX_MATRIX, &rows));
    if (rows != t->n)
        return json_error(at, "%zu rows for %zu devices", rows, t->n);
    TRY(ALLOCATE(tier, t->n));
    TRY(topology_map_begin(t->n, &b));
    for (size_t i = 0; i < t->n; i++) {
        struct json_at row = json_item(at, i);
        TRY(json_get_array(&row, t->n, &columns));
        if (columns != t->n) {
            st = json_error(&row, "%zu entries for %zu devices", columns, t->n);
            goto out;
        }
        for (size_t j = 0; j < t->n; j++) {
            struct json_at item = json_item(&row, j);
            int64_t number = 0;
            TRY(json_get_integer(&item, 0, i == j ? 0 : (int64_t)t->tiers - 1, &number));
            tier[j] = (uint32_t)number;
        }
        TRY(topology_map_row(b, tier));
    }
    TRY(topology_map_finish(b, &t->between));
out:
    topology_map_builder_free(b);
    free(tier);
    return st;
}

/* One level of squares, whose entries are below `limit`. */
static enum status read_squares(const struct json_at *level, size_t limit, struct topology_map *map,
                                unsigned l)
{
    size_t n, cells;
    PASS(json_get_array(level, MAX_SQUARES, &n));
    if (n == 0 || (l + 1 == map->levels && n != 1))
        return json_error(level, "%zu squares", n);
    PASS(ALLOCATE(map->cell[l], n * TOPOLOGY_MAP_CELLS));
    map->squares[l] = n;
    for (size_t s = 0; s < n; s++) {
        struct json_at square = json_item(level, s);
        PASS(json_get_array(&square, TOPOLOGY_MAP_CELLS, &cells));
        if (cells != TOPOLOGY_MAP_CELLS)
            return json_error(&square, "%zu entries, expected %d", cells, TOPOLOGY_MAP_CELLS);
        for (size_t c = 0; c < cells; c++) {
            struct json_at item = json_item(&square, c);
            int64_t number = 0;
            PASS(json_get_integer(&item, 0, (int64_t)limit - 1, &number));
            map->cell[l][s * TOPOLOGY_MAP_CELLS + c] = (uint32_t)number;
        }
    }
    return STATUS_OK;
}

/* "between" as squares of squares (topology_map.h), the finest first. */
static enum status read_map(const struct json_at *at, struct topology *t)
{
    struct json_at levels;
    size_t n;
    int64_t side;
    unsigned needed = topology_map_levels(t->n);
    PASS(json_need_integer(at, "side", TOPOLOGY_MAP_SIDE, TOPOLOGY_MAP_SIDE, &side));
    PASS(json_field(at, "levels", &levels));
    PASS(json_get_array(&levels, TOPOLOGY_MAP_LEVELS, &n));
    if (n != 0 && n != needed)
        return json_error(&levels, "%zu levels for %zu devices, expected %u", n, t->n, needed);
    if (t->tiers == 0 && t->n > 1)
        return json_error(at, "no tiers");
    t->between.levels = (unsigned)n;
    for (unsigned l = 0; l < n; l++) {
        struct json_at level = json_item(&levels, l);
        PASS(read_squares(&level, l > 0 ? t->between.squares[l - 1] : t->tiers, &t->between, l));
    }
    return STATUS_OK;
}

static enum status read_between(const struct json_at *root, struct topology *t)
{
    struct json_at at;
    PASS(json_field(root, "between", &at));
    return json_members(&at) > 0 ? read_map(&at, t) : read_matrix(&at, t);
}

static enum status parse(const struct json_document *d, struct topology *t)
{
    struct json_at root = json_root(d), at;
    size_t n;
    PASS(json_need_text(&root, "name", &t->name));
    PASS(json_field(&root, "types", &at));
    PASS(json_get_array(&at, MAX_TYPES, &n));
    PASS(ALLOCATE(t->type, n));
    for (size_t i = 0; i < n; i++) {
        struct json_at item = json_item(&at, i);
        t->types++;
        PASS(read_type(&item, &t->type[i]));
    }
    PASS(json_field(&root, "tiers", &at));
    PASS(json_get_array(&at, MAX_TIERS, &n));
    PASS(ALLOCATE(t->tier, n));
    for (size_t i = 0; i < n; i++) {
        struct json_at item = json_item(&at, i);
        t->tiers++;
        PASS(read_tier(&item, &t->tier[i]));
    }
    PASS(read_devices(&root, t));
    PASS(read_between(&root, t));
    return STATUS_OK;
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
    if (t->slowdown > 0)
        json_put_real(w, "slowdown", t->slowdown);
    if (t->nics > 0)
        json_put_integer(w, "nics", t->nics);
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
}

static void put_matrix(struct json_writer *w, const struct topology *t)
{
    json_open_array(w, "between", false);
    for (uint32_t i = 0; i < t->n; i++) {
        json_open_array(w, NULL, true);
        for (uint32_t j = 0; j < t->n; j++)
            json_put_integer(w, NULL, i == j ? 0 : topology_map_at(&t->between, i, j));
        json_close(w);
    }
    json_close(w);
}

static void put_map(struct json_writer *w, const struct topology_map *map)
{
    json_open_object(w, "between", false);
    json_put_integer(w, "side", TOPOLOGY_MAP_SIDE);
    json_open_array(w, "levels", false);
    for (unsigned l = 0; l < map->levels; l++) {
        json_open_array(w, NULL, false);
        for (size_t s = 0; s < map->squares[l]; s++) {
            json_open_array(w, NULL, true);
            for (size_t c = 0; c < TOPOLOGY_MAP_CELLS; c++)
                json_put_integer(w, NULL, map->cell[l][s * TOPOLOGY_MAP_CELLS + c]);
            json_close(w);
        }
        json_close(w);
    }
    json_close(w);
    json_close(w);
}

enum status topology_write(const struct topology *t, const char *path, const struct provenance *p)
{
    enum status st;
    struct file_out f = {0};
    TRY(file_create(path, &f));
    struct json_writer w = {.stream = f.stream};
    json_put_header(&w, topology_format, t->n <= WRITE_MATRIX ? 1 : TOPOLOGY_VERSION, p);
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
    if (t->n <= WRITE_MATRIX)
        put_matrix(&w, t);
    else
        put_map(&w, &t->between);
    json_close(&w);
    TRY(file_commit(&f));
out:
    file_discard(&f);
    return st;
}
