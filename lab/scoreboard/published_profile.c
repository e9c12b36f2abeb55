/* Times of layers that others measured, and the rows whose models have such layers: Sailor's
 * profiles (Strati et al., SOSP 2025), {model: {GPU: {microbatch: {shards: {layer: [forward,
 * backward, update]}}}}} in seconds, where layer 0 is the embedding and the last one the head, and
 * what shards sum over each other is in the times. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/text.h"
#include "lab/scoreboard/published.h"
#include "topologies/catalogue.h"

enum { DEPTH = 4, KINDS = 1000, DEGREE = 65536, LAYERS = 10000 };
static const double longest_s = 1e6;

static enum status need_object(const struct json_at *at)
{
    return json_kind(at) == JSON_IS_OBJECT ? STATUS_OK : json_error(at, "expected an object");
}

bool published_is_profile(const struct json_at *root)
{
    struct json_at at = *root;
    for (int depth = 0; depth <= DEPTH; depth++) {
        if (json_kind(&at) != JSON_IS_OBJECT || json_members(&at) == 0)
            return false;
        at = json_first(&at);
    }
    return json_kind(&at) == JSON_IS_ARRAY;
}

static enum status count_of(const struct json_at *at, uint64_t least, uint64_t most, uint64_t *out)
{
    return text_count(at->key, most, out) && *out >= least
               ? STATUS_OK
               : json_error(at, "expected a whole number as the key");
}

/* The layers of one degree. */
static enum status read_layers(const struct json_at *at, struct published *p,
                               struct published_profile *x)
{
    x->layers = json_members(at);
    if (x->layers < 3 || x->layers > LAYERS)
        return json_error(at, "got %zu parts, expected 3 to %d: an embedding, layers and a head",
                          x->layers, LAYERS);
    PASS(ARENA_NEW(&p->memory, x->time, x->layers));
    for (struct json_at list = json_first(at); list.key; list = json_next(&list)) {
        uint64_t layer;
        size_t n;
        PASS(count_of(&list, 0, x->layers - 1, &layer));
        PASS(json_get_array(&list, PROFILE_TIMES, &n));
        if (n < PROFILE_TIMES)
            return json_error(&list, "expected forward, backward and update");
        for (size_t k = 0; k < n; k++) {
            struct json_at time = json_item(&list, k);
            PASS(json_get_real(&time, 0, longest_s, &x->time[layer].s[k]));
        }
    }
    return STATUS_OK;
}

/* All degrees of a model's microbatch on a GPU. */
static enum status published_profile_read_degrees(const struct json_at *at, struct published *p,
                                                  struct published_profile x)
{
    for (struct json_at layers = json_first(at); layers.key; layers = json_next(&layers)) {
        uint64_t degree;
        PASS(need_object(&layers));
        PASS(count_of(&layers, 1, DEGREE, &degree));
        x.tp = (int64_t)degree;
        PASS(read_layers(&layers, p, &x));
        PASS(ARRAY_ROOM(p->profile, p->profiles));
        p->profile[p->profiles++] = x;
    }
    return STATUS_OK;
}

enum status published_add_profile(const struct json_at *root, struct published *p)
{
    for (struct json_at model = json_first(root); model.key; model = json_next(&model)) {
        struct published_profile x = {0};
        PASS(need_object(&model));
        x.name = arena_text(&p->memory, model.key);
        if (!x.name)
            return STATUS_NOMEM;
        for (struct json_at gpu = json_first(&model); gpu.key; gpu = json_next(&gpu)) {
            PASS(need_object(&gpu));
            x.gpu = gpu_named(strcmp(gpu.key, "GH-96") ? gpu.key : "GH200");
            if (!x.gpu)
                return json_error(&gpu, "no GPU of the catalogue is called '%.40s'", gpu.key);
            for (struct json_at micro = json_first(&gpu); micro.key; micro = json_next(&micro)) {
                uint64_t size;
                PASS(need_object(&micro));
                PASS(count_of(&micro, 1, PUBLISHED_BATCH, &size));
                x.micro_batch = (int64_t)size;
                PASS(published_profile_read_degrees(&micro, p, x));
            }
        }
    }
    return STATUS_OK;
}

/* The part of a profile's layers that an op is in: embeddings are all before the first block, the
 * head what is behind the last one. */
static size_t layer_of(const struct model *m, size_t i, size_t layer, size_t layers)
{
    return model_in_block(m, i) ? layer : layer == 0 ? 0 : layers - 1;
}

/* Times of the model's ops; STATUS_UNSUPPORTED where it has other layers. */
static enum status published_profile_spread(const struct published_profile *x,
                                            const struct model *m, struct model_profile *out)
{
    size_t layer = 0, begin = 0, blocks = 0;
    double *const times[PROFILE_TIMES] = {out->forward_s, out->backward_s, out->update_s};
    for (size_t i = 0; i < m->n; i++)
        blocks += model_in_block(m, i) && model_begins_layer(m, i);
    if (blocks + 2 != x->layers)
        return error_set(STATUS_UNSUPPORTED,
                         "the measured profile has %zu layers, but the row's model has %zu",
                         x->layers - 2, blocks);
    while (begin < m->n) {
        layer += model_in_block(m, begin);
        size_t at = layer_of(m, begin, layer, x->layers), end = begin + 1;
        while (end < m->n && (model_same_layer(m, begin, end) ||
                              (!model_in_block(m, begin) && !model_in_block(m, end))))
            end++;
        for (size_t i = begin; i < end; i++)
            for (size_t k = 0; k < PROFILE_TIMES; k++)
                times[k][i] = x->time[at].s[k] * model_layer_share(m, begin, end, i);
        begin = end;
    }
    return STATUS_OK;
}

static const struct published_profile *published_profile_find(const struct published *p,
                                                              const struct published_config *c)
{
    const struct gpu *gpu = c->gpu ? gpu_named(c->gpu) : NULL;
    for (size_t i = 0; c->profile && gpu && i < p->profiles; i++) {
        const struct published_profile *x = &p->profile[i];
        if (!strcmp(x->name, c->profile) && x->gpu == gpu && x->micro_batch == c->micro_batch &&
            x->tp == c->tp)
            return x;
    }
    return NULL;
}

enum status published_attach(const struct published *p, const struct published_config *c,
                             const char *device, struct model *m)
{
    const struct published_profile *x = published_profile_find(p, c);
    struct model_profile *out;
    if (!x)
        return STATUS_OK;
    PASS(ARRAY_NEW(m->profile, 1)); /* a model that was just built has none */
    out = m->profile;
    m->profiles = 1;
    out->samples = (double)c->micro_batch;
    out->tensor_parallel = (uint32_t)c->tp;
    out->sums = c->tp > 1;
    PASS(text_copy(device, &out->device));
    PASS(ARRAY_NEW(out->forward_s, m->n));
    PASS(ARRAY_NEW(out->backward_s, m->n));
    PASS(ARRAY_NEW(out->update_s, m->n));
    return published_profile_spread(x, m, out);
}
