/* goal, atlahs - schedules in the GOAL language: per rank calc, send and recv with what they
 * require.
 *
 * Grammar: spcl/LogGOPSim, src/LogGOPSim/txt2bin.re; times in nanoseconds. ATLAHS' simulator runs
 * several cpus in each rank: there what computes is on cpu 0, what communicates on cpu 1 and what
 * waits for a phase's latency on cpu 2, so that they overlap. LogGOPSim itself does not keep
 * dependencies between cpus: there all is on the one that lines without `cpu` are on. */
#include "core/base/array.h"
#include "sim/export/export.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/provenance.h"
#include "core/engine/shapes.h"

enum { NO_LABEL = 0, COMPUTE = 0, NETWORK = 1, WAIT = 2 };

/* An export under way. Labels count from 1 in every rank; GOAL refers to earlier lines by them. */
struct goal {
    const struct program *p;
    const struct topology *t;
    struct shapes shapes;
    FILE *to;
    bool cpus;           /* several */
    double unit_s;       /* of times */
    uint32_t *label;     /* [ops] of the line that ends an op; numbers begin at 1 in each rank */
    uint32_t *first_tag; /* [ops] collectives: tag of the first flow */
    uint32_t *sent;      /* [channels] label of the last SEND */
    uint32_t *called;    /* [groups] label that ends the rank's last collective of the group */
    uint32_t rank, last; /* rank that is being written, its last label */
};

/* ---- tags */

/* Steps of a ring: each of n pieces goes round once, of an all-reduce twice. */
static size_t ring_steps(uint8_t kind, size_t n)
{
    return kind == OP_ALLREDUCE ? 2 * (n - 1) : n - 1;
}

/* Does every n-th flow begin a ring, in which each of n members sends once and receives once? Of
 * several rings, flows between the same two members have become one (shapes.c). */
static bool has_whole_rings(const struct collective_shape *shape, size_t n)
{
    for (size_t f = 0; f < shape->flows; f++)
        for (size_t k = f - f % n; k < f; k++)
            if (shape->flow[k].from == shape->flow[f].from ||
                shape->flow[k].to == shape->flow[f].to)
                return false;
    return shape->flows % n == 0;
}

/* Those that end in one member are open chains, with one flow less. */
static bool goal_is_ring(const struct collective_shape *shape, uint8_t kind, size_t n)
{
    return shape->algorithm == &collective_ring && shape->phases > 0 && kind != OP_BROADCAST &&
           kind != OP_REDUCE && has_whole_rings(shape, n);
}

/* Two members know a message by its tag alone: of each step of each ring of each call it is
 * another, so that receives may be posted in any order; elsewhere of each flow. */
static uint64_t tags_of(const struct goal *g, const struct program_op *o)
{
    const struct collective_shape *shape = shapes_of(&g->shapes, o);
    size_t n = g->p->group_start[o->peer + 1] - g->p->group_start[o->peer];
    return goal_is_ring(shape, o->kind, n)
               ? (uint64_t)o->count * (shape->flows / n) * ring_steps(o->kind, n)
               : shape->flows;
}

/* Those of each collective, above those of the messages. */
static enum status number_tags(struct goal *g)
{
    const struct program *p = g->p;
    uint64_t next = 0;
    for (size_t i = 0; i < p->ops; i++)
        if (op_is_message(&p->op[i]) && p->op[i].tag >= next)
            next = (uint64_t)p->op[i].tag + 1;
    for (uint32_t group = 0; group < p->groups; group++) {
        uint32_t rank = p->member[p->group_start[group]];
        for (size_t i = p->op_start[rank]; i < p->op_start[rank + 1]; i++) {
            if (!op_is_collective(&p->op[i]) || p->op[i].peer != group)
                continue;
            size_t j = i;
            do
                g->first_tag[j] = (uint32_t)next;
            while ((j = p->op[j].match) != i);
            next += tags_of(g, &p->op[i]);
        }
    }
    if (next >= UINT32_MAX) /* that one means any tag */
        return error_set(STATUS_UNSUPPORTED,
                         "program needs %" PRIu64 " tags, more than GOAL supports", next);
    return STATUS_OK;
}

/* ---- lines */

/* A line may start only when an earlier one has ended. */
static void put_requires(const struct goal *g, uint32_t label, uint32_t earlier)
{
    if (earlier != NO_LABEL)
        fprintf(g->to, "l%" PRIu32 " requires l%" PRIu32 "\n", label, earlier);
}

/* The cpu that a line runs on, where the format has several. */
static void end_line(const struct goal *g, int cpu)
{
    if (g->cpus)
        fprintf(g->to, " cpu %d", cpu);
    fputc('\n', g->to);
}

/* Compute, or a wait, for whole nanoseconds; returns its label. */
static uint32_t put_calc(struct goal *g, double seconds, int cpu)
{
    fprintf(g->to, "l%" PRIu32 ": calc %lld", ++g->last, llround(seconds / g->unit_s));
    end_line(g, cpu);
    return g->last;
}

/* No message is empty: one byte at least. */
static uint32_t put_message(struct goal *g, bool sends, double bytes, uint32_t peer, uint32_t tag)
{
    long long size = llround(bytes);
    fprintf(g->to, "l%" PRIu32 ": %s %lldb %s %" PRIu32 " tag %" PRIu32, ++g->last,
            sends ? "send" : "recv", size > 1 ? size : 1, sends ? "to" : "from", peer, tag);
    end_line(g, NETWORK);
    return g->last;
}

/* What op i depends on, and line `also`, each once. */
static void require_deps(const struct goal *g, size_t i, uint32_t label, uint32_t also)
{
    const struct program *p = g->p;
    for (uint32_t d = p->op[i].dep_start; d < p->op[i + 1].dep_start; d++) {
        put_requires(g, label, g->label[p->dep[d]]);
        if (g->label[p->dep[d]] == also)
            also = NO_LABEL;
    }
    put_requires(g, label, also);
}

/* ---- collectives */

/* One member's part of a collective. */
struct goal_part {
    const struct collective_shape *shape;
    const uint32_t *member; /* ranks of the group */
    size_t n;
    uint32_t me, tag;
    uint32_t after; /* what the next phase waits for */
};

/* This member's part of a ring: the send of a step requires the receive of the step before. Under
 * ATLAHS receives are posted from the beginning, as a rank's are: one that is posted late costs
 * the message its way. The one cpu of LogGOPSim would be held by them. Returns the label that ends
 * it. */
static uint32_t put_ring(struct goal *g, const struct goal_part *a, size_t ring, size_t steps)
{
    const struct collective_flow *in = NULL, *out = NULL;
    for (size_t f = ring * a->n; f < (ring + 1) * a->n; f++) {
        in = a->shape->flow[f].to == a->me ? &a->shape->flow[f] : in;
        out = a->shape->flow[f].from == a->me ? &a->shape->flow[f] : out;
    }
    uint32_t before = a->after;
    for (size_t k = 0; k < steps; k++) {
        uint32_t tag = a->tag + (uint32_t)(ring * steps + k);
        uint32_t sent = put_message(g, true, out->bytes / (double)steps, a->member[out->to], tag);
        put_requires(g, sent, before);
        uint32_t received =
            put_message(g, false, in->bytes / (double)steps, a->member[in->from], tag);
        if (!g->cpus)
            put_requires(g, received, before);
        before = received;
    }
    return before;
}

/* All rings of the collective side by side; the call ends when the last of them has come round. */
static void put_rings(struct goal *g, struct goal_part *a, enum op_kind kind)
{
    size_t rings = a->shape->flows / a->n, steps = ring_steps((uint8_t)kind, a->n);
    uint32_t first = g->last + 1, each = 2 * (uint32_t)steps; /* labels */
    for (size_t k = 0; k < rings; k++)
        put_ring(g, a, k, steps);
    if (rings > 1) {
        a->after = put_calc(g, 0, WAIT);
        for (uint32_t k = 1; k <= rings; k++)
            put_requires(g, a->after, first + k * each - 1);
    } else {
        a->after = g->last;
    }
    a->tag += (uint32_t)(rings * steps);
}

/* The flows of a phase, all at once. It ends when what this member receives is there and the
 * phase's latency, of which a message's own is a part, is over. */
static void put_phase(struct goal *g, struct goal_part *a, const struct collective_phase *phase)
{
    uint32_t first = g->last + 1;
    double hidden_s = INFINITY;
    for (size_t f = phase->flow_start; f < phase->flow_end; f++) {
        const struct collective_flow *flow = &a->shape->flow[f];
        uint32_t tag = a->tag + (uint32_t)f;
        if (flow->from == a->me) {
            put_requires(g, put_message(g, true, flow->bytes, a->member[flow->to], tag), a->after);
        } else if (flow->to == a->me) {
            uint32_t peer = a->member[flow->from];
            put_requires(g, put_message(g, false, flow->bytes, peer, tag), a->after);
            double own_s =
                topology_between(g->t, g->p->rank[peer].device, g->p->rank[g->rank].device)
                    ->latency_s;
            hidden_s = own_s < hidden_s ? own_s : hidden_s;
        }
    }
    uint32_t last = g->last;
    if (last < first)
        return; /* takes no part in this phase */
    double rest_s = phase->latency_s - hidden_s;
    a->after = put_calc(g, rest_s > 0 ? rest_s : 0, WAIT);
    for (uint32_t k = first; k <= last; k++)
        put_requires(g, a->after, k);
}

/* Position of a rank in its group. */
static uint32_t member_index(const struct program *p, uint32_t group, uint32_t rank)
{
    uint32_t k = 0;
    while (p->member[p->group_start[group] + k] != rank)
        k++;
    return k;
}

/* The collective as messages of this member: an empty line that its dependencies end at, then
 * the rings' steps or the phases, call after call. */
static void goal_put_collective(struct goal *g, size_t i)
{
    const struct program *p = g->p;
    const struct program_op *o = &p->op[i];
    struct goal_part a = {.shape = shapes_of(&g->shapes, o),
                          .member = p->member + p->group_start[o->peer],
                          .n = p->group_start[o->peer + 1] - p->group_start[o->peer],
                          .me = member_index(p, o->peer, g->rank),
                          .tag = g->first_tag[i]};
    bool ring = goal_is_ring(a.shape, o->kind, a.n);
    a.after = put_calc(g, 0, WAIT);
    require_deps(g, i, a.after, g->called[o->peer]);
    for (uint32_t call = 0; call < o->count; call++) {
        if (ring)
            put_rings(g, &a, o->kind);
        for (size_t k = 0; !ring && k < a.shape->phases; k++)
            put_phase(g, &a, &a.shape->phase[k]);
    }
    g->label[i] = g->called[o->peer] = a.after;
}

/* ---- ranks */

/* *computed: the rank's last compute op. */
static void goal_put_op(struct goal *g, size_t i, uint32_t *computed)
{
    const struct program_op *o = &g->p->op[i];
    uint32_t label;
    if (op_computes(o)) {
        label = put_calc(g, o->seconds, COMPUTE);
        require_deps(g, i, label, *computed); /* in list order */
        *computed = label;
    } else {
        bool sends = o->kind == OP_SEND;
        label = put_message(g, sends, (double)o->bytes, o->peer, o->tag);
        require_deps(g, i, label, sends ? g->sent[o->channel] : NO_LABEL);
        if (sends)
            g->sent[o->channel] = label;
    }
    g->label[i] = label;
}

/* All lines of a rank, in list order. */
static void goal_put_rank(struct goal *g)
{
    const struct program *p = g->p;
    uint32_t computed = NO_LABEL;
    g->last = NO_LABEL;
    for (size_t k = 0; k < p->groups; k++)
        g->called[k] = NO_LABEL;
    fprintf(g->to, "\nrank %" PRIu32 " {\n", g->rank);
    for (size_t i = p->op_start[g->rank]; i < p->op_start[g->rank + 1]; i++)
        if (op_is_collective(&p->op[i]))
            goal_put_collective(g, i);
        else
            goal_put_op(g, i, &computed);
    fputs("}\n", g->to);
}

/* Room for labels, the shapes of the collectives, and a tag for each of their flows. */
static enum status goal_prepare(struct goal *g, const struct collective_options *options)
{
    const struct program *p = g->p;
    if (p->folded)
        return error_set(
            STATUS_UNSUPPORTED,
            "a folded program (one rank stands for several equal ones) cannot be exported");
    PASS(ARRAY_NEW(g->label, p->ops + 1));
    PASS(ARRAY_NEW(g->first_tag, p->ops + 1));
    PASS(ARRAY_NEW(g->sent, p->channels + 1));
    PASS(ARRAY_NEW(g->called, p->groups + 1));
    PASS(shapes_make(p, g->t, options, &g->shapes));
    return number_tags(g);
}

/* How to run it: GOAL has no network, so that all pairs get the slowest tier that ranks meet on.
 * LogGOPSim takes a whole number of units for a byte. */
static void put_parameters(const struct goal *g)
{
    const struct topology_tier *slowest = NULL;
    for (size_t r = 1; r < g->p->ranks; r++) {
        const struct topology_tier *tier =
            topology_between(g->t, g->p->rank[r - 1].device, g->p->rank[r].device);
        if (!slowest || tier->bandwidth_Bps < slowest->bandwidth_Bps)
            slowest = tier;
    }
    if (!slowest)
        return;
    double byte = 1 / (slowest->bandwidth_Bps * g->unit_s);
    fprintf(g->to,
            "// %s at %.9g bytes/s, in units of %.9g ns: -L %lld -G %.9g -o 0 -g 0 -O 0 -S "
            "2000000000\n",
            slowest->name ? slowest->name : "all links", slowest->bandwidth_Bps, g->unit_s * 1e9,
            llround(slowest->latency_s / g->unit_s), byte);
    if (!g->cpus && fabs(byte - round(byte)) > 1e-9 * byte)
        fprintf(g->to,
                "// LogGOPSim's -G is a whole number: --export goal:%.9gns=FILE makes it 1\n",
                1e9 / slowest->bandwidth_Bps);
}

/* The whole file: the number of ranks, then each rank's lines. Both dialects differ only in
 * their cpus. */
static enum status write_text(const struct program *p, const struct topology *t,
                              const struct export_options *options, bool cpus, const char *path,
                              const struct provenance *by)
{
    enum status st;
    struct file_out file = {0};
    struct goal g = {.p = p, .t = t, .cpus = cpus, .unit_s = 1e-9};
    if (options && options->unit_s > 0)
        g.unit_s = options->unit_s;
    TRY(goal_prepare(&g, options ? options->collective : NULL));
    TRY(file_create(path, &file));
    g.to = file.stream;
    fprintf(g.to, "// %s: %s, seed %" PRIu64 "\n", by->version, by->command, by->seed);
    put_parameters(&g);
    fprintf(g.to, "num_ranks %zu\n", p->ranks);
    for (g.rank = 0; g.rank < p->ranks; g.rank++)
        goal_put_rank(&g);
    TRY(file_commit(&file));
out:
    file_discard(&file);
    shapes_free(&g.shapes);
    free(g.label);
    free(g.first_tag);
    free(g.sent);
    free(g.called);
    return st;
}

static enum status write_goal(const struct program *p, const struct topology *t,
                              const struct export_options *options, const char *path,
                              const struct provenance *by)
{
    return write_text(p, t, options, false, path, by);
}

static enum status write_atlahs(const struct program *p, const struct topology *t,
                                const struct export_options *options, const char *path,
                                const struct provenance *by)
{
    return write_text(p, t, options, true, path, by);
}

const struct exporter exporter_goal = {
    .name = "goal",
    .target = "FILE",
    .takes_unit = true,
    .summary = "GOAL text for LogGOPSim, with one cpu per rank",
    .write = write_goal,
};

const struct exporter exporter_atlahs = {
    .name = "atlahs",
    .target = "FILE",
    .takes_unit = true,
    .summary = "GOAL text for ATLAHS, with compute and communication on separate cpus",
    .write = write_atlahs,
};
