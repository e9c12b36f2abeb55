/* Several plans at the same time: what they do to each other. */
#include "cli/simulate_jobs.h"

#include <stdlib.h>
#include <string.h>

#include "study/jobs.h"
#include "study/paths.h"
#include "study/summary.h"

/* Exchanges of --place search. */
enum { TRIES = 200 };

bool simulate_is_about_jobs(const struct invocation *in)
{
    static const char *const option[] = {"start", "iterations", "place", "background"};
    bool about = in->operands > 1;
    for (size_t k = 0; k < sizeof option / sizeof *option; k++)
        about |= arguments_given(&in->a, option[k]);
    return about;
}

static enum status jobs_set_options(const struct arguments *a, struct jobs *js)
{
    bool search = a->jobs.place && !strcmp(a->jobs.place, "search");
    PASS(engine_find(a->sim.engine, &js->engine));
    js->iterations = a->jobs.iterations;
    js->options.no_links = true;
    js->options.collective.nccl_protocols = a->sim.nccl_protocols;
    if (strcmp(a->sim.collective, "auto") != 0)
        js->options.collective.algorithm = a->sim.collective;
    PASS(paths_read(a, js->topology, &js->options.paths));
    if (arguments_given(a, "seed") && !search &&
        !paths_are_random(js->topology, &js->options.paths))
        return error_set(STATUS_USAGE, "--seed has no effect without --place search or --paths "
                                       "ecmp");
    if (a->jobs.background)
        PASS(jobs_read_traffic(a->jobs.background, js));
    return STATUS_OK;
}

/* The trace has the times of all; ops that begin iterations have no length there. */
static enum status jobs_write_files(struct jobs *js, const struct arguments *a,
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
    PASS(results_write(&r, &only_trace, stderr));
    return a->output ? jobs_write(js, a->output, by) : STATUS_OK;
}

enum status simulate_jobs(struct invocation *in)
{
    enum status st;
    const struct arguments *a = &in->a;
    struct jobs js = {0};
    PASS(arguments_check(a, TAKES(SIMULATE_JOBS)));
    if (in->operands < 1)
        return command_expect(in, 1, "plan files");
    TRY(jobs_load(in->operand, (size_t)in->operands, &a->jobs.starts, &js));
    in->by.seed = a->seed;
    TRY(jobs_set_options(a, &js));
    TRY(arguments_try_files(a));
    TRY(jobs_alone(&js));
    if (a->jobs.place)
        TRY(jobs_place(&js, a->jobs.place, TRIES, a->seed));
    TRY(jobs_check(&js));
    if (a->jobs.place)
        TRY(jobs_alone(&js));
    TRY(jobs_run(&js));
    if (js.topology->links > 0)
        TRY(jobs_find_links(&js));
    else
        fprintf(stderr, "warning: the links of %s are not known: messages of jobs share nothing\n",
                js.topology->name);
    TRY(jobs_write_files(&js, a, &in->by));
    if (a->json)
        TRY(jobs_write(&js, "-", &in->by));
    else
        jobs_print(&js, a->sim.link_rows, arguments_prose(a));
out:
    jobs_free(&js);
    return st;
}
