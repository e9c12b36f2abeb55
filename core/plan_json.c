#include "core/plan.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/model.h"
#include "core/path.h"
#include "core/topology.h"

const char plan_format[] = "foreline-plan";
enum { MAX_MICROBATCHES = 10000000, MAX_REPLICAS = 1000000 };

static enum status field_count(const struct json_at *object, const char *key, int64_t max,
                               int64_t fallback, uint32_t *out)
{
    enum status st;
    struct json_at at;
    int64_t value = fallback;
    TRY(fallback ? json_optional(object, key, &at) : json_field(object, key, &at));
    if (at.value)
        TRY(json_get_integer(&at, 1, max, &value));
    *out = (uint32_t)value;
out:
    return st;
}

enum status plan_references(const struct json_document *d, char **model, char **platform)
{
    enum status st;
    struct json_at root = json_root(d);
    char *first = NULL;
    TRY(json_need_text(&root, "model", &first));
    TRY(json_need_text(&root, "platform", platform));
    *model = first;
    first = NULL;
out:
    free(first);
    return st;
}

/* Names to indices by binary search. */
struct named {
    const char *name;
    uint32_t index;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static enum status look_up(const struct json_at *names, size_t n, const struct named *index,
                           size_t known, const char *what, uint32_t *out)
{
    enum status st = STATUS_OK;
    for (size_t k = 0; k < n; k++) {
        struct json_at item = json_item(names, k);
        struct named key = {0};
        TRY(json_get_string(&item, &key.name));
        const struct named *found = bsearch(&key, index, known, sizeof *index, by_name);
        if (!found)
            return json_error(&item, "no %s is called '%.100s'", what, key.name);
        out[k] = found->index;
    }
out:
    return st;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

struct names {
    size_t ops, devices;
    struct named *op, *device; /* sorted */
};

/* false, true (full) or a name. */
static enum status read_recompute(const struct json_at *stage, enum plan_recompute *out)
{
    enum status st;
    struct json_at at;
    bool full = false;
    size_t kind = RECOMPUTE_NONE;
    TRY(json_optional(stage, "recompute", &at));
    if (at.value && json_holds_text(&at)) {
        TRY(json_may_choice(stage, "recompute", plan_recompute_names, RECOMPUTE_KINDS, &kind));
    } else if (at.value) {
        TRY(json_get_bool(&at, &full));
        kind = full ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    }
    *out = (enum plan_recompute)kind;
out:
    return st;
}

static enum status read_stage(const struct json_at *at, const struct names *names,
                              struct plan_stage *s)
{
    enum status st;
    struct json_at list;
    TRY(json_field(at, "ops", &list));
    TRY(json_get_array(&list, names->ops, &s->ops));
    if (!(s->op = calloc(s->ops + 1, sizeof *s->op)))
        return error_set(STATUS_NOMEM, "out of memory");
    TRY(look_up(&list, s->ops, names->op, names->ops, "op", s->op));
    qsort(s->op, s->ops, sizeof *s->op, by_number);
    TRY(json_field(at, "devices", &list));
    TRY(json_get_array(&list, names->devices, &s->devices));
    if (!(s->device = calloc(s->devices + 1, sizeof *s->device)))
        return error_set(STATUS_NOMEM, "out of memory");
    TRY(look_up(&list, s->devices, names->device, names->devices, "device", s->device));
    TRY(field_count(at, "replicas", MAX_REPLICAS, 1, &s->replicas));
    TRY(field_count(at, "tensor_parallel", MAX_REPLICAS, 1, &s->tensor_parallel));
    TRY(field_count(at, "expert_parallel", MAX_REPLICAS, 1, &s->expert_parallel));
    TRY(read_recompute(at, &s->recompute));
out:
    return st;
}

static enum status read_head(const struct json_at *root, struct plan *p)
{
    enum status st;
    struct json_at at;
    int64_t seed = 0, zero = 0;
    TRY(json_need_text(root, "model", &p->model));
    TRY(json_need_text(root, "platform", &p->platform));
    TRY(json_need_text(root, "schedule", &p->schedule));
    TRY(json_need_text(root, "optimizer", &p->optimizer));
    TRY(json_field(root, "optimizer", &at));
    if (strcmp(p->optimizer, "adam") != 0 && strcmp(p->optimizer, "sgd") != 0)
        return json_error(&at, "no optimizer is called '%.60s'; there are adam, sgd", p->optimizer);
    TRY(json_may_text(root, "algorithm", &p->algorithm));
    TRY(json_may_integer(root, "seed", 0, INT64_MAX, &seed));
    p->seed = (uint64_t)seed;
    p->objective_s = NAN;
    TRY(json_may_real(root, "objective_s", 0, DBL_MAX, &p->objective_s));
    TRY(field_count(root, "microbatches", MAX_MICROBATCHES, 0, &p->microbatches));
    TRY(field_count(root, "microbatch_size", MAX_MICROBATCHES, 0, &p->microbatch_size));
    TRY(json_may_integer(root, "zero", 0, 3, &zero));
    p->zero = (uint32_t)zero;
    TRY(json_may_integer(root, "bucket_bytes", 0, INT64_MAX / 65536, &p->bucket_bytes));
    TRY(json_may_bool(root, "sequence_parallel", &p->sequence_parallel));
out:
    return st;
}

static enum status index_names(const struct model *m, const struct topology *t, struct names *n)
{
    n->op = calloc(m->n + 1, sizeof *n->op);
    n->device = calloc(t->n + 1, sizeof *n->device);
    if (!n->op || !n->device)
        return error_set(STATUS_NOMEM, "out of memory");
    n->ops = m->n;
    n->devices = t->n;
    for (uint32_t i = 0; i < m->n; i++)
        n->op[i] = (struct named){m->op[i].name, i};
    for (uint32_t i = 0; i < t->n; i++)
        n->device[i] = (struct named){t->device[i], i};
    qsort(n->op, n->ops, sizeof *n->op, by_name);
    qsort(n->device, n->devices, sizeof *n->device, by_name);
    return STATUS_OK;
}

enum status plan_read(const struct json_document *d, const struct model *m,
                      const struct topology *t, struct plan *out)
{
    enum status st;
    struct plan p = {0};
    struct names names = {0};
    struct json_at root = json_root(d), stages;
    size_t n;

    TRY(index_names(m, t, &names));
    TRY(read_head(&root, &p));
    TRY(json_field(&root, "stages", &stages));
    TRY(json_get_array(&stages, m->n, &n));
    if (!(p.stage = calloc(n + 1, sizeof *p.stage))) {
        st = error_set(STATUS_NOMEM, "%s: out of memory", d->path);
        goto out;
    }
    for (size_t s = 0; s < n; s++) {
        struct json_at item = json_item(&stages, s);
        p.stages++;
        TRY(read_stage(&item, &names, &p.stage[s]));
    }
    st = plan_check(&p, m, t);
    if (st == STATUS_INVALID)
        st = json_error(&stages, "%s", error_message());
    if (st != STATUS_OK)
        goto out;
    *out = p;
    p = (struct plan){0};
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
    json_put_integer(w, "replicas", s->replicas);
    json_put_integer(w, "tensor_parallel", s->tensor_parallel);
    if (s->expert_parallel > 1)
        json_put_integer(w, "expert_parallel", s->expert_parallel);
    if (s->recompute == RECOMPUTE_SELECTIVE)
        json_put_string(w, "recompute", plan_recompute_names[s->recompute]);
    else
        json_put_bool(w, "recompute", s->recompute == RECOMPUTE_FULL);
    json_close(w);
}

/* A name, or a path relative to the folder of the plan and what the file holds. */
static enum status put_reference(struct json_writer *w, const char *key, const char *reference,
                                 const char *path)
{
    enum status st;
    char *relative = NULL, hash_key[32], hash[PATH_HASH];
    TRY(path_reference(reference, path, &relative));
    json_put_string(w, key, relative);
    path_hash(reference, hash);
    snprintf(hash_key, sizeof hash_key, "%s_sha256", key);
    if (*hash)
        json_put_string(w, hash_key, hash);
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
    json_put_string(&w, "schedule", p->schedule);
    json_put_integer(&w, "microbatches", p->microbatches);
    json_put_integer(&w, "microbatch_size", p->microbatch_size);
    json_put_string(&w, "optimizer", p->optimizer);
    if (p->zero > 0)
        json_put_integer(&w, "zero", p->zero);
    if (p->bucket_bytes > 0)
        json_put_integer(&w, "bucket_bytes", p->bucket_bytes);
    if (p->sequence_parallel)
        json_put_bool(&w, "sequence_parallel", true);
    json_put_integer(&w, "seed", (int64_t)p->seed);
    json_put_string(&w, "algorithm", p->algorithm);
    json_put_real(&w, "objective_s", p->objective_s);
    json_open_array(&w, "stages", false);
    for (size_t s = 0; s < p->stages; s++)
        put_stage(&w, &p->stage[s], m, t);
    json_close(&w);
    json_close(&w);
    TRY(file_commit(&f));
out:
    file_discard(&f);
    return st;
}
