/* Reads a platform in a child process: a plain one from its text (plain.c), any other by the
 * module with SimGrid (sim/simgrid/describe.c). The topology comes back through a pipe, and a
 * child that died is explained. */
#include "sim/platform/platform.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/limit.h"
#include "core/base/looks.h"
#include "core/base/text.h"
#include "sim/platform/features.h"
#include "sim/platform/plain.h"
#include "sim/platform/size.h"
#include "sim/platform/topology_bytes.h"
#include "sim/platform/xml_scan.h"
#include "sim/simgrid_module.h"

/* SimGrid's process died: find out why. */
static enum status platform_explain_fault(const struct simgrid_platform *load)
{
    const char *message = error_message();
    const struct route_asked *asked = load->asked;
    if (asked->asking &&
        (strstr(message, "No route") || strstr(message, "in an Empty zone") ||
         strstr(message, "Segmentation fault") || strstr(message, "Access violation")))
        return platform_no_route(&load->file, asked->from, asked->to);
    return platform_explain(&load->file, message);
}

static bool is_in_time(void *context)
{
    const double *deadline_s = context;
    return clock_now() < *deadline_s;
}

/* SimGrid would run a .so, and read a gigabyte of other elements before it says so. */
static enum status check_root(const struct platform_text *p)
{
    struct xml_scanner s = xml_scan(p->text);
    struct xml_tag tag;
    char looks[LOOKS];
    if (p->text[strspn(p->text, " \t\r\n")] != '<' || !xml_next(&s, &tag))
        return error_set(STATUS_PARSE, "%s:1: not an XML file, expected a platform%s", p->path,
                         looks_like(p->text, strlen(p->text), looks));
    if (!xml_is(&tag, "platform"))
        return error_set(STATUS_PARSE, "%s:%zu: got <%.*s>, expected <platform>", p->path, tag.line,
                         tag.name.n < 40 ? (int)tag.name.n : 40, tag.name.at);
    return STATUS_OK;
}

/* Who describes a platform: the text where it is plain, or always SimGrid, or SimGrid asked for
 * every route, the slow references that tests compare with. */
enum by { BY_TEXT, BY_SIMGRID, BY_EVERY_ROUTE };

static enum status read_with(const char *path, enum by by, struct topology *out)
{
    enum status st;
    char *text = NULL, *name = NULL, more[LIMIT_MORE];
    size_t length;
    bool plain = false;
    struct child_output output = {0};
    struct topology t = {0};
    struct simgrid_platform load = {.asked = MAP_FAILED};
    double deadline_s = INFINITY;
    const struct child_watch watch = {is_in_time, &deadline_s, 1000};

    TRY(file_read(path, &text, &length));
    load.file = (struct platform_text){path, text};
    TRY(check_root(&load.file));
    TRY(platform_check_size(&load.file));
    TRY(platform_check_features(&load.file));
    deadline_s = clock_now() + limit(LIMIT_routes);
    load.asked =
        mmap(NULL, sizeof *load.asked, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (load.asked == MAP_FAILED)
        FAIL(STATUS_NOMEM, "%s: out of memory: no shared memory for SimGrid's process", path);
    TRY(text_copy(path, &name));
    load.asked->exhaustive = by == BY_EVERY_ROUTE;
    /* Not in a child: programs with threads load platforms, and a fork of theirs would have the
     * locks of other threads. */
    if (by == BY_TEXT)
        TRY(plain_describe(&load.file, &plain, &t));
    st = plain ? STATUS_OK : simgrid_child(SIMGRID_DESCRIBE, &load, &watch, &output);
    if (st == STATUS_EXTERNAL && !is_in_time(&deadline_s))
        FAIL(st, "%s: timeout: SimGrid computed no routes within %g s%s", path, limit(LIMIT_routes),
             limit_more(LIMIT_routes, more));
    if (st == STATUS_EXTERNAL)
        st = platform_explain_fault(&load);
    if (st != STATUS_OK)
        goto out;
    if (!plain)
        TRY(topology_receive(output.data, output.length, &t));
    TRY(topology_find_nodes(&t));
    TRY(topology_find_grid(&t));
    MOVE(&t.name, name);
    MOVE(out, t);
out:
    topology_free(&t);
    child_output_free(&output);
    if (load.asked != MAP_FAILED)
        munmap(load.asked, sizeof *load.asked);
    free(name);
    free(text);
    return st;
}

enum status platform_read(const char *path, struct topology *out)
{
    return read_with(path, BY_TEXT, out);
}

enum status platform_read_by_simgrid(const char *path, struct topology *out)
{
    return read_with(path, BY_SIMGRID, out);
}

enum status platform_read_exhaustively(const char *path, struct topology *out)
{
    return read_with(path, BY_EVERY_ROUTE, out);
}
