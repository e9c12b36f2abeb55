/* Lines for SimGrid's error messages: the text is scanned again for what a message mentions. */
#include "sim/platform/fault.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "sim/platform/radical.h"
#include "sim/platform/xml_scan.h"

enum {
    NAME = 256,   /* longer names are not searched for */
    REASON = 400, /* longer messages are cut */
};

/* Whether the tag is that element, or makes it: hosts come out of other elements too. */
static bool makes(const struct xml_tag *tag, const char *element, const char *id)
{
    bool host = !strcmp(element, "host");
    if (xml_is(tag, element) || (host && xml_is(tag, "peer")))
        return xml_equal(xml_attribute(tag, "id"), id);
    return host && (xml_is(tag, "cluster") || xml_is(tag, "cabinet")) && radical_makes(tag, id);
}

size_t platform_line(const struct platform_text *p, const char *element, const char *id)
{
    struct xml_scanner s = xml_scan(p->text);
    struct xml_tag tag;
    while (xml_next(&s, &tag))
        if (makes(&tag, element, id))
            return tag.line;
    return 1;
}

size_t platform_property_line(const struct platform_text *p, const char *element, const char *id,
                              const char *property)
{
    struct xml_scanner s = xml_scan(p->text);
    struct xml_tag tag;
    size_t own = 1, in_zone = 0, zones = 0;
    bool inside = false, first_zone = false; /* what a <prop> now belongs to */
    while (xml_next(&s, &tag)) {
        if (xml_equal(tag.name, "prop")) {
            bool wanted = !tag.closing && xml_equal(xml_attribute(&tag, "id"), property);
            if (wanted && inside)
                return tag.line;
            if (wanted && first_zone)
                in_zone = tag.line;
            continue;
        }
        inside = makes(&tag, element, id);
        if (inside)
            own = tag.line;
        first_zone = (xml_is(&tag, "zone") || xml_is(&tag, "AS")) && zones++ == 0;
    }
    return in_zone ? in_zone : own;
}

enum status platform_no_route(const struct platform_text *p, const char *from, const char *to)
{
    return error_set(STATUS_PARSE, "%s:%zu: no route from '%s' to '%s'", p->path,
                     platform_line(p, "host", from), from, to);
}

enum status platform_no_links(const struct platform_text *p, const char *from, const char *to)
{
    return error_set(STATUS_PARSE,
                     "%s:%zu: no links from '%s' to '%s': coordinates give a latency but no "
                     "bandwidth. Use <peer> instead of <host>",
                     p->path, platform_line(p, "host", from), from, to);
}

/* Whether the tag carries both names (b may be empty) as what it is or joins. */
static bool mentions(const struct xml_tag *tag, const char *a, const char *b)
{
    static const char *const keys[] = {"id", "src", "dst", "gw_src", "gw_dst", "routing"};
    bool has_a = false, has_b = !*b;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct xml_span value = xml_attribute(tag, keys[i]);
        has_a = has_a || xml_equal(value, a);
        has_b = has_b || xml_equal(value, b);
    }
    return has_a && has_b;
}

/* Line of the n-th tag (from 1; the last if there are fewer) that mentions a and b. */
static size_t line_of_mention(const char *text, const char *element, const char *a, const char *b,
                              int n)
{
    struct xml_scanner s = xml_scan(text);
    struct xml_tag tag;
    size_t line = 1;
    while (n > 0 && xml_next(&s, &tag))
        if (!tag.closing && (!element || xml_is(&tag, element)) && mentions(&tag, a, b)) {
            line = tag.line;
            n--;
        }
    return line;
}

/* Messages of SimGrid 3.32 to 4.1 that come without a line. */
static const struct fault_rule {
    const char *phrase;
    const char *element; /* NULL: any */
    int occurrence;
    const char *names; /* sscanf format of one or two names */
} rules[] = {
    {"Link not found: ", "link_ctn", 1, "Link not found: %255s"},
    {"Refusing to create", NULL, 2, NULL},
    {"Link '", "link", 2, NULL},
    {"Route between ", NULL, 2, "Route between %255s and %255s"},
    {"The route between ", NULL, 2, "The route between %255s and %255s"},
    {"Empty route (between ", NULL, 1, "Empty route (between %255s and %255[^ )]"},
    {"", NULL, 1, NULL}, /* whatever it quotes */
};

/* The last 'quoted' name of a message. */
static bool last_quoted(const char *message, char name[NAME])
{
    const char *end = strrchr(message, '\'');
    if (!end)
        return false;
    const char *begin = end;
    while (begin > message && begin[-1] != '\'')
        begin--;
    size_t n = (size_t)(end - begin);
    if (begin == message || n == 0 || n >= NAME)
        return false;
    memcpy(name, begin, n);
    name[n] = '\0';
    return true;
}

/* SimGrid calls the two directions of link l "l_UP" and "l_DOWN". */
static void strip_direction(char *name)
{
    static const char *const directions[] = {"_UP", "_DOWN"};
    for (size_t i = 0; i < 2; i++) {
        size_t n = strlen(name), d = strlen(directions[i]);
        if (n > d && !strcmp(name + n - d, directions[i]))
            name[n - d] = '\0';
    }
}

static size_t search_line(const struct platform_text *p, const char *message)
{
    const struct fault_rule *rule = rules;
    while (!strstr(message, rule->phrase))
        rule++;
    const char *at = strstr(message, rule->phrase);
    char a[NAME] = "", b[NAME] = "";
    bool found = rule->names ? sscanf(at, rule->names, a, b) >= 1 : last_quoted(message, a);
    if (!found)
        return 1;
    if (rule->element && !strcmp(rule->element, "link"))
        strip_direction(a);
    size_t line = line_of_mention(p->text, rule->element, a, b, rule->occurrence);
    return line > 1 ? line : platform_line(p, "host", a);
}

/* "Uncaught exception std::x: reason", "... simgrid::X by maestro/0: reason" -> reason */
static const char *skip_exception(const char *message)
{
    static const char uncaught[] = "Uncaught exception ";
    if (strncmp(message, uncaught, sizeof uncaught - 1) != 0)
        return message;
    const char *reason = strstr(message, ": ");
    return reason ? reason + 2 : message;
}

static bool has_link(const char *text, const char *id)
{
    struct xml_scanner s = xml_scan(text);
    struct xml_tag tag;
    while (xml_next(&s, &tag))
        if (xml_is(&tag, "link") && xml_equal(xml_attribute(&tag, "id"), id))
            return true;
    return false;
}

/* SimGrid names neither the element nor the attribute whose quantity it cannot read. It stops at
 * the first, so the first in the file that ends with `rest` is the one: an empty `rest` is an empty
 * attribute, or a latency that is not there. */
static bool explain_quantity(const char *text, const char *problem, const char *rest,
                             char out[REASON])
{
    static const char *const quantities[][2] = {
        {"host", "speed"},      {"link", "bandwidth"}, {"link", "latency"},
        {"cluster", "speed"},   {"cluster", "bw"},     {"cluster", "lat"},
        {"cluster", "bb_bw"},   {"cluster", "bb_lat"}, {"cabinet", "bw"},
        {"cabinet", "lat"},     {"cabinet", "speed"},  {"backbone", "bandwidth"},
        {"backbone", "latency"}};
    struct xml_scanner s = xml_scan(text);
    struct xml_tag tag;
    size_t n = strlen(rest);
    while (xml_next(&s, &tag))
        for (size_t i = 0; i < sizeof quantities / sizeof *quantities; i++) {
            const char *key = quantities[i][1];
            struct xml_span value = xml_attribute(&tag, key), id = xml_attribute(&tag, "id");
            bool needed = !strcmp(quantities[i][0], "link") || value.at;
            if (!xml_is(&tag, quantities[i][0]) || !needed)
                continue;
            int name = (int)(id.n < 80 ? id.n : 80), given = (int)(value.n < 80 ? value.n : 80);
            if (n == 0 && value.n == 0)
                snprintf(out, REASON, "%s '%.*s' has no %s, expected a number with a unit, %s",
                         quantities[i][0], name, id.at, key,
                         strstr(key, "lat") ? "such as 1us" : "such as 1GBps or 1Gf");
            else if (n > 0 && value.n >= n && !memcmp(value.at + value.n - n, rest, n))
                snprintf(out, REASON, "%s '%.*s': %s '%.*s': %s%s", quantities[i][0], name, id.at,
                         key, given, value.at, problem, rest);
            else
                continue;
            return true;
        }
    return false;
}

/* Its length without the full stop that ends it. */
static size_t without_stop(const char *reason)
{
    size_t n = strlen(reason);
    return n > 0 && reason[n - 1] == '.' ? n - 1 : n;
}

/* The same in plain words, where SimGrid's are long or misleading. */
static const char *reword(const struct platform_text *p, const char *reason, char out[REASON])
{
    static const char invalid[] = "Invalid XML (XML input line "; /* known already */
    const char *after = strstr(reason, "): ");
    static const char number[] = "cannot parse number:", unit[] = "unknown unit: ";
    const char *rest[] = {strstr(reason, number), strstr(reason, unit)};
    char name[NAME];
    if ((rest[0] && explain_quantity(
                        p->text, "not a number with a unit: ", rest[0] + sizeof number - 1, out)) ||
        (rest[1] && explain_quantity(p->text, unit, rest[1] + sizeof unit - 1, out)))
        return out;
    if (strstr(reason, "in prolog") && !strstr(p->text, "<!DOCTYPE"))
        snprintf(out, REASON,
                 "the DOCTYPE line is missing; write before <platform> the line <!DOCTYPE platform "
                 "SYSTEM \"https://simgrid.org/simgrid.dtd\">");
    else if (!strncmp(reason, invalid, sizeof invalid - 1) && after)
        snprintf(out, REASON, "%s", after + 3);
    else if (strstr(reason, "THIS FILE COMES FROM THE FUTURE") ||
             strstr(reason, "THIS FILE IS TOO OLD"))
        snprintf(out, REASON,
                 "the platform format is that of another SimGrid version, expected <platform "
                 "version=\"4.1\">");
    else if (strstr(reason, "does name a node") && sscanf(reason, "%*[^']'%255[^']", name) == 1)
        snprintf(out, REASON, "unknown host or router '%s'", name);
    else if (sscanf(reason, "Link not found: %255s", name) != 1)
        snprintf(out, REASON, "%.*s", (int)without_stop(reason), reason);
    else if (has_link(p->text, name))
        snprintf(out, REASON, "link '%s' has two directions: link_ctn needs UP or DOWN", name);
    else
        snprintf(out, REASON, "unknown link '%s'", name);
    return out;
}

/* "Not a valid model!" is what SimGrid says of a zone with an unknown routing. */
static enum status explain_routing(const struct platform_text *p)
{
    static const char *const known[] = {"Cluster",
                                        "ClusterDragonfly",
                                        "ClusterFatTree",
                                        "ClusterTorus",
                                        "Dijkstra",
                                        "DijkstraCache",
                                        "Floyd",
                                        "Full",
                                        "None",
                                        "Vivaldi",
                                        "Wifi"};
    struct xml_scanner s = xml_scan(p->text);
    struct xml_tag tag;
    while (xml_next(&s, &tag)) {
        struct xml_span routing = xml_attribute(&tag, "routing");
        bool fine = !xml_is(&tag, "zone") || !routing.at;
        for (size_t i = 0; !fine && i < sizeof known / sizeof *known; i++)
            fine = xml_equal_any_case(routing, known[i]);
        if (!fine)
            return error_set(STATUS_PARSE,
                             "%s:%zu: unknown routing '%.*s', expected DijkstraCache or Full",
                             p->path, tag.line, (int)(routing.n < 80 ? routing.n : 80), routing.at);
    }
    return error_set(STATUS_PARSE, "%s:1: unknown routing", p->path);
}

enum status platform_explain(const struct platform_text *p, const char *message)
{
    char text[1024], plain[REASON]; /* `message` may be error_message() itself */
    static const char parse_error[] = "Parse error at ";
    snprintf(text, sizeof text, "%s", message);
    size_t path = strlen(p->path), prefix = sizeof parse_error - 1, line;
    int length = 0;

    if (!strncmp(text, parse_error, prefix) && !strncmp(text + prefix, p->path, path) &&
        sscanf(text + prefix + path, ":%zu: %n", &line, &length) == 1 && length > 0)
        return error_set(STATUS_PARSE, "%s:%zu: %s", p->path, line,
                         reword(p, text + prefix + path + length, plain));
    const char *reason = skip_exception(text);
    if (!strcmp(reason, "Not a valid model!"))
        return explain_routing(p);
    return error_set(STATUS_PARSE, "%s:%zu: %s", p->path, search_line(p, reason),
                     reword(p, reason, plain));
}
