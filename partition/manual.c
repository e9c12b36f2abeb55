/* manual - stages that begin where the request says: PiPPy's SplitPoint.BEGINNING. */
#include "partition/partition.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 256, NEAR = 3, NEAR_TEXT = 512 };

size_t partition_split_stages(const char *list)
{
    size_t stages = 2;
    for (; *list; list++)
        stages += *list == ',';
    return stages;
}

/* Edit distance of two names, the first NAME - 1 bytes of each. */
static size_t distance(const char *a, const char *b)
{
    size_t row[NAME], la = strnlen(a, NAME - 1), lb = strnlen(b, NAME - 1);
    for (size_t j = 0; j <= lb; j++)
        row[j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t corner = row[0];
        row[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            size_t change = corner + (a[i - 1] != b[j - 1]);
            size_t step = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
            corner = row[j];
            row[j] = change < step ? change : step;
        }
    }
    return row[lb];
}

/* The nearest names, nearest first; a name nothing like the others is not near. */
static enum status unknown_op(const struct model *m, const char *name)
{
    size_t best[NEAR], found = 0, limit = strlen(name) / 2 + 1;
    const char *near[NEAR];
    char text[NEAR_TEXT] = "";
    for (size_t i = 0; i < m->n; i++) {
        size_t d = distance(name, m->op[i].name), at = found;
        if (d > limit)
            continue;
        while (at > 0 && d < best[at - 1])
            at--;
        if (at == NEAR)
            continue;
        found += found < NEAR;
        for (size_t k = found - 1; k > at; k--) {
            best[k] = best[k - 1];
            near[k] = near[k - 1];
        }
        best[at] = d;
        near[at] = m->op[i].name;
    }
    for (size_t k = 0; k < found; k++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s'%.100s'", k ? ", " : "", near[k]);
    }
    return error_set(STATUS_INVALID, "%s has no op '%.100s'%s%s", m->name, name,
                     found ? "; near: " : "; foreline model show lists its ops", text);
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
        if (length == 0 || length >= NAME)
            return error_set(STATUS_INVALID, "split at an empty or too long name");
        memcpy(name, rest, length);
        name[length] = '\0';
        rest += length + (rest[length] == ',');
        uint32_t op = model_find(m, name);
        if (op == MODEL_NO_OP)
            return unknown_op(m, name);
        if (op == 0)
            return error_set(STATUS_INVALID, "split at '%.100s': it is the first op of %s", name,
                             m->name);
        first[s] = op;
    }
    qsort(first, r->stages, sizeof *first, compare_ops);
    for (size_t s = 1; s < r->stages; s++)
        if (first[s] == first[s - 1])
            return error_set(STATUS_INVALID, "split at '%.100s' twice", m->op[first[s]].name);
    return STATUS_OK;
}

static enum status cut(const struct partition_problem *p, size_t *first, double *objective_s)
{
    const struct partition_request *r = p->r;
    *objective_s = NAN;
    if (!r->split_at)
        return error_set(STATUS_INVALID, "manual: at which ops to split is not said");
    if (partition_split_stages(r->split_at) != r->stages)
        return error_set(STATUS_INVALID, "manual: %zu stages, but the splits make %zu", r->stages,
                         partition_split_stages(r->split_at));
    return find_cuts(p->m, r, first);
}

const struct partition_algorithm partition_manual = {
    .name = "manual",
    .summary = "stages begin at the ops of --split-at",
    .guarantee = "what was asked for",
    .takes = 1u << PARTITION_SPLIT_AT,
    .cut = cut,
};
