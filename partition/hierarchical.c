/* hierarchical - contiguous stages of the model's order, cut top down over the groups of devices.
 *
 * The groups come from the platform (tiers.h). A run of stages is divided at the pair of
 * neighbouring stages whose devices meet on the outermost level, the one nearest to the middle if
 * there are several: so the slowest links are cut first, with all positions to choose from. Each
 * side gets as much work as its devices do in the same time, and what enters it over that link is
 * part of its work. Then cuts move across all groups (hierarchical_refine.h). Never worse than
 * uniform, which is tried too, nor than filling stages greedily; a heuristic otherwise.
 * O((n types + stages) log stages) for machines of equal parts, then refinement; O(n + edges)
 * memory, so that it takes models and machines that are too large for balanced.
 * Source: recursive bisection for chains-on-chains partitioning, Pinar & Aykanat, JPDC 64 (2004)
 * 974-996, section 3.1. */
#include <math.h>
#include <string.h>

#include "core/base/array.h"
#include "partition/hierarchical_refine.h"
#include "partition/tiers.h"

/* Stages first_stage .. end_stage - 1 share ops first .. end - 1. */
struct task {
    size_t first_stage, end_stage, first, end;
};

struct hierarchical_descent {
    struct cuts *cuts;
    const struct chain_cost *cost;
    size_t *apart;      /* [stages] level on which stage s meets stage s - 1, + 1; 0: one device */
    size_t *of_type;    /* [types][stages + 1] devices of a type before stage s */
    struct task *stack; /* [stages] */
    struct arena memory;
};

static enum status descent_begin(const struct partition_problem *p, struct cuts *cuts,
                                 struct hierarchical_descent *d)
{
    enum status st;
    struct tiers tiers = {0};
    const struct topology *t = p->t;
    const uint32_t *device = p->device;
    size_t stages = cuts->stages;
    *d = (struct hierarchical_descent){.cuts = cuts, .cost = cuts->cost};
    TRY(ARENA_NEW(&d->memory, d->apart, stages));
    TRY(ARENA_NEW(&d->memory, d->of_type, t->types * (stages + 1)));
    TRY(ARENA_NEW(&d->memory, d->stack, stages));
    TRY(tiers_find(t, &tiers));
    for (size_t s = 0; s < stages; s++) {
        if (s > 0 && device[s] != device[s - 1])
            d->apart[s] = tiers_joining(&tiers, device[s - 1], device[s]) + 1;
        for (size_t k = 0; k < t->types; k++)
            d->of_type[k * (stages + 1) + s + 1] =
                d->of_type[k * (stages + 1) + s] + (d->cost->type[s] == k);
    }
out:
    tiers_free(&tiers);
    return st;
}

/* Where to divide the stages of a task: the first stage of the second part. */
static size_t hierarchical_divide(const struct hierarchical_descent *d, const struct task *task)
{
    size_t best = task->first_stage + 1, middle = (task->first_stage + task->end_stage) / 2;
    for (size_t s = best + 1; s < task->end_stage; s++) {
        size_t off = s > middle ? s - middle : middle - s;
        size_t best_off = best > middle ? best - middle : middle - best;
        if (d->apart[s] > d->apart[best] || (d->apart[s] == d->apart[best] && off < best_off))
            best = s;
    }
    return best;
}

/* Seconds that the stages of a task need when all take equally long, with what enters the first. */
static double even_seconds(const struct hierarchical_descent *d, const struct task *task)
{
    const struct cuts *c = d->cuts;
    double rate = 0; /* how often per second */
    for (size_t k = 0; k < d->cost->types; k++) {
        const size_t *count = d->of_type + k * (c->stages + 1);
        const double *until = d->cost->until_s + k * (c->n + 1);
        double devices = (double)(count[task->end_stage] - count[task->first_stage]);
        if (devices > 0)
            rate += devices / (until[task->end] - until[task->first]);
    }
    double link_s = d->cost->latency_s[task->first_stage] +
                    d->cost->gap_s[task->first_stage] * c->live[task->first];
    return 1 / rate + link_s / (double)(task->end_stage - task->first_stage);
}

/* The best cut of a task between the stages before and from `stage` on; both sides keep enough ops
 * that their stages may begin with. */
static size_t choose_cut(const struct hierarchical_descent *d, const struct task *task,
                         size_t stage)
{
    const struct partition_problem *p = d->cuts->problem;
    double best_s = INFINITY;
    size_t best = 0;
    for (size_t at = task->first + 1; at < task->end; at++) {
        struct task left = {task->first_stage, stage, task->first, at};
        struct task right = {stage, task->end_stage, at, task->end};
        if (!partition_may_begin(p, at) ||
            !partition_holds(p, task->first, at, stage - task->first_stage))
            continue;
        if (!partition_holds(p, at, task->end, task->end_stage - stage))
            break;
        double value_s = fmax(even_seconds(d, &left), even_seconds(d, &right));
        bool lighter = best > 0 && d->cuts->live[at] < d->cuts->live[best];
        if (best == 0 || value_s < best_s || (value_s <= best_s && lighter)) {
            best_s = value_s;
            best = at;
        }
    }
    return best;
}

/* Depth first over the tree of divisions, the tasks that wait on a stack. Into cuts->trial. */
static void hierarchical_descend(struct hierarchical_descent *d)
{
    struct cuts *c = d->cuts;
    size_t waiting = 0;
    d->stack[waiting++] = (struct task){0, c->stages, 0, c->n};
    while (waiting > 0) {
        struct task task = d->stack[--waiting];
        if (task.end_stage - task.first_stage == 1) {
            c->trial[task.first_stage] = task.first;
            continue;
        }
        size_t stage = hierarchical_divide(d, &task), at = choose_cut(d, &task, stage);
        d->stack[waiting++] = (struct task){task.first_stage, stage, task.first, at};
        d->stack[waiting++] = (struct task){stage, task.end_stage, at, task.end};
    }
    c->trial[c->stages] = c->n;
}

static enum status hierarchical_cut(const struct partition_problem *p, size_t *first,
                                    double *objective_s)
{
    enum status st;
    struct chain_cost cost = {0};
    struct cuts c = {0};
    struct hierarchical_descent d = {0};
    TRY(chain_cost_begin(p, &cost));
    TRY(cuts_begin(p, &cost, &c));
    partition_evenly(p, c.trial);
    c.trial[c.stages] = c.n;
    cuts_offer(&c);
    TRY(descent_begin(p, &c, &d));
    hierarchical_descend(&d);
    cuts_offer(&c);
    cuts_fill(&c);
    TRY(cuts_refine(&c));
    memcpy(first, c.cut, c.stages * sizeof *first);
    *objective_s = c.value_s;
out:
    arena_free(&d.memory);
    cuts_free(&c);
    chain_cost_free(&cost);
    return st;
}

const struct partition_algorithm partition_hierarchical = {
    .name = "hierarchical",
    .summary = "top down over groups of devices, then moves across them",
    .guarantee = "never worse than uniform; heuristic, for models too large for balanced",
    .cut = hierarchical_cut,
};
