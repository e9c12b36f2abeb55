/* Blocks run as far as they can, then others; whoever waits is woken by what it waits for. */
#include "core/collective/steps.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"

/* What a chunk of a buffer or a message has: number `of` of what the collective is about, summed
 * over a set of ranks. `of` STEPS_NONE: nothing. */
struct steps_message {
    uint32_t next; /* behind it on its way, STEPS_NONE at the end */
    uint32_t level, count;
    size_t first; /* value */
};

/* A block as it runs. */
struct steps_state {
    uint32_t done;       /* steps */
    uint32_t level;      /* the last phase that it knows something of */
    uint32_t peer;       /* the block that receives what it sends; STEPS_NONE */
    uint32_t head, tail; /* messages to it */
    uint32_t waiter,
        behind;         /* first block that waits for its steps; next one of whom it waits for */
    bool listed, waits; /* on the list; among the waiters of another */
};

struct steps_run {
    struct steps_algorithm *a;
    size_t words;  /* of a set */
    size_t *start; /* [ranks * STEPS_BUFFERS] value of each buffer's first chunk */
    size_t values, first_free, room_of, room_set;
    uint32_t *of;              /* [values] */
    uint64_t *set;             /* [values * words] */
    struct steps_state *state; /* [blocks] */
    uint32_t *level;           /* [steps] of its block after it */
    size_t messages;
    struct steps_message *message;
    size_t sent;
    struct steps_sent {
        uint32_t level, from, to, count;
    } * log;
    uint32_t *list; /* [blocks] blocks that can run: a ring, or a stack */
    size_t listed, front;
    bool backwards;
};

static const char *const buffer_name[STEPS_BUFFERS] = {"input", "output", "scratch"};

/* ---- buffers */

static uint32_t buffer_chunks(const struct steps_algorithm *a, uint32_t rank, uint8_t buffer)
{
    uint32_t part = a->chunks / a->ranks;
    if (buffer == STEPS_SCRATCH)
        return a->scratch[rank];
    if (buffer == STEPS_INPUT)
        return a->kind == COLLECTIVE_ALLGATHER ? part : a->chunks;
    return a->kind == COLLECTIVE_REDUCESCATTER ? part : a->chunks;
}

/* Of all buffers, and as many again of messages. */
static size_t chunks_most(const struct steps_run *x)
{
    size_t by_words = STEPS_WORDS / x->words;
    return by_words < STEPS_CHUNKS ? by_words : STEPS_CHUNKS;
}

/* Where every buffer begins; in place the smaller one is the rank's part of the other. */
static enum status place_buffers(struct steps_run *x)
{
    const struct steps_algorithm *a = x->a;
    size_t n = 0;
    PASS(ARRAY_NEW(x->start, (size_t)a->ranks * STEPS_BUFFERS));
    for (uint32_t r = 0; r < a->ranks; r++)
        for (uint8_t b = 0; b < STEPS_BUFFERS; b++) {
            size_t *start = &x->start[r * STEPS_BUFFERS + b];
            *start = n;
            if (b == STEPS_OUTPUT && a->in_place) {
                size_t part = (size_t)r * (a->chunks / a->ranks), *input = start - 1;
                if (a->kind == COLLECTIVE_ALLGATHER)
                    *input += part, *start = *input - part;
                else
                    *start = *input + (a->kind == COLLECTIVE_REDUCESCATTER ? part : 0);
                n += a->kind == COLLECTIVE_ALLGATHER ? a->chunks - a->chunks / a->ranks : 0;
                continue;
            }
            n += buffer_chunks(a, r, b);
        }
    if (n > chunks_most(x))
        return error_set(
            STATUS_PARSE,
            "%s: too many chunks in the buffers of all ranks (got %zu, expected at most %zu)",
            a->path, n, chunks_most(x));
    x->values = n;
    return STATUS_OK;
}

static uint64_t *set_of(const struct steps_run *x, size_t value)
{
    return x->set + value * x->words;
}

/* What every rank begins with: its contribution to chunk c, or its own chunk of all. */
static enum status fill_inputs(struct steps_run *x)
{
    const struct steps_algorithm *a = x->a;
    uint32_t part = a->chunks / a->ranks;
    PASS(ARRAY_RESERVE(x->of, x->values, x->room_of));
    PASS(ARRAY_RESERVE(x->set, x->values * x->words, x->room_set));
    memset(x->of, 0xff, x->values * sizeof *x->of);
    memset(x->set, 0, x->values * x->words * sizeof *x->set);
    for (uint32_t r = 0; r < a->ranks; r++)
        for (uint32_t c = 0; c < buffer_chunks(a, r, STEPS_INPUT); c++) {
            size_t value = x->start[r * STEPS_BUFFERS] + c;
            if (a->kind == COLLECTIVE_BROADCAST && r > 0)
                continue;
            x->of[value] = a->kind == COLLECTIVE_ALLGATHER  ? r * part + c
                           : a->kind == COLLECTIVE_ALLTOALL ? r * a->chunks + c
                                                            : c;
            set_of(x, value)[r / 64] = UINT64_C(1) << r % 64;
        }
    return STATUS_OK;
}

/* Room for one more message of `count` chunks; *first is its value. */
static enum status new_values(struct steps_run *x, const struct steps_step *s, size_t *first)
{
    size_t n = x->values + s->count;
    if (n > 2 * chunks_most(x))
        return error_set(STATUS_PARSE,
                         "%s:%zu: too many chunks in buffers and messages of all ranks (got %zu, "
                         "expected at most %zu)",
                         x->a->path, s->line, n, 2 * chunks_most(x));
    PASS(ARRAY_RESERVE(x->of, n, x->room_of));
    PASS(ARRAY_RESERVE(x->set, n * x->words, x->room_set));
    *first = x->values;
    x->values = n;
    return STATUS_OK;
}

/* ---- values */

static enum status place_value(const struct steps_run *x, const struct steps_block *b,
                               const struct steps_step *s, const struct steps_place *p,
                               size_t *first)
{
    uint32_t chunks = buffer_chunks(x->a, b->rank, p->buffer);
    if (s->count > chunks || p->chunk > chunks - s->count)
        return error_set(
            STATUS_PARSE, "%s:%zu: rank %u: no chunk %u in its %s buffer, which has %u chunks",
            x->a->path, s->line, b->rank, p->chunk + s->count - 1, buffer_name[p->buffer], chunks);
    *first = x->start[b->rank * STEPS_BUFFERS + p->buffer] + p->chunk;
    return STATUS_OK;
}

static void copy_value(struct steps_run *x, size_t to, size_t from)
{
    x->of[to] = x->of[from];
    memmove(set_of(x, to), set_of(x, from), x->words * sizeof *x->set);
}

/* The first rank of a set, or of those that both have. */
static uint32_t first_rank(const struct steps_run *x, const uint64_t *a, const uint64_t *b)
{
    for (size_t w = 0; w < x->words; w++)
        for (uint32_t k = 0; k < 64; k++)
            if ((a[w] & b[w]) >> k & 1)
                return (uint32_t)w * 64 + k;
    return STEPS_NONE;
}

/* Add a value to another of the same chunk, which has nobody's contribution in common. */
static enum status add_value(struct steps_run *x, const struct steps_block *b,
                             const struct steps_step *s, size_t to, size_t from)
{
    uint64_t *sum = set_of(x, to), *more = set_of(x, from);
    if (x->of[to] != x->of[from])
        return error_set(
            STATUS_PARSE,
            "%s:%zu: rank %u adds chunk %u to chunk %u, expected two parts of the same chunk",
            x->a->path, s->line, b->rank, x->of[from], x->of[to]);
    uint32_t twice = first_rank(x, sum, more);
    if (twice != STEPS_NONE)
        return error_set(STATUS_PARSE, "%s:%zu: rank %u adds rank %u's part of chunk %u twice",
                         x->a->path, s->line, b->rank, twice, x->of[to]);
    for (size_t w = 0; w < x->words; w++)
        sum[w] |= more[w];
    return STATUS_OK;
}

static enum status check_filled(const struct steps_run *x, const struct steps_block *b,
                                const struct steps_step *s, size_t first,
                                const struct steps_place *p)
{
    for (uint32_t c = 0; c < s->count; c++)
        if (x->of[first + c] == STEPS_NONE)
            return error_set(
                STATUS_PARSE,
                "%s:%zu: rank %u reads chunk %u of its %s buffer before any step writes it",
                x->a->path, s->line, b->rank, p->chunk + c, buffer_name[p->buffer]);
    return STATUS_OK;
}

/* ---- steps */

static bool steps_sends(uint8_t type)
{
    return type == STEPS_SEND || type == STEPS_RECV_COPY_SEND || type == STEPS_RECV_REDUCE_SEND ||
           type == STEPS_RECV_REDUCE_COPY_SEND;
}
static bool steps_receives(uint8_t type)
{
    return type >= STEPS_RECV && type <= STEPS_RECV_REDUCE_COPY_SEND;
}
static bool steps_uses_source(uint8_t type)
{
    return type == STEPS_SEND || (type >= STEPS_RECV_REDUCE_SEND && type < STEPS_TYPES);
}
static bool steps_writes(uint8_t type)
{
    return type == STEPS_RECV || type == STEPS_RECV_COPY_SEND || type >= STEPS_RECV_REDUCE_COPY;
}

/* What a step makes, in `made`: what has come (`came`), or is at the source, or the sum of both. */
static enum status make_value(struct steps_run *x, const struct steps_block *b,
                              const struct steps_step *s, size_t came, size_t made)
{
    size_t source = 0;
    bool uses = steps_uses_source(s->type);
    if (uses) {
        PASS(place_value(x, b, s, &s->source, &source));
        PASS(check_filled(x, b, s, source, &s->source));
    }
    for (uint32_t c = 0; c < s->count; c++) {
        copy_value(x, made + c, steps_receives(s->type) ? came + c : source + c);
        if (uses && steps_receives(s->type))
            PASS(add_value(x, b, s, made + c, source + c));
    }
    return STATUS_OK;
}

static enum status write_value(struct steps_run *x, const struct steps_block *b,
                               const struct steps_step *s, size_t made)
{
    size_t target;
    PASS(place_value(x, b, s, &s->target, &target));
    if (s->type == STEPS_REDUCE)
        PASS(check_filled(x, b, s, target, &s->target));
    for (uint32_t c = 0; c < s->count; c++) {
        if (s->type == STEPS_REDUCE)
            PASS(add_value(x, b, s, target + c, made + c));
        else
            copy_value(x, target + c, made + c);
    }
    return STATUS_OK;
}

static void list_block(struct steps_run *x, uint32_t block)
{
    size_t blocks = x->a->block_start[x->a->ranks];
    if (x->state[block].listed)
        return;
    x->state[block].listed = true;
    x->list[(x->front + x->listed++) % blocks] = block;
}

static enum status send_value(struct steps_run *x, const struct steps_block *b,
                              struct steps_state *state, const struct steps_step *s, size_t made)
{
    uint32_t to = state->peer, number = (uint32_t)x->messages;
    if (to == STEPS_NONE)
        return error_set(STATUS_PARSE,
                         "%s:%zu: rank %u sends chunk %u, but no thread block of another rank "
                         "receives from this rank on channel %u",
                         x->a->path, s->line, b->rank, x->of[made], b->channel);
    PASS(ARRAY_ROOM(x->message, x->messages));
    x->message[x->messages++] =
        (struct steps_message){STEPS_NONE, state->level + 1, s->count, made};
    struct steps_state *peer = &x->state[to];
    if (peer->head == STEPS_NONE)
        peer->head = number;
    else
        x->message[peer->tail].next = number;
    peer->tail = number;
    if (!x->backwards) {
        PASS(ARRAY_ROOM(x->log, x->sent));
        x->log[x->sent++] =
            (struct steps_sent){state->level + 1, b->rank, x->a->block[to].rank, s->count};
    }
    list_block(x, to);
    return STATUS_OK;
}

/* May the step begin? Else its block waits, and is woken. */
static bool may_begin(struct steps_run *x, uint32_t block, const struct steps_step *s)
{
    struct steps_state *state = &x->state[block];
    if (s->wait_block != STEPS_NONE) {
        size_t other = x->a->block_start[x->a->block[block].rank] + s->wait_block;
        struct steps_state *waited = &x->state[other];
        if (waited->done <= s->wait_step) {
            if (!state->waits) {
                state->waits = true;
                state->behind = waited->waiter;
                waited->waiter = block;
            }
            return false;
        }
        uint32_t level = x->level[x->a->block[other].first + s->wait_step];
        state->level = level > state->level ? level : state->level;
    }
    return !steps_receives(s->type) || state->head != STEPS_NONE;
}

static enum status run_step(struct steps_run *x, uint32_t block, const struct steps_step *s)
{
    const struct steps_block *b = &x->a->block[block];
    struct steps_state *state = &x->state[block];
    size_t came = 0, made = 0;
    if (s->type == STEPS_NOP)
        return STATUS_OK;
    if (steps_receives(s->type)) {
        const struct steps_message *m = &x->message[state->head];
        if (m->count != s->count)
            return error_set(STATUS_PARSE,
                             "%s:%zu: rank %u receives %u chunks, but its peer sends %u",
                             x->a->path, s->line, b->rank, s->count, m->count);
        came = m->first;
        state->level = m->level > state->level ? m->level : state->level;
        state->head = m->next;
    }
    PASS(new_values(x, s, &made));
    PASS(make_value(x, b, s, came, made));
    if (steps_writes(s->type))
        PASS(write_value(x, b, s, made));
    if (steps_sends(s->type))
        return send_value(x, b, state, s, made);
    x->values = made; /* nobody needs it any more */
    return STATUS_OK;
}

/* Run a block until it waits or ends. */
static enum status run_block(struct steps_run *x, uint32_t block)
{
    const struct steps_block *b = &x->a->block[block];
    struct steps_state *state = &x->state[block];
    while (b->first + state->done < b->end) {
        const struct steps_step *s = &x->a->step[b->first + state->done];
        if (!may_begin(x, block, s))
            return STATUS_OK;
        PASS(run_step(x, block, s));
        x->level[b->first + state->done++] = state->level;
        for (uint32_t k = state->waiter, then; k != STEPS_NONE; k = then) {
            then = x->state[k].behind;
            x->state[k].waits = false;
            list_block(x, k);
        }
        state->waiter = STEPS_NONE;
    }
    return STATUS_OK;
}

/* ---- ends */

/* Somebody waits for ever, or has been sent what it does not take. */
static enum status check_ended(const struct steps_run *x)
{
    const struct steps_algorithm *a = x->a;
    for (size_t k = 0; k < a->block_start[a->ranks]; k++) {
        const struct steps_block *b = &a->block[k];
        size_t number = k - a->block_start[b->rank], at = b->first + x->state[k].done;
        const struct steps_step *s = at < b->end ? &a->step[at] : NULL;
        if (s && s->wait_block != STEPS_NONE &&
            x->state[a->block_start[b->rank] + s->wait_block].done <= s->wait_step)
            return error_set(
                STATUS_PARSE,
                "%s:%zu: deadlock: rank %u, thread block %zu waits for step %u of thread block %u",
                a->path, s->line, b->rank, number, s->wait_step, s->wait_block);
        if (s)
            return error_set(
                STATUS_PARSE,
                "%s:%zu: deadlock: rank %u, thread block %zu waits for a chunk from rank %" PRId64,
                a->path, s->line, b->rank, number,
                b->recv == STEPS_NONE ? INT64_C(-1) : (int64_t)b->recv);
        if (x->state[k].head != STEPS_NONE)
            return error_set(
                STATUS_PARSE,
                "%s:%zu: rank %u, thread block %zu never receives chunk %u, which its peer sends",
                a->path, b->line, b->rank, number, x->of[x->message[x->state[k].head].first]);
    }
    return STATUS_OK;
}

/* Chunk c of a rank's output should be chunk `of` of the collective, summed over all ranks, or as
 * one rank has it. */
static enum status check_chunk(const struct steps_run *x, uint32_t rank, uint32_t c, uint32_t of,
                               uint32_t owner)
{
    const struct steps_algorithm *a = x->a;
    size_t value = x->start[rank * STEPS_BUFFERS + STEPS_OUTPUT] + c;
    const char *order = x->backwards ? " (when its thread blocks run in another order)" : "";
    if (x->of[value] == STEPS_NONE)
        return error_set(STATUS_PARSE, "%s: at the end, chunk %u of rank %u's output is empty%s",
                         a->path, c, rank, order);
    if (x->of[value] != of)
        return error_set(STATUS_PARSE,
                         "%s: at the end, chunk %u of rank %u's output has the data of chunk %u, "
                         "expected chunk %u%s",
                         a->path, c, rank, x->of[value], of, order);
    for (uint32_t r = 0; r < a->ranks; r++) {
        bool has = set_of(x, value)[r / 64] >> r % 64 & 1;
        bool wanted = owner == STEPS_NONE || owner == r;
        if (has != wanted)
            return error_set(STATUS_PARSE,
                             "%s: at the end, chunk %u of rank %u's output %s rank %u's part%s",
                             a->path, c, rank, has ? "must not include" : "lacks", r, order);
    }
    return STATUS_OK;
}

static enum status check_promise(const struct steps_run *x)
{
    const struct steps_algorithm *a = x->a;
    uint32_t part = a->chunks / a->ranks;
    for (uint32_t r = 0; r < (a->kind == COLLECTIVE_REDUCE ? 1 : a->ranks); r++)
        for (uint32_t c = 0; c < buffer_chunks(a, r, STEPS_OUTPUT); c++) {
            uint32_t of = c, owner = STEPS_NONE;
            if (a->kind == COLLECTIVE_REDUCESCATTER)
                of = r * part + c;
            if (a->kind == COLLECTIVE_BROADCAST)
                owner = 0;
            if (a->kind == COLLECTIVE_ALLGATHER)
                owner = c / part;
            if (a->kind == COLLECTIVE_ALLTOALL) {
                owner = c / part;
                of = owner * a->chunks + r * part + c % part;
            }
            PASS(check_chunk(x, r, c, of, owner));
        }
    return STATUS_OK;
}

/* ---- all of it */

static enum status steps_execute(struct steps_run *x)
{
    size_t blocks = x->a->block_start[x->a->ranks];
    PASS(fill_inputs(x));
    for (size_t k = 0; k < blocks; k++)
        list_block(x, (uint32_t)(x->backwards ? blocks - 1 - k : k));
    while (x->listed > 0) {
        size_t at = x->backwards ? (x->front + x->listed - 1) % blocks : x->front;
        uint32_t block = x->list[at];
        if (!x->backwards)
            x->front = (x->front + 1) % blocks;
        x->listed--;
        x->state[block].listed = false;
        PASS(run_block(x, block));
    }
    PASS(check_ended(x));
    return check_promise(x);
}

/* A block by what it receives: from whom, who, on which channel. */
struct steps_way {
    uint32_t from, to, channel, block;
};

static int compare_ways(const void *a, const void *b)
{
    const struct steps_way *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    return x->channel < y->channel ? -1 : x->channel > y->channel;
}

/* Who receives what each block sends; two on one way would not know what is theirs. */
static enum status find_peers(struct steps_run *x, struct steps_way *way)
{
    const struct steps_algorithm *a = x->a;
    size_t blocks = a->block_start[a->ranks], n = 0;
    for (int sends = 0; sends < 2; sends++) {
        n = 0;
        for (uint32_t k = 0; k < blocks; k++) {
            const struct steps_block *b = &a->block[k];
            if (sends ? b->send != STEPS_NONE : b->recv != STEPS_NONE)
                way[n++] = (struct steps_way){sends ? b->rank : b->recv, sends ? b->send : b->rank,
                                              b->channel, k};
        }
        qsort(way, n, sizeof *way, compare_ways);
        for (size_t k = 1; k < n; k++)
            if (compare_ways(&way[k - 1], &way[k]) == 0)
                return error_set(
                    STATUS_PARSE,
                    "%s:%zu: two thread blocks of rank %u %s rank %u on channel %u, expected one",
                    a->path, a->block[way[k].block].line, sends ? way[k].from : way[k].to,
                    sends ? "send to" : "receive from", sends ? way[k].to : way[k].from,
                    way[k].channel);
        if (!sends) /* kept behind those that send */
            memcpy(way + blocks, way, n * sizeof *way), way[2 * blocks].block = (uint32_t)n;
    }
    size_t receivers = way[2 * blocks].block;
    for (size_t k = 0; k < n; k++) {
        const struct steps_way *to =
            bsearch(&way[k], way + blocks, receivers, sizeof *way, compare_ways);
        x->state[way[k].block].peer = to ? to->block : STEPS_NONE;
    }
    return STATUS_OK;
}

static int compare_sent(const void *a, const void *b)
{
    const struct steps_sent *x = a, *y = b;
    if (x->level != y->level)
        return x->level < y->level ? -1 : 1;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

/* The log as phases of flows, each way once. Levels that nobody sends in are none: every level has
 * a message, as one is one more than that of another. */
static enum status make_flows(struct steps_run *x)
{
    struct steps_algorithm *a = x->a;
    size_t n = 0;
    if (x->sent > 0)
        qsort(x->log, x->sent, sizeof *x->log, compare_sent);
    a->phases = x->sent > 0 ? x->log[x->sent - 1].level : 0;
    PASS(ARRAY_NEW(a->phase_start, a->phases + 1));
    PASS(ARRAY_NEW(a->flow, x->sent));
    for (size_t k = 0; k < x->sent; k++) {
        const struct steps_sent *m = &x->log[k];
        bool same = k > 0 && compare_sent(&x->log[k - 1], m) == 0;
        if (same)
            a->flow[n - 1].chunks += m->count;
        else
            a->flow[n++] = (struct steps_flow){m->from, m->to, m->count};
        a->phase_start[m->level] = n;
    }
    return STATUS_OK;
}

static void begin_run(struct steps_run *x, bool backwards)
{
    size_t blocks = x->a->block_start[x->a->ranks];
    for (size_t k = 0; k < blocks; k++) {
        uint32_t peer = x->state[k].peer;
        x->state[k] = (struct steps_state){.peer = peer,
                                           .head = STEPS_NONE,
                                           .tail = STEPS_NONE,
                                           .waiter = STEPS_NONE,
                                           .behind = STEPS_NONE};
    }
    x->values = x->first_free;
    x->messages = x->listed = x->front = 0;
    x->backwards = backwards;
}

enum status steps_check(struct steps_algorithm *a)
{
    enum status st;
    struct steps_run x = {.a = a, .words = ((size_t)a->ranks + 63) / 64};
    size_t blocks = a->block_start[a->ranks];
    struct steps_way *way = NULL;
    TRY(place_buffers(&x));
    x.first_free = x.values;
    TRY(ARRAY_NEW(x.state, blocks));
    TRY(ARRAY_NEW(x.level, a->steps));
    TRY(ARRAY_NEW(x.list, blocks));
    TRY(ARRAY_NEW(way, 2 * blocks + 1));
    for (size_t k = 0; k < blocks; k++)
        x.state[k].peer = STEPS_NONE;
    TRY(find_peers(&x, way));
    for (int backwards = 0; backwards < 2; backwards++) {
        begin_run(&x, backwards);
        TRY(steps_execute(&x));
    }
    TRY(make_flows(&x));
out:
    free(way);
    free(x.start);
    free(x.of);
    free(x.set);
    free(x.state);
    free(x.level);
    free(x.message);
    free(x.log);
    free(x.list);
    return st;
}

void steps_free(struct steps_algorithm *a)
{
    free(a->path);
    free(a->name);
    free(a->scratch);
    free(a->block_start);
    free(a->block);
    free(a->step);
    free(a->phase_start);
    free(a->flow);
    *a = (struct steps_algorithm){0};
}
