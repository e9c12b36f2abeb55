#include "exec/corpus.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/random.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/put.h"

static void shipped_text_is_the_file_in_the_tree(void **state)
{
    char *text;
    size_t n;
    const struct corpus *c = corpus_shipped();
    assert_int_equal(file_read(SOURCE_DIR "/exec/data/pride-and-prejudice.txt", &text, &n),
                     STATUS_OK);
    assert_int_equal(c->n, n);
    assert_memory_equal(c->text, text, n);
    assert_null(memchr(text, CORPUS_MASK, n));
    free(text);
}

static const char path[] = BINARY_DIR "/test_corpus.txt";

static enum status read_and_free(void)
{
    struct corpus c;
    enum status st = corpus_read(path, &c);
    if (st == STATUS_OK)
        corpus_free(&c);
    return st;
}

static void reads_the_bytes_of_a_file(void **state)
{
    struct corpus c;
    put_bytes(path, "ab\0\xff", 4);
    assert_int_equal(corpus_read(path, &c), STATUS_OK);
    assert_int_equal(c.n, 4);
    assert_memory_equal(c.text, "ab\0\xff", 4);
    corpus_free(&c);
    assert_null(c.text);
    corpus_free(&c);
    FOR_EACH_ALLOC_FAILURE(read_and_free());
}

static void refuses_missing_and_empty_files(void **state)
{
    put_text(path, "");
    assert_int_equal(read_and_free(), STATUS_IO);
    assert_message(error_message(), "empty");
    unlink(path);
    assert_int_equal(read_and_free(), STATUS_IO);
    assert_message(error_message(), path);
}

static void refuses_a_text_no_longer_than_a_sample(void **state)
{
    const struct corpus c = {(const unsigned char *)"hello", 5};
    assert_int_equal(batch_check(&c, &(struct batch_shape){OBJECTIVE_NEXT, 1, 4}), STATUS_OK);
    assert_int_equal(batch_check(&c, &(struct batch_shape){OBJECTIVE_NEXT, 1, 5}), STATUS_INVALID);
}

enum { SAMPLES = 3, TOKENS = 20 };

static void next_token_targets_are_the_tokens_moved_by_one(void **state)
{
    const struct corpus c = {(const unsigned char *)"abcdefghijklmnopqrstuvwxyz", 26};
    const struct batch_shape s = {OBJECTIVE_NEXT, SAMPLES, TOKENS};
    int32_t token[SAMPLES * TOKENS], target[SAMPLES * TOKENS];
    assert_int_equal(batch_targets(&s), TOKENS);
    for (uint32_t m = 0; m < 50; m++) {
        batch_fill(&c, &s, 1, 0, m, token, target);
        for (size_t i = 0; i < SAMPLES * TOKENS; i++) {
            assert_int_equal(target[i], token[i] == 'z' ? 'a' : token[i] + 1);
            if (i % TOKENS > 0)
                assert_int_equal(token[i], target[i - 1]);
        }
    }
}

static void last_target_is_the_byte_after_the_sample(void **state)
{
    const struct corpus c = {(const unsigned char *)"abcdefghijklmnopqrstuvwxyz", 26};
    const struct batch_shape s = {OBJECTIVE_LAST, SAMPLES, TOKENS};
    int32_t token[SAMPLES * TOKENS], target[SAMPLES + 1];
    target[SAMPLES] = 77;
    assert_int_equal(batch_targets(&s), 1);
    batch_fill(&c, &s, 1, 0, 0, token, target);
    for (size_t b = 0; b < SAMPLES; b++) {
        int32_t last = token[b * TOKENS + TOKENS - 1];
        assert_int_equal(target[b], last == 'z' ? 'a' : last + 1);
    }
    assert_int_equal(target[SAMPLES], 77);
}

static void masks_exactly_fifteen_percent_of_every_sample(void **state)
{
    static const size_t length[] = {1, 3, 4, 10, 17, 20, 128};
    static const size_t expected[] = {1, 1, 1, 2, 3, 3, 19}; /* round(0.15 n), half up */
    int32_t token[2 * 128], target[2 * 128], plain[2 * 128], unused[2 * 128];
    for (size_t k = 0; k < sizeof length / sizeof *length; k++) {
        size_t n = length[k], hits[128] = {0};
        const struct batch_shape s = {OBJECTIVE_MASKED, 2, n}, next = {OBJECTIVE_NEXT, 2, n};
        assert_int_equal(batch_targets(&s), expected[k]);
        for (uint32_t m = 0; m < 200; m++) {
            batch_fill(corpus_shipped(), &s, 5, 2, m, token, target);
            batch_fill(corpus_shipped(), &next, 5, 2, m, plain, unused);
            size_t masked[2] = {0, 0};
            for (size_t i = 0; i < 2 * n; i++) {
                bool hidden = target[i] >= 0;
                masked[i / n] += hidden;
                hits[i % n] += hidden;
                assert_int_equal(token[i], hidden ? CORPUS_MASK : plain[i]);
                assert_int_equal(target[i], hidden ? plain[i] : -1);
            }
            assert_int_equal(masked[0], expected[k]);
            assert_int_equal(masked[1], expected[k]);
        }
        /* every position is hidden as often as any other: 400 draws, six standard deviations */
        double p = (double)expected[k] / (double)n, mean = 400 * p;
        for (size_t i = 0; i < n; i++)
            assert_true(fabs((double)hits[i] - mean) <= 6 * sqrt(mean * (1 - p)) + 1e-9);
    }
}

static void batches_depend_on_seed_step_and_microbatch_alone(void **state)
{
    const struct batch_shape s = {OBJECTIVE_NEXT, SAMPLES, TOKENS};
    int32_t token[5][SAMPLES * TOKENS], target[SAMPLES * TOKENS];
    batch_fill(corpus_shipped(), &s, 1, 2, 3, token[0], target);
    batch_fill(corpus_shipped(), &s, 2, 2, 3, token[1], target);
    batch_fill(corpus_shipped(), &s, 1, 3, 3, token[2], target);
    batch_fill(corpus_shipped(), &s, 1, 2, 4, token[3], target);
    batch_fill(corpus_shipped(), &s, 1, 2, 3, token[4], target);
    assert_memory_equal(token[0], token[4], sizeof token[0]);
    for (size_t i = 1; i < 4; i++)
        assert_memory_not_equal(token[0], token[i], sizeof token[0]);
}

/* Known answers keep runs comparable between versions. The generator's first outputs for seed
 * 1234567 are those of the reference implementation of SplitMix64. */
static void random_numbers_are_those_of_splitmix64(void **state)
{
    assert_true(random_at(1234567, 0) == UINT64_C(6457827717110365317));
    assert_true(random_at(1234567, 1) == UINT64_C(3203168211198807973));
    assert_true(random_at(1234567, 2) == UINT64_C(9817491932198370423));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped_text_is_the_file_in_the_tree),
        cmocka_unit_test(reads_the_bytes_of_a_file),
        cmocka_unit_test(refuses_missing_and_empty_files),
        cmocka_unit_test(refuses_a_text_no_longer_than_a_sample),
        cmocka_unit_test(next_token_targets_are_the_tokens_moved_by_one),
        cmocka_unit_test(last_target_is_the_byte_after_the_sample),
        cmocka_unit_test(masks_exactly_fifteen_percent_of_every_sample),
        cmocka_unit_test(batches_depend_on_seed_step_and_microbatch_alone),
        cmocka_unit_test(random_numbers_are_those_of_splitmix64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
