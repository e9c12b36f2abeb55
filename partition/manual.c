/* manual - stages that begin where the request says: at ops (PiPPy's SplitPoint.BEGINNING), or at
 * every so many layers, as PiPPy's examples do. */
#include "partition/partition.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"

enum { NAME = 256 };

size_t partition_split_stages(const char *list)
{
    size_t stages = 2;
    for (; *list; list++)
        stages += *list == ',';
    return stages;
}

static enum status unknown_op(const struct model *m, const char *name)
{
    char hint[TEXT_HINT];
    const char *nearest = NULL;
    size_t best = text_reach(name);
    for (size_t i = 0; i < m->n; i++)
        nearest = text_is_nearer(name, m->op[i].name, &best) ? m->op[i].name : nearest;
    return error_set(STATUS_USAGE, "--split-at: %s has no op '%.100s'%s", m->name, name,
                     nearest ? text_hint(nearest, hint)
                             : "; list its ops with foreline model show");
}

static int compare_ops(const void *a, const void *b)
{
    const size_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static enum status find_cuts(const struct model *m, const struct partition_request *r,
                             size_t *first)
{
    const char *rest = r->split_at;
    first[0] = 0;
    for (size_t s = 1; s < r->stages; s++) {
        char name[NAME];
        size_t length = strcspn(rest, ",");
        if (length == 0)
            return error_set(STATUS_USAGE, "--split-at: name %zu of %zu is empty", s,
                             r->stages - 1);
        if (length >= NAME)
            return error_set(STATUS_USAGE, "--split-at: name %zu has more than %d characters", s,
                             NAME - 1);
        memcpy(name, rest, length);
        name[length] = '\0';
        rest += length + (rest[length] == ',');
        uint32_t op = model_find(m, name);
        if (op == MODEL_NO_OP)
            return unknown_op(m, name);
        if (op == 0)
            return error_set(
                STATUS_USAGE,
                "--split-at: '%.100s' is the first op of %s, so no stage would come before it",
                name, m->name);
        first[s] = op;
    }
    qsort(first, r->stages, sizeof *first, compare_ops);
    for (size_t s = 1; s < r->stages; s++)
        if (first[s] == first[s - 1])
            return error_set(STATUS_USAGE, "--split-at: '%.100s' is given twice",
                             m->op[first[s]].name);
    return STATUS_OK;
}

/* Stage s begins with transformer layer s * k; k by default as in PiPPy's examples, layers /
 * stages. What is before the first layer and behind the last one is of the first and last stage.
 * Where layers alone cannot be as many in every stage, but embedding and head are two more slots
 * with which they can, those take a layer's place (Megatron-LM, account_for_embedding_in_pipeline_
 * split and account_for_loss_in_pipeline_split). */
static enum status count_layers(const struct model *m, const struct partition_request *r,
                                size_t *first)
{
    enum { ENDS = 2 }; /* embedding and head */
    size_t layers = 0, stage = 0, seen = 0, k = r->layers_per_stage;
    for (size_t i = 0; i < m->n; i++)
        layers += model_in_block(m, i) && model_begins_layer(m, i);
    bool slots =
        k == 0 && layers > r->stages && layers % r->stages != 0 && (layers + ENDS) % r->stages == 0;
    size_t counted = layers + (slots ? ENDS : 0);
    if (k == 0)
        k = counted / r->stages;
    if (k == 0 || counted / k + (counted % k > 0) < r->stages)
        return error_set(STATUS_USAGE,
                         "--layers-per-stage: %zu layers are too few for %zu stages of %zu layers",
                         layers, r->stages, k > 0 ? k : 1);
    first[stage++] = 0;
    for (size_t i = 0; i < m->n && stage < r->stages; i++)
        if (model_in_block(m, i) && model_begins_layer(m, i) && seen++ + slots == stage * k)
            first[stage++] = i;
    return STATUS_OK;
}

static enum status manual_cut(const struct partition_problem *p, size_t *first, double *objective_s)
{
    const struct partition_request *r = p->r;
    *objective_s = NAN;
    if (!r->split_at)
        return count_layers(p->m, r, first);
    if (partition_split_stages(r->split_at) != r->stages)
        return error_set(STATUS_USAGE, "--split-at: got %zu stages, but the splits make %zu",
                         r->stages, partition_split_stages(r->split_at));
    return find_cuts(p->m, r, first);
}

const struct partition_algorithm partition_manual = {
    .name = "manual",
    .summary = "stages begin at the ops of --split-at, or at every --layers-per-stage",
    .guarantee = "what was asked for",
    .takes = 1u << PARTITION_SPLIT_AT | 1u << PARTITION_LAYERS_PER_STAGE,
    .cut = manual_cut,
};
