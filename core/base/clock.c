/* The monotonic clock, and CPU time of threads, processes and the machine, as seconds. */
#include "core/base/clock.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static double timespec_seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double clock_now(void)
{
    return timespec_seconds(CLOCK_MONOTONIC);
}

double clock_unix_offset(void)
{
    return timespec_seconds(CLOCK_REALTIME) - timespec_seconds(CLOCK_MONOTONIC);
}

double clock_cpu(void)
{
    return timespec_seconds(CLOCK_PROCESS_CPUTIME_ID);
}

double clock_thread_cpu(void)
{
    return timespec_seconds(CLOCK_THREAD_CPUTIME_ID);
}

double clock_children_cpu(void)
{
    struct rusage u;
    getrusage(RUSAGE_CHILDREN, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

double clock_machine_cpu(void)
{
    double user, nice, system, idle, wait, irq, softirq, steal, busy_s = 0;
    FILE *f = fopen("/proc/stat", "r");
    if (!f)
        return 0;
    if (fscanf(f, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &user, &nice, &system, &idle, &wait, &irq,
               &softirq, &steal) == 8)
        busy_s = (user + nice + system + irq + softirq + steal) / (double)sysconf(_SC_CLK_TCK);
    fclose(f);
    return busy_s;
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
