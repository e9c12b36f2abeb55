/* Plans as JSON. */
#include "core/data/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/order.h"
#include "core/base/path.h"
#include "core/data/model.h"
#include "core/data/topology.h"
#include "core/strategy/optimizer.h"

const char plan_format[] = "foreline-plan";
enum { MAX_REPLICAS = 1000000, HASH_KEY = 32 };

/* Both or neither: *model is set last. */
enum status plan_references(const struct json_document *d, char **model, char **platform)
{
    enum status st;
    struct json_at root = json_root(d);
    char *first = NULL;
    TRY(json_need_text(&root, "model", &first));
    TRY(json_need_text(&root, "platform", platform));
    MOVE(model, first);
out:
    free(first);
    return st;
}

static void hash_key(const char *key, char text[HASH_KEY])
{
    snprintf(text, HASH_KEY, "%s_sha256", key);
}

enum status plan_check_file(const struct json_document *d, const char *key, const char *found)
{
    struct json_at root = json_root(d), at;
    char name[HASH_KEY], hash[PATH_HASH];
    const char *expected;
    hash_key(key, name);
    PASS(json_optional(&root, name, &at));
    if (!at.value)
        return STATUS_OK;
    PASS(json_get_string(&at, &expected));
    path_hash(found, hash);
    if (*hash && strcmp(hash, expected) != 0)
        return json_error(&at,
                          "%s has changed since the plan was made; make the plan again, or take "
                          "\"%s\" out of it",
                          found, name);
    return STATUS_OK;
}

/* The indices of the names in an array. */
static enum status read_names(const struct json_at *object, const char *key, const char *what,
                              const struct json_name *index, size_t known, uint32_t **out,
                              size_t *n)
{
    struct json_at names;
    PASS(json_field(object, key, &names));
    PASS(json_get_array(&names, known, n));
    PASS(ARRAY_NEW(*out, *n));
    for (size_t k = 0; k < *n; k++) {
        struct json_at item = json_item(&names, k);
        PASS(json_get_name(&item, what, index, known, &(*out)[k]));
    }
    return STATUS_OK;
}

/* What names in the file stand for. */
struct names {
    size_t ops, devices;
    struct json_name *op, *device; /* sorted */
};

/* false, true (full) or a name. */
static enum status read_recompute(const struct json_at *stage, void *into)
{
    struct plan_stage *s = into;
    struct json_at at;
    bool full = false;
    size_t kind = RECOMPUTE_NONE;
    PASS(json_optional(stage, "recompute", &at));
    if (json_kind(&at) == JSON_IS_TEXT) {
        PASS(json_may_choice(stage, "recompute", plan_recompute_names, RECOMPUTE_KINDS, &kind));
    } else if (at.value) {
        PASS(json_get_bool(&at, &full));
        kind = full ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    }
    s->recompute = (enum plan_recompute)kind;
    return STATUS_OK;
}

/* Selective by its name; the other two as a truth value, as files had it before there were
 * three. */
static void write_recompute(struct json_writer *w, const void *from)
{
    const struct plan_stage *s = from;
    if (s->recompute == RECOMPUTE_SELECTIVE)
        json_put_string(w, "recompute", plan_recompute_names[s->recompute]);
    else
        json_put_bool(w, "recompute", s->recompute == RECOMPUTE_FULL);
}

static enum status read_modules(const struct json_at *stage, void *into)
{
    return plan_get_modules(stage, &((struct plan_stage *)into)->recompute_modules);
}

static void write_modules(struct json_writer *w, const void *from)
{
    plan_put_modules(w, ((const struct plan_stage *)from)->recompute_modules);
}

#define STAGE(member) JSON_MEMBER(struct plan_stage, member), .min = 1, .max = MAX_REPLICAS
#define STAGE_LAYERS(member)                                                                       \
    JSON_MEMBER(struct plan_stage, member), .presence = FIELD_SPARE, .max = UINT32_MAX
static const struct json_row stage_rows[] = {
    {"replicas", STAGE(replicas)},
    {"tensor_parallel", STAGE(tensor_parallel)},
    {"expert_parallel", STAGE(expert_parallel), .usual = 1, .presence = FIELD_SPARE},
    {"context_parallel", STAGE(context_parallel), .usual = 1, .presence = FIELD_SPARE},
    {"recompute", .read = read_recompute, .write = write_recompute},
    {"recompute_layers", STAGE_LAYERS(recompute_layers), .usual = 0},
    {"recompute_unit", STAGE_LAYERS(recompute_unit), .usual = 1, .min = 1},
    {"recompute_modules", .read = read_modules, .write = write_modules},
    {"depth", STAGE(depth), .usual = 0, .presence = FIELD_SPARE},
    {0},
};
#undef STAGE
#undef STAGE_LAYERS

/* Ops of a stage may stand in any order in the file; devices keep theirs. */
static enum status read_stage(const struct json_at *at, const struct names *names,
                              struct plan_stage *s)
{
    s->replicas = s->tensor_parallel = s->expert_parallel = s->context_parallel = 1;
    s->recompute_unit = 1;
    PASS(json_check_keys(at, "ops devices", JSON_TABLES(stage_rows)));
    PASS(read_names(at, "ops", "op", names->op, names->ops, &s->op, &s->ops));
    qsort(s->op, s->ops, sizeof *s->op, order_by_id);
    PASS(read_names(at, "devices", "device", names->device, names->devices, &s->device,
                    &s->devices));
    return json_rows_read(at, stage_rows, s);
}

static enum status check_optimizer(const struct json_at *root, void *into)
{
    const struct plan *p = into;
    struct json_at at;
    PASS(json_field(root, "optimizer", &at));
    struct optimizer o;
    enum status st = optimizer_of(p->optimizer, &o);
    return st == STATUS_INVALID ? json_error(&at, "%s", error_message()) : st;
}

static enum status read_framework(const struct json_at *root, void *into)
{
    struct plan *p = into;
    struct json_at at;
    const char *text;
    PASS(json_optional(root, "framework", &at));
    if (!at.value)
        return STATUS_OK;
    PASS(json_get_string(&at, &text));
    enum status st = plan_set_framework(p, text);
    return st == STATUS_INVALID ? json_error(&at, "%s", error_message()) : st;
}

static void write_framework(struct json_writer *w, const void *from)
{
    const struct plan *p = from;
    if (p->framework)
        json_put_string(w, "framework", p->framework);
}

#define PLAN(member) JSON_MEMBER(struct plan, member)
static const struct json_row head_rows[] = {
    {"schedule", PLAN(schedule), FIELD_NEED},
    {"microbatches", PLAN(microbatches), FIELD_NEED, .min = 1, .max = PLAN_MICROBATCHES},
    {"microbatch_size", PLAN(microbatch_size), FIELD_NEED, .min = 1, .max = PLAN_MICROBATCHES},
    {"optimizer", PLAN(optimizer), FIELD_NEED},
    {"optimizer", .read = check_optimizer},
    {"zero", PLAN(zero), FIELD_SPARE, .max = 3},
    {"zero_keep", PLAN(zero_keep), FIELD_SPARE},
    {"zero_group", PLAN(zero_group), FIELD_SPARE, .max = MAX_REPLICAS},
    {"bucket_bytes", PLAN(bucket_bytes), FIELD_SPARE, .max = INT64_MAX / 65536},
    {"reduce_dtype", FIELD_CHOICE, offsetof(struct plan, reduce_dtype), FIELD_SPARE,
     .name = data_type_names, .names = DATA_TYPES},
    {"sequence_parallel", PLAN(sequence_parallel), FIELD_SPARE},
    {"tensor_overlap", PLAN(tensor_overlap), FIELD_SPARE},
    {"p2p_scatter", PLAN(p2p_scatter), FIELD_SPARE},
    {"expert_imbalance", PLAN(expert_imbalance), FIELD_SPARE, .min = 1, .max = MAX_REPLICAS},
    {"context_exchange", FIELD_CHOICE, offsetof(struct plan, context_exchange), FIELD_SPARE,
     .name = plan_exchange_names, .names = EXCHANGE_KINDS},
    {"offload", FIELD_CHOICE, offsetof(struct plan, offload), FIELD_SPARE,
     .name = plan_offload_names, .names = OFFLOAD_KINDS},
    {"framework", .read = read_framework, .write = write_framework},
    {"seed", PLAN(seed)},
    {"algorithm", PLAN(algorithm)},
    {"objective_s", PLAN(objective_s)},
    {0},
};
#undef PLAN

/* Sorted once per file: plans name every op. */
static enum status index_names(const struct model *m, const struct topology *t, struct names *n)
{
    PASS(ARRAY_NEW(n->op, m->n));
    PASS(ARRAY_NEW(n->device, t->n));
    n->ops = m->n;
    n->devices = t->n;
    for (uint32_t i = 0; i < m->n; i++)
        n->op[i] = (struct json_name){m->op[i].name, i};
    for (uint32_t i = 0; i < t->n; i++)
        n->device[i] = (struct json_name){t->device[i], i};
    json_names_sort(n->op, n->ops);
    json_names_sort(n->device, n->devices);
    return STATUS_OK;
}

/* Steps: (1) names of ops and devices, sorted; (2) the head; (3) stages; (4) the contract of plans,
 * whose messages are given the place of the stages in the file. */
enum status plan_read(const struct json_document *d, const struct model *m,
                      const struct topology *t, struct plan *out)
{
    enum status st;
    struct plan p = {.objective_s = NAN};
    struct names names = {0};
    struct json_at root = json_root(d), stages;
    size_t n;

    TRY(json_check_keys(&root, "model model_sha256 platform platform_sha256 stages steps operators",
                        JSON_TABLES(head_rows)));
    TRY(index_names(m, t, &names));
    TRY(plan_references(d, &p.model, &p.platform));
    TRY(json_rows_read(&root, head_rows, &p));
    TRY(json_field(&root, "stages", &stages));
    TRY(json_get_array(&stages, m->n, &n));
    TRY(ARRAY_NEW(p.stage, n));
    for (size_t s = 0; s < n; s++) {
        struct json_at item = json_item(&stages, s);
        p.stages++;
        TRY(read_stage(&item, &names, &p.stage[s]));
    }
    TRY(plan_get_steps(&root, m, &p));
    st = plan_check(&p, m, t);
    if (st == STATUS_INVALID)
        st = json_error(&stages, "%s", error_message());
    if (st != STATUS_OK)
        goto out;
    MOVE(out, p);
out:
    plan_free(&p);
    free(names.op);
    free(names.device);
    return st;
}

static void put_stage(struct json_writer *w, const struct plan_stage *s, const struct model *m,
                      const struct topology *t)
{
    json_open_object(w, NULL, false);
    json_open_array(w, "ops", true);
    for (size_t k = 0; k < s->ops; k++)
        json_put_string(w, NULL, m->op[s->op[k]].name);
    json_close(w);
    json_open_array(w, "devices", true);
    for (size_t k = 0; k < s->devices; k++)
        json_put_string(w, NULL, t->device[s->device[k]]);
    json_close(w);
    json_rows_write(w, stage_rows, s);
    json_close(w);
}

/* A name, or a path relative to the folder of the plan and what the file holds. */
static enum status put_reference(struct json_writer *w, const char *key, const char *reference,
                                 const char *path)
{
    enum status st;
    char *relative = NULL, name[HASH_KEY], hash[PATH_HASH];
    TRY(path_reference(reference, path, &relative));
    json_put_string(w, key, relative);
    path_hash(reference, hash);
    hash_key(key, name);
    if (*hash)
        json_put_string(w, name, hash);
out:
    free(relative);
    return st;
}

enum status plan_write(const struct plan *p, const struct model *m, const struct topology *t,
                       const char *path, const struct provenance *by)
{
    enum status st;
    struct file_out f = {0};
    TRY(file_create(path, &f));
    struct json_writer w = {.stream = f.stream};
    json_put_header(&w, plan_format, PLAN_VERSION, by);
    TRY(put_reference(&w, "model", p->model, path));
    TRY(put_reference(&w, "platform", p->platform, path));
    json_rows_write(&w, head_rows, p);
    json_open_array(&w, "stages", false);
    for (size_t s = 0; s < p->stages; s++)
        put_stage(&w, &p->stage[s], m, t);
    json_close(&w);
    plan_put_steps(&w, p, m);
    json_close(&w);
    TRY(file_commit(&f));
out:
    file_discard(&f);
    return st;
}
