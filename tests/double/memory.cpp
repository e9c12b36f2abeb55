/* Memory of the GPUs: addresses of one range per GPU, which nobody but the engine may touch, and it
 * only those of the GPU at work. */
#include "tests/double/double.h"
#include "tests/double/log.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

namespace dbl
{

char *arena;

namespace
{

const size_t page = 4096;
const size_t most_filled = 16 << 20; /* more would only cost time: cuBLAS's workspace */

std::mutex &guard = *new std::mutex;
std::map<const char *, size_t> &pieces = *new std::map<const char *, size_t>; /* live */
std::map<const char *, size_t> &holes = *new std::map<const char *, size_t>;  /* freed */
size_t top[MOST_GPUS], used[MOST_GPUS];                                       /* bytes */
uint32_t peers[MOST_GPUS];
uint32_t open_gpus; /* mask */
struct sigaction before;

/* The host has touched what it may not: say so, and let it fall. */
void on_fault(int number, siginfo_t *info, void *)
{
    const char *at = (const char *)info->si_addr, *what;
    bool pinned = pinned_fault(at, &what);
    if (pinned && !what)
        return;
    if (pinned)
        remark("race: the host touches pinned memory while '%s' is not known to be complete", what);
    else if (at >= arena && at < arena + MOST_GPUS * gpu_bytes)
        remark("the host touches memory of GPU %d", (int)((size_t)(at - arena) / gpu_bytes));
    sigaction(number, &before, NULL);
}

void reserve()
{
    void *got = mmap(NULL, MOST_GPUS * gpu_bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED)
        abort();
    arena = (char *)got;
    struct sigaction mine;
    memset(&mine, 0, sizeof mine);
    mine.sa_sigaction = on_fault;
    mine.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &mine, &before);
}

void protect(int gpu, bool opens)
{
    if (top[gpu] > 0)
        mprotect(arena + (size_t)gpu * gpu_bytes, top[gpu],
                 opens ? PROT_READ | PROT_WRITE : PROT_NONE);
}

/* Freed memory is used again only when there is no other: who still uses it finds NANs. */
char *from_holes(int gpu, size_t bytes)
{
    const char *low = arena + (size_t)gpu * gpu_bytes;
    for (auto &h : holes)
        if (h.first >= low && h.first < low + gpu_bytes && h.second >= bytes) {
            char *data = const_cast<char *>(h.first);
            size_t rest = h.second - bytes;
            holes.erase(data);
            if (rest > 0)
                holes[data + bytes] = rest;
            return data;
        }
    return NULL;
}

/* The entry of `m` that contains all of data [bytes]. */
bool contains(const std::map<const char *, size_t> &m, const void *data, size_t bytes)
{
    const char *at = (const char *)data;
    auto i = m.upper_bound(at);
    if (i == m.begin())
        return false;
    --i;
    return at + bytes <= i->first + i->second && at < i->first + i->second;
}

} // namespace

int gpu_count()
{
    const char *told = getenv("DOUBLE_GPUS");
    int n = told && *told ? atoi(told) : 8;
    return n < 0 ? 0 : std::min(n, (int)MOST_GPUS);
}

void *memory_new(int gpu, size_t bytes)
{
    std::lock_guard<std::mutex> l(guard);
    if (!arena)
        reserve();
    if (bytes > gpu_bytes)
        return NULL;
    size_t room = (std::max(bytes, (size_t)1) + page - 1) / page * page;
    char *data;
    if (top[gpu] + room <= gpu_bytes) {
        data = arena + (size_t)gpu * gpu_bytes + top[gpu];
        top[gpu] += room;
    } else if (!(data = from_holes(gpu, room))) {
        return NULL;
    }
    mprotect(data, room, PROT_READ | PROT_WRITE);
    if (room <= most_filled && !computes_nothing())
        memset(data, 0xff, room); /* NANs */
    if (!(open_gpus >> gpu & 1))
        mprotect(data, room, PROT_NONE);
    pieces[data] = std::max(bytes, (size_t)1);
    if (used[gpu] == 0)
        log_line("#gpu\t%d\t%d", rank_here(), gpu);
    used[gpu] += room;
    return data;
}

size_t memory_free(void *data)
{
    std::lock_guard<std::mutex> l(guard);
    auto i = pieces.find((const char *)data);
    if (i == pieces.end())
        return 0;
    size_t bytes = i->second, room = (i->second + page - 1) / page * page;
    madvise(data, room, MADV_DONTNEED);
    used[((char *)data - arena) / (ptrdiff_t)gpu_bytes] -= room;
    holes[(const char *)data] = room;
    pieces.erase(i);
    return bytes;
}

int gpu_of(const void *data)
{
    const char *at = (const char *)data;
    if (!arena || at < arena || at >= arena + MOST_GPUS * gpu_bytes)
        return -1;
    return (int)((size_t)(at - arena) / gpu_bytes);
}

bool is_live(const void *data, size_t bytes)
{
    std::lock_guard<std::mutex> l(guard);
    return contains(pieces, data, bytes);
}

size_t memory_used(int gpu)
{
    std::lock_guard<std::mutex> l(guard);
    return used[gpu];
}

size_t offset_of(const void *data)
{
    std::lock_guard<std::mutex> l(guard);
    auto i = pieces.upper_bound((const char *)data);
    return i == pieces.begin() ? 0 : (size_t)((const char *)data - (--i)->first);
}

void let(int gpu, int peer)
{
    std::lock_guard<std::mutex> l(guard);
    peers[gpu] |= 1u << peer;
}

uint32_t may_touch(int gpu)
{
    std::lock_guard<std::mutex> l(guard);
    return peers[gpu] | 1u << gpu;
}

void memory_open(uint32_t gpus)
{
    std::lock_guard<std::mutex> l(guard);
    if (gpus == open_gpus)
        return;
    for (int g = 0; g < MOST_GPUS; g++)
        if (((gpus ^ open_gpus) >> g & 1) != 0)
            protect(g, (gpus >> g & 1) != 0);
    open_gpus = gpus;
}

void memory_close()
{
    memory_open(0);
}

} // namespace dbl
