/* The CUDA device's stages as far as they go without it: places for all tensors, and no memory. */
#include "exec/device/gpu.h"

#include "exec/device/backend.h"
#include "exec/device/cpu/stage.h"
#include "exec/device/gpu_limits.h"

enum status gpu_fits(const struct model_op *op, const struct layer *l)
{
    const char *name = op->name ? op->name : "";
    size_t most = l->half == ELEMENT_BF16 ? MIXTURE_EXPERTS_BF16 : MIXTURE_EXPERTS_FP16;
    if (l->half && l->context > 1)
        return error_set(STATUS_UNSUPPORTED,
                         "op '%s': sequences that replicas share are exchanged in fp32: plan the "
                         "model with dtype=fp32",
                         name);
    if (!l->half || (l->spread == 1 && l->experts <= most))
        return STATUS_OK;
    return error_set(
        STATUS_UNSUPPORTED,
        "op '%s': the GPU has no kernels for a '%s' of this form yet; the CPU computes it", name,
        op->kind);
}

static enum status adapt(const struct model_op *op, struct layer *l)
{
    return gpu_fits(op, l);
}

enum status gpu_check(const struct model *m, const struct program *p, uint32_t rank)
{
    struct backend places = backend_cpu;
    places.adapt = adapt;
    return cpu_check_on(&places, m, p, rank);
}
