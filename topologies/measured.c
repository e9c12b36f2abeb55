/* The table of importers of measured collectives. */
#include "topologies/measured.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"

const struct measured_format *const measured_formats[] = {
#define MACHINE(name)
#define MEASURED(name) &measured_##name,
#include "topologies/importers.def"
#undef MEASURED
#undef MACHINE
};
const size_t measured_formats_n = sizeof measured_formats / sizeof *measured_formats;

/* "2x8" between `from` and `end` of an operand: nodes, and GPUs of each. */
static enum status curves_read_members(const char *operand, size_t from, const char *end,
                                       struct measured_hint *h)
{
    char text[32], *gpu_text;
    uint64_t nodes, gpu_count;
    snprintf(text, sizeof text, "%.*s", (int)(end - operand) - (int)from, operand + from);
    bool good =
        end - operand - (ptrdiff_t)from < (ptrdiff_t)sizeof text && (gpu_text = strchr(text, 'x'));
    if (good) {
        *gpu_text++ = '\0';
        good = text_count(text, FABRIC_MEMBERS, &nodes) &&
               text_count(gpu_text, FABRIC_MEMBERS, &gpu_count) && nodes * gpu_count >= 2 &&
               nodes * gpu_count <= FABRIC_MEMBERS;
    }
    if (!good)
        return error_set(STATUS_INVALID,
                         "got '%.60s', expected KIND:NODESxGPUS=FILE such as all-reduce:2x8=FILE "
                         "(2 nodes of 8 GPUs each)",
                         operand);
    h->members = (uint32_t)(nodes * gpu_count);
    h->per_node = (uint32_t)gpu_count;
    return STATUS_OK;
}

enum status measured_hint(const char *operand, struct measured_hint *hint, const char **path)
{
    const char *equals = strchr(operand, '=');
    struct measured_hint h = {0};
    *hint = h;
    *path = operand;
    for (size_t k = 0; equals && k < FABRIC_KINDS; k++) {
        size_t n = strlen(fabric_kind_name[k]);
        if (strncmp(operand, fabric_kind_name[k], n) != 0 ||
            (operand[n] != '=' && operand[n] != ':'))
            continue;
        if (operand[n] == ':')
            PASS(curves_read_members(operand, n + 1, equals, &h));
        h.has_kind = true;
        h.kind = (enum fabric_kind)k;
        *hint = h;
        *path = equals + 1;
    }
    return STATUS_OK;
}

/* busbw / algbw of n ranks (nccl-tests, PERFORMANCE.md) is share * (n - 1) / n; 0: it does not
 * depend on n. */
static double curves_share(enum fabric_kind kind)
{
    return kind == FABRIC_ALLREDUCE ? 2
           : kind == FABRIC_ALLGATHER || kind == FABRIC_REDUCESCATTER || kind == FABRIC_ALLTOALL
               ? 1
               : 0;
}

enum status measured_check_ratio(const char *path, size_t line, const struct fabric_curve *c,
                                 double low, double high)
{
    double share = curves_share(c->kind), n = c->members, ratio = (low + high) / 2;
    double expected = share * (n - 1) / n;
    if (share <= 0 || (expected >= low && expected <= high))
        return STATUS_OK;
    if (ratio >= share || ratio < share / 2 * 0.99)
        return error_set(STATUS_PARSE,
                         "%s:%zu: busbw / algbw is %.4g, which does not fit %s (expected %.4g for "
                         "%u ranks). If it is another collective, give KIND:NODESxGPUS=FILE",
                         path, line, ratio, fabric_kind_name[c->kind], expected, c->members);
    double ranks = round(share / (share - ratio));
    uint32_t each = ranks < c->per_node ? (uint32_t)ranks : c->per_node;
    bool even = fmod(ranks, each) == 0;
    return error_set(STATUS_PARSE,
                     "%s:%zu: busbw / algbw is %.4g, which fits %.0f ranks (expected %.4g for %u "
                     "ranks, %u nodes of %u GPUs). Try %s:%.0fx%u=FILE",
                     path, line, ratio, ranks, expected, c->members, c->members / c->per_node,
                     c->per_node, fabric_kind_name[c->kind], even ? ranks / each : ranks,
                     even ? each : 1);
}

void measured_free(struct measured *m)
{
    for (size_t k = 0; k < m->n; k++)
        fabric_curve_free(&m->curve[k]);
    free(m->curve);
    *m = (struct measured){0};
}
