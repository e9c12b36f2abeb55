/* explore - a page in the browser, served by foreline-explore. */
#include "cli/command.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/beside.h"

static const char details[] =
    "Serves a page on 127.0.0.1: choose a model, a cluster and constraints, search plans, look at\n"
    "timelines, memory and links, and compare scenarios. The page runs foreline commands and "
    "shows\n"
    "each command line, so that all it does can be repeated in a terminal. FILEs (models, "
    "platforms,\n"
    "plans, measurements) are copied into a temporary folder, the only one that the page reads "
    "and\n"
    "writes; name the files that a file needs, too.\n"
    "\n"
    "The address on standard output contains a key: who knows it can run what the page can. "
    "Ctrl-C\n"
    "ends the page and what it has started, and removes the folder.\n";

static enum status cmd_explore(struct invocation *in)
{
    char port[32], no_browser[] = "--no-browser", end[] = "--";
    char **words = calloc((size_t)in->operands + 5, sizeof *words);
    int n = 1; /* behind the program's path */
    if (!words)
        return error_set(STATUS_NOMEM, "out of memory");
    snprintf(port, sizeof port, "--port=%zu", in->a.explore.port);
    words[n++] = port;
    if (in->a.explore.no_browser)
        words[n++] = no_browser;
    words[n++] = end;
    memcpy(words + n, in->operand, (size_t)in->operands * sizeof *words);
    enum status st = beside_become("foreline-explore", "FORELINE_EXPLORE", words);
    free(words);
    return st;
}

const struct command command_explore = {
    .name = "explore",
    .synopsis = "[FILE...]",
    .summary = "explore plans and clusters on a page in the browser",
    .details = details,
    .examples = "foreline explore\n"
                "foreline explore --no-browser --port 8080 plan.json platform.xml\n",
    .run = cmd_explore,
};
