/* Slurm's topology.yaml (25.05 and later): a list of topologies, of which the cluster's default
 * counts. */
#include <string.h>

#include "topologies/machine/fabric.h"
#include "topologies/yaml.h"

static bool slurm_yaml_recognises(const struct machine_source *s)
{
    return machine_begins(s, "- topology:", 64);
}

/* Lists of hosts may be one text or several. */
static enum status slurm_yaml_read_list(struct machine_fabric *f, const struct yaml_value *v)
{
    if (!v)
        return STATUS_OK;
    if (v->text)
        return fabric_list(f, v->line, v->text);
    for (size_t i = 0; i < v->items; i++)
        if (v->item[i].text)
            PASS(fabric_list(f, v->item[i].line, v->item[i].text));
    return STATUS_OK;
}

static enum status read_entries(struct machine_fabric *f, const struct yaml_value *list,
                                const char *key)
{
    for (size_t i = 0; list && i < list->items; i++) {
        const struct yaml_value *name = yaml_get(&list->item[i], key);
        if (!name || !name->text)
            return error_set(STATUS_PARSE, "%s:%zu: expected '%s: NAME'", f->m->path,
                             list->item[i].line, key);
        PASS(fabric_part(f, MACHINE_SWITCH, name->text, &f->above));
        PASS(machine_name_put(f->m, NAMES_DEFINED, name->text, 1));
        f->domain = !strcmp(key, "block") ? name->text : NULL;
        f->kind = MACHINE_SWITCH;
        PASS(slurm_yaml_read_list(f, yaml_get(&list->item[i], "children")));
        f->kind = MACHINE_NODE;
        PASS(slurm_yaml_read_list(f, yaml_get(&list->item[i], "nodes")));
    }
    return STATUS_OK;
}

static enum status slurm_yaml_parse(const struct machine_source *s, struct machine *m)
{
    struct machine_fabric f = {.m = m};
    struct yaml_value root = {0};
    const struct yaml_value *of = NULL;
    PASS(yaml_read_foreign(s->path, s->text, s->length, &m->arena, &root));
    for (size_t i = 0; i < root.items; i++) {
        const struct yaml_value *is_default = yaml_get(&root.item[i], "cluster_default");
        bool chosen = is_default && is_default->text && !strcmp(is_default->text, "true");
        of = !of || chosen ? &root.item[i] : of;
    }
    if (root.items > 1)
        PASS(machine_warn(m,
                          "the file has %zu topologies; using the one with cluster_default, or the "
                          "first if none has it",
                          root.items));
    const struct yaml_value *tree = yaml_get(of, "tree"), *block = yaml_get(of, "block");
    if (!tree && !block)
        return error_set(STATUS_PARSE, "%s:%zu: expected 'tree:' or 'block:'", s->path,
                         of ? of->line : 1);
    PASS(read_entries(&f, yaml_get(tree, "switches"), "switch"));
    PASS(read_entries(&f, yaml_get(block, "blocks"), "block"));
    return fabric_check(&f);
}

const struct machine_format machine_slurm_yaml = {
    .name = "Slurm topology.yaml",
    .summary = "trees and blocks of Slurm, as YAML",
    .recognises = slurm_yaml_recognises,
    .parse = slurm_yaml_parse,
};
