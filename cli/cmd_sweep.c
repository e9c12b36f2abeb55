/* sweep - what if: every point of an experiment, predicted once and kept in a database. */
#include <errno.h>
#include <glob.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/command.h"
#include "core/text.h"
#include "study/interrupt.h"
#include "study/sweep.h"
#include "study/sweep_point.h"

static const char *output, *export, *shard;
static size_t workers;
static bool list, retry;

static const struct option_spec options[] = {
    {OPTION_STRING, "output", &output, "FILE",
     "the database (also -o; default: the experiment's name with .db, here)"},
    {OPTION_FLAG, "list", &list, NULL, "print the points, compute nothing"},
    {OPTION_STRING, "export", &export, "csv|tsv", "print every point instead of the best ones"},
    {OPTION_SIZE, "workers", &workers, "N",
     "processes (0: as many as cores; one under mpirun and srun, and where plans are run)"},
    {OPTION_STRING, "shard", &shard, "I/N",
     "only each N-th point, from the I-th on (1/N to N/N), into a database of its own"},
    {OPTION_FLAG, "retry", &retry, NULL, "points that failed are tried again"},
    {.type = OPTION_END},
};

/* Everything that one call holds. */
struct sweep {
    struct experiment e;
    struct sweep_points all, finalists;
    struct database *db;
    int64_t id;
    struct sweep_run run;
    char *path;
    size_t computed, missing;
    bool has_finalists;
};

/* ---- which part */

static bool parse_count(const char *text, const char *end, size_t *out)
{
    char *stop;
    errno = 0;
    unsigned long n = text ? strtoul(text, &stop, 10) : 0;
    if (!text || *text < '0' || *text > '9' || errno || stop != end)
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
        if (a && b && parse_count(a, a + strlen(a), rank) && parse_count(b, b + strlen(b), ranks) &&
            *rank < *ranks)
            return;
    }
    *rank = 0;
    *ranks = 1;
}

static enum status choose_shard(struct sweep_run *run)
{
    size_t i, n;
    ask_launcher(&run->shard, &run->shards);
    run->workers = workers || run->shards == 1 ? workers : 1;
    if (!shard)
        return STATUS_OK;
    const char *slash = strchr(shard, '/');
    if (!slash || !parse_count(shard, slash, &i) ||
        !parse_count(slash + 1, shard + strlen(shard), &n) || i < 1 || i > n)
        return error_set(STATUS_USAGE, "--shard: '%s', expected I/N, from 1/N to N/N", shard);
    if (run->shards > 1)
        return error_set(STATUS_USAGE, "--shard: the ranks of the launcher are shards already");
    run->shard = i - 1;
    run->shards = n;
    return STATUS_OK;
}

/* ---- files */

/* "DIR/NAME.db" or "DIR/NAME.shard-2-of-4.db". */
static enum status name_database(const struct sweep *s, char **out)
{
    size_t length, stem;
    FILE *to = open_memstream(out, &length);
    if (!to)
        return error_set(STATUS_NOMEM, "out of memory");
    const char *base = output ? output : s->e.name;
    stem = strlen(base);
    if (output && stem > 3 && !strcmp(base + stem - 3, ".db"))
        stem -= 3;
    bool suffixed = !output || stem < strlen(base);
    fwrite(base, 1, stem, to);
    if (s->run.shards > 1)
        fprintf(to, ".shard-%zu-of-%zu", s->run.shard + 1, s->run.shards);
    if (suffixed)
        fputs(".db", to);
    return fclose(to) == 0 ? STATUS_OK : error_set(STATUS_NOMEM, "out of memory");
}

/* What shards have computed. */
static enum status gather(struct sweep *s)
{
    enum status st = STATUS_OK;
    glob_t found = {0};
    char pattern[4096];
    size_t stem = strlen(s->path);
    bool suffixed = stem > 3 && !strcmp(s->path + stem - 3, ".db");
    stem -= suffixed ? 3 : 0;
    int n = snprintf(pattern, sizeof pattern, "%.*s.shard-*-of-*%s", (int)stem, s->path,
                     suffixed ? ".db" : "");
    if (n < 0 || (size_t)n >= sizeof pattern || strpbrk(s->path, "*?[\\") ||
        glob(pattern, 0, NULL, &found) != 0)
        goto out;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *path = found.gl_pathv[i], *tail = strrchr(path, '.');
        size_t added;
        if (tail && strcmp(tail, ".db") != 0 && suffixed)
            continue;
        TRY(database_merge(s->db, path, &added));
        if (added > 0)
            fprintf(stderr, "%s: %zu points\n", path, added);
    }
out:
    globfree(&found);
    return st;
}

/* ---- computing */

static enum status compute_finalists(struct sweep *s)
{
    enum status st;
    struct sweep_ranking ranking = {0};
    size_t *number = NULL, n = 0, computed = 0;
    TRY(sweep_rank(&s->all, NULL, s->db, &ranking));
    TRY(sweep_finalists(&ranking, &number, &n));
    TRY(sweep_points_some(&s->e, number, n, &engine_simgrid, &s->finalists));
    s->has_finalists = true;
    TRY(database_add_members(s->db, s->id, true, n, number,
                             (const char(*)[DIGEST_HEX])s->finalists.hash));
    TRY(sweep_compute(&s->finalists, &s->run, &computed, &s->missing));
    s->computed += computed;
out:
    free(number);
    sweep_ranking_free(&ranking);
    return st;
}

static enum status compute(struct sweep *s, const struct provenance *by)
{
    enum status st;
    TRY(name_database(s, &s->path));
    TRY(database_open(s->path, &s->db));
    s->run.db = s->db;
    TRY(database_begin(s->db, &s->e, by, &s->id));
    TRY(database_add_members(s->db, s->id, false, s->all.n, s->all.number,
                             (const char(*)[DIGEST_HEX])s->all.hash));
    if (s->run.shards == 1)
        TRY(gather(s));
    TRY(sweep_compute(&s->all, &s->run, &s->computed, &s->missing));
    if (s->run.shards == 1 && s->missing == 0 && s->e.finalists > 0)
        TRY(compute_finalists(s));
out:
    return st;
}

static enum status tell(const struct sweep *s)
{
    enum status st = STATUS_OK;
    size_t count[POINT_STATUSES] = {0};
    const struct sweep_points *const points[] = {&s->all, &s->finalists};
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < points[k]->n; i++) {
            struct point_result r;
            bool found;
            TRY(database_get(s->db, points[k]->hash[i], &found, &r));
            if (found)
                count[r.status]++;
        }
    fprintf(stderr, "%s: %zu points", s->path, s->all.n);
    if (s->has_finalists)
        fprintf(stderr, ", %zu of them on simgrid too", s->finalists.n);
    fprintf(stderr, "; %zu computed now", s->computed);
    for (size_t k = 0; k < POINT_STATUSES; k++)
        if (count[k] > 0)
            fprintf(stderr, ", %zu %s", count[k], point_status_names[k]);
    fputc('\n', stderr);
    if (s->missing > 0)
        fprintf(stderr, "interrupted: %zu points are missing, the same command goes on\n",
                s->missing);
out:
    return st;
}

static enum status print(const struct sweep *s)
{
    const struct sweep_points *finalists = s->has_finalists ? &s->finalists : NULL;
    if (export)
        return sweep_print_rows(&s->all, finalists, s->db, !strcmp(export, "csv") ? ',' : '\t',
                                stdout);
    if (s->run.shards > 1 || s->missing > 0)
        return STATUS_OK;
    return sweep_print_best(&s->all, finalists, s->db, stdout);
}

/* Runs are measured one at a time. */
static bool runs_something(const struct experiment *e)
{
    for (size_t i = 0; i < e->axes; i++)
        for (size_t k = 0; k < e->axis[i].n; k++) {
            const struct experiment_choice *c = &e->axis[i].choice[k];
            for (size_t n = 0; n < c->n; n++)
                if (!strcmp(c->setting[n].key, "engine") && sweep_engine_runs(c->setting[n].value))
                    return true;
        }
    return false;
}

static enum status run_experiment(struct sweep *s, const char *path)
{
    enum status st;
    const struct provenance by = command_provenance(0);
    const struct experiment_check check = {sweep_point_check, NULL};
    if (export && strcmp(export, "csv") != 0 && strcmp(export, "tsv") != 0)
        return error_set(STATUS_USAGE, "--export: there are csv and tsv, not '%s'", export);
    TRY(choose_shard(&s->run));
    s->run.retry = retry;
    TRY(experiment_read(path, &check, &s->e));
    if (!workers && runs_something(&s->e))
        s->run.workers = 1;
    TRY(sweep_points_all(&s->e, &s->all));
    if (list) {
        sweep_print_list(&s->all, stdout);
        goto out;
    }
    s->run.stop = interrupt_catch();
    st = compute(s, &by);
    interrupt_release();
    TRY(st);
    TRY(tell(s));
    TRY(print(s));
out:
    return st;
}

static enum status sweep(int argc, char **argv)
{
    if (argc != 1)
        return error_set(STATUS_USAGE, "expected one experiment file, got %d operands", argc);
    struct sweep s = {.run = {.shards = 1}};
    enum status st = run_experiment(&s, argv[0]);
    bool interrupted = st == STATUS_OK && s.missing > 0;
    database_close(s.db);
    sweep_points_free(&s.all);
    sweep_points_free(&s.finalists);
    experiment_free(&s.e);
    free(s.path);
    if (interrupted) { /* status 130, and shells stop their loops */
        fflush(stdout);
        signal(SIGINT, SIG_DFL);
        raise(SIGINT);
    }
    return st;
}

const struct command command_sweep = {
    .name = "sweep",
    .synopsis = "EXPERIMENT.yml",
    .summary = "what if: predict every combination of settings, into a database",
    .details =
        "Reads an experiment (docs/sweep.md): any setting of model, platform, plan and engine\n"
        "may be a list, and every combination is a point. Points are computed on all cores and\n"
        "kept in an SQLite database, each when it is done: a sweep that was interrupted or\n"
        "killed goes on where it was, and no point is computed twice. Prints the best choice\n"
        "for every combination of the rest, and where it changes.\n"
        "\n"
        "With finalists: K in the file the best K of each combination are looked at by SimGrid.\n"
        "\n"
        "Several machines: mpirun foreline sweep ..., srun foreline sweep ..., or --shard in the\n"
        "tasks of a job array. Each writes NAME.shard-I-of-N.db; the next foreline sweep without\n"
        "them takes these in, and adds the finalists.\n"
        "\n"
        "Points that are impossible or do not fit into memory are rows with a reason.",
    .options = options,
    .run = sweep,
};
