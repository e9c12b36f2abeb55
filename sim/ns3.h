/* ns3.h - what can be set of ns-3, and the wires that it simulates. The engine "ns3" is of
 * sim/engines.h. */
#ifndef SIM_NS3_H
#define SIM_NS3_H

#include <stddef.h>
#include <stdio.h>

#include "core/data/network.h"
#include "core/data/topology.h"

/* "tcp=cubic,window=1MiB,mtu=1500,queue=64,rto=10ms": settings of ns-3. */
struct ns3_settings {
    const char *tcp;     /* ns-3's class of congestion control */
    double window_bytes; /* a receiver's buffer: what a connection may have under way at most */
    double mtu_bytes;    /* of every link, heads of IP and TCP included */
    double queue;        /* packets that wait at most at an end of a link; 0: as ns-3 has it */
    double rto_s;        /* until what was lost is sent again, at least */
};
enum { NS3_HEADS = 40 }; /* bytes of IPv4 and TCP without options */

/* NULL: all as they are. STATUS_INVALID "... there are tcp, window, mtu, ...". */
enum status ns3_settings_parse(const char *text, struct ns3_settings *out) MUST_CHECK;
/* Set the environment from which ns-3 takes them when it is loaded; to be called before anything
 * loads SimGrid, whose module brings ns-3 along. As ns3_settings_parse(), and STATUS_UNSUPPORTED
 * when the process has others already. */
enum status ns3_settings_use(const char *text) MUST_CHECK;
/* May it be such a text? STATUS_USAGE. */
enum status ns3_settings_check(const char *text) MUST_CHECK;

/* Can ns-3 have these wires: both ways, not FATPIPE, every way the shortest? Lanes are one wire.
 * STATUS_UNSUPPORTED "ns3: link '...': what". */
enum status ns3_check_network(const struct network *n) MUST_CHECK;
/* As a platform for SimGrid's ns-3: hosts "d" and the device's number, routers, a route of one link
 * for each wire. Write errors are the stream's. */
void ns3_write_platform(const struct network *n, FILE *to);

#endif
