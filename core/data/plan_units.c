/* What backwards make again (Chen et al., 2016, arXiv:1604.06174; Korthikanti et al., MLSys 2023):
 * single ops that remember much besides their output, or units of layers whose inputs are kept, as
 * Megatron-LM's --recompute-method uniform and block, and torch's checkpoint of each layer. */
#include <stdlib.h>
#include <string.h>

#include "core/base/order.h"
#include "core/data/model.h"
#include "core/data/plan.h"

static void selective_units(const struct plan_stage *s, const struct model *m, uint32_t *unit)
{
    uint32_t units = 0;
    bool discards, grows = false;
    for (size_t k = 0; k < s->ops; k++) {
        const struct model_op *o = &m->op[s->op[k]];
        bool whole = s->recompute_modules == 0;
        if (whole ? o->stash_bytes < 2 * o->output_bytes
                  : !plan_module_has(s->recompute_modules, m, s->op[k], &discards)) {
            grows = false;
            continue;
        }
        grows = grows && !whole && model_same_layer(m, s->op[k - 1], s->op[k]);
        unit[k] = grows ? units : ++units;
        grows = true;
    }
}

/* Where layers and units of a stage have come to. */
struct counter {
    uint32_t units, layers; /* so far; layers: of those that are counted */
    uint32_t in_unit;       /* layers of the unit that grows */
};

/* Op k begins another layer. Units have layers of one sort: in blocks, or outside. */
static void begin_layer(const struct plan_stage *s, const struct model *m, size_t k, bool counted,
                        struct counter *c)
{
    uint32_t size = s->recompute_unit > 1 ? s->recompute_unit : 1;
    bool sort = model_in_block(m, s->op[k]), before = k > 0 && model_in_block(m, s->op[k - 1]);
    c->layers += counted;
    if (k > 0 && sort == before && c->in_unit < size) {
        c->in_unit++;
        return;
    }
    c->units++;
    c->in_unit = 1;
}

uint32_t plan_stage_layers(const struct plan_stage *s, const struct model *m)
{
    uint32_t blocks = 0, all = 0;
    for (size_t k = 0; k < s->ops; k++) {
        bool begins = k == 0 || !model_same_layer(m, s->op[k - 1], s->op[k]);
        blocks += begins && model_in_block(m, s->op[k]);
        all += begins;
    }
    return blocks > 0 ? blocks : all;
}

/* Of the layers that `recompute_layers` counts, in blocks if the stage has any, the first ones. */
static void layer_units(const struct plan_stage *s, const struct model *m, uint32_t *unit)
{
    bool blocks = false;
    struct counter c = {0};
    uint32_t most = s->recompute_layers;
    for (size_t k = 0; k < s->ops; k++)
        blocks = blocks || model_in_block(m, s->op[k]);
    for (size_t k = 0; k < s->ops; k++) {
        bool counted = !blocks || model_in_block(m, s->op[k]);
        if (k == 0 || !model_same_layer(m, s->op[k - 1], s->op[k]))
            begin_layer(s, m, k, counted, &c);
        unit[k] = most == 0 || (counted && c.layers <= most) ? c.units : 0;
    }
}

/* An op by itself and outside of blocks, which remembers nothing but its output, frees nothing. */
static void leave_single_ops(const struct plan_stage *s, const struct model *m, uint32_t *unit)
{
    for (size_t k = 0; k < s->ops; k++) {
        const struct model_op *o = &m->op[s->op[k]];
        bool single =
            (k == 0 || unit[k - 1] != unit[k]) && (k + 1 == s->ops || unit[k + 1] != unit[k]);
        if (single && !model_in_block(m, s->op[k]) && o->stash_bytes <= o->output_bytes)
            unit[k] = 0;
    }
}

/* By a module's reader that needs it in its backward: sums need nothing of what they were given. */
static bool is_read_outside(const struct plan_stage *s, const struct model *m, const uint32_t *unit,
                            size_t k)
{
    for (size_t e = m->out_start[s->op[k]]; e < m->out_start[s->op[k] + 1]; e++) {
        const uint32_t *at = bsearch(&m->out[e], s->op, s->ops, sizeof *s->op, order_by_id);
        bool forgets = s->recompute_modules > 0 && model_op_is(&m->op[m->out[e]], OPERATOR_STREAM);
        if (!at || (unit[at - s->op] != unit[k] && !forgets))
            return true;
    }
    return false;
}

/* Of a module that discards what it gives, if nobody else reads that than the layer itself. */
static bool is_discarded(const struct plan_stage *s, const struct model *m, size_t k)
{
    bool discards, inside = s->recompute == RECOMPUTE_SELECTIVE &&
                            plan_module_has(s->recompute_modules, m, s->op[k], &discards) &&
                            discards;
    for (size_t e = m->out_start[s->op[k]]; e < m->out_start[s->op[k] + 1] && inside; e++)
        inside = model_same_layer(m, s->op[k], m->out[e]) &&
                 bsearch(&m->out[e], s->op, s->ops, sizeof *s->op, order_by_id);
    return inside;
}

void plan_units(const struct plan_stage *s, const struct model *m, uint32_t *unit, bool *kept)
{
    memset(unit, 0, s->ops * sizeof *unit);
    if (s->recompute == RECOMPUTE_SELECTIVE)
        selective_units(s, m, unit);
    if (s->recompute == RECOMPUTE_FULL) {
        layer_units(s, m, unit);
        leave_single_ops(s, m, unit);
    }
    for (size_t k = 0; k < s->ops; k++)
        kept[k] = unit[k] == 0 || (is_read_outside(s, m, unit, k) && !is_discarded(s, m, k));
}

/* From the last unit on: readers come later, and what makes them again is known by then. */
void plan_needs(const struct plan_stage *s, const struct model *m, const uint32_t *unit,
                const bool *kept, size_t *needed)
{
    for (size_t high = s->ops, low; high > 0; high = low) {
        size_t at = high - 1;
        for (low = high - 1; low > 0 && unit[low] > 0 && unit[low - 1] == unit[low];)
            low--;
        for (size_t k = low; k < high && unit[k] > 0; k++)
            for (size_t e = m->out_start[s->op[k]]; e < m->out_start[s->op[k] + 1] && !kept[k];
                 e++) {
                const uint32_t *found =
                    bsearch(&m->out[e], s->op, s->ops, sizeof *s->op, order_by_id);
                size_t reader = found ? (size_t)(found - s->op) : 0;
                bool forgets = model_op_is(&m->op[m->out[e]], OPERATOR_STREAM);
                if (found && forgets && unit[reader] != unit[k])
                    continue;
                if (found && unit[reader] > 0 && unit[reader] != unit[k])
                    reader = needed[reader];
                at = reader > at ? reader : at;
            }
        for (size_t k = low; k < high; k++)
            needed[k] = at;
    }
}
