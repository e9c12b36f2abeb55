/* One rank of `foreline calibrate --transport mpi`: figures are added up on rank 0, which prints
 * them. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/limit.h"
#include "core/base/text.h"
#include "exec/calibrate/probe.h"
#include "exec/transport/mpi/mpi.h"

static const double nap_s = 1e-4;

/* A barrier that leaves the processor to those who are still at work. */
static void together(void *context)
{
    MPI_Request request;
    int done = 0;
    (void)context;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (MPI_Test(&request, &done, MPI_STATUS_IGNORE); !done;
         MPI_Test(&request, &done, MPI_STATUS_IGNORE))
        clock_sleep_until(clock_now() + nap_s);
}

static enum status read_words(int argc, char **argv, size_t *repeats, struct bench_task *task)
{
    uint64_t n, bytes;
    if (argc != 4 || !text_count(argv[2], CALIBRATE_REPEATS, &n) || n < 1 ||
        !text_count(argv[3], INT64_MAX, &bytes))
        return error_set(STATUS_USAGE,
                         "expected the arguments %s, 1 to %d repeats and a size in bytes",
                         calibrate_flag, CALIBRATE_REPEATS);
    *repeats = (size_t)n;
    return bench_task_up_to((int64_t)bytes, task);
}

static enum status mpi_bench_collect(const struct bench *b)
{
    size_t n = bench_numbers(b);
    double *all = NULL;
    PASS(ARRAY_NEW(all, n));
    enum status st =
        mpi_error(MPI_Reduce(b->number, all, (int)n, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD));
    if (st == STATUS_OK && b->rank == 0)
        calibrate_print(all, n);
    free(all);
    return st;
}

int calibrate_rank(int argc, char **argv)
{
    enum status st;
    struct bench_task task;
    struct bench b = {.task = &task, .transport = &transport_mpi, .together = together};
    int rank, ranks;
    prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0UL, 0UL, 0UL);
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    b.rank = (uint32_t)rank;
    b.ranks = (size_t)ranks;
    b.meeting = (struct rendezvous){
        .rank = b.rank, .ranks = (uint32_t)ranks, .listener = -1, .control = -1};
    TRY(limits_inherit());
    b.meeting.timeout_s = limit_wait(WAIT_MEASURE);
    TRY(read_words(argc, argv, &b.repeats, &task));
    TRY(ARRAY_NEW(b.number, bench_numbers(&b)));
    TRY(bench_rank(&b));
    TRY(mpi_bench_collect(&b));
out:
    if (st != STATUS_OK)
        fprintf(stderr, "%srank %d: %s\n", calibrate_mark, rank, error_message());
    free(b.number);
    return st == STATUS_OK ? 0 : 1;
}
