/* The paced device: real messages, no numerics; compute takes the time that the program predicts.
 * For ops whose arithmetic is unknown, and for more ranks than cores. */
#include "exec/device/paced.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "exec/rounds.h"

struct paced_device {
    const struct program *program;
    size_t room;
    float *gradient; /* [room] zeros, for whatever is reduced */
};

static const double most_s = 1e9; /* of one op: longer is a mistake */

enum status paced_room(const struct program *p, uint32_t rank, size_t *room)
{
    *room = 0;
    for (size_t i = p->op_start[rank]; i < p->op_start[rank + 1]; i++) {
        const struct program_op *o = &p->op[i];
        if (o->bytes < 0 || !(o->seconds <= most_s))
            return error_set(STATUS_INVALID,
                             "rank %u: op %zu takes %g s and has %lld bytes, expected at most %g s "
                             "and at least 0 bytes",
                             rank, i, o->seconds, (long long)o->bytes, most_s);
        size_t floats = op_is_collective(o) ? rounds_numbers(o, ELEMENT_FP32) : 0;
        *room = floats > *room ? floats : *room;
    }
    return STATUS_OK;
}

enum element paced_element(const struct program *p, const struct program_op *op)
{
    bool gradients = op->purpose == FOR_DATA || op->purpose == FOR_TIES;
    uint32_t bytes = gradients ? p->reduce_bytes : p->number_bytes;
    return bytes == 2 ? ELEMENT_BF16 : ELEMENT_FP32;
}

enum status paced_put(void *self, const struct program_op *recv, const void *data)
{
    (void)self, (void)recv, (void)data;
    return STATUS_OK;
}

double paced_take_loss(void *self)
{
    (void)self;
    return 0;
}

enum status paced_digest(void *self, uint32_t op, uint8_t out[DIGEST])
{
    (void)self, (void)op;
    memset(out, 0, DIGEST);
    return STATUS_OK;
}

static void paced_close(void *self)
{
    struct paced_device *s = self;
    if (s)
        free(s->gradient);
    free(s);
}

static enum status paced_open(const struct model *m, const struct program *p, uint32_t rank,
                              const struct device_options *o, void **self)
{
    (void)m, (void)o;
    enum status st;
    struct paced_device *s;
    TRY(ARRAY_NEW(s, 1));
    s->program = p;
    TRY(paced_room(p, rank, &s->room));
    TRY(ARRAY_NEW(s->gradient, s->room));
    prctl(PR_SET_TIMERSLACK, 1000UL); /* ns instead of 50 us; a refusal only costs precision */
    MOVE(self, s);
out:
    paced_close(s);
    return st;
}

static enum status paced_compute(void *self, uint32_t step, const struct program_op *op,
                                 const struct layer_reduction *reduction)
{
    (void)self, (void)step, (void)reduction;
    if (op->seconds > most_s)
        return error_set(STATUS_INVALID, "predicted op time is %g s, expected at most %g s",
                         op->seconds, most_s);
    if (op->seconds > 0)
        clock_sleep_until(clock_now() + op->seconds);
    return STATUS_OK;
}

static enum status paced_get(void *self, const struct program_op *send, void *data)
{
    (void)self;
    memset(data, paced_byte(send), (size_t)send->bytes);
    return STATUS_OK;
}

static enum status paced_array(void *self, const struct program_op *op, uint32_t k, enum element *e,
                               void **data, size_t *n)
{
    const struct paced_device *s = self;
    *data = k < op->count ? s->gradient : NULL;
    *e = paced_element(s->program, op);
    *n = rounds_numbers(op, *e);
    return STATUS_OK;
}

static int64_t paced_peak_bytes(void *self)
{
    const struct paced_device *s = self;
    return (int64_t)(s->room * sizeof *s->gradient);
}

const struct device device_paced = {
    .name = "paced",
    .computes = NULL,
    .open = paced_open,
    .close = paced_close,
    .compute = paced_compute,
    .get = paced_get,
    .put = paced_put,
    .array = paced_array,
    .take_loss = paced_take_loss,
    .digest = paced_digest,
    .peak_bytes = paced_peak_bytes,
};
