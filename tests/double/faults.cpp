/* The environment: what the double is asked to do, and what it says. */
#include "tests/double/double.h"
#include "tests/double/log.h"

#include <atomic>
#include <map>
#include <random>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

namespace dbl
{

double now_s()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static const char *asked(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

int rank_here()
{
    const char *rank = asked("RANK");
    return rank ? atoi(rank) : -1;
}

bool is_seeded()
{
    static const bool is = asked("DOUBLE_SEED") != NULL;
    return is;
}

uint32_t random32()
{
    static std::mutex &guard = *new std::mutex;
    static std::mt19937 &source = *new std::mt19937([] {
        const char *seed = asked("DOUBLE_SEED");
        return (uint32_t)((seed ? atoi(seed) : 1) * 1000 + rank_here() + 1);
    }());
    std::lock_guard<std::mutex> l(guard);
    return source();
}

bool computes_nothing()
{
    static const bool is = asked("DOUBLE_NULL") != NULL;
    return is;
}

bool wants_races()
{
    static const bool wants = [] {
        const char *races = asked("DOUBLE_RACES");
        return races && *races != '0';
    }();
    return wants;
}

/* $DOUBLE_FAULTS: NAME, NAME:N or NAME:N@RANK, with commas between. */
static std::map<std::string, long> read_faults()
{
    std::map<std::string, long> faults;
    const char *at = asked("DOUBLE_FAULTS");
    while (at && *at) {
        size_t length = strcspn(at, ",");
        std::string one(at, length);
        size_t colon = one.find(':'), rank = one.find('@');
        long n = colon == std::string::npos ? 0 : atol(one.c_str() + colon + 1);
        if (rank == std::string::npos || atoi(one.c_str() + rank + 1) == rank_here())
            faults[one.substr(0, colon)] = n;
        at += length + (at[length] == ',');
    }
    return faults;
}

static const std::map<std::string, long> &faults()
{
    static const std::map<std::string, long> &all = *new std::map<std::string, long>(read_faults());
    return all;
}

bool has_fault(const char *name)
{
    return faults().count(name) > 0;
}

bool strikes(const char *kind)
{
    static std::mutex &guard = *new std::mutex;
    static std::map<std::string, long> &seen = *new std::map<std::string, long>;
    if (!has_fault(kind))
        return false;
    std::lock_guard<std::mutex> l(guard);
    return ++seen[kind] == faults().at(kind);
}

static void say(const char *format, va_list list)
{
    char line[1024];
    int n = snprintf(line, sizeof line, "double: rank %d: ", rank_here());
    n += vsnprintf(line + n, sizeof line - (size_t)n - 1, format, list);
    n = n < (int)sizeof line - 1 ? n : (int)sizeof line - 2;
    line[n++] = '\n';
    (void)!write(STDERR_FILENO, line, (size_t)n);
}

void remark(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    say(format, list);
    va_end(list);
}

void complain(const char *format, ...)
{
    enum { STATUS = 86 };
    va_list list;
    va_start(list, format);
    say(format, list);
    va_end(list);
    if (!asked("DOUBLE_GO_ON"))
        _exit(STATUS);
}

/* ---- steps */

static thread_local long step = -1;

bool in_step()
{
    return step >= 0;
}

long step_now()
{
    return step;
}

void begin_step(uint32_t number)
{
    step = number;
    count_begin();
}

void end_step()
{
    count_end(step);
    step = -1;
}

void kill_here()
{
    raise(SIGKILL);
    abort();
}

} // namespace dbl
