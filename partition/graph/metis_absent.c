/* The build without METIS: CMake chooses between this file and metis_library.c. */
#include "partition/graph/metis.h"

const char metis_guarantee[] = "not in this build: METIS was not found";

enum status metis_partition(const struct metis_graph *g, size_t parts,
                            const struct metis_options *o, uint32_t *part)
{
    (void)g;
    (void)parts;
    (void)o;
    (void)part;
    return error_set(STATUS_UNSUPPORTED,
                     "built without METIS; install libmetis-dev and build foreline again");
}
