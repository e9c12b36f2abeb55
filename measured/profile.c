/* The times of a run's layers as a profile of a model: of one that is given, whose ops are found by
 * name, or of the chain of the layers themselves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "measured/run.h"

enum { PATH = 2048, WARNING = 200 };
static const char module_mark[] = "nn.Module: ", rest_name[] = "(rest)";

/* A layer, by the number of its path; or its part in what one rank did. */
struct profiled_layer {
    uint32_t path;
    size_t ranks;     /* which have it */
    int64_t first_ns; /* when its first forward began in its rank's first window */
    double forward_s, backward_s, again_s;
};

struct profile_sums {
    size_t n;
    struct profiled_layer *layer;   /* [n] by path */
    struct profiled_layer rest;     /* what is of none */
    double update_s, all_s, comm_s; /* all: without the update */
};

static int by_path(const void *a, const void *b)
{
    const struct profiled_layer *x = a, *y = b;
    return (x->path > y->path) - (x->path < y->path);
}

static int profile_by_first(const void *a, const void *b)
{
    const struct profiled_layer *x = a, *y = b;
    if (x->first_ns != y->first_ns)
        return x->first_ns < y->first_ns ? -1 : 1;
    return by_path(a, b);
}

/* Does it take time of the GPU's compute? Copies within a GPU and fills, which layers launch,
 * do. */
static bool profile_counts(const struct span *s)
{
    return s->what == SPAN_COMPUTE || s->kind == SPAN_DEVICE_TO_DEVICE || s->kind == SPAN_FILL;
}

static void take_span(const struct span *s, double seconds, int64_t at_ns,
                      struct profiled_layer *to)
{
    bool backward = s->phase == PHASE_BACKWARD;
    *(s->again ? &to->again_s : backward ? &to->backward_s : &to->forward_s) += seconds;
    if (!backward && !s->again && at_ns < to->first_ns)
        to->first_ns = at_ns;
}

static void add_layers(struct profiled_layer *to, const struct profiled_layer *l)
{
    to->ranks += l->ranks;
    to->forward_s += l->forward_s;
    to->backward_s += l->backward_s;
    to->again_s += l->again_s;
    to->first_ns = l->first_ns < to->first_ns ? l->first_ns : to->first_ns;
}

/* Add up one rank: layer[] has room for as many as it has spans. */
static enum status sum_rank(const struct run_rank *rank, const struct run_profile_options *o,
                            struct profiled_layer *layer, size_t *layers, struct profile_sums *all)
{
    struct run_interval w;
    size_t n = 0, kept = 0;
    PASS(run_window(rank, o->warmup, &w));
    const double each =
        1e-9 / ((double)(rank->steps > 0 ? rank->steps - o->warmup : 1) * o->microbatches);
    for (size_t i = 0; i < rank->spans; i++) {
        const struct span *s = &rank->span[i];
        double seconds = (double)(s->end_ns - s->start_ns) * each;
        if (s->start_ns < w.start_ns || s->start_ns >= w.end_ns)
            continue;
        all->comm_s += s->what == SPAN_COMMUNICATION ? seconds : 0;
        if (!profile_counts(s))
            continue;
        if (s->phase == PHASE_UPDATE) {
            all->update_s += seconds * o->microbatches;
            continue;
        }
        all->all_s += seconds;
        layer[n] = (struct profiled_layer){s->layer, 1, INT64_MAX, 0, 0, 0};
        take_span(s, seconds, s->start_ns - w.start_ns, &layer[n++]);
    }
    if (n > 0)
        qsort(layer, n, sizeof *layer, by_path);
    for (size_t i = 0; i < n; i++) {
        if (kept > 0 && layer[kept - 1].path == layer[i].path)
            add_layers(&layer[kept - 1], &layer[i]);
        else
            layer[kept++] = layer[i];
    }
    for (size_t i = 0; i < kept; i++)
        layer[i].ranks = 1;
    *layers = kept;
    return STATUS_OK;
}

/* Of layers that several ranks have the mean of those; what is of no layer, and the update, of
 * all. */
static enum status sum_ranks(const struct measured_run *run, const struct run_profile_options *o,
                             struct profile_sums *out)
{
    enum status st;
    struct profile_sums all = {.rest = {.path = RUN_NO_OP, .first_ns = INT64_MAX}};
    size_t most = 0, n = 0;
    for (size_t r = 0; r < run->ranks; r++)
        most += run->rank[r].spans;
    TRY(ARRAY_NEW(all.layer, most + 1));
    for (size_t r = 0; r < run->ranks; r++) {
        size_t more;
        TRY(sum_rank(&run->rank[r], o, all.layer + n, &more, &all));
        n += more;
    }
    if (n > 0)
        qsort(all.layer, n, sizeof *all.layer, by_path);
    for (size_t i = 0; i < n; i++) {
        const struct profiled_layer l = all.layer[i];
        if (l.path == RUN_NO_OP)
            add_layers(&all.rest, &l);
        else if (all.n > 0 && all.layer[all.n - 1].path == l.path)
            add_layers(&all.layer[all.n - 1], &l);
        else
            all.layer[all.n++] = l;
    }
    all.rest.ranks = run->ranks;
    for (size_t i = 0; i <= all.n; i++) {
        struct profiled_layer *l = i < all.n ? &all.layer[i] : &all.rest;
        l->forward_s /= (double)l->ranks;
        l->backward_s /= (double)l->ranks;
        l->again_s /= (double)l->ranks;
    }
    all.update_s /= (double)run->ranks;
    all.all_s /= (double)run->ranks;
    all.comm_s /= (double)run->ranks;
    MOVE(out, all);
out:
    free(all.layer);
    return st;
}

/* ---- as a profile */

static enum status new_profile(size_t n, const struct run_profile_options *o, bool again,
                               bool update, struct model_profile *out)
{
    enum status st;
    struct model_profile p = {.samples = o->samples, .tensor_parallel = o->tensor_parallel};
    TRY(text_copy(o->device ? o->device : "", &p.device));
    TRY(ARRAY_NEW(p.forward_s, n));
    TRY(ARRAY_NEW(p.backward_s, n));
    if (again)
        TRY(ARRAY_NEW(p.again_s, n));
    if (update)
        TRY(ARRAY_NEW(p.update_s, n));
    MOVE(out, p);
out:
    model_profile_free(&p);
    return st;
}

static bool any_again(const struct profile_sums *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->layer[i].again_s > 0)
            return true;
    return false;
}

static void put_times(const struct profiled_layer *l, size_t i, struct model_profile *p)
{
    p->forward_s[i] += l->forward_s;
    p->backward_s[i] += l->backward_s;
    if (p->again_s)
        p->again_s[i] += l->again_s;
}

static void profile_sum_up(size_t n, const struct model_profile *p, struct run_profile_told *told)
{
    for (size_t i = 0; i < n; i++) {
        told->forward_s += p->forward_s[i];
        told->backward_s += p->backward_s[i];
        told->again_s += p->again_s ? p->again_s[i] : 0;
    }
    told->updates = p->update_s != NULL;
}

/* The innermost range of the path that is called as an op is. */
static uint32_t op_of(const struct measured_run *run, uint32_t path, const struct interner *names)
{
    char text[PATH];
    uint32_t found;
    run_name(run, path, text, sizeof text);
    for (char *from; *text; *from = '\0') {
        from = strrchr(text, RUN_WITHIN);
        const char *name = from ? from + 1 : text;
        if (strncmp(name, module_mark, strlen(module_mark)) == 0)
            name += strlen(module_mark);
        if (interned(names, name, strlen(name), &found))
            return found;
        if (!from)
            break;
    }
    return MODEL_NO_OP;
}

/* What optimizers took, by parameters. */
static void share_update(const struct model *m, double update_s, struct model_profile *p)
{
    double all = 0;
    for (size_t i = 0; i < m->n; i++)
        all += (double)m->op[i].parameter_bytes;
    for (size_t i = 0; p->update_s && i < m->n; i++)
        p->update_s[i] = update_s * (double)m->op[i].parameter_bytes / all;
}

static enum status onto_model(const struct measured_run *run, const char *path,
                              const struct profile_sums *s, const struct run_profile_options *o,
                              struct model *m, struct run_profile_told *told)
{
    enum status st = STATUS_OK;
    struct interner names = {0};
    struct model_profile p = {0};
    uint32_t same;
    double matched = 0;
    for (size_t i = 0; i < m->n; i++)
        TRY(intern(&names, m->op[i].name, strlen(m->op[i].name), &same, NULL));
    TRY(new_profile(m->n, o, any_again(s), s->update_s > 0 && model_parameters(m) > 0, &p));
    for (size_t i = 0; i < s->n; i++) {
        const struct profiled_layer *l = &s->layer[i];
        uint32_t op = op_of(run, l->path, &names);
        if (op == MODEL_NO_OP)
            continue;
        put_times(l, op, &p);
        matched += l->forward_s + l->backward_s + l->again_s;
    }
    for (size_t i = 0; i < m->n; i++)
        if (p.forward_s[i] == 0 && p.backward_s[i] == 0 && told->silent++ == 0)
            told->first_silent = m->op[i].name;
    if (matched == 0)
        FAIL(STATUS_INVALID, "%s: no range has the name of an op of %s (such as '%s')", path,
             m->name, m->n > 0 ? m->op[0].name : "");
    share_update(m, s->update_s, &p);
    told->layers = m->n - told->silent;
    told->rest_s = s->all_s > matched ? s->all_s - matched : 0;
    profile_sum_up(m->n, &p, told);
    TRY(model_put_profile(m, &p));
out:
    interner_free(&names);
    model_profile_free(&p);
    return st;
}

/* ---- as a model of its own */

/* Names of ranges with '/' between them; what module's names begin with is left out. */
static enum status name_layer(const struct measured_run *run, uint32_t path, struct model_op *op)
{
    char text[PATH], name[PATH];
    size_t n = 0;
    run_name(run, path, text, sizeof text);
    for (const char *c = text; *c; c++) {
        if ((c == text || c[-1] == RUN_WITHIN) && strncmp(c, module_mark, strlen(module_mark)) == 0)
            c += strlen(module_mark);
        if (!*c)
            break;
        name[n++] = *c == RUN_WITHIN ? '/' : *c;
    }
    name[n] = '\0';
    PASS(text_copy(name, &op->name));
    return text_copy("layer", &op->kind);
}

static enum status profile_add_layer(struct model *m, const struct profiled_layer *l,
                                     struct model_profile *p)
{
    struct model_op *op = &m->op[m->n++];
    op->shares = MODEL_NO_OP;
    put_times(l, m->n - 1, p);
    if (l->path != RUN_NO_OP)
        return STATUS_OK;
    PASS(text_copy(rest_name, &op->name));
    return text_copy("rest", &op->kind);
}

static enum status chain(const struct measured_run *run, const char *path, struct profile_sums *s,
                         const struct run_profile_options *o, struct model *out,
                         struct run_profile_told *told)
{
    enum status st;
    struct model m = {.element_bytes = 4};
    struct model_profile p = {0};
    struct model_edge *edge = NULL;
    const bool rest = s->rest.forward_s + s->rest.backward_s + s->rest.again_s > 0;
    if (s->n > 0)
        qsort(s->layer, s->n, sizeof *s->layer, profile_by_first);
    if (s->n == 0)
        FAIL(STATUS_INVALID, "%s: no kernel belongs to a layer, so the layers have no times", path);
    if (s->n >= MODEL_MAX_OPS)
        FAIL(STATUS_INVALID, "%s: got %zu layers, expected at most %d ops in a model", path, s->n,
             MODEL_MAX_OPS - 1);
    TRY(text_copy("trace", &m.name));
    TRY(text_copy(
        "layers of a trace, a chain in the order of their forwards; parameters, sizes and FLOP "
        "are not in it and count as 0",
        &m.note));
    TRY(ARRAY_NEW(m.op, s->n + 1));
    TRY(ARRAY_NEW(edge, s->n + 1));
    TRY(new_profile(s->n + 1, o, any_again(s), false, &p));
    for (size_t i = 0; i < s->n; i++) {
        TRY(profile_add_layer(&m, &s->layer[i], &p));
        TRY(name_layer(run, s->layer[i].path, &m.op[i]));
    }
    if (rest)
        TRY(profile_add_layer(&m, &s->rest, &p));
    for (uint32_t i = 0; i + 1 < m.n; i++)
        edge[i] = (struct model_edge){i, i + 1};
    profile_sum_up(m.n, &p, told);
    TRY(model_put_profile(&m, &p));
    told->layers = s->n;
    TRY(model_finish(&m, edge, m.n - 1, path));
    MOVE(out, m);
out:
    free(edge);
    model_profile_free(&p);
    model_free(&m);
    return st;
}

enum status measured_run_profile(const struct measured_run *run, const char *path,
                                 const struct run_profile_options *o, struct model *m,
                                 struct run_profile_told *told)
{
    enum status st;
    struct profile_sums s = {0};
    struct run_profile_told t = {0};
    if (run->ranks == 0)
        return error_set(STATUS_INVALID,
                         "%s: logs have no layers. Give a trace (PyTorch profiler, Nsight Systems)",
                         path);
    TRY(sum_ranks(run, o, &s));
    if (!(s.all_s > 0))
        FAIL(STATUS_INVALID, "%s: trace has no compute kernels within its steps", path);
    t.all_s = s.all_s;
    t.update_s = s.update_s;
    t.comm_s = s.comm_s;
    t.rest_s = s.rest.forward_s + s.rest.backward_s + s.rest.again_s;
    TRY(m->n > 0 ? onto_model(run, path, &s, o, m, &t) : chain(run, path, &s, o, m, &t));
    *told = t;
out:
    free(s.layer);
    return st;
}
