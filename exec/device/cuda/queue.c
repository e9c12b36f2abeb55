#include "exec/device/cuda/queue.h"

static _Thread_local enum cuda_queueing queueing;
static _Thread_local struct cuda_prints prints;

void cuda_queue_begin(enum cuda_queueing how)
{
    queueing = how;
    prints = (struct cuda_prints){.print = 0xcbf29ce484222325};
}

struct cuda_prints cuda_queue_end(void)
{
    queueing = QUEUE_PLAIN;
    return prints;
}

static void cuda_queue_note_value(uint64_t value)
{
    prints.print = (prints.print ^ value) * 0x100000001b3;
}

bool cuda_queues(const char *name, const uint64_t *value, size_t values)
{
    if (queueing == QUEUE_PLAIN)
        return true;
    prints.launches++;
    for (; *name; name++)
        cuda_queue_note_value((uint8_t)*name);
    for (size_t k = 0; k < values; k++)
        for (int shift = 0; shift < 64; shift += 16)
            cuda_queue_note_value(value[k] >> shift & 0xffff);
    return queueing == QUEUE_NOTED;
}
