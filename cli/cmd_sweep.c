/* sweep - what if: every point of an experiment, predicted once and kept in a database. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "core/base/text.h"
#include "host/screen.h"
#include "study/equal.h"
#include "study/point.h"
#include "study/rank.h"

/* ---- which part */

static bool sweep_read_count(const char *text, size_t *out)
{
    uint64_t n;
    if (!text || !text_count(text, SIZE_MAX, &n))
        return false;
    *out = n;
    return true;
}

/* Ranks of a launcher: one process for each. In a Slurm batch script outside of srun there is no
 * step, and this is the only process. */
static void ask_launcher(size_t *rank, size_t *ranks)
{
    static const char *const names[][2] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                           {"PMI_RANK", "PMI_SIZE"},
                                           {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *a = getenv(names[i][0]), *b = getenv(names[i][1]);
        if (sweep_read_count(a, rank) && sweep_read_count(b, ranks) && *rank < *ranks)
            return;
    }
    *rank = 0;
    *ranks = 1;
}

static enum status choose_shard(const struct arguments *a, struct sweep_run *run)
{
    size_t i, n;
    char first[32] = "";
    const char *shard = a->grid.shard;
    ask_launcher(&run->shard, &run->shards);
    run->workers = a->grid.workers || run->shards == 1 ? a->grid.workers : 1;
    if (!shard)
        return STATUS_OK;
    const char *slash = strchr(shard, '/');
    if (slash && slash - shard < (ptrdiff_t)sizeof first)
        memcpy(first, shard, (size_t)(slash - shard));
    if (!slash || !sweep_read_count(first, &i) || !sweep_read_count(slash + 1, &n) || i < 1 ||
        i > n)
        return error_set(STATUS_USAGE, "--shard: got '%s', expected I/N, from 1/N to N/N", shard);
    if (run->shards > 1)
        return error_set(STATUS_USAGE,
                         "--shard has no effect under mpirun or srun, whose ranks are the shards");
    run->shard = i - 1;
    run->shards = n;
    return STATUS_OK;
}

/* "DIR/NAME.db" or "DIR/NAME.shard-2-of-4.db". */
static enum status name_database(const char *output, const struct experiment *e,
                                 const struct sweep_run *run, char **out)
{
    size_t length, stem;
    FILE *to = open_memstream(out, &length);
    if (!to)
        return error_set(STATUS_NOMEM, "out of memory");
    const char *base = output ? output : e->name;
    stem = strlen(base);
    if (output && stem > 3 && !strcmp(base + stem - 3, ".db"))
        stem -= 3;
    bool suffixed = !output || stem < strlen(base);
    fwrite(base, 1, stem, to);
    if (run->shards > 1)
        fprintf(to, ".shard-%zu-of-%zu", run->shard + 1, run->shards);
    if (suffixed)
        fputs(".db", to);
    return fclose(to) == 0 ? STATUS_OK : error_set(STATUS_NOMEM, "out of memory");
}

/* ---- what comes of it */

static enum status sweep_print_count(const struct sweep *s, const char *path,
                                     const struct sweep_count *made)
{
    size_t count[POINT_STATUSES] = {0}, missing;
    char reason[RESULT_REASON];
    PASS(sweep_count(s, count, &missing, reason));
    fprintf(stderr, "%s: %zu points", path, s->all.n);
    if (s->has_finalists)
        fprintf(stderr, ", %zu of them on simgrid too", s->finalists.n);
    fprintf(stderr, "; %zu computed now", made->computed);
    for (size_t k = 0; k < POINT_STATUSES; k++)
        if (count[k] > 0)
            fprintf(stderr, ", %zu %s", count[k], point_status_names[k]);
    fputc('\n', stderr);
    if (*reason)
        fprintf(stderr, "first point that is not ok: %s\n", reason);
    if (made->missing > 0)
        fprintf(stderr,
                "interrupted: %zu points are missing; run the same command again to continue\n",
                made->missing);
    return STATUS_OK;
}

static enum status sweep_run_file(const struct invocation *in, struct sweep *s,
                                  struct sweep_count *made)
{
    enum status st;
    const struct arguments *a = &in->a;
    struct sweep_run run = {
        .shards = 1, .retry = a->grid.retry, .add = a->grid.add, .notes = stderr};
    const struct experiment_check check = {point_check, NULL};
    char *database = NULL;
    TRY(arguments_check(a, a->grid.list ? TAKES(SWEEP_LIST) : TAKES(SWEEP)));
    TRY(choose_shard(a, &run));
    run.progress = screen_drawing();
    TRY(experiment_read(in->operand[0], &check, &s->e));
    TRY(equal_settle(&s->e, stderr));
    TRY(sweep_identify(s));
    if (a->grid.list) {
        sweep_print_list(s, stdout);
        goto out;
    }
    TRY(name_database(a->output, &s->e, &run, &database));
    run.stop = interrupt_catch();
    struct progress progress = {.what = "sweep", .of = "points", .interrupted = run.stop};
    const struct simulation_watch watch = progress_watch(&progress);
    run.watch = progress.pipe >= 0 ? &watch : NULL; /* a terminal is told more */
    st = sweep_compute(s, database, &in->by, &run, made);
    interrupt_release();
    TRY(st);
    TRY(sweep_print_count(s, database, made));
    if (a->sim.export)
        TRY(sweep_print_rows(s, NULL, NULL, !strcmp(a->sim.export, "csv") ? ',' : '\t', stdout));
    else if (run.shards == 1 && made->missing == 0)
        TRY(best_print(s, stdout, stderr));
out:
    free(database);
    return st;
}

static enum status sweep(struct invocation *in)
{
    PASS(command_expect(in, 1, "one experiment file"));
    struct sweep s = {0};
    struct sweep_count made = {0};
    enum status st = sweep_run_file(in, &s, &made);
    sweep_free(&s);
    if (st == STATUS_OK && made.missing > 0)
        interrupt_end(SIGINT);
    return st;
}

const struct command command_sweep = {
    .name = "sweep",
    .synopsis = "EXPERIMENT.yml",
    .summary = "predict every combination of settings and store the results in a database",
    .details =
        "Reads an experiment (docs/reference/sweep.md), in which any setting of model, platform, "
        "plan\n"
        "and engine may be a list. Every combination is a point. Points are computed on all cores\n"
        "and stored one by one in an SQLite database: an interrupted or killed sweep continues\n"
        "where it stopped, and no point is computed twice. Prints the best choice for every\n"
        "combination of the other settings, and where it changes.\n"
        "\n"
        "With finalists: K in the file, SimGrid simulates the best K points of each combination.\n"
        "\n"
        "On several machines, use mpirun foreline sweep ..., srun foreline sweep ..., or --shard "
        "in\n"
        "the tasks of a job array. Each process writes NAME.shard-I-of-N.db; the next foreline "
        "sweep\n"
        "without them merges these databases and adds the finalists.\n"
        "\n"
        "Points that are impossible or do not fit into memory become rows with a reason.",
    .examples = "foreline sweep examples/schedules-and-microbatches/sweep.yml --list\n"
                "foreline sweep examples/schedules-and-microbatches/sweep.yml -o microbatches.db\n",
    .run = sweep,
};
