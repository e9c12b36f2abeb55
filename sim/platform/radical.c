/* Reads radicals as SimGrid does: numbers and ranges of them, commas between. */
#include "sim/platform/radical.h"

#include <ctype.h>
#include <string.h>

enum { AFFIX = 256 };
static const uint64_t most_number = UINT32_MAX;

uint64_t radical_number(const char **at, const char *end)
{
    uint64_t number = 0;
    for (; *at < end && isdigit((unsigned char)**at); (*at)++)
        if (number <= most_number)
            number = number * 10 + (uint64_t)(**at - '0');
    return number < most_number ? number : most_number;
}

/* The next range at *at, which moves behind it; false at the end. */
static bool next_range(const char **at, const char *end, uint64_t *first, uint64_t *last)
{
    if (*at >= end)
        return false;
    *first = *last = radical_number(at, end);
    if (*at < end && **at == '-') {
        (*at)++;
        *last = radical_number(at, end);
    }
    while (*at < end && !isdigit((unsigned char)**at))
        (*at)++;
    return true;
}

uint64_t radical_count(struct xml_span radical)
{
    uint64_t n = 0, first, last;
    const char *at = radical.at, *end = at + radical.n;
    while (next_range(&at, end, &first, &last))
        n += last >= first ? last - first + 1 : 0;
    return n;
}

bool radical_makes(const struct xml_tag *cluster, const char *host)
{
    char prefix[AFFIX], suffix[AFFIX];
    struct xml_span radical = xml_attribute(cluster, "radical");
    struct xml_span before = xml_attribute(cluster, "prefix");
    struct xml_span after = xml_attribute(cluster, "suffix");
    if (!radical.at || !before.at || !after.at ||
        xml_decode(before, prefix, sizeof prefix) >= sizeof prefix ||
        xml_decode(after, suffix, sizeof suffix) >= sizeof suffix ||
        strncmp(host, prefix, strlen(prefix)) != 0)
        return false;
    const char *digit = host + strlen(prefix), *end = digit + strspn(digit, "0123456789");
    if (digit == end || strcmp(end, suffix) != 0)
        return false;
    uint64_t number = radical_number(&digit, end), first, last;
    const char *at = radical.at;
    while (next_range(&at, radical.at + radical.n, &first, &last))
        if (first <= number && number <= last)
            return true;
    return false;
}
