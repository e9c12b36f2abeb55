/* The launcher's part in checkpoints: where a run goes on from, and when a checkpoint is complete.
 *
 * Every rank writes its own file and reports its digest; when all have, the launcher writes the
 * manifest, and only that makes a checkpoint; then it tells them. A rank has at most
 * CHECKPOINT_PENDING files of which it was not told that they count, however far its steps have
 * come: a launcher that is slow, or stopped for a while, finds no more than that. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/limit.h"
#include "core/base/provenance.h"
#include "exec/launch/run.h"
#include "exec/rounds.h"
#include "exec/transport/tcp/socket.h"

/* Steps are counted in 32 bits. */
static const uint64_t max_step = 99999999;

/* Absolute, because workers may run elsewhere. */
static enum status absolute(const char *dir, char path[CHECKPOINT_PATH])
{
    char here[CHECKPOINT_PATH] = "";
    if (*dir != '/' && !getcwd(here, sizeof here))
        return error_set(STATUS_IO, "working directory: %s", strerror(errno));
    size_t n = strlen(here);
    if (n + 1 + strlen(dir) >= CHECKPOINT_PATH)
        return error_set(STATUS_INVALID, "%.60s...: absolute path has more than %d bytes", dir,
                         CHECKPOINT_PATH - 2);
    memcpy(path, here, n);
    path[n] = '/';
    strcpy(path + n + (n > 0), dir);
    return STATUS_OK;
}

/* The newest complete checkpoint, and only of this very training. */
static enum status find_start(struct launch_state *run)
{
    enum status st;
    struct checkpoint c = {0};
    TRY(checkpoint_find(run->options->resume, &c));
    TRY(checkpoint_match(&c.key, &run->keeping.key, c.directory));
    TRY(absolute(c.directory, run->keeping.resume));
    run->keeping.first = c.step;
    if (c.step + run->steps > max_step)
        st = error_set(STATUS_INVALID, "%s: checkpoint and run together have more than %llu steps",
                       c.directory, (unsigned long long)max_step);
out:
    checkpoint_free(&c);
    return st;
}

/* Can files be written there? */
static enum status try_folder(const char *dir)
{
    char path[CHECKPOINT_PATH + 16];
    snprintf(path, sizeof path, "%s/manifest.json", dir);
    return file_try(path);
}

/* No checkpoint that is there already may be overwritten by a run that does not continue it. */
static enum status launch_checkpoint_check_place(struct launch_state *run)
{
    enum status st;
    struct checkpoint c = {0};
    const char *dir = run->options->checkpoint;
    if (run->meeting.rank > 0) /* rank 0's process looks after it */
        return absolute(dir, run->keeping.checkpoint);
    if (mkdir(dir, 0777) && errno != EEXIST)
        return error_set(STATUS_IO, "%s: %s", dir, strerror(errno));
    run->keeping.lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (run->keeping.lock < 0)
        return error_set(STATUS_IO, "%s: %s", dir, strerror(errno));
    if (flock(run->keeping.lock, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return error_set(
            STATUS_INVALID,
            "%s: another run is writing checkpoints there; choose another --checkpoint", dir);
    if (checkpoint_find(dir, &c) == STATUS_OK && c.step > run->keeping.first)
        FAIL(STATUS_INVALID,
             "%s: already has a checkpoint of step %llu; continue from it with --resume, or choose "
             "another --checkpoint",
             dir, (unsigned long long)c.step);
    TRY(absolute(dir, run->keeping.checkpoint));
    TRY(try_folder(run->keeping.checkpoint)); /* better known before the training than after it */
    checkpoint_clean(run->keeping.checkpoint, UINT64_MAX);
out:
    checkpoint_free(&c);
    return st;
}

enum status launch_open_checkpoints(struct launch_state *run)
{
    const struct launch_options *o = run->options;
    const struct rounds_algorithm *algorithm;
    if (!o->resume && !o->checkpoint)
        return STATUS_OK;
    PASS(rounds_find(o->collective, o->transport, &algorithm));
    PASS(checkpoint_key(run->program, run->model, !algorithm, &run->keeping.key));
    if (o->resume)
        PASS(find_start(run));
    if (o->checkpoint)
        PASS(launch_checkpoint_check_place(run));
    return STATUS_OK;
}

/* The first rank has reported a checkpoint of that step. */
static enum status launch_checkpoint_begin(struct launch_state *run, uint64_t step)
{
    struct run_keeping *k = &run->keeping;
    k->pending[k->pendings] = (struct run_pending){0}; /* not one that has moved down from there */
    struct checkpoint *c = &k->pending[k->pendings++].checkpoint;
    c->step = step;
    c->key = k->key;
    PASS(ARRAY_NEW(c->digest, run->program->ranks * DIGEST));
    return checkpoint_directory(k->checkpoint, step, c->directory);
}

/* Ranks may begin the next but one; one has room for many more words than it can wait for. Who
 * cannot be told has hung up, which is noticed elsewhere. */
static void tell_kept(const struct launch_state *run, uint64_t step)
{
    const struct frame_kept kept = {.step = step};
    for (size_t r = 0; r < run->program->ranks; r++)
        if (run->worker[r].fd >= 0 &&
            frame_write(run->worker[r].fd, FRAME_KEPT, &kept, sizeof kept, NULL, 0,
                        clock_now() + limit_wait(WAIT_SEND)) != STATUS_OK)
            continue;
}

/* All ranks have written their files of the oldest one: the manifest makes it count. */
static enum status launch_checkpoint_complete(struct launch_state *run)
{
    const struct provenance by = {
        .version = foreline_version, .command = "foreline run", .seed = run->program->seed};
    struct run_keeping *k = &run->keeping;
    struct checkpoint *c = &k->pending[0].checkpoint;
    uint64_t step = c->step;
    PASS(checkpoint_commit(c, &by));
    checkpoint_clean(k->checkpoint, c->step);
    checkpoint_free(c);
    memmove(k->pending, k->pending + 1, --k->pendings * sizeof *k->pending);
    k->complete++;
    k->newest = step;
    tell_kept(run, step);
    return STATUS_OK;
}

enum status launch_take_saved(struct launch_state *run, uint32_t rank, const char *payload)
{
    struct run_keeping *k = &run->keeping;
    struct launched *w = &run->worker[rank];
    size_t number = w->saved - k->complete; /* among the pending ones; the next of this rank */
    struct frame_saved s;
    memcpy(&s, payload, sizeof s);
    if (k->checkpoint[0] && number == k->pendings && number < CHECKPOINT_PENDING)
        PASS(launch_checkpoint_begin(run, s.step));
    if (!k->checkpoint[0] || number >= k->pendings ||
        s.step != k->pending[number].checkpoint.step || s.step != k->first + w->steps)
        return error_set(
            STATUS_IO, "the worker wrote a checkpoint of step %llu, in which no checkpoint was due",
            (unsigned long long)s.step);
    memcpy(k->pending[number].checkpoint.digest + (size_t)rank * DIGEST, s.digest, DIGEST);
    w->saved++;
    if (++k->pending[number].saved == run->program->ranks)
        PASS(launch_checkpoint_complete(run));
    return STATUS_OK;
}

const char *launch_kept(const struct launch_state *run, char text[KEPT_TEXT])
{
    const struct run_keeping *k = &run->keeping;
    text[0] = '\0';
    if (k->checkpoint[0] && k->complete == 0)
        snprintf(text, KEPT_TEXT,
                 "no checkpoint was written; write one every N steps with --checkpoint-every N");
    else if (k->checkpoint[0])
        snprintf(text, KEPT_TEXT, "newest checkpoint: step %llu; continue from it with --resume %s",
                 (unsigned long long)k->newest, run->options->checkpoint);
    return text;
}

void launch_close_checkpoints(struct launch_state *run)
{
    struct run_keeping *k = &run->keeping;
    if (k->checkpoint[0] && k->lock >= 0)
        checkpoint_clean(k->checkpoint, UINT64_MAX);
    socket_close(&k->lock);
    for (size_t i = 0; i < k->pendings; i++)
        checkpoint_free(&k->pending[i].checkpoint);
}
