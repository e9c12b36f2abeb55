/* NVIDIA topograph's models of clusters: switches with those below them, and blocks of nodes below
 * a switch, perhaps in one domain of NVLink. */
#include <string.h>

#include "topologies/machine/fabric.h"
#include "topologies/yaml.h"

static bool recognises(const struct machine_source *s)
{
    return (strstr(s->text, "\nblocks:") || !strncmp(s->text, "blocks:", 7)) &&
           (strstr(s->text, "\nswitches:") || !strncmp(s->text, "switches:", 9));
}

static enum status read_items(struct fabric *f, const struct yaml_value *list,
                              enum machine_kind kind)
{
    f->kind = kind;
    for (size_t i = 0; list && i < list->items; i++) {
        if (!list->item[i].text)
            return error_set(STATUS_PARSE, "%s:%zu: expected a name", f->m->path,
                             list->item[i].line);
        PASS(fabric_list(f, list->item[i].line, list->item[i].text));
    }
    return STATUS_OK;
}

static enum status parse(const struct machine_source *s, struct machine *m)
{
    struct fabric f = {.m = m};
    struct yaml_value root = {0};
    PASS(yaml_read_foreign(s->path, s->text, s->length, &m->arena, &root));
    const struct yaml_value *switches = yaml_get(&root, "switches"),
                            *blocks = yaml_get(&root, "blocks");
    for (size_t i = 0; switches && i < switches->entries; i++) {
        const struct yaml_entry *e = &switches->entry[i];
        PASS(fabric_part(&f, MACHINE_SWITCH, e->key, &f.above));
        PASS(machine_name_put(m, NAMES_DEFINED, e->key, 1));
        PASS(read_items(&f, yaml_get(&e->value, "switches"), MACHINE_SWITCH));
    }
    for (size_t i = 0; blocks && i < blocks->items; i++) {
        const struct yaml_value *b = &blocks->item[i], *above = yaml_get(b, "switch");
        const struct yaml_value *notes = yaml_get(b, "annotations");
        f.above = MACHINE_NONE;
        f.domain = NULL;
        if (above && above->text) {
            PASS(fabric_part(&f, MACHINE_SWITCH, above->text, &f.above));
            PASS(machine_name_put(m, NAMES_DEFINED, above->text, 1));
        }
        for (size_t k = 0; notes && k < notes->entries; k++)
            if (strstr(notes->entry[k].key, "domain"))
                f.domain = notes->entry[k].value.text;
        PASS(read_items(&f, yaml_get(b, "nodes"), MACHINE_NODE));
    }
    return fabric_check(&f);
}

const struct machine_format machine_topograph = {
    .name = "topograph",
    .summary = "models of clusters of NVIDIA topograph",
    .recognises = recognises,
    .parse = parse,
};
