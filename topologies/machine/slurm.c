/* Slurm's topology.conf: SwitchName lines are a tree (or several), BlockName lines groups of nodes
 * that are near each other. LinkSpeed has no unit in Slurm, so it says nothing here. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "topologies/machine/fabric.h"

static bool slurm_recognises(const struct machine_source *s)
{
    const char *at = s->text;
    for (size_t lines = 0; *at && lines < 4096; lines++) {
        at += strspn(at, " \t\r\n");
        if (!strncasecmp(at, "SwitchName=", 11) || !strncasecmp(at, "BlockName=", 10))
            return true;
        if (*at && *at != '#')
            return false;
        at += strcspn(at, "\n");
    }
    return false;
}

/* "Key=value" behind "Key=", NULL: another key. */
static const char *slurm_value_of(const char *word, const char *key)
{
    size_t n = strlen(key);
    return !strncasecmp(word, key, n) && word[n] == '=' ? word + n + 1 : NULL;
}

static enum status name_line(struct machine_fabric *f, size_t line, const char *name, bool block)
{
    struct machine *m = f->m;
    uint32_t before = machine_name_find(f->m, NAMES_DEFINED, name);
    if (!*name || strpbrk(name, "[],"))
        return error_set(STATUS_PARSE, "%s:%zu: got '%.60s', expected the name of one %s", m->path,
                         line, name, block ? "block" : "switch");
    if (before != MACHINE_NONE)
        return error_set(STATUS_PARSE, "%s:%zu: '%.60s' is given twice, first in line %u", m->path,
                         line, name, before);
    PASS(fabric_part(f, MACHINE_SWITCH, name, &f->above));
    f->domain = block ? m->part[f->above].name : NULL;
    return machine_name_put(f->m, NAMES_DEFINED, name, (uint32_t)line);
}

static enum status slurm_read_line(struct machine_fabric *f, size_t line, char *text)
{
    char *rest;
    f->above = MACHINE_NONE;
    text[strcspn(text, "#")] = '\0';
    for (char *word = strtok_r(text, " \t\r", &rest); word; word = strtok_r(NULL, " \t\r", &rest)) {
        const char *name = slurm_value_of(word, "SwitchName"),
                   *block = slurm_value_of(word, "BlockName");
        const char *switches = slurm_value_of(word, "Switches"),
                   *nodes = slurm_value_of(word, "Nodes");
        if (name || block) {
            PASS(name_line(f, line, name ? name : block, block));
        } else if (switches || nodes) {
            if (f->above == MACHINE_NONE)
                return error_set(STATUS_PARSE, "%s:%zu: got '%.40s' before SwitchName or BlockName",
                                 f->m->path, line, word);
            f->kind = switches ? MACHINE_SWITCH : MACHINE_NODE;
            PASS(fabric_list(f, line, switches ? switches : nodes));
        } else if (!slurm_value_of(word, "LinkSpeed") && !slurm_value_of(word, "BlockSizes")) {
            return error_set(STATUS_PARSE,
                             "%s:%zu: got '%.40s', expected SwitchName, Switches, Nodes, "
                             "LinkSpeed, BlockName or BlockSizes",
                             f->m->path, line, word);
        }
    }
    return STATUS_OK;
}

static enum status slurm_parse(const struct machine_source *s, struct machine *m)
{
    struct machine_fabric f = {.m = m};
    const char *text = s->text;
    char *at;
    size_t line = 0;
    while (*text) {
        PASS(machine_line(m, &text, &line, &at));
        PASS(slurm_read_line(&f, line, at));
    }
    return fabric_check(&f);
}

const struct machine_format machine_slurm = {
    .name = "Slurm topology.conf",
    .summary = "trees and blocks of Slurm",
    .recognises = slurm_recognises,
    .parse = slurm_parse,
};
