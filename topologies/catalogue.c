/* The GPUs of generated platforms, a row each, with the source of every number. */
#include "topologies/catalogue.h"

/* Sources, by column ([...] as in docs/platforms.md):
 *   peak    data sheets: 16-bit matrix products with 32-bit sums, without sparsity (V100-FP32, CPU:
 *           single precision)
 *   flops   [MAMF] A100 267.9, H100 792.1, and in its edition of 2026 B200 1745, GB200 1822, GH200
 *           828.6, MI300X 668.4; [Markidis] V100 83, V100-FP32 12. No measurement of a kind for the
 *           others: H200 has the H100's chip; for RTX 3090 and 4090 the H100's 80 % of the peak is
 *           assumed; CPU as in the platform laptop
 *   memory  data sheets; V100, A100, H100, GH200 and RTX in GiB, the others in the sheet's own GB
 *   nvlink  [NCCL-bw] links x GB/s: V100 6 x 20, A100 12 x 20, H100 and H200 18 x 20.6, B200 and
 *           GB200 18 x 40.1 (nominal 150, 300, 450, 450, 900). GH200: nominal 3 x 150 GB/s to the
 *           three others of a node. MI300X: nominal 7 x 64 GB/s of Infinity Fabric to the seven
 *           others. RTX: none, PCIe counts; CPU: loopback, measured for the platform laptop
 *   nic     one port a GPU: DGX A100 200 Gb/s, DGX H100, H200, B200, GB200 NVL72 and MI300X servers
 *           400 Gb/s, GH200 in Alps 200 Gb/s; V100: 100 Gb/s, as DGX-2 has for each two; RTX and
 * CPU 25 Gb/s, assumed pcie    [NCCL-bw] 12 GB/s for 3.0 x16, doubled with each generation since;
 * GH200 and GB200: of the port, as 5.0 */
enum { GIB_SHIFT = 30 };

const struct gpu gpus[] = {
    {"V100", "V100-SXM3-32GB", 125e12, 83e12, INT64_C(32) << GIB_SHIFT, 900e9, 120e9, 12.5e9, 12e9},
    {"A100", "A100-SXM4-80GB", 312e12, 268e12, INT64_C(80) << GIB_SHIFT, 2039e9, 240e9, 25e9, 24e9},
    {"H100", "H100-SXM5-80GB", 989e12, 792e12, INT64_C(80) << GIB_SHIFT, 3350e9, 370.8e9, 50e9,
     48e9},
    {"H200", "H200-SXM5-141GB", 989e12, 792e12, INT64_C(141000000000), 4800e9, 370.8e9, 50e9, 48e9},
    {"B200", "B200-SXM6-180GB", 2250e12, 1745e12, INT64_C(180000000000), 7700e9, 721.8e9, 50e9,
     48e9},
    {"GB200", "GB200-186GB", 2500e12, 1822e12, INT64_C(186000000000), 8000e9, 721.8e9, 50e9, 48e9},
    {"GH200", "GH200-96GB", 989e12, 828.6e12, INT64_C(96) << GIB_SHIFT, 4000e9, 450e9, 25e9, 48e9},
    {"MI300X", "MI300X-192GB", 1307e12, 668.4e12, INT64_C(192000000000), 5300e9, 448e9, 50e9, 48e9},
    {"RTX3090", "RTX-3090-24GB", 71e12, 57e12, INT64_C(24) << GIB_SHIFT, 936e9, 24e9, 3.125e9,
     24e9},
    {"RTX4090", "RTX-4090-24GB", 165.2e12, 132e12, INT64_C(24) << GIB_SHIFT, 1008e9, 24e9, 3.125e9,
     24e9},
    {"V100-FP32", "V100-SXM2-16GB", 15.7e12, 12e12, INT64_C(16) << GIB_SHIFT, 900e9, 120e9, 12.5e9,
     12e9},
    {"CPU", "core", 67e9, 50e9, INT64_C(4) << GIB_SHIFT, 12.8e9, 4e9, 3.125e9, 12e9},
};
const size_t gpus_n = sizeof gpus / sizeof *gpus;
