/* The cost model: constants of machines, nodes, conversions, stages. */
#include "papers/hidup/cost.h"

const char *const spmd_overlap_names[OVERLAPS + 1] = {"forward", "full", "none", NULL};

#define PROFILE(id, what, flop, gather, all, scatter, exchange)                                    \
    static const struct spmd_machine machine_##id = {#id,                                          \
                                                     what,                                         \
                                                     {0,                                           \
                                                      flop,                                        \
                                                      {[STEP_ALLGATHER] = gather,                  \
                                                       [STEP_ALLREDUCE] = all,                     \
                                                       [STEP_REDUCESCATTER] = scatter,             \
                                                       [STEP_ALLTOALL] = exchange},                \
                                                      1e-4}};
#include "papers/hidup/profiles.def"
#undef PROFILE
const struct spmd_machine *const spmd_machines[] = {
#define PROFILE(name) &machine_##name,
#include "model/papers.def"
#undef PROFILE
};
const size_t spmd_machines_n = sizeof spmd_machines / sizeof *spmd_machines;

static double hidup_cost_step_s(const struct spmd_costs *c, enum form_step step, double bytes)
{
    double bandwidth_Bps = c->profile.bandwidth_Bps[step];
    return bandwidth_Bps > 0 ? bytes / bandwidth_Bps + c->profile.latency_s : 0;
}

void spmd_add_node(const struct spmd_costs *c, const struct spmd_graph *g, uint32_t node,
                   const struct spmd_signature *s, struct spmd_load *load)
{
    const struct spmd_node *n = &g->node[node];
    bool divided = !spmd_is_whole(n, s);
    if (c->table && n->kind == SPMD_PARAMETER) {
        load->update_s += c->table->node_s[node][divided][0];
        return;
    }
    if (c->table) {
        load->compute_s += c->table->node_s[node][divided][0];
        load->compute_back_s += c->table->node_s[node][divided][1];
        return;
    }
    double seconds = n->flop * (c->noise ? c->noise[node] : 1) / c->profile.flop_per_s;
    if (divided)
        seconds /= c->profile.devices;
    if (!c->compat && !spmd_is_plain(c))
        seconds /= 2; /* of a half */
    load->compute_s += seconds;
    load->compute_back_s += 2 * seconds;
}

void spmd_add_conversion(const struct spmd_costs *c, const struct spmd_graph *g, uint32_t tensor,
                         const struct form_conversion *conversion, struct spmd_load *load)
{
    double bytes = spmd_bytes(g, tensor);
    bool shared = !c->compat && spmd_is_parameter(g, tensor);
    bool once = shared || spmd_is_plain(c), all = c->compat || once;
    for (size_t i = 0; i < 2; i++) {
        enum form_step step = conversion->step[i], back = form_conjugate(step);
        double seconds = c->table ? c->table->step_s[tensor][step]
                                  : hidup_cost_step_s(c, step, all ? bytes : bytes / 2);
        double back_s = c->table ? c->table->step_s[tensor][back]
                                 : hidup_cost_step_s(c, back, all ? bytes : bytes / 2);
        load->first_s += seconds;
        load->first_back_s += back_s;
        load->second_s += once ? 0 : seconds;
        load->second_back_s += once ? 0 : back_s;
        if (!c->table)
            continue;
        load->first_taken_s += c->table->taken_s[tensor][step];
        load->first_back_taken_s += c->table->taken_s[tensor][back];
        load->second_taken_s += once ? 0 : c->table->taken_s[tensor][step];
        load->second_back_taken_s += once ? 0 : c->table->taken_s[tensor][back];
    }
}

static double longer(double a, double b)
{
    return a > b ? a : b;
}

/* Side by side, where communication takes something from compute, or one after the other. */
static double both(bool overlap, double compute_s, double communicate_s, double taken_s)
{
    if (!overlap)
        return compute_s + communicate_s;
    return longer(compute_s > 0 ? compute_s + taken_s : 0, communicate_s);
}

struct spmd_time spmd_after(const struct spmd_costs *c, const struct spmd_time *before,
                            const struct spmd_load *s)
{
    bool forward = c->overlap != OVERLAP_NONE, backward = c->overlap == OVERLAP_FULL;
    bool plain = spmd_is_plain(c);
    return (struct spmd_time){
        .acc_s = before->acc_s + both(forward, before->debt_s, s->first_s, s->first_taken_s) +
                 both(forward, s->compute_s, s->second_s, s->second_taken_s) +
                 both(backward, before->debt_back_s, s->first_back_s, s->first_back_taken_s) +
                 both(backward, s->compute_back_s, s->second_back_s, s->second_back_taken_s) +
                 s->update_s,
        .debt_s = plain ? 0 : s->compute_s,
        .debt_back_s = plain ? 0 : s->compute_back_s,
    };
}

double spmd_total(const struct spmd_costs *c, const struct spmd_time *t)
{
    return t->acc_s + t->debt_s + (c->compat ? 0 : t->debt_back_s);
}
