/* NCCL's collectives leave every number of an array with exactly one member, chunks at the places
 * where ncclReduceScatter() puts them; and not where the ring has them. */

#include "exec/transport.h"
#include "tests/cmocka.h"

static void every_number_has_one_owner(void **state)
{
    enum { MOST = 17 };
    for (size_t members = 1; members <= MOST; members++)
        for (size_t n = 0; n < 5 * MOST; n++) {
            size_t end = 0, each = n / members;
            for (size_t me = 0; me < members; me++) {
                const struct ring_part own = transport_nccl.part(n, members, me);
                assert_int_equal(own.first, me * each);
                assert_true(me + 1 == members || own.n == each);
                assert_int_equal(own.first, end);
                end += own.n;
            }
            assert_int_equal(end, n);
        }
    assert_int_not_equal(transport_nccl.part(8, 2, 0).first, ring_own(8, 2, 0).first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_number_has_one_owner)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
