/* Collectives of the transport contract, against a serial reference. */
#include <stdlib.h>
#include <string.h>

#include "exec/rounds.h"
#include "tests/cmocka.h"
#include "tests/contract.h"
#include "tests/toy.h"

/* What call_all() sums: set before ranks begin. */
static enum element numbers;

/* Every collective of the list on a->data, the arrays one after the other in list order, all first
 * calls together. An op with count > 1 adds up the same array again and again. */
static enum status call_all(struct actor *a, void *t)
{
    enum status st = STATUS_OK;
    const struct program *p = &a->mesh->program;
    size_t first = p->op_start[a->rank], last = p->op_start[a->rank + 1];
    double start_s;
    for (size_t step = 0; step < a->steps; step++) {
        float *data = a->data;
        TRY(transport->barrier(t, patience_s, &start_s));
        for (size_t k = first; k < last; data += p->op[k++].bytes / 4)
            TRY(transport->collective(t, (uint32_t)k, numbers, data, (size_t)p->op[k].bytes / 4));
        data = a->data;
        for (size_t k = first; k < last; data += p->op[k++].bytes / 4)
            for (uint32_t call = 1;; call++) {
                TRY(transport->wait(t, (uint32_t)k, patience_s, NULL));
                if (call == p->op[k].count)
                    break;
                TRY(transport->collective(t, (uint32_t)k, numbers, data,
                                          (size_t)p->op[k].bytes / 4));
            }
    }
    TRY(transport->barrier(t, patience_s, &start_s));
out:
    return st;
}

static float value(uint32_t rank, size_t i)
{
    uint32_t x = rank * 2654435761u + (uint32_t)i * 40503u + 12345;
    x ^= x >> 13;
    return (float)(x * 1664525u) / 4294967296.0f - 0.5f; /* sums of these are rounded */
}

/* That, as what is summed. bf16: its upper half, in memory behind the lower one. */
struct number {
    float f;
};
static struct number number(uint32_t rank, size_t i)
{
    struct number x = {value(rank, i)};
    if (numbers == ELEMENT_BF16)
        memcpy(&x, (char *)&x + 2, 2);
    return x;
}

/* The chunk that element i is in: the first n % ranks are one element longer. */
static uint32_t chunk_of(uint32_t ranks, size_t n, size_t i)
{
    size_t end = 0, c = 0;
    for (; c < ranks; c++) {
        end += n / ranks + (c < n % ranks);
        if (i < end)
            break;
    }
    return (uint32_t)c;
}

/* Does the result of a collective say what member `me` has in an element that `owner` owns? */
static bool is_result(enum op_kind kind, uint32_t me, uint32_t owner)
{
    return kind == OP_REDUCE || kind == OP_GATHER           ? me == 0
           : kind == OP_REDUCESCATTER || kind == OP_SCATTER ? me == owner
                                                            : true;
}

/* What member `me` has in element i afterwards: chunk c is summed along the ring from member c on,
 * so that the member before c has the sum, and gathered from there; a reduce goes from the last
 * member down. */
static bool expected(const struct program_op *op, uint32_t ranks, uint32_t me, size_t i,
                     struct number *out)
{
    size_t n = (size_t)op->bytes / 4;
    uint32_t c = chunk_of(ranks, n, i), owner = (c + ranks - 1) % ranks;
    bool from_first = op->kind == OP_BROADCAST || op->kind == OP_SCATTER;
    *out = number(from_first              ? 0
                  : op->kind == OP_REDUCE ? ranks - 1
                  : op_reduces(op)        ? c
                                          : owner,
                  i);
    for (uint32_t k = 1; op_reduces(op) && k < ranks; k++) {
        struct number next = number(op->kind == OP_REDUCE ? ranks - 1 - k : (c + k) % ranks, i);
        element_add(numbers, &next, out, 1);
        *out = next;
    }
    return is_result(op->kind, me, owner);
}

static void fill(float *data, uint32_t rank, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct number x = number(rank, i);
        memcpy(element_at(numbers, data, i), &x, element_bytes(numbers));
    }
}

static float *new_array(size_t n)
{
    float *data = malloc((n + 1) * sizeof *data);
    assert_non_null(data);
    return data;
}

static void check_collective(enum op_kind kind, uint32_t ranks, uint32_t all, size_t n)
{
    uint32_t group[MAX_RANKS + 1] = {0, 1, 2, 3};
    struct mesh m = new_mesh();
    struct actor a[MAX_RANKS] = {0};
    group[ranks] = UINT32_MAX;
    toy_begin(&m.program, 1, (const uint32_t *const[]){group});
    for (uint32_t r = 0; r < ranks; r++) {
        toy_rank(&m.program);
        toy_collective(&m.program, kind, 0, n);
        a[r].data = new_array(n);
        fill(a[r].data, r, n);
    }
    idle(&m.program, all);
    toy_finish(&m.program);
    play_all(&m, a, call_all, 1);
    for (uint32_t r = 0; r < ranks; r++) {
        for (size_t i = 0; i < n && (!alone || r == self); i++) {
            struct number want;
            if (expected(&m.program.op[r], ranks, r, i, &want) &&
                memcmp(element_at(numbers, a[r].data, i), &want, element_bytes(numbers)) != 0)
                fail_msg("kind %d, %u ranks, %zu numbers of %zu bytes: rank %u is wrong in %zu",
                         kind, ranks, n, element_bytes(numbers), r, i);
        }
        free(a[r].data);
    }
    mesh_close(&m);
}

static const enum op_kind kinds[] = {OP_ALLREDUCE, OP_REDUCESCATTER, OP_ALLGATHER, OP_BROADCAST,
                                     OP_REDUCE,    OP_GATHER,        OP_SCATTER};
enum { KINDS = sizeof kinds / sizeof *kinds };

void collectives_are_their_serial_reference_bit_for_bit(void **state)
{
    static const size_t sizes[] = {0, 1, 2, 3, 5, 1000, 262147};
    for (numbers = 0; numbers <= ELEMENT_BF16; numbers++)
        for (uint32_t ranks = 1; ranks <= high; ranks++)
            for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
                for (size_t kind = 0; kind < KINDS; kind++)
                    check_collective(kinds[kind], ranks, alone ? high : ranks, sizes[k]);
    numbers = ELEMENT_FP32;
}

/* Sums of whole numbers, which no order of adding changes: what member `me` has in element i. */
static bool whole(const struct program_op *op, uint32_t ranks, uint32_t me, size_t i, float *out)
{
    uint32_t owner = (chunk_of(ranks, (size_t)op->bytes / 4, i) + ranks - 1) % ranks;
    bool from_first = op->kind == OP_BROADCAST || op->kind == OP_SCATTER;
    float sum = 0;
    for (uint32_t r = 0; r < ranks; r++)
        if (op_reduces(op) || r == (from_first ? 0 : owner))
            sum += (float)((r + 1) * (i % 1000 + 1));
    *out = sum;
    return is_result(op->kind, me, owner);
}

/* Two calls of a collective, one after the other, in each of two steps. */
static void check_algorithm(const struct rounds_algorithm *algorithm, enum op_kind kind,
                            uint32_t ranks, uint32_t all, size_t n)
{
    uint32_t group[MAX_RANKS + 1] = {0, 1, 2, 3};
    struct mesh m = new_mesh();
    struct actor a[MAX_RANKS] = {0};
    m.algorithm = algorithm;
    group[ranks] = UINT32_MAX;
    toy_begin(&m.program, 1, (const uint32_t *const[]){group});
    for (uint32_t r = 0; r < ranks; r++) {
        toy_rank(&m.program);
        toy_collective(&m.program, kind, 0, n);
        toy_collective(&m.program, kind, 0, n);
        a[r].data = new_array(2 * n);
        for (size_t i = 0; i < n; i++)
            a[r].data[i] = a[r].data[n + i] = (float)((r + 1) * (i % 1000 + 1));
    }
    idle(&m.program, all);
    toy_finish(&m.program);
    play_all(&m, a, call_all, 1);
    for (uint32_t r = 0; r < ranks; r++) {
        for (size_t i = 0; i < 2 * n && (!alone || r == self); i++) {
            float want;
            if (whole(&m.program.op[0], ranks, r, i % n, &want) && a[r].data[i] != want)
                fail_msg("%s, kind %d, %u ranks, %zu floats: rank %u has %g in %zu, not %g",
                         algorithm->name, kind, ranks, n, r, (double)a[r].data[i], i, (double)want);
        }
        free(a[r].data);
    }
    mesh_close(&m);
}

void every_algorithm_gives_the_sums_on_all_members(void **state)
{
    static const size_t sizes[] = {1, 2, 7, 1001};
    for (size_t i = 0; rounds_algorithm(i); i++)
        for (uint32_t ranks = 1; ranks <= high; ranks++)
            for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
                for (size_t kind = 0; kind < KINDS; kind++)
                    check_algorithm(rounds_algorithm(i), kinds[kind], ranks, alone ? high : ranks,
                                    sizes[k]);
}

void collectives_of_64_mib_are_their_serial_reference(void **state)
{
    /* rooted ones, over the same lanes, of 8 MiB; with little time only the first is large, over tcp */
    const size_t few = !strcmp(transport->name, "tcp");
    for (size_t kind = 0; kind < KINDS; kind++)
        check_collective(kinds[kind], high, high,
                         (kind < (test_everything() ? 3 : few) ? 16 : 2) * MIB);
}

/* Numbers of a draw: whole and small, so that every order of adding gives the same, also in
 * bf16. */
static float drawn(uint32_t seed, uint32_t rank, size_t i)
{
    uint32_t x = (seed * 2246822519u) ^ (rank * 2654435761u) ^ ((uint32_t)i * 3266489917u);
    x ^= x >> 15;
    x *= 668265263u;
    return (float)((int)((x >> 16) % 61) - 30);
}

static float as_float(const void *data, size_t i)
{
    float f;
    uint16_t half;
    if (numbers == ELEMENT_FP32) {
        memcpy(&f, element_at(numbers, data, i), sizeof f);
        return f;
    }
    memcpy(&half, element_at(numbers, data, i), sizeof half);
    return element_widen(half);
}

static float reduced(enum op_reduction how, uint32_t seed, uint32_t ranks, size_t i)
{
    float all = drawn(seed, 0, i);
    for (uint32_t r = 1; r < ranks; r++) {
        float x = drawn(seed, r, i);
        all = how == REDUCTION_MIN   ? (x < all ? x : all)
              : how == REDUCTION_MAX ? (x > all ? x : all)
                                     : all + x;
    }
    return how == REDUCTION_AVERAGE ? all / (float)ranks : all;
}

static void check_reduction(enum op_kind kind, enum op_reduction how, uint32_t ranks, uint32_t all,
                            size_t n, uint32_t seed)
{
    uint32_t group[MAX_RANKS + 1] = {0, 1, 2, 3};
    struct mesh m = new_mesh();
    struct actor a[MAX_RANKS] = {0};
    group[ranks] = UINT32_MAX;
    toy_begin(&m.program, 1, (const uint32_t *const[]){group});
    for (uint32_t r = 0; r < ranks; r++) {
        toy_rank(&m.program);
        m.program.op[toy_collective(&m.program, kind, 0, n)].reduction = (uint8_t)how;
        a[r].data = new_array(n);
        for (size_t i = 0; i < n; i++) {
            float x = drawn(seed, r, i);
            uint16_t half = element_narrow(x);
            memcpy(element_at(numbers, a[r].data, i),
                   numbers == ELEMENT_FP32 ? (void *)&x : (void *)&half, element_bytes(numbers));
        }
    }
    idle(&m.program, all);
    toy_finish(&m.program);
    play_all(&m, a, call_all, 1);
    for (uint32_t r = 0; r < ranks; r++) {
        for (size_t i = 0; i < n && (!alone || r == self); i++) {
            float want = reduced(how, seed, ranks, i), got = as_float(a[r].data, i);
            if (numbers == ELEMENT_BF16)
                want = element_widen(element_narrow(want));
            uint32_t owner = (chunk_of(ranks, n, i) + ranks - 1) % ranks;
            if (is_result(kind, r, owner) && got != want)
                fail_msg("kind %d, %s, %u ranks, %zu numbers: rank %u has %g in %zu, not %g", kind,
                         op_reduction_names[how], ranks, n, r, (double)got, i, (double)want);
        }
        free(a[r].data);
    }
    mesh_close(&m);
}

/* Drawn sizes, most of which the ranks do not divide, and none at all. */
void averages_minima_and_maxima_are_those_of_a_plain_loop(void **state)
{
    static const enum op_kind reducing[] = {OP_ALLREDUCE, OP_REDUCESCATTER, OP_REDUCE};
    uint32_t seed = 1;
    for (numbers = 0; numbers <= ELEMENT_BF16; numbers++)
        for (uint32_t ranks = 1; ranks <= high; ranks++)
            for (enum op_reduction how = 0; how < REDUCTIONS; how++)
                for (size_t k = 0; k < sizeof reducing / sizeof *reducing; k++)
                    for (int draw = 0; draw < 3; draw++, seed = seed * 1103515245u + 12345)
                        check_reduction(reducing[k], how, ranks, alone ? high : ranks,
                                        draw == 0 ? 0 : seed >> 16 & 511, seed);
    numbers = ELEMENT_FP32;
}

/* On the first half of a->data reduce-scatter and all-gather, on the second all-reduce. */
static enum status reduce_twice(struct actor *a, void *t)
{
    enum status st;
    const struct program *p = &a->mesh->program;
    uint32_t op = (uint32_t)p->op_start[a->rank];
    size_t n = (size_t)p->op[op].bytes / 4;
    double start_s;
    TRY(transport->barrier(t, patience_s, &start_s));
    TRY(transport->collective(t, op, ELEMENT_FP32, a->data, n));
    TRY(transport->collective(t, op + 2, ELEMENT_FP32, a->data + n, n));
    TRY(transport->wait(t, op, patience_s, NULL));
    TRY(transport->collective(t, op + 1, ELEMENT_FP32, a->data, n));
    TRY(transport->wait(t, op + 1, patience_s, NULL));
    TRY(transport->wait(t, op + 2, patience_s, NULL));
    TRY(transport->barrier(t, patience_s, &start_s));
out:
    return st;
}

void reduce_scatter_and_all_gather_are_an_all_reduce_bit_for_bit(void **state)
{
    static const uint32_t group[] = {0, 1, 2, 3, UINT32_MAX};
    static const size_t sizes[] = {1, 3, 10007};
    uint32_t members[MAX_RANKS + 1];
    memcpy(members, group, sizeof members);
    members[high] = UINT32_MAX;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        size_t n = sizes[k];
        struct mesh m = new_mesh();
        struct actor a[MAX_RANKS] = {0};
        toy_begin(&m.program, 1, (const uint32_t *const[]){members});
        for (uint32_t r = 0; r < high; r++) {
            toy_rank(&m.program);
            toy_collective(&m.program, OP_REDUCESCATTER, 0, n);
            toy_collective(&m.program, OP_ALLGATHER, 0, n);
            toy_collective(&m.program, OP_ALLREDUCE, 0, n);
            a[r].data = new_array(2 * n);
            fill(a[r].data, r, n);
            fill(a[r].data + n, r, n);
        }
        toy_finish(&m.program);
        play_all(&m, a, reduce_twice, 1);
        for (uint32_t r = 0; r < high; r++) {
            if (!alone || r == self)
                assert_memory_equal(a[r].data, a[r].data + n, n * sizeof(float));
            free(a[r].data);
        }
        mesh_close(&m);
    }
}

/* Ones, summed three times over `high` ranks in each of two steps. */
void an_op_may_be_called_as_often_as_its_count(void **state)
{
    static const uint32_t group[] = {0, 1, 2, 3, UINT32_MAX};
    enum { N = 7, COUNT = 3, STEPS = 2 };
    uint32_t members[MAX_RANKS + 1];
    float data[MAX_RANKS][2 * N], want = 1;
    struct mesh m = new_mesh();
    struct actor a[MAX_RANKS] = {0};
    memcpy(members, group, sizeof members);
    members[high] = UINT32_MAX;
    toy_begin(&m.program, 1, (const uint32_t *const[]){members});
    for (uint32_t r = 0; r < high; r++) {
        toy_rank(&m.program);
        m.program.op[toy_collective(&m.program, OP_ALLREDUCE, 0, N)].count = COUNT;
        toy_collective(&m.program, OP_ALLREDUCE, 0, N);
        for (size_t i = 0; i < 2 * N; i++)
            data[r][i] = 1;
        a[r].data = data[r];
    }
    toy_finish(&m.program);
    play_all(&m, a, call_all, STEPS);
    for (int k = 0; k < COUNT * STEPS; k++)
        want *= (float)high;
    for (uint32_t r = 0; r < high; r++)
        for (size_t i = 0; i < 2 * N && (!alone || r == self); i++)
            assert_true(data[r][i] == (i < N ? want : (float)(high * high)));
    mesh_close(&m);
}

/* Twice in one, behind a call that is under way; then one in which the last rank has no part. */
static enum status call_in_one(struct actor *a, void *t)
{
    enum status st;
    uint32_t op = (uint32_t)a->mesh->program.op_start[a->rank];
    double start_s;
    TRY(transport->barrier(t, patience_s, &start_s));
    TRY(transport->collective(t, op, ELEMENT_FP32, a->data, 5));
    TRY(transport->call(t, op + 1, ELEMENT_FP32, a->data + 5, 3, patience_s));
    TRY(transport->wait(t, op, patience_s, NULL));
    TRY(transport->call(t, op + 1, ELEMENT_FP32, a->data + 5, 3, patience_s));
    TRY(transport->barrier(t, patience_s, &start_s));
    if (a->rank + 1 < high)
        st = transport->call(t, op, ELEMENT_FP32, a->data, 5, 0.2);
    pthread_barrier_wait(a->together); /* until everybody has waited */
out:
    return st;
}

void calls_in_one_are_calls_and_end_in_time(void **state)
{
    uint32_t members[MAX_RANKS + 1] = {0, 1, 2, 3};
    float data[MAX_RANKS][8];
    struct mesh m = new_mesh();
    struct actor a[MAX_RANKS] = {0};
    pthread_barrier_t together;
    if (!transport->call || alone) {
        print_message("%s has no calls in one\n", transport->name);
        skip();
    }
    members[high] = UINT32_MAX;
    pthread_barrier_init(&together, NULL, high);
    toy_begin(&m.program, 1, (const uint32_t *const[]){members});
    for (uint32_t r = 0; r < high; r++) {
        toy_rank(&m.program);
        toy_collective(&m.program, OP_ALLREDUCE, 0, 5);
        toy_collective(&m.program, OP_ALLREDUCE, 0, 3);
        for (size_t i = 0; i < 8; i++)
            data[r][i] = 1;
        a[r] = (struct actor){
            .mesh = &m, .rank = r, .act = call_in_one, .data = data[r], .together = &together};
    }
    toy_finish(&m.program);
    mesh_open(&m);
    play(a, high);
    for (uint32_t r = 0; r < high; r++) {
        if (r + 1 < high)
            assert_int_equal(a[r].st, STATUS_EXTERNAL);
        assert_true(data[r][5] == (float)(high * high));
        if (r + 1 == high) /* the others are in the middle of a sum */
            assert_true(data[r][0] == (float)high);
    }
    mesh_close(&m);
    pthread_barrier_destroy(&together);
}

/* Every way to call a collective wrongly; what is right goes on afterwards. */
static enum status call_wrongly(struct actor *a, void *t)
{
    enum status st;
    uint32_t op = (uint32_t)a->mesh->program.op_start[a->rank];
    double start_s;
    TRY(transport->barrier(t, patience_s, &start_s));
    bool refused = transport->wait(t, op, patience_s, NULL) == STATUS_INVALID;
    TRY(transport->collective(t, op, ELEMENT_FP32, a->data, 3));
    refused = refused && transport->collective(t, op, ELEMENT_FP32, a->data, 3) == STATUS_INVALID;
    TRY(transport->wait(t, op, patience_s, NULL));
    TRY(transport->collective(t, op, ELEMENT_FP32, a->data, 2)); /* another call, of another size */
    TRY(transport->wait(t, op, patience_s, NULL));
    TRY(transport->barrier(t, patience_s, &start_s));
    if (!refused) {
        st = error_set(STATUS_IO, "a wrong call is taken");
        goto out;
    }
    TRY(transport->barrier(t, patience_s, &start_s));
out:
    return st;
}

void wrong_calls_and_a_step_without_any_are_misuse(void **state)
{
    static const uint32_t group[][2] = {
        {0, UINT32_MAX}, {1, UINT32_MAX}, {2, UINT32_MAX}, {3, UINT32_MAX}};
    struct mesh m = new_mesh();
    struct actor a[MAX_RANKS] = {0};
    float data[MAX_RANKS][3] = {{0}};
    toy_begin(&m.program, high, (const uint32_t *const[]){group[0], group[1], group[2], group[3]});
    for (uint32_t r = 0; r < high; r++) {
        toy_rank(&m.program);
        m.program.op[toy_collective(&m.program, OP_ALLGATHER, r, 3)].count = 2;
    }
    toy_finish(&m.program);
    mesh_open(&m);
    for (uint32_t r = 0; r < high; r++)
        a[r] = (struct actor){.mesh = &m, .rank = r, .act = call_wrongly, .data = data[r]};
    play(a, high);
    for (uint32_t r = 0; r < high; r++)
        if (!alone || r == self) {
            assert_int_equal(a[r].st, STATUS_INVALID);
            assert_non_null(strstr(a[r].message, "ALLGATHER: not complete or not released"));
        }
    mesh_close(&m);
}

/* Replicas {0, 1} and {2, 3} reduce, then {0, 2} and {1, 3}: the second sum needs the first. */
void collectives_of_overlapping_groups_run_in_list_order(void **state)
{
    static const uint32_t g0[] = {0, 1, UINT32_MAX}, g1[] = {2, 3, UINT32_MAX};
    static const uint32_t g2[] = {0, 2, UINT32_MAX}, g3[] = {1, 3, UINT32_MAX};
    struct mesh m = new_mesh();
    struct actor a[MAX_RANKS] = {0};
    float data[MAX_RANKS][2];
    if (high < 4)
        skip();
    toy_begin(&m.program, 4, (const uint32_t *const[]){g0, g1, g2, g3});
    for (uint32_t r = 0; r < 4; r++) {
        toy_rank(&m.program);
        toy_collective(&m.program, OP_ALLREDUCE, r / 2, 1);
        toy_collective(&m.program, OP_ALLREDUCE, 2 + r % 2, 1);
        data[r][0] = data[r][1] = (float)(1 << 4 * r);
        a[r].data = data[r];
    }
    toy_finish(&m.program);
    play_all(&m, a, call_all, 1);
    static const float expected[4][2] = {
        {0x11, 0x101}, {0x11, 0x1010}, {0x1100, 0x101}, {0x1100, 0x1010}};
    for (uint32_t r = 0; r < 4; r++)
        if (!alone || r == self)
            assert_memory_equal(data[r], expected[r], sizeof expected[r]);
    mesh_close(&m);
}

/* Everybody sums with the next one, in a ring of groups, while messages cross. */
static enum status mix(struct actor *a, void *t)
{
    enum status st;
    const struct program *p = &a->mesh->program;
    double start_s;
    for (size_t step = 0; step < a->steps; step++) {
        TRY(transport->barrier(t, patience_s, &start_s));
        for (uint32_t k = (uint32_t)p->op_start[a->rank]; k < p->op_start[a->rank + 1]; k++) {
            void *data;
            if (p->op[k].kind == OP_ALLREDUCE)
                TRY(transport->collective(t, k, ELEMENT_FP32, a->data, (size_t)p->op[k].bytes / 4));
            if (p->op[k].kind != OP_SEND)
                continue;
            TRY(transport->send_buffer(t, k, &data));
            memset(data, (int)a->rank, (size_t)p->op[k].bytes);
            TRY(transport->send(t, k));
        }
        for (uint32_t k = (uint32_t)p->op_start[a->rank]; k < p->op_start[a->rank + 1]; k++) {
            const void *data;
            TRY(transport->wait(t, k, patience_s, &data));
            if (p->op[k].kind != OP_RECV)
                continue;
            if (*(const unsigned char *)data != p->op[k].peer)
                return error_set(STATUS_INVALID, "rank %u's message is another's", p->op[k].peer);
            transport->release(t, k);
        }
    }
    TRY(transport->barrier(t, patience_s, &start_s));
out:
    return st;
}

void messages_and_collectives_do_not_disturb_each_other(void **state)
{
    static const uint32_t group[] = {0, 1, UINT32_MAX};
    enum { N = 100000, STEPS = 3 };
    struct mesh m = new_mesh();
    struct actor a[MAX_RANKS] = {0};
    float *data = calloc(2 * N, sizeof *data);
    toy_begin(&m.program, 1, (const uint32_t *const[]){group});
    for (uint32_t r = 0; r < 2; r++) {
        toy_rank(&m.program);
        toy_send(&m.program, 1 - r, 0, 400000, NULL);
        toy_collective(&m.program, OP_ALLREDUCE, 0, N);
        toy_recv(&m.program, 1 - r, 0, 400000);
        a[r].data = data + r * N;
        for (size_t i = 0; i < N; i++)
            a[r].data[i] = 1;
    }
    idle(&m.program, low);
    toy_finish(&m.program);
    play_all(&m, a, mix, STEPS);
    for (uint32_t r = 0; r < 2; r++)
        for (size_t i = 0; i < N && (!alone || r == self); i++)
            assert_true(a[r].data[i] == 1 << STEPS);
    free(data);
    mesh_close(&m);
}

static enum status leave_or_sum(struct actor *a, void *t)
{
    enum status st;
    uint32_t op = (uint32_t)a->mesh->program.op_start[a->rank];
    double start_s;
    TRY(transport->barrier(t, patience_s, &start_s));
    if (a->rank == 1)
        return STATUS_OK;
    TRY(transport->collective(t, op, ELEMENT_FP32, a->data, 100));
    TRY(transport->wait(t, op, patience_s, NULL));
out:
    return st;
}

void a_dead_peer_ends_a_collective_on_all_members(void **state)
{
    static const uint32_t group[] = {0, 1, 2, UINT32_MAX};
    struct mesh m = new_mesh();
    struct actor a[MAX_RANKS] = {0};
    float data[3][100] = {{0}};
    if (alone)
        skip(); /* the rank that dies takes the others with it: the other scene has shown that */
    toy_begin(&m.program, 1, (const uint32_t *const[]){group});
    for (uint32_t r = 0; r < 3; r++) {
        toy_rank(&m.program);
        toy_collective(&m.program, OP_ALLREDUCE, 0, 100);
    }
    toy_finish(&m.program);
    mesh_open(&m);
    for (uint32_t r = 0; r < 3; r++)
        a[r] = (struct actor){.mesh = &m, .rank = r, .act = leave_or_sum, .data = data[r]};
    play(a, 3);
    for (uint32_t r = 0; r < 3; r += 2) {
        assert_int_equal(a[r].st, STATUS_IO);
        assert_non_null(strstr(a[r].message, "ALLREDUCE with rank "));
    }
    mesh_close(&m);
}
