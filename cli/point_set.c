#include "cli/point.h"

#include <errno.h>
#include <stdlib.h>

#include "core/text.h"

enum { MOST = 10000000 };

const struct plan_arguments point_defaults = {
    .algorithm = "balanced", .optimizer = "adam", .finalists = 12, .seed = 1};

/* Settings by name: a text, or a count when `is_count`. */
static const struct setting {
    const char *name;
    size_t offset;
    bool is_count;
} settings[] = {
    {"model", offsetof(struct plan_arguments, model), false},
    {"platform", offsetof(struct plan_arguments, platform), false},
    {"algorithm", offsetof(struct plan_arguments, algorithm), false},
    {"schedule", offsetof(struct plan_arguments, schedule), false},
    {"optimizer", offsetof(struct plan_arguments, optimizer), false},
    {"recompute", offsetof(struct plan_arguments, recompute), false},
    {"stages", offsetof(struct plan_arguments, stages), true},
    {"replicas", offsetof(struct plan_arguments, replicas), true},
    {"tensor-parallel", offsetof(struct plan_arguments, tensor_parallel), true},
    {"expert-parallel", offsetof(struct plan_arguments, expert_parallel), true},
    {"chunks", offsetof(struct plan_arguments, chunks), true},
    {"zero", offsetof(struct plan_arguments, zero), true},
    {"microbatches", offsetof(struct plan_arguments, microbatches), true},
    {"microbatch-size", offsetof(struct plan_arguments, microbatch_size), true},
    {"batch", offsetof(struct plan_arguments, batch), true},
    {"finalists", offsetof(struct plan_arguments, finalists), true},
    {"seed", offsetof(struct plan_arguments, seed), true},
};

static const char *setting_name(size_t i)
{
    return settings[i].name;
}

enum status point_set(struct plan_arguments *s, const char *key, const char *value)
{
    size_t i;
    if (text_find("setting", key, setting_name, sizeof settings / sizeof *settings, &i) !=
        STATUS_OK)
        return error_context(STATUS_USAGE, "plans");
    void *field = (char *)s + settings[i].offset;
    if (!settings[i].is_count) {
        *(const char **)field = value;
        return STATUS_OK;
    }
    char *end;
    errno = 0;
    unsigned long long count = strtoull(value, &end, 10);
    if (errno || end == value || *end || *value < '0' || *value > '9' || count > MOST)
        return error_set(STATUS_USAGE, "%s: '%.40s' is not a number up to 10 million", key, value);
    *(size_t *)field = count;
    return STATUS_OK;
}
