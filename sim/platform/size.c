/* Counts the hosts that a text asks for: its <host> tags, and the numbers of radical="0-99,200". */
#include "sim/platform/size.h"

#include <ctype.h>
#include <stdint.h>

#include "core/topology.h"
#include "sim/platform/xml_scan.h"

enum { MOST_EXPANDED = 65536 }; /* hosts of one tag */
static const uint64_t most_number = UINT32_MAX;

/* A number at *at, which moves past it; large ones stay at the most. */
static uint64_t read_number(const char **at, const char *end)
{
    uint64_t number = 0;
    for (; *at < end && isdigit((unsigned char)**at); (*at)++)
        if (number <= most_number)
            number = number * 10 + (uint64_t)(**at - '0');
    return number < most_number ? number : most_number;
}

/* How many numbers "0-9,12,20-29" has, 0 to 2^32 for each range. */
static uint64_t count_radical(struct xml_span radical)
{
    uint64_t n = 0;
    const char *at = radical.at, *end = at + radical.n;
    while (at < end) {
        uint64_t first = read_number(&at, end), last = first;
        if (at < end && *at == '-') {
            at++;
            last = read_number(&at, end);
        }
        n += last >= first ? last - first + 1 : 0;
        while (at < end && !isdigit((unsigned char)*at))
            at++;
    }
    return n;
}

enum status platform_check_size(const struct platform_text *p)
{
    struct xml_scanner s = xml_scan(p->text);
    struct xml_tag tag;
    uint64_t hosts = 0;
    while (xml_next(&s, &tag)) {
        uint64_t n = xml_is(&tag, "host");
        if (xml_is(&tag, "cluster") || xml_is(&tag, "cabinet")) {
            struct xml_span radical = xml_attribute(&tag, "radical");
            n = radical.at ? count_radical(radical) : 0;
            if (n > MOST_EXPANDED)
                return error_set(STATUS_PARSE, "%s:%zu: <%.*s> of %llu hosts, expected up to %d",
                                 p->path, tag.line, (int)tag.name.n, tag.name.at,
                                 (unsigned long long)n, MOST_EXPANDED);
        }
        hosts += n;
        if (hosts > TOPOLOGY_MAX_DEVICES)
            return error_set(STATUS_PARSE, "%s:%zu: more than %d hosts", p->path, tag.line,
                             TOPOLOGY_MAX_DEVICES);
    }
    return STATUS_OK;
}
