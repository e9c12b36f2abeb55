/* campaign - how long a training takes when things fail. */
#include "cli/command.h"

#include "study/campaign_job.h"

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
    const struct arguments *a = &in->a;
    struct campaign_job j = {0};
    PASS(command_expect(in, 1, "one plan file"));
    PASS(arguments_check(a, a->campaign.over ? TAKES(CAMPAIGN_OVER) : TAKES(CAMPAIGN)));
    enum status st = campaign_job_read(a, in->operand[0], &j);
    if (st == STATUS_OK)
        st = a->campaign.over ? campaign_print_over(&j, a->campaign.over, a->seed, stdout)
                              : campaign_answer_print(in, &j);
    campaign_job_free(&j);
    return st;
}

const struct command command_campaign = {
    .name = "campaign",
    .synopsis = "PLAN --tokens N",
    .summary = "days that a training takes with failures, checkpoints and repairs",
    .details =
        "Predicts an iteration of the plan, counts what may fail under it, and follows drawn\n"
        "courses of the whole training until the quantiles of its days are known to within 1 %:\n"
        "effective training time, where the rest goes by cause, the best interval between\n"
        "checkpoints and number of spare nodes, and what would shorten it. Formulas of Young and\n"
        "Daly stand beside it.\n"
        "\n"
        "--failures NAME:KEY=VALUE,...: mean times between failures of one gpu, node, nic, link,\n"
        "switch, and of the software of one node (0: never); detect, hang (the share of failures\n"
        "that only a timeout notices), timeout, restart, repair; slow (mean time until a GPU\n"
        "becomes slow), slower (by which share), slow-found. Times as 50000h or 3d.\n"
        "\n"
        "--storage: shared (one store, on a network of its own; rate=, and node= for one node),\n"
        "disk and peer (disks or memory of the nodes; a partner node keeps a copy, over the\n"
        "platform's network). --recovery: spares (all start again, with a spare node for one that\n"
        "failed), shrink (without a spare, go on with a replica less until a repair), hot (a "
        "spare\n"
        "joins and copies its state from another replica; the others go back by an iteration).\n"
        "\n"
        "--over prints a table, tab-separated, that `foreline plot` draws. "
        "docs/reference/campaign.md.",
    .examples = "foreline campaign plan.json --tokens 1T\n",
    .often = "tokens failures storage checkpoint every recovery spares over seed json",
    .run = cmd_campaign,
};
