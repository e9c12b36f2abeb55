/* The importer of Chakra's execution traces in JSON, as Chakra's feeder reads them besides the protocol buffers:
 *
 *     {"workload_graph": [{"Id": 216, "Name": "aten::mm", "NodeType": 4, "data_deps": [215], "runtime": 28}, ...]}
 *
 * runtime is in microseconds; nodes may have num_ops and comm_size, as there. What depends on what by control is not
 * read.
 *
 * Source: mlcommons/chakra, src/feeder/json_node.cpp at 3a65751. */
#include <string.h>

#include "core/array.h"
#include "core/json.h"
#include "model/chakra.h"
#include "model/import.h"

static const char graph_key[] = "workload_graph";

static enum status read_deps(const struct json_at *node, struct chakra *w, struct chakra_node *n)
{
    struct json_at list;
    n->first = w->deps;
    PASS(json_optional(node, "data_deps", &list));
    if (!list.value)
        return STATUS_OK;
    PASS(json_get_array(&list, CHAKRA_DEPENDENCIES - w->deps, &n->deps));
    for (size_t i = 0; i < n->deps; i++) {
        struct json_at item = json_item(&list, i);
        int64_t id = 0;
        PASS(json_get_integer(&item, 0, INT64_MAX, &id));
        PASS(ARRAY_ROOM(w->dep, w->deps));
        w->dep[w->deps++] = (uint64_t)id;
    }
    return STATUS_OK;
}

static enum status read_node(const struct json_at *node, struct chakra *w)
{
    struct chakra_node n = {.name = ""};
    struct json_at name;
    int64_t id, type, flop = 0, bytes = 0;
    PASS(json_need_integer(node, "Id", 0, INT64_MAX, &id));
    PASS(json_need_integer(node, "NodeType", 0, COMM_COLL_NODE, &type));
    PASS(json_may_integer(node, "num_ops", 0, INT64_MAX, &flop));
    PASS(json_may_integer(node, "comm_size", 0, INT64_MAX, &bytes));
    PASS(json_may_real(node, "runtime", 0, 1e15, &n.duration_us));
    PASS(json_optional(node, "Name", &name));
    if (name.value)
        PASS(json_get_string(&name, &n.name));
    n.letters = strlen(n.name);
    n.id = (uint64_t)id;
    n.type = (uint64_t)type;
    n.flop = (uint64_t)flop;
    n.bytes = (uint64_t)bytes;
    PASS(read_deps(node, w, &n));
    PASS(ARRAY_ROOM(w->node, w->n));
    w->node[w->n++] = n;
    return STATUS_OK;
}

static enum status read(const struct json_at *root, const struct import_options *o,
                        struct model *out)
{
    enum status st;
    struct chakra w = {.path = root->document->path};
    struct json_at list;
    size_t n;
    TRY(import_check_options(o));
    TRY(json_field(root, graph_key, &list));
    TRY(json_get_array(&list, CHAKRA_NODES, &n));
    for (size_t i = 0; i < n; i++) {
        struct json_at node = json_item(&list, i);
        TRY(read_node(&node, &w));
    }
    TRY(chakra_build(&w, o, out));
out:
    chakra_free(&w);
    return st;
}

static bool recognises(const struct json_at *root)
{
    struct json_at list;
    return json_optional(root, graph_key, &list) == STATUS_OK && list.value;
}

const struct importer importer_chakra_json = {
    .name = "chakra-json",
    .summary = "Chakra execution trace of a rank, JSON with a workload_graph",
    .recognises_json = recognises,
    .read_json = read,
};
