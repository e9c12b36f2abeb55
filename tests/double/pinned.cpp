/* Pinned memory of the host. While a copy to it is queued that the host has not waited for, the
 * host may not look at it; while a copy from it is, the host may not write to it. Its pages are
 * taken away meanwhile (with $DOUBLE_RACES): the engine has another view of them. */
#include "tests/double/double.h"

#include <map>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

namespace dbl
{

namespace
{

const size_t page = 4096;

struct block {
    size_t bytes, room;
    char *other; /* the engine's view */
};

/* A copy that the host has not waited for. */
struct guarded {
    char *data;
    size_t bytes;
    size_t actor;
    uint64_t tick;
    bool writes; /* the copy does */
    const char *what;
};

std::mutex &lock = *new std::mutex;
std::map<const char *, block> &blocks = *new std::map<const char *, block>;
std::vector<guarded> &guards = *new std::vector<guarded>;

std::map<const char *, block>::iterator block_of(const void *data, size_t bytes)
{
    const char *at = (const char *)data;
    auto i = blocks.upper_bound(at);
    if (i == blocks.begin())
        return blocks.end();
    --i;
    return at < i->first + i->second.room && at + bytes <= i->first + i->second.bytes
               ? i
               : blocks.end();
}

/* Pages of data [bytes] as the guards that are left want them. */
void protect(const char *data, size_t bytes)
{
    char *first = (char *)((uintptr_t)data / page * page);
    for (char *p = first; p < data + bytes; p += page) {
        int how = PROT_READ | PROT_WRITE;
        for (const guarded &g : guards)
            if (g.data < p + page && p < g.data + g.bytes)
                how = g.writes ? PROT_NONE : how == PROT_NONE ? how : PROT_READ;
        mprotect(p, page, how);
    }
}

} // namespace

void *pinned_new(size_t bytes)
{
    size_t room = (bytes / page + 1) * page;
    int fd = memfd_create("double", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)room))
        return NULL;
    char *view[2];
    for (char *&v : view)
        v = (char *)mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    memset(view[0], 0xff, room);
    std::lock_guard<std::mutex> l(lock);
    blocks[view[0]] = block{bytes, room, view[1]};
    return view[0];
}

bool pinned_free(void *data)
{
    std::lock_guard<std::mutex> l(lock);
    auto i = blocks.find((const char *)data);
    if (i == blocks.end())
        return false;
    munmap(data, i->second.room);
    munmap(i->second.other, i->second.room);
    blocks.erase(i);
    return true;
}

bool is_pinned(const void *data, size_t bytes)
{
    std::lock_guard<std::mutex> l(lock);
    return block_of(data, bytes) != blocks.end();
}

char *engine_view(const void *data)
{
    std::lock_guard<std::mutex> l(lock);
    auto i = block_of(data, 1);
    return i == blocks.end() ? (char *)(uintptr_t)data
                             : i->second.other + ((const char *)data - i->first);
}

void pinned_guard(const void *data, size_t bytes, const stream *s, const char *what, bool writes)
{
    if (!wants_races())
        return;
    std::lock_guard<std::mutex> l(lock);
    guards.push_back({(char *)(uintptr_t)data, bytes, s->actor, s->queued, writes, what});
    protect((const char *)data, bytes);
}

void pinned_learns()
{
    std::lock_guard<std::mutex> l(lock);
    for (size_t k = guards.size(); k-- > 0;) {
        guarded g = guards[k];
        if (g.actor >= host_seen.size() || host_seen[g.actor] < g.tick)
            continue;
        guards.erase(guards.begin() + (ptrdiff_t)k);
        protect(g.data, g.bytes);
    }
}

/* No lock: either the process ends here, or it looks at other bytes of a page that is taken away:
 * it may, and the page stays until the next copy. */
bool pinned_fault(const void *at, const char **what)
{
    *what = NULL;
    for (const guarded &g : guards)
        if (at >= (const void *)g.data && at < (const void *)(g.data + g.bytes))
            *what = g.what;
    for (auto &b : blocks)
        if (at >= (const void *)b.first && at < (const void *)(b.first + b.second.room)) {
            if (!*what)
                mprotect((char *)((uintptr_t)at / page * page), page, PROT_READ | PROT_WRITE);
            return true;
        }
    return false;
}

} // namespace dbl
