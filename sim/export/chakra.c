/* chakra - execution traces, DIR/foreline.RANK.et, for ASTRA-sim and its relatives.
 *
 * Protocol-buffer wire format by hand: every message after its length; GlobalMetadata first, then
 * a Node for each op. Field numbers: mlcommons/chakra, schema/protobuf/et_def.proto at 6dc63e1,
 * schema 0.0.4; kinds of attributes: its src/feeder/et_feeder_node.cpp at 02da5d0.
 * All dependencies are data_deps: feeders up to 2024 read no others. Attributes of ours, which
 * readers of others skip, keep what the schema rounds or splits: `seconds` of compute; of a
 * collective `bytes` if its size does not divide by its members, `calls` in a row if several. */
#include "core/base/array.h"
#include "sim/export/export.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/provenance.h"

enum wire { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_LENGTH = 2 };
enum { COMP_NODE = 4, COMM_SEND_NODE = 5, COMM_RECV_NODE = 6, COMM_COLL_NODE = 7 };
enum { METADATA_VERSION = 1, METADATA_ATTR = 2 };
enum { NODE_ID = 1, NODE_NAME = 2, NODE_TYPE = 3, NODE_DATA_DEPS = 5, NODE_DURATION = 7 };
enum { NODE_ATTR = 10 };
enum {
    ATTR_NAME = 1,
    ATTR_DOUBLE = 3,
    ATTR_INT32 = 7,
    ATTR_INT64 = 9,
    ATTR_BOOL = 27,
    ATTR_STRING = 29
};

/* CollectiveCommType */
static const int collective_type[OP_KINDS] = {
    [OP_ALLREDUCE] = 0, [OP_ALLGATHER] = 2, [OP_ALLTOALL] = 6, [OP_REDUCESCATTER] = 7,
    [OP_BROADCAST] = 5, [OP_REDUCE] = 1,    [OP_GATHER] = 3,   [OP_SCATTER] = 4,
};

/* A message while it is built. */
struct buffer {
    unsigned char *data; /* owned */
    size_t n, room;
    bool failed; /* out of memory: what follows is dropped */
};

static void chakra_export_put(struct buffer *b, const void *data, size_t n)
{
    b->failed = b->failed || ARRAY_RESERVE(b->data, b->n + n, b->room) != STATUS_OK;
    if (b->failed || n == 0)
        return;
    memcpy(b->data + b->n, data, n);
    b->n += n;
}

static void put_varint(struct buffer *b, uint64_t value)
{
    unsigned char byte[10];
    size_t n = 0;
    for (; value > 0x7f; value >>= 7)
        byte[n++] = (unsigned char)(value | 0x80);
    byte[n++] = (unsigned char)value;
    chakra_export_put(b, byte, n);
}

/* Field number and wire type, as every field begins. */
static void chakra_export_put_key(struct buffer *b, uint32_t field, enum wire wire)
{
    put_varint(b, (uint64_t)field << 3 | wire);
}

/* A field that is a whole number. */
static void chakra_export_put_number(struct buffer *b, uint32_t field, uint64_t value)
{
    chakra_export_put_key(b, field, WIRE_VARINT);
    put_varint(b, value);
}

/* A field that is a text or a message, after its length. */
static void put_bytes(struct buffer *b, uint32_t field, const void *data, size_t n)
{
    chakra_export_put_key(b, field, WIRE_LENGTH);
    put_varint(b, n);
    chakra_export_put(b, data, n);
}

static void chakra_export_put_text(struct buffer *b, uint32_t field, const char *text)
{
    put_bytes(b, field, text, strlen(text));
}

/* An export under way; the buffers hold the message and the part of it that are being put
 * together. */
struct chakra_writer {
    const struct program *p;
    const char *folder;
    uint64_t *node; /* [ops] id of the node that ends an op, within its rank */
    uint64_t nodes; /* of the rank so far */
    struct buffer message, part;
};

/* An attribute's value is a field of its own; `field` of the message holds the whole. */
static void put_attr(struct chakra_writer *c, uint32_t field, const char *name, uint32_t kind,
                     uint64_t value)
{
    c->part.n = 0;
    chakra_export_put_text(&c->part, ATTR_NAME, name);
    chakra_export_put_number(&c->part, kind, value);
    put_bytes(&c->message, field, c->part.data, c->part.n);
}

/* Little-endian, as the wire format has it. */
static void put_seconds(struct chakra_writer *c, double seconds)
{
    uint64_t bits;
    unsigned char byte[8];
    memcpy(&bits, &seconds, sizeof bits);
    for (int k = 0; k < 8; k++)
        byte[k] = (unsigned char)(bits >> 8 * k);
    c->part.n = 0;
    chakra_export_put_text(&c->part, ATTR_NAME, "seconds");
    chakra_export_put_key(&c->part, ATTR_DOUBLE, WIRE_FIXED64);
    chakra_export_put(&c->part, byte, sizeof byte);
    put_bytes(&c->message, NODE_ATTR, c->part.data, c->part.n);
}

/* An attribute whose value is a text. */
static void put_text_attr(struct chakra_writer *c, uint32_t field, const char *name,
                          const char *text)
{
    c->part.n = 0;
    chakra_export_put_text(&c->part, ATTR_NAME, name);
    chakra_export_put_text(&c->part, ATTR_STRING, text);
    put_bytes(&c->message, field, c->part.data, c->part.n);
}

/* Write the message after its length, and begin an empty one. */
static enum status end_message(struct chakra_writer *c, FILE *to)
{
    if (c->message.failed || c->part.failed)
        return error_set(STATUS_NOMEM, "out of memory for the export of %zu ops", c->p->ops);
    c->part.n = 0;
    put_varint(&c->part, c->message.n);
    if (c->part.failed)
        return error_set(STATUS_NOMEM, "out of memory for the export of %zu ops", c->p->ops);
    fwrite(c->part.data, 1, c->part.n, to);
    fwrite(c->message.data, 1, c->message.n, to);
    c->message.n = 0;
    return STATUS_OK;
}

/* Dependencies are packed; `also` is one more, or UINT64_MAX. */
static void put_deps(struct chakra_writer *c, size_t i, uint64_t also)
{
    const struct program *p = c->p;
    bool listed = also == UINT64_MAX;
    c->part.n = 0;
    for (uint32_t d = p->op[i].dep_start; d < p->op[i + 1].dep_start; d++) {
        listed = listed || c->node[p->dep[d]] == also;
        put_varint(&c->part, c->node[p->dep[d]]);
    }
    if (!listed)
        put_varint(&c->part, also);
    if (c->part.n > 0)
        put_bytes(&c->message, NODE_DATA_DEPS, c->part.data, c->part.n);
}

/* How many members' inputs the op's bytes are. */
static uint64_t chakra_export_parts(const struct chakra_writer *c, const struct program_op *o)
{
    return o->kind == OP_ALLGATHER ? c->p->group_start[o->peer + 1] - c->p->group_start[o->peer]
                                   : 1;
}

/* What readers count as a collective's size: the input of one member, which of an all-gather is a
 * part of the result that nccl-tests count. */
static uint64_t chakra_export_size_of(const struct chakra_writer *c, const struct program_op *o)
{
    uint64_t n = chakra_export_parts(c, o), bytes = (uint64_t)o->bytes;
    return bytes / n + (bytes % n > 0);
}

/* Size and partners of a message, or size, kind and group of a collective. Groups count from 1. */
static void put_communication(struct chakra_writer *c, uint32_t rank, const struct program_op *o)
{
    char group[16];
    put_attr(c, NODE_ATTR, "comm_size", ATTR_INT64, chakra_export_size_of(c, o));
    if (op_is_collective(o)) {
        snprintf(group, sizeof group, "%" PRIu32, o->peer + 1);
        put_attr(c, NODE_ATTR, "comm_type", ATTR_INT64, (uint64_t)collective_type[o->kind]);
        put_text_attr(c, NODE_ATTR, "pg_name", group);
        if (o->count > 1)
            put_attr(c, NODE_ATTR, "calls", ATTR_INT64, o->count);
        if ((uint64_t)o->bytes % chakra_export_parts(c, o) > 0)
            put_attr(c, NODE_ATTR, "bytes", ATTR_INT64, (uint64_t)o->bytes);
        return;
    }
    bool sends = o->kind == OP_SEND;
    put_attr(c, NODE_ATTR, "comm_src", ATTR_INT32, sends ? rank : o->peer);
    put_attr(c, NODE_ATTR, "comm_dst", ATTR_INT32, sends ? o->peer : rank);
    put_attr(c, NODE_ATTR, "comm_tag", ATTR_INT32, o->tag);
}

/* `also`: node of the rank's compute op before, or of the call before; UINT64_MAX: none. */
static enum status chakra_export_put_node(struct chakra_writer *c, uint32_t rank, size_t i,
                                          uint64_t also, FILE *to)
{
    const struct program_op *o = &c->p->op[i];
    char label[OP_LABEL];
    int type = op_computes(o)        ? COMP_NODE
               : o->kind == OP_SEND  ? COMM_SEND_NODE
               : op_is_collective(o) ? COMM_COLL_NODE
                                     : COMM_RECV_NODE;
    chakra_export_put_number(&c->message, NODE_ID, c->nodes);
    chakra_export_put_text(&c->message, NODE_NAME, op_label(o, label));
    chakra_export_put_number(&c->message, NODE_TYPE, (uint64_t)type);
    put_deps(c, i, also);
    if (op_computes(o))
        chakra_export_put_number(&c->message, NODE_DURATION, (uint64_t)llround(o->seconds * 1e6));
    put_attr(c, NODE_ATTR, "is_cpu_op", ATTR_BOOL, 0);
    if (op_computes(o))
        put_seconds(c, o->seconds);
    else
        put_communication(c, rank, o);
    c->node[i] = c->nodes++;
    return end_message(c, to);
}

/* A node for each op; collectives that are called several times are a chain of so many nodes. */
static enum status chakra_export_put_nodes(struct chakra_writer *c, uint32_t rank, FILE *to)
{
    const struct program *p = c->p;
    uint64_t computed = UINT64_MAX;
    c->nodes = 0;
    for (size_t i = p->op_start[rank]; i < p->op_start[rank + 1]; i++) {
        const struct program_op *o = &p->op[i];
        PASS(chakra_export_put_node(c, rank, i, op_computes(o) ? computed : UINT64_MAX, to));
        for (uint32_t call = 1; op_is_collective(o) && call < o->count; call++)
            PASS(chakra_export_put_node(c, rank, i, c->node[i], to));
        computed = op_computes(o) ? c->node[i] : computed;
    }
    return STATUS_OK;
}

/* The file of one rank: metadata first, then its nodes in list order. */
static enum status write_rank(struct chakra_writer *c, uint32_t rank, const struct provenance *by)
{
    enum status st;
    struct file_out file = {0};
    size_t room = strlen(c->folder) + 40;
    char *path = malloc(room);
    if (!path)
        return error_set(STATUS_NOMEM, "out of memory for the export of %zu ops", c->p->ops);
    snprintf(path, room, "%s/foreline.%" PRIu32 ".et", c->folder, rank);
    TRY(file_create(path, &file));
    chakra_export_put_text(&c->message, METADATA_VERSION, "0.0.4");
    put_text_attr(c, METADATA_ATTR, "generator", by->version);
    put_text_attr(c, METADATA_ATTR, "command", by->command);
    put_attr(c, METADATA_ATTR, "seed", ATTR_INT64, by->seed);
    put_text_attr(c, METADATA_ATTR, "device", c->p->rank[rank].name);
    put_attr(c, METADATA_ATTR, "attained", ATTR_BOOL, c->p->attained);
    TRY(end_message(c, file.stream));
    TRY(chakra_export_put_nodes(c, rank, file.stream));
    TRY(file_commit(&file));
out:
    file_discard(&file);
    free(path);
    return st;
}

/* ASTRA-sim's --comm-group-configuration: {"1": [ranks], ...}. */
static enum status write_groups(const struct chakra_writer *c)
{
    enum status st;
    const struct program *p = c->p;
    struct file_out file = {0};
    size_t room = strlen(c->folder) + 40;
    char *path = malloc(room), name[16];
    if (!path)
        return error_set(STATUS_NOMEM, "out of memory for the export of %zu process groups",
                         p->groups);
    snprintf(path, room, "%s/comm_group.json", c->folder);
    TRY(file_create(path, &file));
    struct json_writer w = {.stream = file.stream};
    json_open_object(&w, NULL, false);
    for (uint32_t g = 0; g < p->groups; g++) {
        snprintf(name, sizeof name, "%" PRIu32, g + 1);
        json_open_array(&w, name, true);
        for (size_t k = p->group_start[g]; k < p->group_start[g + 1]; k++)
            json_put_integer(&w, NULL, p->member[k]);
        json_close(&w);
    }
    json_close(&w);
    TRY(file_commit(&file));
out:
    file_discard(&file);
    free(path);
    return st;
}

/* A folder with groups and without a rank's trace of ours has the groups of somebody else. */
static enum status chakra_export_check_groups(const char *folder)
{
    char groups[PATH_MAX], trace[PATH_MAX];
    snprintf(groups, sizeof groups, "%s/comm_group.json", folder);
    snprintf(trace, sizeof trace, "%s/foreline.0.et", folder);
    if (access(groups, F_OK) == 0 && access(trace, F_OK) != 0)
        return error_set(STATUS_IO,
                         "%s: exists and was not written by foreline; choose another directory",
                         groups);
    return STATUS_OK;
}

/* A file for each rank; those that are written stay when a later one fails. */
static enum status write_chakra(const struct program *p, const struct topology *t,
                                const struct export_options *options, const char *path,
                                const struct provenance *by)
{
    enum status st;
    struct chakra_writer c = {.p = p, .folder = path};

    (void)t;
    (void)options; /* the simulator that reads it chooses the algorithm */
    if (p->folded)
        return error_set(
            STATUS_UNSUPPORTED,
            "a folded program (one rank stands for several equal ones) cannot be exported");
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return error_set(STATUS_IO, "%s: %s", path, strerror(errno));
    PASS(chakra_export_check_groups(path));
    PASS(ARRAY_NEW(c.node, p->ops + 1));
    for (uint32_t r = 0; r < p->ranks; r++)
        TRY(write_rank(&c, r, by));
    TRY(write_groups(&c));
out:
    free(c.node);
    free(c.message.data);
    free(c.part.data);
    return st;
}

const struct exporter exporter_chakra = {
    .name = "chakra",
    .target = "DIR",
    .summary = "Chakra execution traces, one file per rank",
    .write = write_chakra,
};
