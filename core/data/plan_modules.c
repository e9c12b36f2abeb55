/* Modules of layers that a backward may make again, under the names that Megatron-LM has for them
 * (megatron/core/transformer/transformer_config.py, recompute_modules), found by the kinds and the
 * names of ops: "h3.mlp.fc" is of the module mlp of layer h3. */
#include <string.h>

#include "core/data/model.h"
#include "core/data/plan.h"

/* ---- which ops */

/* Is the op in a part of its layer of this name? Sums with the stream and norms behind them are
 * outside. */
static bool is_in(const struct model *m, uint32_t op, const char *part)
{
    const char *rest = model_in_layer(m, op), *last = strrchr(rest, '.');
    size_t n = strlen(part);
    return strncmp(rest, part, n) == 0 && rest[n] == '.' && strcmp(last, ".residual") != 0 &&
           strcmp(last, ".ln") != 0;
}

static bool in_attention(const struct model *m, uint32_t op)
{
    return model_op_is(&m->op[op], OPERATOR_ATTENTION);
}

/* Those of the stream: not those within attention. */
static bool in_norm(const struct model *m, uint32_t op)
{
    bool norm = model_op_is(&m->op[op], OPERATOR_NORM);
    return norm && model_in_block(m, op) && !strchr(model_in_layer(m, op), '.');
}

/* Queries, keys and values out of latents. DeepSeek-V2, 2024, section 2.1. */
static bool in_up_projection(const struct model *m, uint32_t op)
{
    const char *rest = model_in_layer(m, op);
    return strcmp(rest, "attn.q") == 0 || strcmp(rest, "attn.kv") == 0 ||
           (model_op_is(&m->op[op], OPERATOR_ROTATION) &&
            model_attribute(&m->op[op], "turned", 0) > 0);
}

static bool in_mlp(const struct model *m, uint32_t op)
{
    return is_in(m, op, "mlp");
}

static bool in_shared(const struct model *m, uint32_t op)
{
    return is_in(m, op, "shared");
}

static bool in_moe(const struct model *m, uint32_t op)
{
    return is_in(m, op, "moe") || in_shared(m, op) || model_op_is(&m->op[op], OPERATOR_EXPERTS);
}

static bool in_experts(const struct model *m, uint32_t op)
{
    return model_op_is(&m->op[op], OPERATOR_EXPERTS);
}

/* discards: what others read of it is made again too, when the first of them needs it; else it
 * stays. within: a part of an op alone is made again, plan_part_again(). */
static const struct recompute_module {
    bool (*has)(const struct model *m, uint32_t op);
    bool discards, within;
} modules[PLAN_MODULES] = {
    [MODULE_CORE_ATTN] = {in_attention, false, false},
    [MODULE_LAYERNORM] = {in_norm, true, false},
    [MODULE_MLA_UP_PROJ] = {in_up_projection, true, false},
    [MODULE_MLP] = {in_mlp, false, false},
    [MODULE_MOE] = {in_moe, false, false},
    [MODULE_MOE_ACT] = {in_experts, true, true},
    [MODULE_SHARED_EXPERTS] = {in_shared, false, false},
};

bool plan_module_has(uint32_t chosen, const struct model *m, uint32_t op, bool *discards)
{
    bool found = false;
    *discards = true;
    for (int k = 0; k < PLAN_MODULES; k++)
        if ((chosen & 1u << k) && !modules[k].within && modules[k].has(m, op)) {
            found = true;
            *discards = *discards && modules[k].discards;
        }
    return found;
}

/* Experts make the activation of their inner rows again. */
struct plan_part plan_part_again(const struct plan_stage *s, const struct model *m, uint32_t op)
{
    enum { GATED = 6, PLAIN = 9 }; /* operations per number: model/layers.h */
    const struct model_op *o = &m->op[op];
    struct plan_part part = {0};
    if (s->recompute != RECOMPUTE_SELECTIVE)
        return part;
    if ((s->recompute_modules & 1u << MODULE_MOE_ACT) && in_experts(m, op)) {
        double n = (double)(model_attribute(o, "slots", 0) * model_attribute(o, "inner", 0));
        bool gated = model_attribute(o, "gated", 0) > 0;
        part.bytes = (int64_t)n * model_operand(m); /* as a product reads it */
        part.flop = n * (gated ? GATED : PLAIN);
        part.traffic = n * (double)m->element_bytes * (gated ? 3 : 2);
    }
    return part;
}

uint32_t plan_modules_of(const struct model *m)
{
    uint32_t found = 0;
    for (int k = 0; k < PLAN_MODULES; k++)
        for (uint32_t i = 0; i < m->n && !(found & 1u << k); i++)
            found |= modules[k].has(m, i) ? 1u << k : 0;
    return found;
}

enum status plan_check_modules(const struct plan_stage *s, const struct model *m)
{
    char text[PLAN_MODULES_TEXT];
    uint32_t absent = s->recompute_modules ? s->recompute_modules & ~plan_modules_of(m) : 0;
    return absent ? error_set(STATUS_INVALID, "--recompute-modules: %s has no op of module %s",
                              m->name, plan_print_modules(absent, text))
                  : STATUS_OK;
}
