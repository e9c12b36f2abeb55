/* Platforms of equal cost and bisection: rates against a closed form, counts against looking at all
 * of them, with prices from a seed; and what cannot be equal. */
#include "study/equal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "study/costs.h"
#include "study/load.h"
#include "tests/cmocka.h"
#include "tests/fault.h"

static const char table[] = BINARY_DIR "/equal-prices.yml";

static void write_prices(const char *text)
{
    FILE *f = fopen(table, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static struct experiment parsed(const char *text)
{
    struct experiment e = {0};
    if (experiment_parse("e.yml", text, strlen(text), NULL, &e) != STATUS_OK)
        fail_msg("%s", error_message());
    return e;
}

static double cost_of(const char *platform)
{
    struct prices p = {0};
    struct inventory v = {0};
    char *path = NULL;
    assert_int_equal(prices_read(table, &p), STATUS_OK);
    assert_int_equal(load_platform(platform, &path), STATUS_OK);
    if (costs_find(path, &p, &v) != STATUS_OK)
        fail_msg("%s: %s", platform, error_message());
    double cost = v.cost;
    inventory_free(&v);
    prices_free(&p);
    free(path);
    return cost;
}

static int random_from(int least, int most)
{
    return least + rand() % (most - least + 1);
}

/* A price list of its own for each kind: items of a leaf-spine cluster counted by hand. */
static void an_item_costs_what_the_table_says(void **state)
{
    char text[400], spec[120];
    (void)state;
    srand(21);
    for (int round = 0; round < 12; round++) {
        int device = random_from(1, 99), nic = random_from(1, 9), small = random_from(1, 99),
            port = random_from(0, 9), copper = random_from(0, 9), fibre = random_from(0, 9),
            optic = random_from(0, 9), rack = random_from(1, 6), racks = random_from(2, 4),
            spines = random_from(1, 3), leaf = rack + spines;
        snprintf(text, sizeof text,
                 "device: {\"H1*\": %d, \"*\": 1000}\nnic: %d/Gbps\nswitch: {4: %d, 8: 500}\n"
                 "port: {spine: %d, \"*\": 7}\ncable: {nic: %d/Gbps, \"*\": %d}\n"
                 "transceiver: %d\noptical: [s*]\n",
                 device, nic, small, port, copper, fibre, optic);
        write_prices(text);
        snprintf(spec, sizeof spec,
                 "leaf-spine:nodes=%d,gpus=2,rack=%d,spines=%d,type=H100,nic=100Gbps", rack * racks,
                 rack, spines);
        int ups = racks * spines, nodes = rack * racks;
        int boxes = leaf <= 4 ? small : leaf <= 8 ? 500 : 1000; /* two of eight ports */
        double expected = 2.0 * nodes * device + 100.0 * nodes * (nic + copper) +
                          racks * (boxes + 7.0 * leaf) + spines * (small + 1.0 * port * racks) +
                          ups * (fibre + 2.0 * optic);
        double got = cost_of(spec);
        if (fabs(got - expected) > 1e-9 * expected)
            fail_msg("%s of %s: %.9g instead of %.9g", spec, text, got, expected);
    }
}

static void a_rate_is_what_the_money_buys(void **state)
{
    char text[600];
    (void)state;
    srand(22);
    for (int round = 0; round < 6; round++) {
        int nodes = random_from(2, 6), nic = random_from(1, 9), cable = random_from(0, 300),
            x = random_from(3, 4), y = random_from(3, 4);
        snprintf(text, sizeof text, "nic: %d/Gbps\ncable: %d\nport: 1000\ndevice: 10\n", nic,
                 cable);
        write_prices(text);
        snprintf(text, sizeof text,
                 "model: gpt2-small\nequal: cost\nprices: %s\ncases:\n"
                 "  - {platform: \"leaf-spine:nodes=%d,gpus=%d,rack=99\"}\n"
                 "  - {platform: \"torus:x=%d,y=%d\", platform.link: equal}\n",
                 table, nodes, x * y, x, y);
        struct experiment e = parsed(text);
        assert_int_equal(equal_settle(&e, NULL), STATUS_OK);
        assert_null(e.equal[0]);
        const char *found = experiment_value(&e, 1, "platform.link");
        /* both have devices; a torus has two ports and a cable for each of its 2 x y links */
        double target = 10.0 * nodes * x * y + nodes * (200.0 * nic + cable + 1000),
               fixed = 10.0 * x * y + 2.0 * x * y * cable,
               expected = (target - fixed) / (4.0 * x * y * nic), Gbps = strtod(found, NULL);
        if (!(Gbps <= expected * (1 + 1e-9)) ||
            !(fixed + Gbps * 4 * x * y * nic >= target * (1 - 1.01e-4)))
            fail_msg("%s: %s instead of %.9g", text, found, expected);
        experiment_free(&e);
    }
}

static void a_count_is_the_largest_that_costs_no_more(void **state)
{
    char text[600], spec[80];
    (void)state;
    srand(23);
    for (int round = 0; round < 6; round++) {
        int rack = random_from(2, 5), spines = random_from(1, 4);
        snprintf(text, sizeof text,
                 "nic: %d\nswitch: {4: %d, 8: %d}\ncable: 1\ntransceiver: 3\ndevice: %d\n",
                 random_from(1, 9), random_from(1, 50), random_from(50, 90), random_from(1, 9));
        write_prices(text);
        snprintf(text, sizeof text,
                 "model: gpt2-small\nequal: cost\nprices: %s\ncases:\n"
                 "  - {platform: \"clos:nodes=%d,gpus=2,nics=2,radix=8\"}\n"
                 "  - {platform: \"rail:gpus=2,rack=%d,spines=%d\", platform.nodes: equal}\n",
                 table, random_from(4, 16), rack, spines);
        struct experiment e = parsed(text);
        assert_int_equal(equal_settle(&e, NULL), STATUS_OK);
        int found = atoi(experiment_value(&e, 1, "platform.nodes")), best = 0;
        double target = cost_of(experiment_value(&e, 0, "platform"));
        for (int n = 1; n <= 40; n++) {
            snprintf(spec, sizeof spec, "rail:gpus=2,rack=%d,spines=%d,nodes=%d", rack, spines, n);
            best = cost_of(spec) <= target ? n : best;
        }
        assert_true(best < 40);
        assert_int_equal(found, best);
        experiment_free(&e);
    }
}

static void each_reference_has_its_own_value(void **state)
{
    struct experiment e =
        parsed("model: gpt2-small\nequal: bisection\nplatform.gpus: [2, 4]\ncases:\n"
               "  - {platform: \"leaf-spine:nodes=4,type=H100,nic=100Gbps\"}\n"
               "  - {platform: \"rail:nodes=4,rack=2\", platform.oversubscription: equal}\n"
               "  - {platform: \"hyperx:x=2,y=2,nics=1\", platform.link: equal}\n");
    (void)state;
    assert_int_equal(equal_settle(&e, NULL), STATUS_OK);
    for (size_t p = 0; p < 6; p++) { /* the ports of two nodes: 25 GB/s */
        size_t gpus = experiment_choice(&e, p, experiment_find(&e, "platform.gpus")) ? 4 : 2;
        const char *over = experiment_value(&e, p, "platform.oversubscription"),
                   *link = experiment_value(&e, p, "platform.link");
        if (over)
            assert_true(fabs(strtod(over, NULL) - 4.0 * (double)gpus) < 2e-3 * (double)gpus);
        if (link)
            assert_true(fabs(strtod(link, NULL) - 100) < 0.02);
        assert_true((e.equal[p] != NULL) == (over || link));
    }
    experiment_free(&e);
}

static void expect_refusal(const char *text, const char *message)
{
    struct experiment e = parsed(text);
    assert_true(equal_settle(&e, NULL) != STATUS_OK);
    assert_message(error_message(), message);
    experiment_free(&e);
}

static void says_what_cannot_be_equal(void **state)
{
    char text[300];
    (void)state;
    expect_refusal("model: m\nplatform: [rail, torus]\nequal: bisection\nplatform.gpus: equal\n",
                   "e.yml:4 platform.gpus");
    expect_refusal("cases:\n  - {platform: rail}\n  - {platform: torus, platform.link: equal}\n",
                   "e.yml:3 platform.link bisection cost");
    expect_refusal("equal: bisection\ncases:\n  - {platform: rail}\n"
                   "  - {platform: torus, platform.type: equal}\n",
                   "e.yml:4 platform.type");
    expect_refusal("equal: bisection\ncases:\n  - {platform: rail}\n"
                   "  - {platform: torus, platform.x: equal, platform.y: equal}\n",
                   "platform.y platform.x");
    write_prices("nic: 1\ncable: {spine: 1}\n");
    snprintf(text, sizeof text,
             "equal: cost\nprices: %s\ncases:\n  - {platform: rail}\n"
             "  - {platform: torus, platform.link: equal}\n",
             table);
    expect_refusal(text, "cable 'rail'");
    write_prices("switch: {4: 1/Gbps}\n");
    expect_refusal(text, "'1/Gbps' 1000");
    write_prices("swich: {4: 1}\n");
    expect_refusal(text, "'swich' currency");
}

static void survives_every_failing_allocation(void **state)
{
    struct prices p = {0};
    struct inventory v = {0};
    char *path = NULL;
    (void)state;
    write_prices("nic: {\"*\": 1/Gbps}\nswitch: {4: 1}\noptical: [spine]\n");
    assert_int_equal(load_platform("rail:nodes=2,gpus=2,rack=1", &path), STATUS_OK);
    FOR_EACH_ALLOC_FAILURE(prices_read(table, &p));
    FOR_EACH_ALLOC_FAILURE(costs_find(path, &p, &v));
    assert_true(v.cost > 0);
    inventory_free(&v);
    prices_free(&p);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_item_costs_what_the_table_says),
        cmocka_unit_test(a_rate_is_what_the_money_buys),
        cmocka_unit_test(a_count_is_the_largest_that_costs_no_more),
        cmocka_unit_test(each_reference_has_its_own_value),
        cmocka_unit_test(says_what_cannot_be_equal),
        cmocka_unit_test(survives_every_failing_allocation),
    };
    return cmocka_run_group_tests_name("equal", tests, NULL, NULL);
}
