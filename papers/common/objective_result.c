/* What the algorithms of all objectives share: the time limit, and results part by part. Apart
 * from the table of objectives, which needs the algorithms, so that no folder needs another
 * that needs it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "papers/common/objective.h"

enum { ID_TEXT = 24 };

bool objective_must_stop(const struct objective_request *r, double begin_s, double default_limit_s)
{
    return (r->stop && *r->stop) || clock_now() - begin_s > objective_limit_s(r, default_limit_s);
}

double objective_limit_s(const struct objective_request *r, double default_limit_s)
{
    return r->time_limit_s > 0 ? r->time_limit_s : default_limit_s;
}

/* Ops of a model by their name, nodes of a file by their id in decimal. */
static char *result_name_of(const struct objective_ops *ops, size_t i, struct arena *memory)
{
    char id[ID_TEXT];
    if (ops->model)
        return arena_text(memory, ops->model->op[i].name);
    snprintf(id, sizeof id, "%lld", (long long)ops->id[i]);
    return arena_text(memory, id);
}

enum status objective_add_part(struct objective_result *out, const struct objective_ops *ops,
                               const uint32_t *part_of, uint32_t which, const char *device)
{
    struct objective_part p = {.replicas = 1, .tensor_parallel = 1};
    size_t n = 0;
    for (size_t i = 0; i < ops->n; i++)
        n += part_of[i] == which;
    PASS(ARRAY_ROOM(out->part, out->parts));
    PASS(ARENA_NEW(&out->memory, p.op, n));
    for (size_t i = 0; i < ops->n; i++)
        if (part_of[i] == which && !(p.op[p.ops++] = result_name_of(ops, i, &out->memory)))
            return STATUS_NOMEM;
    if (device && !(p.device = arena_text(&out->memory, device)))
        return STATUS_NOMEM;
    out->part[out->parts++] = p;
    return STATUS_OK;
}

enum status objective_set_note(struct objective_result *out, const char *fmt, ...)
{
    char note[OBJECTIVE_NOTE];
    va_list arguments;
    va_start(arguments, fmt);
    vsnprintf(note, sizeof note, fmt, arguments);
    va_end(arguments);
    return (out->note = arena_text(&out->memory, note)) ? STATUS_OK : STATUS_NOMEM;
}

void objective_result_free(struct objective_result *r)
{
    free(r->part);
    arena_free(&r->memory);
    *r = (struct objective_result){0};
}
