/* The CPU device: a stage behind the vtable. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "exec/cpu/stage.h"
#include "exec/device.h"

static_assert(sizeof(real) == sizeof(float), "boundary messages are fp32");

static bool computes(const struct model_op *op)
{
    return layer_kind_find(op->kind) != NULL;
}

static void device_close(void *self)
{
    if (!self)
        return;
    stage_close(self);
    free(self);
}

static enum status device_open(const struct model *m, const struct program *p, uint32_t rank,
                               const struct device_options *o, void **self)
{
    enum status st;
    struct stage *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(STATUS_NOMEM, "rank %u: out of memory", rank);
    TRY(stage_open(m, p, rank, o->corpus ? o->corpus : corpus_shipped(), o->learning_rate, s));
    *self = s;
    s = NULL;
out:
    free(s);
    return st;
}

static enum status forward(void *self, uint32_t step, uint32_t microbatch, double seconds)
{
    (void)seconds;
    return stage_forward(self, step, microbatch);
}

static enum status backward(void *self, uint32_t step, uint32_t microbatch, double seconds)
{
    (void)step, (void)seconds;
    return stage_backward(self, microbatch);
}

static enum status update(void *self, uint32_t step, double seconds)
{
    (void)step, (void)seconds;
    return stage_update(self);
}

static enum status get(void *self, uint32_t to, uint32_t microbatch, bool is_backward, void *data)
{
    return stage_get(self, to, microbatch, is_backward, data);
}

static enum status put(void *self, uint32_t from, uint32_t microbatch, bool is_backward,
                       const void *data)
{
    return stage_put(self, from, microbatch, is_backward, data);
}

static enum status gradients(void *self, uint32_t shared, float **data, size_t *n)
{
    return stage_gradients(self, shared, data, n);
}

static double take_loss(void *self)
{
    struct stage *s = self;
    double loss = s->loss;
    s->loss = 0;
    return loss;
}

static enum status digest(void *self, uint32_t op, uint8_t out[DIGEST])
{
    const struct stage *s = self;
    uint32_t k = stage_find(s, op);
    if (k == NOWHERE)
        return error_set(STATUS_INVALID, "op %u is not in stage %u", op, s->index);
    const struct layer *l = &s->op[k].layer;
    memset(out, 0, DIGEST);
    if (l->parameters == 0)
        return STATUS_OK;
    digest_bytes(s->parameter + s->op[k].parameter, l->parameters * sizeof(real), out);
    return STATUS_OK;
}

static int64_t peak_bytes(void *self)
{
    return ((const struct stage *)self)->bytes; /* nothing is given back before close() */
}

const struct device device_cpu = {
    .name = "cpu",
    .computes = computes,
    .open = device_open,
    .close = device_close,
    .forward = forward,
    .backward = backward,
    .update = update,
    .get = get,
    .put = put,
    .gradients = gradients,
    .take_loss = take_loss,
    .digest = digest,
    .peak_bytes = peak_bytes,
};
