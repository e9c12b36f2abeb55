/* The paced device: real messages, no numerics; compute takes the time that the program predicts.
 * For ops whose arithmetic is unknown, and for more ranks than cores. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "exec/device.h"

/* A message this stage sends for every microbatch. */
struct message {
    uint32_t to;
    bool backward;
    size_t bytes;
};

struct paced {
    const struct model *model;
    size_t messages, parameters, room;
    struct message *message; /* [messages] */
    float *gradient;         /* [room] zeros; the first `parameters` are the stage's */
};

static const struct message *find_message(const struct paced *s, uint32_t to, bool backward)
{
    for (size_t i = 0; i < s->messages; i++)
        if (s->message[i].to == to && s->message[i].backward == backward)
            return &s->message[i];
    return NULL;
}

static void paced_close(void *self)
{
    struct paced *s = self;
    if (!s)
        return;
    free(s->message);
    free(s->gradient);
    free(s);
}

/* What the rank's SENDs and ALLREDUCEs carry. */
static enum status read_program(struct paced *s, const struct program *p, uint32_t rank)
{
    size_t end = p->op_start[rank + 1];
    s->message = calloc(end - p->op_start[rank] + 1, sizeof *s->message);
    if (!s->message)
        return error_set(STATUS_NOMEM, "rank %u: out of memory", rank);
    for (size_t i = p->op_start[rank]; i < end; i++) {
        const struct program_op *o = &p->op[i];
        if (o->bytes < 0)
            return error_set(STATUS_INVALID, "rank %u: op %zu has a negative size", rank, i);
        size_t bytes = (size_t)o->bytes, floats = bytes / sizeof(float);
        if (o->kind == OP_SEND && !find_message(s, o->peer_stage, o->backward))
            s->message[s->messages++] = (struct message){o->peer_stage, o->backward, bytes};
        if (o->kind == OP_ALLREDUCE)
            s->room = floats > s->room ? floats : s->room;
        if (o->kind == OP_ALLREDUCE && o->tag == PROGRAM_NONE)
            s->parameters = floats;
    }
    return STATUS_OK;
}

static enum status paced_open(const struct model *m, const struct program *p, uint32_t rank,
                              const struct device_options *o, void **self)
{
    (void)o;
    enum status st;
    struct paced *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(STATUS_NOMEM, "rank %u: out of memory", rank);
    s->model = m;
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

static enum status compute(void *self, uint32_t step, uint32_t microbatch, double seconds)
{
    (void)self, (void)step, (void)microbatch;
    return pace(seconds);
}

static enum status update(void *self, uint32_t step, double seconds)
{
    (void)self, (void)step;
    return pace(seconds);
}

/* Bytes that name the microbatch: enough to tell messages apart. */
static enum status get(void *self, uint32_t to, uint32_t microbatch, bool backward, void *data)
{
    const struct message *m = find_message(self, to, backward);
    if (!m)
        return error_set(STATUS_INVALID, "the program sends nothing to stage %u", to);
    memset(data, (int)(microbatch & 0x7f) | (backward ? 0x80 : 0), m->bytes);
    return STATUS_OK;
}

static enum status put(void *self, uint32_t from, uint32_t microbatch, bool backward,
                       const void *data)
{
    (void)self, (void)from, (void)microbatch, (void)backward, (void)data;
    return STATUS_OK;
}

static enum status gradients(void *self, uint32_t shared, float **data, size_t *n)
{
    const struct paced *s = self;
    *data = s->gradient;
    *n = s->parameters;
    for (size_t i = 0; shared != MODEL_NO_OP && i < s->model->n; i++)
        if (s->model->op[i].shares == shared)
            *n = (size_t)s->model->op[i].shared_bytes / sizeof **data;
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
    .forward = compute,
    .backward = compute,
    .update = update,
    .get = get,
    .put = put,
    .gradients = gradients,
    .take_loss = take_loss,
    .digest = digest,
    .peak_bytes = peak_bytes,
};
