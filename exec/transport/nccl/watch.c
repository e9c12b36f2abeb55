/* Who looks after calls of NCCL, which may block for ever when another rank is gone: a thread that
 * sees what is wrong and aborts all communicators. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/limit.h"
#include "exec/device/cuda/context.h"
#include "exec/transport/nccl/nccl.h"

static const double period_s = 0.05;

/* NCCL may report an error before it is known which rank has ended. */
static double doubt_s(void)
{
    return limit_wait(1);
}

void nccl_fail(struct nccl *t, enum status st)
{
    pthread_mutex_lock(&t->state);
    if (t->links.failure == STATUS_OK) {
        t->links.failure = st;
        snprintf(t->links.reason, sizeof t->links.reason, "%.400s", error_message());
    }
    pthread_mutex_unlock(&t->state);
}

enum status nccl_failure(struct nccl *t)
{
    pthread_mutex_lock(&t->state);
    enum status st = endpoints_failure(&t->links);
    pthread_mutex_unlock(&t->state);
    return st;
}

enum status nccl_judge(struct nccl *t, enum status st)
{
    char reason[ENDPOINTS_REASON];
    snprintf(reason, sizeof reason, "%.400s", error_message());
    for (double until_s = clock_now() + doubt_s(); t->watching && clock_now() < until_s;) {
        PASS(nccl_failure(t));
        clock_sleep_until(clock_now() + period_s);
    }
    nccl_fail(t, error_set(st, "%s", reason));
    return nccl_failure(t);
}

void nccl_set_patience(struct nccl *t, double patience_s)
{
    pthread_mutex_lock(&t->state);
    t->patience_s = patience_s;
    pthread_mutex_unlock(&t->state);
}

void nccl_set_telling(struct nccl *t, bool allowed)
{
    if (t->links.rank == 0)
        (allowed ? pthread_mutex_unlock : pthread_mutex_lock)(&t->telling);
}

static void set_deadline(struct nccl *t, bool calling)
{
    pthread_mutex_lock(&t->state);
    t->deadline_s = calling ? clock_now() + t->patience_s : (double)INFINITY;
    pthread_mutex_unlock(&t->state);
}

/* That a rank waits says nothing of who is to blame; in a step the op says so
 * (endpoints_locate()). */
static enum status blame_others(struct nccl *t, enum status st)
{
    return atomic_load(&t->connected)
               ? st
               : error_context(st, "rank %u: creating communicators", t->links.rank);
}

static enum status check_deadline(struct nccl *t)
{
    pthread_mutex_lock(&t->state);
    bool late = clock_now() > t->deadline_s;
    double patience_s = t->patience_s;
    pthread_mutex_unlock(&t->state);
    if (!late)
        return STATUS_OK;
    const char *more = atomic_load(&t->connected) ? "" : "; raise it with --limit nccl=60s";
    return blame_others(
        t, error_set(STATUS_EXTERNAL, "NCCL: timeout: no answer for %g s%s", patience_s, more));
}

/* ---- calls */

enum status nccl_begin(struct nccl *t)
{
    pthread_mutex_lock(&t->calls);
    enum status st = t->aborted ? nccl_failure(t) : STATUS_OK;
    if (st != STATUS_OK)
        pthread_mutex_unlock(&t->calls);
    else
        set_deadline(t, true);
    return st;
}

/* Communicators block, unless NCCL_COMM_BLOCKING says otherwise: then polling tells the end. */
static ncclResult_t nccl_watch_settle(struct nccl *t, ncclComm_t comm, ncclResult_t e)
{
    while (e == ncclInProgress && nccl_failure(t) == STATUS_OK) {
        ncclResult_t asked = comm ? ncclCommGetAsyncError(comm, &e) : ncclSuccess;
        if (!comm || asked != ncclSuccess)
            return asked;
        if (e == ncclInProgress)
            clock_sleep_until(clock_now() + 2e-5);
    }
    return e;
}

enum status nccl_end(struct nccl *t, ncclComm_t comm, ncclResult_t e)
{
    enum status st = STATUS_OK;
    e = nccl_watch_settle(t, comm, e);
    if (e != ncclSuccess)
        st = error_set(STATUS_IO, "NCCL: %s: %s", ncclGetErrorString(e), ncclGetLastError(comm));
    set_deadline(t, false);
    pthread_mutex_unlock(&t->calls);
    return st == STATUS_OK ? st : nccl_judge(t, st);
}

enum status nccl_drain(struct nccl *t, cudaStream_t stream)
{
    cudaError_t e;
    double until_s = clock_now() + t->patience_s;
    while ((e = cudaStreamQuery(stream)) == cudaErrorNotReady) {
        PASS(nccl_failure(t));
        if (clock_now() > until_s)
            return blame_others(t,
                                error_set(STATUS_EXTERNAL,
                                          "timeout: the first message did not arrive within %g s",
                                          t->patience_s));
        clock_sleep_until(clock_now() + 5e-5);
    }
    return CUDA_ERROR("first messages", e);
}

/* ---- the thread */

/* An error of any communicator; ncclSuccess: none. A call under way reports its own. */
static ncclResult_t any_error(struct nccl *t, ncclComm_t *which)
{
    ncclResult_t e = ncclSuccess;
    if (pthread_mutex_trylock(&t->calls) != 0)
        return ncclSuccess;
    for (size_t k = 0; atomic_load(&t->connected) && k < t->comms && nccl_fine(e); k++)
        if ((*which = t->comm[k]) && ncclCommGetAsyncError(t->comm[k], &e) != ncclSuccess)
            e = ncclInternalError;
    pthread_mutex_unlock(&t->calls);
    return nccl_fine(e) ? ncclSuccess : e;
}

/* What is wrong; *error_s is when NCCL said so first, of which others may know more. */
static enum status nccl_watch_query(struct nccl *t, double *error_s)
{
    uint32_t gone;
    ncclComm_t comm = NULL;
    if (star_lost(&t->star, &gone)) {
        nccl_set_telling(t, false);
        star_tell_lost(&t->star, gone);
        nccl_set_telling(t, true);
        return blame_others(t,
                            error_set(STATUS_IO, "NCCL failed because rank %u has exited", gone));
    }
    PASS(check_deadline(t));
    ncclResult_t e = any_error(t, &comm);
    if (e != ncclSuccess && isinf(*error_s))
        *error_s = clock_now();
    if (e != ncclSuccess && clock_now() > *error_s + doubt_s())
        return error_set(STATUS_IO, "NCCL: %s: %s", ncclGetErrorString(e), ncclGetLastError(comm));
    return STATUS_OK;
}

static void *nccl_watch_run(void *self)
{
    struct nccl *t = self;
    double error_s = INFINITY;
    enum status st = CUDA_ERROR("choose the GPU", cudaSetDevice(t->gpu));
    while (st == STATUS_OK && !atomic_load(&t->stopping)) {
        st = nccl_watch_query(t, &error_s);
        if (st == STATUS_OK)
            clock_sleep_until(clock_now() + period_s);
    }
    if (st == STATUS_OK)
        return NULL;
    nccl_fail(t, st);
    nccl_abort(t);
    return NULL;
}

enum status nccl_watch(struct nccl *t)
{
    int error = pthread_create(&t->watch, NULL, nccl_watch_run, t);
    t->watching = error == 0;
    return error ? error_set(STATUS_NOMEM, "thread: %s", strerror(error)) : STATUS_OK;
}

void nccl_unwatch(struct nccl *t)
{
    atomic_store(&t->stopping, true);
    if (t->watching)
        pthread_join(t->watch, NULL);
    t->watching = false;
}
