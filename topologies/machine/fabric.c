/* Networks of named switches and nodes. */
#include "topologies/machine/fabric.h"

#include <string.h>

enum status fabric_part(struct machine_fabric *f, enum machine_kind kind, const char *name,
                        uint32_t *part)
{
    enum machine_names t = kind == MACHINE_NODE ? NAMES_NODES : NAMES_SWITCHES;
    *part = machine_name_find(f->m, t, name);
    if (*part != MACHINE_NONE)
        return STATUS_OK;
    PASS(machine_add_part(f->m, kind, MACHINE_NONE, MACHINE_NONE, name, part));
    return machine_name_put(f->m, t, f->m->part[*part].name, *part);
}

static enum status fabric_add_below(void *data, const char *name)
{
    struct machine_fabric *f = data;
    uint32_t part;
    PASS(fabric_part(f, f->kind, name, &part));
    if (f->kind == MACHINE_NODE && f->domain)
        f->m->part[part].domain = f->domain;
    if (f->above == MACHINE_NONE)
        return STATUS_OK;
    if (f->above == part)
        return error_set(STATUS_PARSE, "switch '%.60s' is below itself in the tree of switches",
                         name);
    return machine_join(f->m,
                        &(struct machine_link){.net = true, .a = f->above, .b = part, .count = 1});
}

enum status fabric_list(struct machine_fabric *f, size_t line, const char *list)
{
    enum status st = machine_hostlist(list, fabric_add_below, f);
    if (st == STATUS_NOMEM || st == STATUS_OK)
        return st;
    return error_context(st, "%s:%zu", f->m->path, line);
}

enum status fabric_check(struct machine_fabric *f)
{
    for (size_t i = 0; i < f->m->parts; i++)
        if (f->m->part[i].kind == MACHINE_SWITCH &&
            machine_name_find(f->m, NAMES_DEFINED, f->m->part[i].name) == MACHINE_NONE)
            PASS(machine_warn(f->m, "switch %.60s is mentioned, but the file does not describe it",
                              f->m->part[i].name));
    if (machine_count(f->m, MACHINE_NODE) == 0)
        return error_set(STATUS_PARSE,
                         "%s: no nodes found, expected a file that lists the nodes of a network",
                         f->m->path);
    return STATUS_OK;
}
