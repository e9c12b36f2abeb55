/* Generated platforms: point-to-point and bisection bandwidth against arithmetic, refusals, and
 * the files that names resolve to. */
#include "topologies/generate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/units.h"
#include "core/engine/engine.h"
#include "sim/platform/platform.h"
#include "sim/platform/xml_scan.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/generated.h"
#include "topologies/systems.h"
#include "topologies/write.h"

static const char cache[] = BINARY_DIR "/cache.d";

static void a_node_has_its_switch_between_any_two(void **state)
{
    struct topology t = generated("node:gpus=6,type=A100");
    assert_int_equal(t.n, 6);
    assert_int_equal(t.tiers, 1);
    expect_between(&t, "n0g0", "n0g5", "nvlink", 3.4e-6, 240e9);
    expect_bisection(&t, 3 * 240e9);
    expect_message(&t, "n0g0", "n0g5", 3.4e-6, 240e9);
    expect_halves(&t, 3.4e-6, 3 * 240e9);
    topology_free(&t);
}

static void a_rail_pod_has_the_bandwidth_of_its_ports_and_spines(void **state)
{
    struct topology t = generated("rail:nodes=4,gpus=2");
    assert_int_equal(t.n, 8);
    expect_between(&t, "n0g0", "n0g1", "nvlink", 3.4e-6, 370.8e9);
    expect_between(&t, "n0g1", "n3g1", "rail", 14e-6, 50e9);
    expect_between(&t, "n0g0", "n3g1", "nvlink+rail", 17.4e-6, 50e9);
    expect_bisection(&t, 2 * 2 * 50e9); /* the ports of two nodes */
    expect_message(&t, "n0g0", "n3g1", 17.4e-6, 50e9);
    expect_halves(&t, 14e-6, 2 * 2 * 50e9);
    topology_free(&t);

    t = generated("rail:nodes=4,gpus=2,rack=2,oversubscription=2,nic=200Gbps,nvlink=100GBps");
    expect_between(&t, "n0g0", "n0g1", "nvlink", 3.4e-6, 100e9);
    expect_between(&t, "n0g1", "n1g1", "rail", 14e-6, 25e9);
    expect_between(&t, "n0g0", "n2g0", "rail+spine", 14.6e-6, 25e9);
    expect_between(&t, "n0g0", "n2g1", "rail+spine", 14.6e-6, 25e9);
    expect_bisection(&t, 2 * 2 * 25e9 / 2); /* two leaves, 2 ports each, 2:1 */
    topology_free(&t);

    t = generated("rail:nodes=4,gpus=2,rack=2,oversubscription=8"); /* less than a port goes up */
    expect_between(&t, "n0g0", "n2g1", "rail+spine", 14.6e-6, 12.5e9);
    expect_bisection(&t, 2 * 12.5e9);
    topology_free(&t);
}

static void a_leaf_spine_cluster_has_the_bandwidth_of_its_ports_and_spines(void **state)
{
    struct topology t = generated("leaf-spine:nodes=4,gpus=2,nic=100Gbps");
    expect_between(&t, "n0g0", "n0g1", "nvlink", 3.4e-6, 240e9);
    expect_between(&t, "n0g0", "n3g1", "nic", 14e-6, 12.5e9);
    expect_bisection(&t, 2 * 12.5e9);
    expect_message(&t, "n0g0", "n3g1", 14e-6, 12.5e9);
    expect_halves(&t, 14e-6, 2 * 12.5e9);
    topology_free(&t);

    t = generated("leaf-spine:nodes=6,gpus=2,nic=100Gbps,rack=3,oversubscription=1.5,type=V100");
    expect_between(&t, "n0g0", "n0g1", "nvlink", 3.4e-6, 120e9);
    expect_between(&t, "n0g0", "n2g1", "nic", 14e-6, 12e9); /* PCIe 3.0 */
    expect_between(&t, "n2g0", "n3g0", "spine+nic", 14.6e-6, 12e9);
    expect_bisection(&t, 3 * 12.5e9 / 1.5);
    topology_free(&t);
}

static void a_mesh_has_a_link_for_each_pair(void **state)
{
    struct topology t = generated("mesh:gpus=4,type=A100,link=50GBps");
    expect_between(&t, "n0g0", "n0g3", "link", 3.4e-6, 50e9);
    expect_bisection(&t, 4 * 50e9); /* two GPUs with a link to each of the other two */
    expect_message(&t, "n0g0", "n0g3", 3.4e-6, 50e9);
    expect_halves(&t, 3.4e-6, 2 * 50e9); /* i to i + 2: two of those four links */
    topology_free(&t);
}

static void a_fat_tree_is_as_wide_as_its_ports_over_the_oversubscription(void **state)
{
    struct topology t =
        generated("fat-tree:nodes=8,gpus=2,nics=1,edge=2,pod=2,nic=100Gbps,type=A100");
    assert_int_equal(t.n, 16);
    expect_between(&t, "n0g0", "n0g1", "nvlink", 3.4e-6, 240e9);
    expect_between(&t, "n0g0", "n1g1", "nic", 14e-6, 12.5e9);
    expect_between(&t, "n0g0", "n2g0", "pod+nic", 14.6e-6, 12.5e9);
    expect_between(&t, "n0g0", "n4g0", "core+pod+nic", 15.2e-6, 12.5e9);
    expect_bisection(&t, 4 * 12.5e9);
    expect_message(&t, "n0g0", "n4g0", 15.2e-6, 12.5e9);
    expect_halves(&t, 15.2e-6, 4 * 12.5e9);
    topology_free(&t);

    /* a port for each GPU, 2:1 at the edge and 3:1 above: 2 x 2 x 25 GB/s of ports, 50 upwards;
     * of a pod with two edges 100 below, 33.3 upwards */
    t = generated("fat-tree:nodes=8,gpus=2,nics=2,edge=2,pod=2,nic=200Gbps,type=H100,"
                  "oversubscription=2,core=3");
    expect_between(&t, "n0g0", "n0g1", "nvlink", 3.4e-6, 370.8e9);
    expect_between(&t, "n0g0", "n4g0", "pod+core+nic", 15.2e-6, 25e9);
    expect_bisection(&t, 100e9 / 3);
    expect_halves(&t, 15.2e-6, 100e9 / 3);
    topology_free(&t);
}

static void a_dragonfly_has_a_link_between_any_two_groups(void **state)
{
    struct topology t = generated("dragonfly+:groups=4,leaves=2,nodes=1,gpus=2,nics=2,type=A100,"
                                  "nic=100Gbps,global=10GBps");
    assert_int_equal(t.n, 16);
    expect_between(&t, "n0g0", "n0g1", "nvlink", 3.4e-6, 240e9);
    expect_between(&t, "n0g0", "n1g1", "spine+nic", 14.6e-6, 12.5e9);
    expect_between(&t, "n0g0", "n2g0", "spine+nic+global", 14.9e-6, 10e9);
    expect_between(&t, "n0g0", "n7g1", "spine+nic+global", 14.9e-6, 10e9);
    expect_bisection(&t, 2 * 2 * 10e9); /* two groups with a link to each of the other two */
    expect_message(&t, "n0g0", "n7g1", 14.9e-6, 10e9);
    expect_halves(&t, 14.9e-6, 2 * 10e9); /* group 0 to 2 and 1 to 3: two of the four links */
    topology_free(&t);

    t = generated("dragonfly+:groups=2,leaves=1,nodes=2,gpus=4,nics=4,type=GH200,mesh=1");
    expect_between(&t, "n0g0", "n0g3", "nvlink", 3.4e-6, 150e9);
    expect_between(&t, "n0g0", "n1g0", "nic", 14e-6, 25e9);
    topology_free(&t);
}

static void a_torus_counts_steps(void **state)
{
    struct topology t = generated("torus:x=4,y=4,link=50GBps");
    assert_int_equal(t.n, 16);
    expect_between(&t, "n0g0", "n1g0", "torus", 1e-6, 50e9);
    expect_between(&t, "n0g0", "n3g0", "torus", 1e-6, 50e9); /* around */
    expect_between(&t, "n0g0", "n5g0", "torus-2", 2e-6, 50e9);
    expect_between(&t, "n0g0", "n10g0", "torus-4", 4e-6, 50e9);
    expect_bisection(&t, 2 * 4 * 50e9); /* cut twice across four columns */
    expect_message(&t, "n0g0", "n10g0", 4e-6, 50e9);
    topology_free(&t);

    t = generated("torus:x=2,y=2,z=2,gpus=2,type=A100,link=10GBps");
    assert_int_equal(t.n, 16);
    expect_between(&t, "n0g0", "n0g1", "nvlink", 3.4e-6, 240e9);
    expect_between(&t, "n0g0", "n7g1", "nvlink+torus-3", 6.4e-6, 10e9);
    expect_bisection(&t, 4 * 10e9); /* one link for each of four pairs */
    expect_halves(&t, 4.4e-6, 4 * 10e9);
    topology_free(&t);
}

static void sites_share_their_lines(void **state)
{
    struct topology t =
        generated("wan:sites=2,nodes=2,gpus=2,type=V100,nic=25Gbps,line=10Gbps,latency=5ms");
    assert_int_equal(t.n, 8);
    expect_between(&t, "n0g0", "n0g1", "nvlink", 3.4e-6, 120e9);
    expect_between(&t, "n0g0", "n1g0", "nic", 14e-6, 3.125e9);
    expect_between(&t, "n0g0", "n2g0", "nic+wan", 5.014e-3, 1.25e9);
    expect_bisection(&t, 1.25e9);
    expect_message(&t, "n0g0", "n2g0", 5.014e-3, 1.25e9);
    expect_halves(&t, 5.014e-3, 1.25e9);
    topology_free(&t);
}

static void an_nvl_domain_is_one_switch(void **state)
{
    struct topology t = generated("nvl:domains=2,gpus=6,oversubscription=2");
    assert_int_equal(t.n, 12);
    expect_between(&t, "n0g0", "n0g5", "nvlink", 3.4e-6, 721.8e9);
    expect_between(&t, "n0g0", "n1g5", "spine+nic", 14.6e-6, 48e9); /* PCIe before the port */
    expect_bisection(&t, 6 * 50e9 / 2);
    expect_message(&t, "n0g0", "n1g5", 14.6e-6, 48e9);
    expect_halves(&t, 14.6e-6, 6 * 50e9 / 2);
    topology_free(&t);
}

/* Counts that anybody can look up; the largest are only written, their loading is measured in
 * docs/reference/topologies.md. */
static void named_systems_have_as_many_gpus_as_their_sources_say(void **state)
{
    static const struct {
        const char *name;
        size_t devices;
    } known[] = {{"alps-like", 10752}, {"dgx-a100-pod", 160}, {"dgx-h100-pod", 1024},
                 {"hpn-15k", 15360},   {"llama3-16k", 16384}, {"nvl72-8", 576},
                 {"nvl72-rails", 576}, {"pipedream-b", 16},   {"rail-16k", 16384},
                 {"selene-like", 2240}};
    assert_int_equal(sizeof known / sizeof *known, systems_n);
    for (size_t i = 0; i < systems_n; i++) {
        char *text = NULL, *canonical = NULL;
        size_t length = 0, hosts = 0;
        assert_string_equal(systems[i].name, known[i].name);
        assert_true(generate_has(systems[i].name));
        assert_int_equal(generate_canonical(systems[i].name, &canonical), STATUS_OK);
        FILE *f = fopen(generated_path, "w");
        assert_non_null(f);
        assert_int_equal(generate_platform(systems[i].name, f), STATUS_OK);
        assert_int_equal(fclose(f), 0);
        assert_int_equal(file_read(generated_path, &text, &length), STATUS_OK);
        for (size_t k = 0; k + 6 < length; k++) /* strstr() is slow under sanitizers */
            hosts += text[k] == '<' && memcmp(text + k, "<host ", 6) == 0;
        assert_int_equal(hosts, known[i].devices);
        free(canonical);
        free(text);
    }
    struct topology t = generated("pipedream-b");
    expect_between(&t, "n0g0", "n1g0", "nic", 14e-6, 3.125e9);
    topology_free(&t);
}

static void describes_the_gpu_type_of_the_catalogue(void **state)
{
    for (size_t i = 0; i < gpus_n; i++) {
        char spec[64];
        snprintf(spec, sizeof spec, "node:type=%s", gpus[i].name);
        struct topology t = generated(spec);
        const struct device_type *type = topology_type(&t, 7);
        assert_int_equal(t.types, 1);
        assert_string_equal(type->name, gpus[i].type);
        assert_true(type->flops >= gpus[i].flops && type->flops <= gpus[i].flops);
        assert_true(type->memory_bytes == gpus[i].memory_bytes);
        assert_true(type->memory_Bps >= gpus[i].memory_Bps * 0.999999);
        assert_true(gpus[i].flops < fmax(gpus[i].peak[DATA_bf16], gpus[i].peak[DATA_fp32]));
        for (size_t k = 0; k < DATA_TYPES; k++)
            assert_true(type->peak[k] == gpus[i].peak[k]);
        topology_free(&t);
    }
}

static void names_a_platform_the_same_however_it_is_written(void **state)
{
    char *text = NULL;
    assert_true(generate_has("rail") && generate_has("rail:x"));
    assert_false(generate_has("rails") || generate_has("") || generate_has("rai:l"));
    assert_int_equal(generate_canonical("rail", &text), STATUS_OK);
    assert_string_equal(text, "rail:nodes=4,gpus=8,type=H100,rack=32,oversubscription=1");
    free(text);
    assert_int_equal(generate_canonical("rail:nic=400Gbps,oversubscription=1.50,nodes=007", &text),
                     STATUS_OK);
    assert_string_equal(
        text, "rail:nodes=7,gpus=8,type=H100,rack=32,oversubscription=1.5,nic=50000000000Bps");
    free(text);
    assert_int_equal(generate_canonical("leaf-spine:paths=ecmp,uplinks=8,spines=4", &text),
                     STATUS_OK);
    assert_string_equal(text, "leaf-spine:nodes=4,gpus=8,type=A100,rack=16,oversubscription=1,"
                              "spines=4,uplinks=8,paths=ecmp");
    char *again = NULL;
    assert_int_equal(generate_canonical(text, &again), STATUS_OK);
    assert_string_equal(again, text);
    free(again);
    free(text);
}

static void refuses_nonsense_with_one_line(void **state)
{
    static const struct {
        const char *spec, *message;
    } cases[] = {
        {"ring:nodes=4", "'ring' dragonfly+ leaf-spine"},
        {"rail:", "rail ''"},
        {"rail:nodes", "rail 'nodes'"},
        {"rail:nodes=4,", "rail ''"},
        {"rail:=4", "rail: parameter ''; known: nodes, gpus"},
        {"rail:nods=4", "rail: parameter 'nods'; did you mean 'nodes'? known: nodes, gpus"},
        {"rail:nodes=4,nodes=4", "rail: nodes is given twice"},
        {"rail:nodes=0", "rail 'nodes=0' number 1 65536"},
        {"rail:nodes=-4", "rail 'nodes=-4' whole number"},
        {"rail:nodes=4.5", "rail 'nodes=4.5' whole number"},
        {"rail:nodes=1e3", "rail 'nodes=1e3' whole number"},
        {"rail:nodes= 4", "rail 'nodes= 4' number"},
        {"rail:nodes=99999999999999999999999999", "expected a whole number"},
        {"rail:nodes=", "rail 'nodes=' whole number"},
        {"rail:oversubscription=nan", "expected a number from 0.01 to 1000"},
        {"rail:oversubscription=0", "expected a number from 0.01 to 1000"},
        {"rail:type=H1000",
         "rail: GPU type 'H1000'; did you mean 'H100'? known: V100, A100, H100, H800,"},
        {"wan:latency=5", "wan: latency: "},
        {"wan:latency=11s", "wan latency '11s' 10s"},
        {"torus:x=256,y=256,z=256", "torus 16777216 GPUs 1048576"},
        {"dragonfly+:groups=1024,leaves=1024,nodes=65536,gpus=1024", "expected up to 1048576"},
        {"selene-like:nodes=4", "platform family 'selene-like'"},
        {"rail:nic=400", "rail: nic: "},
        {"rail:nic=0Gbps", "rail '0Gbps' 1Bps 1PBps"},
        {"rail:nodes=65536,gpus=32", "rail 2097152 GPUs 1048576"},
        {"leaf-spine:spines=3,uplinks=4", "leaf-spine: uplinks=4, expected a multiple of spines=3"},
        {"nvl:paths=spray", "nvl: paths=spray path"},
        {"rail:spines=2,paths=best", "rail: path policy 'best'; ecmp"},
        {"rail:spines=4097", "rail 'spines=4097' whole number 4096"},
        {"fat-tree:spines=4", "fat-tree: spines=4 needs uplinks"},
        {"fat-tree:uplinks=4,spines=6", "fat-tree: spines=6, expected a multiple of uplinks=4"},
        {"node:gpus=0", "node 'gpus=0' number 1 1024"},
        {"node:nodes=2", "node: parameter 'nodes'; known: gpus, type, nvlink"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = NULL;
        assert_int_equal(generate_canonical(cases[i].spec, &text), STATUS_INVALID);
        assert_null(text);
        if (!message_says(error_message(), cases[i].message) || strchr(error_message(), '\n'))
            fail_msg("%s: '%s' does not say '%s'", cases[i].spec, error_message(),
                     cases[i].message);
    }
}

static char *resolve(const char *spec)
{
    char *found = NULL;
    if (topology_resolve(spec, &found) != STATUS_OK)
        fail_msg("%s", error_message());
    return found;
}

static void resolves_a_description_to_a_file_that_is_written_once(void **state)
{
    struct stat first, second;
    char *a = resolve("rail:nodes=2"), *b = NULL, *text = NULL, *kept = NULL;
    size_t length;
    assert_memory_equal(a, cache, sizeof cache - 1);
    assert_int_equal(stat(a, &first), 0);
    b = resolve("rail:gpus=8,nodes=2");
    assert_string_equal(a, b);
    assert_int_equal(stat(b, &second), 0);
    assert_true(first.st_ino == second.st_ino);
    assert_int_equal(file_read(a, &kept, &length), STATUS_OK);

    FILE *f = fopen(a, "r+"); /* somebody damages it */
    assert_non_null(f);
    fputc('#', f);
    fclose(f);
    free(b);
    b = resolve("rail:nodes=2");
    assert_int_equal(file_read(b, &text, &length), STATUS_OK);
    assert_string_equal(text, kept);
    free(text);
    free(kept);
    free(a);
    free(b);
    assert_int_equal(topology_resolve("rail:nodes=x", &a), STATUS_INVALID);
}

static enum status resolve_once(void)
{
    char *found = NULL;
    enum status st = topology_resolve("rail:nodes=2,gpus=3", &found);
    free(found);
    return st;
}

static void releases_everything_when_memory_runs_out(void **state)
{
    FOR_EACH_ALLOC_FAILURE(resolve_once());
    FOR_EACH_ALLOC_FAILURE(resolve_once()); /* now that the file is there */
}

static int make_directory(void **state)
{
    mkdir(cache, 0700);
    unsetenv("FORELINE_DATA");
    return setenv("XDG_CACHE_HOME", cache, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_has_its_switch_between_any_two),
        cmocka_unit_test(a_rail_pod_has_the_bandwidth_of_its_ports_and_spines),
        cmocka_unit_test(a_leaf_spine_cluster_has_the_bandwidth_of_its_ports_and_spines),
        cmocka_unit_test(a_mesh_has_a_link_for_each_pair),
        cmocka_unit_test(a_fat_tree_is_as_wide_as_its_ports_over_the_oversubscription),
        cmocka_unit_test(a_dragonfly_has_a_link_between_any_two_groups),
        cmocka_unit_test(a_torus_counts_steps),
        cmocka_unit_test(sites_share_their_lines),
        cmocka_unit_test(an_nvl_domain_is_one_switch),
        cmocka_unit_test(named_systems_have_as_many_gpus_as_their_sources_say),
        cmocka_unit_test(describes_the_gpu_type_of_the_catalogue),
        cmocka_unit_test(names_a_platform_the_same_however_it_is_written),
        cmocka_unit_test(refuses_nonsense_with_one_line),
        cmocka_unit_test(resolves_a_description_to_a_file_that_is_written_once),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("generate", tests, make_directory, NULL);
}
