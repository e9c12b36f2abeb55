/* A plan as a training of weeks. */
#include "study/campaign_job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/order.h"
#include "core/cost/cost.h"
#include "core/lower/lower.h"
#include "study/campaign_traffic.h"
#include "study/costs.h"
#include "study/machine.h"

enum { COMPARED = 400 };

/* Bytes of a checkpoint of a stage: parameters and the optimizer's state, once for all replicas. */
static double stage_bytes(const struct campaign_job *j, const struct plan_stage *s)
{
    const struct plan *p = j->plan;
    const struct model *m = j->on->model;
    struct cost_memory factor =
        cost_memory(p->optimizer, m->element_bytes, plan_reduce_bytes(p, m), plan_framework(p));
    double parameters = 0;
    for (size_t k = 0; k < s->ops; k++)
        parameters += (double)m->op[s->op[k]].parameter_bytes;
    return parameters * (1 + (double)factor.state);
}

/* Every device of a stage writes as much of it. *device has each device once. */
static enum status devices_find(struct campaign_job *j, struct job_device **device, size_t *n)
{
    enum status st;
    struct topology t =
        *j->on->topology; /* the same with its nodes numbered, which are all it owns */
    struct job_device *all = NULL;
    uint32_t *at = NULL; /* of each device of the platform, 1 + its place */
    *n = 0;
    t.node_of = NULL;
    TRY(topology_find_nodes(&t));
    TRY(ARRAY_NEW(all, t.n));
    TRY(ARRAY_NEW(at, t.n));
    for (size_t s = 0; s < j->plan->stages; s++) {
        const struct plan_stage *stage = &j->plan->stage[s];
        double bytes = stage_bytes(j, stage) / (double)stage->devices;
        for (size_t k = 0; k < stage->devices; k++) {
            uint32_t d = stage->device[k];
            if (at[d] == 0) {
                all[*n] = (struct job_device){t.node_of[d], d, (uint32_t)s, 0, 0};
                *n += 1;
                at[d] = (uint32_t)*n;
            }
            all[at[d] - 1].bytes += bytes;
        }
    }
    qsort(all, *n, sizeof *all, order_by_pair);
    for (size_t i = 0; i < *n; i++)
        j->nodes += i == 0 || all[i].node != all[i - 1].node;
    *device = all;
    all = NULL;
out:
    free(t.node_of);
    free(all);
    free(at);
    return st;
}

/* ---- storage */

/* What all nodes write, and what they read to go on: every rank what it holds. */
static enum status find_load(struct campaign_job *j, struct job_device *device, size_t n,
                             const struct program *program)
{
    double node_bytes = 0, most_rank = 0, per_node = 0, count = 0, *held = NULL;
    struct storage_load *l = &j->load;
    PASS(ARRAY_NEW(held, j->plan->stages));
    for (size_t r = 0; r < program->ranks; r++) {
        const struct program_rank *k = &program->rank[r];
        double bytes = (double)(k->weight_bytes + k->state_bytes + k->host_bytes);
        l->load_total += bytes * (double)program_rank_copies(program, r);
        most_rank = fmax(most_rank, bytes);
        held[k->stage] = fmax(held[k->stage], bytes);
    }
    for (size_t i = 0; i < n; i++) {
        bool begins = i == 0 || device[i].node != device[i - 1].node;
        node_bytes = begins ? device[i].bytes : node_bytes + device[i].bytes;
        count = begins ? 1 : count + 1;
        per_node = fmax(per_node, count);
        l->total += device[i].bytes;
        l->most_node = fmax(l->most_node, node_bytes);
        device[i].held = held[device[i].stage];
    }
    l->load_most_node = most_rank * per_node;
    free(held);
    return STATUS_OK;
}

/* Until checkpoints are over the platform's links, where they go there. */
static enum status find_traffic(struct campaign_job *j, const struct campaign_settings *s,
                                const struct job_device *device, size_t n)
{
    double seconds[2];
    if (!storage_on_links(&j->storage))
        return traffic_partners(j->on->topology, device, n, &j->load.network_s);
    if (s->stores == 0)
        return error_set(STATUS_USAGE,
                         "--storage host: no host of the platform has the property 'storage'");
    PASS(traffic_stores(j->on->topology, j->on->platform, s, device, n, seconds));
    j->load.network_s = seconds[0];
    j->load.network_load_s = seconds[1];
    return STATUS_OK;
}

/* What checkpoints on this storage cost the training. */
static enum status set_checkpoint(const struct campaign_job *j, const struct storage *s,
                                  bool beside, struct campaign *c)
{
    double save_s;
    PASS(storage_times(s, &j->load, &save_s, &c->load_s));
    c->block_s = j->stop_s + (beside ? fmin(j->copy_s, save_s) : save_s);
    c->drain_s = beside ? save_s : 0;
    c->interference = beside ? j->interference : 0;
    return STATUS_OK;
}

static enum status find_storage(struct campaign_job *j, const struct arguments *a,
                                const struct job_device *device, size_t n)
{
    const struct topology *t = j->on->topology;
    if (a->campaign.bytes > 0) {
        double share = a->campaign.bytes / j->load.total;
        j->load.total = a->campaign.bytes;
        j->load.most_node *= share;
        j->load.network_s *= share;
        j->load.network_load_s *= share;
        j->load.load_total *= share;
        j->load.load_most_node *= share;
    }
    for (size_t i = 0; i < n; i++)
        j->copy_s =
            fmax(j->copy_s, device[i].bytes / device_host_Bps(topology_type(t, device[i].device)));
    j->beside = strcmp(a->campaign.checkpoint, "beside") == 0;
    j->stop_s = a->campaign.stop_s;
    j->interference = a->campaign.interference;
    return set_checkpoint(j, &j->storage, j->beside, &j->c);
}

/* ---- what may fail */

/* Cards and switches are those of the platform's file, as many of them as the job has of its
 * devices; where it does not say, a card for each device, and no switch. */
static enum status count_pieces(struct campaign_job *j, size_t n)
{
    struct inventory v = {0};
    double share = (double)n / (double)j->on->topology->n;
    PASS(costs_find(j->on->platform, NULL, &v));
    double cards = share * (double)inventory_count(&v, INVENTORY_NIC);
    j->c.devices = (double)n;
    j->c.pieces[CAUSE_GPU] = (double)n;
    j->c.pieces[CAUSE_NODE] = j->c.pieces[CAUSE_SOFTWARE] = j->nodes;
    j->c.pieces[CAUSE_NIC] = j->c.pieces[CAUSE_LINK] = cards > 0 ? cards : (double)n;
    j->c.pieces[CAUSE_SWITCH] = share * (double)inventory_count(&v, INVENTORY_SWITCH);
    inventory_free(&v);
    return STATUS_OK;
}

static enum status find_iteration(struct campaign_job *j, const struct arguments *a,
                                  double iteration_s, struct program *program)
{
    const struct engine *engine = engine_quick();
    struct measurement m = {0};
    enum status st;
    TRY(a->sim.engine ? engine_find(a->sim.engine, &engine) : STATUS_OK);
    TRY(evaluate_plan(j->plan, j->on, engine, &m, program, NULL));
    if (!(m.tokens_per_s > 0))
        FAIL(STATUS_USAGE, "--%stokens has no effect: model '%s' does not process tokens",
             arguments_given(a, "train-tokens") ? "train-" : "", j->on->model->name);
    if (j->c.recovery == RECOVER_SHRINK) {
        TRY(campaign_shrink_open(j->plan, j->on, engine, &j->shrink));
        j->shrink.nodes = j->nodes;
        j->shrink.iteration_s = m.iteration_s;
        j->c.shrunk = campaign_shrink_times;
        j->c.shrink = &j->shrink;
    }
    j->c.iteration_s = iteration_s > 0 ? iteration_s : m.iteration_s;
    j->tokens_per_s = m.tokens_per_s * m.iteration_s / j->c.iteration_s;
    j->watts = m.watts;
    j->price_per_hour = m.price_per_hour;
    j->c.work_s = ceil(j->tokens / (j->tokens_per_s * j->c.iteration_s)) * j->c.iteration_s;
out:
    measurement_free(&m);
    return st;
}

/* Parts of the data that go through the job side by side. */
static double replicas_of(const struct plan *p)
{
    double least = INFINITY;
    for (size_t s = 0; s < p->stages; s++)
        least = fmin(least, (double)p->stage[s].replicas / fmax(1, p->stage[s].context_parallel));
    return fmax(1, floor(least));
}

/* What was not given is what is best. */
static enum status choose(struct campaign_job *j, const struct arguments *a)
{
    struct campaign *c = &j->c;
    uint32_t spares = (uint32_t)a->campaign.spares;
    j->chosen_every = !(a->campaign.every_s > 0);
    j->chosen_spares = !arguments_given(a, "spares");
    c->every_s =
        fmin(c->work_s, fmax(1, round(a->campaign.every_s / c->iteration_s)) * c->iteration_s);
    if (j->chosen_every)
        c->every_s = campaign_best_interval(c);
    if (j->chosen_spares)
        PASS(campaign_best_spares(c, j->nodes, CAMPAIGN_SPARES_MOST, a->seed, &spares));
    c->spares = spares;
    return STATUS_OK;
}

static enum status job_find(struct campaign_job *j, const struct campaign_settings *s,
                            double iteration_s, struct job_device **device, struct program *program)
{
    size_t n;
    PASS(devices_find(j, device, &n));
    PASS(find_iteration(j, &s->a, iteration_s, program));
    PASS(find_load(j, *device, n, program));
    PASS(find_traffic(j, s, *device, n));
    PASS(find_storage(j, &s->a, *device, n));
    PASS(count_pieces(j, n));
    return choose(j, &s->a);
}

static enum status read_option(const char *option, enum status st)
{
    return st == STATUS_INVALID ? error_context(STATUS_USAGE, "%s", option) : st;
}

enum status campaign_job_make(const struct campaign_settings *s, const struct plan *plan,
                              const struct evaluation_context *on, double iteration_s,
                              struct campaign_job *out)
{
    enum status st;
    const struct arguments *a = &s->a;
    struct job_device *device = NULL;
    struct program program = {0};
    *out = (struct campaign_job){
        .plan = plan, .on = on, .tokens = a->train_tokens, .rates = a->campaign.failures};
    struct campaign *c = &out->c;
    TRY(read_option("--failures", failures_read(out->rates, &out->failures)));
    TRY(read_option("--storage", storage_read(a->campaign.storage, &out->storage)));
    c->failures = &out->failures;
    c->replicas = replicas_of(plan);
    c->swap_s = a->campaign.swap_s;
    while (strcmp(recoveries[c->recovery].name, a->campaign.recovery) != 0)
        c->recovery++;
    if (c->recovery == RECOVER_HOT && plan->zero > 0)
        FAIL(STATUS_USAGE,
             "--recovery hot is unsupported with ZeRO %u: no other replica has the state of a lost "
             "node. Try --recovery spares",
             plan->zero);
    TRY(job_find(out, s, iteration_s, &device, &program));
out:
    program_free(&program);
    free(device);
    return st;
}

void campaign_job_free(struct campaign_job *j)
{
    campaign_shrink_free(&j->shrink);
    *j = (struct campaign_job){0};
}

/* ---- remedies */

/* The campaign with one change; false: it changes nothing. */
static bool remedy_apply(size_t i, const struct campaign_job *j, struct campaign *c,
                         struct failures *f, const char **text)
{
    static const char *const texts[CAMPAIGN_REMEDIES] = {
        "half as many failures",
        "checkpoints that cost nothing",
        "failures noticed at once",
        "restarts and loading in no time",
        "repairs in no time",
        "no slow GPUs",
        "one more spare node",
        "storage twice as fast",
        "checkpoints written beside training",
    };
    struct storage faster = j->storage;
    faster.rate_Bps *= 2;
    faster.node_Bps *= 2;
    *c = j->c;
    *f = j->failures;
    c->failures = f;
    *text = texts[i];
    switch (i) {
    case 0:
        for (size_t k = 0; k < CAUSES; k++)
            f->between_s[k] *= 2;
        return failures_rate(f, c->pieces) > 0;
    case 1:
        c->block_s = c->drain_s = 0;
        break;
    case 2:
        f->detect_s = f->timeout_s = 0;
        break;
    case 3:
        f->restart_s = c->load_s = c->swap_s = 0;
        break;
    case 4:
        f->repair_s = 0;
        break;
    case 5:
        f->slow_s = 0;
        return j->failures.slow_s > 0;
    case 6:
        c->spares++;
        break;
    case 7:
        return set_checkpoint(j, &faster, j->beside, c) == STATUS_OK;
    default:
        return !j->beside && set_checkpoint(j, &j->storage, true, c) == STATUS_OK;
    }
    return true;
}

static int by_wall(const void *a, const void *b)
{
    const struct campaign_remedy *x = a, *y = b;
    return (x->wall_s > y->wall_s) - (x->wall_s < y->wall_s);
}

enum status campaign_remedies(const struct campaign_job *j, uint64_t seed, double *now_s,
                              struct campaign_remedy out[CAMPAIGN_REMEDIES], size_t *n)
{
    struct course mean;
    PASS(campaign_mean(&j->c, seed, COMPARED, &mean));
    *now_s = mean.wall_s;
    *n = 0;
    for (size_t i = 0; i < CAMPAIGN_REMEDIES; i++) {
        struct campaign c;
        struct failures f;
        struct campaign_remedy r;
        if (!remedy_apply(i, j, &c, &f, &r.text))
            continue;
        if (j->chosen_every) {
            double best = campaign_best_interval(&c);
            c.every_s = best > 0 ? best : c.every_s;
        }
        PASS(campaign_mean(&c, seed, COMPARED, &mean));
        r.wall_s = mean.wall_s;
        if (r.wall_s < *now_s * (1 - 1e-4))
            out[(*n)++] = r;
    }
    qsort(out, *n, sizeof *out, by_wall);
    return STATUS_OK;
}
