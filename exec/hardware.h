/* hardware.h - what a rank computes on, as its worker says when it joins: which GPU, and the
 * versions of what drives it, or the library of the CPU. Plain data of fixed size, for it travels
 * in struct frame_hello; every text ends in NUL, "" is not known. */
#ifndef EXEC_HARDWARE_H
#define EXEC_HARDWARE_H

#include <stdint.h>

enum {
    HARDWARE_VERSION = 24,
    HARDWARE_BUS = 24,
    HARDWARE_ID = 48,
    HARDWARE_NAME = 96,
    HARDWARE_BLAS = 96,
    HARDWARE_PEERS = 256,
    HARDWARE_SETTINGS = 1024
};

struct hardware {
    int64_t memory_bytes; /* of the GPU */
    uint32_t index, gpus; /* as CUDA counts those of the machine; gpus 0: it has none to speak of */
    uint32_t shared;      /* not 0: other ranks may have the same GPU (FORELINE_SHARE_GPU) */
    char name[HARDWARE_NAME];
    char uuid[HARDWARE_ID]; /* "GPU-8f1c...": one in the world */
    char bus[HARDWARE_BUS]; /* PCI, "0000:19:00.0" */
    /* How it reaches GPU 0, 1, ... of the machine, a word each: "self", "atomic" (peer access with
     * atomic operations, as over NVLink), "peer" (without, as over PCIe), "host" (through its
     * memory). */
    char peers[HARDWARE_PEERS];
    char driver[HARDWARE_VERSION];      /* the kernel's module, "580.82.07" */
    char cuda_driver[HARDWARE_VERSION]; /* newest CUDA that it can run, "13.0" */
    char cuda[HARDWARE_VERSION], cublas[HARDWARE_VERSION], nccl[HARDWARE_VERSION];
    char blas[HARDWARE_BLAS];     /* of a CPU: what multiplies, and for which processor; GPUs: "" */
    double gemm_flops, fma_flops; /* of a CPU: cpu_measure_speed() (exec/device/cpu/gemm.h) */
    char settings[HARDWARE_SETTINGS]; /* "NCCL_ALGO=Ring NCCL_PROTO=Simple" */
};

#endif
