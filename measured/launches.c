/* From a kernel to the part of the step that launched it. */
#include "measured/launches.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"

bool launches_means(const char *name, enum launch_about *about, uint32_t *meaning)
{
    bool backward = text_begins(name, "autograd::engine::evaluate_function");
    bool update = text_begins(name, "Optimizer.step");
    bool call = text_begins(name, "nccl:") || text_begins(name, "c10d::");
    *about = call ? ABOUT_KIND : ABOUT_PHASE;
    *meaning = (uint32_t)(call       ? (int)span_kind_of(name)
                          : backward ? PHASE_BACKWARD
                                     : PHASE_UPDATE);
    return backward || update || (call && *meaning != SPAN_OTHER);
}

enum status launches_add(struct launches *l, int64_t number, int64_t thread, int64_t start_ns)
{
    struct launch one = {number, start_ns, thread};
    PASS(ARRAY_ROOM(l->launch, l->n));
    l->launch[l->n++] = one;
    return STATUS_OK;
}

enum status launches_add_part(struct launches *l, int64_t thread, int64_t start_ns, int64_t end_ns,
                              enum launch_about about, uint32_t meaning)
{
    struct launch_parts *p = &l->about[about];
    struct launch_part one = {thread, start_ns, end_ns, meaning};
    PASS(ARRAY_ROOM(p->part, p->n));
    p->part[p->n++] = one;
    return STATUS_OK;
}

static int launches_by_number(const void *a, const void *b)
{
    const struct launch *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static int launches_by_place(const void *a, const void *b)
{
    const struct launch_part *x = a, *y = b;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* Of those that begin together the longest comes first. */
static int by_place_and_end(const void *a, const void *b)
{
    const struct launch_part *x = a, *y = b;
    int order = launches_by_place(a, b);
    return order ? order : (x->end_ns < y->end_ns) - (x->end_ns > y->end_ns);
}

/* For array_before(). */
static int launches_has_begun(const void *part, const void *key)
{
    return launches_by_place(part, key) <= 0 ? -1 : 1;
}

/* The last part of the thread that has begun decides, if it has not ended: parts follow each other,
 * or the outer one means the same. */
static uint32_t meaning_at(const struct launch_parts *p, const struct launch *at,
                           uint32_t otherwise)
{
    const struct launch_part key = {at->thread, at->start_ns, 0, 0};
    size_t begun = array_before(&key, p->part, p->n, sizeof key, launches_has_begun);
    if (begun == 0)
        return otherwise;
    const struct launch_part *one = &p->part[begun - 1];
    return one->thread == at->thread && at->start_ns <= one->end_ns ? one->meaning : otherwise;
}

/* Of parts within parts only the outermost stay. One that begins before another ends and ends
 * behind it, as rounded times may make of neighbours, is none within it. */
static void keep_outermost(struct launch_parts *p)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->n; i++) {
        const struct launch_part *last = kept > 0 ? &p->part[kept - 1] : NULL;
        if (!last || last->thread != p->part[i].thread || p->part[i].end_ns > last->end_ns)
            p->part[kept++] = p->part[i];
    }
    p->n = kept;
}

const struct launch *launches_at(const struct launches *l, int64_t number)
{
    const struct launch key = {.number = number};
    return number < 0 || l->n == 0 ? NULL
                                   : bsearch(&key, l->launch, l->n, sizeof key, launches_by_number);
}

void launches_sort(struct launches *l)
{
    if (l->n > 0)
        qsort(l->launch, l->n, sizeof *l->launch, launches_by_number);
    for (size_t k = 0; k < ABOUTS; k++)
        if (l->about[k].n > 0)
            qsort(l->about[k].part, l->about[k].n, sizeof *l->about[k].part, by_place_and_end);
    keep_outermost(&l->about[ABOUT_OP]);
}

/* Of numbers that occur twice, as those of calls that launch nothing may, any one counts. */
enum status launches_find(struct launches *l, struct span *span, size_t n)
{
    const struct launch_parts *phases = &l->about[ABOUT_PHASE], *kinds = &l->about[ABOUT_KIND];
    if (l->n == 0)
        return STATUS_OK;
    launches_sort(l);
    for (size_t i = 0; i < n; i++) {
        struct span *s = &span[i];
        const struct launch *at = launches_at(l, s->launch);
        if (at && phases->n > 0)
            s->phase = (uint8_t)meaning_at(phases, at, PHASE_FORWARD);
        if (at && s->what == SPAN_COMMUNICATION &&
            (s->kind == SPAN_SENDRECV || s->kind == SPAN_OTHER))
            s->kind = (uint8_t)meaning_at(kinds, at, s->kind);
        if (at)
            s->op = meaning_at(&l->about[ABOUT_OP], at, s->op);
    }
    return STATUS_OK;
}

enum status launches_to_spans(struct launches *l, struct measured_run *run, const char *path,
                              size_t rank)
{
    enum { NAME = 1024 };
    char name[NAME];
    const struct launch_parts *ops = &l->about[ABOUT_OP];
    launches_sort(l);
    l->n = 0;
    for (size_t i = 0; i < ops->n; i++) {
        const struct launch_part *o = &ops->part[i];
        const struct span s = {.start_ns = o->start_ns,
                               .end_ns = o->end_ns,
                               .launch = (int64_t)i,
                               .op = RUN_NO_OP,
                               .layer = RUN_NO_OP,
                               .purpose = OP_PURPOSES};
        PASS(launches_add(l, s.launch, o->thread, o->start_ns));
        PASS(run_add_span(run, path, rank, run_name(run, o->meaning, name, sizeof name), &s));
    }
    return STATUS_OK;
}

void launches_free(struct launches *l)
{
    free(l->launch);
    for (size_t k = 0; k < ABOUTS; k++)
        free(l->about[k].part);
    *l = (struct launches){0};
}
