/* A table of prices, and an inventory with what its items cost. */
#include "study/costs.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "sim/platform/inventory.h"

enum { PRICES_MIB = 1, NUMBER = 64 };
static const char per_Gbps[] = "/Gbps";

/* ---- reading */

/* "1000", or "2/Gbps". */
static bool price_parse(const char *text, double *price, bool *per_rate)
{
    char number[NUMBER];
    size_t n = strlen(text), tail = sizeof per_Gbps - 1;
    *per_rate = n > tail && !strcmp(text + n - tail, per_Gbps);
    n -= *per_rate ? tail : 0;
    if (n >= sizeof number)
        return false;
    memcpy(number, text, n);
    number[n] = '\0';
    return text_real(number, price) && *price >= 0;
}

static enum status check_price(const char *path, const struct yaml_value *v, bool by_rate)
{
    double price;
    bool per_rate;
    if (!v->text || !price_parse(v->text, &price, &per_rate) || (per_rate && !by_rate))
        return error_set(STATUS_PARSE, "%s:%zu: got '%s', expected a price such as 1000%s", path,
                         v->line, v->text ? v->text : "a list or map",
                         by_rate ? ", or 2/Gbps" : "");
    return STATUS_OK;
}

static enum status check_prices(const char *path, const char *key, const struct yaml_value *v)
{
    uint64_t ports;
    bool by_ports = !strcmp(key, "switch"), by_rate = !by_ports && strcmp(key, "device") != 0;
    if (v->text && !by_ports)
        return check_price(path, v, by_rate);
    if (!v->is_map || v->entries == 0)
        return error_set(STATUS_PARSE, "%s:%zu: %s: expected a map of %s to prices", path, v->line,
                         key, by_ports ? "numbers of ports" : "names");
    for (size_t k = 0; k < v->entries; k++) {
        const struct yaml_value *price = &v->entry[k].value;
        if (by_ports && (!text_count(v->entry[k].key, 1 << 20, &ports) || ports == 0))
            return error_set(STATUS_PARSE,
                             "%s:%zu: switch: got '%.60s', expected a number of ports", path,
                             price->line, v->entry[k].key);
        PASS(check_price(path, price, by_rate));
    }
    return STATUS_OK;
}

static enum status prices_take(struct prices *p, const struct yaml_entry *entry)
{
    const struct yaml_value *v = &entry->value;
    size_t kind = 0;
    while (kind < INVENTORY_KINDS && strcmp(inventory_kinds[kind], entry->key) != 0)
        kind++;
    if (!strcmp(entry->key, "currency") && v->text) {
        p->currency = v->text;
        return STATUS_OK;
    }
    if (!strcmp(entry->key, "optical") && !v->text && !v->is_map) {
        p->optical = v;
        for (size_t k = 0; k < v->items; k++)
            if (!v->item[k].text)
                return error_set(STATUS_PARSE,
                                 "%s:%zu: optical: expected a list of network tier names", p->path,
                                 v->item[k].line);
        return STATUS_OK;
    }
    if (kind == INVENTORY_KINDS && strcmp(entry->key, "port") != 0)
        return error_set(STATUS_PARSE,
                         "%s:%zu: got '%.60s', expected currency, device, nic, switch, port, "
                         "cable, transceiver, or optical with a list of tiers",
                         p->path, v->line, entry->key);
    *(kind < INVENTORY_KINDS ? &p->kind[kind] : &p->port) = v;
    return check_prices(p->path, entry->key, v);
}

enum status prices_read(const char *path, struct prices *out)
{
    enum status st;
    char *text = NULL;
    size_t length;
    struct prices p = {.path = path, .currency = ""};
    struct yaml_value *root;
    TRY(file_read_most(path, PRICES_MIB, &text, &length));
    root = arena_new(&p.texts, 1, sizeof *root);
    p.path = arena_text(&p.texts, path);
    if (!root || !p.path)
        FAIL(STATUS_NOMEM, "out of memory");
    TRY(yaml_read(path, text, length, &p.texts, root));
    if (!root->is_map)
        FAIL(STATUS_PARSE, "%s:1: expected a map of prices", path);
    for (size_t k = 0; k < root->entries; k++)
        TRY(prices_take(&p, &root->entry[k]));
    MOVE(out, p);
out:
    free(text);
    prices_free(&p);
    return st;
}

void prices_free(struct prices *p)
{
    arena_free(&p->texts);
    *p = (struct prices){0};
}

/* ---- prices of items */

/* The first that matches. */
static bool find_price(const struct yaml_value *prices, const char *name, double rate_Bps,
                       double *price)
{
    const char *text = prices->text;
    bool per_rate;
    for (size_t k = 0; !text && k < prices->entries; k++)
        if (fnmatch(prices->entry[k].key, name, 0) == 0)
            text = prices->entry[k].value.text;
    if (!text || !price_parse(text, price, &per_rate))
        return false;
    if (per_rate)
        *price *= rate_Bps * 8e-9;
    return true;
}

/* The smallest with so many ports, or several of the largest. */
static double price_of_switch(const struct yaml_value *prices, uint64_t ports)
{
    uint64_t best = 0, largest = 0, has = 0;
    double price = 0, dearest = 0, one = 0;
    bool per_rate;
    for (size_t k = 0; k < prices->entries; k++) {
        text_count(prices->entry[k].key, 1 << 20, &has);
        price_parse(prices->entry[k].value.text, &one, &per_rate);
        if (has >= ports && (best == 0 || has < best)) {
            best = has;
            price = one;
        }
        if (has > largest) {
            largest = has;
            dearest = one;
        }
    }
    return best > 0 ? price : dearest * (double)((ports + largest - 1) / largest);
}

static enum status price_item(const struct prices *p, struct inventory_item *i)
{
    const struct yaml_value *prices = p->kind[i->kind];
    bool is_switch = i->kind == INVENTORY_SWITCH;
    double port = 0, ports = i->ports > 0 ? (double)i->ports : 1;
    double rate_Bps = i->kind == INVENTORY_NIC ? i->rate_Bps * ports : i->rate_Bps;
    if (!prices && !(is_switch && p->port))
        return STATUS_OK;
    i->price = is_switch && prices ? price_of_switch(prices, i->ports) : 0;
    if ((!is_switch && !find_price(prices, i->name, rate_Bps, &i->price)) ||
        (is_switch && p->port && !find_price(p->port, i->name, rate_Bps, &port)))
        return error_set(STATUS_INVALID, "%s: no price for %s '%s'", p->path,
                         is_switch ? "the ports of switch" : inventory_kinds[i->kind], i->name);
    i->price += ports * port;
    i->cost = i->price * (double)i->count;
    return STATUS_OK;
}

static bool is_optical(const void *context, const char *tier, bool between)
{
    const struct prices *p = context;
    for (size_t k = 0; p && p->optical && k < p->optical->items; k++)
        if (fnmatch(p->optical->item[k].text, tier, 0) == 0)
            return true;
    return between && !(p && p->optical);
}

enum status costs_find(const char *path, const struct prices *prices, struct inventory *out)
{
    enum status st;
    char *text = NULL;
    size_t length;
    struct inventory v = {0};
    TRY(file_read(path, &text, &length));
    TRY(platform_inventory(text, is_optical, prices, &v));
    v.cost = prices ? 0 : NAN;
    for (size_t k = 0; prices && k < v.items; k++) {
        TRY(price_item(prices, &v.item[k]));
        v.cost += isnan(v.item[k].cost) ? 0 : v.item[k].cost;
    }
    inventory_free(out);
    *out = v;
    v = (struct inventory){0};
out:
    free(text);
    inventory_free(&v);
    return st;
}

/* ---- printing */

/* The fastest port of a card; 0: there is none. */
static double port_of_card(const struct inventory *v)
{
    double most = 0;
    for (size_t k = 0; k < v->items; k++)
        if (v->item[k].kind == INVENTORY_NIC)
            most = fmax(most, v->item[k].rate_Bps);
    return most;
}

/* A cable faster than a port of a card, which one lane is, may be one that nobody sells. */
static void print_width(const struct inventory_item *i, double port_Bps, FILE *out)
{
    if (i->kind == INVENTORY_CABLE && port_Bps > 0 && i->rate_Bps > port_Bps * (1 + 1e-9))
        fprintf(out, ", as wide as %.3g ports", i->rate_Bps / port_Bps);
}

static void print_item(const struct inventory_item *i, double port_Bps, bool priced, FILE *out)
{
    char rate[UNITS_TEXT] = "", ports[NUMBER] = "";
    if (i->rate_Bps > 0)
        units_print(UNIT_RATE, i->rate_Bps, rate);
    if (i->ports > 0)
        snprintf(ports, sizeof ports, "%" PRIu64, i->ports);
    fprintf(out, "%-12s  %8" PRIu64 "  %6s  %12s", inventory_kinds[i->kind], i->count, ports, rate);
    if (priced && isnan(i->cost))
        fprintf(out, "  %10s  %12s", "-", "-");
    else if (priced)
        fprintf(out, "  %10.6g  %12.8g", i->price, i->cost);
    fprintf(out, "  %s%s", i->name,
            i->optical                   ? ", optical"
            : i->kind == INVENTORY_CABLE ? ", copper"
                                         : "");
    print_width(i, port_Bps, out);
    fputc('\n', out);
}

void costs_print(const struct inventory *v, const struct prices *prices, FILE *out)
{
    uint64_t ports = inventory_ports(v, INVENTORY_SWITCH);
    if (!prices && inventory_count(v, INVENTORY_CABLE) == 0)
        return; /* devices are listed already */
    fprintf(out, "\n%-12s  %8s  %6s  %12s", "# item", "count", "ports", "each");
    if (prices)
        fprintf(out, "  %10s  %12s", "price", "cost");
    fputs("  which\n", out);
    for (size_t k = 0; k < v->items; k++)
        print_item(&v->item[k], port_of_card(v), prices != NULL, out);
    fprintf(out,
            "# in all      %" PRIu64 " switches with %" PRIu64 " ports in use, %" PRIu64
            " cables, %" PRIu64 " transceivers\n",
            inventory_count(v, INVENTORY_SWITCH), ports, inventory_count(v, INVENTORY_CABLE),
            inventory_count(v, INVENTORY_TRANSCEIVER));
    if (prices)
        fprintf(out, "# cost        %.10g%s%s\n", v->cost, *prices->currency ? " " : "",
                prices->currency);
}
