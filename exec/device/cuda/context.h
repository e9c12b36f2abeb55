/* context.h - a GPU as a backend for stages: handle, arena, failures. One per rank; one thread.
 *
 * Everything is queued on CUDA_STREAM (kernels.h). Layers have no way to return a status, and a
 * kernel may fail long after its launch: the first failure is kept here with place and reason, and
 * cuda_status() hands it out after every op. */
#ifndef EXEC_DEVICE_CUDA_CONTEXT_H
#define EXEC_DEVICE_CUDA_CONTEXT_H

#include <assert.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <stdint.h>

#include "exec/device/backend.h"
#include "exec/device/cpu/gemm.h"
#include "exec/device/cuda/kernels.h"
#include "exec/ring.h"

enum { CUDA_REASON = 512 };
/* Of cuBLAS, in bytes: what NVIDIA recommends for its largest GPUs; a fixed one keeps results the
 * same from run to run. */
enum { CUDA_WORKSPACE = 32 << 20 };

struct cuda_cudnn;
struct cuda_fused;

/* Memory of one stage: given out from the front, given back all at once. */
struct cuda_arena {
    char *data;
    size_t bytes, used;
};

struct cuda_context {
    int gpu;
    bool tensor_cores; /* for 16 bits: sm_80 and later */
    cublasHandle_t blas;
    enum kernel_type products; /* how `blas` is set */
    struct cublasLtContext *lt;
    size_t fusions;
    struct cuda_fused *fused; /* [fusions] questions to cuBLASLt, and its answers */
    struct cuda_cudnn *cudnn; /* attention_cudnn.h; NULL: nobody has asked for it */
    void *workspace;          /* cuBLAS's own would make results depend on other streams */
    double *loss;             /* device memory: one sum */
    double *norm;      /* [CLIP_PARTS + 1] of gradients: parts, and what these are clipped by */
    unsigned *tickets; /* [TICKETS] */
    /* of struct device_options */
    struct ring_part (*part)(size_t n, size_t members, size_t me);
    size_t arenas;
    struct cuda_arena *arena; /* [arenas] */
    int64_t bytes;            /* of device memory, so far */
    size_t free_bytes;        /* of the GPU when it was opened; 0: others may use it as well */
    enum status failure;
    char reason[CUDA_REASON];
};

/* What member `me` owns of n numbers that are scattered or gathered. */
static inline struct ring_part cuda_part(const struct cuda_context *c, size_t n, size_t members,
                                         size_t me)
{
    return c->part ? c->part(n, members, me) : ring_own(n, members, me);
}

/* Which GPU a rank takes: that of its place on its machine (rendezvous_local_rank()) or, started by
 * `foreline run` without that, its own number. STATUS_USAGE. */
enum status cuda_gpu_of(uint32_t rank, uint32_t *gpu) MUST_CHECK;
/* Use GPU number `gpu` modulo those there are. STATUS_UNSUPPORTED: there is none, and why;
 * STATUS_EXTERNAL. */
enum status cuda_context_open(uint32_t gpu, struct cuda_context *out) MUST_CHECK;
void cuda_context_close(struct cuda_context *c); /* accepts {0}; leaves {0} */

/* The first failure so far. */
enum status cuda_status(const struct cuda_context *c) MUST_CHECK;
/* What the process has of the GPU's memory besides CUDA's own context: of this context, of cuBLAS,
 * of kernels, of transports and NCCL. Where ranks share a GPU: of this context alone. */
int64_t cuda_held_bytes(const struct cuda_context *c);
/* Wait until everything queued has happened; then cuda_status(). */
enum status cuda_finish(struct cuda_context *c) MUST_CHECK;
/* Keep a failure, with its message, unless there is one. */
void cuda_keep(struct cuda_context *c, enum status st);
/* The same of a call; `what` was being computed. */
void cuda_note(struct cuda_context *c, cudaError_t error, const char *what, const char *file,
               int line);
void cublas_note(struct cuda_context *c, cublasStatus_t error, const char *what, const char *file,
                 int line);
#define CUDA_NOTE(c, what, call)   cuda_note((c), (call), (what), __FILE__, __LINE__)
#define CUBLAS_NOTE(c, what, call) cublas_note((c), (call), (what), __FILE__, __LINE__)
/* For functions with a status: the call's failure with its place. */
enum status cuda_error(cudaError_t error, const char *what, const char *file, int line) MUST_CHECK;
#define CUDA_ERROR(what, call) cuda_error((call), (what), __FILE__, __LINE__)

/* exec/device/cpu/gemm.h on device memory. Operands of what type, and the result; sums are always
 * fp32. */
struct cuda_gemm {
    struct gemm g; /* a, b, c: of the types said here, whatever C says */
    enum kernel_type in, out;
};
void cuda_gemm(struct cuda_context *c, const char *what, const struct cuda_gemm *g);
/* So many, as exec/device/sharded/arithmetic.h says, in one launch. */
struct product_steps;
void cuda_gemms(struct cuda_context *c, const char *what, const struct cuda_gemm *g,
                const struct product_steps *s);

/* What becomes of the results c of a product before they are stored (epilogues.c). */
enum cuda_epilogue {
    EPILOGUE_BIAS,         /* c + bias */
    EPILOGUE_GELU,         /* gelu(c + bias), and c + bias goes to `gelu` */
    EPILOGUE_GELU_BACKWARD /* c times the slope at `gelu` */
};
struct cuda_after {
    enum cuda_epilogue what;
    const void *bias; /* [columns of c] as c */
    void *gelu;       /* as c, with its stride */
};
/* All in the same 16 bits; false: it is not, or cuBLASLt refuses, and nothing has been done. */
bool cuda_gemm_after(struct cuda_context *c, const char *what, const struct cuda_gemm *g,
                     const struct cuda_after *after);
void cuda_epilogues_close(struct cuda_context *c);
/* cuda_queues() of a product; after NULL: nothing becomes of its results. */
bool cuda_queues_gemm(const char *what, const struct cuda_gemm *g, const struct cuda_after *after);

/* What kernels call numbers, */
static inline enum kernel_type cuda_numbers(enum element e)
{
    static_assert((int)KERNEL_BF16 == ELEMENT_BF16 && (int)KERNEL_FP16 == ELEMENT_FP16,
                  "one order");
    return (enum kernel_type)e;
}
/* those of a layer's activations, */
static inline enum kernel_type cuda_type(const struct layer *l)
{
    return cuda_numbers(l->half);
}
/* and what cuBLAS calls them. */
static inline cudaDataType cublas_numbers(enum kernel_type t)
{
    return t == KERNEL_BF16 ? CUDA_R_16BF : t == KERNEL_FP16 ? CUDA_R_16F : CUDA_R_32F;
}

/* self: struct cuda_context */
extern const struct backend backend_cuda;
/* What operators of strategies are made of (exec/device/sharded/arithmetic.h). */
struct arithmetic;
extern const struct arithmetic arithmetic_cuda;
/* The kinds of exec/device/cpu/kinds.c on this backend; see struct backend. */
enum status cuda_adapt(const struct model_op *op, struct layer *l) MUST_CHECK;
bool cuda_has(enum operator_type type); /* is there one of that type? */

#endif
