/* inventory.h - what a platform is built of: devices, network cards, switches, cables,
 * transceivers; how many of each, and what they cost where prices are known.
 *
 * Items of one kind that are alike are one row; rows are sorted by kind, name, and numbers. */
#ifndef CORE_DATA_INVENTORY_H
#define CORE_DATA_INVENTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_row;

enum inventory_kind {
    INVENTORY_DEVICE,
    INVENTORY_NIC, /* where a cable ends at a node */
    INVENTORY_SWITCH,
    INVENTORY_CABLE,
    INVENTORY_TRANSCEIVER, /* at each end of a cable that is optical */
    INVENTORY_KINDS
};
extern const char *const inventory_kinds[INVENTORY_KINDS]; /* "device", "nic", ... */

struct inventory_item {
    enum inventory_kind kind;
    char *name;      /* owned: type of a device, tier of a cable, tiers of a switch, "rail+spine" */
    uint64_t count;  /* >= 1 */
    uint64_t ports;  /* of each: of a switch those in use; of a card; 0: of others */
    double rate_Bps; /* of a cable, or of the mean port, each direction; 0: of devices */
    bool optical;    /* a cable */
    double price, cost; /* of one, and of all; NAN: not known */
};

struct inventory {
    size_t items;
    struct inventory_item *item; /* [items] */
    double cost;                 /* of all items that have a price; NAN: no prices are known */
};

/* Rows of its JSON: item, name, count, ports?, rate_Bps?, optical?, price?, cost?. */
struct json_writer;
void inventory_put_json(struct json_writer *w, const struct inventory *v);
/* How many there are of a kind, and how many ports they have together. */
uint64_t inventory_count(const struct inventory *v, enum inventory_kind kind);
uint64_t inventory_ports(const struct inventory *v, enum inventory_kind kind);
void inventory_free(struct inventory *v); /* accepts {0}; leaves {0} */

#endif
