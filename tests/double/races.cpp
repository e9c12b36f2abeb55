/* What happens before what, by vector clocks, and accesses to the same memory that nothing orders.
 *
 * Actors are the host (all of its threads are one, number 0: what one knows the others may) and the
 * streams. An op knows what its stream did before, what the host knew when it queued the op, and
 * what the stream has waited for; the host learns by waiting. Two accesses of which one writes are
 * ordered if the later one's op knows of the earlier: else they are a race, whether or not anything
 * went wrong this time. */
#include "tests/double/double.h"

#include <algorithm>
#include <map>

namespace dbl
{

std::vector<uint32_t> &host_seen = *new std::vector<uint32_t>(1);

namespace
{

std::vector<std::string> &actor_names = *new std::vector<std::string>{"the host"};

/* What an actor did at its time `tick`. */
struct access {
    size_t actor;
    uint32_t tick; /* 0: nothing */
    const char *what;
};

/* Memory up to `end`, from the key of the map on: all of it was accessed alike. */
struct piece {
    const char *end;
    access write;
    std::vector<access> reads; /* since; the newest of each actor */
};

std::mutex &guard = *new std::mutex;
std::map<const char *, piece> &history = *new std::map<const char *, piece>;

bool is_known(const access &a, const std::vector<uint32_t> &seen)
{
    return a.tick == 0 || (a.actor < seen.size() && seen[a.actor] >= a.tick);
}

/* Make `at` the beginning of a piece, if it is inside one. */
void cut(const char *at)
{
    auto i = history.upper_bound(at);
    if (i == history.begin())
        return;
    --i;
    if (i->first == at || i->second.end <= at)
        return;
    piece rest = i->second;
    i->second.end = at;
    history[at] = rest;
}

/* A hole in the history becomes pieces of it. */
void fill(const char *from, const char *to)
{
    for (const char *at = from; at < to;) {
        auto i = history.lower_bound(at);
        if (i != history.end() && i->first == at) {
            at = i->second.end;
            continue;
        }
        const char *end = i == history.end() ? to : std::min(to, i->first);
        history[at] = piece{end, {0, 0, NULL}, {}};
        at = end;
    }
}

void report(const op &o, const char *at, size_t bytes, bool writes, const access &other,
            bool other_wrote)
{
    complain("race: '%s' on %s %s what '%s' on %s has %s, and nothing orders them: %zu bytes, "
             "byte %zu of an allocation",
             o.what, o.on->name.c_str(), writes ? "writes" : "reads", other.what,
             actor_names[other.actor].c_str(), other_wrote ? "written" : "read", bytes,
             offset_of(at));
}

void remember(piece &p, const access &now, bool writes)
{
    if (writes) {
        p.write = now;
        p.reads.clear();
        return;
    }
    for (access &r : p.reads)
        if (r.actor == now.actor) {
            r = now;
            return;
        }
    p.reads.push_back(now);
}

void check(const op &o, const char *at, size_t bytes, bool writes)
{
    std::lock_guard<std::mutex> l(guard);
    const std::vector<uint32_t> &seen = o.on->seen;
    const access now = {o.on->actor, seen[o.on->actor], o.what};
    cut(at);
    cut(at + bytes);
    fill(at, at + bytes);
    for (auto i = history.find(at); i != history.end() && i->first < at + bytes; ++i) {
        piece &p = i->second;
        size_t n = (size_t)(p.end - i->first);
        if (!is_known(p.write, seen))
            report(o, i->first, n, writes, p.write, true);
        for (const access &r : p.reads)
            if (writes && !is_known(r, seen))
                report(o, i->first, n, writes, r, false);
        remember(p, now, writes);
    }
}

} // namespace

size_t new_actor(const std::string &name)
{
    actor_names.push_back(name);
    return actor_names.size() - 1;
}

void join(std::vector<uint32_t> &into, const std::vector<uint32_t> &other)
{
    if (into.size() < other.size())
        into.resize(other.size());
    for (size_t k = 0; k < other.size(); k++)
        into[k] = std::max(into[k], other[k]);
}

void host_learns(const std::vector<uint32_t> &seen)
{
    join(host_seen, seen);
    pinned_learns();
}

void touch(op &o, const void *data, size_t bytes, bool writes)
{
    int gpu = gpu_of(data);
    if (bytes == 0)
        return;
    if (gpu < 0 ? !is_pinned(data, bytes) : !is_live(data, bytes))
        complain("'%s' on %s of GPU %d %s %zu bytes that are not inside one allocation%s", o.what,
                 o.on->name.c_str(), o.on->gpu, writes ? "writes" : "reads", bytes,
                 gpu < 0 ? ", but the host's" : "");
    if (gpu >= 0)
        memory_open(may_touch(o.on->gpu) | 1u << gpu);
    if (wants_races())
        check(o, (const char *)data, bytes, writes);
}

void forget(const void *data, size_t bytes)
{
    std::lock_guard<std::mutex> l(guard);
    const char *at = (const char *)data;
    cut(at);
    cut(at + bytes);
    history.erase(history.lower_bound(at), history.lower_bound(at + bytes));
}

} // namespace dbl
