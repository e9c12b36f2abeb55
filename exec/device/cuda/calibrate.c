#include "exec/device/cuda/calibrate.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/limit.h"
#include "core/base/text.h"
#include "exec/calibrate/probe.h"
#include "exec/device/cuda/attention_cudnn.h"
#include "exec/device/cuda/context.h"
#include "exec/device/cuda/hardware.h"
#include "exec/device/cuda/nvml.h"
#include "exec/device/cuda/times.h"
#include "exec/hardware.h"
#include "exec/team.h"

/* ---- the GPU as what is measured */

/* Pairs of events, of ops that are still queued. */
struct watch {
    struct cuda_context context;
    char bus[HARDWARE_BUS];
    size_t room, n; /* events there are, and used */
    cudaEvent_t *event;
};

/* Events are kept and used again: making one takes longer than what is measured. */
static cudaEvent_t next_event(struct watch *w)
{
    if (w->n == w->room) {
        size_t room = 2 * w->room + 256;
        cudaEvent_t *more = realloc(w->event, room * sizeof(cudaEvent_t));
        if (!more) {
            CUDA_NOTE(&w->context, "events", cudaErrorMemoryAllocation);
            return NULL;
        }
        w->event = more;
        for (; w->room < room; w->room++) {
            w->event[w->room] = NULL;
            CUDA_NOTE(&w->context, "event", cudaEventCreate(&w->event[w->room]));
        }
    }
    return w->event[w->n++];
}

static void cuda_bench_record(struct bench *b)
{
    struct watch *w = b->watch_self;
    cudaEvent_t event = next_event(w);
    if (event)
        CUDA_NOTE(&w->context, "event", cudaEventRecord(event, CUDA_STREAM));
}

static enum status cuda_bench_take_time(struct bench *b, double *seconds)
{
    enum status st;
    struct watch *w = b->watch_self;
    float ms;
    double sum = 0;
    TRY(cuda_finish(&w->context));
    for (size_t k = 0; k + 1 < w->n; k += 2) {
        TRY(CUDA_ERROR("time", cudaEventElapsedTime(&ms, w->event[k], w->event[k + 1])));
        sum += (double)ms;
    }
    w->n = 0;
    *seconds = sum * 1e-3;
out:
    return st;
}

static bool power(struct bench *b, double figure[3])
{
    const struct watch *w = b->watch_self;
    struct nvml_figures f;
    if (!nvml_read(w->bus, &f))
        return false;
    figure[0] = f.clock_Hz;
    figure[1] = f.memory_Hz;
    figure[2] = f.watts;
    return true;
}

static const struct bench_watch watch_gpu = {cuda_bench_record, cuda_bench_record,
                                             cuda_bench_take_time, power};

static void close_watch(struct watch *w)
{
    for (size_t k = 0; k < w->room; k++)
        if (w->event[k])
            cudaEventDestroy(w->event[k]);
    free(w->event);
    cuda_context_close(&w->context);
}

/* Arrays come and go one by one here, not as a stage's. */
static void *cuda_bench_allocate(void *self, size_t bytes)
{
    void *data = NULL;
    if (cudaMalloc(&data, bytes > 0 ? bytes : 1) != cudaSuccess)
        return NULL;
    backend_cuda.zero(self, data, bytes);
    return data;
}

static void cuda_bench_release(void *self, void *data)
{
    CUDA_NOTE(self, "give memory back", cudaFree(data));
}

/* ---- figures */

static enum status cuda_bench_number(const char *text, size_t most, size_t *out)
{
    uint64_t n;
    if (!text_count(text, most, &n) || n < 1)
        return error_set(STATUS_USAGE, "got '%s', expected a number from 1 to %zu", text, most);
    *out = n;
    return STATUS_OK;
}

static void cuda_bench_no_barrier(void *context)
{
    (void)context;
}

/* What all ranks are to measure: the caller (exec/calibrate/calibrate.c) has made the same of
 * it. */
struct order {
    struct bench_shapes shapes;
    struct model model;
    size_t repeats, ranks;
    enum element half;
    bool cudnn;
};

static bool asks_cudnn(const char *word)
{
    return !strcmp(word, calibrate_cudnn(true));
}

static enum status start_cudnn(struct cuda_context *c, bool asked)
{
    return asked && cuda_cudnn_open(c) != STATUS_OK ? error_context(STATUS_UNSUPPORTED, "--cudnn")
                                                    : STATUS_OK;
}

/* Figures without any of cuDNN's are not what was asked for. */
static enum status check_cudnn(const struct cuda_context *c, bool asked)
{
    size_t shapes;
    const char *remark = cuda_cudnn_remark(c, &shapes);
    return asked && shapes == 0 ? error_set(STATUS_UNSUPPORTED, "--cudnn: %s", remark) : STATUS_OK;
}

static void order_free(struct order *o)
{
    bench_shapes_free(&o->shapes);
    model_free(&o->model);
}

static enum status order_read(char **argv, struct order *out)
{
    enum status st;
    size_t largest = 0, batch = 0;
    struct order o = {.cudnn = asks_cudnn(argv[8])};
    bool any = strcmp(argv[6], "-") != 0;
    while (o.half + 1 < ELEMENTS && strcmp(argv[3], element_names[o.half]) != 0)
        o.half++;
    TRY(cuda_bench_number(argv[2], CALIBRATE_REPEATS, &o.repeats));
    TRY(cuda_bench_number(argv[4], TEAM_MOST, &o.ranks));
    TRY(cuda_bench_number(argv[5], INT64_MAX, &largest));
    TRY(cuda_bench_number(argv[7], INT32_MAX, &batch));
    if (any)
        TRY(model_read(argv[6], &o.model));
    TRY(bench_shapes_make(any ? &o.model : NULL, batch, (int64_t)largest, &o.shapes));
    MOVE(out, o);
out:
    order_free(&o);
    return st;
}

/* One rank: b->number, and of several what they share. */
static enum status cuda_bench_measure(struct watch *w, const struct order *o, struct bench *b)
{
    enum status st;
    struct hardware h;
    struct backend backend = backend_cuda;
    struct cuda_clock clock = {0};
    b->on = (struct memory){&backend, &w->context};
    b->watch = &watch_gpu;
    b->watch_self = w;
    b->task = &o->shapes.task;
    b->ranks = o->ranks;
    b->repeats = o->repeats;
    b->half = o->half;
    b->transport = &transport_nccl;
    backend.allocate = cuda_bench_allocate;
    backend.release = cuda_bench_release;
    TRY(cuda_describe(b->rank, &h));
    TRY(cuda_context_open(h.index, &w->context));
    TRY(start_cudnn(&w->context, o->cudnn));
    snprintf(w->bus, sizeof w->bus, "%s", h.bus);
    TRY(cuda_clock_open(&clock));
    b->meeting.clock = &clock;
    TRY(b->ranks > 1 ? bench_rank(b) : bench_ops(b));
    st = check_cudnn(&w->context, o->cudnn);
out:
    cuda_clock_close(&clock);
    close_watch(w);
    return st;
}

static enum status cuda_bench_run_rank(struct team_member *me, void *context)
{
    struct watch w = {0};
    struct bench b = {.rank = me->rank,
                      .number = me->number,
                      .together = calibrate_together,
                      .context = me->together};
    b.meeting = team_meeting(me);
    char host[32];
    snprintf(host, sizeof host, "foreline%ld", (long)getpid());
    if (getenv("FORELINE_SHARE_GPU")) /* NCCL takes each for a machine (worker_main_cuda.c) */
        setenv("NCCL_HOSTID", host, 1);
    return cuda_bench_measure(&w, context, &b);
}

static enum status cuda_calibrate(char **argv)
{
    enum status st;
    struct order o = {0};
    struct watch w = {0};
    struct bench b = {.together = cuda_bench_no_barrier};
    TRY(order_read(argv, &o));
    b.task = &o.shapes.task;
    b.ranks = o.ranks;
    b.repeats = o.repeats;
    size_t n = bench_numbers(&b);
    TRY(ARRAY_NEW(b.number, n));
    TRY(o.ranks > 1 ? team_run(o.ranks, n, calibrate_limit(&b), cuda_bench_run_rank, &o, b.number)
                    : cuda_bench_measure(&w, &o, &b));
    calibrate_print(b.number, n);
out:
    free(b.number);
    order_free(&o);
    return st;
}

static enum status cuda_bench_profile(char **argv)
{
    enum status st;
    struct model m = {0};
    struct watch w = {0};
    struct backend backend = backend_cuda;
    struct bench b = {.on = {&backend, &w.context},
                      .watch = &watch_gpu,
                      .watch_self = &w,
                      .ranks = 1,
                      .together = cuda_bench_no_barrier};
    size_t batch = 0;
    backend.allocate = cuda_bench_allocate;
    backend.release = cuda_bench_release;
    TRY(cuda_bench_number(argv[3], CALIBRATE_REPEATS, &batch));
    TRY(cuda_bench_number(argv[4], CALIBRATE_REPEATS, &b.repeats));
    TRY(cuda_context_open(0, &w.context));
    TRY(start_cudnn(&w.context, asks_cudnn(argv[5])));
    TRY(model_read(argv[2], &m));
    TRY(profile_measure(&b, &m, batch));
    st = check_cudnn(&w.context, asks_cudnn(argv[5]));
out:
    model_free(&m);
    close_watch(&w);
    return st;
}

static bool calibrates(int argc, char **argv)
{
    return argc == CALIBRATE_WORDS + 1 && !strcmp(argv[1], calibrate_flag);
}

bool cuda_measures(int argc, char **argv)
{
    return calibrates(argc, argv) || (argc == 6 && !strcmp(argv[1], profile_flag));
}

int cuda_measure(int argc, char **argv)
{
    prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0UL, 0UL, 0UL);
    enum status st = limits_inherit();
    if (st == STATUS_OK)
        st = calibrates(argc, argv) ? cuda_calibrate(argv) : cuda_bench_profile(argv);
    if (st != STATUS_OK)
        fprintf(stderr, "%s%s\n", calibrate_gpu_mark, error_message());
    return st == STATUS_OK ? 0 : 1;
}
