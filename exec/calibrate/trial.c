/* One program with a collective for each case, tried by ranks that are processes or threads. All
 * leave their numbers in one array: of every rank the values of every case, then seconds and wrong
 * numbers of every timed call. */
#include "exec/calibrate/trial.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/limit.h"
#include "core/base/statistics.h"
#include "exec/rendezvous.h"
#include "exec/team.h"
#include "exec/transport.h"

const struct trial_case trial_values[TRIAL_VALUES] = {
    {OP_ALLREDUCE, REDUCTION_SUM}, {OP_ALLREDUCE, REDUCTION_AVERAGE}, {OP_ALLREDUCE, REDUCTION_MIN},
    {OP_ALLREDUCE, REDUCTION_MAX}, {OP_REDUCESCATTER, REDUCTION_SUM}, {OP_ALLGATHER, REDUCTION_SUM},
    {OP_BROADCAST, REDUCTION_SUM}, {OP_REDUCE, REDUCTION_SUM},        {OP_GATHER, REDUCTION_SUM},
    {OP_SCATTER, REDUCTION_SUM},   {OP_ALLTOALL, REDUCTION_SUM},
};
const enum op_kind trial_kinds[TRIAL_KINDS] = {OP_ALLREDUCE, OP_REDUCESCATTER, OP_ALLGATHER,
                                               OP_ALLTOALL,  OP_BROADCAST,     OP_REDUCE,
                                               OP_GATHER,    OP_SCATTER};
const size_t trial_sizes[TRIAL_SIZES] = {4 << 10, 64 << 10, 1 << 20, 4 << 20};

/* Ops of each rank: the values' cases, the timed ones, and a sum of one number before each of
 * these, so that all begin together. */
enum { OPS = TRIAL_VALUES + TRIAL_TIMES + 1 };

static struct trial_case case_of(size_t op)
{
    return op < TRIAL_VALUES
               ? trial_values[op]
               : (struct trial_case){op + 1 < OPS ? trial_kinds[(op - TRIAL_VALUES) / TRIAL_SIZES]
                                                  : OP_ALLREDUCE,
                                     REDUCTION_SUM};
}

/* Is it asked for? Sums before timed calls always. */
static bool is_tried(const struct trial_options *o, size_t op)
{
    return op < TRIAL_VALUES || op + 1 == OPS || !o->whole ||
           (op - TRIAL_VALUES) / TRIAL_SIZES < TRIAL_SHARDS;
}

/* Which op of a rank's it is: those that are not tried are not in the program, whose ops all have
 * to be done. */
static uint32_t position(const struct trial_options *o, size_t op)
{
    uint32_t n = 0;
    for (size_t k = 0; k < op; k++)
        n += is_tried(o, k);
    return n;
}

/* Numbers that a member has before a call. */
static size_t trial_fill_own(const struct trial_options *o, size_t op)
{
    const size_t *sizes = o->whole ? o->whole : trial_sizes;
    size_t n = op < TRIAL_VALUES ? o->ranks
               : op + 1 < OPS    ? sizes[(op - TRIAL_VALUES) % TRIAL_SIZES] / sizeof(float)
                                 : 1;
    if (case_of(op).kind != OP_ALLTOALL)
        return n;
    n /= o->whole && op >= TRIAL_VALUES ? o->ranks : 1;
    return n - n % o->ranks; /* equal parts */
}

/* In the array of a call: what an all-to-all brings is a half of its own. */
static size_t numbers_of(const struct trial_options *o, size_t op)
{
    return trial_fill_own(o, op) * (case_of(op).kind == OP_ALLTOALL ? 2 : 1);
}

static enum status trial_make_program(const struct trial_options *o, struct program *p)
{
    size_t ranks = o->ranks;
    *p = (struct program){.ranks = ranks, .groups = 1, .microbatch_size = 1};
    PASS(ARRAY_NEW(p->rank, ranks));
    PASS(ARRAY_NEW(p->op_start, ranks + 1));
    PASS(ARRAY_NEW(p->op, ranks * OPS + 1));
    PASS(ARRAY_NEW(p->group_start, 2));
    PASS(ARRAY_NEW(p->member, ranks));
    p->group_start[1] = ranks;
    for (uint32_t r = 0; r < ranks; r++) {
        p->rank[r].device = p->member[r] = r;
        for (size_t k = 0; k < OPS; k++)
            if (is_tried(o, k))
                p->op[p->ops++] = (struct program_op){.kind = (uint8_t)case_of(k).kind,
                                                      .reduction = (uint8_t)case_of(k).reduction,
                                                      .stage = r,
                                                      .microbatch = PROGRAM_NONE,
                                                      .tag = PROGRAM_NONE,
                                                      .count = 1,
                                                      .bytes = 4 * (int64_t)trial_fill_own(o, k)};
        p->op_start[r + 1] = p->ops;
    }
    return program_match(p);
}

double trial_expected(const struct trial_case *c, size_t ranks, size_t me, size_t owner, size_t i)
{
    const struct program_op op = {.kind = (uint8_t)c->kind};
    bool own = c->kind == OP_REDUCESCATTER || c->kind == OP_SCATTER;
    bool first = c->kind == OP_REDUCE || c->kind == OP_GATHER;
    if ((own && me != owner) || (first && me != 0))
        return NAN;
    if (c->kind == OP_ALLTOALL)
        return (double)(owner + me);
    if (!op_reduces(&op))
        return (double)(c->kind == OP_BROADCAST || c->kind == OP_SCATTER ? i : owner + i);
    double all = (double)i;
    for (size_t r = 1; r < ranks; r++) {
        double x = (double)(r + i);
        all = c->reduction == REDUCTION_MIN   ? fmin(all, x)
              : c->reduction == REDUCTION_MAX ? fmax(all, x)
                                              : all + x;
    }
    return c->reduction == REDUCTION_AVERAGE ? all / (double)ranks : all;
}

/* ---- one rank's part */

struct trial_rank {
    const struct trial_options *o;
    const struct transport *how;
    void *self;
    const struct program *program;
    uint32_t rank;
    float *data;    /* [largest size] */
    double *number; /* all ranks' */
};

static size_t trial_count_numbers(size_t ranks)
{
    return TRIAL_VALUES * ranks * ranks + 2 * TRIAL_TIMES * ranks;
}

/* Whose part a number of the array is in, and the how manieth number it is when the parts stand in
 * the order of the ranks: rank r's part lies in memory where ring_own() says. */
static void trial_for_each_number(size_t n, size_t ranks,
                                  void (*with)(void *, size_t, size_t, size_t), void *to)
{
    for (size_t r = 0, i = 0; r < ranks; r++) {
        const struct ring_part own = ring_own(n, ranks, r);
        for (size_t k = own.first; k < own.first + own.n; k++, i++)
            with(to, k, r, i);
    }
}

/* Whole numbers below 2^24 are exact: sizes are at most 2^20 numbers, and i counts up to 1000. */
static size_t small(size_t i)
{
    return i % 1000;
}

static void begin_with(void *to, size_t at, size_t owner, size_t i)
{
    struct trial_rank *p = to;
    (void)owner;
    p->data[at] = (float)(p->rank + small(i));
}

struct trial_check {
    const struct trial_rank *p;
    struct trial_case of;
    size_t wrong;
    double *value; /* NULL: not kept */
};

static void look_at(void *to, size_t at, size_t owner, size_t i)
{
    struct trial_check *c = to;
    double want = trial_expected(&c->of, c->p->o->ranks, c->p->rank, owner, small(i));
    c->wrong += !isnan(want) && c->p->data[at] != (float)want;
    if (c->value)
        c->value[i] = isnan(want) ? NAN : (double)c->p->data[at];
}

/* Of an all-to-all: part r of what rank `me` has then is part `me` of what rank r had; the own part
 * stays where it was. */
static void look_at_parts(struct trial_check *c, size_t n)
{
    size_t ranks = c->p->o->ranks, me = c->p->rank, part = n / ranks;
    for (size_t r = 0; r < ranks; r++)
        for (size_t k = 0; k < part; k++) {
            size_t at = r == me ? me * part + k : n + r * part + k;
            c->wrong += c->p->data[at] != (float)(r + small(me * part + k));
            if (c->value)
                c->value[r] = (double)c->p->data[at];
        }
}

static enum status trial_call(const struct trial_rank *p, size_t k)
{
    uint32_t op = (uint32_t)p->program->op_start[p->rank] + position(p->o, k);
    if (p->how->call)
        return p->how->call(p->self, op, ELEMENT_FP32, p->data, numbers_of(p->o, k),
                            limit_wait(WAIT_MEASURE));
    PASS(p->how->collective(p->self, op, ELEMENT_FP32, p->data, numbers_of(p->o, k)));
    return p->how->wait(p->self, op, limit_wait(WAIT_MEASURE), NULL);
}

/* The median of the runs' means. */
static enum status time_case(struct trial_rank *p, size_t k, double *seconds)
{
    size_t runs = p->o->runs > 0 ? p->o->runs : 1;
    double run_s[TRIAL_RUNS];
    memset(p->data, 0, numbers_of(p->o, k) * sizeof *p->data);
    for (size_t run = 0; run < runs; run++) {
        PASS(trial_call(p, OPS - 1));
        double begin_s = clock_now();
        for (size_t i = 0; i < p->o->repeats; i++)
            PASS(trial_call(p, k));
        run_s[run] = (clock_now() - begin_s) / (double)p->o->repeats;
    }
    *seconds = median(run_s, runs);
    return STATUS_OK;
}

/* The result of the first call is looked at, and later ones are timed. */
static enum status trial_try_case(struct trial_rank *p, size_t k)
{
    size_t ranks = p->o->ranks, n = trial_fill_own(p->o, k);
    struct trial_check c = {.p = p, .of = case_of(k)};
    bool parts = c.of.kind == OP_ALLTOALL;
    if (k < TRIAL_VALUES)
        c.value = p->number + (k * ranks + p->rank) * ranks;
    if (!parts)
        trial_for_each_number(n, ranks, begin_with, p);
    for (size_t i = 0; i < n && parts; i++)
        begin_with(p, i, 0, i);
    PASS(trial_call(p, k));
    if (parts)
        look_at_parts(&c, n);
    else
        trial_for_each_number(n, ranks, look_at, &c);
    if (k < TRIAL_VALUES)
        return STATUS_OK;
    double *row =
        p->number + TRIAL_VALUES * ranks * ranks + 2 * ((k - TRIAL_VALUES) * ranks + p->rank);
    row[1] = (double)c.wrong;
    return time_case(p, k, &row[0]);
}

/* Numbers of the largest array. */
static size_t most_numbers(const struct trial_options *o)
{
    size_t most = 0;
    for (size_t k = 0; k < OPS; k++)
        if (is_tried(o, k) && numbers_of(o, k) > most)
            most = numbers_of(o, k);
    return most;
}

static enum status trial_run_rank(const struct trial_options *o, const struct transport *how,
                                  const struct program *program, const struct rendezvous *meeting,
                                  double *number)
{
    enum status st;
    double start_s;
    struct trial_rank p = {
        .o = o, .how = how, .program = program, .rank = meeting->rank, .number = number};
    TRY(ARRAY_NEW(p.data, most_numbers(o)));
    TRY(how->open(program, p.rank, meeting, &p.self));
    TRY(how->barrier(p.self, limit_wait(WAIT_MEASURE), &start_s));
    for (size_t k = 0; k + 1 < OPS; k++)
        if (is_tried(o, k))
            TRY(trial_try_case(&p, k));
    TRY(how->barrier(p.self, limit_wait(WAIT_MEASURE), &start_s));
out:
    how->close(p.self);
    free(p.data);
    return st;
}

/* ---- processes, threads */

struct all {
    const struct trial_options *o;
    const struct transport *how;
    struct program program;
};

static enum status be_process(struct team_member *me, void *context)
{
    const struct all *a = context;
    const struct rendezvous meeting = team_meeting(me);
    return trial_run_rank(a->o, a->how, &a->program, &meeting, me->number);
}

struct thread {
    const struct all *all;
    struct rendezvous meeting;
    double *number;
    pthread_t id;
    enum status st;
    char message[512];
};

static void *be_thread(void *context)
{
    struct thread *t = context;
    t->st = trial_run_rank(t->all->o, t->all->how, &t->all->program, &t->meeting, t->number);
    if (t->st != STATUS_OK) {
        t->all->how->leave(t->meeting.shared, t->meeting.rank);
        snprintf(t->message, sizeof t->message, "%s", error_message());
    }
    return NULL;
}

static enum status trial_run_threads(const struct all *a, double *number)
{
    struct thread thread[TRIAL_RANKS] = {0};
    void *shared = NULL;
    size_t n = 0;
    enum status st = a->how->share(&a->program, &shared);
    for (; st == STATUS_OK && n < a->o->ranks; n++) {
        struct thread *t = &thread[n];
        *t = (struct thread){.all = a, .number = number};
        t->meeting = (struct rendezvous){.rank = (uint32_t)n,
                                         .ranks = (uint32_t)a->o->ranks,
                                         .listener = -1,
                                         .control = -1,
                                         .shared = shared,
                                         .timeout_s = limit_wait(WAIT_MEASURE)};
        if (pthread_create(&t->id, NULL, be_thread, t))
            break;
    }
    for (size_t k = n; st == STATUS_OK && k < a->o->ranks; k++)
        a->how->leave(shared, (uint32_t)k);
    if (st == STATUS_OK && n < a->o->ranks)
        st = error_set(STATUS_NOMEM, "cannot start %zu threads", a->o->ranks);
    for (size_t k = 0; k < n; k++) {
        pthread_join(thread[k].id, NULL);
        if (st == STATUS_OK && thread[k].st != STATUS_OK)
            st = error_set(thread[k].st, "%s", thread[k].message);
    }
    a->how->unshare(shared);
    return st;
}

/* ---- results */

/* The slowest rank's time counts, and every rank's wrong numbers. */
static void trial_gather(const double *number, struct trial_result *t)
{
    size_t n = t->ranks, values = TRIAL_VALUES * n * n;
    memcpy(t->value, number, values * sizeof *number);
    for (size_t k = 0; k < values; k++) {
        const struct trial_case *c = &trial_values[k / n / n];
        double want = trial_expected(c, n, k / n % n, k % n, k % n);
        t->wrong += !isnan(want) && number[k] != (double)(float)want;
    }
    for (size_t k = 0; k < TRIAL_TIMES; k++)
        for (size_t r = 0; r < n; r++) {
            const double *row = number + values + 2 * (k * n + r);
            t->time[k].seconds = fmax(t->time[k].seconds, row[0]);
            t->time[k].wrong += (size_t)row[1];
        }
}

enum status trial_run(const struct trial_options *o, struct trial_result *out)
{
    enum status st;
    bool local = !strcmp(o->transport, "local");
    struct all a = {.o = o, .how = local ? &transport_local : &transport_tcp};
    struct trial_result t = {.ranks = o->ranks};
    double *number = NULL;
    if (!local && strcmp(o->transport, "tcp") != 0)
        return error_set(STATUS_UNSUPPORTED, "unknown transport '%s'; known: tcp, local",
                         o->transport);
    if (o->ranks < 1 || o->ranks > TRIAL_RANKS || o->repeats < 1 || o->runs > TRIAL_RUNS)
        return error_set(
            STATUS_INVALID,
            "got %zu ranks and %zu repeats, expected 1 to %d ranks and at least 1 repeat", o->ranks,
            o->repeats, TRIAL_RANKS);
    TRY(ARRAY_NEW(number, trial_count_numbers(o->ranks)));
    TRY(ARRAY_NEW(t.value, TRIAL_VALUES * o->ranks * o->ranks));
    TRY(trial_make_program(o, &a.program));
    TRY(local ? trial_run_threads(&a, number)
              : team_run(o->ranks, trial_count_numbers(o->ranks), limit_wait(600), be_process, &a,
                         number));
    trial_gather(number, &t);
    MOVE(out, t);
out:
    free(number);
    program_free(&a.program);
    trial_free(&t);
    return st;
}

void trial_free(struct trial_result *t)
{
    free(t->value);
    *t = (struct trial_result){0};
}
