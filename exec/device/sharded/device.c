/* Strategies on the host, behind the vtable of devices. */
#include <string.h>

#include "core/base/array.h"
#include "exec/device.h"
#include "exec/device/cpu/gemm.h"
#include "exec/device/sharded/sharded.h"

static bool sharded_device_computes(const struct model *m, uint32_t op)
{
    enum status st = STATUS_OK;
    if (!kind_of(model_op_type(&m->op[op])))
        st = error_set(STATUS_UNSUPPORTED, "plans with \"steps\" do not support ops of kind '%s'",
                       m->op[op].kind);
    else if (m->dtype != DATA_ANY && m->dtype != DATA_fp32)
        st = error_set(
            STATUS_UNSUPPORTED,
            "plans with \"steps\" run in fp32 only, got %s; plan the model with dtype=fp32",
            data_type_names[m->dtype]);
    return st == STATUS_OK;
}

static enum status sharded_device_open(const struct model *m, const struct program *p,
                                       uint32_t rank, const struct device_options *o, void **self)
{
    struct sharded *s;
    (void)m;
    PASS(sharded_open(&engine_cpu, p, rank, o, &s));
    *self = s;
    return STATUS_OK;
}

static void sharded_device_close(void *self)
{
    sharded_close(self);
}

static enum status sharded_device_compute(void *self, uint32_t step, const struct program_op *op,
                                          const struct layer_reduction *reduction)
{
    struct sharded *s = self;
    (void)reduction;
    if (op->kind == OP_FORWARD)
        sharded_forward(s, op->tag, op->microbatch);
    else if (op->kind == OP_BACKWARD)
        sharded_backward(s, op->tag, op->microbatch);
    else if (op->kind == OP_UPDATE)
        sharded_update(s, learning_rate_factor(&s->policy, step));
    else
        return error_set(STATUS_UNSUPPORTED,
                         "plans with \"steps\" do not support a split backward pass");
    return STATUS_OK;
}

/* What is carried is packed when it is asked for: by then all that makes it has been computed, but
 * for what steps do that have no ops. */
static enum status sharded_device_array(void *self, const struct program_op *op, uint32_t k,
                                        enum element *e, void **data, size_t *n)
{
    struct sharded *s = self;
    uint32_t step = s->all->tensor[op->tag].step;
    real *wire;
    *data = NULL;
    *n = 0;
    if (k > 0)
        return STATUS_OK;
    if (op->backward)
        sharded_backward(s, step, op->microbatch);
    else
        sharded_forward(s, step - 1, op->microbatch);
    sharded_pack(s, op->tag, op->microbatch, op->backward, &wire, n);
    *e = ELEMENT_FP32;
    *data = wire;
    return STATUS_OK;
}

static enum status sharded_device_collected(void *self, const struct program_op *op)
{
    sharded_unpack(self, op->tag, op->microbatch, op->backward);
    return STATUS_OK;
}

static enum status no_message(void)
{
    return error_set(STATUS_INVALID, "plans with \"steps\" do not support messages between stages");
}

static enum status sharded_device_get(void *self, const struct program_op *send, void *data)
{
    (void)self, (void)send, (void)data;
    return no_message();
}

static enum status sharded_device_put(void *self, const struct program_op *recv, const void *data)
{
    (void)self, (void)recv, (void)data;
    return no_message();
}

static double sharded_device_take_loss(void *self)
{
    struct sharded *s = self;
    double loss = s->loss;
    s->loss = 0;
    return loss;
}

/* From the device's memory, or to it. */
static void sharded_device_copy(const struct sharded *s, void *to, const void *from, size_t bytes)
{
    s->on->memory.backend->copy(s->on->memory.self, to, from, bytes);
}

/* Of this rank's part of the parameters that the op's node reads. */
static enum status sharded_device_digest(void *self, uint32_t op, uint8_t out[DIGEST])
{
    const struct sharded *s = self;
    size_t node = 0, seen = 0;
    while (node < s->all->nodes && (!s->kind[node] || s->kind[node]->hidden || seen++ < op))
        node++;
    memset(out, 0, DIGEST);
    if (node == s->all->nodes)
        return error_set(STATUS_INVALID, "op %u is missing from the \"steps\" of the plan", op);
    for (size_t k = 0; k < s->all->node[node].reads; k++) {
        uint32_t t = s->all->node[node].read[k];
        const struct operand *own = &s->slot[0][t].own;
        uint8_t part[2 * DIGEST];
        if (!s->shared[t])
            continue;
        const real *value = own->value;
        memcpy(part, out, DIGEST);
        if (s->drawn) {
            sharded_device_copy(s, s->drawn, value, own->view.n * sizeof *value);
            value = s->drawn;
        }
        digest_bytes(value, own->view.n * sizeof *own->value, part + DIGEST);
        digest_bytes(part, sizeof part, out);
    }
    return STATUS_OK;
}

static int64_t sharded_device_peak_bytes(void *self)
{
    const struct sharded *s = self;
    size_t of_parameters = s->moment ? 4 : 2;
    return (int64_t)((s->numbers_n + s->work_n + of_parameters * s->parameters) * sizeof(real));
}

/* ---- checkpoints: parameters, what Adam keeps, and how many updates there were */

static void *sharded_device_find(struct sharded *s, size_t index, struct device_state *out)
{
    const struct {
        uint32_t kind;
        void *data;
    } array[] = {{STATE_PARAMETERS, s->parameter},
                 {STATE_MOMENTS, s->moment},
                 {STATE_SQUARES, s->square},
                 {STATE_UPDATES, &s->updates}};
    for (size_t i = 0; i < sizeof array / sizeof *array; i++) {
        if (!array[i].data || index-- > 0)
            continue;
        bool updates = array[i].kind == STATE_UPDATES;
        *out = (struct device_state){
            0, array[i].kind, updates ? sizeof s->updates : s->parameters * sizeof *s->parameter};
        return array[i].data;
    }
    return NULL;
}

static bool sharded_device_state(void *self, size_t index, struct device_state *out)
{
    return sharded_device_find(self, index, out) != NULL;
}

static enum status sharded_device_save(void *self, size_t index, void *data)
{
    struct device_state what;
    const void *from = sharded_device_find(self, index, &what);
    if (!from)
        return error_set(STATUS_INVALID,
                         "the device has no array %zu of parameters or optimizer state to save "
                         "(plan with \"steps\")",
                         index);
    if (what.kind == STATE_UPDATES)
        memcpy(data, from, what.bytes);
    else
        sharded_device_copy(self, data, from, what.bytes);
    return STATUS_OK;
}

static enum status sharded_device_load(void *self, size_t index, const void *data)
{
    struct device_state what;
    void *to = sharded_device_find(self, index, &what);
    if (!to)
        return error_set(STATUS_INVALID,
                         "the device has no array %zu of parameters or optimizer state to load "
                         "into (plan with \"steps\")",
                         index);
    if (what.kind == STATE_UPDATES)
        memcpy(to, data, what.bytes);
    else
        sharded_device_copy(self, to, data, what.bytes);
    return STATUS_OK;
}

const struct device device_sharded = {
    .name = "cpu",
    .describe = cpu_describe,
    .computes = sharded_device_computes,
    .open = sharded_device_open,
    .close = sharded_device_close,
    .compute = sharded_device_compute,
    .get = sharded_device_get,
    .put = sharded_device_put,
    .array = sharded_device_array,
    .collected = sharded_device_collected,
    .take_loss = sharded_device_take_loss,
    .digest = sharded_device_digest,
    .peak_bytes = sharded_device_peak_bytes,
    .state = sharded_device_state,
    .save = sharded_device_save,
    .load = sharded_device_load,
};
