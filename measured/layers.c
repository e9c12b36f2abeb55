/* From a kernel to the layer that it is of.
 *
 * Ranges and autograd's nodes of a thread are a stack. What is launched within a range is of it;
 * within a node that began later, of the range in which the forward op began that made the node: it
 * has the node's sequence number. A range that began within a node is a forward that the backward
 * makes again. */
#include "measured/layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"

enum { DEEPEST = 256, PATH = 1024 };

bool layers_marks(const char *name)
{
    static const char *const not [] = {"ProfilerStep#", "Optimizer.", "enumerate(DataLoader)",
                                       "nccl:",         "c10d::",     "gloo:"};
    for (size_t i = 0; i < sizeof not / sizeof *not ; i++)
        if (strncmp(name, not [i], strlen(not [i])) == 0)
            return false;
    return *name != '\0';
}

static enum status layers_add_mark(struct launch_parts *p, const struct launch_part *one)
{
    PASS(ARRAY_ROOM(p->part, p->n));
    p->part[p->n++] = *one;
    return STATUS_OK;
}

enum status layers_add_range(struct layers *l, int64_t thread, int64_t start_ns, int64_t end_ns,
                             uint32_t name)
{
    const struct launch_part one = {thread, start_ns, end_ns, name};
    return layers_add_mark(&l->range, &one);
}

/* Ops of a node have its number too, and are called like it. */
enum status layers_add_op(struct layers *l, const char *name, const struct layer_op *op)
{
    bool node = strstr(name, "evaluate_function") != NULL;
    struct layer_ops *to = node ? &l->node : &l->forward;
    if (!node && (op->number < 0 || strstr(name, "Backward")))
        return STATUS_OK;
    PASS(ARRAY_ROOM(to->op, to->n));
    to->op[to->n] = *op;
    to->op[to->n++].path = RUN_NO_OP;
    return STATUS_OK;
}

void layers_free(struct layers *l)
{
    free(l->forward.op);
    free(l->node.op);
    free(l->range.part);
    *l = (struct layers){0};
}

/* ---- order */

/* What a stack is made of, the outer of two that begin together first; and what is asked, behind
 * what begins then. */
struct layer_mark {
    int64_t thread, start_ns, end_ns;
    enum { IS_RANGE, IS_NODE, IS_QUESTION } is;
    uint32_t index; /* a name; a node; of which question */
};

static int layers_by_place(const void *a, const void *b)
{
    const struct layer_mark *x = a, *y = b;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;
    if ((x->is == IS_QUESTION) != (y->is == IS_QUESTION))
        return x->is == IS_QUESTION ? 1 : -1;
    if (x->end_ns != y->end_ns)
        return x->end_ns > y->end_ns ? -1 : 1;
    return x->is != y->is ? (int)y->is - (int)x->is : (x->index > y->index) - (x->index < y->index);
}

static int layers_by_number(const void *a, const void *b)
{
    const struct layer_op *x = a, *y = b;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* ---- paths */

/* What stands at a place of a thread. */
struct layer_answer {
    uint32_t path, node; /* RUN_NO_OP: none */
    bool range_within;   /* the range began within the node */
};

struct frame {
    const struct layer_mark *mark;
    uint32_t path; /* of the ranges up to here */
};

struct range_stack {
    struct measured_run *run;
    const char *file;
    size_t depth;
    struct frame frame[DEEPEST];
};

/* The path of a range within one: names with RUN_WITHIN between them. */
static enum status path_within(struct range_stack *s, uint32_t outer, uint32_t name, uint32_t *out)
{
    char text[2 * PATH + 2];
    size_t n = 0;
    if (outer == RUN_NO_OP) {
        *out = name;
        return STATUS_OK;
    }
    run_name(s->run, outer, text, PATH);
    n = strlen(text);
    text[n] = RUN_WITHIN;
    run_name(s->run, name, text + n + 1, PATH);
    return run_add_name(s->run, s->file, text, out);
}

/* What has ended goes, from the top; ranges that end before those within them stay below them. What
 * is deeper than a stack counts as what it is in. */
static enum status layers_push_frame(struct range_stack *s, const struct layer_mark *m)
{
    while (s->depth > 0 && s->frame[s->depth - 1].mark->end_ns <= m->start_ns)
        s->depth--;
    if (m->is == IS_QUESTION || s->depth == DEEPEST)
        return STATUS_OK;
    struct frame f = {m, s->depth > 0 ? s->frame[s->depth - 1].path : RUN_NO_OP};
    if (m->is == IS_RANGE)
        PASS(path_within(s, f.path, m->index, &f.path));
    s->frame[s->depth++] = f;
    return STATUS_OK;
}

static struct layer_answer layers_look(const struct range_stack *s)
{
    struct layer_answer a = {RUN_NO_OP, RUN_NO_OP, false};
    bool range = false;
    for (size_t k = s->depth; k-- > 0 && a.node == RUN_NO_OP;) {
        if (s->frame[k].mark->is == IS_NODE)
            a.node = s->frame[k].mark->index;
        else
            range = true;
    }
    a.path = s->depth > 0 ? s->frame[s->depth - 1].path : RUN_NO_OP;
    a.range_within = a.node != RUN_NO_OP && range;
    return a;
}

/* answer[i] of every question. */
static enum status layers_answer_all(struct layer_mark *mark, size_t n, struct measured_run *run,
                                     const char *file, struct layer_answer *answer)
{
    struct range_stack s = {.run = run, .file = file};
    if (n > 0)
        qsort(mark, n, sizeof *mark, layers_by_place);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && mark[i].thread != mark[i - 1].thread)
            s.depth = 0;
        PASS(layers_push_frame(&s, &mark[i]));
        if (mark[i].is == IS_QUESTION)
            answer[mark[i].index] = layers_look(&s);
    }
    return STATUS_OK;
}

/* ---- what is asked */

static int layers_by_start(const void *a, const void *b)
{
    const struct layer_op *x = a, *y = b;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static bool is_node(const struct layers *l, const struct launch_part *p)
{
    const struct layer_op key = {.thread = p->thread, .start_ns = p->start_ns};
    return l->node.n > 0 && bsearch(&key, l->node.op, l->node.n, sizeof key, layers_by_start);
}

/* Steps that have begun when a part does, for array_before(). */
static int layers_has_begun(const void *step, const void *part)
{
    const struct run_step *s = step;
    const struct launch_part *p = part;
    return s->start_ns <= p->start_ns ? -1 : 1;
}

/* Ops of the host as ranges: the k-th of a name in its step is called NAME.K. The parts are sorted
 * by thread and time, and none lies within another; nodes of autograd are no layers. */
static enum status number_ops(struct layers *l, const struct launch_parts *ops,
                              struct measured_run *run, const char *file,
                              const struct run_step *step, size_t steps)
{
    enum status st = STATUS_OK;
    char name[PATH], numbered[PATH + 16];
    size_t *count = NULL, *at = NULL, names = run->names.n;
    TRY(ARRAY_NEW(count, names + 1)); /* [name] so many in */
    TRY(ARRAY_NEW(at, names + 1));    /* [name] this step, behind the first */
    for (size_t i = 0; i < ops->n; i++) {
        const struct launch_part *o = &ops->part[i];
        if (is_node(l, o))
            continue;
        size_t in = array_before(o, step, steps, sizeof *step, layers_has_begun);
        if (at[o->meaning] != in)
            count[o->meaning] = 0;
        at[o->meaning] = in;
        uint32_t as;
        snprintf(numbered, sizeof numbered, "%s.%zu", run_name(run, o->meaning, name, sizeof name),
                 count[o->meaning]++);
        TRY(run_add_name(run, file, numbered, &as));
        TRY(layers_add_range(l, o->thread, o->start_ns, o->end_ns, as));
    }
out:
    free(count);
    free(at);
    return st;
}

/* The last forward op of that number before the node began made it. */
static const struct layer_op *layers_maker(const struct layer_ops *forward,
                                           const struct layer_op *node)
{
    const struct layer_op *op = forward->op;
    size_t n = array_before(node, op, forward->n, sizeof *op, layers_by_number);
    return n > 0 && node->number >= 0 && op[n - 1].number == node->number ? &op[n - 1] : NULL;
}

/* The layer of each node; those whose maker is not known, which add up gradients, are of the one
 * before. */
static void place_nodes(struct layers *l)
{
    for (size_t i = 0; i < l->node.n; i++) {
        struct layer_op *o = &l->node.op[i];
        const struct layer_op *by = layers_maker(&l->forward, o);
        const struct layer_op *before = i > 0 && o[-1].thread == o->thread ? o - 1 : NULL;
        o->path = by ? by->path : before ? before->path : RUN_NO_OP;
    }
}

static size_t put_marks(const struct layers *l, struct layer_mark *mark)
{
    size_t n = 0;
    for (size_t i = 0; i < l->range.n; i++) {
        const struct launch_part *p = &l->range.part[i];
        mark[n++] = (struct layer_mark){p->thread, p->start_ns, p->end_ns, IS_RANGE, p->meaning};
    }
    for (size_t i = 0; i < l->node.n; i++) {
        const struct layer_op *o = &l->node.op[i];
        mark[n++] = (struct layer_mark){o->thread, o->start_ns, o->end_ns, IS_NODE, (uint32_t)i};
    }
    return n;
}

static size_t layers_put_question(struct layer_mark *mark, size_t n, int64_t thread, int64_t at,
                                  size_t index)
{
    mark[n] = (struct layer_mark){thread, at, at, IS_QUESTION, (uint32_t)index};
    return n + 1;
}

/* Forward ops first: nodes are of the layers of theirs. */
static enum status find_makers(struct layers *l, struct measured_run *run, const char *file,
                               struct layer_mark *mark, struct layer_answer *answer)
{
    size_t n = put_marks(l, mark);
    for (size_t i = 0; i < l->forward.n; i++)
        n = layers_put_question(mark, n, l->forward.op[i].thread, l->forward.op[i].start_ns, i);
    PASS(layers_answer_all(mark, n, run, file, answer));
    for (size_t i = 0; i < l->forward.n; i++)
        l->forward.op[i].path = answer[i].path;
    if (l->forward.n > 0)
        qsort(l->forward.op, l->forward.n, sizeof *l->forward.op, layers_by_number);
    place_nodes(l);
    return STATUS_OK;
}

static void layers_place_span(const struct layers *l, const struct layer_answer *a, struct span *s)
{
    s->again = a->range_within;
    s->layer = a->node != RUN_NO_OP && !a->range_within ? l->node.op[a->node].path : a->path;
}

enum status layers_find(struct layers *l, struct launches *launches, struct measured_run *run,
                        const char *path, const struct run_step *step, size_t steps,
                        struct span *span, size_t n)
{
    enum status st = STATUS_OK;
    struct layer_mark *mark = NULL;
    struct layer_answer *answer = NULL;
    if (l->node.n > 0)
        qsort(l->node.op, l->node.n, sizeof *l->node.op, layers_by_start);
    if (run->layers == LAYERS_OPS && l->range.n == 0)
        TRY(number_ops(l, &launches->about[ABOUT_OP], run, path, step, steps));
    if (l->range.n == 0)
        FAIL(STATUS_INVALID,
             "%s: trace has no ranges of a model (record_function, NVTX, modules of with_stack). "
             "Try --profile ops, which makes a layer of each host op",
             path);
    const size_t most = launches->n > l->forward.n ? launches->n : l->forward.n;
    TRY(ARRAY_NEW(mark, l->range.n + l->node.n + most));
    TRY(ARRAY_NEW(answer, most));
    TRY(find_makers(l, run, path, mark, answer));
    size_t marks = put_marks(l, mark);
    for (size_t i = 0; i < launches->n; i++)
        marks = layers_put_question(mark, marks, launches->launch[i].thread,
                                    launches->launch[i].start_ns, i);
    TRY(layers_answer_all(mark, marks, run, path, answer));
    for (size_t i = 0; i < n; i++) {
        const struct launch *at = launches_at(launches, span[i].launch);
        if (at)
            layers_place_span(l, &answer[at - launches->launch], &span[i]);
    }
out:
    free(mark);
    free(answer);
    return st;
}
