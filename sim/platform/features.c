/* The one table of what foreline does with each element, attribute and <config> item of a SimGrid
 * platform file; docs/reference/topologies.md explains it to users. */
#include "sim/platform/features.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "core/base/units.h"
#include "sim/platform/coordinates.h"
#include "sim/platform/xml_scan.h"

enum { NAME = 64, VALUE = 64 };

static const char over_time[] =
    "changes over time are unsupported. Remove it, or write a platform for each state";

/* Attributes by what becomes of them, separated by blanks. */
static const struct element {
    const char *name, *used, *no_effect, *over_time;
    const char *refused; /* why the whole element is, or NULL */
} elements[] = {
    {"platform", "version", "", "", NULL},
    {"config", "", "id", "", NULL},
    {"zone", "id routing", "", "", NULL},
    {"AS", "id routing", "", "", NULL},
    {"host", "id speed core pstate coordinates", "", "speed_file availability_file state_file",
     NULL},
    {"router", "id coordinates", "", "", NULL},
    {"peer", "id speed bw_in bw_out lat coordinates", "", "speed_file availability_file state_file",
     NULL},
    {"cluster",
     "id prefix suffix radical speed core bw lat sharing_policy topology topo_parameters bb_bw "
     "bb_lat bb_sharing_policy router_id limiter_link",
     "loopback_bw loopback_lat", "", NULL},
    {"cabinet", "id prefix suffix radical speed bw lat", "", "", NULL},
    {"backbone", "id bandwidth latency", "", "", NULL},
    {"host_link", "id up down", "", "", NULL},
    {"link", "id bandwidth latency sharing_policy", "", "bandwidth_file latency_file state_file",
     NULL},
    {"link_ctn", "id direction", "", "", NULL},
    {"route", "src dst symmetrical", "", "", NULL},
    {"zoneRoute", "src dst gw_src gw_dst symmetrical", "", "", NULL},
    {"ASroute", "src dst gw_src gw_dst symmetrical", "", "", NULL},
    {"bypassRoute", "src dst", "", "", NULL},
    {"bypassZoneRoute", "src dst gw_src gw_dst", "", "", NULL},
    {"bypassASroute", "src dst gw_src gw_dst", "", "", NULL},
    {"prop", "id value", "", "", NULL},
    {"disk", "", "id read_bw write_bw", "", NULL},
    {"storage", "", "id typeId content attach", "", NULL},
    {"storage_type", "", "id model size content", "", NULL},
    {"mount", "", "storageId name", "", NULL},
    {"model_prop", "", "id value", "", NULL},
    {"random", "", "id min max mean std_deviation seed radical generator", "", NULL},
    {"trace", "", "id file periodicity", "", NULL}, /* until a trace_connect */
    {"trace_connect", "", "kind trace element", "", over_time},
    {"include", "", "file", "",
     "SimGrid no longer supports <include>. Insert the text of that file here"},
    {"actor", "", "host function start_time kill_time on_failure", "",
     "foreline places the ranks itself. Remove the deployment element from the platform"},
    {"process", "", "host function start_time kill_time on_failure", "",
     "foreline places the ranks itself. Remove the deployment element from the platform"},
    {"argument", "", "value", "", NULL},
};

/* Items of <config>, by the first row that matches; whatever has none is refused. */
static const struct item {
    const char *name; /* "tracing/" stands for all that begin so */
    enum { ANY, FACTOR, ONLY } value;
    const char *only[2]; /* ONLY: the values that are what foreline simulates anyway */
} items[] = {
    {"network/bandwidth-factor", FACTOR, {NULL}},
    {"network/latency-factor", FACTOR, {NULL}},
    {"network/model", ONLY, {"CM02"}},
    {"network/crosstraffic", ONLY, {"0", "no"}},
    {"network/TCP-gamma", ONLY, {"0"}},
    {"network/weight-S", ONLY, {"0", "0.0"}},
    {"network/optim", ANY, {NULL}},
    {"host/model", ONLY, {"default", "compound"}},
    {"cpu/", ANY, {NULL}}, /* how SimGrid computes on hosts, which is not asked of it */
    {"disk/", ANY, {NULL}},
    {"storage/", ANY, {NULL}},
    {"tracing", ANY, {NULL}}, /* switched off when the platform is loaded */
    {"tracing/", ANY, {NULL}},
    {"path", ANY, {NULL}},
};

/* Is the word one of a list separated by blanks? */
static bool features_is_listed(struct xml_span word, const char *list)
{
    while (*list) {
        size_t n = strcspn(list, " ");
        if (n == word.n && !memcmp(list, word.at, n))
            return true;
        list += n + strspn(list + n, " ");
    }
    return false;
}

static const struct element *find_element(struct xml_span name)
{
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++)
        if (xml_equal(name, elements[i].name))
            return &elements[i];
    return NULL;
}

static enum feature feature_of(const struct element *e, struct xml_span attribute)
{
    return features_is_listed(attribute, e->used)        ? FEATURE_USED
           : features_is_listed(attribute, e->no_effect) ? FEATURE_NO_EFFECT
           : features_is_listed(attribute, e->over_time) ? FEATURE_REFUSED
                                                         : FEATURE_UNKNOWN;
}

enum feature platform_feature(const char *element, const char *attribute)
{
    const struct element *e = find_element((struct xml_span){element, strlen(element)});
    if (!e)
        return FEATURE_UNKNOWN;
    if (e->refused)
        return FEATURE_REFUSED;
    if (!attribute)
        return *e->used || !*e->no_effect ? FEATURE_USED : FEATURE_NO_EFFECT;
    return feature_of(e, (struct xml_span){attribute, strlen(attribute)});
}

/* What is read, and where. */
struct feature_check {
    const struct platform_text *p;
    bool in_config, latency_factor;
    size_t factor_line;
};

static enum status features_refuse(const struct feature_check *c, const struct xml_tag *tag,
                                   const char *what, const char *why)
{
    return error_set(STATUS_PARSE, "%s:%zu: %s: %s", c->p->path, tag->line, what, why);
}

/* "<link> 'l'", where it has an id. */
static const char *features_describe(const struct xml_tag *tag, char out[NAME + VALUE + 8])
{
    char id[VALUE];
    struct xml_span span = xml_attribute(tag, "id");
    xml_decode(span.at ? span : (struct xml_span){"", 0}, id, sizeof id);
    snprintf(out, NAME + VALUE + 8, "<%.*s>%s%s%s", (int)(tag->name.n < NAME ? tag->name.n : NAME),
             tag->name.at, *id ? " '" : "", id, *id ? "'" : "");
    return out;
}

/* One <prop> inside <config>. */
static enum status check_item(struct feature_check *c, const struct xml_tag *tag)
{
    char name[NAME], value[VALUE], what[NAME + VALUE + 40], why[2 * VALUE];
    const struct item *item = items, *end = items + sizeof items / sizeof *items;
    double factor = 0;
    xml_decode(xml_attribute(tag, "id"), name, sizeof name);
    xml_decode(xml_attribute(tag, "value"), value, sizeof value);
    snprintf(what, sizeof what, "<config> %s=\"%s\"", name, value);
    for (; item < end; item++) {
        size_t n = strlen(item->name);
        if (item->name[n - 1] == '/' ? !strncmp(name, item->name, n) : !strcmp(name, item->name))
            break;
    }
    if (item == end)
        return features_refuse(c, tag, what,
                               "unsupported, because the analytic engine and SimGrid would give "
                               "different results. Remove this setting");
    if (item->value == FACTOR && !(text_real(value, &factor) && factor > 0 && factor <= 1e6))
        return features_refuse(c, tag, what, "expected one number above 0");
    if (!strcmp(name, "network/latency-factor") && (factor < 1 || factor > 1)) {
        c->latency_factor = true;
        c->factor_line = tag->line;
    }
    if (item->value != ONLY || !strcmp(value, item->only[0]) ||
        (item->only[1] && !strcmp(value, item->only[1])))
        return STATUS_OK;
    snprintf(why, sizeof why, "expected %s, the only value that foreline supports", item->only[0]);
    return features_refuse(c, tag, what, why);
}

static bool features_is_zone(const struct xml_tag *tag)
{
    return xml_is(tag, "zone") || xml_is(tag, "AS");
}

/* Values of attributes that are otherwise used. */
static enum status check_values(const struct feature_check *c, const struct xml_tag *tag)
{
    char what[NAME + VALUE + 8];
    double lat_s = 0;
    struct xml_span routing = xml_attribute(tag, "routing"), lat = xml_attribute(tag, "lat");
    if ((features_is_zone(tag) && xml_equal_any_case(routing, "Wifi")) ||
        (xml_is(tag, "link") && xml_equal(xml_attribute(tag, "sharing_policy"), "WIFI")))
        return features_refuse(c, tag, features_describe(tag, what),
                               "Wi-Fi is unsupported. Use a link with sharing_policy=\"SHARED\"");
    if (xml_is(tag, "peer") && lat.n > 0) {
        char text[VALUE];
        xml_decode(lat, text, sizeof text);
        if (units_parse(UNIT_SECONDS, text, &lat_s) != STATUS_OK || lat_s > 0)
            return features_refuse(
                c, tag, features_describe(tag, what),
                "SimGrid ignores the attribute 'lat'. Put the latency into the coordinates");
    }
    return STATUS_OK;
}

static enum status check_attributes(const struct feature_check *c, const struct xml_tag *tag,
                                    const struct element *e)
{
    char what[NAME + VALUE + 8], full[2 * NAME + VALUE + 24];
    struct xml_span name, value;
    for (const char *at = NULL; xml_next_attribute(tag, &at, &name, &value);) {
        enum feature feature = feature_of(e, name);
        int n = (int)(name.n < NAME ? name.n : NAME);
        if (feature == FEATURE_UNKNOWN)
            return error_set(STATUS_PARSE, "%s:%zu: <%s> has no attribute '%.*s'", c->p->path,
                             tag->line, e->name, n, name.at);
        if (feature != FEATURE_REFUSED || value.n == 0)
            continue;
        snprintf(full, sizeof full, "%s: %.*s", features_describe(tag, what), n, name.at);
        return features_refuse(c, tag, full, over_time);
    }
    return STATUS_OK;
}

static enum status check_tag(struct feature_check *c, const struct xml_tag *tag)
{
    const struct element *e = find_element(tag->name);
    char what[NAME + VALUE + 8];
    if (xml_equal(tag->name, "config"))
        c->in_config = !tag->closing &&
                       !(tag->attributes.n > 0 && tag->attributes.at[tag->attributes.n - 1] == '/');
    if (tag->closing)
        return STATUS_OK;
    if (!e)
        return error_set(STATUS_PARSE, "%s:%zu: unknown element <%.*s>", c->p->path, tag->line,
                         (int)(tag->name.n < NAME ? tag->name.n : NAME), tag->name.at);
    if (e->refused)
        return features_refuse(c, tag, features_describe(tag, what), e->refused);
    PASS(check_attributes(c, tag, e));
    PASS(check_values(c, tag));
    return c->in_config && xml_is(tag, "prop") ? check_item(c, tag) : STATUS_OK;
}

enum status platform_check_features(const struct platform_text *p)
{
    struct xml_scanner s = xml_scan(p->text);
    struct xml_tag tag;
    struct feature_check c = {.p = p};
    while (xml_next(&s, &tag))
        PASS(check_tag(&c, &tag));
    if (c.latency_factor && platform_has_coordinates(p))
        return error_set(STATUS_PARSE,
                         "%s:%zu: <config> network/latency-factor is unsupported with "
                         "routing=\"Vivaldi\". Multiply the coordinates instead",
                         p->path, c.factor_line);
    return STATUS_OK;
}
