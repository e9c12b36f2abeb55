/* PipeDream's runtime: JSON that says for every module of a model its stage, for every stage its
 * ranks, and maybe how many forwards come before its first backward. Names: msr-fiddle/pipedream
 * runtime.
 *
 *     {"module_to_stage_map": [0, 1, 1], "stage_to_rank_map": {"0": [0, 1, 2], "1": [3]},
 *      "stage_to_depth_map": {"0": 1, "1": 0}, "macrobatch": true}
 *
 * The last key is foreline's, for PipeDream says that on the command line, and ignores keys it does
 * not know. The last module is the criterion, which is the model's op of kind "loss" if it has one.
 * Modules are what --split-at says, else what the ops' attribute "stage" does (stage_id of a
 * graph.txt), else ops. */
#include "papers/pipedream/runtime.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/text.h"
#include "core/data/model.h"
#include "core/data/topology.h"
#include "core/schedule/schedule.h"
#include "partition/partition.h"
#include "study/settings.h"

enum {
    MODULES_MOST = 1 << 20,
    RANKS_MOST = 1 << 20,
    DEPTH_MOST = 1 << 16,
    SHOWN = 8, /* stages in a line about the file */
    MICROBATCHES = 8
};

static const char modules_key[] = "module_to_stage_map", ranks_key[] = "stage_to_rank_map",
                  depths_key[] = "stage_to_depth_map", macrobatch_key[] = "macrobatch";

struct conf_stage {
    size_t ranks;
    uint32_t *rank; /* [ranks] */
    uint32_t depth; /* as in struct plan_stage: one more than the file says; 0: not said */
};

struct conf {
    size_t modules, stages;
    bool macrobatch;
    uint32_t *stage_of; /* [modules] */
    struct conf_stage *stage;
};

/* ---- reading */

static enum status pipedream_runtime_read_modules(const struct json_at *root, struct arena *memory,
                                                  struct conf *c)
{
    struct json_at list;
    bool *has;
    PASS(json_field(root, modules_key, &list));
    PASS(json_get_array(&list, MODULES_MOST, &c->modules));
    if (c->modules == 0)
        return json_error(&list, "no modules");
    PASS(ARENA_NEW(memory, c->stage_of, c->modules));
    PASS(ARENA_NEW(memory, has, c->modules));
    for (size_t i = 0; i < c->modules; i++) {
        struct json_at item = json_item(&list, i);
        int64_t stage;
        PASS(json_get_integer(&item, 0, (int64_t)c->modules - 1, &stage));
        c->stage_of[i] = (uint32_t)stage;
        has[stage] = true;
        c->stages = (size_t)stage >= c->stages ? (size_t)stage + 1 : c->stages;
    }
    for (size_t s = 0; s < c->stages; s++)
        if (!has[s])
            return json_error(&list, "stage %zu has no module, but stage %zu has one", s,
                              c->stages - 1);
    PASS(ARENA_NEW(memory, c->stage, c->stages));
    return STATUS_OK;
}

/* The stage that a key is the number of. */
static enum status pipedream_runtime_read_key(const struct json_at *member, const struct conf *c,
                                              size_t *stage)
{
    uint64_t number;
    if (!text_count(member->key, c->stages - 1, &number))
        return json_error(member, "unknown stage, expected one of the stages 0 to %zu of key %s",
                          c->stages - 1, modules_key);
    *stage = (size_t)number;
    return STATUS_OK;
}

/* Ranks are unique over all stages. */
static enum status pipedream_runtime_read_ranks(const struct json_at *root, struct arena *memory,
                                                struct conf *c)
{
    struct json_at map;
    bool *used;
    PASS(json_field(root, ranks_key, &map));
    if (json_kind(&map) != JSON_IS_OBJECT)
        return json_error(&map, "expected an object of stages and their ranks");
    PASS(ARENA_NEW(memory, used, RANKS_MOST));
    for (struct json_at list = json_first(&map); list.key; list = json_next(&list)) {
        size_t s = 0;
        PASS(pipedream_runtime_read_key(&list, c, &s));
        struct conf_stage *stage = &c->stage[s];
        if (stage->ranks > 0)
            return json_error(&list, "stage %zu is listed twice", s);
        PASS(json_get_array(&list, RANKS_MOST, &stage->ranks));
        if (stage->ranks == 0)
            return json_error(&list, "stage %zu has no ranks", s);
        PASS(ARENA_NEW(memory, stage->rank, stage->ranks));
        for (size_t k = 0; k < stage->ranks; k++) {
            struct json_at item = json_item(&list, k);
            int64_t rank;
            PASS(json_get_integer(&item, 0, RANKS_MOST - 1, &rank));
            if (used[rank])
                return json_error(&item, "rank %" PRId64 " is listed twice", rank);
            used[rank] = true;
            stage->rank[k] = (uint32_t)rank;
        }
    }
    for (size_t s = 0; s < c->stages; s++)
        if (c->stage[s].ranks == 0)
            return json_error(&map, "stage %zu has no ranks", s);
    return STATUS_OK;
}

static enum status read_depths(const struct json_at *root, struct conf *c)
{
    struct json_at map;
    PASS(json_optional(root, depths_key, &map));
    if (!map.value)
        return STATUS_OK;
    if (json_kind(&map) != JSON_IS_OBJECT)
        return json_error(&map, "expected an object of stages and their depths");
    for (struct json_at member = json_first(&map); member.key; member = json_next(&member)) {
        int64_t depth;
        size_t s = 0;
        PASS(pipedream_runtime_read_key(&member, c, &s));
        PASS(json_get_integer(&member, 0, DEPTH_MOST - 1, &depth));
        c->stage[s].depth = (uint32_t)depth + 1;
    }
    for (size_t s = 0; s < c->stages; s++)
        if (c->stage[s].depth == 0)
            return json_error(&map, "stage %zu has no depth", s);
    return STATUS_OK;
}

/* Keys of the file that mean something here, and all that is in them. */
static void use_keys(struct keys *k)
{
    const char *const known[] = {modules_key, ranks_key, depths_key, macrobatch_key};
    for (size_t i = 0; i < k->n; i++)
        for (size_t j = 0; j < sizeof known / sizeof *known; j++) {
            size_t n = strlen(known[j]);
            bool is = !strncmp(k->key[i].name, known[j], n) &&
                      (k->key[i].name[n] == '\0' || k->key[i].name[n] == '.');
            k->key[i].used = k->key[i].used || is;
        }
}

/* The file is JSON, which says more about itself than a list of keys: it is read once more,
 * strictly. */
static enum status pipedream_runtime_after(struct setup *s)
{
    enum status st;
    struct json_document d = {0};
    struct conf *c;
    TRY(ARENA_NEW(&s->keys->memory, c, 1));
    TRY(json_parse(s->keys->path, s->keys->text, s->keys->length, NULL, 0, &d));
    struct json_at root = json_root(&d);
    TRY(pipedream_runtime_read_modules(&root, &s->keys->memory, c));
    TRY(pipedream_runtime_read_ranks(&root, &s->keys->memory, c));
    TRY(read_depths(&root, c));
    TRY(json_may_bool(&root, macrobatch_key, &c->macrobatch));
    use_keys(s->keys);
    for (size_t k = 0; k < c->stages; k++)
        for (size_t i = 0; i < c->stage[k].ranks; i++)
            if ((int64_t)c->stage[k].rank[i] >= s->devices)
                s->devices = (int64_t)c->stage[k].rank[i] + 1;
    s->conf = c;
out:
    json_document_free(&d);
    return st;
}

/* "pipedream: 3 modules in 2 stages on 3 + 1 ranks, warm-up 1, 0" */
static void pipedream_runtime_print(const struct setup *s, FILE *out)
{
    const struct conf *c = s->conf;
    fprintf(out, "pipedream: %zu module%s in %zu stage%s on ", c->modules,
            c->modules == 1 ? "" : "s", c->stages, c->stages == 1 ? "" : "s");
    for (size_t k = 0; k < c->stages && k < SHOWN; k++)
        fprintf(out, "%s%zu", k ? " + " : "", c->stage[k].ranks);
    fprintf(out, "%s rank%s", c->stages > SHOWN ? " + ..." : "",
            c->stages == 1 && c->stage[0].ranks == 1 ? "" : "s");
    for (size_t k = 0; k < c->stages && k < SHOWN && c->stage[0].depth > 0; k++)
        fprintf(out, "%s%u", k ? ", " : ", warm-up ", c->stage[k].depth - 1);
    fprintf(out, "%s\n", c->stages > SHOWN && c->stage[0].depth > 0 ? ", ..." : "");
}

/* ---- modules of a model */

/* The first op behind --split-at's names begins module 1, and so on. */
static enum status split_modules(const struct arguments *a, const struct model *m,
                                 struct arena *memory, uint32_t *module_of, size_t *modules)
{
    size_t *first;
    double objective_s;
    const struct partition_request r = {.split_at = a->split_at,
                                        .stages = partition_split_stages(a->split_at)};
    const struct partition_problem p = {.m = m, .r = &r};
    PASS(ARENA_NEW(memory, first, r.stages));
    PASS(partition_manual.cut(&p, first, &objective_s));
    for (size_t i = 0, module = 0; i < m->n; i++) {
        module += module + 1 < r.stages && first[module + 1] == i;
        module_of[i] = (uint32_t)module;
    }
    *modules = r.stages;
    return STATUS_OK;
}

/* What is of no module joins its first reader. */
static bool attributed_modules(const struct model *m, uint32_t *module_of, size_t *modules)
{
    *modules = 0;
    for (size_t i = m->n; i-- > 0;) {
        int64_t module = model_attribute(&m->op[i], "stage", -1);
        for (size_t k = m->out_start[i]; module < 0 && k < m->out_start[i + 1]; k++)
            module = module_of[m->out[k]];
        if (module < 0 || module >= MODULES_MOST)
            return false;
        module_of[i] = (uint32_t)module;
        *modules = (size_t)module >= *modules ? (size_t)module + 1 : *modules;
    }
    return true;
}

static enum status find_modules(struct setup *s, const struct arguments *a, const struct model *m,
                                uint32_t *module_of)
{
    const struct conf *c = s->conf;
    bool criterion = model_op_is(&m->op[m->n - 1], OPERATOR_LOSS);
    size_t modules = m->n;
    if (a->split_at) {
        PASS(split_modules(a, m, &s->keys->memory, module_of, &modules));
    } else if (!attributed_modules(m, module_of, &modules)) {
        modules = m->n;
        for (size_t i = 0; i < m->n; i++)
            module_of[i] = (uint32_t)i;
    }
    if (c->modules == modules)
        return STATUS_OK;
    if (c->modules != modules + 1)
        return error_set(STATUS_INVALID,
                         "%s: got %zu modules, but '%s' has %zu%s; name the first op of each "
                         "module with --split-at OP,OP",
                         s->keys->path, c->modules, m->name, modules,
                         a->split_at ? "" : " ops or stages");
    if (criterion)
        module_of[m->n - 1] = (uint32_t)modules;
    else
        return setup_add_note(s, NOTE_ASSUMED,
                              "the last module is the loss, which '%s' does not contain as an op",
                              m->name);
    return STATUS_OK;
}

/* ---- to plans */

static enum status pipedream_runtime_make_stages(const struct conf *c, const struct model *m,
                                                 const uint32_t *module_of, const char *path,
                                                 struct plan *p)
{
    PASS(ARRAY_NEW(p->stage, c->stages));
    for (size_t s = 0; s < c->stages; s++) {
        const struct conf_stage *from = &c->stage[s];
        struct plan_stage *to =
            &p->stage[p->stages++]; /* counts as it is begun: it may hold some */
        *to = (struct plan_stage){.replicas = (uint32_t)from->ranks, .depth = from->depth};
        to->own = strategy_at_least_usual(&to->own);
        PASS(ARRAY_COPY(to->device, from->rank, from->ranks));
        to->devices = from->ranks;
        PASS(ARRAY_NEW(to->op, m->n));
        for (uint32_t i = 0; i < m->n; i++)
            if (c->stage_of[module_of[i]] == s)
                to->op[to->ops++] = i;
        if (to->ops == 0)
            return error_set(STATUS_INVALID, "%s: no module of stage %zu contains an op of '%s'",
                             path, s, m->name);
    }
    return STATUS_OK;
}

static enum status pipedream_runtime_to_plan(struct setup *s, const struct arguments *a,
                                             const struct model *m, const struct topology *t,
                                             struct plan *out)
{
    enum status st;
    struct plan p = {.objective_s = NAN, .seed = 1};
    uint32_t *module_of;
    const struct conf *c = s->conf;
    if ((size_t)s->devices > t->n)
        return error_set(STATUS_INVALID,
                         "%s: rank %" PRId64 " is listed, but '%s' has only %zu devices",
                         s->keys->path, s->devices - 1, t->name, t->n);
    TRY(ARENA_NEW(&s->keys->memory, module_of, m->n));
    TRY(find_modules(s, a, m, module_of));
    TRY(pipedream_runtime_make_stages(c, m, module_of, s->keys->path, &p));
    for (size_t k = 0; a->port.no_input_pipelining && k < p.stages; k++)
        p.stage[k].depth = 1;
    p.microbatches =
        a->microbatches ? (uint32_t)a->microbatches : plan_even_microbatches(&p, MICROBATCHES);
    p.microbatch_size = a->microbatch_size ? (uint32_t)a->microbatch_size : 1;
    TRY(text_copy(a->schedule     ? a->schedule
                  : c->macrobatch ? schedule_macrobatch.name
                                  : schedule_pipedream.name,
                  &p.schedule));
    for (size_t k = 0; k < p.stages; k++)
        p.stage[k].recompute = a->recompute;
    TRY(text_copy(a->optimizer, &p.optimizer));
    TRY(text_copy("import", &p.algorithm));
    st = plan_check(&p, m, t);
    if (st == STATUS_INVALID)
        st = error_context(st, "%s", s->keys->path);
    TRY(st);
    MOVE(out, p);
out:
    plan_free(&p);
    return st;
}

/* ---- from plans */

static enum status check_expressible(const struct plan *p)
{
    if (strcmp(p->schedule, schedule_pipedream.name) != 0 &&
        strcmp(p->schedule, schedule_macrobatch.name) != 0)
        return error_set(
            STATUS_UNSUPPORTED,
            "schedule %s is unsupported, because PipeDream's runtime updates after every backward",
            p->schedule);
    if (p->bucket_bytes > 0)
        return error_set(STATUS_UNSUPPORTED, "gradient buckets (--bucket) are unsupported");
    if (p->reduce_dtype != DATA_ANY)
        return error_set(STATUS_UNSUPPORTED, "--reduce-dtype is unsupported");
    for (size_t s = 0; s < p->stages; s++) {
        const struct plan_stage *stage = &p->stage[s];
        const struct strategy_stage usual = strategy_at_least_usual(&(struct strategy_stage){0});
        const struct strategy_knob *other = strategy_differs(
            STRATEGY_STAGE, ~(KNOB_BIT(replicas) | KNOB_BIT(depth)), &usual, &stage->own);
        const char *what = other ? other->what
                           : (stage->depth > 0) != (p->stage[0].depth > 0)
                               ? "a depth in only some of the stages"
                               : NULL;
        if (what)
            return error_set(STATUS_UNSUPPORTED, "%s is unsupported (stage %zu)", what, s);
    }
    return STATUS_OK;
}

/* Ranks are numbered as the devices are. */
static uint32_t pipedream_runtime_rank_of(const struct plan *p, uint32_t device)
{
    uint32_t rank = 0;
    for (size_t s = 0; s < p->stages; s++)
        for (size_t k = 0; k < p->stage[s].devices; k++)
            rank += p->stage[s].device[k] < device;
    return rank;
}

/* A module for each stage, and the criterion, unless it is a stage by itself. O(devices^2). */
static enum status pipedream_runtime_from_plan(const struct plan *p, const struct model *m,
                                               FILE *out)
{
    struct json_writer w = {.stream = out};
    const struct plan_stage *last = &p->stage[p->stages - 1];
    bool alone = last->ops == 1 && model_op_is(&m->op[last->op[0]], OPERATOR_LOSS);
    char key[32];
    PASS(check_expressible(p));
    json_open_object(&w, NULL, false);
    json_open_array(&w, modules_key, true);
    for (size_t s = 0; s < p->stages + !alone; s++)
        json_put_integer(&w, NULL, (int64_t)(s < p->stages ? s : p->stages - 1));
    json_close(&w);
    json_open_object(&w, ranks_key, false);
    for (size_t s = 0; s < p->stages; s++) {
        snprintf(key, sizeof key, "%zu", s);
        json_open_array(&w, key, true);
        for (size_t k = 0; k < p->stage[s].devices; k++)
            json_put_integer(&w, NULL, pipedream_runtime_rank_of(p, p->stage[s].device[k]));
        json_close(&w);
    }
    json_close(&w);
    if (p->stage[0].depth > 0) {
        json_open_object(&w, depths_key, false);
        for (size_t s = 0; s < p->stages; s++) {
            snprintf(key, sizeof key, "%zu", s);
            json_put_integer(&w, key, p->stage[s].depth - 1);
        }
        json_close(&w);
    }
    if (!strcmp(p->schedule, schedule_macrobatch.name))
        json_put_bool(&w, macrobatch_key, true);
    json_close(&w);
    return STATUS_OK;
}

const struct dialect pipedream_runtime = {
    .after = pipedream_runtime_after,
    .to_plan = pipedream_runtime_to_plan,
    .print = pipedream_runtime_print,
    .of_plan = pipedream_runtime_from_plan,
};
