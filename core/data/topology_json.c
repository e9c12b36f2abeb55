/* Topologies as JSON, for people and other programs: foreline itself reads platform files. */
#include "core/data/topology.h"

#include <stdlib.h>

#include "core/base/json.h"

static const char topology_format[] = "foreline-topology";
enum {
    TOPOLOGY_VERSION = 2, /* 1: no compressed form of "between" */
    WRITE_MATRIX = 256,   /* devices that "between" is a matrix for */
};

#define RATE(member) JSON_MEMBER(struct topology_rate, member)
static const struct json_row rate_rows[] = {
    {"kind", RATE(kind)},
    {"flop", RATE(flop), .count = offsetof(struct topology_rate, n)},
    {"flops", RATE(flops), .count = offsetof(struct topology_rate, n)},
    {0},
};
#undef RATE

#define TYPE(member) JSON_MEMBER(struct device_type, member)
static const struct json_row type_rows[] = {
    {"name", TYPE(name)},
    {"flops", TYPE(flops)},
    {"peak_flops", TYPE(peak[DATA_bf16]), FIELD_SPARE},
    {"peak_fp32_flops", TYPE(peak[DATA_fp32]), FIELD_SPARE},
    {"peak_tf32_flops", TYPE(peak[DATA_tf32]), FIELD_SPARE},
    {"peak_fp8_flops", TYPE(peak[DATA_fp8]), FIELD_SPARE},
    {"peak_fp4_flops", TYPE(peak[DATA_fp4]), FIELD_SPARE},
    {"watts", TYPE(watts), FIELD_SPARE},
    {"price_per_hour", TYPE(price_per_hour), FIELD_SPARE},
    {"host_Bps", TYPE(host_Bps), FIELD_SPARE},
    {"host_memory_Bps", TYPE(host_memory_Bps), FIELD_SPARE},
    {"memory_Bps", TYPE(memory_Bps)},
    {"memory_bytes", TYPE(memory_bytes)},
    {"launch_s", TYPE(launch_s)},
    {"slowdown", TYPE(slowdown), FIELD_SPARE},
    {"message_s", TYPE(message_s), FIELD_SPARE},
    {"message_Bps", TYPE(message_Bps), FIELD_SPARE},
    {"nics", TYPE(nics), FIELD_SPARE},
    {"idle_cores", TYPE(idle_cores), FIELD_SPARE},
    {"busy_spread", TYPE(busy_spread), FIELD_SPARE},
    {"fitted_host", TYPE(fitted.host), FIELD_SPARE},
    {"fitted_interference", TYPE(fitted.interference), FIELD_SPARE},
    {"fitted_start", TYPE(fitted.start), FIELD_SPARE},
    {"fitted_hop", TYPE(fitted.hop), FIELD_SPARE},
    {"rates", TYPE(rate), .count = offsetof(struct device_type, rates), .rows = rate_rows,
     .size = sizeof(struct topology_rate), .flat = true},
    {0},
};
#undef TYPE

static const struct json_row tier_rows[] = {
    {"name", JSON_MEMBER(struct topology_tier, name)},
    {"latency_s", JSON_MEMBER(struct topology_tier, latency_s)},
    {"bandwidth_Bps", JSON_MEMBER(struct topology_tier, bandwidth_Bps)},
    {0},
};

/* Devices keep their names and types in two arrays. */
static void write_devices(struct json_writer *w, const void *from)
{
    const struct topology *t = from;
    json_open_array(w, "devices", false);
    for (size_t i = 0; i < t->n; i++) {
        json_open_object(w, NULL, true);
        json_put_string(w, "name", t->device[i]);
        json_put_integer(w, "type", t->type_of[i]);
        json_close(w);
    }
    json_close(w);
}

/* A row of tier numbers per sender, the diagonal 0. */
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

/* Squares level by level, the finest first; see topology_map.h. */
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

/* A matrix for as many devices as people look at, squares above. */
static void write_between(struct json_writer *w, const void *from)
{
    const struct topology *t = from;
    if (t->n <= WRITE_MATRIX)
        put_matrix(w, t);
    else
        put_map(w, &t->between);
}

/* Of what is known. */
static void topology_json_write_capacity(struct json_writer *w, const void *from)
{
    const struct topology *t = from;
    if (!t->oversubscription)
        return;
    json_put_real(w, "bisection_Bps", t->bisection_Bps);
    json_put_reals(w, "oversubscription", t->oversubscription, t->tiers);
}

static void write_inventory(struct json_writer *w, const void *from)
{
    inventory_put_json(w, &((const struct topology *)from)->inventory);
}

/* Parallel links, and the policy by which flows choose, where there are any. */
static void write_bundles(struct json_writer *w, const void *from)
{
    const struct topology *t = from;
    if (!topology_has_lanes(t))
        return;
    json_put_string(w, "paths", paths_name(t->paths));
    json_open_array(w, "bundles", false);
    for (size_t l = 0; l < t->links; l++) {
        const struct topology_link *link = &t->link[l];
        if (topology_lanes(link) < 2)
            continue;
        json_open_object(w, NULL, true);
        json_put_string(w, "link", link->name);
        json_put_integer(w, "lanes", link->lanes);
        json_put_integer(w, "cables", link->cables);
        json_put_real(w, "bandwidth_Bps", link->bandwidth_Bps);
        json_close(w);
    }
    json_close(w);
}

/* How links join devices and switches, of as many devices as people look at. */
static void write_graph(struct json_writer *w, const void *from)
{
    const struct topology *t = from;
    const struct route_graph *g = &t->graph;
    if (g->vertices == 0 || t->n > WRITE_MATRIX)
        return;
    json_open_object(w, "graph", false);
    json_open_array(w, "devices", true);
    for (size_t i = 0; i < t->n; i++)
        json_put_integer(w, NULL, g->vertex[i]);
    json_close(w);
    json_open_array(w, "edges", false);
    for (uint32_t v = 0; v < g->vertices; v++)
        for (uint32_t e = g->start[v]; e < g->start[v + 1]; e++) {
            if (g->to[e] < v)
                continue; /* the way back */
            json_open_array(w, NULL, true);
            json_put_integer(w, NULL, v);
            json_put_integer(w, NULL, g->to[e]);
            for (uint32_t h = g->first[e]; h < g->first[e + 1]; h++)
                json_put_string(w, NULL, t->link[g->hop[h]].name);
            json_close(w);
        }
    json_close(w);
    json_close(w);
}

static const struct json_row rows[] = {
    {"name", JSON_MEMBER(struct topology, name)},
    {"types", JSON_MEMBER(struct topology, type), .count = offsetof(struct topology, types),
     .rows = type_rows, .size = sizeof(struct device_type)},
    {"tiers", JSON_MEMBER(struct topology, tier), .count = offsetof(struct topology, tiers),
     .rows = tier_rows, .size = sizeof(struct topology_tier), .flat = true},
    {"capacity", .write = topology_json_write_capacity},
    {"bundles", .write = write_bundles},
    {"inventory", .write = write_inventory},
    {"devices", .write = write_devices},
    {"between", .write = write_between},
    {"graph", .write = write_graph},
    {0},
};

enum status topology_write(const struct topology *t, const char *path, const struct provenance *p)
{
    return json_write(path, topology_format, t->n <= WRITE_MATRIX ? 1 : TOPOLOGY_VERSION, p, rows,
                      t);
}

void topology_free(struct topology *t)
{
    for (size_t i = 0; t->device && i < t->n; i++)
        free(t->device[i]);
    free(t->device);
    free(t->type_of);
    free(t->node_of);
    free(t->oversubscription);
    inventory_free(&t->inventory);
    for (size_t i = 0; t->link && i < t->links; i++)
        free(t->link[i].name);
    free(t->link);
    route_graph_free(&t->graph);
    route_table_free(&t->table);
    topology_map_free(&t->between);
    for (size_t i = 0; t->type && i < t->types; i++) {
        for (size_t k = 0; k < t->type[i].curves; k++)
            fabric_curve_free(&t->type[i].curve[k]);
        free(t->type[i].curve);
    }
    json_rows_free(rows, t);
    *t = (struct topology){0};
}
