/* platform.h - SimGrid platform files: checking them, and reading a topology out of them.
 *
 * SimGrid aborts on errors and has one engine per process, so everything here happens in a forked
 * child whose complaint becomes one error message. */
#ifndef SIM_PLATFORM_H
#define SIM_PLATFORM_H

#include "core/topology.h"

/* Load `path` and describe its devices. A host is a device unless it has <prop id="device"
 * value="none"/>. Properties of a device (all optional but for the host's speed):
 *   type            name of the device type (default: "speed" as text)
 *   memory          bytes, e.g. "80GB" (default 16GiB)
 *   memory_bandwidth  e.g. "2039GBps" (default 100GBps)
 *   launch_overhead seconds per op, e.g. "5us" (default 0)
 *   rate:KIND       attainable FLOP/s points "work@rate work@rate ...", e.g. "1Mflop@5Gf
 * 100Mflop@40Gf" The host's speed is the attainable FLOP/s of dense work. Tiers are the distinct
 * (latency, bandwidth) pairs of routes, fastest first, named after the <prop id="tier"> of the
 * slowest link of the route when it has one.
 *
 * Faults that SimGrid accepts silently are errors here too: negative or zero bandwidth, negative
 * latency, zero speed, missing routes, no device at all, names used twice.
 * Every message is "path:line: what". Returns STATUS_PARSE, STATUS_IO, STATUS_NOMEM. */
enum status platform_read(const char *path, struct topology *out) MUST_CHECK;

#endif
