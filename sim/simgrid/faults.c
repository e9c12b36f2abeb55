/* Faults of links: an actor per fault sleeps until its moment, then changes the bandwidth. */
#include "sim/simgrid/faults.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/link.h>

/* Of a link that has failed; SimGrid refuses zero. The flows that meet it end after faults_never_s,
 * or at the end of time. */
static const double failed_Bps = 1e-6;

/* "id", "id_UP" or "id_DOWN" */
static bool is_of(const char *link, const char *id)
{
    size_t n = strlen(id);
    return !strncmp(link, id, n) &&
           (!link[n] || !strcmp(link + n, "_UP") || !strcmp(link + n, "_DOWN"));
}

/* The number of links that the fault is for; with `apply` they change now. */
static size_t change_links(const struct fault *f, bool apply)
{
    size_t found = 0;
    sg_link_t *link = sg_link_list();
    for (size_t k = 0; k < sg_link_count(); k++) {
        if (!is_of(sg_link_get_name(link[k]), f->name))
            continue;
        found++;
        if (apply)
            sg_link_set_bandwidth(link[k], f->kind == FAULT_FAIL
                                               ? failed_Bps
                                               : sg_link_get_bandwidth(link[k]) / f->factor);
    }
    free(link);
    return found;
}

/* One fault, from its moment to the end of the simulation. */
static void fault_actor(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    const struct fault *f = sg_actor_self_get_data();
    if (f->at_s > 0)
        sg_actor_sleep_for(f->at_s);
    change_links(f, true);
}

enum status simgrid_faults_start(const struct faults *faults, sg_host_t host)
{
    for (size_t k = 0; faults && k < faults->n; k++) {
        struct fault *f = &faults->fault[k];
        if (f->kind == FAULT_KILL)
            continue;
        if (change_links(f, false) == 0)
            return error_set(
                STATUS_USAGE,
                "the platform has no link '%s'; list them with foreline simulate PLAN --links 100",
                f->name);
        sg_actor_t actor = sg_actor_init("fault", host);
        sg_actor_set_data(actor, f);
        sg_actor_start_(actor, fault_actor, 0, NULL);
    }
    return STATUS_OK;
}
