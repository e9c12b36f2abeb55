#include "topologies/catalogue.h"

/* Sources, by column ([...] as in docs/platforms.md):
 *   peak    data sheets: 16-bit matrix products with 32-bit sums, without sparsity
 *   flops   [MAMF] A100 267.9, H100 792.1; [Markidis] V100 83. No measurement of a kind for the
 *           others: H200 has the H100's chip; for B200 the H100's 80 % of the peak is assumed
 *   memory  data sheets; V100, A100 and H100 in GiB, H200 and B200 (HGX) in the sheet's own GB
 *   nvlink  [NCCL-bw] links x GB/s: V100 6 x 20, A100 12 x 20, H100 and H200 18 x 20.6,
 *           B200 18 x 40.1 (nominal 150, 300, 450, 450, 900)
 *   nic     one port a GPU: DGX A100 200 Gb/s, DGX H100, H200 and B200 400 Gb/s; V100: 100 Gb/s,
 *           as DGX-2 has for each two
 *   pcie    [NCCL-bw] 12 GB/s for 3.0 x16, doubled with each generation since */
enum { GIB_SHIFT = 30 };

const struct gpu gpus[] = {
    {"V100", "V100-SXM3-32GB", 125e12, 83e12, INT64_C(32) << GIB_SHIFT, 900e9, 120e9, 12.5e9, 12e9},
    {"A100", "A100-SXM4-80GB", 312e12, 268e12, INT64_C(80) << GIB_SHIFT, 2039e9, 240e9, 25e9, 24e9},
    {"H100", "H100-SXM5-80GB", 989e12, 792e12, INT64_C(80) << GIB_SHIFT, 3350e9, 370.8e9, 50e9,
     48e9},
    {"H200", "H200-SXM5-141GB", 989e12, 792e12, INT64_C(141000000000), 4800e9, 370.8e9, 50e9, 48e9},
    {"B200", "B200-SXM6-180GB", 2250e12, 1800e12, INT64_C(180000000000), 7700e9, 721.8e9, 50e9,
     48e9},
};
const size_t gpus_n = sizeof gpus / sizeof *gpus;
