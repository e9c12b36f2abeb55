/* Streams, and the thread that is the GPUs of the process: it takes the first op of any stream that
 * can go on, and does it. Which one is chance if there is a seed. */
#include "tests/double/double.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>

namespace dbl
{

std::mutex &gate = *new std::mutex;

namespace
{

std::condition_variable &changed = *new std::condition_variable; /* for hosts: something is done */
int bell = -1; /* eventfd: the engine has something to do */
std::vector<pollfd> &watched = *new std::vector<pollfd>; /* what it waits for, of other processes */
std::vector<stream *> &streams = *new std::vector<stream *>;
bool has_begun;
cudaError_t fault;
thread_local int gpu_now;
thread_local cudaError_t last_error;
thread_local std::map<int, stream *> own_streams; /* cudaStreamPerThread of each GPU */

/* One in twenty ops comes up to 3 ms late. */
double chance_delay_s()
{
    return has_fault("delay") && random32() % 20 == 0 ? (random32() % 3000) * 1e-6 : 0;
}

/* The first op of the stream, if its time has come. The gate is shut. */
op *first_of(stream *s)
{
    if (s->queue.empty())
        return NULL;
    op *o = s->queue.front();
    if (!o->has_begun) {
        o->has_begun = true;
        o->not_before_s = now_s() + chance_delay_s();
        join(s->seen, o->host);
        s->seen[s->actor]++;
    }
    return now_s() >= o->not_before_s ? o : NULL;
}

/* One op of the stream, or a look at it; true: it is complete. */
bool turn(stream *s)
{
    op *o;
    {
        std::lock_guard<std::mutex> l(gate);
        o = first_of(s);
    }
    if (!o || !o->step(*o))
        return false;
    {
        std::lock_guard<std::mutex> l(gate);
        if (s->queue.size() == 1)
            memory_close(); /* before anyone hears that all is done */
        s->queue.pop_front();
        s->done++;
    }
    changed.notify_all();
    delete o;
    return true;
}

void bury_dead_streams()
{
    for (size_t k = streams.size(); k-- > 0;)
        if (streams[k]->is_dead && streams[k]->queue.empty()) {
            delete streams[k];
            streams.erase(streams.begin() + (ptrdiff_t)k);
        }
}

/* Nothing can go on: until someone rings, a message comes, or a delay may be over. */
void sleep_until_rung()
{
    uint64_t rings;
    bool queued;
    {
        std::lock_guard<std::mutex> l(gate);
        queued = std::any_of(streams.begin(), streams.end(),
                             [](const stream *s) { return !s->queue.empty(); });
    }
    watched.push_back({bell, POLLIN, 0});
    poll(watched.data(), watched.size(), has_fault("delay") && queued ? 1 : queued ? 5 : 1000);
    (void)!read(bell, &rings, sizeof rings);
}

void engine()
{
    std::vector<stream *> all;
    for (;;) {
        {
            std::lock_guard<std::mutex> l(gate);
            bury_dead_streams();
            all = streams;
        }
        watched.clear();
        if (is_seeded())
            for (size_t k = all.size(); k > 1; k--)
                std::swap(all[k - 1], all[random32() % k]);
        bool any = false;
        for (stream *s : all)
            while (turn(s)) {
                any = true;
                if (is_seeded())
                    break;
            }
        if (any)
            continue;
        memory_close();
        sleep_until_rung();
    }
}

void tell_queues(const char *who)
{
    std::string text;
    for (const stream *s : streams)
        if (!s->queue.empty())
            text += " " + s->name + ":" + s->queue.front()->what + "(+" +
                    std::to_string(s->queue.size() - 1) + ")";
    remark("%s has blocked the host for 5 s; queued:%s", who, text.c_str());
}

} // namespace

int current_gpu()
{
    return gpu_now;
}

void set_current_gpu(int gpu)
{
    gpu_now = gpu;
}

stream *stream_new(int gpu, const std::string &name)
{
    stream *s = new stream();
    s->gpu = gpu;
    s->name = name;
    std::lock_guard<std::mutex> l(gate);
    s->actor = new_actor(name);
    s->seen.resize(s->actor + 1);
    streams.push_back(s);
    return s;
}

void stream_retire(stream *s)
{
    std::lock_guard<std::mutex> l(gate);
    s->is_dead = true;
}

stream *stream_of(cudaStream_t handle)
{
    if (handle && handle != cudaStreamPerThread && handle != cudaStreamLegacy)
        return (stream *)handle;
    stream *&s = own_streams[gpu_now];
    if (!s)
        s = stream_new(gpu_now, "compute");
    return s;
}

void put(stream *s, const char *what, std::function<bool(op &)> step)
{
    put_copy(s, what, std::move(step), NULL, 0, false);
}

void put_copy(stream *s, const char *what, std::function<bool(op &)> step, const void *pinned,
              size_t bytes, bool writes)
{
    std::lock_guard<std::mutex> l(gate);
    if (s->into) {
        s->into->nodes.push_back({what, std::move(step), pinned, bytes, writes});
        return;
    }
    if (!has_begun) {
        has_begun = true;
        bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        std::thread(engine).detach();
    }
    host_seen[0]++;
    s->queue.push_back(new op{what, std::move(step), s, host_seen, 0, false});
    s->queued++;
    engine_nudge();
    if (pinned)
        pinned_guard(pinned, bytes, s, what, writes);
}

void engine_nudge()
{
    uint64_t one = 1;
    if (bell >= 0)
        (void)!write(bell, &one, sizeof one);
}

void watch(int fd)
{
    watched.push_back({fd, POLLIN, 0});
}

void wait_until(const char *who, const std::function<bool()> &idle)
{
    const double patience_s = 5;
    std::unique_lock<std::mutex> l(gate);
    double begin_s = now_s();
    for (bool told = false; !idle();) {
        changed.wait_for(l, std::chrono::milliseconds(5));
        if (!told && now_s() - begin_s > patience_s) {
            told = true;
            tell_queues(who);
        }
    }
}

void device_wait(const char *who)
{
    int gpu = gpu_now;
    if (in_step())
        complain("%s in a step waits for the whole device", who);
    wait_until(who, [gpu] {
        return std::all_of(streams.begin(), streams.end(),
                           [gpu](const stream *s) { return s->gpu != gpu || s->queue.empty(); });
    });
    std::lock_guard<std::mutex> l(gate);
    for (const stream *s : streams)
        if (s->gpu == gpu)
            host_learns(s->seen);
}

cudaError_t sticky()
{
    std::lock_guard<std::mutex> l(gate);
    return fault;
}

void make_sticky(cudaError_t e)
{
    std::lock_guard<std::mutex> l(gate);
    fault = fault ? fault : e;
}

cudaError_t note_error(cudaError_t e)
{
    if (e == cudaSuccess)
        e = sticky();
    if (e != cudaSuccess && e != cudaErrorNotReady)
        last_error = e;
    return e;
}

} // namespace dbl

extern "C" cudaError_t cudaGetLastError(void)
{
    cudaError_t e = dbl::last_error;
    dbl::last_error = cudaSuccess;
    return e;
}

extern "C" cudaError_t cudaPeekAtLastError(void)
{
    return dbl::last_error;
}
