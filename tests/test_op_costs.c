/* Costs that are remembered are those that are computed. */
#include "core/cost/op_costs.h"

#include <stdlib.h>
#include <string.h>

#include "core/strategy/framework.h"
#include "model/zoo.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/generated.h"
#include "tests/sample.h"

static const char *const specs[] = {
    "llama3.2-1b",
    "gpt2-small",
    "gpt2-small:flash=1,dtype=bf16",
    "mixtral-8x7b:layers=4",
    "deepseek-v3:layers=6",
    "gpt-oss-20b:layers=4",
    "resnet",
};
enum { SPECS = sizeof specs / sizeof *specs };

static void expect_same(const struct model *m, struct op_costs *c, const struct op_costs_key *key)
{
    op_costs_begin(c, key);
    for (uint32_t i = 0; i < m->n; i++) {
        struct op_cost is = op_costs_of(c, m, key, i),
                       wanted = cost_op(m, key->type, i, key->samples, key->optimizer, &key->split);
        assert_memory_equal(&is, &wanted, offsetof(struct op_cost, extrapolated));
        assert_int_equal(is.extrapolated, wanted.extrapolated);
    }
}

/* Key number k: what differs in one thing follows one another, so that no other is taken for it. */
static struct op_costs_key key_of(const struct topology *t, const struct framework *f, size_t k)
{
    return (struct op_costs_key){.type = &t->type[0],
                                 .samples = k % 4 == 0 ? 2 : 1,
                                 .optimizer = k % 5 == 0 ? "sgd" : "adam",
                                 .split = {.shards = k % 3 == 0 ? 4 : 2,
                                           .experts = k % 7 == 0 ? 2 : 1,
                                           .sequence = k % 2 > 0    ? 1
                                                       : k % 3 == 0 ? 4
                                                                    : 2,
                                           .context = k % 11 == 0 ? 2 : 1,
                                           .imbalance = k % 13 == 0 ? 1.5 : 0,
                                           .framework = k % 6 == 0 ? NULL : &f[k % 2],
                                           .microbatches = (uint32_t)(k % 17)}};
}

static void what_is_remembered_is_what_is_computed(void **state)
{
    enum { KEYS = 200 }; /* more than are remembered */
    (void)state;
    struct topology t = generated("rail:nodes=1,gpus=8,type=H100");
    struct framework f[] = {framework_of("megatron"), framework_of("megatron:host=0.5,narrow=2")};
    for (size_t i = 0; i < SPECS; i++) {
        struct model m;
        struct op_costs *c;
        if (zoo_build(specs[i], &m) != STATUS_OK)
            fail_msg("%s: %s", specs[i], error_message());
        assert_int_equal(op_costs_open(&m, &c), STATUS_OK);
        for (size_t k = 0; k < KEYS; k++) {
            struct op_costs_key key = key_of(&t, f, k), before = key_of(&t, f, k / 2);
            expect_same(&m, c, &key);
            expect_same(&m, c, &before); /* may be remembered */
        }
        op_costs_close(c);
        model_free(&m);
    }
    topology_free(&t);
}

static void layers_are_alike_and_their_ops_are_not(void **state)
{
    struct model m;
    struct op_costs *c;
    (void)state;
    assert_int_equal(zoo_build("llama3.2-1b", &m), STATUS_OK);
    assert_int_equal(op_costs_open(&m, &c), STATUS_OK);
    uint32_t second = model_find(&m, "h1.attn.proj"), fifth = model_find(&m, "h4.attn.proj");
    size_t kinds = 0;
    if (second == MODEL_NO_OP || fifth == MODEL_NO_OP)
        fail_msg("%s has other names", m.name);
    assert_int_equal(op_costs_like(c, second), op_costs_like(c, fifth));
    for (uint32_t i = 0; i < m.n; i++)
        kinds += op_costs_like(c, i) == i;
    assert_in_range(kinds, 8, 20); /* those of a layer, embedding, head, loss */
    op_costs_close(c);
    model_free(&m);
}

/* Measured times are of one op each. */
static void measured_ops_are_not_alike(void **state)
{
    struct op_costs *c;
    (void)state;
    struct model m = sample_chain(6, 1e-3, 2e-3, 8, 8);
    struct topology t = sample_clique(1, 0, 1e9);
    for (size_t i = 0; i < m.n; i++)
        m.profile[0].forward_s[i] = 1e-3 * (double)(i + 1);
    assert_int_equal(op_costs_open(&m, &c), STATUS_OK);
    expect_same(
        &m, c,
        &(struct op_costs_key){
            &t.type[0], 1, "sgd", {.shards = 1, .sequence = 1, .experts = 1, .context = 1}});
    op_costs_close(c);
    topology_free(&t);
    model_free(&m);
}

static enum status open_and_close(const struct model *m)
{
    struct op_costs *c;
    enum status st = op_costs_open(m, &c);
    if (st == STATUS_OK)
        op_costs_close(c);
    return st;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    struct model m = sample_chain(6, 1e-3, 2e-3, 8, 8);
    FOR_EACH_ALLOC_FAILURE(open_and_close(&m));
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_remembered_is_what_is_computed),
        cmocka_unit_test(layers_are_alike_and_their_ops_are_not),
        cmocka_unit_test(measured_ops_are_not_alike),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
