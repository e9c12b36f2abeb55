/* From a kernel to the part of the step that launched it. */
#include "measured/launches.h"

#include <stdlib.h>
#include <string.h>

#include "core/array.h"

enum { LAUNCHES = 1 << 23 };

enum span_phase launches_phase_of(const char *name)
{
    if (strncmp(name, "autograd::engine::evaluate_function", 35) == 0)
        return PHASE_BACKWARD;
    if (strncmp(name, "Optimizer.step", 14) == 0)
        return PHASE_UPDATE;
    return PHASE_UNKNOWN;
}

enum status launches_add(struct launches *l, int64_t number, int64_t thread, int64_t start_ns)
{
    struct launch one = {number, start_ns, thread};
    if (l->n == LAUNCHES)
        return error_set(STATUS_INVALID, "more than %d launches: a few steps are enough", LAUNCHES);
    PASS(ARRAY_ROOM(l->launch, l->n));
    l->launch[l->n++] = one;
    return STATUS_OK;
}

enum status launches_add_part(struct launches *l, int64_t thread, int64_t start_ns, int64_t end_ns,
                              enum span_phase phase)
{
    struct launch_part one = {thread, start_ns, end_ns, (uint8_t)phase};
    if (l->parts == LAUNCHES)
        return error_set(STATUS_INVALID, "more than %d parts of steps", LAUNCHES);
    PASS(ARRAY_ROOM(l->part, l->parts));
    l->part[l->parts++] = one;
    return STATUS_OK;
}

static int by_number(const void *a, const void *b)
{
    const struct launch *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static int by_place(const void *a, const void *b)
{
    const struct launch_part *x = a, *y = b;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* The last part of the thread that has begun decides, if it has not ended: parts follow each other, or the outer
 * one is of the same phase. */
static uint8_t phase_at(const struct launches *l, const struct launch *at)
{
    size_t low = 0, high = l->parts;
    const struct launch_part key = {at->thread, at->start_ns, 0, 0};
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (by_place(&l->part[middle], &key) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return PHASE_FORWARD;
    const struct launch_part *p = &l->part[low - 1];
    return p->thread == at->thread && at->start_ns <= p->end_ns ? p->phase : PHASE_FORWARD;
}

/* Of numbers that occur twice, as those of calls that launch nothing may, any one counts. */
enum status launches_find(struct launches *l, struct span *span, size_t n)
{
    if (l->parts == 0 || l->n == 0)
        return STATUS_OK;
    qsort(l->launch, l->n, sizeof *l->launch, by_number);
    qsort(l->part, l->parts, sizeof *l->part, by_place);
    for (size_t i = 0; i < n; i++) {
        const struct launch key = {.number = span[i].launch};
        const struct launch *at =
            span[i].launch < 0 ? NULL : bsearch(&key, l->launch, l->n, sizeof key, by_number);
        if (at)
            span[i].phase = phase_at(l, at);
    }
    return STATUS_OK;
}

void launches_free(struct launches *l)
{
    free(l->launch);
    free(l->part);
    *l = (struct launches){0};
}
