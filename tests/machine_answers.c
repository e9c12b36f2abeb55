/* Reads machines in JSON, a line of standard input each, as programs of tools/ answer them: every
 * one is taken; then completed and written, or refused in one line. For machine_programs.py. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topologies/machine/machine.h"

static enum status use(struct machine *m)
{
    const struct machine_options o = {.gpus = 2};
    PASS(machine_combine(m, NULL, &o));
    PASS(machine_complete(m, &o));
    return machine_count(m, MACHINE_GPU) < 64 ? machine_write(m, NULL, "/dev/null") : STATUS_OK;
}

int main(void)
{
    char *line = NULL;
    size_t room = 0, n = 0, used = 0, bad = 0;
    for (ssize_t k; (k = getline(&line, &room, stdin)) > 0; n++) {
        struct machine m = {0};
        if (machine_parse("answer", line, (size_t)k, &m) != STATUS_OK) {
            printf("%s: %.300s\n", error_message(), line);
            bad++;
        } else if (machine_count(&m, MACHINE_NODE) < 64 && use(&m) == STATUS_OK) {
            used++;
        }
        machine_free(&m);
    }
    free(line);
    printf("%zu machines, %zu refused, %zu of them used\n", n, bad, used);
    return bad > 0 || n == 0 || used == 0;
}
