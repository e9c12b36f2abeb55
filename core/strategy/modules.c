/* Names of the modules of layers that a backward may make again: those of Megatron-LM
 * (megatron/core/transformer/transformer_config.py, recompute_modules). */
#include <stdio.h>
#include <string.h>

#include "core/strategy/strategy.h"

static const char *const module_names[PLAN_MODULES] = {
    [MODULE_CORE_ATTN] = "core_attn",
    [MODULE_LAYERNORM] = "layernorm",
    [MODULE_MLA_UP_PROJ] = "mla_up_proj",
    [MODULE_MLP] = "mlp",
    [MODULE_MOE] = "moe",
    [MODULE_MOE_ACT] = "moe_act",
    [MODULE_SHARED_EXPERTS] = "shared_experts",
};

const char *plan_print_modules(uint32_t chosen, char text[PLAN_MODULES_TEXT])
{
    size_t n = 0;
    text[0] = '\0';
    for (int k = 0; k < PLAN_MODULES; k++)
        if (chosen & 1u << k)
            n += (size_t)snprintf(text + n, PLAN_MODULES_TEXT - n, "%s%s", n > 0 ? "," : "",
                                  module_names[k]);
    return text;
}

static enum status add_module(const char *name, size_t length, uint32_t *chosen)
{
    char all[PLAN_MODULES_TEXT];
    for (int k = 0; k < PLAN_MODULES; k++)
        if (strlen(module_names[k]) == length && !strncmp(name, module_names[k], length)) {
            *chosen |= 1u << k;
            return STATUS_OK;
        }
    return error_set(STATUS_INVALID, "unknown module '%.*s'; known: %s",
                     (int)(length < 60 ? length : 60), name,
                     plan_print_modules((1u << PLAN_MODULES) - 1, all));
}

enum status plan_read_modules(const char *text, uint32_t *chosen)
{
    uint32_t found = 0;
    const char *const between = ", \t\"'[]";
    for (text += strspn(text, between); *text; text += strspn(text, between)) {
        size_t length = strcspn(text, between);
        PASS(add_module(text, length, &found));
        text += length;
    }
    if (found == 0)
        return error_set(STATUS_INVALID,
                         "module list is empty, expected names such as core_attn,mlp");
    *chosen = found;
    return STATUS_OK;
}

void strategy_write_modules(struct json_writer *w, const void *own)
{
    uint32_t chosen = ((const struct strategy_stage *)own)->recompute_modules;
    if (chosen == 0)
        return;
    json_open_array(w, "recompute_modules", true);
    for (int k = 0; k < PLAN_MODULES; k++)
        if (chosen & 1u << k)
            json_put_string(w, NULL, module_names[k]);
    json_close(w);
}

enum status strategy_read_modules(const struct json_at *stage, void *own)
{
    struct json_at at;
    size_t n;
    uint32_t found = 0;
    PASS(json_optional(stage, "recompute_modules", &at));
    if (!at.value)
        return STATUS_OK;
    PASS(json_get_array(&at, PLAN_MODULES, &n));
    for (size_t i = 0; i < n; i++) {
        struct json_at item = json_item(&at, i);
        const char *name;
        PASS(json_get_string(&item, &name));
        if (add_module(name, strlen(name), &found) != STATUS_OK)
            return json_error(&item, "%s", error_message());
    }
    ((struct strategy_stage *)own)->recompute_modules = found;
    return STATUS_OK;
}
