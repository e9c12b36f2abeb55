/* Reads splits {"parts": [{"ops": [...], "replicas": n}]} that are to be scored against the
 * ops of a model. */
#include "papers/common/split.h"

#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/json.h"
#include "core/data/model.h"

/* Ops of one part; an op belongs to one part only, and the first part that names an op has it. */
static enum status split_read_one(const struct json_at *part, const struct model *m, uint32_t index,
                                  struct split *s)
{
    struct json_at ops, replicas;
    size_t n;
    int64_t count = 1;
    PASS(json_field(part, "ops", &ops));
    PASS(json_get_array(&ops, m->n, &n));
    for (size_t i = 0; i < n; i++) {
        struct json_at item = json_item(&ops, i);
        const char *name;
        PASS(json_get_string(&item, &name));
        uint32_t op = model_find(m, name);
        if (op == MODEL_NO_OP)
            return json_error(&item, "no op '%.80s' in %s", name, m->name);
        if (s->part_of[op] != SPLIT_NONE)
            return json_error(&item, "op '%.80s' is listed twice", name);
        s->part_of[op] = index;
    }
    PASS(json_optional(part, "replicas", &replicas));
    if (replicas.value)
        PASS(json_get_integer(&replicas, 1, SPLIT_MAX_PARTS, &count));
    s->replicas[index] = (uint32_t)count;
    return STATUS_OK;
}

/* Ops that no part names stay SPLIT_NONE: each objective decides whether that is allowed. */
enum status split_read(const char *path, const struct model *m, struct split *out)
{
    enum status st = STATUS_OK;
    struct split s = {0};
    struct json_document d = {0};
    struct json_at root, parts;
    TRY(json_read(path, NULL, 0, &d));
    root = json_root(&d);
    TRY(json_field(&root, "parts", &parts));
    TRY(json_get_array(&parts, SPLIT_MAX_PARTS, &s.parts));
    TRY(ARRAY_NEW(s.part_of, m->n + 1));
    TRY(ARRAY_NEW(s.replicas, s.parts + 1));
    for (size_t i = 0; i < m->n; i++)
        s.part_of[i] = SPLIT_NONE;
    for (size_t i = 0; i < s.parts; i++) {
        struct json_at part = json_item(&parts, i);
        TRY(split_read_one(&part, m, (uint32_t)i, &s));
    }
    MOVE(out, s);
out:
    json_document_free(&d);
    split_free(&s);
    return st;
}

void split_free(struct split *s)
{
    free(s->part_of);
    free(s->replicas);
    *s = (struct split){0};
}
