/* costs.h - what a platform costs, by a table of prices that somebody gives (YAML):
 *
 *     currency: USD
 *     device: {"H100*": 25000, "*": 10000}   # by type
 *     nic: 1000                              # or {TIER: ...}; a number alone stands for "*"
 *     switch: {32: 10000, 64: 20000}         # by ports: the smallest that has as many
 *     port: {"*": 2/Gbps}                    # of a switch that is in use, beside the switch
 *     cable: {rail: 100, "*": 0}
 *     transceiver: {"*": 2/Gbps}
 *     optical: [spine, core]                 # tiers; default: cables between two switches
 *
 * Keys are names or globs, the first that matches counts; of a switch the name has all its tiers,
 * "rail+spine". "2/Gbps" is a price per Gb/s of a cable, of all ports of a card, of a port. */
#ifndef STUDY_COSTS_H
#define STUDY_COSTS_H

#include <stdio.h>

#include "core/data/inventory.h"
#include "topologies/yaml.h"

struct prices {
    struct arena texts;
    const char *path, *currency; /* currency: "" where it is not said */
    const struct yaml_value *kind[INVENTORY_KINDS], *port, *optical; /* NULL: not said */
};

/* STATUS_PARSE as "path:line: what", STATUS_IO, STATUS_NOMEM. */
enum status prices_read(const char *path, struct prices *out) MUST_CHECK;
void prices_free(struct prices *p); /* accepts {0}; leaves {0} */

/* Count the parts of the platform file `path`; `prices` may be NULL. Kinds without a word in the
 * table have no price and cost nothing. A switch of more ports than any in the table is as many of
 * the largest as have its ports together. STATUS_INVALID: a kind has prices, but none for an item;
 * STATUS_IO, STATUS_NOMEM. */
enum status costs_find(const char *path, const struct prices *prices,
                       struct inventory *out) MUST_CHECK;

/* A row per item, and the sum. */
void costs_print(const struct inventory *v, const struct prices *prices, FILE *out);

#endif
