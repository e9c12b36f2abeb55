/* foreline-worker-mpi - one rank of a run over MPI: started by mpirun, srun or whatever else starts
 * MPI programs; or one rank of a calibration. An executable of its own because libsimgrid exports
 * MPI's names too. */
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/calibrate/probe.h"
#include "exec/core_type.h"
#include "exec/worker.h"

/* mpirun has said which rank this is. Then MPI starts when the launcher has been met
 * (transport_mpi.open()): MPI_Init() waits for all ranks, and only the launcher knows whom for. */
static bool take_rank(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *ranks = getenv("OMPI_COMM_WORLD_SIZE");
    return rank && ranks && !setenv("RANK", rank, 1) && !setenv("WORLD_SIZE", ranks, 1);
}

/* Else MPI knows. */
static void export_rank(void)
{
    char text[16];
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    snprintf(text, sizeof text, "%d", rank);
    setenv("RANK", text, 1);
    snprintf(text, sizeof text, "%d", ranks);
    setenv("WORLD_SIZE", text, 1);
}

int main(int argc, char **argv)
{
    static const struct device *const devices[] = {&device_cpu, &device_paced, NULL};
    static const struct transport *const transports[] = {&transport_mpi, NULL};
    bool calibrates = argc > 1 && !strcmp(argv[1], calibrate_flag);
    int level, started = 0;
    core_type_restart(argv);
    if (calibrates || !take_rank()) {
        if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS) {
            fputs("foreline-worker-mpi: MPI does not start\n", stderr);
            return 1;
        }
        export_rank();
    }
    int status = calibrates ? calibrate_rank(argc, argv)
                            : worker_main(argc, argv,
                                          &(const struct worker_parts){devices, transports, NULL});
    MPI_Initialized(&started);
    if (status == 0 && started)
        MPI_Finalize(); /* else it would wait for ranks that are gone; exiting ends the others */
    return status;
}
