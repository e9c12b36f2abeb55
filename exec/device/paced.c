/* The paced device: real messages, no numerics; compute takes the time that the program predicts.
 * For ops whose arithmetic is unknown, and for more ranks than cores. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "exec/device.h"

struct paced {
    size_t room;
    float *gradient; /* [room] zeros, for whatever is summed */
};

static void paced_close(void *self)
{
    struct paced *s = self;
    if (!s)
        return;
    free(s->gradient);
    free(s);
}

/* Room for the largest sum of the rank. */
static enum status read_program(struct paced *s, const struct program *p, uint32_t rank)
{
    for (size_t i = p->op_start[rank]; i < p->op_start[rank + 1]; i++) {
        const struct program_op *o = &p->op[i];
        if (o->bytes < 0)
            return error_set(STATUS_INVALID, "rank %u: op %zu has a negative size", rank, i);
        size_t floats = (size_t)o->bytes / sizeof(float);
        if (op_is_collective(o) && floats > s->room)
            s->room = floats;
    }
    return STATUS_OK;
}

static enum status paced_open(const struct model *m, const struct program *p, uint32_t rank,
                              const struct device_options *o, void **self)
{
    (void)m, (void)o;
    enum status st;
    struct paced *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(STATUS_NOMEM, "rank %u: out of memory", rank);
    TRY(read_program(s, p, rank));
    s->gradient = calloc(s->room + 1, sizeof *s->gradient);
    if (!s->gradient) {
        st = error_set(STATUS_NOMEM, "rank %u: no memory for %zu gradients", rank, s->room);
        goto out;
    }
    prctl(PR_SET_TIMERSLACK, 1000UL); /* ns instead of 50 us; a refusal only costs precision */
    *self = s;
    s = NULL;
out:
    paced_close(s);
    return st;
}

/* Sleep from now on for so many seconds. */
static enum status pace(double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    if (!(seconds > 0))
        return STATUS_OK;
    double whole = floor(seconds);
    if (whole > 1e9)
        return error_set(STATUS_INVALID, "an op of %g s", seconds);
    until.tv_sec += (time_t)whole;
    until.tv_nsec += (long)((seconds - whole) * 1e9);
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
    return STATUS_OK;
}

static enum status compute(void *self, uint32_t step, const struct program_op *op,
                           const struct layer_reduction *reduction)
{
    (void)self, (void)step, (void)reduction;
    return pace(op->seconds);
}

/* Bytes that name the microbatch: enough to tell messages apart. */
static enum status get(void *self, const struct program_op *send, void *data)
{
    (void)self;
    memset(data, (int)(send->microbatch & 0x7f) | (send->backward ? 0x80 : 0), (size_t)send->bytes);
    return STATUS_OK;
}

static enum status put(void *self, const struct program_op *recv, const void *data)
{
    (void)self, (void)recv, (void)data;
    return STATUS_OK;
}

static enum status array(void *self, const struct program_op *op, uint32_t k, float **data,
                         size_t *n)
{
    const struct paced *s = self;
    *data = k < op->count ? s->gradient : NULL;
    *n = (size_t)op->bytes / sizeof **data;
    return STATUS_OK;
}

static double take_loss(void *self)
{
    (void)self;
    return 0;
}

static enum status digest(void *self, uint32_t op, uint8_t out[DIGEST])
{
    (void)self, (void)op;
    memset(out, 0, DIGEST);
    return STATUS_OK;
}

static int64_t peak_bytes(void *self)
{
    const struct paced *s = self;
    return (int64_t)(s->room * sizeof *s->gradient);
}

const struct device device_paced = {
    .name = "paced",
    .computes = NULL,
    .open = paced_open,
    .close = paced_close,
    .compute = compute,
    .get = get,
    .put = put,
    .array = array,
    .take_loss = take_loss,
    .digest = digest,
    .peak_bytes = peak_bytes,
};
