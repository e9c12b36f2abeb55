/* fault.h - SimGrid's complaints about a platform file, as "path:line: what". */
#ifndef SIM_PLATFORM_FAULT_H
#define SIM_PLATFORM_FAULT_H

#include <stddef.h>

#include "core/base/error.h"

struct platform_text {
    const char *path; /* as given to SimGrid */
    const char *text; /* what is in it */
};

/* Line of the first <element id="id">, 1 if there is none; of a host also that of the <peer>,
 * <cluster> or <cabinet> that makes it. */
size_t platform_line(const struct platform_text *p, const char *element, const char *id) MUST_CHECK;

/* Line of <prop id="property"> in the first <element id="id">, else in the zone the file opens with
 * (whose properties are everyone's defaults), else the element's own line. */
size_t platform_property_line(const struct platform_text *p, const char *element, const char *id,
                              const char *property) MUST_CHECK;

/* Report `message`, the line SimGrid died with: always sets the error and returns STATUS_PARSE.
 * Most of SimGrid's own messages have a line; for the others it is searched by the names they
 * mention. */
enum status platform_explain(const struct platform_text *p, const char *message);

/* Report the missing route from -> to: always STATUS_PARSE. */
enum status platform_no_route(const struct platform_text *p, const char *from, const char *to);

/* Report that Vivaldi coordinates give the pair a latency but no link: always STATUS_PARSE. */
enum status platform_no_links(const struct platform_text *p, const char *from, const char *to);

#endif
