/* The paced device: sizes and times of the program, no numerics. */
#include "exec/device.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/tiny.h"

static enum status open_and_close(const struct model *m)
{
    struct program p;
    void *self = NULL;
    enum status st = tiny_whole(m, 1, "adam", &p);
    if (st != STATUS_OK)
        return st;
    st = device_paced.open(m, &p, 0, &(struct device_options){0}, &self);
    device_paced.close(self);
    program_free(&p);
    return st;
}

static void opens_ops_of_any_kind(void **state)
{
    struct model m;
    assert_int_equal(tiny_gpt(1, true, &m), STATUS_OK);
    m.op[2].kind[0] = 'L';
    assert_null(device_paced.computes);
    FOR_EACH_ALLOC_FAILURE(open_and_close(&m));
    model_free(&m);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void paced_ops_take_at_least_the_time_given(void **state)
{
    struct model m;
    struct program p;
    void *self;
    assert_int_equal(tiny_gpt(1, false, &m), STATUS_OK);
    assert_int_equal(tiny_whole(&m, 1, "adam", &p), STATUS_OK);
    assert_int_equal(device_paced.open(&m, &p, 0, &(struct device_options){0}, &self), STATUS_OK);
    double start = now_s();
    assert_int_equal(device_paced.compute(
                         self, 0, &(struct program_op){.kind = OP_FORWARD, .seconds = 0.01}, NULL),
                     STATUS_OK);
    assert_int_equal(device_paced.compute(
                         self, 0, &(struct program_op){.kind = OP_BACKWARD, .seconds = 0.02}, NULL),
                     STATUS_OK);
    assert_int_equal(device_paced.compute(
                         self, 0, &(struct program_op){.kind = OP_UPDATE, .seconds = 0.005}, NULL),
                     STATUS_OK);
    assert_true(now_s() - start >= 0.035 - 1e-6);
    assert_int_equal(device_paced.compute(
                         self, 0, &(struct program_op){.kind = OP_FORWARD, .seconds = -1}, NULL),
                     STATUS_OK);
    assert_int_equal(
        device_paced.compute(
            self, 0, &(struct program_op){.kind = OP_FORWARD, .seconds = (double)NAN}, NULL),
        STATUS_OK);
    assert_int_equal(
        device_paced.compute(
            self, 0, &(struct program_op){.kind = OP_FORWARD, .seconds = (double)INFINITY}, NULL),
        STATUS_INVALID);
    assert_true(device_paced.take_loss(self) == 0);
    device_paced.close(self);
    device_paced.close(NULL);
    program_free(&p);
    model_free(&m);
}

static void paced_messages_have_the_program_s_sizes(void **state)
{
    struct model m;
    struct program p;
    void *self;
    uint32_t s[TINY_OPS];
    assert_int_equal(tiny_gpt(1, true, &m), STATUS_OK);
    assert_int_equal(tiny_program(&m, 2, tiny_cut(s, 5, TINY_OPS, TINY_OPS), 2, "adam", &p),
                     STATUS_OK);
    struct program_op ops[] = {
        {.kind = OP_SEND, .peer_stage = 1, .bytes = 8},
        {.kind = OP_SEND, .peer_stage = 1, .backward = true, .bytes = 4},
        {.kind = OP_ALLREDUCE, .tag = PROGRAM_NONE, .count = 1, .bytes = 400},
        {.kind = OP_ALLREDUCE, .tag = 0, .count = 1, .bytes = m.op[m.n - 2].shared_bytes},
        {.kind = OP_UPDATE},
    };
    free(p.op);
    p.op = ops;
    p.op_start[1] = p.op_start[2] = 4;
    assert_int_equal(device_paced.open(&m, &p, 0, &(struct device_options){0}, &self), STATUS_OK);
    unsigned char data[9] = {0};
    enum element e;
    void *array;
    size_t n;
    data[8] = 7;
    assert_int_equal(
        device_paced.get(self, &(struct program_op){.kind = OP_SEND, .microbatch = 1, .bytes = 8},
                         data),
        STATUS_OK);
    assert_memory_equal(data, "\1\1\1\1\1\1\1\1\7", 9);
    assert_int_equal(device_paced.get(self, &ops[1], data), STATUS_OK);
    assert_memory_equal(data, "\x80\x80\x80\x80\1\1\1\1\7", 9);
    assert_int_equal(device_paced.put(self, &ops[1], data), STATUS_OK);
    assert_int_equal(device_paced.array(self, &ops[2], 0, &e, &array, &n), STATUS_OK);
    assert_int_equal(n, 100);
    assert_int_equal(device_paced.array(self, &ops[3], 0, &e, &array, &n), STATUS_OK);
    assert_int_equal(n, TINY_VOCABULARY * TINY_CHANNELS);
    const float *gradient = array;
    assert_int_equal(e, ELEMENT_FP32);
    for (size_t i = 0; i < n; i++)
        assert_true(gradient[i] == 0);
    assert_true(device_paced.peak_bytes(self) >= (int64_t)(n * sizeof *gradient));
    uint8_t digest[DIGEST] = {1}, zeros[DIGEST] = {0};
    assert_int_equal(device_paced.digest(self, 0, digest), STATUS_OK);
    assert_memory_equal(digest, zeros, DIGEST);
    device_paced.close(self);
    p.op = NULL;
    program_free(&p);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_ops_of_any_kind),
        cmocka_unit_test(paced_ops_take_at_least_the_time_given),
        cmocka_unit_test(paced_messages_have_the_program_s_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
