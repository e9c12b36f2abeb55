/* The same over MPI; the rank is in mpirun's environment. */
#include <mpi.h>

#include "tests/failing_worker.h"

int main(int argc, char **argv)
{
    int status = failing_worker(argc, argv, &transport_mpi);
    if (status == 0)
        MPI_Finalize();
    return status;
}
