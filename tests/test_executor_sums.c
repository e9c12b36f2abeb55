/* Sums inside passes are booked as the program's collectives: the passes' time is what they
 * computed, the collective's what all parts of the pass spent in sums. */

#include "exec/executor.h"
#include "tests/cmocka.h"

enum { OPS = 8 };

/* A list of one rank: op k runs from start[k] to end[k]. */
static void book_of(struct program_stage *stage, struct program_op *op, size_t n, double *start_s,
                    double *end_s, double *sums_s)
{
    size_t op_start[2] = {0, n};
    const struct program p = {.ranks = 1,
                              .op_start = op_start,
                              .ops = n,
                              .op = op,
                              .stages = stage != NULL,
                              .stage = stage};
    struct executor_step s = {.ops = n,
                              .op_start_s = start_s,
                              .op_end_s = end_s,
                              .sums_s = sums_s,
                              .exchanges_s = sums_s + n};
    executor_book_context(&p, 0, &s);
    executor_book_sums(&p, 0, &s);
}

static void book(struct program_op *op, size_t n, double *start_s, double *end_s, double *sums_s)
{
    book_of(NULL, op, n, start_s, end_s, sums_s);
}

static void expect(const double *found, const double *wanted, size_t n)
{
    for (size_t k = 0; k < n; k++)
        assert_true(found[k] == wanted[k]);
}

static void of_a_whole_pass(void **state)
{
    struct program_op op[OPS] = {
        {.kind = OP_FORWARD},  {.kind = OP_ALLREDUCE, .purpose = FOR_TENSOR},
        {.kind = OP_BACKWARD}, {.kind = OP_ALLREDUCE, .purpose = FOR_TENSOR},
        {.kind = OP_UPDATE},
    };
    double start[] = {0, 0, 10, 0, 30}, end[] = {10, 0, 30, 0, 31}, sums[10] = {4, 0, 5, 0, 0};
    book(op, 5, start, end, sums);
    expect(start, (const double[]){0, 6, 10, 25, 30}, 5);
    expect(end, (const double[]){6, 10, 25, 30, 31}, 5);
}

/* The last part makes no sum itself; what comes after the pass is not moved. */
static void of_all_parts_of_a_pass(void **state)
{
    struct program_op op[OPS] = {
        {.kind = OP_BACKWARD, .part = 1},
        {.kind = OP_ALLREDUCE, .purpose = FOR_DATA},
        {.kind = OP_BACKWARD, .part = 2},
        {.kind = OP_BACKWARD, .part = 3},
        {.kind = OP_ALLREDUCE, .purpose = FOR_TENSOR},
        {.kind = OP_UPDATE},
    };
    double start[] = {0, 10, 10, 20, 0, 24}, end[] = {10, 19, 20, 24, 0, 25},
           sums[12] = {4, 0, 3, 0, 0, 0};
    book(op, 6, start, end, sums);
    expect(start, (const double[]){0, 10, 6, 13, 17, 24}, 6);
    expect(end, (const double[]){6, 19, 13, 17, 24, 25}, 6);
}

/* Sums first, then exchanges, one after the other as the program has them. */
static void of_sums_and_exchanges(void **state)
{
    struct program_op op[OPS] = {{.kind = OP_FORWARD},
                                 {.kind = OP_ALLREDUCE, .purpose = FOR_TENSOR},
                                 {.kind = OP_ALLTOALL, .purpose = FOR_EXPERTS},
                                 {.kind = OP_BACKWARD},
                                 {.kind = OP_ALLTOALL, .purpose = FOR_EXPERTS}};
    double start[] = {0, 0, 0, 10, 0}, end[] = {10, 0, 0, 20, 0},
           sums[10] = {2, 0, 0, 0, 0, 3, 0, 0, 4, 0};
    book(op, 5, start, end, sums);
    expect(start, (const double[]){0, 5, 7, 10, 16}, 5);
    expect(end, (const double[]){5, 7, 10, 16, 20}, 5);
}

/* Of 5 s in the forward 2 are scattering; of 11 s in the backward 4 are before it. */
static void of_what_is_scattered_and_gathered(void **state)
{
    struct program_stage stage = {.sequence = true};
    struct program_op op[OPS] = {
        {.kind = OP_FORWARD},
        {.kind = OP_REDUCESCATTER, .purpose = FOR_TENSOR},
        {.kind = OP_ALLGATHER, .purpose = FOR_TENSOR},
        {.kind = OP_ALLGATHER, .purpose = FOR_TENSOR, .backward = true},
        {.kind = OP_BACKWARD, .purpose = FOR_TENSOR},
        {.kind = OP_BACKWARD},
        {.kind = OP_REDUCESCATTER, .purpose = FOR_TENSOR},
        {.kind = OP_ALLGATHER, .purpose = FOR_TENSOR},
    };
    double start[OPS] = {0, 0, 0, 0, 10, 10}, end[OPS] = {10, 0, 0, 0, 10, 30},
           sums[2 * OPS] = {5, 2, 3, 4, 0, 7, 1, 6};
    book_of(&stage, op, OPS, start, end, sums);
    expect(start, (const double[]){0, 5, 7, 10, 10, 14, 23, 24}, OPS);
    expect(end, (const double[]){5, 7, 10, 14, 10, 23, 24, 30}, OPS);
}

/* Devices without sums of their own: the transport knows when the op was. */
static void not_of_a_pass_without_any(void **state)
{
    struct program_op op[OPS] = {{.kind = OP_FORWARD},
                                 {.kind = OP_ALLREDUCE, .purpose = FOR_TENSOR},
                                 {.kind = OP_FORWARD, .microbatch = 1}};
    double start[] = {0, 11, 14}, end[] = {10, 13, 20}, sums[6] = {0};
    book(op, 3, start, end, sums);
    expect(start, (const double[]){0, 11, 14}, 3);
    expect(end, (const double[]){10, 13, 20}, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_a_whole_pass),
        cmocka_unit_test(of_all_parts_of_a_pass),
        cmocka_unit_test(of_sums_and_exchanges),
        cmocka_unit_test(of_what_is_scattered_and_gathered),
        cmocka_unit_test(not_of_a_pass_without_any),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
