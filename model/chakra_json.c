/* The importer of Chakra's execution traces in JSON. As Chakra's feeder reads them besides the
 * protocol buffers:
 *
 *     {"workload_graph": [{"Id": 216, "Name": "aten::mm", "NodeType": 4, "data_deps": [215],
 *     "runtime": 28}, ...]}
 *
 * where runtime is in microseconds and nodes may have num_ops and comm_size; and as chakra_jsonizer
 * prints an .et, the metadata and then one object after the other, whose zeroes are left out:
 *
 *     {"version": "0.0.4"}{"id": "216", "name": "aten::mm", "type": "COMP_NODE", "dataDeps":
 *     ["215"], "durationMicros": "28",
 *      "attr": [{"name": "num_ops", "int64Val": "4096"}]}
 *
 * What depends on what by control is not read.
 *
 * Source: mlcommons/chakra, src/feeder/json_node.cpp at 3a65751, src/jsonizer/jsonizer.py at
 * 11d2d3f; numbers of 64 bits are texts in the JSON of protocol buffers (ProtoJSON). */
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "model/chakra.h"
#include "model/import.h"

static const char graph_key[] = "workload_graph";

/* What the two forms call the same. */
struct chakra_names {
    const char *id, *name, *type, *deps, *duration;
};
static const struct chakra_names feeder = {"Id", "Name", "NodeType", "data_deps", "runtime"},
                                 jsonizer = {"id", "name", "type", "dataDeps", "durationMicros"};

/* A whole number, or one in a text. */
static enum status get_whole(const struct json_at *at, uint64_t *out)
{
    const char *text;
    int64_t number = 0;
    if (json_kind(at) == JSON_IS_TEXT) {
        PASS(json_get_string(at, &text));
        if (!text_count(text, UINT64_MAX, out))
            return json_error(at, "got '%.40s', expected a whole number", text);
        return STATUS_OK;
    }
    PASS(json_get_integer(at, 0, INT64_MAX, &number));
    *out = (uint64_t)number;
    return STATUS_OK;
}

static enum status may_whole(const struct json_at *object, const char *key, uint64_t *out)
{
    struct json_at at;
    PASS(json_optional(object, key, &at));
    return at.value ? get_whole(&at, out) : STATUS_OK;
}

static enum status chakra_json_read_deps(const struct json_at *list, struct chakra *w,
                                         struct chakra_node *n)
{
    PASS(json_get_array(list, SIZE_MAX, &n->deps));
    for (size_t i = 0; i < n->deps; i++) {
        struct json_at item = json_item(list, i);
        uint64_t id = 0;
        PASS(get_whole(&item, &id));
        PASS(chakra_add_dependency(w, id));
    }
    return STATUS_OK;
}

/* Types by their names; those that neither compute nor communicate are one. */
static enum status get_type(const struct json_at *at, uint64_t *out)
{
    static const char *const name[] = {[COMP_NODE] = "COMP_NODE",
                                       [COMM_SEND_NODE] = "COMM_SEND_NODE",
                                       [COMM_SEND_NODE + 1] = "COMM_RECV_NODE",
                                       [COMM_COLL_NODE] = "COMM_COLL_NODE"};
    const char *text;
    int64_t number = 0;
    if (json_kind(at) != JSON_IS_TEXT) {
        PASS(json_get_integer(at, 0, COMM_COLL_NODE, &number));
        *out = (uint64_t)number;
        return STATUS_OK;
    }
    PASS(json_get_string(at, &text));
    for (size_t k = COMP_NODE; k < sizeof name / sizeof *name; k++)
        if (strcmp(text, name[k]) == 0)
            *out = k;
    return STATUS_OK;
}

/* {"name": "comm_size", "int64Val": "4096"}: one member besides the name has the value. */
static enum status chakra_json_read_attribute(const struct json_at *attribute,
                                              struct chakra_node *n)
{
    const char *text = "";
    struct json_at name;
    PASS(json_optional(attribute, "name", &name));
    if (name.value)
        PASS(json_get_string(&name, &text));
    uint64_t *into = strcmp(text, "num_ops") == 0     ? &n->flop
                     : strcmp(text, "comm_size") == 0 ? &n->bytes
                                                      : NULL;
    for (struct json_at at = json_first(attribute); into && at.key; at = json_next(&at))
        if (strcmp(at.key, "name") != 0 && strcmp(at.key, "docString") != 0)
            PASS(get_whole(&at, into));
    return STATUS_OK;
}

static enum status chakra_json_read_attributes(const struct json_at *node, struct chakra_node *n)
{
    struct json_at list;
    size_t attributes = 0;
    PASS(json_optional(node, "attr", &list));
    if (list.value)
        PASS(json_get_array(&list, SIZE_MAX, &attributes));
    for (size_t i = 0; i < attributes; i++) {
        struct json_at attribute = json_item(&list, i);
        PASS(chakra_json_read_attribute(&attribute, n));
    }
    return STATUS_OK;
}

static enum status chakra_json_read_node(const struct json_at *node, const struct chakra_names *k,
                                         struct chakra *w)
{
    struct chakra_node n = {.name = "", .first = w->deps};
    struct json_at at;
    uint64_t duration_us = 0;
    if (k == &feeder)
        PASS(json_field(node, k->id, &at)); /* the other form leaves zeroes out */
    PASS(may_whole(node, k->id, &n.id));
    PASS(json_field(node, k->type, &at));
    PASS(get_type(&at, &n.type));
    PASS(json_optional(node, k->name, &at));
    if (at.value)
        PASS(json_get_string(&at, &n.name));
    n.letters = strlen(n.name);
    PASS(json_optional(node, k->duration, &at));
    if (json_kind(&at) == JSON_IS_NUMBER)
        PASS(json_get_real(&at, 0, 1e15, &n.duration_us));
    else if (at.value) {
        PASS(get_whole(&at, &duration_us));
        n.duration_us = (double)duration_us;
    }
    PASS(may_whole(node, "num_ops", &n.flop));
    PASS(may_whole(node, "comm_size", &n.bytes));
    PASS(chakra_json_read_attributes(node, &n));
    PASS(json_optional(node, k->deps, &at));
    if (at.value)
        PASS(chakra_json_read_deps(&at, w, &n));
    return chakra_add_node(w, &n);
}

/* The nodes of a list, from the first-th on. */
static enum status chakra_json_read_nodes(const struct json_at *list, size_t first,
                                          const struct chakra_names *k,
                                          const struct import_options *o, struct model *out)
{
    enum status st;
    struct chakra w = {.path = list->document->path};
    size_t n;
    TRY(import_check_options(o));
    TRY(json_get_array(list, SIZE_MAX, &n));
    for (size_t i = first; i < n; i++) {
        struct json_at node = json_item(list, i);
        TRY(chakra_json_read_node(&node, k, &w));
    }
    TRY(chakra_build(&w, o, out));
out:
    chakra_free(&w);
    return st;
}

static enum status chakra_json_read(const struct json_at *root, const struct import_options *o,
                                    struct model *out)
{
    struct json_at list;
    PASS(json_field(root, graph_key, &list));
    return chakra_json_read_nodes(&list, 0, &feeder, o, out);
}

static bool chakra_json_recognises(const struct json_at *root)
{
    struct json_at list;
    return json_optional(root, graph_key, &list) == STATUS_OK && list.value;
}

const struct importer importer_chakra_json = {
    .name = "chakra-json",
    .summary = "Chakra execution trace of a rank, JSON with a workload_graph",
    .recognises_json = chakra_json_recognises,
    .read_json = chakra_json_read,
};

/* ---- one object after the other */

/* Behind the object that begins at `at`, and blanks; NULL: it does not end. */
static const char *behind_object(const char *at, const char *end)
{
    size_t depth = 0;
    bool text = false;
    for (; at < end; at++) {
        if (text && *at == '\\')
            at++;
        else if (*at == '"')
            text = !text;
        else if (!text && *at == '{')
            depth++;
        else if (!text && *at == '}' && --depth == 0) {
            for (at++; at < end && strchr(" \t\r\n", *at) && *at; at++) {
            }
            return at;
        }
    }
    return NULL;
}

static bool recognises_objects(const char *text, size_t length)
{
    const char *end = text + length, *at = text + strspn(text, " \t\r\n");
    const char *second = at < end && *at == '{' ? behind_object(at, end) : NULL;
    return second && second < end && *second == '{';
}

/* As a list: brackets around, and commas between the objects. */
static enum status parse_objects(const char *path, const char *text, size_t length,
                                 const struct import_options *o, struct model *out)
{
    enum status st;
    struct json_document d = {0};
    const char *end = text + length, *at = text + strspn(text, " \t\r\n");
    char *list = NULL;
    size_t n = 0, objects = 1;
    for (const char *c = text; c < end; c++)
        objects += *c == '{';
    TRY(file_check_size(path, length, MOST_JSON));
    TRY(ARRAY_NEW(list, length + objects + 2));
    for (const char *next; at < end; at = next) {
        next = *at == '{' ? behind_object(at, end) : NULL;
        if (!next)
            next = end; /* what is wrong with it says JSON's reader */
        list[n] = n == 0 ? '[' : ',';
        n++;
        memcpy(list + n, at, (size_t)(next - at));
        n += (size_t)(next - at);
    }
    list[n++] = ']';
    TRY(json_parse(path, list, n, NULL, 0, &d));
    struct json_at root = json_root(&d);
    TRY(chakra_json_read_nodes(&root, 1, &jsonizer, o, out));
out:
    json_document_free(&d);
    free(list);
    return st;
}

const struct importer importer_chakra_jsonizer = {
    .name = "chakra-jsonizer",
    .summary = "Chakra execution trace of a rank, as chakra_jsonizer prints it",
    .recognises = recognises_objects,
    .parse = parse_objects,
};
