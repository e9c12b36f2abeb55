/* Algorithms as the synthesizers of SCCL, MSCCL and TACCL write them: steps of sends. All sends of
 * a step begin with what was there before it. Format: github.com/microsoft/taccl
 * (taccl/serialization.py), whose objects have "sccl_type" or "msccl_type"; "input_map",
 * "topology", "instance" and the rounds of a step say nothing that counts here. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/json.h"
#include "core/base/order.h"
#include "core/base/text.h"
#include "topologies/msccl.h"

/* Chunks have an address; the ranks that have a chunk of one in the beginning are added up. */
struct json_chunk {
    uint32_t owner, address;
    size_t ends;  /* ranks that have it in the end */
    uint32_t end; /* the last one of them */
};

struct json_sends {
    struct steps_algorithm *a;
    uint32_t addresses;
    size_t words, chunks;
    struct json_chunk *chunk; /* [chunks] */
    uint64_t *ends;           /* [chunks][words] ranks that have it in the end */
    uint64_t *has;            /* [ranks][addresses][words] whose parts a rank has */
    struct json_send {
        uint32_t from, to, address;
    } * send; /* [sends] of a step */
    size_t sends;
    uint64_t *sent; /* [sends][words] */
};

static uint64_t *parts_of(const struct json_sends *x, uint32_t rank, uint32_t address)
{
    return &x->has[((size_t)rank * x->addresses + address) * x->words];
}

static bool has_bit(const uint64_t *set, uint32_t bit)
{
    return (set[bit / 64] >> bit % 64 & 1) != 0;
}

static void set_bit(uint64_t *set, uint32_t bit)
{
    set[bit / 64] |= UINT64_C(1) << bit % 64;
}

/* ---- chunks */

/* The ranks of chunk k's `pre` or `post`, as bits; the last one. */
static enum status read_ranks(const struct json_sends *x, const struct json_at *chunk,
                              const char *key, uint64_t *set, size_t *n, uint32_t *last)
{
    struct json_at list;
    PASS(json_field(chunk, key, &list));
    PASS(json_get_array(&list, x->a->ranks, n));
    for (size_t i = 0; i < *n; i++) {
        struct json_at item = json_item(&list, i);
        int64_t rank;
        PASS(json_get_integer(&item, 0, (int64_t)x->a->ranks - 1, &rank));
        if (has_bit(set, (uint32_t)rank))
            return json_error(&item, "rank %" PRId64 " is listed twice", rank);
        set_bit(set, (uint32_t)rank);
        *last = (uint32_t)rank;
    }
    return STATUS_OK;
}

static enum status read_chunk(struct json_sends *x, const struct json_at *at, size_t k)
{
    enum status st;
    int64_t address = 0;
    size_t n;
    uint64_t *owner = NULL;
    struct json_chunk *c = &x->chunk[k];
    TRY(ARRAY_NEW(owner, x->words));
    TRY(read_ranks(x, at, "pre", owner, &n, &c->owner));
    if (n != 1) {
        st = json_error(at, "%zu ranks have the chunk at the start, expected 1", n);
        goto out;
    }
    TRY(read_ranks(x, at, "post", &x->ends[k * x->words], &c->ends, &c->end));
    TRY(json_need_integer(at, "addr", 0, (int64_t)x->chunks - 1, &address));
    c->address = (uint32_t)address;
    x->addresses = c->address >= x->addresses ? c->address + 1 : x->addresses;
out:
    free(owner);
    return st;
}

static enum status fill_parts(struct json_sends *x, const struct json_at *collective)
{
    if ((uint64_t)x->a->ranks * x->addresses * x->words > STEPS_WORDS)
        return json_error(collective, "got %u ranks x %u chunks, expected a product of at most %zu",
                          x->a->ranks, x->addresses, (size_t)(STEPS_WORDS / x->words));
    PASS(ARRAY_NEW(x->has, (size_t)x->a->ranks * x->addresses * x->words));
    for (size_t k = 0; k < x->chunks; k++) {
        uint64_t *parts = parts_of(x, x->chunk[k].owner, x->chunk[k].address);
        if (has_bit(parts, x->chunk[k].owner))
            return json_error(collective, "chunk %zu: rank %u has another chunk at address %u", k,
                              x->chunk[k].owner, x->chunk[k].address);
        set_bit(parts, x->chunk[k].owner);
    }
    return STATUS_OK;
}

/* ---- which collective it is: by where chunks begin and end */

/* Does every rank begin (or else end) as many chunks? */
static enum status is_even(const struct json_sends *x, bool begins, bool *out)
{
    size_t *n = NULL;
    PASS(ARRAY_NEW(n, x->a->ranks));
    for (size_t k = 0; k < x->chunks; k++)
        n[begins ? x->chunk[k].owner : x->chunk[k].end]++;
    *out = true;
    for (uint32_t r = 1; r < x->a->ranks; r++)
        *out = *out && n[r] == n[0];
    free(n);
    return STATUS_OK;
}

static enum status find_kind(struct json_sends *x, const struct json_at *collective)
{
    size_t all = 0, one = 0, from_first = 0, to_first = 0;
    bool begin_even, end_even;
    struct steps_algorithm *a = x->a;
    for (size_t k = 0; k < x->chunks; k++) {
        all += x->chunk[k].ends == a->ranks;
        one += x->chunk[k].ends == 1;
        from_first += x->chunk[k].owner == 0;
        to_first += x->chunk[k].ends == 1 && x->chunk[k].end == 0;
    }
    PASS(is_even(x, true, &begin_even));
    PASS(is_even(x, false, &end_even));
    bool summed = x->chunks == (size_t)x->addresses * a->ranks; /* a chunk of each rank */
    bool apart = x->chunks == x->addresses;
    a->chunks = x->addresses;
    if (summed && all == x->chunks)
        a->kind = COLLECTIVE_ALLREDUCE;
    else if (summed && to_first == x->chunks)
        a->kind = COLLECTIVE_REDUCE;
    else if (summed && one == x->chunks && end_even)
        a->kind = COLLECTIVE_REDUCESCATTER;
    else if (apart && all == x->chunks && from_first == x->chunks)
        a->kind = COLLECTIVE_BROADCAST;
    else if (apart && all == x->chunks && begin_even)
        a->kind = COLLECTIVE_ALLGATHER;
    else if (apart && one == x->chunks && begin_even && end_even)
        a->kind = COLLECTIVE_ALLTOALL, a->chunks = x->addresses / a->ranks;
    else
        return json_error(collective, "expected an all-reduce, all-gather, reduce-scatter, "
                                      "all-to-all, broadcast from rank 0 or reduce to rank 0");
    return STATUS_OK;
}

static enum status read_collective(struct json_sends *x, const struct json_at *root)
{
    struct json_at collective, list;
    int64_t ranks;
    PASS(json_field(root, "collective", &collective));
    PASS(json_need_integer(&collective, "nodes", 2, STEPS_RANKS, &ranks));
    x->a->ranks = (uint32_t)ranks;
    x->words = ((size_t)ranks + 63) / 64;
    PASS(json_field(&collective, "chunks", &list));
    PASS(json_get_array(&list, STEPS_CHUNKS, &x->chunks));
    if (x->chunks == 0 || x->chunks * x->words > STEPS_WORDS)
        return json_error(&list, "got %zu chunks, expected 1 to %zu", x->chunks,
                          STEPS_WORDS / x->words);
    PASS(ARRAY_NEW(x->chunk, x->chunks));
    PASS(ARRAY_NEW(x->ends, x->chunks * x->words));
    for (size_t k = 0; k < x->chunks; k++) {
        struct json_at at = json_item(&list, k);
        PASS(read_chunk(x, &at, k));
    }
    PASS(fill_parts(x, &collective));
    return find_kind(x, &collective);
}

/* ---- steps */

static enum status read_send(struct json_sends *x, const struct json_at *at)
{
    size_t n;
    int64_t value[3];
    PASS(json_get_array(at, 6, &n));
    if (n < 3)
        return json_error(at, "got %zu numbers, expected chunk, sender and receiver", n);
    for (size_t i = 0; i < 3; i++) {
        struct json_at item = json_item(at, i);
        PASS(json_get_integer(&item, 0, (int64_t)(i == 0 ? x->addresses : x->a->ranks) - 1,
                              &value[i]));
    }
    struct json_send s = {(uint32_t)value[1], (uint32_t)value[2], (uint32_t)value[0]};
    const uint64_t *parts = parts_of(x, s.from, s.address);
    bool any = false;
    for (size_t w = 0; w < x->words; w++)
        any = any || parts[w];
    if (!any || s.from == s.to)
        return json_error(at, "rank %u sends chunk %u %s", s.from, s.address,
                          any ? "to itself" : "before receiving this chunk");
    x->send[x->sends] = s;
    memcpy(&x->sent[x->sends++ * x->words], parts, x->words * sizeof *parts);
    return STATUS_OK;
}

/* What comes is added to what is there, or is the whole of it and takes its place. */
static enum status receive(struct json_sends *x, const struct json_at *at, size_t k)
{
    const struct json_send *s = &x->send[k];
    uint64_t *parts = parts_of(x, s->to, s->address);
    const uint64_t *sent = &x->sent[k * x->words];
    bool within = true;
    uint64_t both = 0;
    for (size_t w = 0; w < x->words; w++) {
        within = within && (parts[w] & ~sent[w]) == 0;
        both |= parts[w] & sent[w];
    }
    for (uint32_t r = 0; both && !within && r < x->a->ranks; r++)
        if (has_bit(parts, r) && has_bit(sent, r))
            return json_error(at, "rank %u adds rank %u's part of chunk %u twice", s->to, r,
                              s->address);
    for (size_t w = 0; w < x->words; w++)
        parts[w] |= sent[w];
    return STATUS_OK;
}

/* A phase of the sends, each way once. */
static enum status end_step(struct json_sends *x, size_t *flows)
{
    struct steps_algorithm *a = x->a;
    qsort(x->send, x->sends, sizeof *x->send, order_by_pair);
    for (size_t k = 0; k < x->sends; k++) {
        bool same = k > 0 && order_by_pair(&x->send[k - 1], &x->send[k]) == 0;
        PASS(ARRAY_ROOM(a->flow, *flows));
        if (same)
            a->flow[*flows - 1].chunks++;
        else
            a->flow[(*flows)++] = (struct steps_flow){x->send[k].from, x->send[k].to, 1};
    }
    a->phase_start[++a->phases] = *flows;
    return STATUS_OK;
}

static enum status read_step(struct json_sends *x, const struct json_at *step, size_t *flows)
{
    struct json_at list;
    size_t n;
    PASS(json_field(step, "sends", &list));
    PASS(json_get_array(&list, STEPS_CHUNKS, &n));
    if (n * x->words > STEPS_WORDS)
        return json_error(&list, "got %zu sends, expected at most %zu", n,
                          (size_t)(STEPS_WORDS / x->words));
    free(x->send);
    free(x->sent);
    x->send = NULL;
    x->sent = NULL;
    x->sends = 0;
    PASS(ARRAY_NEW(x->send, n));
    PASS(ARRAY_NEW(x->sent, n * x->words));
    for (size_t k = 0; k < n; k++) {
        struct json_at at = json_item(&list, k);
        PASS(read_send(x, &at));
    }
    for (size_t k = 0; k < n; k++) {
        struct json_at at = json_item(&list, k);
        PASS(receive(x, &at, k));
    }
    return n > 0 ? end_step(x, flows) : STATUS_OK;
}

static enum status check_ends(const struct json_sends *x)
{
    for (size_t k = 0; k < x->chunks; k++)
        for (uint32_t r = 0; r < x->a->ranks; r++) {
            const struct json_chunk *c = &x->chunk[k];
            if (has_bit(&x->ends[k * x->words], r) &&
                !has_bit(parts_of(x, r, c->address), c->owner))
                return error_set(STATUS_PARSE,
                                 "%s: rank %u ends without rank %u's part of chunk %u", x->a->path,
                                 r, c->owner, c->address);
        }
    return STATUS_OK;
}

enum status msccl_parse_json(const char *path, const char *text, size_t length,
                             struct steps_algorithm *out)
{
    enum status st;
    struct json_document d = {0};
    struct steps_algorithm a = {0};
    struct json_sends x = {.a = &a};
    struct json_at root, steps;
    size_t n, flows = 0;
    TRY(json_parse(path, text, length, NULL, 0, &d));
    root = json_root(&d);
    TRY(text_copy(path, &a.path));
    TRY(json_need_text(&root, "name", &a.name));
    TRY(read_collective(&x, &root));
    TRY(json_field(&root, "steps", &steps));
    TRY(json_get_array(&steps, STEPS_CHUNKS, &n));
    TRY(ARRAY_NEW(a.phase_start, n + 1));
    for (size_t k = 0; k < n; k++) {
        struct json_at step = json_item(&steps, k);
        TRY(read_step(&x, &step, &flows));
    }
    TRY(check_ends(&x));
    MOVE(out, a);
out:
    steps_free(&a);
    json_document_free(&d);
    free(x.chunk);
    free(x.ends);
    free(x.has);
    free(x.send);
    free(x.sent);
    return st;
}
