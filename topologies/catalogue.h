/* catalogue.h - what a GPU attains and what comes with it in its vendor's servers. */
#ifndef TOPOLOGIES_CATALOGUE_H
#define TOPOLOGIES_CATALOGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/data_type.h"
#include "core/strategy/constants.h"

/* Bandwidths are per direction; sources in catalogue.c and docs/reference/platforms.md. */
struct gpu {
    const char *name;        /* "H100" */
    const char *type;        /* name of the device type */
    double peak[DATA_TYPES]; /* nominal, dense matrix products; 0: none, or as wide a one's */
    double flops;            /* attained by the best product measured: of bf16, if it has that */
    int64_t memory_bytes;
    double memory_Bps;      /* nominal */
    double nvlink_Bps;      /* attained into an NVSwitch, all links together */
    double nic_Bps;         /* nominal, of the port that each GPU has in the vendor's server */
    double pcie_Bps;        /* attained */
    double host_Bps;        /* to its host's memory; 0: as PCIe */
    double host_memory_Bps; /* nominal, of the vendor's server, shared by its GPUs */
    const char
        *kernels; /* what is known of them beyond the rule of data sheets, as kernels_read() takes
                          * it; NULL: nothing */
    int units;    /* multiprocessors (compute units, Xe cores); 0: unknown */
};

extern const struct gpu gpus[];
extern const size_t gpus_n;

/* Times what the table says of the products of a type (and of its attention, *all) with these
 * constants instead of the shipped ones: of the few whose figures are no measured products. Type as
 * in gpu.type. */
double gpu_varied(const char *type, const struct constants *c, bool *all);

/* The GPU of that device type; NULL: none, such as a CPU's core. */
const struct gpu *gpu_of_type(const char *type);
/* Has it matrix products in bf16? A platform's peak does not say: it is one for both kinds of 16
 * bits. */
bool gpu_has_bf16(const struct gpu *g);

/* The row that a text means: of those whose words, letters and digits between other signs, all
 * stand in it, whatever their case, the one with the most, then the longest. "NVIDIA
 * A100-PCIE-40GB" is A100-PCIE, "A100-SXM-40GB" A100-40, "8xH200" H200; NULL: none. */
const struct gpu *gpu_named(const char *text);

#endif
