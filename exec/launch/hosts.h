/* hosts.h - which machine each rank is on, as mpirun's hostfile or a list of words says. */
#ifndef EXEC_LAUNCH_HOSTS_H
#define EXEC_LAUNCH_HOSTS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/array.h"

struct hosts {
    struct arena memory; /* of everything here */
    size_t n;
    struct host {
        const char *name;
        size_t slots; /* neighbouring ranks that are there, >= 1 */
    } * host;         /* [n] in the order of the ranks */
};

/* "n1:2,n2:2", or the path of a file with lines "n1 slots=2" or "n1:2"; what follows # is a
 * comment. A host that says no slots has one. A host may stand in several places. Names have the
 * letters of host names only, so that they are words of any command. STATUS_PARSE, with path:line
 * where it is a file; STATUS_IO, STATUS_NOMEM; STATUS_INVALID: no hosts. */
enum status hosts_read(const char *spec, struct hosts *out) MUST_CHECK;
void hosts_free(struct hosts *h); /* accepts {0} */

/* The host of a rank, NULL behind the last slot; *local: how many ranks before it are on a host of
 * the same name. O(n). */
const char *hosts_of(const struct hosts *h, size_t rank, size_t *local);
/* Is this the machine that we are on, by its name? */
bool hosts_is_here(const char *name);
/* Does the text name hosts itself, and is no path? */
bool hosts_is_list(const char *spec);

#endif
