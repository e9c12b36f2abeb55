/* Is a plan the best of all that cut its model into as many stages? Simulates, on the analytic
 * engine, all chains of down-sets on all given orders of devices, one device a stage.
 *
 * usage: all_cuts PLAN.json DEVICE,DEVICE,... [DEVICE,DEVICE,...]...
 *
 * Prints the plan's seconds, those of the best, how many there are, how many of these were
 * simulated, and the best one's stages. What cannot be faster is not simulated: a stage's FLOP of
 * all microbatches take at least so long at its device's peak. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "study/evaluate.h"
#include "study/load.h"

enum { MOST_STAGES = 8, MOST_ORDERS = 720 };

struct all_cuts {
    struct loaded_plan l;
    struct evaluation_context context;
    size_t orders;
    uint32_t order[MOST_ORDERS][MOST_STAGES];
    uint32_t *stage, *best_stage; /* [ops] */
    size_t ops_of[MOST_STAGES];
    double flop_of[MOST_STAGES];
    double best_s;
    size_t best_order, seen, simulated;
};

static _Noreturn void fail(void)
{
    fprintf(stderr, "all_cuts: %s\n", error_message());
    exit(1);
}

static double seconds(struct all_cuts *a)
{
    struct evaluation e = {0};
    if (evaluate_once(&a->context, &a->l.plan, &e) != STATUS_OK)
        fail();
    a->simulated++;
    return e.iteration_s;
}

/* Least seconds of an order of devices: the busiest one's FLOP. */
static double bound(const struct all_cuts *a, const uint32_t *order)
{
    const struct topology *t = &a->l.topology;
    double most = 0;
    for (size_t s = 0; s < a->l.plan.stages; s++)
        most = fmax(most, a->flop_of[s] / t->type[t->type_of[order[s]]].flops);
    return most * a->l.plan.microbatches * a->l.plan.microbatch_size;
}

static void try_orders(struct all_cuts *a)
{
    struct plan *p = &a->l.plan;
    size_t n[MOST_STAGES] = {0};
    a->seen += a->orders;
    for (uint32_t i = 0; i < a->l.model.n; i++)
        p->stage[a->stage[i]].op[n[a->stage[i]]++] = i;
    for (size_t s = 0; s < p->stages; s++)
        p->stage[s].ops = n[s];
    for (size_t k = 0; k < a->orders; k++) {
        if (bound(a, a->order[k]) >= a->best_s)
            continue;
        for (size_t s = 0; s < p->stages; s++)
            p->stage[s].device[0] = a->order[k][s];
        double t = seconds(a);
        if (t >= a->best_s)
            continue;
        a->best_s = t;
        a->best_order = k;
        memcpy(a->best_stage, a->stage, a->l.model.n * sizeof *a->stage);
    }
}

/* Ops from i on, which stand in a topological order, into stages no earlier than what they read. */
static void try_from(struct all_cuts *a, size_t i)
{
    const struct model *m = &a->l.model;
    size_t empty = 0;
    uint32_t from = 0;
    for (size_t s = 0; s < a->l.plan.stages; s++)
        empty += a->ops_of[s] == 0;
    if (empty > m->n - i)
        return;
    if (i == m->n) {
        try_orders(a);
        return;
    }
    for (size_t k = m->in_start[i]; k < m->in_start[i + 1]; k++)
        from = a->stage[m->in[k]] > from ? a->stage[m->in[k]] : from;
    double flop = m->op[i].forward_flop + m->op[i].backward_flop;
    for (uint32_t s = from; s < a->l.plan.stages; s++) {
        a->stage[i] = s;
        a->ops_of[s]++;
        a->flop_of[s] += flop;
        try_from(a, i + 1);
        a->ops_of[s]--;
        a->flop_of[s] -= flop;
    }
}

static void read_order(struct all_cuts *a, char *text)
{
    size_t n = 0;
    for (char *name = strtok(text, ","); name; name = strtok(NULL, ",")) {
        uint32_t d = 0;
        while (d < a->l.topology.n && strcmp(a->l.topology.device[d], name) != 0)
            d++;
        if (d == a->l.topology.n || n >= a->l.plan.stages) {
            fprintf(stderr, "all_cuts: %s: not a device, or one too many\n", name);
            exit(2);
        }
        a->order[a->orders][n++] = d;
    }
    a->orders += n == a->l.plan.stages;
}

/* Room for all ops in each stage. */
static void make_room(struct all_cuts *a)
{
    size_t n = a->l.model.n;
    a->stage = calloc(n, sizeof *a->stage);
    a->best_stage = calloc(n, sizeof *a->best_stage);
    for (size_t s = 0; s < a->l.plan.stages; s++) {
        uint32_t *op = realloc(a->l.plan.stage[s].op, n * sizeof *op);
        if (!op || !a->stage || !a->best_stage)
            exit(1);
        a->l.plan.stage[s].op = op;
        for (size_t k = 0; k < a->l.plan.stage[s].ops; k++)
            a->best_stage[op[k]] = (uint32_t)s;
    }
}

int main(int argc, char **argv)
{
    struct all_cuts *a = calloc(1, sizeof *a);
    if (!a || argc < 3 || argc - 2 > MOST_ORDERS) {
        fprintf(stderr, "usage: all_cuts PLAN.json DEVICE,DEVICE,...\n");
        return 2;
    }
    if (load_plan_only(argv[1], &a->l) != STATUS_OK)
        fail();
    if (a->l.plan.stages > MOST_STAGES)
        return 2;
    for (int i = 2; i < argc; i++)
        read_order(a, argv[i]);
    a->context = (struct evaluation_context){
        .model = &a->l.model, .topology = &a->l.topology, .platform = a->l.platform};
    double given_s = a->best_s = seconds(a);
    a->best_order = SIZE_MAX;
    make_room(a);
    try_from(a, 0);
    printf("%.12g %.12g %zu %zu ", given_s, a->best_s, a->seen, a->simulated);
    for (size_t i = 0; i < a->l.model.n; i++)
        printf("%u", a->best_stage[i]);
    for (size_t s = 0; s < a->l.plan.stages; s++)
        printf("%c%s", s ? ',' : ' ',
               a->best_order == SIZE_MAX ? "-" : a->l.topology.device[a->order[a->best_order][s]]);
    putchar('\n');
    free(a->stage);
    free(a->best_stage);
    loaded_plan_free(&a->l);
    free(a);
    return 0;
}
