/* Patterns of flows, and programs of messages that have them. */
#include "sim/pattern.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/random.h"
#include "core/base/text.h"
#include "core/data/program.h"

enum { MOST_RANKS = 1024, MOST_FLOWS = 1 << 20 };

/* ---- patterns */

struct pattern_request {
    uint32_t ranks;
    int64_t bytes;
    uint64_t seed;
};

/* Flow k that rank r sends; false: it sends no more. */
static bool flow_single(const struct pattern_request *q, uint32_t r, uint32_t k,
                        struct pattern_flow *f)
{
    f->to = q->ranks - 1;
    return r == 0 && k == 0;
}

static bool flow_ring(const struct pattern_request *q, uint32_t r, uint32_t k,
                      struct pattern_flow *f)
{
    f->to = (r + 1) % q->ranks;
    return k == 0;
}

static bool flow_tree(const struct pattern_request *q, uint32_t r, uint32_t k,
                      struct pattern_flow *f)
{
    (void)q;
    f->to = r > 0 ? (r - 1) / 2 : 0;
    return r > 0 && k == 0;
}

static bool flow_all_to_all(const struct pattern_request *q, uint32_t r, uint32_t k,
                            struct pattern_flow *f)
{
    f->to = (r + 1 + k) % q->ranks;
    f->bytes = q->bytes / (q->ranks - 1);
    return k < q->ranks - 1;
}

static bool flow_incast(const struct pattern_request *q, uint32_t r, uint32_t k,
                        struct pattern_flow *f)
{
    (void)q;
    f->to = 0;
    return r > 0 && k == 0;
}

static bool flow_short(const struct pattern_request *q, uint32_t r, uint32_t k,
                       struct pattern_flow *f)
{
    uint64_t draw = random_at(random_key(q->seed, r), k);
    f->to = (uint32_t)((r + 1 + draw % (q->ranks - 1)) % q->ranks);
    f->bytes = q->bytes / PATTERN_SHORT_FLOWS;
    return k < PATTERN_SHORT_FLOWS;
}

static const struct {
    const char *name;
    bool (*flow)(const struct pattern_request *q, uint32_t r, uint32_t k, struct pattern_flow *f);
} rows[] = {{"single", flow_single},         {"ring", flow_ring},     {"tree", flow_tree},
            {"all-to-all", flow_all_to_all}, {"incast", flow_incast}, {"short", flow_short}};
enum { ROWS = sizeof rows / sizeof *rows };

const char *pattern_name(size_t i)
{
    return i < ROWS ? rows[i].name : NULL;
}

enum status pattern_make(size_t i, uint32_t ranks, int64_t bytes, uint64_t seed,
                         struct pattern *out)
{
    enum status st;
    struct pattern p = {.ranks = ranks};
    const struct pattern_request q = {ranks, bytes, seed};
    if (ranks < 2 || ranks > MOST_RANKS)
        return error_set(STATUS_INVALID, "got %" PRIu32 " ranks, expected 2 to %d", ranks,
                         MOST_RANKS);
    if (bytes < ranks || bytes < PATTERN_SHORT_FLOWS)
        return error_set(STATUS_INVALID,
                         "got %" PRId64 " bytes, expected at least %d bytes for %" PRIu32 " ranks",
                         bytes, ranks > PATTERN_SHORT_FLOWS ? (int)ranks : PATTERN_SHORT_FLOWS,
                         ranks);
    for (uint32_t r = 0; r < ranks; r++)
        for (uint32_t k = 0;; k++) {
            struct pattern_flow f = {.from = r, .bytes = bytes};
            if (!rows[i].flow(&q, r, k, &f))
                break;
            TRY(ARRAY_ROOM(p.flow, p.n));
            p.flow[p.n++] = f;
        }
    MOVE(out, p);
out:
    pattern_free(&p);
    return st;
}

void pattern_free(struct pattern *p)
{
    free(p->flow);
    *p = (struct pattern){0};
}

enum status pattern_most_bytes(const struct pattern *p, int64_t *out)
{
    int64_t *bytes = NULL;
    PASS(ARRAY_NEW(bytes, p->ranks));
    *out = 0;
    for (size_t k = 0; k < p->n; k++) {
        int64_t *sum = &bytes[p->flow[k].from];
        *sum = p->flow[k].bytes < INT64_MAX - *sum ? *sum + p->flow[k].bytes : INT64_MAX;
        *out = *sum > *out ? *sum : *out;
    }
    free(bytes);
    return STATUS_OK;
}

/* One line, which may be empty. */
static enum status read_flow(char *line, struct pattern *p)
{
    char *word[4];
    uint64_t n[3];
    line[strcspn(line, "#")] = '\0';
    size_t words = text_split(line, " \t\r", word, 4);
    if (words == 0 || (words == 1 && !*word[0]))
        return STATUS_OK;
    for (size_t k = 0; k < 3; k++)
        if (words != 3 || !text_count(word[k], k < 2 ? MOST_RANKS - 1 : INT64_MAX, &n[k]))
            return error_set(
                STATUS_PARSE,
                "expected FROM TO BYTES: two ranks below %d and a whole number of bytes",
                MOST_RANKS);
    if (n[0] == n[1] || n[2] == 0 || p->n == MOST_FLOWS)
        return error_set(
            STATUS_PARSE,
            "expected two different ranks, more than 0 bytes, and at most %d flows in the file",
            MOST_FLOWS);
    PASS(ARRAY_ROOM(p->flow, p->n));
    p->flow[p->n++] = (struct pattern_flow){(uint32_t)n[0], (uint32_t)n[1], (int64_t)n[2]};
    for (size_t k = 0; k < 2; k++)
        p->ranks = n[k] >= p->ranks ? (uint32_t)n[k] + 1 : p->ranks;
    return STATUS_OK;
}

enum status pattern_read(const char *path, struct pattern *out)
{
    enum status st;
    struct pattern p = {0};
    char *text = NULL;
    size_t length, number = 1;
    TRY(file_read(path, &text, &length));
    for (char *line = text, *next; line; line = next, number++) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        if ((st = read_flow(line, &p)) != STATUS_OK) {
            st = error_context(st, "%s:%zu", path, number);
            goto out;
        }
    }
    if (p.n == 0)
        FAIL(STATUS_PARSE, "%s:1: no flows, expected lines FROM TO BYTES", path);
    MOVE(out, p);
out:
    pattern_free(&p);
    free(text);
    return st;
}

/* ---- as a program */

/* The ops of rank r: what it sends, then what it receives; op[] of each flow gets its receiver's.
 */
static enum status add_rank(const struct pattern *x, const struct topology *t, uint32_t r,
                            uint32_t *recv, struct program *p)
{
    for (size_t k = 0; k < 2 * x->n; k++) {
        const struct pattern_flow *f = &x->flow[k % x->n];
        bool sends = k < x->n;
        if ((sends ? f->from : f->to) != r)
            continue;
        uint32_t peer = sends ? f->to : f->from;
        if (!sends)
            recv[k - x->n] = (uint32_t)p->ops;
        p->op[p->ops++] = (struct program_op){.kind = sends ? OP_SEND : OP_RECV,
                                              .stage = r,
                                              .microbatch = PROGRAM_NONE,
                                              .peer = peer,
                                              .peer_stage = peer,
                                              .tag = (uint32_t)(k % x->n),
                                              .channel = PROGRAM_NONE,
                                              .count = 1,
                                              .bytes = f->bytes};
    }
    p->rank[r].device = p->rank[r].stage = p->stage_op[r] = r;
    p->op_start[r + 1] = p->ops;
    p->stage_start[r + 1] = r + 1;
    p->ranks++;
    return text_copy(t->device[r], &p->rank[r].name);
}

enum status pattern_program(const struct pattern *x, const struct topology *t, uint32_t *recv,
                            struct program *out)
{
    enum status st;
    struct program p = {.microbatches = 1, .microbatch_size = 1, .stages = x->ranks};
    TRY(ARRAY_NEW(p.rank, x->ranks));
    TRY(ARRAY_NEW(p.op_start, x->ranks + 1));
    TRY(ARRAY_NEW(p.op, 2 * x->n + 1));
    TRY(ARRAY_NEW(p.dep, 1));
    TRY(ARRAY_NEW(p.group_start, 1));
    TRY(ARRAY_NEW(p.member, 1));
    TRY(ARRAY_NEW(p.stage_start, x->ranks + 1));
    TRY(ARRAY_NEW(p.stage_op, x->ranks));
    TRY(text_copy("sgd", &p.optimizer));
    for (uint32_t r = 0; r < x->ranks; r++)
        TRY(add_rank(x, t, r, recv, &p));
    TRY(program_plain_stages(&p));
    TRY(program_match(&p));
    MOVE(out, p);
out:
    program_free(&p);
    return st;
}

enum status pattern_simulate(const struct pattern *x, const struct topology *t,
                             const char *platform, const struct engine *engine,
                             const struct simulation_options *options, double *end_s)
{
    enum status st;
    struct program p = {0};
    struct simulation s = {0};
    uint32_t *recv = NULL;
    if (x->ranks > t->n)
        return error_set(STATUS_INVALID, "got %" PRIu32 " ranks, more than the %zu devices of %s",
                         x->ranks, t->n, t->name);
    TRY(ARRAY_NEW(recv, x->n));
    TRY(pattern_program(x, t, recv, &p));
    TRY(engine->run(&p, t, platform, options, &s));
    for (size_t k = 0; k < x->n; k++)
        end_s[k] = s.timeline.end_s[recv[k]];
out:
    simulation_free(&s);
    program_free(&p);
    free(recv);
    return st;
}
