/* What a checkpoint keeps of the stages of a rank, in whichever memory they are. */
#include <string.h>

#include "exec/cpu/stage.h"
#include "exec/device.h"

/* Array `index` of the rank: where it is, and what; NULL behind the last one. */
static void *find(const struct cpu *c, size_t index, const struct stage **stage,
                  struct device_state *out)
{
    for (size_t k = 0; k < c->stages; k++) {
        struct stage *s = &c->stage[k];
        void *const data[] = {s->parameter, s->moment, s->square, &s->updates};
        static const uint32_t kind[] = {STATE_PARAMETERS, STATE_MOMENTS, STATE_SQUARES,
                                        STATE_UPDATES};
        for (size_t i = 0; i < sizeof data / sizeof *data; i++) {
            if (!data[i] || index-- > 0)
                continue;
            *stage = s;
            *out = (struct device_state){s->index, kind[i],
                                         kind[i] == STATE_UPDATES
                                             ? sizeof s->updates
                                             : s->parameters * sizeof *s->parameter};
            return data[i];
        }
    }
    return NULL;
}

bool cpu_state(void *self, size_t index, struct device_state *out)
{
    const struct stage *s;
    return find(self, index, &s, out) != NULL;
}

enum status cpu_save(void *self, size_t index, void *data)
{
    const struct stage *s;
    struct device_state what;
    const void *from = find(self, index, &s, &what);
    if (!from)
        return error_set(STATUS_INVALID, "no array %zu", index);
    if (what.kind == STATE_UPDATES)
        memcpy(data, from, what.bytes);
    else
        s->on.backend->copy(s->on.self, data, from, what.bytes);
    return STATUS_OK;
}

enum status cpu_load(void *self, size_t index, const void *data)
{
    const struct stage *s;
    struct device_state what;
    void *to = find(self, index, &s, &what);
    if (!to)
        return error_set(STATUS_INVALID, "no array %zu", index);
    if (what.kind == STATE_UPDATES)
        memcpy(to, data, what.bytes);
    else
        s->on.backend->copy(s->on.self, to, data, what.bytes);
    return STATUS_OK;
}
