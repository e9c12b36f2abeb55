/* What files say of machines beyond their form: GPUs by ids, adapters by hosts, which ports count,
 * and NUMA. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "topologies/machine/machine.h"

static const struct machine_options nothing;

static void read_good(const char *text, struct machine *m)
{
    enum status st = machine_parse("t", text, strlen(text), m);
    if (st != STATUS_OK)
        fail_msg("%s", error_message());
}

static uint32_t part_named(const struct machine *m, const char *name)
{
    for (uint32_t i = 0; i < m->parts; i++)
        if (!strcmp(m->part[i].name, name))
            return i;
    fail_msg("no part %s", name);
    return 0;
}

static enum status complete_gpu(const char *attributes, const char *inside, struct machine *m)
{
    char text[512];
    snprintf(text, sizeof text,
             "<system><cpu>\n<pci busid='1' class='0x038000' %s><gpu dev='0' %s/></pci></cpu>"
             "</system>",
             attributes, inside);
    read_good(text, m);
    return machine_complete(m, &nothing);
}

/* An accelerator that RCCL lists is what its ids say, or nothing: gfx942 was a V100. */
static void gpus_are_what_their_ids_say(void **state)
{
    static const struct {
        const char *ids, *family, *type;
    } known[] = {
        {"vendor='0x1002' device='0x74b5'", "gcn='gfx942'", "MI300X"},
        {"vendor='0x1002' device='0x74a5'", "gcn='gfx942'", "MI325X"},
        {"vendor='1002' device='75a3'", "gcn='gfx950'", "MI355X"},
        {"vendor='0x1002' device='0x740f'", "sm='104' gcn='910'", "MI210"},
        {"vendor='0x10de' device='0x26b9'", "sm='89'", "L40S"},
        {"vendor='0x10de' device='0x20b7'", "sm='80'", "A30"},
        {"", "sm='90'", "H100"},
        {"", "gcn='gfx942:sramecc+:xnack-'", "MI300X"},
        {"", "gcn='gfx90a'", "MI250"},
    };
    static const struct {
        const char *ids, *family, *says;
    } unknown[] = {
        {"vendor='0x1002' device='0x7fff'", "gcn='gfx942'",
         "t:2 unknown GPU 0x1002 0x7fff GPU --gpu TYPE foreline topology generate list"},
        {"vendor='0x10de' device='0x2329'", "sm='90'", "t:2: GPU 'H20' catalogue"},
        {"vendor='0x1002' device='0x74a0'", "gcn='gfx942'", "t:2: GPU 'MI300A' catalogue"},
        {"", "gcn='gfx1100'", "t:2: unknown GPU (gcn gfx1100) GPU catalogue"},
        {"", "sm='120'", "t:2: unknown GPU (sm 120) GPU catalogue"},
    };
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        struct machine m = {0};
        if (complete_gpu(known[k].ids, known[k].family, &m) != STATUS_OK)
            fail_msg("%s", error_message());
        assert_string_equal(m.part[part_named(&m, "GPU0")].gpu->name, known[k].type);
        machine_free(&m);
    }
    for (size_t k = 0; k < sizeof unknown / sizeof *unknown; k++) {
        struct machine m = {0};
        const struct machine_options h100 = {.gpu = gpu_named("H100")};
        assert_int_equal(complete_gpu(unknown[k].ids, unknown[k].family, &m), STATUS_INVALID);
        if (!message_says(error_message(), unknown[k].says))
            fail_msg("'%s' does not say '%s'", error_message(), unknown[k].says);
        assert_int_equal(machine_complete(&m, &h100), STATUS_OK);
        machine_free(&m);
    }
    struct machine m = {0};
    assert_int_equal(complete_gpu("vendor='0x10de' device='0x20f1'", "sm='80'", &m), STATUS_OK);
    assert_message(m.warnings.text[0], "GPU 'A100-PCIE-40GB' A100-PCIE 80 GB 40");
    machine_free(&m);
}

/* Sixty-nine adapters called localhost were one node with as many ports. */
static void adapters_without_a_host_stay_apart(void **state)
{
    char text[16384];
    struct machine m = {0};
    int n = snprintf(text, sizeof text, "Switch\t80 \"S-1\"\n");
    for (int i = 1; i <= 69; i++)
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "[%d] \"H-%d\"[1] # \"localhost mlx5_%d\" lid %d 4xHDR\n", i, i, i % 2, i);
    n += snprintf(text + n, sizeof text - (size_t)n,
                  "[70] \"H-70\"[1] # \"a mlx5_0\" lid 1 4xHDR\n"
                  "[71] \"H-71\"[1] # \"a mlx5_1\" lid 1 4xHDR\n"
                  "[72] \"H-72\"[1] # \"MT4123 ConnectX6 Mellanox Technologies\" lid 1 4xHDR\n"
                  "[73] \"H-73\"[1] # \"MT4123 ConnectX6 Mellanox Technologies\" lid 1 4xHDR\n"
                  "[74] \"H-73\"[2] # \"MT4123 ConnectX6 Mellanox Technologies\" lid 1 4xHDR\n");
    snprintf(text + n, sizeof text - (size_t)n,
             "\nCa 1 \"H-74\" # \"b mlx5_0\"\n\nCa 1 \"H-75\" # \"b mlx5_0\"\n\nSwitch 4 \"S-2\"\n"
             "[1] \"H-74\"[1] # \"b mlx5_0\" lid 1 4xHDR\n"
             "[2] \"H-75\"[1] # \"b mlx5_0\" lid 1 4xHDR\n"
             "[3] \"S-1\"[80] # \"x\" lid 1 4xHDR\n");
    read_good(text, &m);
    assert_int_equal(machine_count(&m, MACHINE_NODE), 69 + 1 + 2 + 2);
    assert_int_equal(m.warnings.n, 1);
    assert_message(m.warnings.text[0], "t:2 73 adapters 'localhost mlx5_1'");
    machine_free(&m);
}

/* Bandwidth of the link that a platform file has of this id and those like it, summed. */
static double sum_of_links(const char *text, const char *id, size_t *n)
{
    double sum = 0;
    *n = 0;
    for (const char *at = text; (at = strstr(at, id)); at++, (*n)++) {
        const char *value = strstr(at, "bandwidth=\"");
        assert_non_null(value);
        sum += strtod(value + strlen("bandwidth=\""), NULL);
    }
    return sum;
}

static void write_machine(struct machine *m, char **text)
{
    size_t length;
    if (machine_write(m, NULL, "test_machine.xml") != STATUS_OK)
        fail_msg("%s", error_message());
    assert_int_equal(file_read("test_machine.xml", text, &length), STATUS_OK);
    remove("test_machine.xml");
}

/* Two ports a GPU, of which one was used: on one switch, and on two that stand side by side. */
static void all_ports_of_a_node_are_used(void **state)
{
    char node_text[4096], fabric[8192], *text;
    size_t ports, n = 0, k = 0;
    struct machine_options two = {.nodes = 2, .nic_Bps = 25e9};
    struct machine m = {0}, node = {0};
    n += (size_t)snprintf(node_text, sizeof node_text, "<system><cpu>");
    for (int g = 0; g < 4; g++)
        n += (size_t)snprintf(
            node_text + n, sizeof node_text - n,
            "<pci class='0x0604' busid='%d'><pci class='0x0302' busid='g%d'><gpu dev='%d' sm='90'/>"
            "</pci><pci class='0x0207' busid='a%d'><nic><net name='a%d' speed='200000'/></nic>"
            "</pci><pci class='0x0207' busid='b%d'><nic><net name='b%d' speed='200000'/></nic>"
            "</pci></pci>",
            g, g, g, g, g, g, g);
    snprintf(node_text + n, sizeof node_text - n, "</cpu></system>");
    read_good(node_text, &m);
    assert_int_equal(machine_combine(&m, NULL, &two), STATUS_OK);
    assert_int_equal(machine_complete(&m, &two), STATUS_OK);
    write_machine(&m, &text);
    assert_true(fabs(sum_of_links(text, "<link id=\"port", &ports) / (2 * 8 * 25e9) - 1) < 1e-9);
    assert_int_equal(ports, 2 * 4);
    free(text);
    machine_free(&m);

    /* Leaf i has port i of both nodes, a spine above four leaves each: 8 leaves are 4, 2 spines are
     * 1. */
    for (int leaf = 0; leaf < 8; leaf++) {
        k += (size_t)snprintf(fabric + k, sizeof fabric - k, "Switch 40 \"S-%d\"\n", leaf);
        for (int host = 0; host < 2; host++)
            k += (size_t)snprintf(fabric + k, sizeof fabric - k,
                                  "[%d] \"H-%d%d\"[1] # \"n%d mlx5_%d\" lid 1 4xHDR\n", host + 1,
                                  host, leaf, host, leaf);
        for (int spine = 0; spine < 2; spine++)
            k += (size_t)snprintf(fabric + k, sizeof fabric - k,
                                  "[%d] \"S-s%d\"[%d] # \"s\" lid 1 4xHDR\n", 10 + spine, spine,
                                  leaf + 1);
        k += (size_t)snprintf(fabric + k, sizeof fabric - k, "\n");
    }
    snprintf(fabric + k, sizeof fabric - k, "Switch 40 \"S-s0\"\n\nSwitch 40 \"S-s1\"\n\n");
    two.nodes = 0;
    read_good(fabric, &m);
    read_good(node_text, &node);
    assert_int_equal(machine_combine(&m, &node, &two), STATUS_OK);
    assert_int_equal(machine_complete(&m, &two), STATUS_OK);
    write_machine(&m, &text);
    assert_true(fabs(sum_of_links(text, "<link id=\"port", &ports) / (2 * 8 * 25e9) - 1) < 1e-9);
    assert_int_equal(ports, 2 * 4);
    assert_true(fabs(sum_of_links(text, "<link id=\"cable", &ports) / (8 * 2 * 25e9) - 1) < 1e-9);
    assert_int_equal(ports, 4);
    sum_of_links(text, "<router", &ports);
    assert_int_equal(ports, 4 + 1);
    free(text);
    machine_free(&m);
    machine_free(&node);
}

static void read_server(const char *extra, const char *nics, struct machine *m)
{
    char text[4096];
    const struct machine_options o = {.nics = nics};
    size_t n = (size_t)snprintf(text, sizeof text, "<system><cpu>");
    for (int g = 0; g < 2; g++)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "<pci class='0x0604' busid='%d'><pci class='0x0302' busid='g%d'>"
                              "<gpu dev='%d' sm='90'/></pci><pci class='0x0207' busid='a%d'><nic>"
                              "<net name='mlx5_%d' speed='400000'/></nic></pci></pci>",
                              g, g, g, g, g);
    snprintf(text + n, sizeof text - n, "\n%s</cpu></system>", extra);
    read_good(text, m);
    if (machine_complete(m, &o) != STATUS_OK)
        fail_msg("%s", error_message());
}

/* Ports of management and of storage counted as the fabric's. */
static void ports_of_other_networks_are_left_out(void **state)
{
    static const struct {
        const char *extra, *nics, *says;
        size_t ports;
    } cases[] = {
        {"", NULL, NULL, 2},
        {"<nic><net name='eno1' speed='1000'/></nic>", NULL, "t:2 1 3 management eno1 --nic all",
         2},
        {"<nic><net name='mlx5_2' speed='400000'/></nic>"
         "<nic><net name='mlx5_3' speed='400000'/></nic>",
         NULL, "t:2 2 4 PCIe GPU GPU management mlx5_2 mlx5_3 --nic all", 2},
        /* A GPU without a port beside it may need those below the CPU. */
        {"<nic><net name='mlx5_2' speed='400000'/></nic><pci class='0x0302' busid='x'><gpu "
         "sm='90'/></pci>",
         NULL, NULL, 3},
        {"<nic><net name='mlx5_2' speed='400000'/></nic>", "all", NULL, 3},
        {"<nic><net name='mlx5_2' speed='400000'/></nic>", "mlx5_[02]@400Gbps", NULL, 2},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct machine m = {0};
        read_server(cases[k].extra, cases[k].nics, &m);
        assert_int_equal(machine_count(&m, MACHINE_NIC), cases[k].ports);
        bool said = cases[k].says != NULL;
        for (size_t i = 0; i < m.warnings.n && cases[k].says; i++)
            said &= !message_says(m.warnings.text[i], cases[k].says);
        if (said)
            fail_msg("case %zu: '%s'", k, m.warnings.n ? m.warnings.text[0] : "no warning");
        machine_free(&m);
    }
    struct machine m = {0};
    const struct machine_options typo = {.nics = "mlx5_0,mlx9"};
    read_good("<system><cpu><pci class='0x0302' busid='1'><gpu sm='90'/></pci><nic>"
              "<net name='mlx5_0' speed='1000'/></nic></cpu></system>",
              &m);
    assert_int_equal(machine_complete(&m, &typo), STATUS_INVALID);
    assert_message(error_message(), "t --nic 'mlx9' 'all' mlx5_0");
    assert_int_equal(machine_complete(&m, &nothing), STATUS_OK);
    assert_int_equal(machine_count(&m, MACHINE_NIC), 1); /* the only port stays */
    machine_free(&m);
    read_good("<topology><object type='Package'>"
              "<object type='PCIDev' pci_type='0302 [10de:2330]'/>"
              "<object type='PCIDev' pci_type='0200 [8086:1521]'>"
              "<object type='OSDev' name='eth0' osdev_type='2'/></object>"
              "<object type='PCIDev' pci_type='0200 [15b3:101d]'>"
              "<object type='OSDev' name='enp1' osdev_type='2'/>"
              "<object type='OSDev' name='mlx5_0' osdev_type='3'/></object></object></topology>",
              &m);
    assert_int_equal(machine_complete(&m, &nothing), STATUS_OK);
    assert_int_equal(machine_count(&m, MACHINE_NIC), 1);
    assert_message(m.warnings.text[0], "t:1 1 2 RDMA device eth0 --nic all");
    machine_free(&m);
}

/* "topo -m" as pages copy it: columns of ports, but no rows. It was refused as cut off. */
static void a_matrix_needs_no_rows_of_ports(void **state)
{
    struct machine m = {0};
    char *text;
    read_good("\tGPU0\tGPU1\tNIC0\tNIC1\tNIC2\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
              "GPU0\t X \tSYS\tPIX\tPXB\tSYS\t0-15\t0\t\tN/A\n"
              "GPU1\tSYS\t X \tSYS\tSYS\tPHB\t16-31\t1\t\tN/A\n\n NV# = NVLinks\n",
              &m);
    size_t a, b;
    uint32_t nic[3];
    for (int k = 0; k < 3; k++) {
        char name[16];
        snprintf(name, sizeof name, "NIC%d", k);
        nic[k] = part_named(&m, name);
    }
    assert_true(machine_distance(&m, nic[0], nic[1], &a, &b) < 1000);
    assert_true(machine_distance(&m, nic[0], nic[2], &a, &b) >= 1000);
    assert_string_equal(m.part[part_named(&m, "GPU0")].numa, "0");
    assert_string_equal(m.part[part_named(&m, "GPU1")].numa, "1");
    assert_string_equal(m.part[nic[1]].numa, "0");
    assert_string_equal(m.part[nic[2]].numa, "1");
    assert_message(m.warnings.text[0], "t:1: columns ports no rows");
    assert_int_equal(machine_complete(&m, &nothing), STATUS_OK);
    write_machine(&m, &text);
    assert_non_null(strstr(text, "<host id=\"n0g1\""));
    assert_non_null(strstr(strstr(text, "<host id=\"n0g1\""), "<prop id=\"numa\" value=\"1\"/>"));
    assert_non_null(strstr(text, "<link_ctn id=\"smp0\"")); /* between the sockets */
    free(text);
    machine_free(&m);
}

static void numa_nodes_are_kept(void **state)
{
    struct machine m = {0};
    read_good("<system><cpu numaid='3'><pci class='0x0302' busid='1'><gpu sm='90'/></pci>"
              "<nic><net name='n' speed='400000'/></nic></cpu></system>",
              &m);
    assert_string_equal(m.part[part_named(&m, "GPU0")].numa, "3");
    assert_string_equal(m.part[part_named(&m, "n")].numa, "3");
    machine_free(&m);
    read_good("<topology><object type='Machine' nodeset='0x3'>"
              "<object type='Package' nodeset='0x00000002'>"
              "<object type='PCIDev' pci_type='0302 [10de:2330]'/></object>"
              "<object type='Package' nodeset='0x00000001,0x0'>"
              "<object type='PCIDev' pci_type='0302 [10de:2330]'/></object>"
              "<object type='PCIDev' pci_type='0302 [10de:2330]'/></object></topology>",
              &m);
    assert_string_equal(m.part[part_named(&m, "GPU0")].numa, "1");
    assert_string_equal(m.part[part_named(&m, "GPU1")].numa, "32");
    assert_null(m.part[part_named(&m, "GPU2")].numa);
    machine_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpus_are_what_their_ids_say),
        cmocka_unit_test(adapters_without_a_host_stay_apart),
        cmocka_unit_test(all_ports_of_a_node_are_used),
        cmocka_unit_test(ports_of_other_networks_are_left_out),
        cmocka_unit_test(a_matrix_needs_no_rows_of_ports),
        cmocka_unit_test(numa_nodes_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
