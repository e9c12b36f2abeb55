/* campaign_settings.h - what is said about a campaign: by options, and else by its platform's file.
 *
 * Properties of the file's first zone, each as the option of its name: failures, spares, storage.
 * Hosts with the property `storage`, "host:rate=1TBps" and the same on each, that are no devices
 * store checkpoints, equal parts each: they travel over the platform's links. */
#ifndef STUDY_CAMPAIGN_SETTINGS_H
#define STUDY_CAMPAIGN_SETTINGS_H

#include "core/base/array.h"
#include "study/settings.h"

struct campaign_settings {
    struct arguments a; /* of options and of the file */
    struct arena texts;
    size_t stores;
    const char **store; /* [stores] names of the hosts that checkpoints go to */
};

/* STATUS_PARSE as "path:line: what", also for properties that an option replaces; STATUS_IO,
 * STATUS_NOMEM. O(text). */
enum status campaign_settings_read(const struct arguments *a, const char *platform,
                                   struct campaign_settings *out) MUST_CHECK;
void campaign_settings_free(struct campaign_settings *s); /* accepts {0}; leaves {0} */

/* Is any of the properties given as an option? The platform text with those that are. STATUS_PARSE:
 * it has no zone. */
bool campaign_settings_given(const struct arguments *a);
enum status campaign_settings_put(const struct arguments *a, const char *text, FILE *to) MUST_CHECK;

#endif
