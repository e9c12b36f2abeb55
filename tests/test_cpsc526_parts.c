/* Parts of the objective cpsc526 by themselves: counts of partitions, labels given greedily,
 * matrices of measured speeds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/random.h"
#include "papers/cpsc526/exhaustive.h"
#include "papers/cpsc526/greedy.h"
#include "papers/cpsc526/speeds.h"
#include "tests/cmocka.h"

/* Against counting all functions onto k parts; known numbers of SEEDS.md. */
static void partitions_are_counted_exactly(void **state)
{
    assert_true(cpsc526_partitions(9, 3) == 3025 && cpsc526_partitions(11, 3) == 28501);
    for (size_t n = 1; n <= 7; n++)
        for (size_t k = 1; k <= n + 1; k++) {
            size_t onto = 0, all = 1, labelings = 1;
            for (size_t i = 0; i < n; i++)
                all *= k;
            for (size_t i = 2; i <= k; i++)
                labelings *= i;
            for (size_t f = 0; f < all; f++) {
                unsigned used = 0;
                for (size_t i = 0, rest = f; i < n; i++, rest /= k)
                    used |= 1u << rest % k;
                onto += used == (1u << k) - 1;
            }
            assert_true(cpsc526_partitions(n, k) == (double)(onto / labelings));
        }
    assert_true(isinf(cpsc526_partitions(4000, 4000 / 2)));
}

/* ---- labels */

static void greedy_labels_are_those_found_by_hand(void **state)
{
    /* Part 0 has 5 edges to part 1 and 1 to part 2: parts in the order 0, 1, 2. Label 0 is free for
     * part 0; part 1 wants the label nearest to 0, which is 2; part 2 has what is left. */
    double cost[] = {0, 3, 1, 3, 0, 2, 1, 2, 0}, edges[] = {0, 5, 1, 5, 0, 0, 1, 0, 0}, out[3];
    struct cpsc526_problem p = {.k = 3, .cost = cost};
    uint32_t label[3], order[3];
    bool used[3];
    cpsc526_greedy_labels(&p, edges, &(struct cpsc526_greedy_room){out, order, used}, label);
    assert_true(label[0] == 0 && label[1] == 2 && label[2] == 1);
}

static void greedy_labels_are_a_permutation(void **state)
{
    enum { K = 9 };
    for (uint64_t seed = 1; seed <= 200; seed++) {
        double cost[K * K] = {0}, edges[K * K] = {0}, out[K];
        struct cpsc526_problem p = {.k = 1 + seed % K, .cost = cost};
        uint32_t label[K], order[K];
        bool used[K], seen[K] = {false};
        for (size_t i = 0; i < p.k; i++)
            for (size_t j = 0; j < i; j++) {
                cost[i * p.k + j] = cost[j * p.k + i] = random_unit(seed, i * K + j);
                edges[i * p.k + j] = edges[j * p.k + i] =
                    floor(4 * random_unit(seed, K * K + i * K + j));
            }
        cpsc526_greedy_labels(&p, edges, &(struct cpsc526_greedy_room){out, order, used}, label);
        for (size_t i = 0; i < p.k; i++) {
            assert_true(label[i] < p.k && !seen[label[i]]);
            seen[label[i]] = true;
        }
    }
}

/* ---- speeds */

static enum status speeds(const char *text, size_t length, struct cpsc526_speeds *s)
{
    return cpsc526_speeds_parse("s", text, length, s);
}

static void speeds_are_read_from_three_forms(void **state)
{
    static const char npy[] = "\x93NUMPY\x01\0\x48\0{'descr': '<f4', 'fortran_order': False, "
                              "'shape': (2, 2), }            \n"
                              "\0\0\x80\x3f\0\0\0\0\0\0\0\x40\0\0\x80\x3f";
    static const char whole[] = "\x93NUMPY\x01\0\x48\0{'descr': '<i8', 'fortran_order': False, "
                                "'shape': (2, 2), }            \n"
                                "\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                                "\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0";
    static const char rows[] = "# a comment\n1, 0\n2\t1\n\n";
    static const char pairs[] =
        "# from\tto\tlatency_s\tbandwidth_Bps\tnormalised\n"
        "a\ta\t0\t7e9\t1\na\tb\t0\t9e9\t0\nb\ta\t0\t8e9\t2\nb\tb\t0\t6e9\t1\n";
    static const struct {
        const char *text;
        size_t length;
    } all[] = {{npy, sizeof npy - 1},
               {whole, sizeof whole - 1},
               {rows, sizeof rows - 1},
               {pairs, sizeof pairs - 1}};
    for (size_t i = 0; i < 4; i++) {
        struct cpsc526_speeds s = {0};
        if (speeds(all[i].text, all[i].length, &s) != STATUS_OK)
            fail_msg("%zu: %s", i, error_message());
        assert_int_equal(s.k, 2);
        assert_true(s.speed[0] == 1 && s.speed[1] == 0 && s.speed[2] == 2 && s.speed[3] == 1);
        free(s.speed);
    }
}

static void refuses_speeds_that_are_none(void **state)
{
    static const char *const bad[] = {"",
                                      "1 2\n",
                                      "1 2\n3\n",
                                      "1 x\n2 3\n",
                                      "1 -2\n2 3\n",
                                      "1 nan\n2 3\n",
                                      "# from\tto\n",
                                      "# from\tto\na\tb\n",
                                      "# from\tto\na\tb\t1\tx\t1\n",
                                      "# from\tto\na\tb\t1\t1\t1\n",
                                      "\x93NUMPY\x01",
                                      "\x93NUMPY\x01\x01\x46\x01{'descr': '<f4'"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct cpsc526_speeds s = {0};
        if (speeds(bad[i], strlen(bad[i]), &s) != STATUS_PARSE)
            fail_msg("%zu", i);
        assert_null(s.speed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(partitions_are_counted_exactly),
        cmocka_unit_test(greedy_labels_are_those_found_by_hand),
        cmocka_unit_test(greedy_labels_are_a_permutation),
        cmocka_unit_test(speeds_are_read_from_three_forms),
        cmocka_unit_test(refuses_speeds_that_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
