/* links.h - the links of a platform file: where they stand in the text and their tiers. */
#ifndef SIM_PLATFORM_LINKS_H
#define SIM_PLATFORM_LINKS_H

#include "core/data/topology.h"
#include "sim/platform/fault.h"
#include "sim/platform/xml_scan.h"

enum { LINKS_LABELS = 64, LINKS_NO_LABEL = LINKS_LABELS };

/* A <link> of the file. */
struct text_link {
    struct xml_span id;
    size_t line;
    unsigned label;         /* of its <prop id="tier">, or LINKS_NO_LABEL */
    uint32_t lanes, cables; /* of its <prop id="lanes">, or 0 */
};

struct links {
    size_t n;
    struct text_link *link; /* [n] sorted by id */
    size_t labels;
    struct xml_span label[LINKS_LABELS];
    bool bundles;            /* some link has lanes */
    enum paths_policy paths; /* of the <prop id="paths"> of a zone */
};

/* Collect the links of a text that SimGrid has accepted; spans point into it. Refuses quantities
 * without a unit, which SimGrid takes for base units, and lanes and policies that make no sense.
 * STATUS_PARSE as "path:line: what", STATUS_NOMEM. */
enum status links_read(const struct platform_text *p, struct links *out) MUST_CHECK;
/* The <link> that made SimGrid's link `name`: itself, or one with two directions; or NULL. */
const struct text_link *links_find(const struct links *links, const char *name);
/* The topology's links get their lanes, and it gets its policy. */
void links_mark_lanes(const struct links *links, struct topology *t);
void links_free(struct links *links); /* accepts {0}; leaves {0} */

#endif
