#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/provenance.h"
#include "exec/launch/run.h"
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
        return error_set(STATUS_INVALID, "%.60s...: too long a path", dir);
    memcpy(path, here, n);
    path[n] = '/';
    strcpy(path + n + (n > 0), dir);
    return STATUS_OK;
}

static enum status find_start(struct run *run)
{
    enum status st;
    struct checkpoint c = {0};
    TRY(checkpoint_find(run->options->resume, &c));
    TRY(checkpoint_match(&c.key, &run->keeping.key, c.directory));
    TRY(absolute(c.directory, run->keeping.resume));
    run->keeping.first = c.step;
    if (c.step + run->steps > max_step)
        st = error_set(STATUS_INVALID, "%s: more than %llu steps", c.directory,
                       (unsigned long long)max_step);
out:
    checkpoint_free(&c);
    return st;
}

/* No checkpoint that is there already may be overwritten by a run that does not continue it. */
static enum status find_place(struct run *run)
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
        return error_set(STATUS_INVALID, "%s: another run writes its checkpoints there", dir);
    if (checkpoint_find(dir, &c) == STATUS_OK && c.step > run->keeping.first) {
        st = error_set(STATUS_INVALID,
                       "%s: holds a checkpoint of step %llu already: --resume goes on from there",
                       dir, (unsigned long long)c.step);
        goto out;
    }
    TRY(absolute(dir, run->keeping.checkpoint));
    checkpoint_clean(run->keeping.checkpoint, UINT64_MAX);
out:
    checkpoint_free(&c);
    return st;
}

enum status launch_open_checkpoints(struct run *run)
{
    enum status st = STATUS_OK;
    const struct launch_options *o = run->options;
    if (!o->resume && !o->checkpoint)
        return STATUS_OK;
    TRY(checkpoint_key(run->program, run->model, &run->keeping.key));
    if (o->resume)
        TRY(find_start(run));
    if (o->checkpoint)
        TRY(find_place(run));
out:
    return st;
}

static enum status begin(struct run *run, struct pending *p, uint64_t step)
{
    enum status st;
    struct checkpoint *c = &p->checkpoint;
    if (!c->digest && !(c->digest = calloc(run->program->ranks + 1, DIGEST)))
        return error_set(STATUS_NOMEM, "checkpoint of %zu ranks", run->program->ranks);
    c->step = step;
    c->key = run->keeping.key;
    TRY(checkpoint_directory(run->keeping.checkpoint, step, c->directory));
out:
    return st;
}

enum status launch_take_saved(struct run *run, uint32_t rank, const char *payload)
{
    enum status st = STATUS_OK;
    const struct provenance by = {
        .version = foreline_version, .command = "foreline run", .seed = run->program->seed};
    struct launched *w = &run->worker[rank];
    struct pending *p = &run->keeping.pending[w->saved % 2];
    struct frame_saved s;
    memcpy(&s, payload, sizeof s);
    if (!run->keeping.checkpoint[0] || w->saved > run->keeping.complete + 1 ||
        (p->saved > 0 && s.step != p->checkpoint.step) || s.step != run->keeping.first + w->steps)
        return error_set(STATUS_IO, "has written a checkpoint of step %llu out of turn",
                         (unsigned long long)s.step);
    if (p->saved == 0)
        TRY(begin(run, p, s.step));
    memcpy(p->checkpoint.digest + (size_t)rank * DIGEST, s.digest, DIGEST);
    w->saved++;
    if (++p->saved < run->program->ranks)
        goto out;
    TRY(checkpoint_commit(&p->checkpoint, &by));
    checkpoint_clean(run->keeping.checkpoint, s.step);
    p->saved = 0;
    run->keeping.complete++;
out:
    return st;
}

void launch_close_checkpoints(struct run *run)
{
    if (run->keeping.checkpoint[0] && run->keeping.lock >= 0)
        checkpoint_clean(run->keeping.checkpoint, UINT64_MAX);
    socket_close(&run->keeping.lock);
    for (int k = 0; k < 2; k++)
        checkpoint_free(&run->keeping.pending[k].checkpoint);
}
