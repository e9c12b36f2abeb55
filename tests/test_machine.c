/* What other programs say of machines becomes one graph: formats by hand, random matrices against
 * the matrix, lists of hosts against a slow reading. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/random.h"
#include "core/cost/fabric.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "topologies/machine/machine.h"
#include "topologies/measured.h"

static const struct machine_options nothing;

static size_t below(uint64_t *r, size_t n)
{
    return n ? (size_t)(random_next(r) % n) : 0;
}

static void read_good(const char *text, struct machine *m)
{
    enum status st = machine_parse("t", text, strlen(text), m);
    if (st != STATUS_OK)
        fail_msg("%s", error_message());
}

static enum status read_and_free(const char *path)
{
    struct machine m = {0};
    enum status st = machine_read(path, &m);
    machine_free(&m);
    return st;
}

static enum status parse_and_free(const char *text)
{
    struct machine m = {0};
    enum status st = machine_parse("t", text, strlen(text), &m);
    machine_free(&m);
    return st;
}

static void read_bad(const char *text, const char *says)
{
    struct machine m = {0};
    assert_int_equal(machine_parse("t", text, strlen(text), &m), STATUS_PARSE);
    if (!message_says(error_message(), says))
        fail_msg("'%s' does not say '%s'", error_message(), says);
}

static uint32_t part_named(const struct machine *m, const char *name)
{
    for (uint32_t i = 0; i < m->parts; i++)
        if (!strcmp(m->part[i].name, name))
            return i;
    fail_msg("no part %s", name);
    return 0;
}

static void reads_a_matrix_with_a_row_cut_off(void **state)
{
    struct machine m = {0};
    read_good("prose\n   GPU0 GPU1\tGPU2 mlx5_0 CPU Affinity\nGPU0 X NV2 SYS PIX 0-3\n"
              "GPU1\tNV2 \t X SYS PXB 0-3\nGPU2 SYS SYS\nmlx5_0 PIX PXB SYS X\n\n NV# = NVLinks\n",
              &m);
    assert_int_equal(machine_count(&m, MACHINE_GPU), 3);
    assert_int_equal(machine_count(&m, MACHINE_NIC), 1);
    assert_int_equal(m.warnings.n, 1);
    assert_int_equal(machine_nvlinks(&m, part_named(&m, "GPU0"), part_named(&m, "GPU1")), 2);
    assert_int_equal(machine_nvlinks(&m, part_named(&m, "GPU0"), part_named(&m, "GPU2")), 0);
    machine_free(&m);
    read_bad("  GPU0 GPU1 GPU2\nGPU0 X NV1 NV1\nGPU1 NV1\n", "t:1: table column GPU2 no row");
    read_bad("  GPU0 GPU1\nGPU0 X OK\nGPU1 OK X\n", "topo -p2p");
    read_bad("  GPU0 GPU1\nGPU0 X NVX\nGPU1 NV1 X\n", "t:2:");
    read_bad("  GPU0 GPU1\nGPU0 X NV1\nGPU1 NV99 X\n", "t:3: 'NV99' GPU1 and GPU0");
    read_bad("  GPU0 GPU1\nGPU0 X NV37\nGPU1 NV37 X\n", "t:2: 'NV37' GPU0 and GPU1");
    read_good("  GPU0 GPU1\nGPU0 X NV36\nGPU1 NV36 X\n", &m);
    machine_free(&m);
    read_bad(
        "\n  GPU0 GPU1 NIC0 NIC1\nGPU0 X NV1 PIX SYS\nGPU1 NV1 X SYS PIX\nNIC0 PIX SYS X SYS\n",
        "t:2: table column NIC1 no row");
    read_bad("  GPU0 GPU1\nGPU0 X NV1\n", "t:1: table column GPU1 no row");
}

/* A random symmetric matrix, as text; lanes[i * n + j]. */
static void a_random_matrix_comes_back(void **state)
{
    uint64_t r = 18;
    for (int round = 0; round < 200; round++) {
        char text[8192];
        size_t n = 2 + below(&r, 15), at = 0;
        unsigned lanes[16][16] = {{0}};
        static const char *const far[] = {"PIX", "PXB", "PHB", "NODE", "SYS"};
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < i; j++)
                lanes[i][j] = lanes[j][i] = below(&r, 2) ? (unsigned)below(&r, 19) : 0;
        for (size_t i = 0; i < n; i++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%sGPU%zu", i ? "\t" : " ", i);
        for (size_t i = 0; i < n; i++) {
            at += (size_t)snprintf(text + at, sizeof text - at, "\nGPU%zu", i);
            for (size_t j = 0; j < n; j++)
                if (i == j)
                    at += (size_t)snprintf(text + at, sizeof text - at, " X");
                else if (lanes[i][j])
                    at += (size_t)snprintf(text + at, sizeof text - at, "\t NV%u", lanes[i][j]);
                else
                    at += (size_t)snprintf(text + at, sizeof text - at, " %s", far[(i + j) % 5]);
        }
        struct machine m = {0};
        read_good(text, &m);
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < i; j++) {
                char a[32], b[32];
                snprintf(a, sizeof a, "GPU%zu", i);
                snprintf(b, sizeof b, "GPU%zu", j);
                assert_int_equal(machine_nvlinks(&m, part_named(&m, a), part_named(&m, b)),
                                 lanes[i][j]);
            }
        machine_free(&m);
    }
}

struct names {
    size_t n;
    char name[64][32];
};

static enum status keep(void *data, const char *name)
{
    struct names *to = data;
    assert_true(to->n < 64);
    snprintf(to->name[to->n++], 32, "%s", name);
    return STATUS_OK;
}

static void lists_of_hosts_are_expanded(void **state)
{
    struct names got = {0};
    assert_int_equal(machine_hostlist("a[08-11,3],b,c[1-2]x[1,2]", keep, &got), STATUS_OK);
    static const char *const want[] = {"a08", "a09",  "a10",  "a11",  "a3",
                                       "b",   "c1x1", "c1x2", "c2x1", "c2x2"};
    assert_int_equal(got.n, 10);
    for (size_t i = 0; i < got.n; i++)
        assert_string_equal(got.name[i], want[i]);
    assert_int_equal(machine_hostlist("a[1-999999999]", keep, &got), STATUS_PARSE);
    assert_int_equal(machine_hostlist("a[3-1]", keep, &got), STATUS_PARSE);
    assert_int_equal(machine_hostlist("a[1-2", keep, &got), STATUS_PARSE);
    assert_int_equal(machine_hostlist("a[x]", keep, &got), STATUS_PARSE);
    assert_int_equal(machine_hostlist("a[1-2]b[]", keep, &got),
                     STATUS_PARSE); /* 5^20 of them took for ever */
}

static void ends_of_xml_are_said(void **state)
{
    read_bad("<graphs version='1'/>", "NCCL_GRAPH_DUMP_FILE");
    read_bad("<system><cpu></system>", "not XML");
    read_bad("<!DOCTYPE x [<!ENTITY a 'b'>]><system>&a;</system>", "entity");
    read_bad("<system version='1'><cpu/></system>", "no GPU");
}

static void nvswitches_join_by_what_the_lesser_has(void **state)
{
    struct machine m = {0};
    read_good("<system><cpu numaid='0'>"
              "<pci busid='a' class='0x030200' link_speed='' link_width='0'><gpu dev='0' sm='90'>"
              "<nvlink target='s0' count='4' tclass='0x068000'/><nvlink target='s1' count='5' "
              "tclass='0x068000'/></gpu></pci>"
              "<pci busid='b' class='0x030200'><gpu dev='1' sm='90'>"
              "<nvlink target='s1' count='7' tclass='0x068000'/></gpu></pci>"
              "<nic><net name='n' speed='200000000'/></nic></cpu></system>",
              &m);
    assert_int_equal(machine_nvlinks(&m, part_named(&m, "GPU0"), part_named(&m, "GPU1")), 7);
    assert_int_equal(machine_complete(&m, &nothing), STATUS_OK);
    assert_true(m.part[part_named(&m, "n")].Bps == 25e9);
    assert_string_equal(m.part[part_named(&m, "GPU0")].gpu->name, "H100");
    machine_free(&m);
}

static void networks_take_nodes(void **state)
{
    struct machine m = {0}, node = {0};
    struct machine_options o = {.nodes = 3};
    read_good(
        "SwitchName=top Switches=l[0-1]\nSwitchName=l0 Nodes=a[0-1]\nSwitchName=l1 Nodes=b[0-1]\n",
        &m);
    read_good(" GPU0 GPU1 NIC0\nGPU0 X NV4 PIX\nGPU1 NV4 X SYS\nNIC0 PIX SYS X\n", &node);
    assert_int_equal(machine_combine(&m, &node, &o), STATUS_OK);
    assert_int_equal(machine_complete(&m, &o), STATUS_OK);
    assert_int_equal(m.nodes, 3);
    assert_int_equal(machine_count(&m, MACHINE_GPU), 6);
    assert_int_equal(machine_count(&m, MACHINE_NIC), 3);
    assert_int_equal(machine_count(&m, MACHINE_SWITCH), 3);
    machine_free(&m);
    machine_free(&node);
    read_bad("SwitchName=a Switches=a\n", "below itself");
    read_bad("SwitchName=a Nodes=n[1-\n", "t:1:");
    read_bad("BlockName=a Nodes=n\nBlockName=a Nodes=m\n", "'a' twice");
}

/* As in a DGX A100, whose first GPU is as far from both ports, and whose second is near to one. */
static void ports_are_shared_out(void **state)
{
    struct machine m = {0};
    struct machine_options o = {.nodes = 2};
    char *text;
    size_t length, ports = 0;
    read_good(
        "<system><cpu><pci class='0x0604' busid='1'>"
        "<pci class='0x0604' busid='2'><pci class='0x0302' busid='3'><gpu dev='0'/></pci></pci>"
        "<pci class='0x0604' busid='4'><pci class='0x0207' busid='5'><nic><net name='a' "
        "speed='200000'/></nic></pci><pci class='0x0302' busid='6'><gpu dev='1'/></pci></pci>"
        "<pci class='0x0604' busid='7'><pci class='0x0207' busid='8'><nic><net name='b' "
        "speed='200000'/></nic></pci></pci></pci></cpu></system>",
        &m);
    assert_int_equal(machine_combine(&m, NULL, &o), STATUS_OK);
    assert_int_equal(machine_complete(&m, &o), STATUS_OK);
    assert_int_equal(machine_write(&m, NULL, "test_machine.xml"), STATUS_OK);
    assert_int_equal(file_read("test_machine.xml", &text, &length), STATUS_OK);
    for (const char *at = text; (at = strstr(at, "<link id=\"port")); at++)
        ports++; /* only those that a GPU sends through */
    assert_int_equal(ports, 4);
    free(text);
    remove("test_machine.xml");
    machine_free(&m);
}

/* What programs of tools/ refuse is said with the line of their file. */
static void programs_name_the_line(void **state)
{
    read_bad("3 1 2\n2\n0 2 1Gbps 1us 0\n1 9 1Gbps 1us 0\n", "t:4: expected 'A B RATE");
    read_bad("topology: [Ring]\nnpus_count: [2]\nbandwidth:\n- 0\nlatency: [1]\n",
             "t:4: '0' of bandwidth");
    read_bad("switches:\n  s: {switches: ['t[1-']}\nblocks: []\n", "t:2: 't[1-': ']'");
    read_bad(
        "[{\"nodes\": [{\"compounded_nodes\": [\n{\"id\": \"a\", \"device_type\": \"switch\"}]}],\n"
        "\"links\": [{\"compounded_links\": [], \"src\": \"a\",\n \"target\": \"b\"}]}]",
        "t:4:");
    read_bad("{\"matrix\": {\"tflops\": 1},\n\"networks\": [\n{\"bandwidth\": 0, \"size\": 1}]}",
             "network bandwidth");
    read_bad("openapi: 3\n", "t:1: the schema of InfraGraph");
    read_bad("{\"networks\": [,], \"matrix\": 1}", "t:1:");
    read_bad("infrastructure: &a\n  x: 1\n", "t:1:");
}

/* Answers of programs are files like any other. */
static void machines_in_json_are_checked(void **state)
{
    static const struct {
        const char *rows, *fault;
    } cases[] = {
        {"[[\"gpu\", \"a\"]], \"links\": []", "a gpu outside of all nodes"},
        {"[[\"gpu\", \"a\", 1]], \"links\": []", "1 is out of range"},
        {"[[\"switch\", \"a\", 0]], \"links\": []", "switch inside"},
        {"[[\"door\", \"a\", 0]], \"links\": []", "'door'"},
        {"[[\"cpu\", \"a\", 0, null, null, 0]], \"links\": []", "below itself"},
        {"[[\"cpu\", \"a\", 0, null, null, 1], [\"cpu\", \"b\", 0, null, null, 0]], \"links\": []",
         "below itself"},
        {"[[\"nvswitch\", \"a\", 0], [\"gpu\", \"b\", 0, null, null, 0]], \"links\": []",
         "the part above is a nvswitch"},
        {"[[\"gpu\", \"a\", 0]], \"links\": [[\"net\", 0, 1]]", "1 is out of range"},
        {"[[\"gpu\", \"a\", 0]], \"links\": [[\"net\", 0]]", "link does not name"},
        {"[[\"cpu\", \"a\", 0], [\"gpu\", \"b\", 0]], \"links\": [[\"nvlink\", 0, 1]]",
         "NVLink from a cpu to a gpu"},
        {"[[\"gpu\", \"a\", 0]], \"links\": [[\"net\", 0, 0, 0]]", "0 is out of range"},
        {"[[\"gpu\", \"a\", 0]], \"links\": [[\"net\", 0, 0, 1, 1e99]]", "1e+99 is out of range"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "{\"format\": \"foreline-machine\", \"version\": 1, \"nodes\": 1, \"parts\": %s}",
                 cases[i].rows);
        read_bad(text, cases[i].fault);
    }
}

/* Whatever stands in a file, reading it ends, and well or with one line. */
static void noise_is_refused_or_read(void **state)
{
    static const char *const seeds[] = {
        "  GPU0 GPU1\nGPU0 X NV1\nGPU1 NV1 X\n",
        "<system><cpu><pci class='0x0302' busid='1'><gpu/></pci></cpu></system>",
        "<topology><object type='Package'><object type='PCIDev' pci_type='0302 "
        "[10de:20b0]'/></object></topology>",
        "SwitchName=a Nodes=b[1-3]\n",
        "Switch 4 \"S-1\"\n[1] \"H-1\"[1] # \"n mlx5_0\" lid 1 4xHDR\n[2] \"H-2\"[1]\n",
        "{\"format\": \"foreline-machine\", \"version\": 1, \"nodes\": 1, \"parts\": [[\"gpu\", "
        "\"a\", 0], "
        "[\"nvswitch\", \"b\", 0]], \"links\": [[\"nvlink\", 0, 1, 2]]}",
    };
    uint64_t r = 7;
    for (int round = 0; round < 8000; round++) {
        char text[256];
        const char *seed = seeds[round % 6];
        size_t n = strlen(seed);
        memcpy(text, seed, n + 1);
        for (size_t k = below(&r, 4); k > 0; k--)
            text[below(&r, n)] = (char)(32 + below(&r, 95));
        if (below(&r, 8) == 0)
            n = below(&r, n);
        text[n] = '\0';
        struct machine m = {0};
        enum status st = machine_parse("t", text, n, &m);
        if (st == STATUS_OK && (st = machine_combine(&m, NULL, &nothing)) == STATUS_OK)
            st = machine_complete(&m, &nothing);
        if (st == STATUS_OK && machine_count(&m, MACHINE_GPU) < 4096)
            st = machine_write(&m, NULL, "/dev/null");
        assert_true(st == STATUS_OK || (*error_message() && !strchr(error_message(), '\n')));
        machine_free(&m);
    }
}

/* A random table of nccl-tests with any of its forms gives its times back, to 1e-6, through the
 * text of a platform's property too. */
static void curves_reproduce_their_table(void **state)
{
    uint64_t r = 5;
    for (int round = 0; round < 200; round++) {
        static const char *const labels[] = {"", "0: ", "[1,0]<stdout>:", "node7: "};
        static const char *const columns[] = {"", "  sum", "  sum  -1", "  0"};
        char text[16384], *value = NULL;
        size_t at = 0, rows = 1 + below(&r, 24), length = 0;
        double seconds[40], bytes[40], size = 8;
        const char *label = labels[below(&r, 4)], *column = columns[below(&r, 4)];
        at +=
            (size_t)snprintf(text, sizeof text, "%s#  size  count type time algbw busbw\n", label);
        for (size_t i = 0; i < rows; i++, size *= 1 + (double)(1 + below(&r, 3))) {
            double us = 10 + size / 1e5 * (1 + (double)below(&r, 100) / 100);
            char time[32];
            snprintf(time, sizeof time, us < 100 ? "%.2f" : us < 1e4 ? "%.1f" : "%.0f", us);
            us = strtod(time, NULL);
            bytes[i] = size;
            seconds[i] = us * 1e-6;
            at += (size_t)snprintf(text + at, sizeof text - at,
                                   "%s%.0f %.0f float%s %s %.2f %.2f 0\n", label, size, size / 4,
                                   column, time, size / us * 1e-3, size / us * 1.75e-3);
        }
        const struct measured_hint hint = {true, FABRIC_ALLREDUCE, 8, 8};
        struct measured m = {0};
        struct fabric_curve again = {0};
        if (measured_nccl_tests.parse("t", text, &hint, &m) != STATUS_OK)
            fail_msg("%s in\n%s", error_message(), text);
        FILE *to = open_memstream(&value, &length);
        assert_non_null(to);
        fabric_curve_put(to, &m.curve[0]);
        fclose(to);
        assert_int_equal(fabric_curve_parse("all-reduce:8x8", value, &again), STATUS_OK);
        assert_int_equal(again.n, rows);
        for (size_t i = 0; i < rows; i++) {
            assert_true(fabs(fabric_curve_seconds(&m.curve[0], bytes[i]) / seconds[i] - 1) < 1e-6);
            assert_true(fabs(fabric_curve_seconds(&again, bytes[i]) / seconds[i] - 1) < 1e-6);
            assert_true(fabs(again.bytes[i] - bytes[i]) < 0.5); /* 2^30 to the byte */
        }
        free(value);
        fabric_curve_free(&again);
        measured_free(&m);
    }
}

/* Memory ends anywhere in a file of any format, also of those that are refused: these say so
 * first. */
static void survives_every_failing_allocation(void **state)
{
    static const char *const files[] = {"blocks.conf",   "dgx.txt",      "hwloc.xml",
                                        "ib.txt",        "machine.json", "nccl.xml",
                                        "topology.conf", "topology.yaml"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[512];
        snprintf(path, sizeof path, SOURCE_DIR "/tests/fuzz/corpus/machine/%s", files[i]);
        struct machine m = {0};
        if (machine_read(path, &m) != STATUS_OK)
            fail_msg("%s", error_message());
        machine_free(&m);
        FOR_EACH_ALLOC_FAILURE(read_and_free(path));
    }
}

static enum status measure_and_free(const struct measured_format *f, const char *text)
{
    const struct measured_hint hint = {true, FABRIC_ALLREDUCE, 8, 8};
    struct measured m = {0};
    enum status st = f->parse("t", text, &hint, &m);
    measured_free(&m);
    return st;
}

static void tables_survive_it_too(void **state)
{
    FOR_EACH_ALLOC_FAILURE(measure_and_free(&measured_nccl_tests,
                                            "#  size count type time algbw busbw\n"
                                            "1024 256 float sum 20.00 0.05 0.09 0\n"
                                            "2048 512 float sum 30.00 0.07 0.12 0\n"));
    FOR_EACH_ALLOC_FAILURE(measure_and_free(
        &measured_osu,
        "# OSU MPI Allreduce Latency Test\n# Size  Avg Latency(us)\n4 1.5\n8 1.6\n"));
    FOR_EACH_ALLOC_FAILURE(measure_and_free(&measured_csv, "size(B),time(us)\n1024,20\n2048,30\n"));
}

/* Where memory ends in the middle, what has been read so far is not the machine. */
static void no_machine_is_cut_where_memory_ends(void **state)
{
    static char slurm[16384];
    size_t n = 0;
    for (size_t i = 0; i < 300; i++)
        n += (size_t)sprintf(slurm + n, "SwitchName=s%zu Nodes=n%zu\n", i, i);
    sprintf(slurm + n, "SwitchName=top Switches=s[0-299]\n");
    FOR_EACH_ALLOC_FAILURE(parse_and_free(slurm));
}

/* The same of a file that a program reads: every ninth, as each starts it. */
static void programs_survive_it_too(void **state)
{
    for (long k = 0, left = -1; left < 0; k += 9) {
        fault_countdown = k;
        enum status st = parse_and_free("2 1 1\n1\n0 1 1Gbps 1us 0\n");
        left = fault_countdown;
        fault_countdown = LONG_MAX;
        assert_int_equal(st, left < 0 ? STATUS_NOMEM : STATUS_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_matrix_with_a_row_cut_off),
        cmocka_unit_test(a_random_matrix_comes_back),
        cmocka_unit_test(lists_of_hosts_are_expanded),
        cmocka_unit_test(ends_of_xml_are_said),
        cmocka_unit_test(nvswitches_join_by_what_the_lesser_has),
        cmocka_unit_test(networks_take_nodes),
        cmocka_unit_test(ports_are_shared_out),
        cmocka_unit_test(curves_reproduce_their_table),
        cmocka_unit_test(programs_name_the_line),
        cmocka_unit_test(machines_in_json_are_checked),
        cmocka_unit_test(noise_is_refused_or_read),
        cmocka_unit_test(survives_every_failing_allocation),
        cmocka_unit_test(tables_survive_it_too),
        cmocka_unit_test(no_machine_is_cut_where_memory_ends),
        cmocka_unit_test(programs_survive_it_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
