/* pci.h - what PCI says of GPUs and lanes, for several importers. */
#ifndef TOPOLOGIES_MACHINE_PCI_H
#define TOPOLOGIES_MACHINE_PCI_H

#include "topologies/machine/machine.h"

struct pci_gpu {
    unsigned vendor, device;
    const char *product; /* as its vendor calls it */
    const char *type;    /* the row of the catalogue that counts; NULL: none does */
};

/* The product with these PCI ids; NULL: unknown. O(products). */
const struct pci_gpu *pci_gpu(unsigned long vendor, unsigned long device);
/* Model and type of a GPU by "0x10de" and "0x20b0", the prefix being optional. An id that is in no
 * table is an "unknown GPU (vendor ..., device ...)", of no type. NULL or 0: not said, the part
 * stays as it is. STATUS_NOMEM. */
enum status pci_identify(struct machine *m, uint32_t part, const char *vendor,
                         const char *device) MUST_CHECK;
/* The same by "sm" (of NCCL: "90") or "gcn" (of RCCL: "910", "gfx942"), with a note where several
 * products have it. STATUS_NOMEM. */
enum status pci_identify_family(struct machine *m, uint32_t part, const char *attribute,
                                const char *value) MUST_CHECK;
/* Bytes per second of lanes at so many transfers, the line code taken off: 15.75 GB/s of 8e9 times
 * 16. */
double pci_Bps(double transfers, double lanes);
/* The first two digits of a class, "0x030200" or "0302": 0x03 of displays, 0x02 of networks; -1: no
 * class. */
long pci_class(const char *text);

#endif
