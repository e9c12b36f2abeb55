/* features.h - which parts of SimGrid's platform files foreline simulates, and which it refuses.
 *
 * Every engine reads a platform after this check, so none simulates what another one ignores. */
#ifndef SIM_PLATFORM_FEATURES_H
#define SIM_PLATFORM_FEATURES_H

#include "sim/platform/fault.h"

/* What becomes of an attribute of SimGrid 3.32's simgrid.dtd. */
enum feature {
    FEATURE_UNKNOWN,   /* no such element or attribute there */
    FEATURE_USED,      /* all engines simulate it alike */
    FEATURE_NO_EFFECT, /* accepted: no engine's result depends on it */
    FEATURE_REFUSED,   /* an error when it has a value */
};

/* Of an attribute, or of the whole element when `attribute` is NULL. O(size of the table). */
enum feature platform_feature(const char *element, const char *attribute);

/* Refuse what no engine simulates: profiles over time, Wi-Fi, actors, other network models in
 * <config>, and names that SimGrid's DTD does not have. STATUS_PARSE as "path:line: what". O(text).
 */
enum status platform_check_features(const struct platform_text *p) MUST_CHECK;

#endif
