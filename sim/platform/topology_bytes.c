/* A topology through a pipe: what goes through, and what must hold of it, for both directions. */
#include "sim/platform/topology_bytes.h"

#include "core/base/array.h"
#include "sim/bytes.h"

static const char what[] = "topology";

/* ---- devices and their types */

/* The kind, then as many works as speeds. */
static enum status pass_rate(struct byte_stream *b, struct topology_rate *rate)
{
    PASS(bytes_text(b, &rate->kind));
    PASS(bytes_count(b, sizeof *rate->flop, &rate->n));
    PASS(BYTES_ARRAY(b, rate->flop, rate->n));
    return BYTES_ARRAY(b, rate->flops, rate->n);
}

/* Kind and members, then as many sizes as times. */
static enum status pass_curve(struct byte_stream *b, struct fabric_curve *curve)
{
    PASS(BYTES_VALUE(b, curve->kind));
    PASS(BYTES_VALUE(b, curve->members));
    PASS(BYTES_VALUE(b, curve->per_node));
    PASS(bytes_text(b, &curve->tier));
    PASS(bytes_count(b, sizeof *curve->bytes, &curve->n));
    PASS(BYTES_ARRAY(b, curve->bytes, curve->n));
    PASS(BYTES_ARRAY(b, curve->seconds, curve->n));
    return (unsigned)curve->kind < FABRIC_KINDS && curve->n > 0 ? STATUS_OK : bytes_broken(b);
}

/* All zero where nothing is known. */
static enum status pass_kernels(struct byte_stream *b, struct device_kernels *k)
{
    double *const numbers[] = {&k->rows,         &k->depth,          &k->memory,
                               &k->shortest_s,   &k->flash_backward, &k->flash_tokens,
                               &k->flash_narrow, &k->units,          &k->wave,
                               &k->pace_s,       &k->cache};
    for (size_t i = 0; i < DATA_TYPES; i++)
        PASS(bytes_above(b, -1, &k->product[i]));
    for (size_t i = 0; i < FLASH_KINDS; i++)
        PASS(bytes_above(b, -1, &k->flash[i]));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        PASS(bytes_above(b, -1, numbers[i]));
    return STATUS_OK;
}

/* Numbers are checked as those of a file are. */
static enum status pass_type(struct byte_stream *b, struct device_type *type)
{
    PASS(bytes_text(b, &type->name));
    PASS(bytes_above(b, 0, &type->flops));
    PASS(bytes_above(b, 0, &type->memory_Bps));
    PASS(BYTES_VALUE(b, type->memory_bytes));
    PASS(BYTES_VALUE(b, type->framework_bytes));
    PASS(bytes_above(b, -1, &type->launch_s));
    PASS(bytes_above(b, -1, &type->slowdown));
    PASS(bytes_above(b, -1, &type->message_s));
    PASS(bytes_above(b, -1, &type->message_Bps));
    for (size_t k = 0; k < DATA_TYPES; k++)
        PASS(bytes_above(b, -1, &type->peak[k]));
    PASS(pass_kernels(b, &type->kernels));
    PASS(bytes_above(b, -1, &type->watts));
    PASS(bytes_above(b, -1, &type->price_per_hour));
    PASS(bytes_above(b, -1, &type->host_Bps));
    PASS(bytes_above(b, -1, &type->host_memory_Bps));
    PASS(bytes_above(b, -1, &type->nics));
    PASS(bytes_above(b, -1, &type->idle_cores));
    PASS(bytes_above(b, -1, &type->busy_spread));
    PASS(BYTES_VALUE(b, type->fabric));
    PASS(BYTES_VALUE(b, type->fitted));
    PASS(bytes_count(b, 1, &type->curves));
    PASS(BYTES_ROOM(b, type->curve, type->curves));
    for (size_t k = 0; k < type->curves; k++)
        PASS(pass_curve(b, &type->curve[k]));
    PASS(bytes_count(b, 1, &type->rates));
    PASS(BYTES_ROOM(b, type->rate, type->rates));
    for (size_t k = 0; k < type->rates; k++)
        PASS(pass_rate(b, &type->rate[k]));
    return STATUS_OK;
}

static enum status pass_devices(struct byte_stream *b, struct topology *t)
{
    PASS(bytes_count(b, 1, &t->n));
    if (t->n == 0 || t->n > TOPOLOGY_MAX_DEVICES)
        return bytes_broken(b);
    PASS(BYTES_ROOM(b, t->device, t->n));
    for (size_t i = 0; i < t->n; i++)
        PASS(bytes_text(b, &t->device[i]));
    PASS(BYTES_ARRAY(b, t->type_of, t->n));
    PASS(bytes_count(b, 1, &t->types));
    PASS(BYTES_ROOM(b, t->type, t->types));
    for (size_t i = 0; i < t->types; i++)
        PASS(pass_type(b, &t->type[i]));
    for (size_t i = 0; i < t->n; i++)
        if (t->type_of[i] >= t->types)
            return bytes_broken(b);
    return STATUS_OK;
}

/* ---- tiers, and the map that says which lies between two devices */

/* Level by level as it lies in memory, no more levels than there can be. */
static enum status pass_map(struct byte_stream *b, struct topology_map *map)
{
    size_t levels = map->levels;
    PASS(bytes_count(b, 1, &levels));
    if (levels > TOPOLOGY_MAP_LEVELS)
        return bytes_broken(b);
    map->levels = (unsigned)levels;
    for (unsigned l = 0; l < levels; l++) {
        PASS(bytes_count(b, TOPOLOGY_MAP_CELLS * sizeof *map->cell[l], &map->squares[l]));
        PASS(BYTES_ARRAY(b, map->cell[l], map->squares[l] * TOPOLOGY_MAP_CELLS));
    }
    return STATUS_OK;
}

static enum status pass_tiers(struct byte_stream *b, struct topology *t)
{
    PASS(bytes_count(b, 1, &t->tiers));
    PASS(BYTES_ROOM(b, t->tier, t->tiers));
    for (size_t i = 0; i < t->tiers; i++) {
        PASS(bytes_text(b, &t->tier[i].name));
        PASS(bytes_above(b, -1, &t->tier[i].latency_s));
        PASS(bytes_above(b, 0, &t->tier[i].bandwidth_Bps));
    }
    PASS(pass_map(b, &t->between));
    return topology_map_is_sound(&t->between, t->n, t->tiers) ? STATUS_OK : bytes_broken(b);
}

/* ---- links and the routes over them */

static enum status pass_graph(struct byte_stream *b, struct topology *t)
{
    struct route_graph *g = &t->graph;
    PASS(bytes_count(b, sizeof *g->to, &g->edges));
    PASS(bytes_count(b, sizeof *g->hop, &g->hops));
    PASS(BYTES_ARRAY(b, g->vertex, t->n));
    PASS(BYTES_ARRAY(b, g->start, g->vertices + 1));
    PASS(BYTES_ARRAY(b, g->to, g->edges));
    PASS(BYTES_ARRAY(b, g->first, g->edges + 1));
    PASS(BYTES_ARRAY(b, g->hop, g->hops));
    PASS(bytes_count(b, sizeof *g->top, &g->blocks));
    PASS(BYTES_ARRAY(b, g->block, g->vertices));
    PASS(BYTES_ARRAY(b, g->depth, g->vertices));
    PASS(BYTES_ARRAY(b, g->top, g->blocks));
    return route_graph_is_sound(g, t->n, t->links) ? STATUS_OK : bytes_broken(b);
}

/* Of few enough devices for n^2 not to overflow. */
static enum status pass_table(struct byte_stream *b, struct topology *t)
{
    struct route_table *table = &t->table;
    if (t->n > ROUTE_TABLE_DEVICES)
        return bytes_broken(b);
    PASS(bytes_count(b, sizeof *table->step, &table->steps));
    PASS(BYTES_ARRAY(b, table->step, table->steps));
    PASS(BYTES_ARRAY(b, table->head, t->n * t->n));
    return route_table_is_sound(table, t->n, t->links) ? STATUS_OK : bytes_broken(b);
}

static bool are_lanes(const struct topology_link *l)
{
    return l->lanes == 0 ? l->cables == 0
                         : l->lanes <= PATHS_LANES_MAX && l->cables > 0 && !l->fat &&
                               l->lanes % l->cables == 0;
}

/* Links, then the graph or the table; nothing when no links are known. */
static enum status pass_ways(struct byte_stream *b, struct topology *t)
{
    PASS(bytes_count(b, 1, &t->links));
    PASS(BYTES_ROOM(b, t->link, t->links));
    for (size_t i = 0; i < t->links; i++) {
        unsigned char fat = t->link[i].fat; /* any byte may come, a bool may not hold any */
        PASS(bytes_text(b, &t->link[i].name));
        PASS(bytes_above(b, 0, &t->link[i].bandwidth_Bps));
        PASS(bytes_above(b, -1, &t->link[i].latency_s));
        PASS(BYTES_VALUE(b, fat));
        t->link[i].fat = fat != 0;
        PASS(BYTES_VALUE(b, t->link[i].lanes));
        PASS(BYTES_VALUE(b, t->link[i].cables));
        if (!are_lanes(&t->link[i]))
            return bytes_broken(b);
    }
    PASS(bytes_count(b, sizeof *t->graph.start, &t->graph.vertices));
    if (t->graph.vertices > 0)
        return pass_graph(b, t);
    return t->links > 0 ? pass_table(b, t) : STATUS_OK;
}

static enum status topology_bytes_pass(struct byte_stream *b, void *object)
{
    struct topology *t = object;
    PASS(pass_devices(b, t));
    PASS(pass_tiers(b, t));
    PASS(BYTES_VALUE(b, t->paths));
    if ((unsigned)t->paths >= PATHS_POLICIES)
        return bytes_broken(b);
    return pass_ways(b, t);
}

enum status topology_send(const struct topology *t, int fd)
{
    struct topology sent = *t; /* is passed as one that may be written to */
    return bytes_send(what, topology_bytes_pass, &sent, fd);
}

enum status topology_receive(const unsigned char *data, size_t length, struct topology *out)
{
    enum status st;
    struct topology t = {0};
    TRY(bytes_receive(what, topology_bytes_pass, &t, data, length));
    MOVE(out, t);
out:
    topology_free(&t);
    return st;
}
