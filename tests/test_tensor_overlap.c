/* Split products of tensor parallelism, by hand on both engines: what shards gather and scatter
 * goes on beside them but for one part. */
#include <math.h>
#include <stdlib.h>

#include "core/lower/lower.h"
#include "tests/cmocka.h"
#include "tests/lowered.h"
#include "tests/sample.h"

enum { MEGA = 1000000 };

/* One stage of an input, a layer (column-parallel product, row-parallel product, both of g seconds
 * on each shard and twice that backward) and a head that is not divided, on t shards; tensors of
 * `bytes` over links of 1 GB/s. */
static struct lowered set_up(uint32_t t, double g, int64_t bytes)
{
    static const char *const name[] = {"input", "h.0.fc", "h.0.proj", "head"};
    static const enum model_tensor tensor[] = {TENSOR_WHOLE, TENSOR_COLUMN, TENSOR_ROW,
                                               TENSOR_WHOLE};
    struct lowered s = {.model = sample_chain(4, g * t, 2 * g * t, 0, bytes),
                        .topology = sample_clique(t, 0, 1e9)};
    for (size_t i = 0; i < 4; i++) {
        free(s.model.op[i].name);
        s.model.op[i].name = sample_text(name[i]);
        s.model.op[i].block = 0;
        s.model.op[i].tensor = tensor[i];
    }
    s.plan = sample_plan(&s.model, 1, t, 1, "1f1b");
    s.plan.stage[0].replicas = 1;
    s.plan.stage[0].tensor_parallel = t;
    s.plan.sequence_parallel = true;
    return s;
}

/* Forward: 4 g; a scatter and a gather of c = (t - 1) / t bytes each. The (t - 1) / t of products
 * go beside as much of both, so max((t - 1) / t 2c, (t - 1) / t 2g) instead of the sum. Backward: 8
 * g; the second gather of the column-parallel input beside half its product, g, then a scatter and
 * a gather beside the half of each product, 2g. */
static double expected(uint32_t t, double g, double c)
{
    double part = (double)(t - 1) / t;
    double forward = 4 * g - part * 2 * g + fmax(part * 2 * c, part * 2 * g) + 2 * c / t;
    double backward =
        8 * g - g - part * 2 * g + fmax(c, g) + fmax(part * 2 * c, part * 2 * g) + 2 * c / t;
    return forward + backward;
}

static void one_part_is_exposed(void **state)
{
    for (uint32_t t = 2; t <= 8; t *= 2)
        for (int i = 0; i < 3; i++) { /* links take less than, as long as, and more than products */
            const double g = 4e-3, c = i == 0 ? 1e-3 : i == 1 ? 4e-3 : 9e-3;
            const int64_t bytes = (int64_t)(c * 1e9 * t / (t - 1) / 840) * 840;
            struct lowered s = set_up(t, g, bytes);
            double exact = (double)bytes * (t - 1) / t / 1e9, exposed[OP_PURPOSES];
            double plain = lowered_seconds(&s, exposed);
            assert_near(plain, 12 * g + 4 * exact + fmax(exact - g, 0), 1e-8);
            s.plan.tensor_overlap = true;
            assert_near(lowered_seconds(&s, exposed), expected(t, g, exact), 1e-8);
            if (exact <= g) /* a chunk of t of each of four */
                assert_near(exposed[FOR_TENSOR], 4 * exact / t, 1e-8);
            lowered_free(&s);
        }
}

/* What is made again in the backward is split as well. */
static void remade_products_overlap_too(void **state)
{
    const uint32_t t = 4;
    struct lowered s = set_up(t, 4e-3, 4 * MEGA);
    const double c = 3e-3;
    s.plan.tensor_overlap = true;
    s.plan.stage[0].recompute = RECOMPUTE_FULL;
    double once = lowered_seconds(&s, NULL);
    /* the layer's products again, 2g, its scatter and gather but for one part beside them */
    assert_near(once, expected(t, 4e-3, c) + 2 * 4e-3 + 2 * c / t, 1e-8);
    lowered_free(&s);
}

/* As many bytes as without, to a byte per call, and only with sequence parallelism. */
static void nothing_is_lost(void **state)
{
    struct lowered s = set_up(8, 1e-3, 7777777);
    int64_t moved[2];
    for (int k = 0; k < 2; k++) {
        s.plan.tensor_overlap = k;
        lower(&s);
        moved[k] = 0;
        for (size_t i = s.program.op_start[0]; i < s.program.op_start[1]; i++)
            if (op_is_collective(&s.program.op[i]))
                moved[k] += s.program.op[i].count * s.program.op[i].bytes;
    }
    assert_near((double)moved[0], (double)moved[1], 16);
    s.plan.sequence_parallel = false;
    double split = lowered_seconds(&s, NULL);
    s.plan.tensor_overlap = false;
    assert_near(lowered_seconds(&s, NULL), split, 1e-12);
    lowered_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_part_is_exposed),
        cmocka_unit_test(remade_products_overlap_too),
        cmocka_unit_test(nothing_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
