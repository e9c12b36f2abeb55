/* topology_bytes.h - a topology as bytes, to bring it out of the child process that loaded it.
 *
 * Both ends are the same binary on the same machine, so numbers go as they lie in memory. The
 * reader trusts nothing all the same: the other end may have been damaged by a foreign library. */
#ifndef SIM_PLATFORM_TOPOLOGY_BYTES_H
#define SIM_PLATFORM_TOPOLOGY_BYTES_H

#include "core/data/topology.h"

/* Write everything but the name; STATUS_IO, STATUS_NOMEM. */
enum status topology_send(const struct topology *t, int fd) MUST_CHECK;
/* Read back what topology_send() wrote; the name is left NULL. STATUS_EXTERNAL when the bytes are
 * not a topology that holds together, STATUS_NOMEM. */
enum status topology_receive(const unsigned char *data, size_t length,
                             struct topology *out) MUST_CHECK;

#endif
