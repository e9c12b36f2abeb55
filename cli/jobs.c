/* Several plans at the same time: what they do to each other, simulated and emulated. */
#include "cli/jobs.h"

#include <stdlib.h>
#include <string.h>

#include "exec/rounds.h"
#include "study/emulate_jobs.h"
#include "study/emulate_network.h"
#include "study/paths.h"
#include "study/summary.h"

/* Exchanges of --place search. */
enum { TRIES = 200 };

bool cli_jobs_given(const struct invocation *in)
{
    static const char *const option[] = {"start", "iterations", "place", "background"};
    bool given = in->operands > 1;
    for (size_t k = 0; k < sizeof option / sizeof *option; k++)
        given |= arguments_given(&in->a, option[k]);
    return given;
}

static bool cli_jobs_search(const struct arguments *a)
{
    return a->jobs.place && !strcmp(a->jobs.place, "search");
}

/* What both ways have: the plans, where they run, and a prediction. */
static enum status cli_jobs_predict(struct invocation *in, struct jobs *js)
{
    const struct arguments *a = &in->a;
    js->iterations = a->jobs.iterations;
    js->options.no_links = true;
    in->by.seed = a->seed;
    PASS(arguments_try_files(a));
    if (a->jobs.background)
        PASS(jobs_read_traffic(a->jobs.background, js));
    if (a->jobs.place) {
        PASS(jobs_alone(js));
        PASS(jobs_place(js, a->jobs.place, TRIES, a->seed));
    }
    PASS(jobs_check(js));
    PASS(jobs_alone(js));
    PASS(jobs_run(js));
    if (js->topology->links > 0)
        return jobs_find_links(js);
    fprintf(stderr,
            "warning: the links of platform %s are unknown, so the predicted jobs do not slow each "
            "other down\n",
            js->topology->name);
    return STATUS_OK;
}

static enum status cli_jobs_set_options(const struct arguments *a, struct jobs *js)
{
    PASS(engine_find(a->sim.engine, &js->engine));
    js->options.collective.nccl_protocols = a->sim.nccl_protocols;
    if (strcmp(a->sim.collective, "auto") != 0)
        js->options.collective.algorithm = a->sim.collective;
    PASS(paths_read(a, js->topology, &js->options.paths));
    if (arguments_given(a, "seed") && !cli_jobs_search(a) &&
        !paths_are_random(js->topology, &js->options.paths))
        return error_set(
            STATUS_USAGE,
            "--seed has no effect without --place search or random paths (such as --paths ecmp)");
    if (paths_are_random(js->topology, &js->options.paths))
        fprintf(
            stderr,
            "warning: paths are hashed at random: a seed other than %llu gives other slowdowns\n",
            (unsigned long long)js->options.paths.seed);
    return STATUS_OK;
}

/* The trace has the times of all; ops that begin iterations have no length there. */
static enum status cli_jobs_write_trace(struct jobs *js, const struct arguments *a,
                                        const struct provenance *by)
{
    struct timeline *t = &js->timeline;
    struct arguments only_trace = *a;
    only_trace.output = NULL;
    for (size_t part = 0; part < js->joined.parts; part++)
        for (size_t k = 0; k < js->joined.part[part].iterations; k++) {
            size_t op = program_joined_begin(&js->joined, part, k);
            t->start_s[op] = t->end_s[op];
        }
    const struct results r = {&js->joined.program, t, NULL, by};
    return results_write(&r, &only_trace, stderr);
}

static enum status cli_jobs_tell(void *argument, const struct jobs *js)
{
    const struct invocation *in = argument;
    const struct arguments *a = &in->a;
    if (a->output)
        PASS(jobs_write(js, a->output, &in->by));
    if (a->json)
        return jobs_write(js, "-", &in->by);
    jobs_print(js, a->sim.link_rows, arguments_prose(a));
    return STATUS_OK;
}

enum status cli_jobs_simulate(struct invocation *in)
{
    enum status st;
    const struct arguments *a = &in->a;
    struct jobs js = {0};
    PASS(arguments_check(a, TAKES(SIMULATE_JOBS)));
    if (in->operands < 1)
        return command_expect(in, 1, "plan files");
    TRY(jobs_load(in->operand, (size_t)in->operands, &a->jobs.starts, &js));
    TRY(cli_jobs_set_options(a, &js));
    TRY(cli_jobs_predict(in, &js));
    TRY(cli_jobs_write_trace(&js, a, &in->by));
    TRY(cli_jobs_tell(in, &js));
out:
    jobs_free(&js);
    return st;
}

enum status cli_jobs_emulate(struct invocation *in)
{
    enum status st;
    const struct arguments *a = &in->a;
    struct jobs js = {0};
    struct emulate_jobs_options o = {.repeats = a->run.repeats, .collective = a->launch.collective};
    const struct rounds_algorithm *algorithm;
    PASS(arguments_check(a, TAKES(EMULATE_JOBS)));
    if (strcmp(a->sim.engine, "netns") != 0)
        return error_set(STATUS_USAGE,
                         "several plans can be emulated together only with --engine netns");
    PASS(emulate_parse_dilation(a->emulation.dilate, &o.dilation));
    if (rounds_find(o.collective, NULL, &algorithm) != STATUS_OK)
        return error_context(STATUS_USAGE, "--collective");
    if (in->operands < 1)
        return command_expect(in, 1, "plan files");
    TRY(jobs_load(in->operand, (size_t)in->operands, &a->jobs.starts, &js));
    js.engine = engine_judge();
    if (strcmp(o.collective, "auto") != 0)
        js.options.collective.algorithm = o.collective;
    TRY(cli_jobs_predict(in, &js));
    TRY(emulate_jobs(&js, &o, cli_jobs_tell, in));
out:
    jobs_free(&js);
    return st;
}
