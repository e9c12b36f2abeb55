/* What Open MPI's own all-reduce and ping-pong take, beside `foreline bench collectives`.
 *
 *     mpirun -n 2 --mca btl tcp,self messages_mpi
 *     mpirun -n 2 --mca btl vader,self messages_mpi
 *
 * Calls follow one another, as those of foreline's bench do; the median of each size counts. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIZES = 7, MOST = 400 };

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Half of a round trip, or a sum of floats over all ranks. */
static void once(int allreduce, int rank, float *from, float *to, int n)
{
    if (allreduce) {
        MPI_Allreduce(from, to, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    } else if (rank == 0) {
        MPI_Send(from, n, MPI_FLOAT, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(to, n, MPI_FLOAT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        MPI_Recv(to, n, MPI_FLOAT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(from, n, MPI_FLOAT, 0, 0, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    int rank;
    static double seconds[MOST];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const size_t largest = (size_t)4 << 10 << 2 * (SIZES - 1);
    float *from = calloc(largest, 1), *to = calloc(largest, 1);
    if (!from || !to)
        return 1;
    for (int how = 0; how < 2; how++)
        for (size_t bytes = how == 0 ? 4 : 4 << 10; bytes <= largest;
             bytes *= bytes == 4 ? 1024 : 4) {
            int repeats = bytes > (1 << 20) ? 40 : MOST;
            for (int k = -5; k < repeats; k++) {
                double start_s = MPI_Wtime();
                once(how, rank, from, to, (int)(bytes / sizeof *from));
                if (k >= 0)
                    seconds[k] = (MPI_Wtime() - start_s) / (how == 0 ? 2 : 1);
            }
            qsort(seconds, (size_t)repeats, sizeof *seconds, compare);
            if (rank == 0)
                printf("%-10s %9zu bytes %10.2f us, least %10.2f\n",
                       how ? "all-reduce" : "ping-pong", bytes, 1e6 * seconds[repeats / 2],
                       1e6 * seconds[0]);
        }
    free(from);
    free(to);
    MPI_Finalize();
    return 0;
}
