/* GPUs by their PCI ids, lanes by their speed. */
#include "topologies/machine/pci.h"

#include <stdlib.h>
#include <string.h>

const char *pci_gpu(const char *vendor, const char *device)
{
    static const struct {
        unsigned long vendor, device;
        const char *name;
    } known[] = {
        {0x10de, 0x15f8, "P100"},      {0x10de, 0x15f9, "P100"},      {0x10de, 0x1db1, "V100-FP32"},
        {0x10de, 0x1db4, "V100"},      {0x10de, 0x1db5, "V100"},      {0x10de, 0x1db8, "V100"},
        {0x10de, 0x1eb8, "T4"},        {0x10de, 0x20b0, "A100-40"},   {0x10de, 0x20b2, "A100"},
        {0x10de, 0x20b5, "A100-PCIE"}, {0x10de, 0x2235, "A40"},       {0x10de, 0x2330, "H100"},
        {0x10de, 0x2324, "H800"},      {0x10de, 0x2331, "H100-PCIE"}, {0x10de, 0x2335, "H200"},
        {0x10de, 0x2342, "GH200"},     {0x10de, 0x27b8, "L4"},        {0x10de, 0x2901, "B200"},
        {0x10de, 0x2941, "GB200"},     {0x10de, 0x3182, "B300"},      {0x10de, 0x2684, "RTX4090"},
        {0x10de, 0x2204, "RTX3090"},   {0x1002, 0x738c, "MI100"},     {0x1002, 0x740c, "MI250"},
        {0x1002, 0x7408, "MI250"},     {0x1002, 0x740f, "MI210"},     {0x1002, 0x74a1, "MI300X"},
    };
    if (!vendor || !device)
        return NULL;
    unsigned long v = strtoul(vendor, NULL, 16), d = strtoul(device, NULL, 16);
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (known[k].vendor == v && known[k].device == d)
            return known[k].name;
    return NULL;
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
