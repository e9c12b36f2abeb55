/* flat.h - the links and routes of one flat zone, read from its text. */
#ifndef SIM_PLATFORM_FLAT_H
#define SIM_PLATFORM_FLAT_H

#include <stdbool.h>

#include "core/data/topology.h"
#include "sim/platform/fault.h"
#include "sim/platform/xml_scan.h"

struct flat_zone {
    size_t links;
    struct topology_link *link; /* [links] in the text's order, up before down */
    double *latency_s;          /* [links] */
    struct route_graph graph;
};

/* What a link, or a direction of one, is: its tag in the text, and its name. False: it is not
 * known. out->name is not set. */
typedef bool flat_link(const struct xml_tag *tag, const char *name, struct topology_link *out);

/* Read a platform's text.
 *   device  [n] names of the hosts to go between
 *   find    says what links are
 * *fits is false, and nothing is read, when the text is anything but one zone with
 * routing="Dijkstra" or "DijkstraCache" that has hosts, routers, links, routes and properties only;
 * that is no error. STATUS_NOMEM. */
enum status flat_read(const struct platform_text *p, size_t n, char *const *device, flat_link *find,
                      bool *fits, struct flat_zone *out) MUST_CHECK;
void flat_free(struct flat_zone *z); /* accepts {0}; leaves {0} */

#endif
