/* Ranges by NVTX, which is headers only: it loads the profiler's library when one has started this
 * process, and does nothing otherwise. */
#include "exec/ranges.h"

#include <nvtx3/nvToolsExt.h>
#include <stdatomic.h>
#include <stddef.h>

#include "core/data/program.h"

/* One for all threads; made once, before ranks begin. */
static _Atomic(nvtxDomainHandle_t) domain;

/* Colours of the trace's viewers (plots/page.h) as 0xAARRGGBB; a range's category is its kind. */
static uint32_t nvtx_colour(uint32_t kind)
{
    switch (kind) {
    case OP_FORWARD:
        return 0xff9ecae1;
    case OP_BACKWARD:
    case OP_BACKWARD_INPUT:
    case OP_BACKWARD_WEIGHT:
        return 0xfffd8d3c;
    case OP_UPDATE:
        return 0xff000000;
    case OP_KINDS: /* a step */
        return 0xffd9d9d9;
    default: /* communication */
        return 0xff31a354;
    }
}

static void nvtx_begin(const char *name, uint32_t kind)
{
    const nvtxEventAttributes_t range = {.version = NVTX_VERSION,
                                         .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                         .category = kind + 1,
                                         .colorType = NVTX_COLOR_ARGB,
                                         .color = nvtx_colour(kind),
                                         .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                         .message.ascii = name};
    nvtxDomainRangePushEx(atomic_load(&domain), &range);
}

static void nvtx_end(void)
{
    nvtxDomainRangePop(atomic_load(&domain));
}

const struct ranges *ranges_nvtx(void)
{
    static const struct ranges ranges = {nvtx_begin, nvtx_end};
    nvtxDomainHandle_t made = nvtxDomainCreateA("foreline");
    atomic_store(&domain, made);
    return made ? &ranges : NULL;
}
