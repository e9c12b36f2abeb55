/* What has been done, for tests to read. */
#include "tests/double/log.h"

#include <map>
#include <mutex>
#include <set>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <unistd.h>

#include "tests/double/double.h"

namespace dbl
{

namespace
{

FILE *open_log()
{
    const char *prefix = getenv("DOUBLE_LOG");
    if (!prefix || !*prefix)
        return NULL;
    int rank = rank_here();
    std::string path = std::string(prefix) + "." + std::to_string(rank >= 0 ? rank : getpid());
    return fopen(path.c_str(), "w");
}

thread_local unsigned long counts[HAPPENINGS];
thread_local double flops, traffic;
thread_local std::set<std::string> loaded;     /* since the thread began */
thread_local std::set<const void *> time_from; /* in this step */
thread_local unsigned long loads;
thread_local std::map<std::string, unsigned long> launched; /* of each kernel, in this step */
/* Of each product by its shape, in this step; the last one, of which the next work is. */
struct work {
    unsigned long times;
    double flop, bytes;
};
thread_local std::map<std::string, work> multiplied;
thread_local work *last_product;
thread_local bool is_waiting; /* has waited since the last launch */

} // namespace

void log_line(const char *format, ...)
{
    static FILE *const to = open_log();
    static std::mutex &guard = *new std::mutex;
    if (!to)
        return;
    std::lock_guard<std::mutex> l(guard);
    va_list list;
    va_start(list, format);
    vfprintf(to, format, list);
    va_end(list);
    fputc('\n', to);
    fflush(to);
}

static bool is_work(happening h)
{
    return h <= PRODUCT || h == GRAPH;
}

/* A wait counts when something is launched after it: the queue has run dry meanwhile. */
void count(happening h)
{
    if (h == WAIT) {
        is_waiting = true;
        return;
    }
    counts[h]++;
    if (is_work(h) && is_waiting)
        counts[WAIT]++;
    is_waiting = is_work(h) ? false : is_waiting;
}

void count_kernel(const char *name)
{
    count(KERNEL);
    launched[name]++;
}

void count_work(double flop, double bytes)
{
    flops += flop;
    traffic += bytes;
    if (last_product)
        *last_product = {last_product->times + 1, last_product->flop + flop,
                         last_product->bytes + bytes};
    last_product = NULL;
}

void count_bytes(long step, const char *name, size_t read, size_t written)
{
    if (step >= 0 && wants_races())
        log_line("#bytes\t%d\t%ld\t%zu\t%zu\t%s", rank_here(), step, read, written, name);
}

void count_load(const std::string &what)
{
    if (loaded.insert(what).second)
        loads++;
    if (what.compare(0, 8, "product ") == 0)
        last_product = &multiplied[what.substr(8)];
}

void count_time_from(const void *event)
{
    time_from.insert(event);
}

void count_begin()
{
    flops = traffic = 0;
    loads = 0;
    time_from.clear();
    launched.clear();
    multiplied.clear();
    last_product = NULL;
    for (unsigned long &c : counts)
        c = 0;
    is_waiting = false;
}

void count_end(long step)
{
    log_line("#step\t%d\t%ld\t%lu\t%lu\t%lu\t%lu\t%lu\t%.0f\t%.0f\t%lu\t%zu\t%lu", rank_here(),
             step, counts[KERNEL], counts[PRODUCT], counts[COPY], counts[WAIT], counts[PAGEABLE],
             flops, traffic, loads, time_from.size(), counts[GRAPH]);
    for (const auto &k : launched)
        log_line("#kernel\t%d\t%ld\t%lu\t%s", rank_here(), step, k.second, k.first.c_str());
    for (const auto &p : multiplied)
        log_line("#product\t%d\t%ld\t%lu\t%.0f\t%.0f\t%s", rank_here(), step, p.second.times,
                 p.second.flop, p.second.bytes, p.first.c_str());
}

} // namespace dbl
