/* Properties of platform files that options of campaigns may say, too. */
#include "study/campaign_settings.h"

#include <stdlib.h>
#include <string.h>

#include "campaign/storage.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "sim/platform/properties.h"
#include "sim/platform/xml_scan.h"

enum { FAILURES, SPARES, STORAGE, NAMES, VALUE = 4096 };
static const char *const names[NAMES] = {"failures", "spares", "storage"};

/* A file that is being read. */
struct reading {
    struct campaign_settings *s;
    struct xml_tag of; /* what properties belong to now: a host, the first zone, or nothing */
    size_t zones;
    const char *text[NAMES]; /* in the arena; NULL: not said */
};

/* A value is checked also where an option replaces it. */
static enum status take(struct reading *r, size_t k, const struct xml_tag *prop)
{
    char text[VALUE];
    struct arguments checked = {0};
    struct storage storage;
    struct xml_span id = xml_attribute(&r->of, "id");
    bool host = xml_is(&r->of, "host");
    if (xml_decode(xml_attribute(prop, "value"), text, sizeof text) >= sizeof text)
        return error_set(STATUS_PARSE, "%s: longer than %d bytes", names[k], VALUE - 1);
    PASS(arguments_set(&checked, TAKES(PLAN_CAMPAIGN), names[k], text));
    if (r->text[k] && strcmp(r->text[k], text) != 0)
        return error_set(STATUS_PARSE,
                         "%s: got '%.60s', but an earlier host or zone of the platform has "
                         "'%.60s', expected the same value",
                         names[k], text, r->text[k]);
    if (!(r->text[k] = arena_text(&r->s->texts, text)))
        return STATUS_NOMEM;
    if (k != STORAGE)
        return STATUS_OK;
    PASS(storage_read(text, &storage));
    if (storage_on_links(&storage) != host)
        return error_set(STATUS_PARSE, "property 'storage' of a %s: got '%.60s', expected %s",
                         host ? "host" : "zone", text,
                         host ? "a value for hosts, such as 'host:rate=1TBps'"
                              : "'shared', 'disk' or 'peer'");
    if (!host)
        return STATUS_OK;
    PASS(ARENA_ROOM(&r->s->texts, r->s->store, r->s->stores));
    r->s->store[r->s->stores] = arena_text_n(&r->s->texts, id.at, id.n);
    return r->s->store[r->s->stores++] ? STATUS_OK : STATUS_NOMEM;
}

static enum status read_file(struct reading *r, const char *path, const char *text)
{
    struct xml_scanner scan = xml_scan(text);
    struct xml_tag tag;
    while (xml_next(&scan, &tag)) {
        size_t k = 0;
        if (!xml_is(&tag, "prop")) {
            bool zone = xml_is(&tag, "zone") || xml_is(&tag, "AS");
            bool counts = xml_is(&tag, "host") || (zone && r->zones++ == 0);
            r->of = counts ? tag : (struct xml_tag){0};
            continue;
        }
        while (k < NAMES && !xml_equal(xml_attribute(&tag, "id"), names[k]))
            k++;
        if (k == NAMES || !r->of.name.at || (xml_is(&r->of, "host") && k != STORAGE))
            continue;
        enum status st = take(r, k, &tag);
        if (st != STATUS_OK)
            return st == STATUS_NOMEM ? st : error_context(STATUS_PARSE, "%s:%zu", path, tag.line);
    }
    return STATUS_OK;
}

enum status campaign_settings_read(const struct arguments *a, const char *platform,
                                   struct campaign_settings *out)
{
    enum status st;
    char *text = NULL;
    size_t length;
    struct campaign_settings s = {.a = *a};
    struct reading r = {.s = &s};
    TRY(file_read(platform, &text, &length));
    TRY(read_file(&r, platform, text));
    for (size_t k = 0; k < NAMES; k++)
        if (r.text[k] && !arguments_given(a, names[k]))
            TRY(arguments_set(&s.a, TAKES(PLAN_CAMPAIGN), names[k], r.text[k]));
    MOVE(out, s);
out:
    campaign_settings_free(&s);
    free(text);
    return st;
}

void campaign_settings_free(struct campaign_settings *s)
{
    arena_free(&s->texts);
    *s = (struct campaign_settings){0};
}

bool campaign_settings_given(const struct arguments *a)
{
    bool any = false;
    for (size_t k = 0; k < NAMES; k++)
        any = any || arguments_given(a, names[k]);
    return any;
}

enum status campaign_settings_put(const struct arguments *a, const char *text, FILE *to)
{
    char spares[16];
    struct platform_property_text property[NAMES];
    size_t n = 0;
    snprintf(spares, sizeof spares, "%zu", a->campaign.spares);
    const char *const value[NAMES] = {a->campaign.failures, spares, a->campaign.storage};
    for (size_t k = 0; k < NAMES; k++)
        if (arguments_given(a, names[k]))
            property[n++] = (struct platform_property_text){(char *)names[k], (char *)value[k]};
    const struct platform_text p = {"the generated platform", text};
    return platform_set_properties(&p, property, n, to);
}
