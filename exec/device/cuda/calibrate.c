#include "exec/device/cuda/calibrate.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "exec/calibrate/probe.h"
#include "exec/device/cuda/context.h"

/* ---- the GPU as what is measured */

/* Pairs of events, of ops that are still queued. */
struct watch {
    struct cuda_context context;
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

static void record(struct bench *b)
{
    struct watch *w = b->watch_self;
    cudaEvent_t event = next_event(w);
    if (event)
        CUDA_NOTE(&w->context, "event", cudaEventRecord(event, CUDA_STREAM));
}

static enum status take(struct bench *b, double *seconds)
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

static const struct bench_watch watch_gpu = {record, record, take};

static void close_watch(struct watch *w)
{
    for (size_t k = 0; k < w->room; k++)
        if (w->event[k])
            cudaEventDestroy(w->event[k]);
    free(w->event);
    cuda_context_close(&w->context);
}

/* Arrays come and go one by one here, not as a stage's. */
static void *allocate(void *self, size_t bytes)
{
    void *data = NULL;
    if (cudaMalloc(&data, bytes > 0 ? bytes : 1) != cudaSuccess)
        return NULL;
    backend_cuda.zero(self, data, bytes);
    return data;
}

static void release(void *self, void *data)
{
    CUDA_NOTE(self, "give memory back", cudaFree(data));
}

static void alone(void *context)
{
    (void)context;
}

/* ---- figures */

static enum status number(const char *text, size_t *out)
{
    char *end;
    errno = 0;
    unsigned long n = strtoul(text, &end, 10);
    if (errno || end == text || *end || n < 1 || n > CALIBRATE_REPEATS)
        return error_set(STATUS_USAGE, "'%s': expected 1 to %d", text, CALIBRATE_REPEATS);
    *out = n;
    return STATUS_OK;
}

static enum status calibrate(struct bench *b, char **argv)
{
    enum status st;
    b->task = &bench_task_gpu;
    b->half = !strcmp(argv[3], "bf16");
    TRY(number(argv[2], &b->repeats));
    b->number = calloc(bench_numbers(b), sizeof *b->number);
    if (!b->number) {
        st = error_set(STATUS_NOMEM, "%zu figures", bench_numbers(b));
        goto out;
    }
    TRY(bench_ops(b));
    calibrate_print(b->number, bench_numbers(b));
out:
    free(b->number);
    return st;
}

static enum status profile(struct bench *b, char **argv)
{
    enum status st;
    struct model m = {0};
    size_t batch;
    TRY(number(argv[3], &batch));
    TRY(number(argv[4], &b->repeats));
    TRY(model_read(argv[2], &m));
    TRY(profile_measure(b, &m, batch));
out:
    model_free(&m);
    return st;
}

static bool calibrates(int argc, char **argv)
{
    return argc == 4 && !strcmp(argv[1], calibrate_flag);
}

bool cuda_measures(int argc, char **argv)
{
    return calibrates(argc, argv) || (argc == 5 && !strcmp(argv[1], profile_flag));
}

int cuda_measure(int argc, char **argv)
{
    enum status st;
    struct watch w = {0};
    struct backend backend = backend_cuda;
    struct bench b = {.on = {&backend, &w.context},
                      .watch = &watch_gpu,
                      .watch_self = &w,
                      .ranks = 1,
                      .together = alone};
    prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0UL, 0UL, 0UL);
    backend.allocate = allocate;
    backend.release = release;
    TRY(cuda_context_open(0, &w.context));
    TRY(calibrates(argc, argv) ? calibrate(&b, argv) : profile(&b, argv));
out:
    if (st != STATUS_OK)
        fprintf(stderr, "%s%s\n", calibrate_gpu_mark, error_message());
    close_watch(&w);
    return st == STATUS_OK ? 0 : 1;
}
