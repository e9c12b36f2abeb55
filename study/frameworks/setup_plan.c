/* Setups that become plans: what follows from what a file says, and stages of ops on devices. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/schedule/schedule.h"
#include "study/frameworks/setup.h"

enum { DEGREE_MOST = 1 << 20 };

/* ---- what follows */

/* What counts something there is one of is at least 1. */
static enum status check_degrees(struct setup *s)
{
    struct {
        const char *name;
        int64_t *value, least;
    } all[] = {{"pipeline", &s->pipeline, 1},
               {"virtual stages", &s->chunks, 1},
               {"microbatch", &s->microbatch_size, 1},
               {"accumulation", &s->accumulation, 1},
               {"GPUs per node", &s->per_node, -1},
               {"nodes", &s->nodes, -1},
               {"devices", &s->devices, -1}};
    if (s->microbatch_size < 1)
        PASS(setup_add_note(
            s, NOTE_ASSUMED,
            "microbatches of one sample (the file does not give the microbatch size)"));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (*all[i].value > DEGREE_MOST || *all[i].value < -1)
            return error_set(STATUS_INVALID, "%s: %s: got %" PRId64 ", expected 1 to %d",
                             s->keys->path, all[i].name, *all[i].value, DEGREE_MOST);
        if (*all[i].value < all[i].least)
            *all[i].value = all[i].least;
    }
    s->own = strategy_at_least_usual(&s->own);
    const struct strategy_knob *k = strategy_beyond(&s->shared, &s->own);
    if (k)
        return error_set(STATUS_INVALID, "%s: %s", s->keys->path,
                         strategy_say(k, &s->shared, &s->own, (char[STRATEGY_TEXT]){""}));
    if (s->expert_tensor > 0 && s->expert_parallel > 1 && s->expert_tensor != s->tensor_parallel)
        return setup_add_note(
            s, NOTE_LOST,
            "expert tensor parallelism %" PRId64
            ", because foreline splits experts over as many shards as the other layers",
            s->expert_tensor);
    return STATUS_OK;
}

/* The user's number, the file's, or its nodes with the usual 8 GPUs. */
static enum status count_devices(struct setup *s, int64_t devices)
{
    if (s->per_node < 1 && (s->nodes > 0 || devices >= 8)) {
        s->per_node = 8;
        if (s->nodes > 0 && s->devices < 1 && devices < 1)
            PASS(setup_add_note(s, NOTE_ASSUMED,
                                "8 GPUs on each of the %" PRId64
                                " nodes (the file does not give them; override with --gpus N)",
                                s->nodes));
    }
    if (devices > 0)
        s->devices = devices;
    else if (s->devices < 1 && s->nodes > 0)
        s->devices = s->nodes * s->per_node;
    else if (s->devices < 1)
        s->devices = s->per_node > 0 ? s->per_node : 0;
    return s->devices > 0 ? STATUS_OK
                          : error_set(STATUS_INVALID,
                                      "%s: the file does not give the number of GPUs; give it with "
                                      "--gpus N or --platform P",
                                      s->keys->path);
}

/* Replicas are what is left of the devices; microbatches follow from the batch, or the batch from
 * microbatches. Each division must come out, as it must in the frameworks. */
enum status setup_settle(struct setup *s, int64_t devices)
{
    PASS(check_degrees(s));
    PASS(count_devices(s, devices));
    int64_t one = s->tensor_parallel * s->pipeline * s->context_parallel;
    if (s->devices > DEGREE_MOST || one > DEGREE_MOST || s->devices % one != 0)
        return error_set(STATUS_INVALID,
                         "%s: %" PRId64 " GPUs are not a multiple of TP %u x PP %" PRId64
                         " x CP %u = %" PRId64 "; give their number with --gpus N",
                         s->keys->path, s->devices, s->tensor_parallel, s->pipeline,
                         s->context_parallel, one);
    int64_t replicas = s->devices / one;
    if (s->batch < 1) {
        s->accumulation = s->accumulation < 1 ? 1 : s->accumulation;
        s->batch = replicas * s->microbatch_size * s->accumulation;
    }
    if (s->batch % (replicas * s->microbatch_size) != 0)
        return error_set(STATUS_INVALID,
                         "%s: batch of %" PRId64 " samples is not a multiple of %" PRId64
                         " replicas x microbatch size %" PRId64,
                         s->keys->path, s->batch, replicas, s->microbatch_size);
    s->accumulation = s->batch / replicas / s->microbatch_size;
    s->replicas = (uint32_t)(replicas * s->context_parallel);
    if (s->replicas % s->expert_parallel != 0)
        return error_set(STATUS_INVALID,
                         "%s: %u replicas are not a multiple of expert parallelism %u; give the "
                         "number of GPUs with --gpus N",
                         s->keys->path, s->replicas, s->expert_parallel);
    return s->batch / s->microbatch_size <= 10000000
               ? STATUS_OK
               : error_set(STATUS_INVALID,
                           "%s: got %" PRId64 " microbatches, expected at most 10000000",
                           s->keys->path, s->batch / s->microbatch_size);
}

/* ---- layers of a model */

/* "h12.attn": 3, the letters of its layer; modules that predict further tokens are part of the
 * end. */
static size_t layer_letters(const char *name)
{
    size_t n = strcspn(name, ".");
    bool ends = name[n] == '.' && n > 0 && strchr("0123456789", name[n - 1]);
    return ends && strncmp(name, "mtp", 3) != 0 ? n : 0;
}

/* O(ops). */
enum status setup_layers(const struct model *m, struct setup_layers *out)
{
    size_t before = 0;
    const char *name = "";
    *out = (struct setup_layers){0};
    PASS(ARRAY_NEW(out->first, m->n + 1));
    for (size_t i = 0; i < m->n; i++) {
        size_t letters = layer_letters(m->op[i].name);
        if (letters > 0 && (letters != before || strncmp(m->op[i].name, name, letters) != 0))
            out->first[out->n++] = i;
        if (letters > 0)
            out->first[out->n] = i + 1;
        before = letters;
        name = m->op[i].name;
    }
    return STATUS_OK;
}

/* ---- stages */

static uint32_t setup_plan_device(const struct setup *s, int64_t team, int64_t replica,
                                  int64_t shard)
{
    if (!s->apart)
        return (uint32_t)(shard + s->tensor_parallel * (replica + s->replicas * team));
    int64_t context = replica % s->context_parallel, data = replica / s->context_parallel;
    return (uint32_t)(shard + s->tensor_parallel *
                                  (context + s->context_parallel * (team + s->pipeline * data)));
}

enum status setup_check_experts(struct setup *s, const struct model *m)
{
    uint32_t expert = s->expert_parallel;
    for (size_t i = 0; i < m->n; i++)
        if (m->op[i].exchange_bytes > 0)
            return STATUS_OK;
    s->expert_parallel = 1;
    return expert > 1
               ? setup_add_note(s, NOTE_LOST,
                                "expert parallelism of %u, because model '%s' has no experts",
                                expert, m->name)
               : STATUS_OK;
}

/* Frameworks take names of modules that a model does not have; they are noted. */
static enum status check_recompute(struct setup *s, const struct model *m)
{
    char text[PLAN_MODULES_TEXT];
    uint32_t asked = s->recompute_modules, known = asked ? asked & plan_modules_of(m) : 0;
    s->recompute_modules = known;
    if (asked && !known && s->recompute == RECOMPUTE_SELECTIVE)
        s->recompute = RECOMPUTE_NONE;
    strategy_settle(&s->shared, &s->own);
    return asked == known
               ? STATUS_OK
               : setup_add_note(s, NOTE_LOST,
                                "recomputation of modules %s, which model '%s' does not have",
                                plan_print_modules(asked & ~known, text), m->name);
}

/* Ops [first, last) on the devices of a team. */
static enum status setup_make_stage(const struct setup *s, size_t first, size_t last, int64_t team,
                                    struct plan_stage *out)
{
    out->own = s->own;
    PASS(ARRAY_NEW(out->op, last - first));
    for (size_t i = first; i < last; i++)
        out->op[out->ops++] = (uint32_t)i;
    PASS(ARRAY_NEW(out->device, (size_t)s->replicas * s->tensor_parallel));
    for (int64_t r = 0; r < s->replicas; r++)
        for (int64_t k = 0; k < s->tensor_parallel; k++)
            out->device[out->devices++] = setup_plan_device(s, team, r, k);
    return STATUS_OK;
}

/* The first op of a stage whose first layer is number `layer`: the end of the last layer when there
 * are no more. */
static size_t begin_of(const struct setup_layers *l, int64_t layer)
{
    return l->first[(size_t)layer < l->n ? (size_t)layer : l->n];
}

/* Embedding and what stands before the first layer are of the first stage, norm, head and loss of
 * the last one. */
static enum status make_stages(struct setup *s, const struct model *m, struct plan *p)
{
    enum status st;
    struct setup_layers l = {0};
    const struct schedule *schedule;
    int64_t layer = 0;
    TRY(setup_check_experts(s, m));
    TRY(check_recompute(s, m));
    TRY(schedule_find(s->schedule ? s->schedule : schedule_usual(s->chunks > 1), &schedule));
    TRY(setup_layers(m, &l));
    if (l.n == 0 && s->pipeline * s->chunks > 1)
        FAIL(STATUS_INVALID, "model '%s' has no layers to divide into stages", m->name);
    if (l.n > 0 || s->pipeline * s->chunks > 1)
        TRY(setup_cut(s, (int64_t)l.n));
    else
        s->stages = 1;
    TRY(ARRAY_NEW(p->stage, s->stages));
    for (size_t k = 0; k < s->stages; k++) {
        size_t first = k == 0 ? 0 : begin_of(&l, layer);
        layer += s->cut ? s->cut[k] : 0;
        size_t last = k + 1 == s->stages ? m->n : begin_of(&l, layer);
        if (first >= last)
            FAIL(STATUS_INVALID, "%s: stage %zu has no layers", s->keys->path, k);
        p->stages++;
        uint32_t team = schedule_team(schedule, (uint32_t)s->pipeline, (uint32_t)k);
        TRY(setup_make_stage(s, first, last, team, &p->stage[k]));
    }
out:
    free(l.first);
    return st;
}

/* What files say that means nothing beside the rest of them is left out. */
static void set_choices(struct setup *s, const struct model *m, struct plan *p)
{
    p->microbatches = (uint32_t)(s->batch / s->microbatch_size);
    p->microbatch_size = (uint32_t)s->microbatch_size;
    p->shared = s->shared;
    if (s->replicas == 1)
        p->zero = 0, p->bucket_bytes = 0;
    if (s->words.replicate > 1 && s->replicas % s->words.replicate == 0)
        p->zero_group = (uint32_t)(s->replicas / s->words.replicate);
    if (p->zero_group >= s->replicas)
        p->zero_group = 0;
    if (data_type_bytes(p->reduce_dtype) == m->element_bytes ||
        s->replicas == 1) /* nothing is summed */
        p->reduce_dtype = DATA_ANY;
    strategy_settle(&p->shared, &s->own);
    p->objective_s = NAN;
    p->seed = 1;
}

/* Names of the model and the platform are the caller's. */
enum status setup_to_plan(struct setup *s, const struct model *m, const struct topology *t,
                          struct plan *out)
{
    enum status st;
    struct plan p = {0};
    if ((size_t)s->devices > t->n)
        return error_set(STATUS_INVALID,
                         "%s: the plan needs %" PRId64 " GPUs, but platform '%s' has %zu",
                         s->keys->path, s->devices, t->name, t->n);
    TRY(make_stages(s, m, &p));
    set_choices(s, m, &p);
    TRY(text_copy(s->schedule ? s->schedule : schedule_usual(s->chunks > 1), &p.schedule));
    TRY(text_copy(s->optimizer ? "sgd" : "adam", &p.optimizer));
    TRY(text_copy("import", &p.algorithm));
    TRY(plan_check(&p, m, t));
    MOVE(out, p);
out:
    plan_free(&p);
    return st;
}
