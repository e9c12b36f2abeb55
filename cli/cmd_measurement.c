/* measurement - runs that other programs recorded, as measurements. */
#include "cli/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/units.h"
#include "measured/reader.h"
#include "study/load.h"

static const char details[] =
    "Traces give three durations for each rank (each GPU of a file): compute (the union of kernel\n"
    "times), exposed communication (NCCL or RCCL kernels run while no compute kernel does) and "
    "idle.\n"
    "They add up to the iteration. Steps are the ranges that the file marks (ProfilerStep#N;\n"
    "NVTX ranges such as 'iteration 12'); without marks the whole file is one step. Logs and\n"
    "tables give the duration of each step.\n"
    "\n"
    "compare, plot, report and validate read the measurement that -o writes. --plan names the "
    "plan\n"
    "of the run, and with it the number of samples and tokens per step.\n"
    "\n"
    "--profile writes a model with the layer times of the run, which plan, simulate and validate\n"
    "read. A layer is a range that the program marks or, with 'ops', an op of the host in order; "
    "a\n"
    "kernel of the backward pass belongs to the layer that created its autograd node. With "
    "--model\n"
    "the ops of that model get the times of the ranges with the same names.\n"
    "\n"
    "Files may be compressed with gzip; '-' is standard input. All files belong to one run.";

static bool reader_row(size_t i, struct command_row *out)
{
    if (i >= readers_n)
        return false;
    snprintf(out->term, sizeof out->term, "%s", readers[i]->name);
    out->summary = readers[i]->summary;
    return true;
}

/* What the plan says of an iteration, and its names. */
static enum status take_plan(const char *path, struct loaded_plan *plan, struct run_options *o)
{
    PASS(load_plan(path, plan));
    o->samples = (double)plan->program.microbatches * (double)plan->program.microbatch_size;
    o->tokens = o->samples * plan->program.tokens_per_sample;
    o->devices = plan->program.ranks;
    return STATUS_OK;
}

static struct units_text seconds(double s)
{
    return units_of(UNIT_SECONDS, s);
}

static void print_ranks(const struct measured_run *run, const struct run_times *t, FILE *to)
{
    fprintf(to, "%-16s %5s %10s %10s %7s %10s %7s %10s %7s %10s %10s\n", "# rank", "steps",
            "iteration", "compute", "", "exposed", "", "idle", "", "comm", "copies");
    for (size_t r = 0; r < run->ranks; r++, t++)
        fprintf(to, "%-16s %5zu %10s %10s %6.2f%% %10s %6.2f%% %10s %6.2f%% %10s %10s\n",
                run->rank[r].name, t->steps, seconds(t->window_s).text, seconds(t->busy_s).text,
                100 * t->busy_s / t->window_s, seconds(t->exposed_s).text,
                100 * t->exposed_s / t->window_s, seconds(t->idle_s).text,
                100 * t->idle_s / t->window_s, seconds(t->comm_s).text, seconds(t->copy_s).text);
}

/* Mean over the ranks of the time in which something of that kind runs. */
static void print_kinds(const struct measured_run *run, const struct run_times *t, FILE *to)
{
    fprintf(to, "\n%-18s %10s %8s\n", "# kind", "per rank", "share");
    for (int k = 0; k < SPAN_KINDS; k++) {
        double sum = 0, window = 0;
        for (size_t r = 0; r < run->ranks; r++) {
            sum += t[r].kind_s[k];
            window += t[r].window_s;
        }
        if (sum > 0)
            fprintf(to, "%-18s %10s %7.2f%%\n", span_kind_names[k],
                    seconds(sum / (double)run->ranks).text, 100 * sum / window);
    }
}

static void print_calls(const struct measurement *m, FILE *to)
{
    if (m->calls == 0)
        return;
    fprintf(to, "\n%-16s %-10s %7s %12s %9s %10s %12s\n", "# call", "for", "members", "bytes",
            "calls", "each", "busbw");
    for (size_t i = 0; i < m->calls; i++) {
        const struct measured_call *c = &m->call[i];
        bool sized = c->bytes > 0;
        fprintf(to, "%-16s %-10s %7u %12s %9.4g %10s %12s\n", measured_call_name(c),
                op_purpose_names[c->purpose], c->members,
                sized ? units_of(UNIT_BYTES, (double)c->bytes).text : "-", c->calls,
                seconds(measured_call_seconds(c)).text,
                sized ? units_of(UNIT_RATE, measured_call_busbw(c)).text : "-");
    }
}

enum { OPS = 12 };

/* The ops that take most; names of templates are long. */
static enum status print_ops(const struct measured_run *run, size_t warmup, FILE *to)
{
    static const char *const phases[PHASES] = {"-", "forward", "backward", "update"};
    struct run_op *op = NULL;
    size_t n = 0;
    char name[57];
    double sum = 0;
    PASS(measured_run_ops(run, warmup, &op, &n));
    for (size_t i = 0; i < n; i++)
        sum += op[i].seconds;
    fprintf(to, "\n%-56s %-8s %8s %10s %7s\n", "# op, or kernel", "in", "kernels", "time", "share");
    for (size_t i = 0; i < n && i < OPS; i++)
        fprintf(to, "%-56s %-8s %8.4g %10s %6.2f%%\n", run_name(run, op[i].name, name, sizeof name),
                phases[op[i].phase], op[i].calls, seconds(op[i].seconds).text,
                100 * op[i].seconds / sum);
    if (n > OPS)
        fprintf(to, "# and %zu more\n", n - OPS);
    free(op);
    return STATUS_OK;
}

static enum status measurement_print_run(const struct measured_run *run, size_t warmup,
                                         const struct measurement *m, const struct run_times *t,
                                         FILE *to)
{
    fprintf(to, "# %s: %zu iteration%s, median %s\n", run->format, m->iterations,
            m->iterations == 1 ? "" : "s", seconds(m->iteration_s).text);
    if (m->samples_per_s > 0)
        fprintf(to, "# %g samples/s", m->samples_per_s);
    if (m->samples_per_s > 0 && m->tokens_per_s > 0)
        fprintf(to, ", %g tokens/s", m->tokens_per_s);
    if (m->samples_per_s > 0)
        putc('\n', to);
    if (run->ranks > 0) {
        print_ranks(run, t, to);
        print_kinds(run, t, to);
        print_calls(m, to);
        PASS(print_ops(run, warmup, to));
    }
    for (size_t i = 0; i < m->warnings; i++)
        fprintf(stderr, "warning: %s\n", m->warning[i]);
    return STATUS_OK;
}

static enum status measurement_import(struct invocation *in, const char *const *path, size_t n)
{
    enum status st;
    const struct arguments *a = &in->a;
    struct loaded_plan plan = {0};
    struct measured_run run = {0};
    struct measurement m = {0};
    struct run_times *times = NULL;
    struct run_options o = {.warmup = a->launch.warmup};
    if (a->plan_file)
        TRY(take_plan(a->plan_file, &plan, &o));
    TRY(measured_run_read(path, n, LAYERS_NONE, &run));
    TRY(ARRAY_NEW(times, run.ranks));
    TRY(measured_run_measure(&run, path[0], &o, &m, times));
    if (a->plan_file)
        TRY(load_label(&plan, a->plan_file, run.format, &m));
    if (a->output)
        TRY(measurement_write(&m, a->output, &in->by));
    if (a->trace)
        TRY(measured_run_trace(&run, a->launch.warmup, a->trace, &in->by));
    if (a->json)
        TRY(measurement_write(&m, "-", &in->by));
    else
        TRY(measurement_print_run(&run, a->launch.warmup, &m, times, arguments_prose(a)));
out:
    free(times);
    measurement_free(&m);
    measured_run_free(&run);
    loaded_plan_free(&plan);
    return st;
}

/* What the profile says, and what it does not. */
static void measurement_print_profile(const struct arguments *a, const struct model *m,
                                      const struct run_profile_told *t)
{
    fprintf(stderr, "%s: %zu layers, microbatches of %zu sample%s: forward %s, backward %s",
            m->name, t->layers, a->microbatch_size, a->microbatch_size == 1 ? "" : "s",
            seconds(t->forward_s).text, seconds(t->backward_s).text);
    if (t->again_s > 0)
        fprintf(stderr, ", recomputation %s", seconds(t->again_s).text);
    fprintf(stderr, "; update %s per step\n", seconds(t->update_s).text);
    if (t->rest_s > 0)
        fprintf(stderr, "warning: %s (%.1f %%) of the time of a microbatch belongs to no %s%s\n",
                seconds(t->rest_s).text, 100 * t->rest_s / t->all_s, a->model ? "op" : "layer",
                a->model ? " and is ignored" : ": counted as op '(rest)'");
    if (t->silent > 0)
        fprintf(stderr, "warning: %zu ops have no time (the first: '%s'); they count as 0 s\n",
                t->silent, t->first_silent);
    if (t->update_s > 0 && !t->updates)
        fprintf(stderr, "warning: ignored the optimizer update, which belongs to no layer\n");
    if (t->comm_s > 0)
        fprintf(stderr,
                "communication (%s of a microbatch) is not part of the profile; foreline simulate "
                "predicts it\n",
                seconds(t->comm_s).text);
}

static enum status import_profile(struct invocation *in, const char *const *path, size_t n)
{
    enum status st;
    const struct arguments *a = &in->a;
    struct measured_run run = {0};
    struct model m = {0};
    struct run_profile_told told;
    const struct run_profile_options o = {.warmup = a->launch.warmup,
                                          .samples = (double)a->microbatch_size,
                                          .microbatches = (double)a->microbatches,
                                          .tensor_parallel = (uint32_t)a->measure.shards,
                                          .device = a->measure.device};
    if (!a->output)
        return error_set(STATUS_USAGE,
                         "'measurement import --profile' needs -o FILE, the model file to write");
    if (a->model)
        TRY(load_model(a->model, &m));
    TRY(measured_run_read(
        path, n, strcmp(a->measure.profile, "ops") == 0 ? LAYERS_OPS : LAYERS_RANGES, &run));
    TRY(measured_run_profile(&run, path[0], &o, &m, &told));
    TRY(model_write(&m, a->output, &in->by));
    measurement_print_profile(a, &m, &told);
out:
    measured_run_free(&run);
    model_free(&m);
    return st;
}

static enum status measurement(struct invocation *in)
{
    if (in->operands < 2 || strcmp(in->operand[0], "import") != 0)
        return error_set(STATUS_USAGE, "expected foreline measurement import FILE...");
    PASS(arguments_check(&in->a,
                         in->a.measure.profile ? TAKES(MEASUREMENT_PROFILE) : TAKES(MEASUREMENT)));
    return (in->a.measure.profile ? import_profile : measurement_import)(
        in, (const char *const *)in->operand + 1, (size_t)in->operands - 1);
}

const struct command command_measurement = {
    .name = "measurement",
    .synopsis = "import FILE...",
    .summary = "import recorded runs: turn traces and logs into measurements",
    .details = details,
    .examples = "foreline measurement import timeline.json -o imported.json\n",
    .row = reader_row,
    .often = "plan warmup profile output trace json",
    .run = measurement,
};
