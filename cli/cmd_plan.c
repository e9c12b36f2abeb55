/* plan - cut a model into pipeline stages and place them on the devices of a platform. */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/units.h"
#include "core/schedule/schedule.h"
#include "core/strategy/framework.h"
#include "study/expected.h"
#include "study/frameworks/port.h"
#include "study/memory_answer.h"
#include "study/paths.h"
#include "study/plan_graph.h"
#include "study/planning.h"
#include "study/remedy.h"
#include "study/warn.h"

/* A prediction of a plan that no search has looked at, as `simulate --engine analytic` says where
 * that takes seconds: it proves that the plan can run. */
static enum status plan_predict(const struct arguments *a, const struct plan *p,
                                const struct model *m, const struct topology *t,
                                struct evaluation *out)
{
    struct evaluation_context context = {.model = m, .topology = t};
    PASS(paths_read(a, t, &context.options.paths));
    return evaluate_once(&context, p, out);
}

/* By the same rule as the ranking. */
static enum status print_memory(const struct plan *p, const struct evaluation_context *context,
                                const struct plan_outcome *outcome, FILE *out)
{
    const struct evaluation *e = outcome->evaluation;
    const struct topology *t = context->topology;
    struct memory_need need = {t->device[e->device], e->peak_bytes,
                               e->peak_bytes + e->headroom_bytes, 0, NULL};
    PASS(plan_reserve(outcome->a, topology_type(t, e->device), &need.reserve_bytes));
    return memory_answer_print(p, context, &need, out);
}

/* The answer: the plan, how fast it is, whether it fits, how sure that is, what holds it up and
 * what would help. */
static enum status print_answer(const struct plan *p, const struct evaluation_context *context,
                                const struct plan_outcome *outcome, FILE *out)
{
    const struct evaluation *e = outcome->evaluation;
    plan_print_words(p, out);
    fprintf(out, "predicted   %s per iteration, %.4g samples/s",
            units_of(UNIT_SECONDS, e->iteration_s).text, e->samples_per_s);
    machine_print_speed(&outcome->machine, out);
    fputc('\n', out);
    PASS(print_memory(p, context, outcome, out));
    PASS(expected_print(p, context, out));
    fprintf(out, "time        %s\n", e->reason);
    PASS(remedies_print(p, context, out));
    fprintf(out, "engine      %s%s\n", e->engine, e->exact ? "" : ", without contention");
    return STATUS_OK;
}

/* What the framework that issues the kernels has no argument for, whatever was planned: its
 * launcher would not run this. */
static void warn_of_launcher(const struct arguments *a, struct loaded_plan *l)
{
    const struct framework *f = plan_framework(&l->plan);
    if (f && f->launcher && topology_find_nodes(&l->topology) == STATUS_OK &&
        port_says(f->launcher, &l->plan, &l->model, &l->topology, a->model) == STATUS_UNSUPPORTED)
        fprintf(stderr, "launch      %s\n", error_message());
}

/* A search says what does not fit; what one algorithm was asked for is made all the same, but not
 * without saying so. */
static void warn_of_memory(const struct evaluation *e, const struct topology *t)
{
    const char *device = t->device[e->device];
    int64_t memory_bytes = e->peak_bytes + e->headroom_bytes;
    if (e->headroom_bytes < 0)
        fprintf(stderr, "warning: the plan does not fit into memory: %s needs %s and has %s\n",
                device, units_of(UNIT_BYTES, (double)e->peak_bytes).text,
                units_of(UNIT_BYTES, (double)memory_bytes).text);
}

/* What was asked for and helps nobody: chunks that are not there, replicas that wait for others. */
static enum status warn_of_shape(const struct plan *p)
{
    const struct schedule *schedule;
    PASS(schedule_find(p->schedule, &schedule));
    if (schedule->chunked && !schedule->vee && p->stages > 1 && plan_chunks(p) == 1)
        fprintf(stderr,
                "warning: schedule '%s' with one chunk per device does not shrink the bubble; try "
                "--chunks 2 or more\n",
                p->schedule);
    for (size_t s = 0; s < p->stages && !schedule->asynchronous; s++) {
        uint32_t takers = plan_streams(&p->stage[s]);
        if (p->microbatches % takers == 0)
            continue;
        fprintf(stderr,
                "warning: %u microbatches are not a multiple of %u replicas: some replicas get %u, "
                "the others get %u and idle\n",
                p->microbatches, takers, p->microbatches / takers + 1, p->microbatches / takers);
        break;
    }
    return STATUS_OK;
}

/* Shards that divide nothing, and times that somebody measured and that no device of the platform
 * takes. */
static enum status warn_of_plan(const struct plan *p, const struct model *m,
                                const struct topology *t)
{
    size_t stages = warn_of_shards(p, m);
    if (stages > 0)
        fprintf(stderr,
                "warning: tensor parallelism has no effect in %zu stage%s: no op there can be "
                "split over the tensor-parallel ranks\n",
                stages, stages > 1 ? "s" : "");
    warn_of_platform(m, t, stderr);
    PASS(warn_of_clip(p, m, t, stderr));
    return warn_of_shape(p);
}

static void print_jitter(const struct auto_candidate *c, const struct arguments *a, FILE *out)
{
    struct plan_jitter j = plan_jitter_of(c, a);
    fprintf(out, "with jitter %g %%: mean %s, worst %s (--seed %llu) of %zu samples\n",
            100 * a->sim.jitter, units_of(UNIT_SECONDS, j.mean_s).text,
            units_of(UNIT_SECONDS, j.worst_s).text, (unsigned long long)j.seed, a->search.samples);
}

/* What else than its iteration the first plan is ranked by. */
static enum status print_merit(const struct auto_result *r, const struct arguments *a,
                               const struct evaluation_context *context, FILE *out)
{
    if (r->candidate[0].sampled_s)
        print_jitter(&r->candidate[0], a, out);
    return plan_is_by_campaign(a) ? plan_print_campaign(a, r, context, out) : STATUS_OK;
}

/* Plans by the search, ranked; none when nothing fits. */
static enum status plan_search_best(const struct arguments *a, const struct model *m,
                                    const struct topology *t, const char *platform,
                                    struct auto_result *out)
{
    enum status st;
    struct evaluation_context context = {.model = m, .topology = t, .platform = platform};
    PASS(paths_read(a, t, &context.options.paths));
    const volatile int *stop = interrupt_catch();
    double best_s = 0;
    struct progress progress = {
        .what = "plan", .of = "plans scored", .best_s = &best_s, .interrupted = stop};
    const struct simulation_watch scored = progress_watch(&progress);
    context.scored = &scored;
    context.best_s = &best_s;
    st = plan_search(a, &context, stop, out);
    progress_end(&progress);
    context.scored = NULL;
    context.best_s = NULL;
    TRY(st);
    if (arguments_given(a, "jitter"))
        TRY(plan_rank_in_jitter(a, &context, stop, out));
    if (!out->candidate[0].fits && !a->allow_oom) {
        if (!a->json)
            plan_print_ranking(out, a, &context, arguments_prose(a));
        TRY(plan_fails_to_fit(out, a, &context, stop));
    }
    if (!out->candidate[0].fits)
        fprintf(stderr,
                "warning: no plan fits into memory; the plan shown needs the least memory\n");
out:
    interrupt_release();
    return st;
}

/* Frameworks train in 16 bits where a model does not say otherwise. */
static void note_of_precision(const struct plan *p, const struct model *m, const struct topology *t)
{
    const struct framework *f = plan_framework(p);
    const struct device_type *type = topology_type(t, p->stage[0].device[0]);
    if (f && f->by_kernel && m->dtype == DATA_fp32 && type->peak[DATA_bf16] > 0)
        fprintf(stderr,
                "note: model '%s' is in fp32; for mixed precision append :dtype=bf16 to a model of "
                "the zoo or a configuration, or capture the script in bf16\n",
                m->name);
}

/* What a search leaves idle, and degrees that are counted otherwise elsewhere. */
static void warn_of_devices(const struct arguments *a, const struct auto_candidate *c,
                            const struct topology *t)
{
    const struct plan_stage *first = &c->plan.stage[0];
    if (c->devices < t->n)
        fprintf(stderr, "note: %zu of %zu devices are idle\n", t->n - c->devices, t->n);
    if (a->replicas > 0 && plan_streams(first) < first->replicas)
        fprintf(stderr, "note: --replicas %u includes context-parallel ranks: DP %u x CP %u\n",
                first->replicas, plan_streams(first), first->replicas / plan_streams(first));
}

/* What was asked for, with its prediction: by the search, or by one algorithm. */
static enum status plan_find(const struct arguments *a, const struct loaded_plan *in,
                             struct auto_result *ranking, struct plan *p, struct evaluation *e)
{
    if (strcmp(a->algorithm, "auto") != 0) {
        PASS(plan_by_algorithm(a, &in->model, &in->topology, p));
        return plan_predict(a, p, &in->model, &in->topology, e);
    }
    PASS(plan_search_best(a, &in->model, &in->topology, in->platform, ranking));
    *e = *auto_evaluation(&ranking->candidate[0]);
    return plan_copy(&ranking->candidate[0].plan, p);
}

enum { NEXT_PATH = 4096 };

/* "plan.json" as "plan.2.json". */
static enum status name_next(const char *output, size_t rank, char path[NEXT_PATH])
{
    const char *slash = strrchr(output, '/'), *dot = strrchr(slash ? slash : output, '.');
    int stem = dot ? (int)(dot - output) : (int)strlen(output);
    int n = snprintf(path, NEXT_PATH, "%.*s.%zu%s", stem, output, rank, dot ? dot : "");
    return n > 0 && n < NEXT_PATH
               ? STATUS_OK
               : error_set(STATUS_USAGE,
                           "--output: path of plan %zu is too long, expected at most %d "
                           "bytes",
                           rank, NEXT_PATH - 1);
}

/* Nobody gave this name: what is there may be replaced if it is a plan. */
static enum status is_ours_to_write(const char *path)
{
    struct file_out f;
    PASS(file_create_beside(path, "\"foreline-plan\"", &f));
    file_discard(&f);
    return STATUS_OK;
}

/* Do both divide the model alike, and share as much? Where they are placed does not count. */
static bool is_same_design(const struct plan *a, const struct plan *b)
{
    return a->stages == b->stages && plan_chunks(a) == plan_chunks(b) && a->zero == b->zero &&
           !strategy_differs(STRATEGY_STAGE, strategy_divisions(), &a->stage[0].own,
                             &b->stage[0].own);
}

/* What is slower by more, predictions do not err by. */
static const double worth_running = 1.2;

/* Is candidate i one that keeps what is given, of another design than all before it, and not much
 * slower? */
static bool is_next(const struct auto_result *r, size_t i)
{
    const struct auto_candidate *c = &r->candidate[i];
    double first_s = auto_evaluation(&r->candidate[0])->iteration_s;
    bool next =
        c->fits && !c->baseline && auto_evaluation(c)->iteration_s <= worth_running * first_s;
    for (size_t k = 0; k < i && next; k++)
        next = !is_same_design(&r->candidate[k].plan, &c->plan);
    return next;
}

/* Of the rows behind the first one, whatever they are. */
static enum status write_rows(const struct invocation *in, const struct loaded_plan *l,
                              const struct auto_result *ranking)
{
    char path[NEXT_PATH];
    for (size_t i = 1; i < ranking->n; i++) {
        PASS(name_next(in->a.output, i + 1, path));
        PASS(is_ours_to_write(path));
        PASS(plan_write(&ranking->candidate[i].plan, &l->model, &l->topology, path, &in->by));
    }
    return STATUS_OK;
}

/* The plan, and of a search those behind the winner, a file each. */
static enum status write_plans(const struct invocation *in, const struct loaded_plan *l,
                               const struct auto_result *ranking, FILE *prose)
{
    const struct arguments *a = &in->a;
    size_t written = 1;
    char path[NEXT_PATH];
    if (a->search.candidates)
        PASS(plan_candidates_write(ranking, plan_samples(a, &l->topology), a->search.candidates,
                                   &in->by));
    if (a->search.candidates && ranking->cuts == 0)
        fprintf(stderr,
                "warning: %s lists no candidates: the search tried no partition of the model graph "
                "for the best plans\n",
                a->search.candidates);
    if (!a->output)
        return STATUS_OK;
    PASS(plan_write(&l->plan, &l->model, &l->topology, a->output, &in->by));
    if (a->search.all_rows)
        return write_rows(in, l, ranking);
    for (size_t i = 1; i < ranking->n && written < a->search.top; i++) {
        const struct auto_candidate *c = &ranking->candidate[i];
        if (!is_next(ranking, i))
            continue;
        PASS(name_next(a->output, ++written, path));
        PASS(is_ours_to_write(path));
        PASS(plan_write(&c->plan, &l->model, &l->topology, path, &in->by));
        double first_s = auto_evaluation(&ranking->candidate[0])->iteration_s;
        fprintf(prose, "%s: %+.1f %%\n", path,
                100 * (auto_evaluation(c)->iteration_s / first_s - 1));
    }
    if (written > 1)
        fprintf(prose, "try these %zu plans and keep the fastest\n", written);
    if (written < a->search.top)
        fprintf(prose,
                "--top %zu: the search kept no other design within 20 %% of the best; it finds "
                "more with --stages or --zero\n",
                a->search.top);
    return STATUS_OK;
}

static void print_tables(const struct loaded_plan *l, const struct auto_result *ranking,
                         const struct arguments *a, struct evaluation_context *context)
{
    FILE *out = arguments_prose(a);
    if (ranking)
        plan_print_ranking(ranking, a, context, out);
    fputc('\n', out);
    plan_print_stages(&l->plan, &l->model, &l->topology, a->wide, out);
}

static enum status plan_make_file(struct invocation *in)
{
    enum status st;
    struct arguments *a = &in->a;
    struct loaded_plan l = {0};
    struct evaluation e = {0};
    struct auto_result ranking = {0};
    struct framework_choice framework;
    const char *asked = a->model;
    char *model = NULL; /* with the tokens that are asked for */
    if (!a->model || !a->platform)
        return error_set(STATUS_USAGE, "--model M and --platform P are missing");
    in->by.seed = a->seed;
    TRY(plan_settle(a));
    if (a->tokens > 0) {
        TRY(load_tokens(a->model, a->tokens, &model));
        a->model = model;
    }
    TRY(load_model(a->model, &l.model));
    TRY(plan_check_sums(a, &l.model));
    TRY(load_topology(a->platform, &l.topology, &l.platform));
    if (a->train_tokens > 0 && l.model.tokens_per_sample <= 0)
        FAIL(STATUS_USAGE, "--train-tokens has no effect: model '%s' does not process tokens",
             a->model);
    framework = plan_choose_framework(a, &l.model, &l.topology);
    a->framework = framework.name;
    FILE *prose = a->json ? stderr : arguments_prose(a);
    double begin = clock_cpu() + clock_children_cpu();
    TRY(plan_find(a, &l, &ranking, &l.plan, &e));
    struct plan_outcome outcome = {.evaluation = &e,
                                   .ranking = ranking.n > 0 ? &ranking : NULL,
                                   .a = a,
                                   .cpu_s = clock_cpu() + clock_children_cpu() - begin};
    TRY(machine_of_plan(&l.plan, &l.model, &l.topology, e.samples_per_s, &outcome.machine));
    struct evaluation_context context = {
        .model = &l.model, .topology = &l.topology, .platform = l.platform};
    TRY(paths_read(a, &l.topology, &context.options.paths));
    TRY(print_answer(&l.plan, &context, &outcome, prose));
    framework_choice_print(&framework, prose);
    if (arguments_given(a, "framework"))
        warn_of_launcher(a, &l);
    TRY(warn_of_plan(&l.plan, &l.model, &l.topology));
    note_of_precision(&l.plan, &l.model, &l.topology);
    machine_print_training(&outcome.machine, a->train_tokens, prose);
    if (ranking.n == 0)
        warn_of_memory(&e, &l.topology);
    else
        warn_of_devices(a, &ranking.candidate[0], &l.topology);
    TRY(ranking.n > 0 ? print_merit(&ranking, a, &context, prose) : STATUS_OK);
    TRY(write_plans(in, &l, &ranking, prose));
    if (a->json)
        plan_print_json(&l.plan, &l.model, &l.topology, &outcome, &in->by, arguments_prose(a));
    else
        print_tables(&l, ranking.n > 0 ? &ranking : NULL, a, &context);
out:
    a->model = asked;
    free(model);
    auto_result_free(&ranking);
    loaded_plan_free(&l);
    return st;
}

/* plan export PLAN, plan import FILE...: what is assumed and lost goes to stderr. */
static enum status port(const struct invocation *in, const char *word)
{
    PASS(arguments_check(&in->a, settings_taker("plan", word)));
    if (in->operands < 2)
        return error_set(STATUS_USAGE, "'plan %s' needs a FILE", word);
    if (!strcmp(word, "import"))
        return port_import(&in->a, (const char *const *)in->operand + 1, (size_t)in->operands - 1,
                           &in->by, arguments_prose(&in->a), stderr);
    const struct plan_graph *graph = in->a.port.to ? plan_graph_find(in->a.port.to) : NULL;
    if (in->operands != 2)
        return error_set(STATUS_USAGE,
                         "expected one plan, such as foreline plan export plan.json --to megatron");
    return graph ? plan_graph_export(in->operand[1], graph, in->a.output)
                 : port_export(&in->a, in->operand[1], stderr);
}

static enum status plan_explain_file(const struct arguments *a)
{
    static const volatile int never;
    struct progress progress = {.what = "explaining", .of = "simulations", .interrupted = &never};
    const struct simulation_watch watch = progress_watch(&progress);
    enum status st = plan_explain(a->search.explain, a->wide, &watch, stdout);
    progress_end(&progress);
    return st;
}

static enum status cmd_plan(struct invocation *in)
{
    const struct arguments *a = &in->a;
    const char *word = in->operands > 0 ? in->operand[0] : "";
    if (!strcmp(word, "export") || !strcmp(word, "import"))
        return port(in, word);
    plan_settle_objective(&in->a);
    taker_set way = plan_takers(a);
    if (in->operands > 0)
        return error_set(
            STATUS_USAGE,
            "'plan' takes no operands, only options ('plan export' and 'plan import' take files)");
    PASS(plan_check_given(a));
    if (arguments_given(a, "device") && !a->search.executable)
        return error_set(STATUS_USAGE, "--device needs --executable");
    bool several = a->search.top > 1 || a->search.all_rows;
    if (several && (!a->output || !strcmp(a->output, "-")))
        return error_set(
            STATUS_USAGE,
            "--%s needs -o FILE.json; foreline writes the other plans to FILE.2.json, ...",
            a->search.all_rows ? "all-rows" : "top");
    if (a->search.all_rows && a->search.top > 1)
        return error_set(STATUS_USAGE, "--top has no effect with --all-rows; omit one of them");
    PASS(arguments_try_files(a));
    if (way == TAKES(PLAN_EXPLAIN))
        return plan_explain_file(a);
    if (way & (TAKES(PLAN_AUTO) | TAKES(PLAN_CAMPAIGN) | TAKES(PLAN_CUT)))
        return plan_make_file(in);
    if (way == TAKES(PLAN_LIST)) {
        plan_print_algorithms(stdout);
        return STATUS_OK;
    }
    enum status st = plan_by_objective(a, &in->by, interrupt_catch());
    interrupt_release();
    return st;
}

/* Who reads the tables may have seen enough (head): the plan's file is written all the same. */
static enum status plan_to_the_end(struct invocation *in)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    enum status st = cmd_plan(in);
    fflush(stdout);
    signal(SIGPIPE, before);
    if (poll(&out, 1, 0) == 1 && (out.revents & POLLERR))
        raise(SIGPIPE);
    if (interrupt_came()) { /* the best so far is written, if there is one */
        if (st != STATUS_OK)
            fprintf(stderr, "foreline plan: %s\n", error_message());
        interrupt_end(SIGINT);
    }
    return st;
}

/* The options of which the search and its answer are none. */
static const struct command_topic topics[] = {
    {.word = "export",
     .summary = "arguments that run a plan in another framework",
     .synopsis = "export PLAN --to NAME [-o FILE]",
     .details = "plan export PLAN --to NAME writes the arguments that run the plan in another "
                "framework, or one\n"
                "line that says what the framework cannot express. --to csv writes a row per op, "
                "dot and graphml\n"
                "the model's graph with a colour per stage. docs/reference/launch-arguments.md has "
                "all names.",
     .takers = TAKES(PLAN_EXPORT)},
    {.word = "import",
     .summary = "a plan of the arguments of another framework",
     .synopsis = "import FILE... [options] -o PLAN",
     .details = "plan import FILE -o PLAN makes a plan from the arguments of another framework: a "
                "shell script\n"
                "(several FILEs: the script and those that it sources), YAML, JSON, TOML, or "
                "torchtitan's\n"
                "Python. Nothing is executed. Prints on stderr the assumptions, the arguments that "
                "a plan cannot\n"
                "express, and the ignored keys. docs/reference/launch-arguments.md has all names.",
     .takers = TAKES(PLAN_IMPORT)},
    {.word = "papers",
     .summary = "objectives of published partitioners",
     .synopsis = "--objective NAME --model FILE [options]",
     .details = "plan --objective NAME minimises the objective of a published partitioner, "
                "exactly, on its own\n"
                "inputs and in its own unit. -o writes the result as a plan, and --score prints "
                "the objective of\n"
                "a given split. plan --algorithm list has the algorithms, "
                "docs/reference/partitioners.md the\n"
                "objectives.",
     .takers = TAKES(PLAN_SCORE) | TAKES(PLAN_CPSC526) | TAKES(PLAN_HIDUP) | TAKES(PLAN_PIPEDREAM) |
               TAKES(PLAN_PIPER) | TAKES(PLAN_PIPPY) | TAKES(PLAN_PLACEMENT)},
};

const struct command command_plan = {
    .name = "plan",
    .synopsis = "--model M --platform P [-o FILE] | --explain PLAN | export PLAN --to NAME | "
                "import FILE...",
    .summary = "cut a model into stages over the devices of a platform",
    .details =
        "Without --algorithm, plan searches pipeline depth, replicas, tensor and sequence\n"
        "parallelism, placement, microbatch size, schedule, recomputation, ZeRO 0 to 3 and\n"
        "gradient buckets, on all devices and on fewer. It scores every plan with the analytic\n"
        "engine, and simulates the best few and the baselines (DP, ZeRO-3, TP+DP, TP+PP+DP,\n"
        "EP+PP+DP, PP) with SimGrid. Then it prints the ranking; --jitter ranks by samples with "
        "random\n"
        "compute times. Options on the command line restrict the search. Stages begin at layers\n"
        "(--granularity). A plan fits if it leaves --reserve free. If none fits, the exit status "
        "is 1,\n"
        "and no file is written without --allow-oom. Ctrl-C ranks the plans tried so far, writes "
        "the\n"
        "best of them and exits with 130.\n"
        "\n"
        "plan prints the stages with their predicted forward and backward time per microbatch and\n"
        "writes a plan file that simulate and run read. --json has all that --wide shows, and "
        "more.\n"
        "Neighbouring stages are placed close to each other: inside a node before across nodes. "
        "One\n"
        "iteration trains microbatches x microbatch-size samples, whatever the number of replicas, "
        "so\n"
        "that plans with different replicas can be compared.\n"
        "--algorithm list prints the algorithms and their guarantees.",
    .examples = "foreline plan --model gpt2-small --platform two-racks --batch 128 -o plan.json\n"
                "foreline plan --model gpt-tiny --platform laptop --algorithm balanced --stages 2 "
                "-o tiny.json\n",
    .often = "model platform batch stages replicas tensor-parallel zero recompute "
             "schedule framework explain output json",
    .topic = topics,
    .topics = sizeof topics / sizeof *topics,
    .run = plan_to_the_end,
};
