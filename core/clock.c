/* The monotonic clock and the process's CPU clock as seconds. */
#include "core/clock.h"

#include <errno.h>
#include <math.h>
#include <time.h>

static double seconds_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double clock_now(void)
{
    return seconds_of(CLOCK_MONOTONIC);
}

double clock_cpu(void)
{
    return seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

void clock_sleep_until(double moment_s)
{
    double whole = floor(moment_s);
    struct timespec t = {.tv_sec = (time_t)whole, .tv_nsec = (long)((moment_s - whole) * 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

const char *clock_utc(const char *format, char text[CLOCK_UTC])
{
    time_t now = time(NULL);
    struct tm utc;
    if (!strftime(text, CLOCK_UTC, format ? format : "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc)))
        *text = '\0';
    return text;
}
