/* Where the time of an iteration went, and what held it up. */
#include "core/data/breakdown.h"

#include <math.h>
#include <stdio.h>

struct breakdown breakdown_of(const struct measurement *m)
{
    struct breakdown b = {0};
    double share = m->ranks > 0 ? 1 / (double)m->ranks : 0;
    for (size_t r = 0; r < m->ranks; r++) {
        const struct measured_rank *rank = &m->rank[r];
        b.compute_s += share * (rank->busy_s - rank->update_s);
        b.optimizer_s += share * rank->update_s;
        b.bubble_s += share * rank->idle_s;
        for (size_t k = 0; k < OP_PURPOSES; k++)
            b.exposed_s[k] += share * rank->exposed_s[k];
    }
    return b;
}

static double exposed(const struct breakdown *b)
{
    double sum = 0;
    for (size_t k = 0; k < OP_PURPOSES; k++)
        sum += b->exposed_s[k];
    return sum;
}

double breakdown_sum(const struct breakdown *b)
{
    return b->compute_s + b->optimizer_s + exposed(b) + b->bubble_s;
}

double breakdown_part(const struct breakdown *b, size_t k)
{
    return k == 0                     ? b->compute_s
           : k <= OP_PURPOSES         ? b->exposed_s[k - 1]
           : k + 1 == BREAKDOWN_PARTS ? b->bubble_s
                                      : b->optimizer_s;
}

const char *breakdown_part_name(size_t k, char text[BREAKDOWN_PART])
{
    bool waits = k > 0 && k <= OP_PURPOSES;
    snprintf(text, BREAKDOWN_PART, "%s%s", waits ? "exposed " : "",
             waits                      ? op_purpose_words[k - 1]
             : k == 0                   ? "compute"
             : k + 1 == BREAKDOWN_PARTS ? "bubble"
                                        : "optimizer");
    return text;
}

/* What would shorten the exposed communication of each purpose. */
static const char *const communication_help[OP_PURPOSES] = {
    [FOR_PIPELINE] =
        "stage boundaries where tensors are smaller, or faster links between neighbouring stages",
    [FOR_DATA] = "buckets that overlap the backward pass, more microbatches per iteration, or "
                 "faster links between replicas",
    [FOR_TIES] = "faster links between the stages that share weights, or one stage with all of "
                 "these weights",
    [FOR_SHARDS] = "a lower ZeRO level, larger microbatches, or faster links between replicas",
    [FOR_TENSOR] = "overlap with the matrix multiplications (--tensor-overlap), fewer shards per "
                   "op, or shards inside one node",
    [FOR_EXPERTS] = "a lower expert parallelism, or expert-parallel groups inside one node",
    [FOR_HOST] = "less offloading to the host, more microbatches per iteration, or a faster link "
                 "to the host",
    [FOR_NORM] = "no gradient clipping, or stages that take equally long",
    [FOR_CONTEXT] = "a lower context parallelism, context-parallel groups inside one node, or "
                    "--context-exchange ring",
};

/* The same of a captured script, which changes its own code and no plan. */
static const char *const script_help[OP_PURPOSES] = {
    [FOR_PIPELINE] = "more microbatches per step, smaller tensors between stages, or isend issued "
                     "earlier",
    [FOR_DATA] = "gradients in bf16 (bf16_compress_hook), gradient accumulation (no_sync), another "
                 "bucket size (bucket_cap_mb), or collectives that overlap the backward pass",
    [FOR_SHARDS] = "fewer, larger groups of parameters (fully_shard), parameters in bf16, "
                   "prefetching, or larger batches",
    [FOR_TENSOR] = "tensor parallelism over fewer ranks, inside one node, or activations in bf16",
    [FOR_EXPERTS] = "experts over fewer ranks, inside one node, or tokens in bf16",
};

static size_t busiest(const struct measurement *m)
{
    size_t most = 0;
    for (size_t r = 1; r < m->ranks; r++)
        if (m->rank[r].busy_s > m->rank[most].busy_s)
            most = r;
    return most;
}

static uint32_t stages(const struct measurement *m)
{
    uint32_t most = 0;
    for (size_t r = 0; r < m->ranks; r++)
        most = m->rank[r].stage > most ? m->rank[r].stage : most;
    return most + 1;
}

static const double nearly_full = 0.8; /* of a link */

/* Ranks compute most of the time: one of them more than the others, or all alike. */
static void blame_compute(const struct measurement *m, const struct breakdown *b, char *text)
{
    double mean_s = b->compute_s + b->optimizer_s, all_s = breakdown_sum(b);
    const struct measured_rank *most = &m->rank[busiest(m)];
    bool uneven = most->busy_s > 1.02 * mean_s;
    char stage[32] = "";
    if (!m->captured)
        snprintf(stage, sizeof stage, ", stage %u", most->stage);
    int n = snprintf(text, BREAKDOWN_TEXT, "compute: rank %zu (%.60s%s) is busy %.0f %% ",
                     busiest(m), most->name, stage, 100 * most->busy_s / all_s);
    if (uneven)
        snprintf(text + n, BREAKDOWN_TEXT - (size_t)n,
                 "of the iteration, %.2f times the mean rank; moving work off it would help, by at "
                 "most %.0f %%",
                 most->busy_s / mean_s, 100 * (most->busy_s - mean_s) / all_s);
    else
        n += snprintf(text + n, BREAKDOWN_TEXT - (size_t)n,
                      "of the iteration and all others nearly as much; faster devices%s more of "
                      "them would help",
                      m->hfu > m->mfu ? ", less recomputation or" : " or");
    if (!uneven && m->links > 0 && m->link[0].busy_fraction >= nearly_full)
        snprintf(text + n, BREAKDOWN_TEXT - (size_t)n,
                 ", by at most %.0f %%: they do not reduce the traffic of link %.80s, which is "
                 "busy %.0f %%",
                 100 * (1 - m->link[0].busy_fraction), m->link[0].name,
                 100 * m->link[0].busy_fraction);
}

/* Ranks wait for traffic: name its purpose and the busiest link. */
static void blame_communication(const struct measurement *m, const struct breakdown *b, char *text)
{
    size_t worst = 0;
    char link[160] = "";
    for (size_t k = 1; k < OP_PURPOSES; k++)
        worst = b->exposed_s[k] > b->exposed_s[worst] ? k : worst;
    if (m->links > 0)
        snprintf(link, sizeof link, "; the busiest link, %.80s, is busy %.0f %%", m->link[0].name,
                 100 * m->link[0].busy_fraction);
    snprintf(text, BREAKDOWN_TEXT,
             "communication: ranks wait %.0f %% of the iteration for %s%s; %s would help",
             100 * b->exposed_s[worst] / breakdown_sum(b), op_purpose_words[worst], link,
             m->captured && script_help[worst] ? script_help[worst] : communication_help[worst]);
}

/* Ranks have nothing to do: a pipeline that is filled and drained, or one slow rank. */
static void blame_bubble(const struct measurement *m, const struct breakdown *b, char *text)
{
    uint32_t n = stages(m);
    const char *word = m->captured ? "idle" : "bubble";
    int k = snprintf(text, BREAKDOWN_TEXT, "%s: ranks have nothing to do %.0f %% of the time", word,
                     100 * b->bubble_s / breakdown_sum(b));
    if (n > 1)
        snprintf(
            text + k, BREAKDOWN_TEXT - (size_t)k,
            " (a pipeline %u ranks deep, %u microbatches over all replicas); more microbatches per "
            "iteration, fewer stages, or a schedule that idles less (zb-v least) would help",
            n, m->microbatches);
    else if (m->ranks == 1)
        snprintf(
            text, BREAKDOWN_TEXT,
            "%s: the one device has nothing to do %.0f %% of the time; --trace shows between which "
            "ops",
            word, 100 * b->bubble_s / breakdown_sum(b));
    else if (m->captured)
        snprintf(text + k, BREAKDOWN_TEXT - (size_t)k,
                 ", waiting for messages of ranks that still compute; more microbatches per step, "
                 "another schedule, or ranks with equal work would help");
    else
        snprintf(text + k, BREAKDOWN_TEXT - (size_t)k,
                 ", waiting for the slowest rank; dividing the work in proportion to device speeds "
                 "would help");
}

/* The order of the questions: (1) do waits and unevenness matter at all; (2) is it communication,
 * which has to be clearly more than what an even spread of work would save; (3) is it one rank that
 * has more to do; (4) else it is the bubble. */
const char *breakdown_bottleneck(const struct measurement *m, char text[BREAKDOWN_TEXT])
{
    static const double worth_naming = 0.2;
    struct breakdown b = breakdown_of(m);
    double mean_s = b.compute_s + b.optimizer_s, waits_s = exposed(&b), all_s = breakdown_sum(&b);
    text[0] = '\0';
    if (m->ranks == 0 || !(all_s > 0))
        return text;
    double uneven_s = m->rank[busiest(m)].busy_s - mean_s;
    double bubble_s = fmax(0, b.bubble_s - uneven_s);
    if (waits_s + fmax(b.bubble_s, uneven_s) < worth_naming * all_s)
        blame_compute(m, &b, text);
    else if (waits_s >= bubble_s && waits_s >= 2 * uneven_s)
        blame_communication(m, &b, text);
    else if (2 * uneven_s > bubble_s)
        blame_compute(m, &b, text);
    else
        blame_bubble(m, &b, text);
    return text;
}
