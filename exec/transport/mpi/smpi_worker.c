/* foreline-worker-smpi - the ranks of a program on SimGrid's MPI: a module for smpirun, one
 * simulated thread per rank, the MPI transport and the executor as they are, and a device that only
 * lets simulated time pass. Started by `foreline emulate --engine smpi`.
 *
 *   smpirun ... foreline-worker-smpi.so PROGRAM TIMES COLLECTIVE
 *
 * Every rank writes when its ops began and ended, in seconds from the start of the step, into the
 * file TIMES: doubles start_s[ops], then end_s[ops], of the whole program. */
#include <fcntl.h>
#include <mpi.h>
#include <smpi/smpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "exec/executor.h"
#include "exec/rounds.h"

/* A deadlock is SimGrid's to report; no simulated message takes so long. */
static const double for_ever_s = 1e15;

/* ---- simulated time, instead of core/base/clock.c's */

double clock_now(void)
{
    return MPI_Wtime();
}

void clock_sleep_until(double moment_s)
{
    double rest_s = moment_s - clock_now();
    if (rest_s > 0)
        smpi_execute_benched(rest_s);
}

/* ---- a device without numerics */

static enum status smpi_worker_compute(void *self, uint32_t step, const struct program_op *op,
                                       const struct layer_reduction *reduction)
{
    (void)self, (void)step, (void)reduction;
    if (op->seconds > 0)
        smpi_execute_benched(op->seconds);
    return STATUS_OK;
}

static enum status smpi_worker_get(void *self, const struct program_op *send, void *data)
{
    (void)self, (void)send, (void)data;
    return STATUS_OK;
}

static enum status smpi_worker_put(void *self, const struct program_op *recv, const void *data)
{
    (void)self, (void)recv, (void)data;
    return STATUS_OK;
}

/* self: zeros, as many as the largest collective of the rank has */
static enum status smpi_worker_array(void *self, const struct program_op *op, uint32_t k,
                                     enum element *e, void **data, size_t *n)
{
    *data = k < op->count ? self : NULL;
    *e = ELEMENT_FP32;
    *n = rounds_numbers(op, *e);
    return STATUS_OK;
}

static double smpi_worker_take_loss(void *self)
{
    (void)self;
    return 0;
}

static const struct device device_simulated = {.name = "simulated",
                                               .compute = smpi_worker_compute,
                                               .get = smpi_worker_get,
                                               .put = smpi_worker_put,
                                               .array = smpi_worker_array,
                                               .take_loss = smpi_worker_take_loss};

static enum status open_device(const struct program *p, uint32_t rank, void **self)
{
    size_t most = 0;
    for (size_t i = p->op_start[rank]; i < p->op_start[rank + 1]; i++)
        if (op_is_collective(&p->op[i]) && rounds_numbers(&p->op[i], ELEMENT_FP32) > most)
            most = rounds_numbers(&p->op[i], ELEMENT_FP32);
    *self = calloc(most + 1, sizeof(float));
    return *self ? STATUS_OK : error_set(STATUS_NOMEM, "allocating %zu gradients", most);
}

/* ---- the run */

/* All ranks write into one file, each at its place, in a folder that nobody else reads:
 * core/base/file.h replaces whole files. */
static enum status write_times(const struct program *p, uint32_t rank,
                               const struct executor_step *s, const char *path)
{
    enum status st = STATUS_OK;
    size_t bytes = s->ops * sizeof(double);
    off_t at = (off_t)(p->op_start[rank] * sizeof(double)), all = (off_t)(p->ops * sizeof(double));
    for (size_t i = 0; i < s->ops; i++) {
        s->op_start_s[i] -= s->start_s;
        s->op_end_s[i] -= s->start_s;
    }
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    if (fd < 0 || pwrite(fd, s->op_start_s, bytes, at) != (ssize_t)bytes ||
        pwrite(fd, s->op_end_s, bytes, at + all) != (ssize_t)bytes)
        st = error_set(STATUS_IO, "%s: cannot be written", path);
    if (fd >= 0)
        close(fd);
    return st;
}

static enum status smpi_worker_run(uint32_t rank, char **argv)
{
    enum status st;
    struct program p = {0};
    struct executor_step step = {0};
    struct executor e = {.program = &p,
                         .rank = rank,
                         .device = &device_simulated,
                         .transport = &transport_mpi,
                         .timeout_s = for_ever_s};
    struct rendezvous r = {.rank = rank, .timeout_s = for_ever_s};
    TRY(program_read(argv[1], &p));
    TRY(rounds_find(argv[3], NULL, &r.algorithm));
    TRY(executor_supports(&p));
    TRY(open_device(&p, rank, &e.device_self));
    TRY(transport_mpi.open(&p, rank, &r, &e.transport_self));
    TRY(executor_step_init(&step, &p, rank));
    TRY(executor_run(&e, 0, &step));
    TRY(executor_finish(&e));
    TRY(write_times(&p, rank, &step, argv[2]));
out:
    transport_mpi.close(e.transport_self);
    free(e.device_self);
    executor_step_free(&step);
    program_free(&p);
    return st;
}

int main(int argc, char **argv)
{
    int rank, level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    enum status st =
        argc == 4
            ? smpi_worker_run((uint32_t)rank, argv)
            : error_set(STATUS_USAGE, "expected three arguments: PROGRAM, TIMES and COLLECTIVE");
    if (st != STATUS_OK) {
        fprintf(stderr, "@@%s\n@@\n", error_message()); /* sim/child.h: the reason of a failure */
        _exit(1); /* all ranks are in this process; after MPI_Abort() smpirun says all is well */
    }
    MPI_Finalize();
    return 0;
}
