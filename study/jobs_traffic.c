/* Background traffic from a table or a matrix of rates. */
#include "core/base/array.h"
#include "core/base/order.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "plots/table.h"
#include "study/jobs.h"

/* The traffic of a cell: its row, counted without the heads, the devices' names and the rate. */
static enum status traffic_add(struct jobs *js, const struct plot_table *t, size_t row,
                               const char *const name[2], const char *rate)
{
    struct jobs_flow f = {0};
    for (int end = 0; end < 2; end++) {
        uint32_t d = topology_find(js->topology, name[end]);
        if (d == UINT32_MAX)
            return error_set(STATUS_PARSE, "%s: row %zu: platform %s has no device '%s'", t->path,
                             row + 1, js->topology->name, name[end]);
        *(end == 0 ? &f.from : &f.to) = d;
    }
    if (!*rate)
        return STATUS_OK;
    if (!(text_real(rate, &f.Bps) && f.Bps >= 0) && units_parse(UNIT_RATE, rate, &f.Bps))
        return error_set(
            STATUS_PARSE,
            "%s: row %zu: rate: got '%s', expected bytes per second or a rate such as 10Gbps",
            t->path, row + 1, rate);
    if (f.Bps <= 0)
        return STATUS_OK;
    if (f.from == f.to)
        return error_set(STATUS_PARSE,
                         "%s: row %zu: traffic from %s to itself, expected two different devices",
                         t->path, row + 1, name[0]);
    PASS(ARRAY_ROOM(js->flow, js->flows));
    js->flow[js->flows++] = f;
    return STATUS_OK;
}

enum status jobs_read_traffic(const char *path, struct jobs *js)
{
    enum status st;
    struct plot_table t = {0};
    size_t from, to, rate;
    TRY(table_read(path, &t));
    bool rows = table_column(&t, "from", &from) == STATUS_OK &&
                table_column(&t, "to", &to) == STATUS_OK &&
                table_column(&t, "rate", &rate) == STATUS_OK;
    for (size_t r = 0; r < t.rows; r++)
        for (size_t c = 1; c < (rows ? 2 : t.columns); c++) {
            const char *name[2] = {table_cell(&t, r, rows ? from : 0),
                                   rows ? table_cell(&t, r, to) : t.name[c]};
            TRY(traffic_add(js, &t, r, name, table_cell(&t, r, rows ? rate : c)));
        }
    if (js->flows == 0)
        FAIL(STATUS_INVALID, "%s: no traffic: all rates are 0", path);
    TRY(order_pairs(js->flow, js->flows, sizeof *js->flow, (uint32_t)js->topology->n));
    for (size_t f = 1; f < js->flows; f++)
        if (order_by_pair(&js->flow[f - 1], &js->flow[f]) == 0)
            FAIL(STATUS_PARSE, "%s: traffic from %s to %s is given twice", path,
                 js->topology->device[js->flow[f].from], js->topology->device[js->flow[f].to]);
out:
    table_free(&t);
    return st;
}
