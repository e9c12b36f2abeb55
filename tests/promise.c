/* Random inputs, and what is promised about them. Aborts when something fails that should not. */
#include "tests/promise.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/random.h"
#include "core/lower/lower.h"
#include "core/schedule/schedule.h"
#include "partition/partition.h"
#include "study/evaluate.h"
#include "study/load.h"

static void demand(enum status st, const char *what)
{
    if (st == STATUS_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, error_message());
    abort();
}

uint32_t promise_below(struct promise_random *r, uint32_t n)
{
    return (uint32_t)((random_next(&r->state) >> 32) * n >> 32);
}

/* ---- inputs */

static uint32_t between(struct promise_random *r, uint32_t low, uint32_t high)
{
    return low + promise_below(r, high - low + 1);
}

void promise_model(struct promise_random *r, char name[96])
{
    static const char *const one[] = {"gpt2-small", "gpt2-medium", "gpt2-large", "bert-base",
                                      "bert-large", "rmoe",        "rswitch",    "vtransformer"};
    uint32_t n = (uint32_t)(sizeof one / sizeof *one), k = promise_below(r, n + 4);
    if (k < n)
        snprintf(name, 96, "%s", one[k]);
    else if (k == n)
        snprintf(name, 96, "mlp");
    else if (k == n + 1)
        snprintf(name, 96, "rtransformer:layers=%u", between(r, 4, 24));
    else
        snprintf(name, 96, "gpt-tiny:layers=%u,hidden=%u,tokens=%u", between(r, 2, 12),
                 64U << promise_below(r, 5), 64U << promise_below(r, 4));
}

void promise_platform(struct promise_random *r, uint32_t family, char name[96])
{
    static const char *const shipped[] = {"dgx-a100-x2", "dgx-h100-x4", "hidup-8xv100",
                                          "laptop",      "pipedream-a", "two-racks"};
    static const char *const nic[] = {"10Gbps", "25Gbps", "100Gbps", "400Gbps"};
    const char *port = nic[promise_below(r, 4)];
    uint32_t nodes = 1U << promise_below(r, 4), gpus = 1U << between(r, 1, 2);
    double over = 1 + promise_below(r, 4);
    if (family >= PROMISE_FAMILIES)
        family = promise_below(r, PROMISE_FAMILIES);
    switch (family) {
    case 0:
        snprintf(name, 96, "dragonfly+:groups=2,leaves=2,nodes=%u,gpus=%u,nics=1,nic=%s",
                 between(r, 1, 2), gpus, port);
        break;
    case 1:
        snprintf(name, 96, "fat-tree:nodes=%u,gpus=%u,nics=%u,oversubscription=%g,nic=%s",
                 nodes * 2, gpus, between(r, 1, 2), over, port);
        break;
    case 2:
        snprintf(name, 96, "leaf-spine:nodes=%u,gpus=%u,rack=2,oversubscription=%g,nic=%s",
                 nodes * 2, gpus, over, port);
        break;
    case 3:
        snprintf(name, 96, "mesh:gpus=%u", between(r, 2, 8));
        break;
    case 4:
        snprintf(name, 96, "node:gpus=%u", between(r, 2, 16));
        break;
    case 5:
        snprintf(name, 96, "nvl:domains=%u,gpus=%u,oversubscription=%g,nic=%s", nodes, gpus * 2,
                 over, port);
        break;
    case 6:
        snprintf(name, 96, "rail:nodes=%u,gpus=%u,rack=2,oversubscription=%g,nic=%s", nodes * 2,
                 gpus, over, port);
        break;
    case 7:
        snprintf(name, 96, "torus:x=%u,y=%u,gpus=%u", between(r, 2, 4), between(r, 2, 4),
                 between(r, 1, 2));
        break;
    case 8:
        snprintf(name, 96, "wan:sites=2,nodes=%u,gpus=%u,line=%s", between(r, 1, 2), gpus, port);
        break;
    case 9:
        snprintf(name, 96, "fat-tree:nodes=%u,gpus=%u,mesh=1,nic=%s", nodes, gpus, port);
        break;
    default:
        snprintf(name, 96, "%s", shipped[promise_below(r, 6)]);
    }
}

/* ---- plans */

static struct partition_request any_request(struct promise_random *r, uint32_t most,
                                            const struct topology *t, const struct model *m)
{
    struct partition_request q = {.optimizer = "adam",
                                  .model = "model",
                                  .platform = "platform",
                                  .microbatch_size = 1U << promise_below(r, 3),
                                  .tensor_parallel = 1U << promise_below(r, 3),
                                  .zero = promise_below(r, 4),
                                  .placement =
                                      promise_below(r, 2) ? PLACE_REPLICAS : PLACE_PIPELINES};
    uint32_t devices = (uint32_t)t->n / q.tensor_parallel;
    uint32_t teams = 1 + promise_below(r, devices ? devices : 1);
    uint32_t replicas = devices / teams;
    const struct schedule *s = schedules[promise_below(r, (uint32_t)schedules_n)];
    q.replicas = replicas ? 1 + promise_below(r, replicas) : 1;
    q.chunks = s->vee ? 2 : s->chunked && teams > 1 ? between(r, 1, 3) : 1;
    q.stages = teams * q.chunks;
    q.schedule = s->name;
    q.sequence_parallel = q.tensor_parallel > 1 && promise_below(r, 2);
    q.recompute = promise_below(r, 4) ? RECOMPUTE_NONE : RECOMPUTE_FULL;
    q.microbatches = 1U << between(r, 3, 11);
    q.microbatches += promise_below(r, 2) ? promise_below(r, q.microbatches) : 0;
    if (promise_below(r, 2) && q.replicas > 1)
        q.microbatches = (q.microbatches / q.replicas + 1) * q.replicas;
    q.microbatches = q.microbatches < most ? q.microbatches : most;
    if (promise_below(r, 3) == 0)
        q.bucket_bytes = 1 << 20;
    (void)m;
    return q;
}

void promise_plan(struct promise_random *r, uint32_t most, struct promise_case *c)
{
    static const char *const algorithms[] = {"balanced", "uniform"};
    struct program program = {0};
    for (;;) {
        const struct partition_algorithm *a;
        struct partition_request q = any_request(r, most, &c->topology, &c->model);
        demand(partition_find(algorithms[promise_below(r, 2)], &a), "algorithm");
        plan_free(&c->plan);
        if (q.stages > c->model.n || (c->model.n > 400 && q.stages > 16) ||
            partition_run(a, &c->model, &c->topology, &q, &c->plan) != STATUS_OK)
            continue;
        struct plan few = c->plan;
        few.microbatches = q.replicas * (uint32_t)(q.stages / q.chunks);
        few.microbatches += c->plan.microbatches % few.microbatches;
        if (plan_lower(&few, &c->model, &c->topology, &program) == STATUS_OK)
            break;
    }
    program_free(&program);
}

void promise_case(struct promise_random *r, uint32_t family, uint32_t most, struct promise_case *c)
{
    *c = (struct promise_case){0};
    promise_model(r, c->model_name);
    promise_platform(r, family, c->platform_name);
    demand(load_model(c->model_name, &c->model), c->model_name);
    demand(load_topology(c->platform_name, &c->topology, &c->path), c->platform_name);
    promise_plan(r, most, c);
}

void promise_case_free(struct promise_case *c)
{
    plan_free(&c->plan);
    topology_free(&c->topology);
    model_free(&c->model);
    free(c->path);
    *c = (struct promise_case){0};
}

const char *promise_text(const struct promise_case *c, char text[PROMISE_TEXT])
{
    const struct plan *p = &c->plan;
    size_t teams = 1;
    while (teams < p->stages && p->stage[teams].device[0] != p->stage[0].device[0])
        teams++;
    snprintf(text, PROMISE_TEXT,
             "%s on %s: %zu x %u x %u, %zu chunks, %s, %u x %u, zero %u%s, buckets %lld",
             c->model_name, c->platform_name, p->stages, p->stage[0].replicas,
             p->stage[0].tensor_parallel, p->stages / teams, p->schedule, p->microbatches,
             p->microbatch_size, p->zero, p->sequence_parallel ? ", sequence" : "",
             (long long)p->bucket_bytes);
    return text;
}

/* ---- folding over microbatches */

static bool is_sound(const struct measurement *m)
{
    double all = m->bubble_fraction;
    for (size_t r = 0; r < m->ranks; r++) {
        const struct measured_rank *k = &m->rank[r];
        double sum = k->busy_s + k->exposed_comm_s + k->idle_s, purposes = 0;
        for (size_t i = 0; i < OP_PURPOSES; i++) {
            purposes += k->exposed_s[i];
            all = fmin(all, k->exposed_s[i]);
        }
        all = fmin(all, fmin(k->busy_s, fmin(k->exposed_comm_s, k->idle_s)));
        if (fabs(sum - m->iteration_s) > 1e-9 * m->iteration_s ||
            fabs(purposes - k->exposed_comm_s) > 1e-9 * m->iteration_s)
            return false;
    }
    return all >= 0 && m->bubble_fraction <= 1;
}

static double furthest(const struct measurement *a, const struct measurement *b)
{
    double error = fabs(a->iteration_s / b->iteration_s - 1);
    error = fmax(error, fabs(a->bubble_fraction - b->bubble_fraction));
    for (size_t r = 0; r < b->ranks; r++) {
        const struct measured_rank *x = &a->rank[r], *y = &b->rank[r];
        error = fmax(error, fabs(x->busy_s - y->busy_s) / b->iteration_s);
        error = fmax(error, fabs(x->exposed_comm_s - y->exposed_comm_s) / b->iteration_s);
        error = fmax(error, fabs(x->idle_s - y->idle_s) / b->iteration_s);
        if (x->peak_bytes != y->peak_bytes)
            error = INFINITY;
    }
    for (size_t k = 0; k < b->links; k++)
        for (size_t j = 0; j < a->links; j++)
            if (!strcmp(a->link[j].name, b->link[k].name))
                error = fmax(error, fabs(a->link[j].busy_fraction - b->link[k].busy_fraction));
    return a->links == b->links ? error : INFINITY;
}

struct promise_folding promise_fold(const struct promise_case *c, const struct engine *engine)
{
    struct promise_folding f = {0};
    struct evaluation_context context = {
        .model = &c->model, .topology = &c->topology, .platform = c->path, .detailed = true};
    struct measurement m[2] = {{0}, {0}};
    for (int k = 0; k < 2; k++) {
        context.whole = k;
        char text[PROMISE_TEXT];
        demand(evaluate_plan(&c->plan, &context, engine, &m[k], NULL, NULL), promise_text(c, text));
    }
    f.folded = m[0].simulated < m[0].microbatches;
    f.folded_s = m[0].iteration_s;
    f.whole_s = m[1].iteration_s;
    f.error = furthest(&m[0], &m[1]);
    f.sound = is_sound(&m[0]) && is_sound(&m[1]);
    snprintf(f.reason, sizeof f.reason, "%s", m[0].not_folded ? m[0].not_folded : "");
    measurement_free(&m[0]);
    measurement_free(&m[1]);
    return f;
}
