/* The GPUs of generated platforms, a row each, with the source of every number. */
#include "topologies/catalogue.h"

/* Sources, by column ([...] as in docs/platforms.md):
 *   peak    data sheets: matrix products with 32-bit sums, without sparsity: fp32, tf32, 16 bits,
 *           fp8. HGX B200 and GB200 NVL72: the sheet's system figures by GPU, half of those with
 *           sparsity. V100's 16 bits are fp16
 *   flops   [MAMF] A100 267.9, H100 (and H800) 792.1, and in its edition of 2026 B200 1745, GB200 1822, GH200
 *           828.6, MI300X 668.4; [Markidis] V100 83, V100-FP32 12. No measurement of a kind for the
 *           others: H200 has the H100's chip; for RTX 3090 and 4090 the H100's 80 % of the peak is
 *           assumed; CPU as in the platform laptop
 *           A100-PCIe [MAMF] 252.9; B300 [MAMF] 1769; GB300: none measured, GB200's times the 1.18 by which
 *           its published runs of Megatron are faster (KERNELS: set by hand). H100-HBM2e: H100's at
 *           the 500 W of 700 W that its clock is held at, to the power 0.62, which was fitted on the
 *           33 runs of torchtitan on such parts; the nominal peak stays. MI100, MI210, MI250 (a die
 *           of two, which is a device of its own), L4, T4: fp32 measured by the kernels of NeuSight,
 *           34, 34, 34, 12.4, 6.4; 80 % of the 16-bit peak is assumed
 *   memory  data sheets; V100, A100, H100, GH200 and RTX in GiB, the others in the sheet's own GB
 *   nvlink  [NCCL-bw] links x GB/s: V100 6 x 20, A100 12 x 20, H100 and H200 18 x 20.6, B200 and
 *           GB200 18 x 40.1 (nominal 150, 300, 450, 450, 900). GH200: nominal 3 x 150 GB/s to the
 *           three others of a node. MI300X: nominal 7 x 64 GB/s of Infinity Fabric to the seven
 *           others. RTX: none, PCIe counts; CPU: loopback, measured for the platform laptop
 *           H800: 8 links of the H100's 18; 160 GB/s are attained, DeepSeek-V3 (2024), section
 *           3.2.2
 *   nic     one port a GPU: DGX A100 200 Gb/s, DGX H100, H200, B200, GB200 NVL72 and MI300X servers
 *           400 Gb/s, GH200 in Alps 200 Gb/s; V100: 100 Gb/s, as DGX-2 has for each two; RTX and
 *           CPU 25 Gb/s, assumed
 *   pcie    [NCCL-bw] 12 GB/s for 3.0 x16, doubled with each generation since; GH200 and GB200: of the
 *           port, as 5.0
 *   host    GH200, GB200: data sheets, NVLink-C2C of 900 GB/s both ways together, which two GPUs of
 *           a GB200 share; the others' PCIe
 *   host memory: channels x data rate of the CPUs in the vendor's server, by its GPUs. DGX-2
 *           2 x 6 x DDR4-2666 for 16; DGX-1 2 x 4 x DDR4-2400 for 8; DGX A100 2 x 8 x DDR4-3200;
 *           DGX H100, H200 (and H800) 2 x 8 x DDR5-4800; DGX B200 2 x 8 x DDR5-5600; servers of 8
 *           MI300X 2 x 12 x DDR5-4800; Grace: 512 GB/s of LPDDR5X, for one and for two; RTX: two
 *           channels of DDR4-3200 and DDR5-5600, assumed */
enum { GIB_SHIFT = 30 };

/* Nominal FLOP/s in units of 1e12; 0: the device has no such products. */
#define PEAKS(fp32, tf32, half, fp8)                                                               \
    {                                                                                              \
        0, (fp32)*1e12, (tf32)*1e12, (half)*1e12, (half)*1e12, (fp8)*1e12                          \
    }

const struct gpu gpus[] = {
    {"V100", "V100-SXM3-32GB", PEAKS(15.7, 0, 125, 0), 83e12, INT64_C(32) << GIB_SHIFT, 900e9,
     120e9, 12.5e9, 12e9, 0, 16e9},
    {"A100", "A100-SXM4-80GB", PEAKS(19.5, 156, 312, 0), 268e12, INT64_C(80) << GIB_SHIFT, 2039e9,
     240e9, 25e9, 24e9, 0, 51.2e9},
    {"A100-40GB", "A100-SXM4-40GB", PEAKS(19.5, 156, 312, 0), 268e12, INT64_C(40) << GIB_SHIFT,
     1555e9, 240e9, 25e9, 24e9, 0, 51.2e9},
    {"A100-PCIe", "A100-PCIe-80GB", PEAKS(19.5, 156, 312, 0), 253e12, INT64_C(80) << GIB_SHIFT,
     1935e9, 24e9, 25e9, 24e9, 0, 51.2e9},
    {"H100", "H100-SXM5-80GB", PEAKS(67, 494.5, 989, 1979), 792e12, INT64_C(80) << GIB_SHIFT,
     3350e9, 370.8e9, 50e9, 48e9, 0, 76.8e9},
    {"H100-HBM2e", "H100-SXM5-96GB-HBM2e", PEAKS(67, 494.5, 989, 1979), 643e12,
     INT64_C(95) << GIB_SHIFT, 2400e9, 370.8e9, 50e9, 48e9, 0, 76.8e9},
    {"H800", "H800-SXM5-80GB", PEAKS(67, 494.5, 989, 1979), 792e12, INT64_C(80) << GIB_SHIFT,
     3350e9, 160e9, 50e9, 48e9, 0, 76.8e9},
    {"H200", "H200-SXM5-141GB", PEAKS(67, 494.5, 989, 1979), 792e12, INT64_C(141000000000), 4800e9,
     370.8e9, 50e9, 48e9, 0, 76.8e9},
    {"B200", "B200-SXM6-180GB", PEAKS(75, 1125, 2250, 4500), 1745e12, INT64_C(180000000000), 7700e9,
     721.8e9, 50e9, 48e9, 0, 89.6e9},
    {"GB200", "GB200-186GB", PEAKS(80, 1250, 2500, 5000), 1822e12, INT64_C(186000000000), 8000e9,
     721.8e9, 50e9, 48e9, 225e9, 256e9},
    {"B300", "B300-SXM6-270GB", PEAKS(75, 1125, 2250, 4500), 1769e12, INT64_C(270000000000), 8000e9,
     721.8e9, 100e9, 96e9, 0, 102.4e9},
    {"GB300", "GB300-278GB", PEAKS(80, 1250, 2500, 5000), 2150e12, INT64_C(278000000000), 8000e9,
     721.8e9, 100e9, 96e9, 225e9, 256e9},
    {"GH200", "GH200-96GB", PEAKS(67, 494.5, 989, 1979), 828.6e12, INT64_C(96) << GIB_SHIFT, 4000e9,
     450e9, 25e9, 48e9, 450e9, 512e9},
    {"MI300X", "MI300X-192GB", PEAKS(163.4, 653.7, 1307, 2614), 668.4e12, INT64_C(192000000000),
     5300e9, 448e9, 50e9, 48e9, 0, 115.2e9},
    {"MI100", "MI100-32GB", PEAKS(46.1, 0, 184.6, 0), 147e12, INT64_C(32) << GIB_SHIFT, 1228.8e9,
     24e9, 25e9, 24e9, 0, 51.2e9},
    {"MI210", "MI210-64GB", PEAKS(45.3, 0, 181, 0), 145e12, INT64_C(64) << GIB_SHIFT, 1638.4e9,
     24e9, 25e9, 24e9, 0, 51.2e9},
    {"MI250", "MI250-64GB", PEAKS(45.3, 0, 181, 0), 145e12, INT64_C(64) << GIB_SHIFT, 1638.4e9,
     24e9, 25e9, 24e9, 0, 51.2e9},
    {"L4", "L4-24GB", PEAKS(30.3, 60.5, 121, 242), 97e12, INT64_C(24) << GIB_SHIFT, 300e9, 24e9,
     3.125e9, 24e9, 0, 51.2e9},
    {"T4", "T4-16GB", PEAKS(8.1, 0, 65, 0), 52e12, INT64_C(16) << GIB_SHIFT, 320e9, 12e9, 3.125e9,
     12e9, 0, 51.2e9},
    {"RTX3090", "RTX-3090-24GB", PEAKS(35.6, 35.6, 71, 0), 57e12, INT64_C(24) << GIB_SHIFT, 936e9,
     24e9, 3.125e9, 24e9, 0, 51.2e9},
    {"RTX4090", "RTX-4090-24GB", PEAKS(82.6, 82.6, 165.2, 330.3), 132e12, INT64_C(24) << GIB_SHIFT,
     1008e9, 24e9, 3.125e9, 24e9, 0, 89.6e9},
    {"V100-FP32", "V100-SXM2-16GB", PEAKS(15.7, 0, 0, 0), 12e12, INT64_C(16) << GIB_SHIFT, 900e9,
     120e9, 12.5e9, 12e9, 0, 19.2e9},
    {"CPU",
     "core",
     {[DATA_fp32] = 67e9},
     50e9,
     INT64_C(4) << GIB_SHIFT,
     12.8e9,
     4e9,
     3.125e9,
     12e9,
     0,
     12.8e9},
};
#undef PEAKS
const size_t gpus_n = sizeof gpus / sizeof *gpus;
