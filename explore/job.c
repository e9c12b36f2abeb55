#define _GNU_SOURCE /* POLLRDHUP */
/* Jobs: words checked, a slot waited for, a child read, one line after the other told. */
#include "explore/job.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/limit.h"
#include "core/base/text.h"
#include "explore/words.h"

extern char **environ;

static const double allowed_s = 600; /* that a command may take: limit_wait(allowed_s) */
static const double beat_s = 5;      /* between two lines, so that either side knows of the other */
enum { OUTPUT_MIB = 64, ERRORS_MIB = 1, FOLDER_MIB = 4096, FOLDER_ENTRIES = 4096, TOLD = 512 };

struct job_text {
    char *text; /* [n], and a NUL once something came */
    size_t n, room;
};

struct job {
    struct jobs *all;
    struct job *next;
    char id[24];
    struct arena texts;
    const char **words; /* NULL-terminated; the first is foreline's path */
    int client;
    enum { JOB_NEW, JOB_WAITS, JOB_RUNS, JOB_ENDED } state;
    bool has_slot, json;
    bool stopped; /* jobs.lock */
    double deadline_s;
    struct child child; /* jobs.lock, but for the thread that reads the job */
    int status;
    struct job_text out, err;
    char told[TOLD], telling[TOLD]; /* progress: the last whole line, and the one that is coming */
    size_t letters;
    struct file_text line; /* being told */
    size_t at;
};

/* ---- all of them */

static enum status jobs_set_environment(struct jobs *j)
{
    static const char *const set[] = {"FORELINE_PROGRESS=", "TMPDIR="};
    size_t n = 0, k = 0, size = strlen(j->at.folder) + 32;
    while (environ[n])
        n++;
    const char **variable = calloc(n + 3, sizeof *variable);
    char *text = malloc(2 * size);
    if (!variable || !text) {
        free(variable);
        free(text);
        return error_set(STATUS_NOMEM, "out of memory");
    }
    snprintf(text, size, "%s%d", set[0], CHILD_PROGRESS_FD);
    snprintf(text + size, size, "%s%s", set[1], j->at.folder);
    variable[k++] = text; /* first of all: jobs_close() frees it */
    variable[k++] = text + size;
    for (size_t i = 0; i < n; i++)
        if (!text_begins(environ[i], set[0]) && !text_begins(environ[i], set[1]))
            variable[k++] = environ[i];
    j->at.variable = variable;
    return STATUS_OK;
}

enum status jobs_open(struct jobs *j, const char *folder)
{
    char beside[EXECUTABLE_FOLDER];
    PASS(executable_folder(beside));
    *j = (struct jobs){.at = {.folder = folder}, .slots = -1, .ending = -1};
    snprintf(j->foreline, sizeof j->foreline, "%s/foreline", beside);
    PASS(jobs_set_environment(j));
    pthread_mutex_init(&j->lock, NULL);
    j->slots = eventfd(JOBS_AT_ONCE, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    j->ending = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (j->slots >= 0 && j->ending >= 0)
        return STATUS_OK;
    enum status st = error_set(STATUS_IO, "eventfd: %s", strerror(errno));
    jobs_close(j);
    return st;
}

static void jobs_add_one(int event)
{
    while (eventfd_write(event, 1) != 0 && errno == EINTR)
        continue;
}

void jobs_end(struct jobs *j)
{
    jobs_add_one(j->ending);
}

void jobs_close(struct jobs *j)
{
    if (!j->at.variable)
        return;
    if (j->slots >= 0)
        close(j->slots);
    if (j->ending >= 0)
        close(j->ending);
    pthread_mutex_destroy(&j->lock);
    free((char *)j->at.variable[0]);
    free((char **)j->at.variable);
    *j = (struct jobs){0};
}

bool jobs_stop(struct jobs *j, const char *id)
{
    pthread_mutex_lock(&j->lock);
    struct job *at = j->first;
    while (at && strcmp(at->id, id) != 0)
        at = at->next;
    if (at && at->child.pid > 0)
        kill(-at->child.pid, SIGINT);
    if (at)
        at->stopped = true;
    pthread_mutex_unlock(&j->lock);
    return at != NULL;
}

/* ---- lines */

static enum status job_put_id(struct job *j)
{
    PASS(file_text_open(&j->line));
    fprintf(j->line.stream, "{\"id\": \"%s\"}\n", j->id);
    return file_text_close(&j->line, STATUS_OK);
}

static enum status job_put_progress(struct job *j, const char *text, size_t done, size_t all)
{
    PASS(file_text_open(&j->line));
    struct json_writer w = {.stream = j->line.stream};
    json_open_object(&w, NULL, true);
    json_open_object(&w, "progress", true);
    json_put_string(&w, "text", text);
    json_put_integer(&w, "done", (int64_t)done);
    json_put_integer(&w, "all", (int64_t)all);
    json_close(&w);
    json_close(&w);
    return file_text_close(&j->line, STATUS_OK);
}

/* "DONE ALL TEXT", as cli/progress.c writes it, or nothing yet. */
static enum status job_put_told(struct job *j)
{
    char *end;
    size_t done = strtoull(j->told, &end, 10), all = strtoull(end, &end, 10);
    return job_put_progress(j, *j->told ? end + (*end == ' ') : "running", done, all);
}

/* Has it printed JSON? Then all of that is on one line, for no text in it has line breaks. */
static bool job_flatten_json(struct job *j)
{
    struct json_document d = {0};
    if (!j->json || !j->out.text || !strchr("{[", *j->out.text) ||
        json_parse("stdout", j->out.text, j->out.n, NULL, 0, &d) != STATUS_OK)
        return false;
    json_document_free(&d);
    for (char *c = j->out.text; *c; c++)
        *c = *c == '\n' || *c == '\r' ? ' ' : *c;
    return true;
}

static enum status job_put_end(struct job *j, const char *why)
{
    const char *error = j->err.text ? j->err.text : "", *out = j->out.text ? j->out.text : "";
    bool json = job_flatten_json(j);
    PASS(file_text_open(&j->line));
    FILE *f = j->line.stream;
    fprintf(f, "{\"status\": %d, \"json\": %s, \"text\": ", j->status, json ? out : "null");
    json_put_string(&(struct json_writer){.stream = f}, NULL, json ? "" : out);
    fputs(", \"error\": ", f);
    json_put_string(&(struct json_writer){.stream = f}, NULL, why ? why : error);
    fputs("}\n", f);
    return file_text_close(&j->line, STATUS_OK);
}

/* ---- the child */

/* The page may run commands for days: what they write must not fill the disk. */
static enum status job_check_room(const char *folder)
{
    double bytes = 0, n = 0;
    struct stat s;
    DIR *d = opendir(folder);
    for (const struct dirent *e; d && (e = readdir(d)); n++)
        if (fstatat(dirfd(d), e->d_name, &s, AT_SYMLINK_NOFOLLOW) == 0)
            bytes += (double)s.st_size;
    if (d)
        closedir(d);
    if (bytes > (double)limit_bytes(FOLDER_MIB) || n > limit_size(FOLDER_ENTRIES))
        return error_set(STATUS_IO,
                         "the page's folder is full: %.0f files, %.0f MiB; start "
                         "foreline explore again",
                         n, bytes / (1 << 20));
    return STATUS_OK;
}

static enum status job_start(struct job *j)
{
    enum status st = STATUS_OK;
    PASS(job_check_room(j->all->at.folder));
    pthread_mutex_lock(&j->all->lock);
    st = j->stopped ? error_set(STATUS_EXTERNAL, "stopped before it was started")
                    : child_start(&j->all->at, j->words, &j->child);
    pthread_mutex_unlock(&j->all->lock);
    j->deadline_s = clock_now() + limit_wait(allowed_s);
    return st;
}

static int job_end_child(struct job *j)
{
    pthread_mutex_lock(&j->all->lock);
    struct child c = j->child;
    j->child = child_none;
    pthread_mutex_unlock(&j->all->lock);
    return child_end(&c);
}

/* What is there, one piece or all; closes a stream at its end. *over: there was more than
 * `most`. */
static enum status job_take(int *fd, struct job_text *t, size_t most, bool all, bool *over)
{
    char piece[16384];
    ssize_t k = 1;
    while (*fd >= 0 && !*over && k > 0) {
        k = read(*fd, piece, sizeof piece);
        size_t n = k > 0 ? (size_t)k : 0;
        *over = n > most - t->n;
        n = *over ? most - t->n : n;
        PASS(ARRAY_RESERVE(t->text, t->n + n + 1, t->room));
        memcpy(t->text + t->n, piece, n);
        t->text[t->n += n] = '\0';
        if (k == 0 || (k < 0 && errno != EAGAIN && errno != EINTR)) {
            close(*fd);
            *fd = -1;
        }
        if (!all)
            break;
    }
    return STATUS_OK;
}

/* Keeps the last whole line. */
static void job_take_progress(struct job *j, bool *heard)
{
    char piece[TOLD];
    int *fd = &j->child.stream[CHILD_PROGRESS];
    ssize_t n = *fd >= 0 ? read(*fd, piece, sizeof piece) : -1;
    if (n == 0) {
        close(*fd);
        *fd = -1;
    }
    for (ssize_t i = 0; i < n; i++) {
        if (piece[i] != '\n') {
            j->telling[j->letters] = piece[i];
            j->letters += j->letters + 2 < TOLD;
            continue;
        }
        memcpy(j->told, j->telling, j->letters);
        j->told[j->letters] = '\0';
        j->letters = 0;
        *heard = true;
    }
}

static enum status job_finish(struct job *j, const char *why)
{
    bool over = false, much = false;
    int *stream = j->child.stream;
    if (!why) {
        PASS(job_take(&stream[CHILD_OUTPUT], &j->out, limit_bytes(OUTPUT_MIB), true, &over));
        PASS(job_take(&stream[CHILD_ERRORS], &j->err, limit_bytes(ERRORS_MIB), true, &much));
    }
    int status = j->child.pid > 0 ? job_end_child(j) : 1;
    j->status = why && status == 0 ? 1 : status;
    j->state = JOB_ENDED;
    return job_put_end(j, why);
}

/* ---- waiting */

/* For what it waits for, the client's end, or the time between two beats; false: it is given up. */
static bool job_poll(struct job *j, int event, const int stream[CHILD_STREAMS], bool *came)
{
    struct pollfd p[] = {{j->client, POLLRDHUP, 0}, {j->all->ending, POLLIN, 0},
                         {event, POLLIN, 0},        {stream[0], POLLIN, 0},
                         {stream[1], POLLIN, 0},    {stream[2], POLLIN, 0}};
    int n = poll(p, sizeof p / sizeof *p, (int)(1e3 * beat_s));
    *came = n > 0;
    return n <= 0 || (p[0].revents == 0 && p[1].revents == 0);
}

static bool job_await_slot(struct job *j)
{
    eventfd_t one;
    bool came;
    if (!job_poll(j, j->all->slots, child_none.stream, &came))
        return false;
    if (!came)
        return job_put_progress(j, "waiting for other commands of the page", 0, 0) == STATUS_OK;
    if (eventfd_read(j->all->slots, &one) != 0)
        return true; /* another one was faster */
    j->has_slot = true;
    j->state = JOB_RUNS;
    return job_start(j) == STATUS_OK || job_finish(j, error_message()) == STATUS_OK;
}

static bool job_listen(struct job *j)
{
    char late[96];
    bool came, heard = false, over = false, much = false;
    int *stream = j->child.stream;
    if (!job_poll(j, j->child.held, stream, &came) ||
        job_take(&stream[CHILD_OUTPUT], &j->out, limit_bytes(OUTPUT_MIB), false, &over) ||
        job_take(&stream[CHILD_ERRORS], &j->err, limit_bytes(ERRORS_MIB), false, &much))
        return false;
    job_take_progress(j, &heard);
    snprintf(late, sizeof late, "timeout: the command took longer than %g s",
             limit_wait(allowed_s));
    if (over)
        return job_finish(j, "the command printed too much") == STATUS_OK;
    if (clock_now() > j->deadline_s)
        return job_finish(j, late) == STATUS_OK;
    if (child_has_ended(&j->child))
        return job_finish(j, NULL) == STATUS_OK;
    return heard || !came ? job_put_told(j) == STATUS_OK : true;
}

/* Until there is a line, or none any more; false: given up. */
static bool job_go_on(struct job *j)
{
    switch (j->state) {
    case JOB_NEW:
        j->state = JOB_WAITS;
        return job_put_id(j) == STATUS_OK;
    case JOB_WAITS:
        return job_await_slot(j);
    case JOB_RUNS:
        return job_listen(j);
    case JOB_ENDED:
        break;
    }
    return true;
}

ssize_t job_read(struct job *j, char *to, size_t most)
{
    while (j->at == j->line.length) {
        free(j->line.text);
        j->line = (struct file_text){0};
        j->at = 0;
        if (j->state == JOB_ENDED)
            return 0;
        if (!job_go_on(j))
            return -1;
    }
    size_t n = j->line.length - j->at;
    n = n < most ? n : most;
    memcpy(to, j->line.text + j->at, n);
    j->at += n;
    return (ssize_t)n;
}

/* ---- one of them */

static enum status job_copy_words(struct job *j, const char *const *word, size_t n)
{
    PASS(ARENA_NEW(&j->texts, j->words, n + 2));
    j->words[0] = j->all->foreline;
    for (size_t i = 0; i < n; i++) {
        j->json = j->json || !strcmp(word[i], "--json");
        if (!(j->words[i + 1] = arena_text(&j->texts, word[i])))
            return STATUS_NOMEM;
    }
    return STATUS_OK;
}

enum status job_new(struct jobs *all, const char *const *word, size_t n, int client,
                    struct job **out)
{
    PASS(words_check(word, n));
    struct job *j = calloc(1, sizeof *j);
    if (!j)
        return error_set(STATUS_NOMEM, "out of memory");
    j->all = all;
    j->client = client;
    j->child = child_none;
    enum status st = job_copy_words(j, word, n);
    pthread_mutex_lock(&all->lock);
    snprintf(j->id, sizeof j->id, "%" PRIu64, ++all->begun);
    j->next = all->first;
    all->first = j;
    pthread_mutex_unlock(&all->lock);
    if (st == STATUS_OK)
        *out = j;
    else
        job_free(j);
    return st;
}

const char *job_output(const struct job *j)
{
    return j->state == JOB_ENDED && j->status == 0 ? j->out.text : NULL;
}

void job_free(struct job *j)
{
    if (!j)
        return;
    if (j->child.pid > 0)
        (void)job_end_child(j);
    pthread_mutex_lock(&j->all->lock);
    struct job **at = &j->all->first;
    while (*at != j)
        at = &(*at)->next;
    *at = j->next;
    pthread_mutex_unlock(&j->all->lock);
    if (j->has_slot)
        jobs_add_one(j->all->slots);
    arena_free(&j->texts);
    free(j->out.text);
    free(j->err.text);
    free(j->line.text);
    free(j);
}
