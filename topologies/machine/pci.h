/* pci.h - what PCI says of GPUs and lanes, for several importers. */
#ifndef TOPOLOGIES_MACHINE_PCI_H
#define TOPOLOGIES_MACHINE_PCI_H

#include "topologies/machine/machine.h"

/* A name for gpu_named() by vendor and device, "0x10de" and "0x20b0", the prefix being optional; NULL: not known. */
const char *pci_gpu(const char *vendor, const char *device);
/* Bytes per second of lanes at so many transfers, the line code taken off: 15.75 GB/s of 8e9 times 16. */
double pci_Bps(double transfers, double lanes);
/* The first two digits of a class, "0x030200" or "0302": 0x03 of displays, 0x02 of networks; -1: no class. */
long pci_class(const char *text);

#endif
