/* expat's events as a tree. */
#include "topologies/xml.h"

#include <stdlib.h>
#include <string.h>

#include <expat.h>

/* TAG: bytes of the longest tag or comment; the parser keeps it whole and compares its attributes
 * with each other. */
enum { BLOCK = 1 << 20, TAG = 4 << 20 };

struct xml_reader {
    XML_Parser parser;
    struct arena *arena;
    const char *path;
    struct xml_element *root, *at;
    size_t elements;
    int depth;
    enum status st;
    char *text; /* of the element under way, not yet in the arena */
    size_t length, room;
};

/* The first fault stops the parser. */
static void xml_stop_parser(struct xml_reader *r, enum status st)
{
    r->st = st;
    XML_StopParser(r->parser, XML_FALSE);
}

static void xml_refuse(struct xml_reader *r, const char *what)
{
    xml_stop_parser(r, error_set(STATUS_PARSE, "%s:%lu: %s", r->path,
                                 (unsigned long)XML_GetCurrentLineNumber(r->parser), what));
}

static enum status new_element(struct xml_reader *r, const char *name, const char **attribute,
                               struct xml_element **out)
{
    size_t n = 0;
    struct xml_element *e;
    while (attribute[n])
        n++;
    PASS(ARENA_NEW(r->arena, e, 1));
    PASS(ARENA_NEW(r->arena, e->attribute, n + 1));
    for (size_t i = 0; i < n; i++)
        if (!(e->attribute[i] = arena_text(r->arena, attribute[i])))
            return STATUS_NOMEM;
    e->line = XML_GetCurrentLineNumber(r->parser);
    e->parent = r->at;
    e->name = arena_text(r->arena, name);
    *out = e;
    return e->name ? STATUS_OK : STATUS_NOMEM;
}

/* What has been read between tags goes to the element that is open. */
static enum status xml_keep_text(struct xml_reader *r)
{
    struct xml_element *e = r->at;
    if (r->length == 0 || !e)
        return STATUS_OK;
    size_t before = e->text ? strlen(e->text) : 0;
    char *text = arena_new(r->arena, before + r->length + 1, 1);
    if (!text)
        return STATUS_NOMEM;
    memcpy(text, e->text ? e->text : "", before);
    memcpy(text + before, r->text, r->length);
    e->text = text;
    r->length = 0;
    return STATUS_OK;
}

static void on_start(void *data, const char *name, const char **attribute)
{
    struct xml_reader *r = data;
    struct xml_element *e;
    enum status st;
    r->length = 0; /* of an element with others inside only what follows the last one counts */
    if (r->st != STATUS_OK)
        return;
    if (++r->depth > XML_DEPTH || ++r->elements > XML_ELEMENTS) {
        xml_refuse(r, r->depth > XML_DEPTH ? "nested too deeply" : "too many elements");
        return;
    }
    if ((st = new_element(r, name, attribute, &e)) != STATUS_OK) {
        xml_stop_parser(r, st);
        return;
    }
    if (r->at && r->at->last)
        r->at->last->next = e;
    else if (r->at)
        r->at->first = e;
    if (r->at)
        r->at->last = e;
    else
        r->root = e;
    r->at = e;
}

static void on_end(void *data, const char *name)
{
    struct xml_reader *r = data;
    (void)name;
    if (r->st != STATUS_OK)
        return;
    enum status st = xml_keep_text(r);
    if (st != STATUS_OK)
        xml_stop_parser(r, st);
    r->at = r->at->parent;
    r->depth--;
}

static void on_text(void *data, const char *text, int n)
{
    struct xml_reader *r = data;
    if (r->st != STATUS_OK)
        return;
    enum status st = ARRAY_RESERVE(r->text, r->length + (size_t)n, r->room);
    if (st != STATUS_OK) {
        xml_stop_parser(r, st);
        return;
    }
    memcpy(r->text + r->length, text, (size_t)n);
    r->length += (size_t)n;
}

static void on_entity(void *data, const char *name, int is_parameter, const char *value, int length,
                      const char *base, const char *system, const char *public,
                      const char *notation)
{
    (void)name, (void)is_parameter, (void)value, (void)length, (void)base, (void)system,
        (void)public, (void)notation;
    xml_refuse(data, "entity declarations are unsupported");
}

static void on_attributes(void *data, const char *element, const char *name, const char *type,
                          const char *usual, int is_required)
{
    (void)element, (void)name, (void)type, (void)usual, (void)is_required;
    xml_refuse(data, "attribute declarations are unsupported");
}

static enum status feed(struct xml_reader *r, const char *text, size_t length)
{
    XML_Index fed = 0;
    while (r->st == STATUS_OK) {
        size_t n = length < BLOCK ? length : BLOCK;
        length -= n;
        fed += (XML_Index)n;
        if (XML_Parse(r->parser, text, (int)n, length == 0) == XML_STATUS_ERROR &&
            r->st == STATUS_OK) {
            enum XML_Error code = XML_GetErrorCode(r->parser);
            return code == XML_ERROR_NO_MEMORY
                       ? error_set(STATUS_NOMEM, "out of memory")
                       : error_set(STATUS_PARSE, "%s:%lu: not valid XML: %s", r->path,
                                   (unsigned long)XML_GetCurrentLineNumber(r->parser),
                                   XML_ErrorString(code));
        }
        XML_Index at = XML_GetCurrentByteIndex(r->parser); /* -1: nowhere yet */
        if (at >= 0 && fed - at > TAG && r->st == STATUS_OK)
            return error_set(STATUS_PARSE, "%s:%lu: tag longer than %d bytes", r->path,
                             (unsigned long)XML_GetCurrentLineNumber(r->parser), TAG);
        text += n;
        if (length == 0)
            break;
    }
    return r->st;
}

enum status xml_read(const char *path, const char *text, size_t length, struct arena *arena,
                     struct xml_element **root)
{
    struct xml_reader r = {.arena = arena, .path = path, .parser = XML_ParserCreate(NULL)};
    if (!r.parser)
        return error_set(STATUS_NOMEM, "out of memory");
    XML_SetUserData(r.parser, &r);
    XML_SetElementHandler(r.parser, on_start, on_end);
    XML_SetCharacterDataHandler(r.parser, on_text);
    XML_SetEntityDeclHandler(r.parser, on_entity);
    XML_SetAttlistDeclHandler(r.parser, on_attributes);
    enum status st = feed(&r, text, length);
    XML_ParserFree(r.parser);
    free(r.text);
    if (st == STATUS_OK)
        *root = r.root;
    return st;
}

const char *xml_value(const struct xml_element *e, const char *name)
{
    for (const char **a = e->attribute; *a; a += 2)
        if (!strcmp(a[0], name))
            return a[1];
    return NULL;
}
