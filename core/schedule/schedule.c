/* The table of pipeline schedules. */
#include "core/schedule/schedule.h"

#include "core/base/text.h"

#define SCHEDULE(name) &schedule_##name,
const struct schedule *const schedules[] = {
#include "core/schedule/schedules.def"
};
#undef SCHEDULE
const size_t schedules_n = sizeof schedules / sizeof *schedules;

const char *schedule_name(size_t i)
{
    return i < schedules_n ? schedules[i]->name : NULL;
}

/* The table has one usual schedule of either sort. */
const char *schedule_usual(bool chunked)
{
    size_t i = 0;
    while (!schedules[i]->usual || schedules[i]->chunked != chunked)
        i++;
    return schedules[i]->name;
}

enum status schedule_find(const char *name, const struct schedule **out)
{
    return text_find("schedule", name, schedules, schedules_n, out);
}
