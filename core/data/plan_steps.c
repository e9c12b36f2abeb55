/* Plans that say op by op what shards do: in files, copied, checked. */
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/data/collective_kind.h"
#include "core/data/model.h"
#include "core/data/plan.h"

enum { MOST_STEPS = 1 << 20, MOST_CONVERSIONS = 1 << 12 };

/* ---- files */

/* Names of what a conversion may be; the last one is none. */
static const char *step_name(uint8_t kind)
{
    return kind < COLLECTIVE_KINDS ? collective_kind_name[kind] : NULL;
}

static enum status get_kind(const struct json_at *object, const char *key, uint8_t *out)
{
    size_t kind = COLLECTIVE_KINDS;
    PASS(json_may_choice(object, key, collective_kind_name, COLLECTIVE_KINDS, &kind));
    *out = (uint8_t)kind;
    return STATUS_OK;
}

static enum status get_conversion(const struct json_at *at, struct plan_conversion *c)
{
    PASS(json_check_keys(at, "forward backward shared bytes tensor", JSON_TABLES(NULL)));
    PASS(get_kind(at, "forward", &c->forward));
    PASS(get_kind(at, "backward", &c->backward));
    int64_t tensor = UINT32_MAX;
    PASS(json_may_bool(at, "shared", &c->shared));
    PASS(json_may_integer(at, "tensor", 0, UINT32_MAX - 1, &tensor));
    c->tensor = (uint32_t)tensor;
    return json_need_integer(at, "bytes", 0, INT64_MAX / 65536, &c->bytes);
}

static enum status get_shards(const struct json_at *list, const struct model *m, size_t *first,
                              struct plan *p)
{
    struct plan_step *step = &p->step[p->steps - 1];
    PASS(json_get_array(list, m->n, &step->ops));
    for (size_t k = 0; k < step->ops; k++, (*first)++) {
        struct json_at item = json_item(list, k), name;
        const char *text;
        PASS(json_check_keys(&item, "op work output parameter_bytes", JSON_TABLES(NULL)));
        PASS(json_field(&item, "op", &name));
        PASS(json_get_string(&name, &text));
        if (*first == m->n || strcmp(text, m->op[*first].name) != 0)
            return json_error(
                &name, "op '%.60s' is out of order: steps must list ops in the order of the model",
                text);
        PASS(json_may_bool(&item, "work", &p->shard[*first].work));
        PASS(json_may_bool(&item, "output", &p->shard[*first].output));
        PASS(json_may_integer(&item, "parameter_bytes", 0, m->op[*first].parameter_bytes,
                              &p->shard[*first].parameter_bytes));
    }
    return STATUS_OK;
}

static enum status get_step(const struct json_at *at, const struct model *m, size_t *first,
                            struct plan *p)
{
    struct plan_step *step = &p->step[p->steps++];
    struct json_at list;
    size_t n;
    PASS(json_check_keys(at, "conversions shards", JSON_TABLES(NULL)));
    PASS(json_field(at, "conversions", &list));
    PASS(json_get_array(&list, MOST_CONVERSIONS, &n));
    PASS(ARRAY_NEW(step->conversion, n));
    for (; step->conversions < n; step->conversions++) {
        struct json_at item = json_item(&list, step->conversions);
        PASS(get_conversion(&item, &step->conversion[step->conversions]));
    }
    PASS(json_field(at, "shards", &list));
    return get_shards(&list, m, first, p);
}

enum status plan_get_steps(const struct json_at *root, const struct model *m, struct plan *p)
{
    struct json_at steps;
    size_t n, first = 0;
    PASS(json_optional(root, "steps", &steps));
    if (!steps.value)
        return STATUS_OK;
    PASS(json_get_array(&steps, MOST_STEPS, &n));
    PASS(ARRAY_NEW(p->step, n));
    PASS(ARRAY_NEW(p->shard, m->n));
    for (size_t i = 0; i < n; i++) {
        struct json_at item = json_item(&steps, i);
        PASS(get_step(&item, m, &first, p));
    }
    if (first < m->n)
        return json_error(&steps, "op '%s' is missing from the steps", m->op[first].name);
    return operators_get(root, &p->operators);
}

static void plan_put_step(struct json_writer *w, const struct plan_step *step,
                          const struct plan_shard *shard, const struct model_op *op)
{
    json_open_object(w, NULL, false);
    json_open_array(w, "conversions", false);
    for (size_t k = 0; k < step->conversions; k++) {
        const struct plan_conversion *c = &step->conversion[k];
        json_open_object(w, NULL, true);
        if (step_name(c->forward))
            json_put_string(w, "forward", step_name(c->forward));
        if (step_name(c->backward))
            json_put_string(w, "backward", step_name(c->backward));
        if (c->shared)
            json_put_bool(w, "shared", true);
        json_put_integer(w, "bytes", c->bytes);
        if (c->tensor != UINT32_MAX)
            json_put_integer(w, "tensor", c->tensor);
        json_close(w);
    }
    json_close(w);
    json_open_array(w, "shards", false);
    for (size_t k = 0; k < step->ops; k++) {
        json_open_object(w, NULL, true);
        json_put_string(w, "op", op[k].name);
        json_put_bool(w, "work", shard[k].work);
        json_put_bool(w, "output", shard[k].output);
        if (shard[k].parameter_bytes)
            json_put_integer(w, "parameter_bytes", shard[k].parameter_bytes);
        json_close(w);
    }
    json_close(w);
    json_close(w);
}

void plan_put_steps(struct json_writer *w, const struct plan *p, const struct model *m)
{
    size_t first = 0;
    if (p->steps == 0)
        return;
    json_open_array(w, "steps", false);
    for (size_t i = 0; i < p->steps; first += p->step[i++].ops)
        plan_put_step(w, &p->step[i], p->shard + first, m->op + first);
    json_close(w);
    operators_put(w, &p->operators);
}

/* ---- in memory */

enum status plan_check_steps(const struct plan *p, const struct model *m)
{
    size_t ops = 0;
    if (p->steps == 0)
        return STATUS_OK;
    for (size_t i = 0; i < p->steps; i++)
        ops += p->step[i].ops;
    if (ops != m->n)
        return error_set(STATUS_INVALID,
                         "the %zu steps list %zu of the model's %zu ops, expected all", p->steps,
                         ops, m->n);
    const struct plan_stage *s = &p->stage[0];
    if (p->stages != 1 || s->replicas != 1 || p->microbatches > 2)
        return error_set(
            STATUS_INVALID,
            "got a plan with \"steps\" and %zu stages, %u replicas and %u microbatches, expected "
            "one stage, one replica and one or two microbatches",
            p->stages, s->replicas, p->microbatches);
    const char *what = s->recompute != RECOMPUTE_NONE ? "recomputation"
                       : p->sequence_parallel         ? "sequence parallelism"
                       : p->offload != OFFLOAD_NONE   ? "offload"
                                                      : NULL;
    return what ? error_set(STATUS_INVALID, "plans with \"steps\" do not support %s", what)
                : STATUS_OK;
}

enum status plan_copy_steps(const struct plan *p, struct plan *out)
{
    size_t ops = 0;
    PASS(ARRAY_NEW(out->step, p->steps));
    for (size_t i = 0; i < p->steps; i++) {
        struct plan_step *step = &out->step[out->steps++];
        ops += p->step[i].ops;
        *step = (struct plan_step){.ops = p->step[i].ops, .conversions = p->step[i].conversions};
        PASS(ARRAY_COPY(step->conversion, p->step[i].conversion, step->conversions));
    }
    PASS(ARRAY_COPY(out->shard, p->shard, ops));
    return operators_copy(&p->operators, &out->operators);
}

void plan_free_steps(struct plan *p)
{
    for (size_t i = 0; p->step && i < p->steps; i++)
        free(p->step[i].conversion);
    free(p->step);
    free(p->shard);
    operators_free(&p->operators);
    p->step = NULL;
    p->shard = NULL;
    p->steps = 0;
}
