/* What a checkpoint keeps of the stages of a rank, in whichever memory they are: what there is
 * between steps. No microbatch is in flight then, sums are zero, and gathered parameters (ZeRO 3)
 * will be gathered again. */
#include <string.h>

#include "exec/device.h"
#include "exec/device/cpu/stage.h"

static bool is_of_host(uint32_t kind)
{
    return kind == STATE_UPDATES || kind == STATE_RUNNING;
}

/* Array `index` of the rank: where it is, and what; NULL behind the last one. */
static void *state_find_parameter(const struct stage_set *c, size_t index, struct stage **stage,
                                  struct device_state *out)
{
    for (size_t k = 0; k < c->stages; k++) {
        struct stage *s = &c->stage[k];
        bool whole = !s->share.reshards;
        const struct {
            uint32_t kind;
            void *data;
            size_t bytes;
        } array[] = {
            {STATE_PARAMETERS, whole ? s->state.parameter : s->state.owned,
             (whole ? s->layout.parameters : s->layout.owned_n) * sizeof(real)},
            {STATE_MOMENTS, s->state.moment, s->layout.owned_n * sizeof(real)},
            {STATE_SQUARES, s->state.square, s->layout.owned_n * sizeof(real)},
            {STATE_UPDATES, &s->state.updates, sizeof s->state.updates},
            {STATE_OWNED, whole ? s->state.owned : NULL, s->layout.owned_n * sizeof(real)},
            {STATE_RUNNING, s->state.running, s->state.running_n * sizeof(real)},
        };
        for (size_t i = 0; i < sizeof array / sizeof *array; i++) {
            if (!array[i].data || index-- > 0)
                continue;
            *stage = s;
            *out = (struct device_state){s->index, array[i].kind, array[i].bytes};
            return array[i].data;
        }
    }
    return NULL;
}

/* Arrays in the order of stages and of enum device_state_kind: the same in every run of a plan. */
bool cpu_state(void *self, size_t index, struct device_state *out)
{
    struct stage *s;
    return state_find_parameter(self, index, &s, out) != NULL;
}

enum status cpu_save(void *self, size_t index, void *data)
{
    struct stage *s;
    struct device_state what;
    const void *from = state_find_parameter(self, index, &s, &what);
    if (!from)
        return error_set(STATUS_INVALID,
                         "the device has no array %zu of parameters or optimizer state to save",
                         index);
    if (is_of_host(what.kind))
        memcpy(data, from, what.bytes);
    else
        s->on.backend->copy(s->on.self, data, from, what.bytes);
    return STATUS_OK;
}

enum status cpu_load(void *self, size_t index, const void *data)
{
    struct stage *s;
    struct device_state what;
    void *to = state_find_parameter(self, index, &s, &what);
    if (!to)
        return error_set(
            STATUS_INVALID,
            "the device has no array %zu of parameters or optimizer state to load into", index);
    if (is_of_host(what.kind))
        memcpy(to, data, what.bytes);
    else
        s->on.backend->copy(s->on.self, to, data, what.bytes);
    s->state.half_of = NULL;
    return STATUS_OK;
}
