/* platform.h - SimGrid platform files: checking them, and reading a topology out of them.
 *
 * SimGrid aborts on errors and has one engine per process, so everything here happens in a forked
 * child whose complaint becomes one error message. */
#ifndef SIM_PLATFORM_PLATFORM_H
#define SIM_PLATFORM_PLATFORM_H

#include "core/data/topology.h"

/* Load `path` and describe its devices. A host is a device unless it has <prop id="device"
 * value="none"/>; devices come in the file's order, those of a <cluster> last and by number.
 * Properties of a device, all optional; one of the file's first zone is the default for all hosts:
 *   type            name of the device type (default: the speed as text); devices of one type must
 *                   agree in everything
 *   memory          bytes, e.g. "80GB" (default 16GiB)
 *   memory_bandwidth  e.g. "2039GBps" (default 100GBps)
 *   launch_overhead seconds per op, e.g. "5us" (default 0)
 *   slowdown        share by which compute beside a collective is slower, "10%" (default 0)
 *   collectives, curve:KIND:MEMBERSxPER_NODE  what collectives attain (core/cost/fabric.h)
 *   message_overhead, message_bandwidth  seconds and bytes per second that messages take from
 *                   compute, e.g. "20us" and "4GBps" (default: nothing)
 *   peak            nominal FLOP/s of dense products of 16-bit numbers, which MFU is counted
 *                   against
 *   watts, price_per_hour  of a device at work, bare numbers: what training takes (--train-tokens)
 *   busy_spread     spread of the repetitions of a calibration while the machine was busy, "0.35"
 *   rate:KIND       attainable FLOP/s at increasing work, e.g. "1Mflop@5Gf 100Mflop@40Gf"
 * The host's speed is the attainable FLOP/s of dense work.
 *
 * Tiers are the distinct (latency, bandwidth) pairs of routes, at most 4096, by falling bandwidth
 * and then rising latency. A tier's name joins the <prop id="tier"> of its links, fastest link
 * first and each once: "nic+uplink"; "tier3" if there are none; a second "nic" is "nic-2".
 *
 * Faults that SimGrid accepts silently are errors here too: negative, zero or infinite bandwidth,
 * negative latency, zero speed, missing routes, no device at all, names used twice, no unit.
 * Every message is "path:line: what", but for a file that cannot be read. Returns STATUS_PARSE,
 * STATUS_IO, STATUS_NOMEM.
 *
 * Up to 1,048,576 devices in one flat zone with routing="DijkstraCache", whose graph then is the
 * topology's; up to 4096 elsewhere, where SimGrid is asked for all n * (n - 1) routes, which are
 * kept up to ROUTE_TABLE_DEVICES. */
enum status platform_read(const char *path, struct topology *out) MUST_CHECK;

/* The same by SimGrid also where the text alone says it (plain.h): the slow reference for tests. */
enum status platform_read_by_simgrid(const char *path, struct topology *out) MUST_CHECK;
/* The same by asking SimGrid for every pair whatever the platform: the slow reference for tests. */
enum status platform_read_exhaustively(const char *path, struct topology *out) MUST_CHECK;

#endif
