/* What a platform of a machine begins with: where it is from, and what was assumed. */
#include <string.h>

#include "core/base/provenance.h"
#include "topologies/machine/complete.h"
#include "topologies/write.h"

static void put_notes(FILE *to, const char *what, const struct machine_notes *n)
{
    for (size_t k = 0; k < n->n; k++) {
        fprintf(to, "     %s: ", what);
        write_comment(to, n->text[k]);
        fputc('\n', to);
    }
}

void machine_put_head(const struct machine *m, const struct provenance *by, FILE *to)
{
    const char *slash = strrchr(m->path, '/');
    fputs("<?xml version='1.0'?>\n"
          "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n<!-- ",
          to);
    write_comment(to, slash ? slash + 1 : m->path);
    fprintf(to, ": %zu devices on %zu node%s, from %s\n\n", machine_count(m, MACHINE_GPU), m->nodes,
            m->nodes == 1 ? "" : "s", m->format);
    if (by && by->version) {
        fputs("     written by ", to);
        write_comment(to, by->version);
        fputc('\n', to);
    }
    put_notes(to, "assumed", &m->assumed);
    put_notes(to, "warning", &m->warnings);
    fprintf(to,
            "     Device nNgG is %s G of node N. Routing takes the fewest links.\n     %s -->\n"
            "<platform version=\"4.1\">\n  <zone id=\"machine\" routing=\"DijkstraCache\">\n",
            m->cores ? "core" : "GPU", write_settings);
}
