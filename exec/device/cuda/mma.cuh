/* mma.cuh - tensor cores: products of 16 x 16 by 16 x 8 numbers of 16 bits, which the 32 threads of
 * a warp hold between them, and how such fragments come out of shared memory. PTX ISA 8.0, "Matrix
 * fragments for mma.m16n8k16" and "ldmatrix"; sm_80 and later. Everything here is called by whole
 * warps.
 *
 * Of a product a b, thread g 4 + t of a warp holds (rows and columns counted from 0)
 *     a[4]  rows g, g + 8, g, g + 8 of columns 2 t, 2 t, 2 t + 8, 2 t + 8 and the next each
 *     b[2]  column g of rows 2 t, 2 t + 8 and the next each
 *     d[4]  row g, columns 2 t and 2 t + 1; row g + 8, the same columns */
#ifndef EXEC_DEVICE_CUDA_MMA_CUH
#define EXEC_DEVICE_CUDA_MMA_CUH

#include "exec/device/cuda/launch.cuh"

#include <stdint.h>

#ifndef HOST_MMA /* else a test's */
/* d += a b of numbers T, sums in fp32 */
template <typename T>
static __device__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
#if __CUDA_ARCH__ >= 800
#define MMA(type)                                                                                  \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, "  \
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                   \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
    if constexpr (std::is_same<T, __half>::value)
        MMA("f16");
    else
        MMA("bf16");
#undef MMA
#endif
}

/* Four matrices of 8 x 8: thread i says where row i % 8 of matrix i / 8 is, in shared memory, 16
 * bytes; it gets of each matrix the numbers 2 t and 2 t + 1 of row g, */
static __device__ void load_matrices(uint32_t (&r)[4], const void *row)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
#endif
}

/* or of column g. */
static __device__ void load_turned(uint32_t (&r)[4], const void *row)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
#endif
}

/* Begin to copy 16 bytes to shared memory, or zeros; what has been begun since the last
 * copies_close() is a group; wait until at most `most` groups are under way. */
static __device__ void copy_begin(void *to, const void *from, bool is_there)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(is_there ? 16 : 0)
                 : "memory");
#endif
}
static __device__ void copies_close()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int most> static __device__ void copies_wait()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(most) : "memory");
#endif
}

/* Two numbers T, to the nearest, the first one in the lower half. */
template <typename T> static __device__ uint32_t packed(float low, float high)
{
    if constexpr (std::is_same<T, __half>::value) {
        const __half2 both = __floats2half2_rn(low, high);
        return *(const uint32_t *)&both;
    } else {
        const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
        return *(const uint32_t *)&both;
    }
}
#endif

#endif
