/* A topology through a pipe, in the machine's own byte order: counts before arrays, lengths
 * before texts. The receiver trusts nothing: every count is checked against the bytes that are
 * left before memory is taken. */
#include "sim/platform/topology_bytes.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/array.h"

/* ---- sending: stdio remembers a failed write until ferror() */

/* Bytes as they lie in memory. */
static void put(FILE *f, const void *data, size_t size)
{
    if (size > 0) /* data may be NULL then */
        fwrite(data, 1, size, f);
}

/* A count, before what is counted. */
static void put_count(FILE *f, size_t n)
{
    put(f, &n, sizeof n);
}

/* A text: its length, then its bytes without the NUL. */
static void put_text(FILE *f, const char *text)
{
    put_count(f, strlen(text));
    put(f, text, strlen(text));
}

/* A device type with its rates. */
static void put_type(FILE *f, const struct device_type *type)
{
    put_text(f, type->name);
    put(f, &type->flops, sizeof type->flops);
    put(f, &type->memory_Bps, sizeof type->memory_Bps);
    put(f, &type->memory_bytes, sizeof type->memory_bytes);
    put(f, &type->framework_bytes, sizeof type->framework_bytes);
    put(f, &type->launch_s, sizeof type->launch_s);
    put(f, &type->slowdown, sizeof type->slowdown);
    put(f, &type->peak_flops, sizeof type->peak_flops);
    put(f, &type->watts, sizeof type->watts);
    put(f, &type->price_per_hour, sizeof type->price_per_hour);
    put(f, &type->nics, sizeof type->nics);
    put_count(f, type->rates);
    for (size_t k = 0; k < type->rates; k++) {
        const struct topology_rate *rate = &type->rate[k];
        put_text(f, rate->kind);
        put_count(f, rate->n);
        put(f, rate->flop, rate->n * sizeof *rate->flop);
        put(f, rate->flops, rate->n * sizeof *rate->flops);
    }
}

/* The map of tiers, level by level as it lies in memory. */
static void put_map(FILE *f, const struct topology_map *map)
{
    put_count(f, map->levels);
    for (unsigned l = 0; l < map->levels; l++) {
        put_count(f, map->squares[l]);
        put(f, map->cell[l], map->squares[l] * TOPOLOGY_MAP_CELLS * sizeof *map->cell[l]);
    }
}

/* Links and the routes over them. */
static void put_ways(FILE *f, const struct topology *t)
{
    const struct route_graph *g = &t->graph;
    put_count(f, t->links);
    for (size_t i = 0; i < t->links; i++) {
        put_text(f, t->link[i].name);
        put(f, &t->link[i].bandwidth_Bps, sizeof t->link[i].bandwidth_Bps);
        put(f, &t->link[i].fat, sizeof t->link[i].fat);
    }
    put_count(f, g->vertices);
    if (g->vertices > 0) {
        put_count(f, g->edges);
        put_count(f, g->hops);
        put(f, g->vertex, t->n * sizeof *g->vertex);
        put(f, g->start, (g->vertices + 1) * sizeof *g->start);
        put(f, g->to, g->edges * sizeof *g->to);
        put(f, g->first, (g->edges + 1) * sizeof *g->first);
        put(f, g->hop, g->hops * sizeof *g->hop);
        put_count(f, g->blocks);
        put(f, g->block, g->vertices * sizeof *g->block);
        put(f, g->depth, g->vertices * sizeof *g->depth);
        put(f, g->top, g->blocks * sizeof *g->top);
    } else if (t->links > 0) {
        put_count(f, t->table.steps);
        put(f, t->table.step, t->table.steps * sizeof *t->table.step);
        put(f, t->table.head, t->n * t->n * sizeof *t->table.head);
    }
}

enum status topology_send(const struct topology *t, int fd)
{
    FILE *f = fdopen(dup(fd), "wb");
    if (!f)
        return error_set(STATUS_IO, "pipe: %s", strerror(errno));
    put_count(f, t->n);
    for (size_t i = 0; i < t->n; i++)
        put_text(f, t->device[i]);
    put(f, t->type_of, t->n * sizeof *t->type_of);
    put_count(f, t->types);
    for (size_t i = 0; i < t->types; i++)
        put_type(f, &t->type[i]);
    put_count(f, t->tiers);
    for (size_t i = 0; i < t->tiers; i++) {
        put_text(f, t->tier[i].name);
        put(f, &t->tier[i].latency_s, sizeof t->tier[i].latency_s);
        put(f, &t->tier[i].bandwidth_Bps, sizeof t->tier[i].bandwidth_Bps);
    }
    put_map(f, &t->between);
    put_ways(f, t);
    bool failed = ferror(f);
    if (fclose(f) != 0 || failed)
        return error_set(STATUS_IO, "pipe: %s", strerror(errno));
    return STATUS_OK;
}

/* ---- receiving */

/* What has not been read yet. */
struct bytes {
    const unsigned char *next;
    size_t left;
};

/* Only a child that died while it wrote leaves a topology that cannot be read. */
static enum status broken(void)
{
    return error_set(STATUS_EXTERNAL, "SimGrid's process handed back a broken topology");
}

/* The next `size` bytes. */
static enum status get(struct bytes *b, void *to, size_t size)
{
    if (size > b->left)
        return broken();
    memcpy(to, b->next, size);
    b->next += size;
    b->left -= size;
    return STATUS_OK;
}

/* A count of things that take at least `size` bytes each. */
static enum status get_count(struct bytes *b, size_t size, size_t *n)
{
    size_t count = 0;
    PASS(get(b, &count, sizeof count));
    if (count > b->left / size)
        return broken();
    *n = count;
    return STATUS_OK;
}

/* n elements as they lie in memory, with a byte to spare for the NUL of texts. */
static enum status get_array(struct bytes *b, size_t n, size_t size, void **out)
{
    if (n > b->left / size)
        return broken();
    void *array = array_new(n * size + 1, 1);
    if (!array)
        return STATUS_NOMEM;
    *out = array;
    return get(b, array, n * size);
}

/* A text that is not empty and has no NUL inside. */
static enum status get_text(struct bytes *b, char **out)
{
    enum status st;
    size_t n;
    void *text = NULL;
    TRY(get_count(b, 1, &n));
    TRY(get_array(b, n, 1, &text));
    ((char *)text)[n] = '\0';
    if (n == 0 || strlen(text) != n) {
        st = broken();
        goto out;
    }
    MOVE(out, text);
out:
    free(text);
    return st;
}

/* A number in (least, infinity). */
static enum status get_above(struct bytes *b, double least, double *out)
{
    enum status st = get(b, out, sizeof *out);
    if (st == STATUS_OK && !(*out > least && isfinite(*out)))
        st = broken();
    return st;
}

/* A rate: the kind, then as many works as speeds. */
static enum status get_rate(struct bytes *b, struct topology_rate *rate)
{
    enum status st;
    void *flop = NULL, *flops = NULL;
    TRY(get_text(b, &rate->kind));
    TRY(get_count(b, sizeof *rate->flop, &rate->n));
    st = get_array(b, rate->n, sizeof *rate->flop, &flop);
    rate->flop = flop;
    if (st != STATUS_OK)
        goto out;
    st = get_array(b, rate->n, sizeof *rate->flops, &flops);
    rate->flops = flops;
out:
    return st;
}

/* A device type; its numbers are checked as those of a file are. */
static enum status get_type(struct bytes *b, struct device_type *type)
{
    enum status st;
    size_t rates = 0;
    TRY(get_text(b, &type->name));
    TRY(get_above(b, 0, &type->flops));
    TRY(get_above(b, 0, &type->memory_Bps));
    TRY(get(b, &type->memory_bytes, sizeof type->memory_bytes));
    TRY(get(b, &type->framework_bytes, sizeof type->framework_bytes));
    TRY(get_above(b, -1, &type->launch_s));
    TRY(get_above(b, -1, &type->slowdown));
    TRY(get_above(b, -1, &type->peak_flops));
    TRY(get_above(b, -1, &type->watts));
    TRY(get_above(b, -1, &type->price_per_hour));
    TRY(get(b, &type->nics, sizeof type->nics));
    TRY(get_count(b, 1, &rates));
    TRY(ARRAY_NEW(type->rate, rates + 1));
    for (; type->rates < rates; type->rates++)
        TRY(get_rate(b, &type->rate[type->rates]));
out:
    if (st != STATUS_OK && type->rate && type->rates < rates)
        type->rates++; /* the one that is half read is released with the others */
    return st;
}

/* Names of the devices; none may be empty. */
static enum status get_devices(struct bytes *b, struct topology *t)
{
    enum status st;
    void *type_of = NULL;
    size_t n;
    TRY(get_count(b, 1, &n));
    if (n == 0 || n > TOPOLOGY_MAX_DEVICES) {
        st = broken();
        goto out;
    }
    TRY(ARRAY_NEW(t->device, n + 1));
    t->n = n;
    for (size_t i = 0; i < n; i++)
        TRY(get_text(b, &t->device[i]));
    st = get_array(b, n, sizeof *t->type_of, &type_of);
    t->type_of = type_of;
out:
    return st;
}

/* All device types, each whole or not at all. */
static enum status get_types(struct bytes *b, struct topology *t)
{
    size_t n;
    PASS(get_count(b, 1, &n));
    PASS(ARRAY_NEW(t->type, n + 1));
    t->types = n;
    for (size_t i = 0; i < n; i++)
        PASS(get_type(b, &t->type[i]));
    for (size_t i = 0; i < t->n; i++)
        if (t->type_of[i] >= n)
            return broken();
    return STATUS_OK;
}

/* The map of tiers, with no more levels than there can be. */
static enum status get_map(struct bytes *b, struct topology_map *map)
{
    enum status st = STATUS_OK;
    size_t levels = 0;
    TRY(get_count(b, 1, &levels));
    if (levels > TOPOLOGY_MAP_LEVELS) {
        st = broken();
        goto out;
    }
    map->levels = (unsigned)levels;
    for (unsigned l = 0; l < levels; l++) {
        void *cell = NULL;
        size_t size = TOPOLOGY_MAP_CELLS * sizeof *map->cell[l];
        TRY(get_count(b, size, &map->squares[l]));
        st = get_array(b, map->squares[l], size, &cell);
        map->cell[l] = cell;
        if (st != STATUS_OK)
            goto out;
    }
out:
    return st;
}

/* Names, latencies and bandwidths of the tiers. */
static enum status get_tiers(struct bytes *b, struct topology *t)
{
    size_t n;
    PASS(get_count(b, 1, &n));
    PASS(ARRAY_NEW(t->tier, n + 1));
    t->tiers = n;
    for (size_t i = 0; i < n; i++) {
        PASS(get_text(b, &t->tier[i].name));
        PASS(get_above(b, -1, &t->tier[i].latency_s));
        PASS(get_above(b, 0, &t->tier[i].bandwidth_Bps));
    }
    PASS(get_map(b, &t->between));
    if (!topology_map_is_sound(&t->between, t->n, n))
        return broken();
    return STATUS_OK;
}

/* n numbers that fit into arrays of 32 bits. */
static enum status get_numbers(struct bytes *b, size_t n, uint32_t **out)
{
    void *array = NULL;
    enum status st = get_array(b, n, sizeof **out, &array);
    *out = array;
    return st;
}

/* The graph's arrays, by sizes that were checked to leave room for them. */
static enum status get_graph(struct bytes *b, size_t vertices, struct topology *t)
{
    struct route_graph *g = &t->graph;
    g->vertices = vertices;
    PASS(get_count(b, sizeof *g->to, &g->edges));
    PASS(get_count(b, sizeof *g->hop, &g->hops));
    PASS(get_numbers(b, t->n, &g->vertex));
    PASS(get_numbers(b, g->vertices + 1, &g->start));
    PASS(get_numbers(b, g->edges, &g->to));
    PASS(get_numbers(b, g->edges + 1, &g->first));
    PASS(get_numbers(b, g->hops, &g->hop));
    PASS(get_count(b, sizeof *g->top, &g->blocks));
    PASS(get_numbers(b, g->vertices, &g->block));
    PASS(get_numbers(b, g->vertices, &g->depth));
    PASS(get_numbers(b, g->blocks, &g->top));
    return route_graph_is_sound(g, t->n, t->links) ? STATUS_OK : broken();
}

/* A table of few enough devices for n^2 not to overflow. */
static enum status get_table(struct bytes *b, struct topology *t)
{
    struct route_table *table = &t->table;
    void *step = NULL;
    if (t->n > ROUTE_TABLE_DEVICES)
        return broken();
    PASS(get_count(b, sizeof *table->step, &table->steps));
    enum status st = get_array(b, table->steps, sizeof *table->step, &step);
    table->step = step;
    if (st == STATUS_OK)
        st = get_numbers(b, t->n * t->n, &table->head);
    if (st == STATUS_OK && !route_table_is_sound(table, t->n, t->links))
        st = broken();
    return st;
}

/* Links, then the graph or the table; nothing when no links are known. */
static enum status get_ways(struct bytes *b, struct topology *t)
{
    size_t links, vertices;
    PASS(get_count(b, 1, &links));
    PASS(ARRAY_NEW(t->link, links + 1));
    t->links = links;
    for (size_t i = 0; i < links; i++) {
        unsigned char fat = 0;
        PASS(get_text(b, &t->link[i].name));
        PASS(get_above(b, 0, &t->link[i].bandwidth_Bps));
        PASS(get(b, &fat, 1));
        t->link[i].fat = fat != 0;
    }
    PASS(get_count(b, sizeof *t->graph.start, &vertices));
    if (vertices > 0)
        return get_graph(b, vertices, t);
    return links > 0 ? get_table(b, t) : STATUS_OK;
}

enum status topology_receive(const unsigned char *data, size_t length, struct topology *out)
{
    enum status st;
    struct bytes b = {.next = data, .left = length};
    struct topology t = {0};
    TRY(get_devices(&b, &t));
    TRY(get_types(&b, &t));
    TRY(get_tiers(&b, &t));
    TRY(get_ways(&b, &t));
    if (b.left != 0) {
        st = broken();
        goto out;
    }
    MOVE(out, t);
out:
    topology_free(&t);
    return st;
}
