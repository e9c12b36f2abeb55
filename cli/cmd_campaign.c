/* campaign - how long a training takes when things fail. */
#include "cli/command.h"

#include "study/campaign_job.h"
#include "study/load.h"

static enum status campaign_answer_print(struct invocation *in, const struct campaign_job *j)
{
    const struct arguments *a = &in->a;
    struct campaign_answer answer = {0};
    PASS(campaign_forecast(&j->c, a->seed, 0.01, &answer.f));
    if (answer.f.unfinished < answer.f.courses)
        PASS(campaign_remedies(j, a->seed, &answer.now_s, answer.remedy, &answer.remedies));
    in->by.seed = a->seed;
    if (a->json)
        return campaign_write(j, &answer, "-", &in->by);
    campaign_print(j, &answer, stdout);
    return STATUS_OK;
}

static enum status cmd_campaign(struct invocation *in)
{
    enum status st;
    const struct arguments *a = &in->a;
    struct loaded_plan l = {0};
    struct campaign_settings s = {0};
    struct campaign_job j = {0};
    PASS(command_expect(in, 1, "one plan file"));
    PASS(arguments_check(a, a->campaign.over ? TAKES(CAMPAIGN_OVER) : TAKES(CAMPAIGN)));
    if (!(a->train_tokens > 0))
        return error_set(STATUS_USAGE, "campaign needs --tokens N, such as --tokens 15T");
    TRY(load_plan_only(in->operand[0], &l));
    const struct evaluation_context on = {
        .model = &l.model, .topology = &l.topology, .platform = l.platform};
    TRY(campaign_settings_read(a, l.platform, &s));
    TRY(campaign_job_make(&s, &l.plan, &on, a->campaign.iteration_s, &j));
    st = a->campaign.over ? campaign_print_over(&j, a->campaign.over, a->seed, stdout)
                          : campaign_answer_print(in, &j);
out:
    campaign_job_free(&j);
    campaign_settings_free(&s);
    loaded_plan_free(&l);
    return st;
}

const struct command command_campaign = {
    .name = "campaign",
    .synopsis = "PLAN --tokens N",
    .summary = "predict the days that a training takes with failures, checkpoints and repairs",
    .details =
        "Predicts the iteration time of the plan, and simulates the whole training many times "
        "with\n"
        "random failures of the parts that the plan uses, until the quantiles of the training "
        "days\n"
        "are known to within 1 %. Prints the effective training time, the time lost by cause, the\n"
        "best checkpoint interval, the best number of spare nodes, and what would shorten the\n"
        "training. The formulas of Young and Daly are printed for comparison.\n"
        "\n"
        "--failures NAME:KEY=VALUE,... overrides published rates. gpu, node, nic, link, switch "
        "and\n"
        "software (per node) are mean times between failures of one such part (0: never). detect,\n"
        "timeout, restart and repair are times; hang is the share of failures that only a timeout\n"
        "detects. slow is the mean time until a GPU becomes slow, slower its slowdown, slow-found\n"
        "the time until it is replaced. Write times as 50000h or 3d.\n"
        "\n"
        "--storage: shared is one store on a network of its own (rate= for the store, node= for "
        "one\n"
        "node). disk and peer are the disks or memory of the nodes: a partner node keeps a copy, "
        "sent\n"
        "over the platform's network. host is hosts of the platform, over its links. --recovery:\n"
        "spares restarts all nodes, with a spare for the failed one; shrink, without a spare,\n"
        "continues with fewer replicas until the repair; hot\n"
        "lets a spare join and copy its state from another replica, while the others go back one\n"
        "iteration.\n"
        "\n"
        "--over prints a tab-separated table that `foreline plot` draws. "
        "docs/reference/campaign.md.",
    .examples = "foreline campaign plan.json --tokens 1T\n",
    .often = "tokens failures storage checkpoint every recovery spares over seed json",
    .run = cmd_campaign,
};
