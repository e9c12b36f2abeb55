/* libyaml's events as a tree. Each function takes over the event that its value begins with. */
#include "topologies/yaml.h"

#include <string.h>

#include <yaml.h>

#include "core/base/intern.h"

/* Of a map; of a document, whose values have 75 bytes and more each. */
enum { ENTRIES = 1 << 14, VALUES = 1 << 21 };

/* Where in the text the parser is. */
struct yaml_reader {
    yaml_parser_t parser;
    struct arena *arena;
    const char *path;
    int depth;
    size_t values;
    bool foreign; /* another program's file */
};

/* libyaml counts lines from 0, and says where it was reading or where the construct began. */
static enum status parser_failed(const struct yaml_reader *r)
{
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR)
        return error_set(STATUS_NOMEM, "out of memory");
    size_t line = p->error == YAML_READER_ERROR ? p->mark.line : p->problem_mark.line;
    return error_set(STATUS_PARSE, "%s:%zu: not valid YAML: %s%s%s", r->path, line + 1,
                     p->problem ? p->problem : "unreadable", p->context ? ", " : "",
                     p->context ? p->context : "");
}

static enum status next(struct yaml_reader *r, yaml_event_t *event)
{
    if (!yaml_parser_parse(&r->parser, event))
        return parser_failed(r);
    return STATUS_OK;
}

static enum status yaml_refuse(const struct yaml_reader *r, const yaml_event_t *e, const char *what)
{
    return error_set(STATUS_PARSE, "%s:%zu: %s", r->path, e->start_mark.line + 1, what);
}

/* Texts are taken as they are: no numbers, no booleans, no nulls of YAML. Control characters would
 * break the lines of tables and messages that they end up in. */
static enum status copy_scalar(const struct yaml_reader *r, const yaml_event_t *e, char **out)
{
    const char *text = (const char *)e->data.scalar.value;
    if (e->data.scalar.anchor)
        return yaml_refuse(r, e, "anchors ('&') are unsupported");
    for (size_t i = 0; i < e->data.scalar.length && !r->foreign; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            return yaml_refuse(r, e, "control character or line break in a text");
    if (!*text && !r->foreign)
        return yaml_refuse(r, e, "empty value, expected a text or a number");
    *out = arena_text(r->arena, text);
    return *out ? STATUS_OK : STATUS_NOMEM;
}

static enum status yaml_read_value(struct yaml_reader *r, yaml_event_t *e, struct yaml_value *out);

/* The items up to the end of the list. A list may hold texts, lists and maps. */
static enum status yaml_read_list(struct yaml_reader *r, struct yaml_value *out)
{
    enum status st;
    yaml_event_t e;
    for (;;) {
        PASS(next(r, &e));
        if (e.type == YAML_SEQUENCE_END_EVENT) {
            yaml_event_delete(&e);
            return STATUS_OK;
        }
        if ((st = ARENA_ROOM(r->arena, out->item, out->items)) != STATUS_OK) {
            yaml_event_delete(&e);
            return st;
        }
        PASS(yaml_read_value(r, &e, &out->item[out->items++]));
    }
}

/* A key of a map, which no entry before it may have: of two values of one setting one would be
 * lost silently. The keys' numbers are those of their entries. */
static enum status new_entry(struct yaml_reader *r, const yaml_event_t *e, struct interner *keys,
                             struct yaml_value *out)
{
    uint32_t first;
    bool fresh;
    if (e->type != YAML_SCALAR_EVENT)
        return yaml_refuse(r, e, "expected a name before ':'");
    if (out->entries == ENTRIES) /* which yaml_get() goes through one by one */
        return yaml_refuse(r, e, "map has too many entries");
    PASS(ARENA_ROOM(r->arena, out->entry, out->entries));
    struct yaml_entry *entry = &out->entry[out->entries];
    PASS(copy_scalar(r, e, &entry->key));
    entry->value.line = e->start_mark.line + 1;
    PASS(intern(keys, entry->key, strlen(entry->key), &first, &fresh));
    if (!fresh)
        return error_set(STATUS_PARSE, "%s:%zu: '%.80s' is given twice, first in line %zu", r->path,
                         entry->value.line, entry->key, out->entry[first].value.line);
    out->entries++;
    return STATUS_OK;
}

/* Pairs of a key and a value up to the end of the map, in the order of the file. */
static enum status read_map(struct yaml_reader *r, struct yaml_value *out)
{
    enum status st;
    yaml_event_t e;
    struct interner keys = {0};
    out->is_map = true;
    for (;;) {
        TRY(next(r, &e));
        bool end = e.type == YAML_MAPPING_END_EVENT;
        st = end ? STATUS_OK : new_entry(r, &e, &keys, out);
        yaml_event_delete(&e);
        if (end || st != STATUS_OK)
            break;
        TRY(next(r, &e));
        TRY(yaml_read_value(r, &e, &out->entry[out->entries - 1].value));
    }
out:
    interner_free(&keys);
    return st;
}

/* The value that begins with *e, which is deleted. */
static enum status yaml_read_value(struct yaml_reader *r, yaml_event_t *e, struct yaml_value *out)
{
    enum status st;
    yaml_event_type_t type = e->type;
    out->line = e->start_mark.line + 1;
    if (r->values++ == VALUES)
        st = error_set(STATUS_PARSE, "%s:%zu: more than %d values", r->path, out->line, VALUES);
    else if (type == YAML_SCALAR_EVENT)
        st = copy_scalar(r, e, &out->text);
    else if (type == YAML_ALIAS_EVENT)
        st = yaml_refuse(r, e, "aliases ('*') are unsupported; quote texts that begin with *");
    else if (r->depth == YAML_DEPTH)
        st = yaml_refuse(r, e, "nested too deeply");
    else if ((type == YAML_SEQUENCE_START_EVENT && e->data.sequence_start.anchor) ||
             (type == YAML_MAPPING_START_EVENT && e->data.mapping_start.anchor))
        st = yaml_refuse(r, e, "anchors ('&') are unsupported");
    else
        st = STATUS_OK;
    yaml_event_delete(e);
    if (st != STATUS_OK || type == YAML_SCALAR_EVENT)
        return st;
    r->depth++;
    st = type == YAML_SEQUENCE_START_EVENT ? yaml_read_list(r, out) : read_map(r, out);
    r->depth--;
    return st;
}

/* stream start, document start, a map, document end, stream end: anything else is refused, a
 * second document too. */
static enum status read_document(struct yaml_reader *r, struct yaml_value *out)
{
    enum status st;
    yaml_event_t e;
    yaml_event_type_t type;
    do { /* the stream's start, the document's start */
        TRY(next(r, &e));
        type = e.type;
        if (type == YAML_MAPPING_START_EVENT || (r->foreign && type == YAML_SEQUENCE_START_EVENT))
            break;
        if (type != YAML_STREAM_START_EVENT && type != YAML_DOCUMENT_START_EVENT)
            st = error_set(STATUS_PARSE, "%s:%zu: expected a setting, 'key: value'", r->path,
                           e.start_mark.line + 1);
        yaml_event_delete(&e);
        TRY(st);
    } while (true);
    TRY(yaml_read_value(r, &e, out));
    for (; type != YAML_STREAM_END_EVENT; yaml_event_delete(&e)) {
        TRY(next(r, &e));
        type = e.type;
        if (type == YAML_DOCUMENT_START_EVENT) {
            st = yaml_refuse(r, &e, "second document, expected one per file");
            yaml_event_delete(&e);
            goto out;
        }
    }
out:
    return st;
}

static enum status read_text(struct yaml_reader r, const char *text, size_t length,
                             struct yaml_value *out)
{
    struct yaml_value v = {0};
    if (!yaml_parser_initialize(&r.parser))
        return error_set(STATUS_NOMEM, "out of memory");
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, length);
    enum status st = read_document(&r, &v);
    yaml_parser_delete(&r.parser);
    if (st == STATUS_OK)
        *out = v;
    return st;
}

enum status yaml_read(const char *path, const char *text, size_t length, struct arena *arena,
                      struct yaml_value *out)
{
    return read_text((struct yaml_reader){.path = path, .arena = arena}, text, length, out);
}

enum status yaml_read_foreign(const char *path, const char *text, size_t length,
                              struct arena *arena, struct yaml_value *out)
{
    struct yaml_reader r = {.path = path, .arena = arena, .foreign = true};
    return read_text(r, text, length, out);
}

const struct yaml_value *yaml_get(const struct yaml_value *map, const char *key)
{
    for (size_t i = 0; map && i < map->entries; i++)
        if (!strcmp(map->entry[i].key, key))
            return &map->entry[i].value;
    return NULL;
}
