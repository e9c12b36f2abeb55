/* Rounds of collectives without a transport: played in order on arrays, for many group sizes. */
#include "exec/rounds.h"

#include <string.h>

#include "core/base/random.h"
#include "core/collective/collective.h"
#include "tests/cmocka.h"

enum { MOST = 33, N = 50 };

static float value(size_t member, size_t i)
{
    return (float)((member + 1) * (i + 1));
}

/* What is given in a round is what is there before it, and somebody takes just that. */
static void play_round(const struct rounds_call *call, size_t k, float data[MOST][N])
{
    float before[MOST][N];
    memcpy(before, data, sizeof before);
    for (uint32_t me = 0; me < call->ranks; me++) {
        struct rounds_call mine = *call, theirs = *call;
        mine.me = me;
        struct round r = rounds_at(&mine, k);
        if (r.to != ROUND_NOBODY) {
            theirs.me = r.to;
            assert_int_equal(rounds_at(&theirs, k).from, me);
        } else {
            assert_int_equal(r.give.n, 0);
        }
        if (r.from == ROUND_NOBODY) {
            assert_int_equal(r.take.n, 0);
            continue;
        }
        theirs.me = r.from;
        struct round given = rounds_at(&theirs, k);
        assert_int_equal(given.to, me);
        assert_true(given.give.first == r.take.first && given.give.n == r.take.n);
        assert_true(r.take.first + r.take.n <= N);
        assert_true(!r.adds || r.take.n <= rounds_largest(&mine));
        for (size_t i = r.take.first; i < r.take.first + r.take.n; i++)
            data[me][i] = before[r.from][i] + (r.adds ? data[me][i] : 0);
    }
}

static void check(const struct rounds_algorithm *algorithm, enum op_kind kind, size_t ranks)
{
    float data[MOST][N];
    const struct rounds_call call = {.algorithm = algorithm, .kind = kind, .ranks = ranks, .n = N};
    for (size_t me = 0; me < ranks; me++)
        for (size_t i = 0; i < N; i++)
            data[me][i] = value(me, i);
    for (size_t k = 0; k < rounds_count(&call); k++)
        play_round(&call, k, data);
    for (size_t me = 0; me < ranks; me++)
        for (size_t chunk = 0; chunk < ranks; chunk++) {
            struct ring_part p = ring_part(N, ranks, chunk);
            bool owns = kind == OP_REDUCE ? me == 0 : ring_owned(ranks, me) == chunk;
            size_t owner = (chunk + ranks - 1) % ranks;
            for (size_t i = p.first; i < p.first + p.n; i++) {
                float sum = (float)(ranks * (ranks + 1) / 2 * (i + 1));
                if (kind == OP_ALLGATHER || (kind == OP_GATHER && me == 0))
                    assert_true(data[me][i] == value(owner, i));
                else if (kind == OP_BROADCAST || (kind == OP_SCATTER && (owns || me == 0)))
                    assert_true(data[me][i] == value(0, i));
                else if (kind == OP_GATHER || kind == OP_SCATTER)
                    assert_true(data[me][i] == value(me, i)); /* nobody else's business */
                else if (kind == OP_ALLREDUCE || owns)
                    assert_true(data[me][i] == sum);
            }
        }
}

static void rounds_are_collectives_for_any_number_of_members(void **state)
{
    static const enum op_kind kinds[] = {OP_ALLREDUCE, OP_REDUCESCATTER, OP_ALLGATHER, OP_BROADCAST,
                                         OP_REDUCE,    OP_GATHER,        OP_SCATTER};
    for (size_t i = 0; rounds_algorithm(i); i++)
        for (size_t ranks = 1; ranks <= MOST; ranks++)
            for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
                check(rounds_algorithm(i), kinds[k], ranks);
}

/* Small all-reduces: everybody's array to all, and sums of the ring's bits, whatever is added. */
static void gathered_sums_have_the_bits_of_the_ring(void **state)
{
    static float data[MOST][N], array[MOST][MOST * N], before[MOST][MOST * N];
    for (uint32_t seed = 0; seed < 200; seed++) {
        const size_t ranks = 2 + (size_t)random_at(seed, 0) % (MOST - 1);
        const size_t n = 1 + (size_t)random_at(seed, 1) % N;
        struct rounds_call ring = {.kind = OP_ALLREDUCE, .ranks = ranks, .n = N};
        struct rounds_call c = {
            .kind = OP_ALLREDUCE, .ranks = ranks, .n = n, .gathers = (size_t)MOST * N};
        assert_true(rounds_gathers(&c) && !rounds_gathers(&ring));
        ring.n = n;
        for (size_t me = 0; me < ranks; me++)
            for (size_t i = 0; i < n; i++)
                data[me][i] = array[me][i] = (float)(random_unit(seed, 2 + me * N + i) - 0.5);
        for (size_t k = 0; k < rounds_count(&ring); k++)
            play_round(&ring, k, data);
        for (size_t k = 0; k < rounds_count(&c); k++) {
            memcpy(before, array, sizeof before);
            for (c.me = 0; c.me < ranks; c.me++) {
                const struct round r = rounds_at(&c, k);
                struct rounds_call giver = c;
                giver.me = r.from;
                const struct round g = rounds_at(&giver, k);
                assert_true(g.to == c.me && g.give.n == r.take.n && !r.adds);
                assert_true(r.take.first + r.take.n <= rounds_largest(&c));
                memcpy(array[c.me] + r.take.first, before[r.from] + g.give.first,
                       r.take.n * sizeof(float));
            }
        }
        for (c.me = 0; c.me < ranks; c.me++) {
            float sum[N];
            rounds_add_gathered(&c, ELEMENT_FP32, array[c.me], sum);
            assert_memory_equal(sum, data[c.me], n * sizeof *sum);
        }
    }
}

/* Every name of the simulator's collectives is one that real runs do, or refuse in one line. */
static void names_are_the_simulators_or_refused(void **state)
{
    const struct rounds_algorithm *found = NULL;
    for (size_t i = 0; rounds_algorithm(i); i++) {
        const struct rounds_algorithm *a = rounds_algorithm(i);
        const struct collective_algorithm *simulated;
        assert_int_equal(collective_find(a->name, &simulated), STATUS_OK);
        assert_int_equal(rounds_find(a->name, NULL, &found), STATUS_OK);
        assert_ptr_equal(found, a);
    }
    for (size_t i = 0; i < collective_algorithms_n; i++)
        if (rounds_find(collective_algorithms[i]->name, "tcp", &found) != STATUS_OK)
            assert_message(error_message(), "real runs auto, ring,");
    assert_int_equal(rounds_find(NULL, NULL, &found), STATUS_OK);
    assert_ptr_equal(found, rounds_algorithm(0));
    assert_int_equal(rounds_find("auto", "tcp", &found), STATUS_OK);
    assert_ptr_equal(found, rounds_algorithm(0));
    assert_int_equal(rounds_find("hierarchical", "nccl", &found), STATUS_UNSUPPORTED);
    assert_int_equal(rounds_find("nccl", "tcp", &found), STATUS_UNSUPPORTED);
    assert_int_equal(rounds_find("tree", "nccl", &found), STATUS_OK);
    assert_string_equal(found->name, "tree");
    const char *const own[] = {NULL, "auto", "nccl"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(rounds_find(own[i], "nccl", &found), STATUS_OK);
        assert_null(found);
    }
    assert_int_equal(rounds_find("nonsense", NULL, &found), STATUS_UNSUPPORTED);
}

/* Part j of everybody's first half ends as part i of member j's second half, whatever is given and
 * taken in between; own parts and first halves stay. */
static void everybody_gets_its_part_of_everybody(void **state)
{
    enum { PART = 3 };
    static float before[MOST][2 * MOST * PART], data[MOST][2 * MOST * PART];
    for (size_t ranks = 2; ranks <= MOST; ranks++) {
        struct rounds_call call = {.kind = OP_ALLTOALL, .ranks = ranks, .n = 2 * ranks * PART};
        for (size_t me = 0; me < ranks; me++)
            for (size_t i = 0; i < call.n; i++)
                data[me][i] = value(me, i);
        memcpy(before, data, sizeof before);
        for (size_t k = 0; k < rounds_count(&call); k++)
            for (call.me = 0; call.me < ranks; call.me++) {
                struct rounds_call theirs = call;
                struct round mine = rounds_at(&call, k);
                theirs.me = mine.from;
                struct round given = rounds_at(&theirs, k);
                assert_int_equal(given.to, call.me);
                assert_true(given.give.n == mine.take.n && !mine.adds && mine.from != call.me);
                for (size_t i = 0; i < mine.take.n; i++)
                    data[call.me][mine.take.first + i] = data[mine.from][given.give.first + i];
            }
        for (size_t me = 0; me < ranks; me++)
            for (size_t i = 0; i < call.n; i++) {
                size_t from = i / PART - ranks;
                bool kept = i < ranks * PART || from == me;
                assert_true(data[me][i] ==
                            (kept ? before[me][i] : before[from][me * PART + i % PART]));
            }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_are_collectives_for_any_number_of_members),
        cmocka_unit_test(everybody_gets_its_part_of_everybody),
        cmocka_unit_test(gathered_sums_have_the_bits_of_the_ring),
        cmocka_unit_test(names_are_the_simulators_or_refused),
    };
    return cmocka_run_group_tests_name("rounds", tests, NULL, NULL);
}
