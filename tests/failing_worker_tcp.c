/* A worker that fails when told, over TCP: what tests/exec_failures.sh starts. */
#include "tests/failing_worker.h"

int main(int argc, char **argv)
{
    return failing_worker(argc, argv, &transport_tcp);
}
