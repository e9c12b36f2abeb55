/* inventory.h - the parts that a platform's text describes. */
#ifndef SIM_PLATFORM_INVENTORY_H
#define SIM_PLATFORM_INVENTORY_H

#include "core/data/inventory.h"
#include "sim/platform/fault.h"

/* Count hosts, network cards, switches, cables and transceivers of a text that platform_read()
 * takes.
 *
 * A cable is a SPLITDUPLEX link with <prop id="tier">, unless the tier is inside a node: its name
 * begins with "nv" or "pci". All other links are inside of something, and a route passes them
 * without notice. A host is in a node, and so is a router with a route that has no cable; a router
 * where cables end is a switch. A bundle is as many cables as it has lanes, and its upper end,
 * where UP leads to, as many switches as it says. A link without lanes is as many cables as ports
 * of the fastest network card have its bandwidth together, rounded up, unless it ends at a node:
 * then it is one. Every end of a link at a node is a card, with a port for each cable.
 *
 *   optical  is a cable of this tier optical? NULL: cables between two switches are. `between`:
 *            it ends at no node
 * Nothing (no items) for texts with <cluster>, <cabinet>, <peer>, or <backbone>, whose parts have
 * no tags of their own. Prices are not known. STATUS_NOMEM. O(text). */
enum status platform_inventory(const char *text,
                               bool (*optical)(const void *context, const char *tier, bool between),
                               const void *context, struct inventory *out) MUST_CHECK;

#endif
