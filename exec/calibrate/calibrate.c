/* Calibration of this machine: which ranks measure (forked here, mpirun's, or a worker with a GPU),
 * and the matrix of what pairs of ranks get.
 *
 * Ranks forked here are a team (exec/team.h): their numbers lie in memory that they share, so that
 * nothing has to be collected. Those of mpirun add theirs up on rank 0, which prints them. */
#include "exec/calibrate/calibrate.h"
#include "core/base/array.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/limit.h"
#include "core/base/provenance.h"
#include "core/base/text.h"
#include "exec/calibrate/probe.h"
#include "exec/team.h"
#include "host/folder.h"

/* ---- ranks forked here */

void calibrate_together(void *barrier)
{
    pthread_barrier_wait(barrier);
}

/* Member of the team: its own copy of what the parent has set up. */
static enum status calibration_run_rank(struct team_member *me, void *context)
{
    struct bench b = *(const struct bench *)context;
    b.rank = me->rank;
    b.number = me->number;
    b.transport = &transport_tcp;
    b.together = calibrate_together;
    b.context = me->together;
    b.meeting = team_meeting(me);
    return bench_rank(&b);
}

static enum status calibrate_fork(struct bench *b, const struct calibrate_options *o)
{
    (void)o;
    return team_run(b->ranks, bench_numbers(b), calibrate_limit(b), calibration_run_rank, b,
                    b->number);
}

double calibrate_within(size_t repeats, size_t n)
{
    /* Besides repetitions, two minutes; a repetition of an op or of a pair of ranks, 10 s. */
    return limit_wait(120) + (double)(repeats + 1) * (double)n * limit_wait(10);
}

double calibrate_limit(const struct bench *b)
{
    return calibrate_within(b->repeats, 3 + bench_pairs(b));
}

/* ---- results */

size_t calibrate_cores(void)
{
    return (size_t)fmax(1, (double)sysconf(_SC_NPROCESSORS_ONLN));
}

/* Above so much the machine is doubted, or nothing is left to believe. The spread of an idle
 * machine is 5 to 10 %, most of it that of small messages. */
static const double spread_doubt = 0.2, spread_useless = 1;
static const double share_doubt = 0.95, share_useless = 0.75, others_doubt = 0.25;

static void put_doubt(char text[CALIBRATE_DOUBT], const char *fmt, ...)
{
    size_t n = strlen(text);
    va_list arguments;
    n += (size_t)snprintf(text + n, CALIBRATE_DOUBT - n, "%s", n ? ", " : "");
    va_start(arguments, fmt);
    vsnprintf(text + n, CALIBRATE_DOUBT - n, fmt, arguments);
    va_end(arguments);
}

enum calibrate_verdict calibrate_judge(const struct calibrate_noise *n, char text[CALIBRATE_DOUBT])
{
    bool useless = n->spread.median > spread_useless || n->share < share_useless;
    *text = '\0';
    if (n->spread.median > spread_doubt)
        put_doubt(text, "repetitions differ by %.0f %%", 100 * n->spread.median);
    if (n->share < share_doubt)
        put_doubt(text, "a rank had a core for only %.0f %% of the time", 100 * n->share);
    if (n->ranks > n->cores)
        put_doubt(text, "%zu ranks on %zu core%s", n->ranks, n->cores, n->cores == 1 ? "" : "s");
    if (n->others > others_doubt && n->others + (double)n->ranks > (double)n->cores + others_doubt)
        put_doubt(text, "other processes used %.1f of %zu cores", n->others, n->cores);
    return useless ? CALIBRATE_USELESS : *text ? CALIBRATE_DOUBTFUL : CALIBRATE_IDLE;
}

enum calibrate_verdict calibrate_foresee(size_t ranks, size_t cores, char text[CALIBRATE_DOUBT])
{
    double full = (double)(ranks / cores), rest = (double)(ranks % cores);
    double ends = (full + 1) * ((double)cores * full / 2 + rest);
    const struct calibrate_noise best = {
        .share = (double)ranks / ends, .ranks = ranks, .cores = cores};
    return calibrate_judge(&best, text);
}

/* Take all figures of a task in one of three ways, and fit them. */
static enum status
calibrate_transport(struct bench *b, const struct calibrate_options *o, size_t most_ranks,
                    enum status (*measure)(struct bench *b, const struct calibrate_options *o),
                    struct calibration *out)
{
    enum status st;
    b->ranks = o->ranks;
    b->repeats = o->repeats;
    b->notes = o->notes;
    b->curves = o->curves;
    if (o->ranks < 1 || o->ranks > most_ranks || o->repeats < 1 || o->repeats > CALIBRATE_REPEATS)
        return error_set(
            STATUS_INVALID,
            "got %zu ranks and %zu repeats, expected 1 to %zu ranks and 1 to %d repeats", o->ranks,
            o->repeats, most_ranks, CALIBRATE_REPEATS);
    TRY(ARRAY_NEW(b->number, bench_numbers(b)));
    double begin_s = clock_now(), own_s = clock_children_cpu(), all_s = clock_machine_cpu();
    TRY(measure(b, o));
    all_s = clock_machine_cpu() - all_s;
    own_s = clock_children_cpu() - own_s;
    double seconds = clock_now() - begin_s;
    TRY(calibrate_fit(b, out));
    out->noise.others = fmax(0, all_s - own_s) / seconds;
    out->noise.cores = calibrate_cores();
out:
    free(b->number);
    return st;
}

enum status calibrate_task(const struct bench_task *task, const struct calibrate_options *o,
                           struct calibration *out)
{
    struct bench b = {.task = task};
    bool mpi = o->transport && !strcmp(o->transport, "mpi");
    if (o->transport && !mpi && strcmp(o->transport, "tcp") != 0)
        return error_set(STATUS_UNSUPPORTED, "unknown transport '%s'; known: tcp, mpi",
                         o->transport);
    PASS(calibrate_transport(&b, o, TEAM_MOST, mpi ? calibrate_mpirun : calibrate_fork, out));
    PASS(gemm_single_thread());
    gemm_library(out->library);
    return cpu_measure_speed(&out->gemm_flops, &out->fma_flops);
}

enum status calibrate_cpu(const struct calibrate_options *o, struct calibration *out)
{
    struct bench_task task = bench_task;
    if (o->largest > 0)
        PASS(bench_task_up_to(o->largest, &task));
    return calibrate_task(&task, o, out);
}

/* The worker makes the same task of the same file. */
static enum status calibrate_gpu(struct bench *b, const struct calibrate_options *o)
{
    enum status st;
    char folder[FOLDER_TEMPORARY] = "", path[FOLDER_FILE] = "-", number[4][32];
    const struct provenance by = {.version = foreline_version, .command = "foreline calibrate"};
    const size_t count[4] = {o->repeats, o->ranks, o->model ? o->batch : 1, (size_t)o->largest};
    for (size_t k = 0; k < 4; k++)
        snprintf(number[k], sizeof number[k], "%zu", count[k]);
    if (o->model) {
        TRY(folder_temporary(folder));
        folder_file(folder, "model.json", path);
        TRY(model_write(o->model, path, &by));
    }
    const char *const arguments[] = {
        calibrate_flag, number[0], element_names[b->half],    number[1], number[3],
        path,           number[2], calibrate_cudnn(o->cudnn), NULL};
    TRY(calibrate_gpu_worker(o->worker, arguments, bench_numbers(b), calibrate_limit(b),
                             b->number));
out:
    if (*folder)
        folder_remove(folder);
    return st;
}

enum status calibrate_cuda(const struct calibrate_options *o, struct calibration *out)
{
    enum status st;
    struct bench_shapes s = {0};
    struct bench b = {.half = o->half};
    if (o->model)
        b.half = layer_half(o->model);
    TRY(bench_shapes_make(o->model, o->batch, o->largest, &s));
    b.task = &s.task;
    TRY(calibrate_transport(&b, o, TEAM_MOST, calibrate_gpu, out));
out:
    bench_shapes_free(&s);
    return st;
}

void calibration_free(struct calibration *c)
{
    topology_free(&c->topology);
    free(c->pair);
    free(c->timing);
    *c = (struct calibration){0};
}

/* ---- matrix */

static const struct calibrate_pair *find_pair(const struct calibration *c, uint32_t from,
                                              uint32_t to)
{
    for (size_t k = 0; k < c->pairs; k++)
        if (c->pair[k].from == (from < to ? from : to) && c->pair[k].to == (from < to ? to : from))
            return &c->pair[k];
    return NULL; /* from == to */
}

/* Rows for both directions of a pair, which are measured as one, so that other programs can read
 * the file without knowing that. */
enum status calibration_write_matrix(const struct calibration *c, const char *path)
{
    enum status st;
    struct file_out f = {0};
    double most = 0;
    for (size_t k = 0; k < c->pairs; k++)
        most = fmax(most, c->pair[k].bandwidth_Bps);
    TRY(file_create(path, &f));
    fputs("# from\tto\tlatency_s\tbandwidth_Bps\tnormalised\n", f.stream);
    for (uint32_t i = 0; i < c->topology.n; i++)
        for (uint32_t j = 0; j < c->topology.n; j++) {
            const struct calibrate_pair *pair = find_pair(c, i, j);
            double latency_s = pair ? pair->latency_s : 0, Bps = pair ? pair->bandwidth_Bps : 0;
            text_put_cell(f.stream, c->topology.device[i]);
            putc('\t', f.stream);
            text_put_cell(f.stream, c->topology.device[j]);
            fprintf(f.stream, "\t%.9g\t%.9g\t%.9g\n", latency_s, Bps, most > 0 ? Bps / most : 0);
        }
    TRY(file_commit(&f));
out:
    file_discard(&f);
    return st;
}
