/* clock.h - the clocks that everything is timed by, in seconds. */
#ifndef CORE_BASE_CLOCK_H
#define CORE_BASE_CLOCK_H

/* CLOCK_MONOTONIC: one clock for all processes of a machine, for durations and deadlines. */
double clock_now(void);
/* What to add to clock_now() for Unix time: seconds since 1970, as other machines count them. */
double clock_unix_offset(void);
/* CPU seconds of this process, all threads together. */
double clock_cpu(void);
/* CPU seconds of this thread; of all children waited for, and theirs; and of the whole machine
 * since it started, with what its host took from it; 0 where it does not say. */
double clock_thread_cpu(void);
double clock_children_cpu(void);
double clock_machine_cpu(void);
/* Sleep until clock_now() has reached that moment; returns at once when it has passed. */
void clock_sleep_until(double moment_s);

/* Now, in UTC, as strftime() formats it; format NULL: "2026-11-21T17:50:03Z". Returns `text`. */
enum { CLOCK_UTC = 32 };
const char *clock_utc(const char *format, char text[CLOCK_UTC]);

#endif
