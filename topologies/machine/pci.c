/* GPUs by their PCI ids, lanes by their speed. */
#include "topologies/machine/pci.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"

enum { NVIDIA = 0x10de, AMD = 0x1002 };

/* The PCI ID Repository, pci.ids of 2026-08-22 (https://pci-ids.ucw.cz). Products that the
 * catalogue has no row for, and none of the same chip with as many units, have NULL: they are
 * refused by name. Those whose row has another size of memory are told so when they are completed.
 * A virtual function (VF) is its GPU. MI250 and MI250X show a device for each die. */
static const struct pci_gpu known[] = {
    {NVIDIA, 0x102d, "Tesla K80", NULL},
    {NVIDIA, 0x15f7, "P100-PCIE-12GB", "P100"},
    {NVIDIA, 0x15f8, "P100-PCIE-16GB", "P100"},
    {NVIDIA, 0x15f9, "P100-SXM2-16GB", "P100"},
    {NVIDIA, 0x1b38, "Tesla P40", NULL},
    {NVIDIA, 0x1bb3, "P4-8GB", "P4"},
    {NVIDIA, 0x1db1, "V100-SXM2-16GB", "V100-FP32"},
    {NVIDIA, 0x1db4, "V100-PCIE-16GB", "V100"},
    {NVIDIA, 0x1db5, "V100-SXM2-32GB", "V100"},
    {NVIDIA, 0x1db6, "V100-PCIE-32GB", "V100"},
    {NVIDIA, 0x1db8, "V100-SXM3-32GB", "V100"},
    {NVIDIA, 0x1df5, "V100-SXM2-16GB", "V100-FP32"},
    {NVIDIA, 0x1df6, "V100S-PCIE-32GB", "V100"},
    {NVIDIA, 0x1eb8, "T4-16GB", "T4"},
    {NVIDIA, 0x20b0, "A100-SXM4-40GB", "A100-40"},
    {NVIDIA, 0x20b1, "A100-PCIE-40GB", "A100-PCIE"},
    {NVIDIA, 0x20b2, "A100-SXM4-80GB", "A100"},
    {NVIDIA, 0x20b3, "A100-SXM4-64GB", "A100"},
    {NVIDIA, 0x20b5, "A100-PCIE-80GB", "A100-PCIE"},
    {NVIDIA, 0x20b7, "A30-24GB", "A30"},
    {NVIDIA, 0x20bd, "A800-SXM4-40GB", NULL},
    {NVIDIA, 0x20f1, "A100-PCIE-40GB", "A100-PCIE"},
    {NVIDIA, 0x20f3, "A800-SXM4-80GB", NULL},
    {NVIDIA, 0x20f5, "A800-PCIE-80GB", NULL},
    {NVIDIA, 0x2204, "RTX-3090-24GB", "RTX3090"},
    {NVIDIA, 0x2230, "RTX A6000", NULL},
    {NVIDIA, 0x2235, "A40-48GB", "A40"},
    {NVIDIA, 0x2236, "A10-24GB", "A10"},
    {NVIDIA, 0x2237, "A10G", NULL},
    {NVIDIA, 0x2321, "H100-NVL-94GB", NULL},
    {NVIDIA, 0x2324, "H800-SXM5-80GB", "H800"},
    {NVIDIA, 0x2329, "H20", NULL},
    {NVIDIA, 0x232c, "H20-HBM3E", NULL},
    {NVIDIA, 0x2330, "H100-SXM5-80GB", "H100"},
    {NVIDIA, 0x2331, "H100-PCIE-80GB", "H100-PCIE"},
    {NVIDIA, 0x2335, "H200-SXM5-141GB", "H200"},
    {NVIDIA, 0x2336, "H100-SXM5", "H100"},
    {NVIDIA, 0x2337, "H100-SXM5-64GB", NULL},
    {NVIDIA, 0x2338, "H100-SXM5-96GB", NULL},
    {NVIDIA, 0x2339, "H100-SXM5-94GB", NULL},
    {NVIDIA, 0x233b, "H200-NVL-141GB", NULL},
    {NVIDIA, 0x2342, "GH200-96GB", "GH200"},
    {NVIDIA, 0x2348, "GH200-144GB", "GH200"},
    {NVIDIA, 0x2684, "RTX-4090-24GB", "RTX4090"},
    {NVIDIA, 0x26b1, "RTX 6000 Ada", NULL},
    {NVIDIA, 0x26b5, "L40", NULL},
    {NVIDIA, 0x26b9, "L40S-48GB", "L40S"},
    {NVIDIA, 0x27b8, "L4-24GB", "L4"},
    {NVIDIA, 0x2901, "B200-SXM6-180GB", "B200"},
    {NVIDIA, 0x2941, "GB200-186GB", "GB200"},
    {NVIDIA, 0x2b85, "RTX 5090", NULL},
    {NVIDIA, 0x3182, "B300-SXM6-270GB", "B300"},
    {NVIDIA, 0x31c2, "GB300-279GB", "GB300"},
    {NVIDIA, 0x31c3, "GB300-279GB", "GB300"},
    {AMD, 0x66a0, "MI50 or MI60 (gfx906)", NULL},
    {AMD, 0x66a1, "MI50 or Radeon Pro VII (gfx906)", NULL},
    {AMD, 0x7388, "MI100", "MI100"},
    {AMD, 0x738c, "MI100", "MI100"},
    {AMD, 0x738e, "MI100", "MI100"},
    {AMD, 0x7408, "MI250X", "MI250"},
    {AMD, 0x740c, "MI250X or MI250", "MI250"},
    {AMD, 0x740f, "MI210", "MI210"},
    {AMD, 0x74a0, "MI300A", NULL},
    {AMD, 0x74a1, "MI300X", "MI300X"},
    {AMD, 0x74a2, "MI308X", NULL},
    {AMD, 0x74a5, "MI325X", "MI325X"},
    {AMD, 0x74a9, "MI300X HF", "MI300X"},
    {AMD, 0x74b5, "MI300X VF", "MI300X"},
    {AMD, 0x74b9, "MI325X VF", "MI325X"},
    {AMD, 0x74bd, "MI300X HF", "MI300X"},
    {AMD, 0x75a0, "MI350X", NULL},
    {AMD, 0x75a3, "MI355X", "MI355X"},
};

/* What NCCL (sm) and RCCL (gcn) say where the file has no PCI ids: several products share each.
 * CUDA's list of compute capabilities, LLVM's of AMDGPU processors; 906 to 942 is how old versions
 * of RCCL write them. */
static const struct {
    const char *attribute, *value, *type, *others; /* type NULL: no row, `others` alone */
} families[] = {
    {"sm", "60", "P100", ""},
    {"sm", "61", "P4", "P40"},
    {"sm", "70", "V100", ""},
    {"sm", "75", "T4", "RTX 20"},
    {"sm", "80", "A100", "A30, A800"},
    {"sm", "86", "A40", "A10, RTX 30, RTX A6000"},
    {"sm", "89", "L4", "L40, L40S, RTX 40, RTX Ada"},
    {"sm", "90", "H100", "H200, H800, H20, GH200"},
    {"sm", "100", "B200", "GB200"},
    {"sm", "103", "B300", "GB300"},
    {"gcn", "906", NULL, "MI50 or MI60 (gfx906)"},
    {"gcn", "908", "MI100", ""},
    {"gcn", "910", "MI250", "MI210"},
    {"gcn", "90a", "MI250", "MI210"},
    {"gcn", "940", "MI300X", "MI300A"},
    {"gcn", "941", "MI300X", ""},
    {"gcn", "942", "MI300X", "MI300A, MI308X, MI325X"},
    {"gcn", "950", "MI355X", "MI350X"},
};

const struct pci_gpu *pci_gpu(unsigned long vendor, unsigned long device)
{
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (known[k].vendor == vendor && known[k].device == device)
            return &known[k];
    return NULL;
}

static const char *words(struct machine *m, const char *format, unsigned long a, unsigned long b)
{
    char text[64];
    snprintf(text, sizeof text, format, a, b);
    return arena_text(&m->arena, text);
}

enum status pci_identify(struct machine *m, uint32_t part, const char *vendor, const char *device)
{
    unsigned long v = vendor ? strtoul(vendor, NULL, 16) : 0;
    unsigned long d = device ? strtoul(device, NULL, 16) : 0;
    struct machine_part *p = &m->part[part];
    if (v == 0 || d == 0 || v > 0xffff || d > 0xffff)
        return STATUS_OK;
    const struct pci_gpu *gpu = pci_gpu(v, d);
    p->model = gpu ? gpu->product : words(m, "unknown GPU (vendor 0x%04lx, device 0x%04lx)", v, d);
    p->type = gpu ? gpu->type : NULL;
    p->by_id = gpu;
    return p->model ? STATUS_OK : error_set(STATUS_NOMEM, "out of memory");
}

enum status pci_identify_family(struct machine *m, uint32_t part, const char *attribute,
                                const char *value)
{
    char text[64];
    struct machine_part *p = &m->part[part];
    const char *at = value + (strncmp(value, "gfx", 3) ? 0 : 3);
    size_t n = strcspn(at, ":"); /* "gfx90a:sramecc+:xnack-" */
    for (size_t k = 0; k < sizeof families / sizeof *families; k++) {
        if (strcmp(families[k].attribute, attribute) != 0 || strlen(families[k].value) != n ||
            strncmp(families[k].value, at, n) != 0)
            continue;
        p->type = families[k].type;
        p->model = p->type ? p->type : families[k].others;
        p->by_id = true;
        return p->type && *families[k].others
                   ? machine_assume(m,
                                    "GPU type %s, because the file has %s %s without PCI ids (it "
                                    "could also be %s); override with --gpu",
                                    p->type, attribute, value, families[k].others)
                   : STATUS_OK;
    }
    snprintf(text, sizeof text, "unknown GPU (%s %.20s)", attribute, value);
    p->model = arena_text(&m->arena, text);
    return p->model ? STATUS_OK : error_set(STATUS_NOMEM, "out of memory");
}

double pci_Bps(double transfers, double lanes)
{
    return transfers * lanes / 8 * (transfers > 6e9 ? 128.0 / 130 : 0.8);
}

long pci_class(const char *text)
{
    char digits[3] = {0};
    if (!text)
        return -1;
    text += !strncmp(text, "0x", 2) ? 2 : 0;
    if (strspn(text, "0123456789abcdefABCDEF") < 4)
        return -1;
    memcpy(digits, text, 2);
    return strtol(digits, NULL, 16);
}
