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
#include "core/data/rules.h"
#include "core/data/topology.h"
#include "core/strategy/optimizer.h"

const char plan_format[] = "foreline-plan";
enum { HASH_KEY = 32 };

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
                          "%s has changed since the plan was made; make the plan again with "
                          "foreline plan, or delete key \"%s\" from the plan file",
                          found, name);
    return STATUS_OK;
}

/* The indices of the names in an array. */
static enum status plan_json_read_names(const struct json_at *object, const char *key,
                                        const char *what, const struct json_name *index,
                                        size_t known, uint32_t **out, size_t *n)
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
struct plan_names {
    size_t ops, devices;
    struct json_name *op, *device; /* sorted */
};

/* Ops of a stage may stand in any order in the file; devices keep theirs. */
static enum status plan_json_read_stage(const struct json_at *at, const struct plan_names *names,
                                        struct plan_stage *s)
{
    struct json_row rows[STRATEGY_KNOBS + 1];
    strategy_rows(STRATEGY_STAGE, rows);
    PASS(json_check_keys(at, "ops devices", JSON_TABLES(rows)));
    s->own = strategy_at_least_usual(&s->own);
    PASS(plan_json_read_names(at, "ops", "op", names->op, names->ops, &s->op, &s->ops));
    qsort(s->op, s->ops, sizeof *s->op, order_by_id);
    PASS(plan_json_read_names(at, "devices", "device", names->device, names->devices, &s->device,
                              &s->devices));
    return json_rows_read(at, rows, &s->own);
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
    {0},
};
/* Behind the knobs. */
static const struct json_row tail_rows[] = {
    {"framework", .read = read_framework, .write = write_framework},
    {"seed", PLAN(seed)},
    {"algorithm", PLAN(algorithm)},
    {"objective_s", PLAN(objective_s)},
    {0},
};
#undef PLAN

/* Sorted once per file: plans name every op. */
static enum status index_names(const struct model *m, const struct topology *t,
                               struct plan_names *n)
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

/* STATUS_PARSE where the knob stands that the rule is about: at the key of the plan or the
 * stage, or at the object that lacks it. */
static enum status complain(const struct rule *r, const struct rule_view *v,
                            const struct json_at *root, size_t stage, const char *behind)
{
    const struct strategy_knob *k = rule_subject(r);
    struct json_at stages, at = {0};
    char text[RULE_TEXT], message[RULE_TEXT + 32];
    PASS(json_field(root, "stages", &stages));
    const struct json_at item = json_item(&stages, stage),
                         *object = k && k->scope == STRATEGY_PLAN ? root : &item;
    if (k)
        PASS(json_optional(object, k->name, &at));
    snprintf(message, sizeof message, "%s%s", rule_print(r, v, false, text), behind);
    return json_complain(at.value ? &at : object, message);
}

/* Before plan_check(), which knows no places in the file. */
static enum status plan_json_check_rules(const struct json_at *root, const struct model *m,
                                         const struct plan *p)
{
    const struct rule_model model = rule_model_of(m);
    const struct rule_view v = rule_view_of_plan(p, &model);
    size_t stage;
    const struct rule *broken = rules_broken(&v, RULE_IMPOSSIBLE, &stage);
    return broken ? complain(broken, &v, root, stage, "") : STATUS_OK;
}

enum status plan_warn(const struct json_document *d, const struct plan *p, const struct model *m,
                      FILE *out)
{
    struct json_at root = json_root(d);
    const struct rule_model model = rule_model_of(m);
    struct rule_view v = rule_view_of_plan(p, &model);
    v.open &= ~KNOB_BIT(layers);
    for (size_t s = 0; s < p->stages; s++) {
        uint32_t n = plan_stage_layers(&p->stage[s], m);
        v.facts.layers = n > v.facts.layers ? n : v.facts.layers;
    }
    for (int i = 0; i < RULES; i++)
        if ((rule_table[i].kind & (RULE_NO_EFFECT | RULE_CLAMPED)) &&
            rule_is_broken(&v, (enum rule_id)i)) {
            bool none = rule_table[i].kind == RULE_NO_EFFECT;
            enum status st = complain(&rule_table[i], &v, &root, 0, none ? "; ignored" : "");
            if (st != STATUS_PARSE)
                return st;
            fprintf(out, "warning: %s\n", error_message());
        }
    return STATUS_OK;
}

/* Steps: (1) names of ops and devices, sorted; (2) the head; (3) stages; (4) the contract of plans,
 * whose messages are given the place of the stages in the file. */
enum status plan_read(const struct json_document *d, const struct model *m,
                      const struct topology *t, struct plan *out)
{
    enum status st;
    struct plan p = {.objective_s = NAN};
    struct plan_names names = {0};
    struct json_at root = json_root(d), stages;
    struct json_row rows[STRATEGY_KNOBS + 1];
    size_t n;

    strategy_rows(STRATEGY_PLAN, rows);
    TRY(json_check_keys(&root, "model model_sha256 platform platform_sha256 stages steps operators",
                        JSON_TABLES(head_rows, rows, tail_rows)));
    TRY(index_names(m, t, &names));
    TRY(plan_references(d, &p.model, &p.platform));
    TRY(json_rows_read(&root, head_rows, &p));
    TRY(json_rows_read(&root, rows, &p.shared));
    TRY(json_rows_read(&root, tail_rows, &p));
    TRY(json_field(&root, "stages", &stages));
    TRY(json_get_array(&stages, m->n, &n));
    TRY(ARRAY_NEW(p.stage, n));
    for (size_t s = 0; s < n; s++) {
        struct json_at item = json_item(&stages, s);
        p.stages++;
        TRY(plan_json_read_stage(&item, &names, &p.stage[s]));
    }
    TRY(plan_get_steps(&root, m, &p));
    TRY(plan_json_check_rules(&root, m, &p));
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

static void plan_json_put_stage(struct json_writer *w, const struct plan_stage *s,
                                const struct model *m, const struct topology *t)
{
    struct json_row rows[STRATEGY_KNOBS + 1];
    strategy_rows(STRATEGY_STAGE, rows);
    json_open_object(w, NULL, false);
    json_open_array(w, "ops", true);
    for (size_t k = 0; k < s->ops; k++)
        json_put_string(w, NULL, m->op[s->op[k]].name);
    json_close(w);
    json_open_array(w, "devices", true);
    for (size_t k = 0; k < s->devices; k++)
        json_put_string(w, NULL, t->device[s->device[k]]);
    json_close(w);
    json_rows_write(w, rows, &s->own);
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
    struct json_row rows[STRATEGY_KNOBS + 1];
    TRY(file_create(path, &f));
    struct json_writer w = {.stream = f.stream};
    json_put_header(&w, plan_format, PLAN_VERSION, by);
    TRY(put_reference(&w, "model", p->model, path));
    TRY(put_reference(&w, "platform", p->platform, path));
    json_rows_write(&w, head_rows, p);
    strategy_rows(STRATEGY_PLAN, rows);
    json_rows_write(&w, rows, &p->shared);
    json_rows_write(&w, tail_rows, p);
    json_open_array(&w, "stages", false);
    for (size_t s = 0; s < p->stages; s++)
        plan_json_put_stage(&w, &p->stage[s], m, t);
    json_close(&w);
    plan_put_steps(&w, p, m);
    json_close(&w);
    TRY(file_commit(&f));
out:
    file_discard(&f);
    return st;
}
