/* The GPUs of generated platforms, a row each, with the source of every number. */
#include "topologies/catalogue.h"

#include <math.h>
#include <string.h>

#include "core/strategy/constants.h"

/* Sources, by column ([...] as in docs/reference/platforms.md):
 *   peak    data sheets: matrix products with 32-bit sums, without sparsity: fp32, tf32, 16 bits,
 *           fp8. HGX B200 and GB200 NVL72: the sheet's system figures by GPU, half of those with
 *           sparsity; HGX B300 and GB300 NVL72 likewise. 16 bits of V100 and MI100 are fp16 (MI100:
 *           half of it in bf16); fp32 of MI: its matrix cores'. MI250: one of its two dies, which
 *           is what frameworks see as a device
 *   flops   [MAMF] A100 267.9, H100 (and H800) 792.1, and in its edition of 2026 B200 1745, GB200
 *           1822, GH200 828.6, MI300X 668.4, MI325X 784.9, MI355X 1565; [Markidis] V100 83,
 *           V100-FP32 12. No measurement of a kind for the others: H200 has the H100's chip; for
 *           RTX 3090 and 4090 the H100's 80 % of the peak is assumed, as for H100-PCIE, A40, A30,
 *           A10, L40S, L4, T4 and other MI; [MAMF] A100-PCIE 252.9, B300 1769; GB300: GB200's 1822
 *           and 14 % more, set from published training runs (Megatron Bridge), not by a product;
 *           P100 and P4 V100's 0.89 of fp32; H100-HBM2E is an H100 at 500 W instead of 700: (500 /
 *           700)^0.59 = 0.82 of its speed (docs/reference/kernels.md). CPU as in the platform
 *           laptop RTX-PRO-6000 and B60: the best product in NVIDIA's AIConfigurator 0.12
 *           (docs/reference/kernels.md); likewise their fp8 and fp4
 *   units   multiprocessors (AMD: compute units, Intel: Xe cores) that drivers report
 *   memory  data sheets; V100, A100, H100, GH200 and RTX in GiB, the others in the sheet's own GB
 *   nvlink  [NCCL-bw] links x GB/s: V100 6 x 20, A100 12 x 20, H100 and H200 18 x 20.6, B200 and
 *           GB200 18 x 40.1 (nominal 150, 300, 450, 450, 900). GH200: nominal 3 x 150 GB/s to the
 *           three others of a node. MI300X: nominal 7 x 64 GB/s of Infinity Fabric to the seven
 *           others, MI325X the same, MI355X 7 x 76.8. RTX, A10, A30 and L40S: none, PCIe counts;
 *           CPU: loopback, measured for the platform laptop H800: 8 links of the H100's 18; 160
 *           GB/s are attained, DeepSeek-V3 (2024), section 3.2.2
 *   nic     one port a GPU: DGX A100 200 Gb/s, DGX H100, H200, B200, GB200 NVL72 and MI300X servers
 *           400 Gb/s, GH200 in Alps 200 Gb/s; V100: 100 Gb/s, as DGX-2 has for each two; RTX and
 *           CPU 25 Gb/s, assumed
 *   pcie    [NCCL-bw] 12 GB/s for 3.0 x16, doubled with each generation since; GH200 and GB200: of
 *           the port, as 5.0
 *   host    GH200, GB200: data sheets, NVLink-C2C of 900 GB/s both ways together, which two GPUs of
 *           a GB200 share; the others' PCIe
 *   host memory: channels x data rate of the CPUs in the vendor's server, by its GPUs. DGX-2
 *           2 x 6 x DDR4-2666 for 16; DGX-1 2 x 4 x DDR4-2400 for 8; DGX A100 2 x 8 x DDR4-3200;
 *           DGX H100, H200 (and H800) 2 x 8 x DDR5-4800; DGX B200 2 x 8 x DDR5-5600; servers of 8
 *           MI300X 2 x 12 x DDR5-4800; Grace: 512 GB/s of LPDDR5X, for one and for two; RTX: two
 *           channels of DDR4-3200 and DDR5-5600, assumed; the rows behind V100-FP32 as their kin
 *   kernels [MAMF] in fp8; fp4 assumed, about 0.7 of the peak; fp32: the fastest products of the
 *   measured sets of kernels that NeuSight
 *           (ASPLOS 2025) published, MI set by hand; flash as docs/reference/kernels.md says for
 *           Blackwell */
enum { GIB_SHIFT = 30 };

/* Nominal FLOP/s in units of 1e12; 0: the device has no such products. */
#define PEAKS(fp32, tf32, half, fp8)                                                               \
    {                                                                                              \
        0, (fp32)*1e12, (tf32)*1e12, (half)*1e12, (half)*1e12, (fp8)*1e12                          \
    }

/* Ada's tensor cores do attention as Ampere's do (assumed). */
#define ADA "flash1=0.49 flash2=0.79 flash3=0.79"

/* With fp4, of Blackwell, dense. */
#define PEAKS4(fp32, tf32, half, fp8, fp4)                                                         \
    {                                                                                              \
        0, (fp32)*1e12, (tf32)*1e12, (half)*1e12, (half)*1e12, (fp8)*1e12, (fp4)*1e12              \
    }

const struct gpu gpus[] = {
    {"V100", "V100-SXM3-32GB", PEAKS(15.7, 0, 125, 0), 83e12, INT64_C(32) << GIB_SHIFT, 900e9,
     120e9, 12.5e9, 12e9, 0, 16e9, "fp32=14Tf", 80},
    {"A100", "A100-SXM4-80GB", PEAKS(19.5, 156, 312, 0), 268e12, INT64_C(80) << GIB_SHIFT, 2039e9,
     240e9, 25e9, 24e9, 0, 51.2e9,
     "bf16=271Tf fp32=18.8Tf rows=38.2 depth=173 wave=0.502 pace=0.25ns units=108", 108},
    {"H100", "H100-SXM5-80GB", PEAKS(67, 494.5, 989, 1979), 792e12, INT64_C(80) << GIB_SHIFT,
     3350e9, 370.8e9, 50e9, 48e9, 0, 76.8e9,
     "bf16=794Tf fp8=1402Tf fp32=54Tf rows=0.84 depth=121 wave=0.254 pace=0.43ns units=132", 132},
    {"H800", "H800-SXM5-80GB", PEAKS(67, 494.5, 989, 1979), 792e12, INT64_C(80) << GIB_SHIFT,
     3350e9, 160e9, 50e9, 48e9, 0, 76.8e9,
     "bf16=794Tf fp8=1402Tf fp32=54Tf rows=0.84 depth=121 wave=0.254 pace=0.43ns units=132", 132},
    {"H200", "H200-SXM5-141GB", PEAKS(67, 494.5, 989, 1979), 792e12, INT64_C(141000000000), 4800e9,
     370.8e9, 50e9, 48e9, 0, 76.8e9,
     "bf16=794Tf fp8=1453Tf fp32=54Tf rows=0.52 depth=138 wave=0.225 pace=0.31ns units=132", 132},
    {"B200", "B200-SXM6-180GB", PEAKS4(75, 1125, 2250, 4500, 9000), 1745e12, INT64_C(180000000000),
     7700e9, 721.8e9, 50e9, 48e9, 0, 89.6e9,
     "bf16=1745Tf fp8=3432Tf fp4=6500Tf rows=1.66 depth=63.5 wave=0.374 pace=0.56ns units=148",
     148},
    {"GB200", "GB200-186GB", PEAKS4(80, 1250, 2500, 5000, 10000), 1822e12, INT64_C(186000000000),
     8000e9, 721.8e9, 50e9, 48e9, 225e9, 256e9,
     "bf16=1822Tf fp8=3615Tf fp4=6900Tf rows=1.24 depth=33.4 wave=0.302 pace=0.63ns units=152",
     152},
    {"GH200", "GH200-96GB", PEAKS(67, 494.5, 989, 1979), 828.6e12, INT64_C(96) << GIB_SHIFT, 4000e9,
     450e9, 25e9, 48e9, 450e9, 512e9,
     "bf16=828.6Tf fp8=1402Tf fp32=54Tf rows=0.52 depth=138 wave=0.225 pace=0.31ns units=132", 132},
    {"MI300X", "MI300X-192GB", PEAKS(163.4, 653.7, 1307, 2614), 668.4e12, INT64_C(192000000000),
     5300e9, 448e9, 50e9, 48e9, 0, 115.2e9, NULL, 304},
    {"RTX3090", "RTX-3090-24GB", PEAKS(35.6, 35.6, 71, 0), 57e12, INT64_C(24) << GIB_SHIFT, 936e9,
     24e9, 3.125e9, 24e9, 0, 51.2e9, NULL, 82},
    {"RTX4090", "RTX-4090-24GB", PEAKS(82.6, 82.6, 165.2, 330.3), 132e12, INT64_C(24) << GIB_SHIFT,
     1008e9, 24e9, 3.125e9, 24e9, 0, 89.6e9, ADA, 128},
    {"V100-FP32", "V100-SXM2-16GB", PEAKS(15.7, 0, 0, 0), 12e12, INT64_C(16) << GIB_SHIFT, 900e9,
     120e9, 12.5e9, 12e9, 0, 19.2e9, "fp32=14Tf", 80},
    {"A100-40", "A100-SXM4-40GB", PEAKS(19.5, 156, 312, 0), 268e12, INT64_C(40) << GIB_SHIFT,
     1555e9, 240e9, 25e9, 24e9, 0, 51.2e9,
     "bf16=271Tf fp32=18.8Tf rows=38.2 depth=173 wave=0.502 pace=0.25ns units=108", 108},
    {"A100-PCIE", "A100-PCIE-80GB", PEAKS(19.5, 156, 312, 0), 252.9e12, INT64_C(80) << GIB_SHIFT,
     1935e9, 24e9, 25e9, 24e9, 0, 51.2e9,
     "bf16=252.9Tf fp32=18.8Tf rows=38.2 depth=173 wave=0.502 pace=0.25ns units=108", 108},
    {"H100-HBM2E", "H100-SXM5-96GB-500W", PEAKS(67, 494.5, 989, 1979), 649e12,
     INT64_C(96) << GIB_SHIFT, 2400e9, 370.8e9, 50e9, 48e9, 0, 76.8e9,
     "bf16=651Tf fp8=1150Tf fp32=44.3Tf flash1=0.188 flash2=0.303 flash3=0.394 rows=0.84 depth=121 "
     "wave=0.254 pace=0.43ns units=132",
     132},
    {"H100-PCIE", "H100-PCIE-80GB", PEAKS(51, 378, 756, 1513), 605e12, INT64_C(80) << GIB_SHIFT,
     2000e9, 48e9, 50e9, 48e9, 0, 76.8e9, NULL, 114},
    {"B300", "B300-SXM6-270GB", PEAKS4(75, 1125, 2250, 4500, 13500), 1769e12, INT64_C(270000000000),
     7700e9, 721.8e9, 100e9, 48e9, 0, 89.6e9,
     "bf16=1769Tf fp8=3432Tf fp4=9000Tf rows=1.03 depth=35.7 wave=0.223 pace=0.6ns units=148", 148},
    {"GB300", "GB300-279GB", PEAKS4(80, 1250, 2500, 5000, 15000), 2041e12, INT64_C(279000000000),
     8000e9, 721.8e9, 100e9, 48e9, 225e9, 256e9,
     "bf16=2041Tf fp8=4049Tf fp4=9302Tf rows=17.5 depth=62.3 wave=0.064 pace=0.59ns units=152",
     152},
    {"L4", "L4-24GB", PEAKS(30.3, 60.5, 121, 242.5), 97e12, INT64_C(24) << GIB_SHIFT, 300e9, 24e9,
     3.125e9, 24e9, 0, 51.2e9, "fp32=12.4Tf " ADA, 58},
    {"T4", "T4-16GB", PEAKS(8.1, 0, 65, 0), 52e12, INT64_C(16) << GIB_SHIFT, 320e9, 12e9, 3.125e9,
     12e9, 0, 19.2e9, "fp32=6.4Tf", 40},
    {"P100", "P100-SXM2-16GB", PEAKS(10.6, 0, 0, 0), 9.5e12, INT64_C(16) << GIB_SHIFT, 732e9, 80e9,
     12.5e9, 12e9, 0, 19.2e9, NULL, 56},
    {"P4", "P4-8GB", PEAKS(5.5, 0, 0, 0), 4.9e12, INT64_C(8) << GIB_SHIFT, 192e9, 12e9, 3.125e9,
     12e9, 0, 19.2e9, NULL, 20},
    {"A40", "A40-48GB", PEAKS(37.4, 74.8, 149.7, 0), 120e12, INT64_C(48) << GIB_SHIFT, 696e9, 24e9,
     25e9, 24e9, 0, 51.2e9, NULL, 84},
    {"MI100", "MI100-32GB", PEAKS(46.1, 0, 184.6, 0), 148e12, INT64_C(32) << GIB_SHIFT, 1228.8e9,
     24e9, 25e9, 24e9, 0, 51.2e9, "fp32=34Tf", 120},
    {"MI210", "MI210-64GB", PEAKS(45.3, 0, 181, 0), 145e12, INT64_C(64) << GIB_SHIFT, 1638.4e9,
     24e9, 25e9, 24e9, 0, 51.2e9, "fp32=34Tf", 104},
    {"MI250", "MI250-64GB", PEAKS(45.3, 0, 181, 0), 145e12, INT64_C(64) << GIB_SHIFT, 1638.4e9,
     50e9, 25e9, 24e9, 0, 51.2e9, "fp32=34Tf", 104},
    {"MI325X", "MI325X-256GB", PEAKS(163.4, 653.7, 1307, 2614), 784.9e12, INT64_C(256000000000),
     6000e9, 448e9, 50e9, 48e9, 0, 115.2e9, NULL, 304},
    {"MI355X", "MI355X-288GB", PEAKS4(157.3, 0, 2500, 5000, 10100), 1565e12, INT64_C(288000000000),
     8000e9, 537.6e9, 50e9, 48e9, 0, 115.2e9, NULL, 256},
    {"L40S", "L40S-48GB", PEAKS(91.6, 183, 362, 733), 290e12, INT64_C(48) << GIB_SHIFT, 864e9, 24e9,
     25e9, 24e9, 0, 76.8e9, ADA, 142},
    {"A30", "A30-24GB", PEAKS(10.3, 82, 165, 0), 132e12, INT64_C(24) << GIB_SHIFT, 933e9, 24e9,
     25e9, 24e9, 0, 51.2e9, NULL, 56},
    {"A10", "A10-24GB", PEAKS(31.2, 62.5, 125, 0), 100e12, INT64_C(24) << GIB_SHIFT, 600e9, 24e9,
     25e9, 24e9, 0, 51.2e9, NULL, 72},
    {"RTX-PRO-6000", "RTX-PRO-6000-96GB", PEAKS4(117, 233.9, 467.8, 935.6, 1871), 436e12,
     INT64_C(96) << GIB_SHIFT, 1792e9, 48e9, 50e9, 48e9, 0, 89.6e9, "fp8=787Tf fp4=1438Tf", 188},
    {"B60", "Arc-Pro-B60-24GB", PEAKS(12.3, 49.2, 98.3, 0), 97e12, INT64_C(24) << GIB_SHIFT, 456e9,
     24e9, 3.125e9, 24e9, 0, 89.6e9, NULL, 20},
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
     12.8e9,
     NULL,
     0},
};
#undef ADA
#undef PEAKS4
#undef PEAKS
const size_t gpus_n = sizeof gpus / sizeof *gpus;

double gpu_varied(const char *type, const struct constants *c, bool *all)
{
    const struct constants shipped = constants_shipped();
    const double *new = c->value, *old = shipped.value;
    *all = strcmp(type, "H100-SXM5-96GB-500W") == 0;
    if (*all)
        return pow(500.0 / 700, new[CONSTANT_power] - old[CONSTANT_power]);
    return strcmp(type, "GB300-279GB") == 0 ? new[CONSTANT_gb300] / old[CONSTANT_gb300] : 1;
}

/* NVIDIA's GPUs before Ampere have neither TF32 nor bf16; AMD's have no TF32, but bf16. */
bool gpu_has_bf16(const struct gpu *g)
{
    return g->peak[DATA_tf32] > 0 || !strncmp(g->name, "MI", 2);
}

const struct gpu *gpu_of_type(const char *type)
{
    for (size_t k = 0; k < gpus_n; k++)
        if (!strcmp(gpus[k].type, type))
            return gpus[k].peak[DATA_fp32] > 1e12 ? &gpus[k] : NULL; /* no CPU's core */
    return NULL;
}
