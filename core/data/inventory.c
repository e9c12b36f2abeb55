/* Inventories as JSON, and their sums. */
#include "core/data/inventory.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/json.h"

const char *const inventory_kinds[INVENTORY_KINDS] = {"device", "nic", "switch", "cable",
                                                      "transceiver"};

static void inventory_put_item(struct json_writer *w, const struct inventory_item *i)
{
    json_open_object(w, NULL, true);
    json_put_string(w, "item", inventory_kinds[i->kind]);
    json_put_string(w, "name", i->name);
    json_put_integer(w, "count", (int64_t)i->count);
    if (i->ports > 0)
        json_put_integer(w, "ports", (int64_t)i->ports);
    if (i->rate_Bps > 0)
        json_put_real(w, "rate_Bps", i->rate_Bps);
    if (i->optical)
        json_put_bool(w, "optical", true);
    if (!isnan(i->cost)) {
        json_put_real(w, "price", i->price);
        json_put_real(w, "cost", i->cost);
    }
    json_close(w);
}

void inventory_put_json(struct json_writer *w, const struct inventory *v)
{
    if (v->items == 0)
        return;
    json_open_array(w, "inventory", false);
    for (size_t k = 0; k < v->items; k++)
        inventory_put_item(w, &v->item[k]);
    json_close(w);
    if (!isnan(v->cost))
        json_put_real(w, "cost", v->cost);
}

uint64_t inventory_count(const struct inventory *v, enum inventory_kind kind)
{
    uint64_t n = 0;
    for (size_t k = 0; k < v->items; k++)
        n += v->item[k].kind == kind ? v->item[k].count : 0;
    return n;
}

uint64_t inventory_ports(const struct inventory *v, enum inventory_kind kind)
{
    uint64_t n = 0;
    for (size_t k = 0; k < v->items; k++)
        n += v->item[k].kind == kind ? v->item[k].count * v->item[k].ports : 0;
    return n;
}

void inventory_free(struct inventory *v)
{
    for (size_t k = 0; k < v->items; k++)
        free(v->item[k].name);
    free(v->item);
    *v = (struct inventory){0};
}
