#include "tests/toy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka.h"

enum { ROOM = 4096 };

void toy_begin(struct program *p, size_t groups, const uint32_t *const *group)
{
    *p = (struct program){.groups = groups, .microbatch_size = 1};
    p->rank = calloc(64, sizeof *p->rank);
    p->op_start = calloc(65, sizeof *p->op_start);
    p->op = calloc(ROOM, sizeof *p->op);
    p->dep = calloc(4 * ROOM, sizeof *p->dep);
    p->group_start = calloc(groups + 1, sizeof *p->group_start);
    p->member = calloc(64 * groups + 1, sizeof *p->member);
    p->optimizer = strdup("sgd");
    size_t n = 0;
    for (size_t g = 0; g < groups; g++) {
        for (const uint32_t *m = group[g]; *m != UINT32_MAX; m++)
            p->member[n++] = *m;
        p->group_start[g + 1] = n;
    }
}

void toy_rank(struct program *p)
{
    char name[16];
    snprintf(name, sizeof name, "toy%zu", p->ranks);
    p->rank[p->ranks].name = strdup(name);
    p->rank[p->ranks].stage = p->rank[p->ranks].device = (uint32_t)p->ranks;
    p->op_start[++p->ranks] = p->ops;
}

uint32_t toy_op(struct program *p, struct program_op op, const uint32_t *dep)
{
    assert_true(p->ops + 1 < ROOM);
    op.stage = (uint32_t)p->ranks - 1;
    op.dep_start = (uint32_t)p->deps;
    op.count = op.count > 0 ? op.count : 1;
    for (; dep && *dep != UINT32_MAX; dep++)
        p->dep[p->deps++] = *dep;
    p->op[p->ops++] = op;
    p->op_start[p->ranks] = p->ops;
    return (uint32_t)p->ops - 1;
}

void toy_finish(struct program *p)
{
    p->op[p->ops] = (struct program_op){.dep_start = (uint32_t)p->deps};
    p->stages = p->ranks;
    p->stage_start = calloc(p->stages + 1, sizeof *p->stage_start);
    p->stage_op = calloc(p->stages, sizeof *p->stage_op);
    for (uint32_t s = 0; s < p->stages; s++) {
        p->stage_op[s] = s;
        p->stage_start[s + 1] = s + 1;
    }
    enum status st = program_plain_stages(p);
    if (st == STATUS_OK)
        st = program_match(p);
    if (st != STATUS_OK)
        fail_msg("toy program: %s", error_message());
}

uint32_t toy_send(struct program *p, uint32_t to, uint32_t tag, int64_t bytes, const uint32_t *dep)
{
    struct program_op op = {
        .kind = OP_SEND, .microbatch = tag, .peer = to, .peer_stage = to, .tag = tag};
    op.bytes = bytes;
    return toy_op(p, op, dep);
}

uint32_t toy_recv(struct program *p, uint32_t from, uint32_t tag, int64_t bytes)
{
    struct program_op op = {
        .kind = OP_RECV, .microbatch = tag, .peer = from, .peer_stage = from, .tag = tag};
    op.bytes = bytes;
    return toy_op(p, op, NULL);
}

static uint32_t toy_compute(struct program *p, enum op_kind kind, uint32_t microbatch,
                            double seconds, const uint32_t *dep)
{
    struct program_op op = {.kind = (uint8_t)kind, .microbatch = microbatch, .seconds = seconds};
    op.peer = op.peer_stage = op.tag = PROGRAM_NONE;
    return toy_op(p, op, dep);
}

/* One direction of microbatch m on rank r: receive, compute, send. */
static uint32_t toy_pass(struct program *p, enum op_kind kind, uint32_t m, int64_t bytes,
                         double seconds, uint32_t forward)
{
    bool backward = kind == OP_BACKWARD;
    uint32_t r = (uint32_t)p->ranks - 1;
    uint32_t from = backward ? r + 1 : r - 1, to = backward ? r - 1 : r + 1;
    uint32_t last = (uint32_t)p->stages - 1, tag = m + (backward ? 1000 : 0);
    uint32_t dep[3] = {UINT32_MAX, UINT32_MAX, UINT32_MAX}, n = 0;
    if (forward != UINT32_MAX)
        dep[n++] = forward;
    if (backward ? r < last : r > 0) {
        dep[n] = toy_recv(p, from, tag, bytes);
        p->op[dep[n]].backward = backward;
        p->op[dep[n]].microbatch = m;
    }
    uint32_t op = toy_compute(p, kind, m, seconds, dep);
    if (backward ? r > 0 : r < last) {
        uint32_t s = toy_send(p, to, tag, bytes, (uint32_t[]){op, UINT32_MAX});
        p->op[s].backward = backward;
        p->op[s].microbatch = m;
    }
    return op;
}

void toy_pipeline(struct program *p, uint32_t ranks, uint32_t microbatches, int64_t bytes,
                  double seconds, bool reduce)
{
    uint32_t everyone[65];
    for (uint32_t r = 0; r < ranks; r++)
        everyone[r] = r;
    everyone[ranks] = UINT32_MAX;
    toy_begin(p, reduce, (const uint32_t *const[]){everyone});
    p->microbatches = microbatches;
    p->stages = ranks;
    for (uint32_t r = 0; r < ranks; r++) {
        uint32_t forward[64], last = UINT32_MAX;
        toy_rank(p);
        for (uint32_t m = 0; m < microbatches; m++)
            forward[m] = toy_pass(p, OP_FORWARD, m, bytes, seconds, UINT32_MAX);
        for (uint32_t m = 0; m < microbatches; m++)
            last = toy_pass(p, OP_BACKWARD, m, bytes, seconds, forward[m]);
        if (reduce) {
            struct program_op op = {.kind = OP_ALLREDUCE, .peer = 0, .bytes = bytes};
            op.microbatch = op.peer_stage = op.tag = PROGRAM_NONE;
            last = toy_op(p, op, (uint32_t[]){last, UINT32_MAX});
        }
        toy_compute(p, OP_UPDATE, PROGRAM_NONE, seconds, (uint32_t[]){last, UINT32_MAX});
    }
    toy_finish(p);
}

void toy_model(struct model *m, uint32_t ops)
{
    struct model_edge edge[64];
    *m = (struct model){.name = strdup("toy"), .element_bytes = 4, .n = ops};
    m->op = calloc(ops, sizeof *m->op);
    for (uint32_t i = 0; i < ops; i++) {
        char name[16];
        snprintf(name, sizeof name, "op%u", i);
        m->op[i] =
            (struct model_op){.name = strdup(name), .kind = strdup("toy"), .shares = MODEL_NO_OP};
        edge[i] = (struct model_edge){i, i + 1};
    }
    if (model_finish(m, edge, ops - 1, "toy") != STATUS_OK)
        fail_msg("toy model: %s", error_message());
}

uint32_t toy_collective(struct program *p, enum op_kind kind, uint32_t group, size_t n)
{
    struct program_op op = {.kind = (uint8_t)kind, .peer = group, .bytes = 4 * (int64_t)n};
    op.microbatch = op.peer_stage = op.tag = PROGRAM_NONE;
    return toy_op(p, op, NULL);
}
