#include "tests/fake_device.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec/hardware.h"

enum { MICROBATCHES = 64 };

struct fake {
    const struct program *p;
    uint32_t rank, step, stages;
    uint32_t calls;
    bool reduces;
    size_t bytes, n; /* of a message; numbers to reduce */
    float *gradient;
    unsigned char forward[MICROBATCHES], backward[MICROBATCHES]; /* numbers */
    bool has_forward[MICROBATCHES], has_backward[MICROBATCHES];  /* put, or own */
};

static enum status misbehave(struct fake *f)
{
    unsigned rank, call;
    char action[8];
    const char *told = getenv("FAKE");
    uint32_t now = f->calls++;
    if (!told || sscanf(told, "%u %u %7s", &rank, &call, action) != 3 || rank != f->rank ||
        call != now)
        return STATUS_OK;
    if (!strcmp(action, "kill"))
        kill(getpid(), SIGKILL);
    else if (!strcmp(action, "stop"))
        kill(getpid(), SIGSTOP);
    else if (!strcmp(action, "exit"))
        _exit(3);
    else if (!strcmp(action, "error"))
        return error_set(STATUS_UNSUPPORTED, "out of luck");
    else
        for (;;)
            pause();
    return STATUS_OK;
}

/* A letter of FAKE_GPUS for each rank, '-' for none. */
static enum status describe(uint32_t rank, struct hardware *out)
{
    const char *told = getenv("FAKE_GPUS");
    if (!told || rank >= strlen(told) || told[rank] == '-')
        return STATUS_OK;
    if (told[rank] == '!')
        return error_set(STATUS_UNSUPPORTED, "no GPU: the driver is too old");
    *out = (struct hardware){.index = rank,
                             .gpus = 8,
                             .memory_bytes = 80000000000,
                             .shared = getenv("FORELINE_SHARE_GPU") != NULL,
                             .name = "Fake 100",
                             .bus = "0000:19:00.0",
                             .peers = "self atomic",
                             .driver = "580.82.07",
                             .cuda_driver = "13.0",
                             .cuda = "13.0",
                             .cublas = "13.0.2",
                             .settings = "NCCL_ALGO=Ring"};
    snprintf(out->uuid, sizeof out->uuid, "GPU-%c", told[rank]);
    snprintf(out->nccl, sizeof out->nccl, told[rank] == 'z' ? "2.19.3" : "2.28.9");
    return STATUS_OK;
}

static enum status fake_open(const struct model *m, const struct program *p, uint32_t rank,
                             const struct device_options *o, void **self)
{
    struct fake *f = calloc(1, sizeof *f);
    (void)m, (void)o;
    if (!f)
        return error_set(STATUS_NOMEM, "fake device");
    f->p = p;
    f->rank = rank;
    f->stages = (uint32_t)p->stages;
    for (size_t i = p->op_start[rank]; i < p->op_start[rank + 1]; i++) {
        if (p->op[i].kind == OP_SEND || p->op[i].kind == OP_RECV)
            f->bytes = (size_t)p->op[i].bytes;
        if (p->op[i].kind == OP_ALLREDUCE)
            f->n = (size_t)p->op[i].bytes / sizeof(float);
    }
    f->gradient = calloc(f->n + 1, sizeof *f->gradient);
    enum status st = f->gradient ? misbehave(f) : error_set(STATUS_NOMEM, "fake device");
    if (st == STATUS_OK) {
        *self = f;
    } else {
        free(f->gradient);
        free(f);
    }
    return st;
}

static void fake_close(void *self)
{
    struct fake *f = self;
    if (f)
        free(f->gradient);
    free(f);
}

static enum status wrong(const struct fake *f, const char *what, uint32_t microbatch)
{
    return error_set(STATUS_INVALID, "fake rank %u step %u microbatch %u: %s", f->rank, f->step,
                     microbatch, what);
}

/* What stage `stage` has made of the microbatch. */
static unsigned char expected(uint32_t stage, uint32_t step, uint32_t microbatch)
{
    unsigned x = microbatch;
    for (uint32_t s = 0; s <= stage; s++)
        x = 3 * x + s + step;
    return (unsigned char)x;
}

static enum status forward(struct fake *f, uint32_t step, uint32_t microbatch)
{
    f->step = step;
    if (f->rank > 0 && !f->has_forward[microbatch])
        return wrong(f, "forward without its input", microbatch);
    unsigned x = f->rank > 0 ? f->forward[microbatch] : microbatch;
    f->forward[microbatch] = (unsigned char)(3 * x + f->rank + step);
    f->has_forward[microbatch] = true;
    if (f->forward[microbatch] != expected(f->rank, step, microbatch))
        return wrong(f, "forward of the wrong number", microbatch);
    return misbehave(f);
}

static enum status backward(struct fake *f, uint32_t step, uint32_t microbatch)
{
    bool last = f->rank + 1 == f->stages;
    if (!f->has_forward[microbatch] || step != f->step)
        return wrong(f, "backward before forward", microbatch);
    if (!last && !f->has_backward[microbatch])
        return wrong(f, "backward without its gradient", microbatch);
    f->backward[microbatch] =
        (unsigned char)((last ? f->forward[microbatch] : f->backward[microbatch]) + 1);
    if (f->backward[microbatch] !=
        (unsigned char)(expected(f->stages - 1, step, microbatch) + f->stages - f->rank))
        return wrong(f, "backward of the wrong number", microbatch);
    f->has_backward[microbatch] = true;
    f->has_forward[microbatch] = false;
    return misbehave(f);
}

static enum status update(struct fake *f, uint32_t step)
{
    float sum = (float)(f->stages * (f->stages + 1) / 2) * (float)(step + 1);
    for (size_t i = 0; f->reduces && i < f->n; i++)
        if (f->gradient[i] != sum)
            return wrong(f, "gradients are not the sum", (uint32_t)i);
    for (uint32_t m = 0; m < f->p->microbatches; m++) {
        if (!f->has_backward[m])
            return wrong(f, "update before backward", m);
        f->has_backward[m] = false;
    }
    return misbehave(f);
}

static enum status compute(void *self, uint32_t step, const struct program_op *op,
                           const struct layer_reduction *reduction)
{
    (void)reduction;
    return op->kind == OP_FORWARD    ? forward(self, step, op->microbatch)
           : op->kind == OP_BACKWARD ? backward(self, step, op->microbatch)
                                     : update(self, step);
}

static enum status get(void *self, const struct program_op *send, void *data)
{
    struct fake *f = self;
    uint32_t to = send->peer_stage, microbatch = send->microbatch;
    bool is_backward = send->backward;
    if (to != (is_backward ? f->rank - 1 : f->rank + 1))
        return wrong(f, "get for a stage that is no neighbour", microbatch);
    memset(data, is_backward ? f->backward[microbatch] : f->forward[microbatch], f->bytes);
    return STATUS_OK;
}

static enum status put(void *self, const struct program_op *recv, const void *data)
{
    struct fake *f = self;
    uint32_t from = recv->peer_stage, microbatch = recv->microbatch;
    bool is_backward = recv->backward;
    const unsigned char *x = data;
    bool *has = is_backward ? f->has_backward : f->has_forward;
    if (from != (is_backward ? f->rank + 1 : f->rank - 1))
        return wrong(f, "put from a stage that is no neighbour", microbatch);
    if (has[microbatch])
        return wrong(f, "put twice", microbatch);
    for (size_t i = 1; i < f->bytes; i++)
        if (x[i] != x[0])
            return wrong(f, "message torn", microbatch);
    has[microbatch] = true;
    *(is_backward ? &f->backward[microbatch] : &f->forward[microbatch]) = f->bytes ? x[0] : 0;
    return STATUS_OK;
}

static enum status array(void *self, const struct program_op *op, uint32_t k, enum element *e,
                         void **data, size_t *n)
{
    struct fake *f = self;
    *data = NULL;
    if (k > 0)
        return STATUS_OK;
    if (op->tag != PROGRAM_NONE)
        return wrong(f, "asked for tied weights", op->tag);
    for (size_t i = 0; i < f->n; i++)
        f->gradient[i] = (float)(f->rank + 1) * (float)(f->step + 1);
    f->reduces = true;
    *data = f->gradient;
    *e = ELEMENT_FP32;
    *n = f->n;
    return STATUS_OK;
}

static double take_loss(void *self)
{
    const struct fake *f = self;
    return f->rank + 1 == f->stages ? 100.0 - f->step : 0;
}

static enum status digest(void *self, uint32_t op, uint8_t out[DIGEST])
{
    (void)self;
    memset(out, (int)op + 1, DIGEST);
    return STATUS_OK;
}

static int64_t peak_bytes(void *self)
{
    return 1000 + ((const struct fake *)self)->rank;
}

const struct device device_fake = {
    .name = "fake",
    .describe = describe,
    .open = fake_open,
    .close = fake_close,
    .compute = compute,
    .get = get,
    .put = put,
    .array = array,
    .take_loss = take_loss,
    .digest = digest,
    .peak_bytes = peak_bytes,
};
