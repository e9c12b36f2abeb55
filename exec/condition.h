/* condition.h - condition variables that are waited for until a moment of clock_now(). */
#ifndef EXEC_CONDITION_H
#define EXEC_CONDITION_H

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "core/base/error.h"

/* A condition on CLOCK_MONOTONIC, to be released by pthread_cond_destroy(). STATUS_NOMEM. */
static inline enum status condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes))
        return error_set(STATUS_NOMEM, "condition attributes");
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
    return STATUS_OK;
}

/* Until somebody signals, or for no reason; false: the deadline has passed. The mutex is held. */
static inline bool condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  double deadline_s)
{
    struct timespec limit = {.tv_sec = (time_t)floor(deadline_s)};
    limit.tv_nsec = (long)((deadline_s - floor(deadline_s)) * 1e9);
    return pthread_cond_timedwait(condition, mutex, &limit) != ETIMEDOUT;
}

#endif
