/* The CUDA device's stages as far as they go without it: places for all tensors, and no memory. */
#include "exec/device/gpu.h"

#include "exec/device/backend.h"
#include "exec/device/cpu/half.h"
#include "exec/device/cpu/stage.h"
#include "exec/device/gpu_limits.h"

enum status gpu_fits(const struct model_op *op, const struct layer *l)
{
    return half_fits(op, l, MIXTURE_EXPERTS_BF16, MIXTURE_EXPERTS_FP16);
}

static enum status adapt(const struct model_op *op, struct layer *l)
{
    return gpu_fits(op, l);
}

enum status gpu_check(const struct model *m, const struct program *p, uint32_t rank)
{
    struct backend places = backend_cpu;
    places.remote = true;
    places.adapt = adapt;
    return cpu_check_on(&places, m, p, rank);
}
