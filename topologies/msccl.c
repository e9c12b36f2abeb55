/* MSCCL's elements as steps. */
#include "topologies/msccl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "topologies/xml.h"

static const char *const types[STEPS_TYPES] = {
    [STEPS_NOP] = "nop",
    [STEPS_SEND] = "s",
    [STEPS_RECV] = "r",
    [STEPS_RECV_COPY_SEND] = "rcs",
    [STEPS_RECV_REDUCE_SEND] = "rrs",
    [STEPS_RECV_REDUCE_COPY] = "rrc",
    [STEPS_RECV_REDUCE_COPY_SEND] = "rrcs",
    [STEPS_COPY] = "cpy",
    [STEPS_REDUCE] = "re",
};

static const struct {
    const char *name;
    enum collective_kind kind;
} kinds[] = {
    {"allreduce", COLLECTIVE_ALLREDUCE},
    {"allgather", COLLECTIVE_ALLGATHER},
    {"reduce_scatter", COLLECTIVE_REDUCESCATTER},
    {"reducescatter", COLLECTIVE_REDUCESCATTER},
    {"alltoall", COLLECTIVE_ALLTOALL},
    {"broadcast", COLLECTIVE_BROADCAST},
    {"reduce", COLLECTIVE_REDUCE},
};

/* An attribute that is a whole number from `least` to `most`. */
static enum status msccl_number(const char *path, const struct xml_element *e, const char *name,
                                int64_t least, int64_t most, int64_t *out)
{
    const char *value = xml_value(e, name);
    char *end;
    if (!value)
        return error_set(STATUS_PARSE, "%s:%zu: <%.40s> has no attribute %s", path, e->line,
                         e->name, name);
    long long n = strtoll(value, &end, 10);
    if (end == value || *end || n < least || n > most)
        return error_set(STATUS_PARSE, "%s:%zu: got %s='%.40s', expected %" PRId64 " to %" PRId64,
                         path, e->line, name, value, least, most);
    *out = n;
    return STATUS_OK;
}

/* The same where the attribute may be absent. */
static enum status msccl_option(const char *path, const struct xml_element *e, const char *name,
                                int64_t usual, int64_t most, int64_t *out)
{
    *out = usual;
    return xml_value(e, name) ? msccl_number(path, e, name, 0, most, out) : STATUS_OK;
}

static enum status expect_element(const char *path, const struct xml_element *e, const char *name)
{
    if (strcmp(e->name, name) != 0)
        return error_set(STATUS_PARSE, "%s:%zu: got <%.40s>, expected <%s>", path, e->line, e->name,
                         name);
    return STATUS_OK;
}

/* A rank, or -1 for none. */
static enum status read_peer(const struct steps_algorithm *a, const struct xml_element *e,
                             const char *name, uint32_t own, uint32_t *out)
{
    int64_t n;
    PASS(msccl_number(a->path, e, name, -1, (int64_t)a->ranks - 1, &n));
    if (n == own)
        return error_set(
            STATUS_PARSE,
            "%s:%zu: rank %u: attribute '%s' names this rank itself, expected another rank",
            a->path, e->line, own, name);
    *out = n < 0 ? STEPS_NONE : (uint32_t)n;
    return STATUS_OK;
}

/* "i", "o" or "s" and an offset; -1, of what is somewhere else, is as good as 0. */
static enum status read_place(const struct steps_algorithm *a, const struct xml_element *e,
                              const char *buffer, const char *offset, struct steps_place *out)
{
    const char *value = xml_value(e, buffer);
    int64_t n;
    if (!value || !*value || value[1] || !strchr("ios", *value))
        return error_set(STATUS_PARSE, "%s:%zu: got %s='%.40s', expected i, o or s", a->path,
                         e->line, buffer, value ? value : "");
    PASS(msccl_number(a->path, e, offset, -1, STEPS_CHUNKS, &n));
    *out = (struct steps_place){*value == 'i'   ? STEPS_INPUT
                                : *value == 'o' ? STEPS_OUTPUT
                                                : STEPS_SCRATCH,
                                n < 0 ? 0 : (uint32_t)n};
    return STATUS_OK;
}

static enum status msccl_read_step(const struct steps_algorithm *a, const struct xml_element *e,
                                   int64_t number, struct steps_step *out)
{
    const char *path = a->path, *type = xml_value(e, "type");
    struct steps_step s = {.line = e->line};
    int64_t at, count, told, block, step;
    PASS(expect_element(path, e, "step"));
    PASS(msccl_number(path, e, "s", number, number, &at));
    while (s.type < STEPS_TYPES && (!type || strcmp(type, types[s.type]) != 0))
        s.type++;
    if (s.type == STEPS_TYPES)
        return error_set(
            STATUS_PARSE,
            "%s:%zu: got type '%.40s', expected nop, s, r, rcs, rrs, rrc, rrcs, cpy or re", path,
            e->line, type ? type : "");
    if (s.type != STEPS_NOP) {
        PASS(read_place(a, e, "srcbuf", "srcoff", &s.source));
        PASS(read_place(a, e, "dstbuf", "dstoff", &s.target));
    }
    PASS(msccl_option(path, e, "cnt", 1, STEPS_CHUNKS, &count));
    if (count == 0 && s.type != STEPS_NOP)
        return error_set(STATUS_PARSE, "%s:%zu: got cnt='0', expected 1 or more", path, e->line);
    PASS(msccl_option(path, e, "hasdep", 0, 1, &told));
    PASS(msccl_number(path, e, "depid", -1, STEPS_BLOCKS - 1, &block));
    PASS(msccl_number(path, e, "deps", -1, STEPS_CHUNKS, &step));
    s.count = (uint32_t)count;
    s.told = told;
    s.wait_block = block < 0 || step < 0 ? STEPS_NONE : (uint32_t)block;
    s.wait_step = s.wait_block == STEPS_NONE ? STEPS_NONE : (uint32_t)step;
    *out = s;
    return STATUS_OK;
}

static enum status msccl_read_block(struct steps_algorithm *a, const struct xml_element *e,
                                    uint32_t rank, size_t *blocks)
{
    struct steps_block b = {.rank = rank, .first = a->steps, .line = e->line};
    int64_t id, channel;
    PASS(expect_element(a->path, e, "tb"));
    size_t number = *blocks - a->block_start[rank];
    if (number == STEPS_BLOCKS)
        return error_set(STATUS_PARSE, "%s:%zu: rank %u: more than %d thread blocks", a->path,
                         e->line, rank, STEPS_BLOCKS);
    PASS(msccl_number(a->path, e, "id", (int64_t)number, (int64_t)number, &id));
    PASS(read_peer(a, e, "send", rank, &b.send));
    PASS(read_peer(a, e, "recv", rank, &b.recv));
    PASS(msccl_number(a->path, e, "chan", 0, 1023, &channel));
    b.channel = (uint32_t)channel;
    for (const struct xml_element *s = e->first; s; s = s->next) {
        PASS(ARRAY_ROOM(a->step, a->steps));
        PASS(msccl_read_step(a, s, (int64_t)(a->steps - b.first), &a->step[a->steps]));
        a->steps++;
    }
    b.end = a->steps;
    PASS(ARRAY_ROOM(a->block, *blocks));
    a->block[(*blocks)++] = b;
    return STATUS_OK;
}

/* Steps that are waited for are there, and tell. */
static enum status check_waits(const struct steps_algorithm *a, uint32_t rank)
{
    size_t first = a->block_start[rank], blocks = a->block_start[rank + 1] - first;
    for (size_t k = a->block[first].first; blocks > 0 && k < a->block[first + blocks - 1].end;
         k++) {
        const struct steps_step *s = &a->step[k];
        if (s->wait_block == STEPS_NONE)
            continue;
        const struct steps_block *b =
            s->wait_block < blocks ? &a->block[first + s->wait_block] : NULL;
        if (!b || s->wait_step >= b->end - b->first)
            return error_set(
                STATUS_PARSE,
                "%s:%zu: rank %u: waits for step %u of thread block %u, which does not exist",
                a->path, s->line, rank, s->wait_step, s->wait_block);
        if (!a->step[b->first + s->wait_step].told)
            return error_set(STATUS_PARSE,
                             "%s:%zu: rank %u: waits for step %u of thread block %u, which has "
                             "hasdep=0 and so never signals",
                             a->path, s->line, rank, s->wait_step, s->wait_block);
    }
    return STATUS_OK;
}

static enum status msccl_read_ranks(struct steps_algorithm *a, const struct xml_element *root)
{
    size_t blocks = 0;
    uint32_t rank = 0;
    PASS(ARRAY_NEW(a->scratch, a->ranks));
    PASS(ARRAY_NEW(a->block_start, (size_t)a->ranks + 1));
    for (const struct xml_element *e = root->first; e; e = e->next, rank++) {
        int64_t id, scratch;
        PASS(expect_element(a->path, e, "gpu"));
        if (rank == a->ranks)
            return error_set(STATUS_PARSE, "%s:%zu: more <gpu> elements than ngpus=%u", a->path,
                             e->line, a->ranks);
        PASS(msccl_number(a->path, e, "id", rank, rank, &id));
        PASS(msccl_option(a->path, e, "s_chunks", 0, STEPS_CHUNKS, &scratch));
        a->scratch[rank] = (uint32_t)scratch;
        for (const struct xml_element *b = e->first; b; b = b->next)
            PASS(msccl_read_block(a, b, rank, &blocks));
        a->block_start[rank + 1] = blocks;
        PASS(check_waits(a, rank));
    }
    if (rank < a->ranks)
        return error_set(STATUS_PARSE, "%s:%zu: got %u <gpu> elements, expected ngpus=%u", a->path,
                         root->line, rank, a->ranks);
    return STATUS_OK;
}

static enum status msccl_read_head(struct steps_algorithm *a, const struct xml_element *root)
{
    const char *name = xml_value(root, "name"), *coll = xml_value(root, "coll");
    int64_t ranks, chunks, in_place;
    size_t k = 0, n = sizeof kinds / sizeof *kinds;
    PASS(expect_element(a->path, root, "algo"));
    PASS(text_copy(name ? name : "", &a->name));
    while (k < n && (!coll || strcmp(coll, kinds[k].name) != 0))
        k++;
    if (k == n)
        return error_set(coll && !strcmp(coll, "custom") ? STATUS_UNSUPPORTED : STATUS_PARSE,
                         "%s:%zu: got coll='%.40s', expected allreduce, allgather, reduce_scatter, "
                         "alltoall, broadcast or reduce",
                         a->path, root->line, coll ? coll : "");
    a->kind = (uint8_t)kinds[k].kind;
    PASS(msccl_number(a->path, root, "ngpus", 2, STEPS_RANKS, &ranks));
    PASS(msccl_number(a->path, root, "nchunksperloop", 1, STEPS_CHUNKS, &chunks));
    PASS(msccl_option(a->path, root, "inplace", 0, 1, &in_place));
    PASS(msccl_option(a->path, root, "minBytes", 0, INT64_MAX, &a->least_bytes));
    PASS(msccl_option(a->path, root, "maxBytes", 0, INT64_MAX, &a->most_bytes));
    bool divided = a->kind == COLLECTIVE_ALLGATHER || a->kind == COLLECTIVE_REDUCESCATTER ||
                   a->kind == COLLECTIVE_ALLTOALL;
    if (divided && chunks % ranks != 0)
        return error_set(STATUS_PARSE,
                         "%s:%zu: nchunksperloop=%" PRId64 " is not a multiple of ngpus=%" PRId64,
                         a->path, root->line, chunks, ranks);
    a->ranks = (uint32_t)ranks;
    a->chunks = (uint32_t)chunks;
    a->in_place = in_place && a->kind != COLLECTIVE_ALLTOALL;
    return STATUS_OK;
}

enum status msccl_read(const char *path, struct steps_algorithm *out)
{
    enum status st;
    char *text = NULL;
    size_t length;
    struct arena arena = {0};
    struct xml_element *root = NULL;
    struct steps_algorithm a = {0};
    TRY(file_read(path, &text, &length));
    if (text[strspn(text, " \t\r\n")] == '{') {
        TRY(msccl_parse_json(path, text, length, &a));
        MOVE(out, a);
        goto out;
    }
    TRY(xml_read(path, text, length, &arena, &root));
    if (!root)
        FAIL(STATUS_PARSE, "%s:1: not an XML file, expected <algo>", path);
    TRY(text_copy(path, &a.path));
    TRY(msccl_read_head(&a, root));
    TRY(msccl_read_ranks(&a, root));
    TRY(steps_check(&a));
    MOVE(out, a);
out:
    steps_free(&a);
    arena_free(&arena);
    free(text);
    return st;
}
