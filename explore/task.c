#define _GNU_SOURCE /* POLLRDHUP */
/* Tasks: words checked, a slot waited for, a child read, one line after the other told. */
#include "explore/task.h"

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

struct task_text {
    char *text; /* [n], and a NUL once something came */
    size_t n, room;
};

struct page_task {
    struct page_tasks *all;
    struct page_task *next;
    char id[24];
    struct arena texts;
    const char **words; /* NULL-terminated; the first is foreline's path */
    int client;
    enum { TASK_NEW, TASK_WAITS, TASK_RUNS, TASK_ENDED } state;
    bool has_slot, json;
    bool stopped; /* tasks.lock */
    double deadline_s;
    struct subprocess child; /* tasks.lock, but for the thread that reads the task */
    int status;
    struct task_text out, err;
    char told[TOLD], telling[TOLD]; /* progress: the last whole line, and the one that is coming */
    size_t letters;
    struct file_text line; /* being told */
    size_t at;
};

/* ---- all of them */

static enum status tasks_set_environment(struct page_tasks *t)
{
    static const char *const set[] = {"FORELINE_PROGRESS=", "TMPDIR="};
    size_t n = 0, k = 0, size = strlen(t->at.folder) + 32;
    while (environ[n])
        n++;
    const char **variable = calloc(n + 3, sizeof *variable);
    char *text = malloc(2 * size);
    if (!variable || !text) {
        free(variable);
        free(text);
        return error_set(STATUS_NOMEM, "out of memory");
    }
    snprintf(text, size, "%s%d", set[0], SUBPROCESS_PROGRESS_FD);
    snprintf(text + size, size, "%s%s", set[1], t->at.folder);
    variable[k++] = text; /* first of all: tasks_close() frees it */
    variable[k++] = text + size;
    for (size_t i = 0; i < n; i++)
        if (!text_begins(environ[i], set[0]) && !text_begins(environ[i], set[1]))
            variable[k++] = environ[i];
    t->at.variable = variable;
    return STATUS_OK;
}

enum status tasks_open(struct page_tasks *t, const char *folder)
{
    char beside[EXECUTABLE_FOLDER];
    PASS(executable_folder(beside));
    *t = (struct page_tasks){.at = {.folder = folder}, .slots = -1, .ending = -1};
    snprintf(t->foreline, sizeof t->foreline, "%s/foreline", beside);
    PASS(tasks_set_environment(t));
    pthread_mutex_init(&t->lock, NULL);
    t->slots = eventfd(TASKS_AT_ONCE, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    t->ending = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (t->slots >= 0 && t->ending >= 0)
        return STATUS_OK;
    enum status st = error_set(STATUS_IO, "eventfd: %s", strerror(errno));
    tasks_close(t);
    return st;
}

static void tasks_add_one(int event)
{
    while (eventfd_write(event, 1) != 0 && errno == EINTR)
        continue;
}

void tasks_end(struct page_tasks *t)
{
    tasks_add_one(t->ending);
}

void tasks_close(struct page_tasks *t)
{
    if (!t->at.variable)
        return;
    if (t->slots >= 0)
        close(t->slots);
    if (t->ending >= 0)
        close(t->ending);
    pthread_mutex_destroy(&t->lock);
    free((char *)t->at.variable[0]);
    free((char **)t->at.variable);
    *t = (struct page_tasks){0};
}

bool tasks_stop(struct page_tasks *t, const char *id)
{
    pthread_mutex_lock(&t->lock);
    struct page_task *at = t->first;
    while (at && strcmp(at->id, id) != 0)
        at = at->next;
    if (at && at->child.pid > 0)
        kill(-at->child.pid, SIGINT);
    if (at)
        at->stopped = true;
    pthread_mutex_unlock(&t->lock);
    return at != NULL;
}

/* ---- lines */

static enum status task_put_id(struct page_task *t)
{
    PASS(file_text_open(&t->line));
    fprintf(t->line.stream, "{\"id\": \"%s\"}\n", t->id);
    return file_text_close(&t->line, STATUS_OK);
}

static enum status task_put_progress(struct page_task *t, const char *text, size_t done, size_t all)
{
    PASS(file_text_open(&t->line));
    struct json_writer w = {.stream = t->line.stream};
    json_open_object(&w, NULL, true);
    json_open_object(&w, "progress", true);
    json_put_string(&w, "text", text);
    json_put_integer(&w, "done", (int64_t)done);
    json_put_integer(&w, "all", (int64_t)all);
    json_close(&w);
    json_close(&w);
    return file_text_close(&t->line, STATUS_OK);
}

/* "DONE ALL TEXT", as cli/progress.c writes it, or nothing yet. */
static enum status task_put_told(struct page_task *t)
{
    char *end;
    size_t done = strtoull(t->told, &end, 10), all = strtoull(end, &end, 10);
    return task_put_progress(t, *t->told ? end + (*end == ' ') : "running", done, all);
}

/* Has it printed JSON? Then all of that is on one line, for no text in it has line breaks. */
static bool task_flatten_json(struct page_task *t)
{
    struct json_document d = {0};
    if (!t->json || !t->out.text || !strchr("{[", *t->out.text) ||
        json_parse("stdout", t->out.text, t->out.n, NULL, 0, &d) != STATUS_OK)
        return false;
    json_document_free(&d);
    for (char *c = t->out.text; *c; c++)
        *c = *c == '\n' || *c == '\r' ? ' ' : *c;
    return true;
}

static enum status task_put_end(struct page_task *t, const char *why)
{
    const char *error = t->err.text ? t->err.text : "", *out = t->out.text ? t->out.text : "";
    bool json = task_flatten_json(t);
    PASS(file_text_open(&t->line));
    FILE *f = t->line.stream;
    fprintf(f, "{\"status\": %d, \"json\": %s, \"text\": ", t->status, json ? out : "null");
    json_put_string(&(struct json_writer){.stream = f}, NULL, json ? "" : out);
    fputs(", \"error\": ", f);
    json_put_string(&(struct json_writer){.stream = f}, NULL, why ? why : error);
    fputs("}\n", f);
    return file_text_close(&t->line, STATUS_OK);
}

/* ---- the child */

/* The page may run commands for days: what they write must not fill the disk. */
static enum status task_check_room(const char *folder)
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

static enum status task_start(struct page_task *t)
{
    enum status st = STATUS_OK;
    PASS(task_check_room(t->all->at.folder));
    pthread_mutex_lock(&t->all->lock);
    st = t->stopped ? error_set(STATUS_EXTERNAL, "stopped before it was started")
                    : subprocess_start(&t->all->at, t->words, &t->child);
    pthread_mutex_unlock(&t->all->lock);
    t->deadline_s = clock_now() + limit_wait(allowed_s);
    return st;
}

static int task_end_child(struct page_task *t)
{
    pthread_mutex_lock(&t->all->lock);
    struct subprocess c = t->child;
    t->child = subprocess_none;
    pthread_mutex_unlock(&t->all->lock);
    return subprocess_end(&c);
}

/* What is there; closes a stream at its end. *over: there was more than `most`. */
static enum status task_take(int *fd, struct task_text *t, size_t most, bool *over)
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
    }
    return STATUS_OK;
}

/* Keeps the last whole line. */
static void task_take_progress(struct page_task *t, bool *heard)
{
    char piece[TOLD];
    int *fd = &t->child.stream[SUBPROCESS_PROGRESS];
    ssize_t n = *fd >= 0 ? read(*fd, piece, sizeof piece) : -1;
    if (n == 0) {
        close(*fd);
        *fd = -1;
    }
    for (ssize_t i = 0; i < n; i++) {
        if (piece[i] != '\n') {
            t->telling[t->letters] = piece[i];
            t->letters += t->letters + 2 < TOLD;
            continue;
        }
        memcpy(t->told, t->telling, t->letters);
        t->told[t->letters] = '\0';
        t->letters = 0;
        *heard = true;
    }
}

static enum status task_finish(struct page_task *t, const char *why)
{
    bool over = false, much = false;
    int *stream = t->child.stream;
    if (!why) {
        PASS(task_take(&stream[SUBPROCESS_OUTPUT], &t->out, limit_bytes(OUTPUT_MIB), &over));
        PASS(task_take(&stream[SUBPROCESS_ERRORS], &t->err, limit_bytes(ERRORS_MIB), &much));
    }
    int status = t->child.pid > 0 ? task_end_child(t) : 1;
    t->status = why && status == 0 ? 1 : status;
    t->state = TASK_ENDED;
    return task_put_end(t, why);
}

/* ---- waiting */

/* For what it waits for, the client's end, or the time between two beats; false: it is given up. */
static bool task_poll(struct page_task *t, int event, const int stream[SUBPROCESS_STREAMS],
                      bool *came)
{
    struct pollfd p[] = {{t->client, POLLRDHUP, 0}, {t->all->ending, POLLIN, 0},
                         {event, POLLIN, 0},        {stream[0], POLLIN, 0},
                         {stream[1], POLLIN, 0},    {stream[2], POLLIN, 0}};
    int n = poll(p, sizeof p / sizeof *p, (int)(1e3 * beat_s));
    *came = n > 0;
    return n <= 0 || (p[0].revents == 0 && p[1].revents == 0);
}

static bool task_await_slot(struct page_task *t)
{
    eventfd_t one;
    bool came;
    if (!task_poll(t, t->all->slots, subprocess_none.stream, &came))
        return false;
    if (!came)
        return task_put_progress(t, "waiting for other commands of the page", 0, 0) == STATUS_OK;
    if (eventfd_read(t->all->slots, &one) != 0)
        return true; /* another one was faster */
    t->has_slot = true;
    t->state = TASK_RUNS;
    return task_start(t) == STATUS_OK || task_finish(t, error_message()) == STATUS_OK;
}

static bool task_listen(struct page_task *t)
{
    char late[96];
    bool came, heard = false, over = false, much = false;
    int *stream = t->child.stream;
    if (!task_poll(t, t->child.held, stream, &came) ||
        task_take(&stream[SUBPROCESS_OUTPUT], &t->out, limit_bytes(OUTPUT_MIB), &over) ||
        task_take(&stream[SUBPROCESS_ERRORS], &t->err, limit_bytes(ERRORS_MIB), &much))
        return false;
    task_take_progress(t, &heard);
    snprintf(late, sizeof late, "timeout: the command took longer than %g s",
             limit_wait(allowed_s));
    if (over)
        return task_finish(t, "the command printed too much") == STATUS_OK;
    if (clock_now() > t->deadline_s)
        return task_finish(t, late) == STATUS_OK;
    if (subprocess_has_ended(&t->child))
        return task_finish(t, NULL) == STATUS_OK;
    return heard || !came ? task_put_told(t) == STATUS_OK : true;
}

/* Until there is a line, or none any more; false: given up. */
static bool task_go_on(struct page_task *t)
{
    switch (t->state) {
    case TASK_NEW:
        t->state = TASK_WAITS;
        return task_put_id(t) == STATUS_OK;
    case TASK_WAITS:
        return task_await_slot(t);
    case TASK_RUNS:
        return task_listen(t);
    case TASK_ENDED:
        break;
    }
    return true;
}

ssize_t task_read(struct page_task *t, char *to, size_t most)
{
    while (t->at == t->line.length) {
        free(t->line.text);
        t->line = (struct file_text){0};
        t->at = 0;
        if (t->state == TASK_ENDED)
            return 0;
        if (!task_go_on(t))
            return -1;
    }
    size_t n = t->line.length - t->at;
    n = n < most ? n : most;
    memcpy(to, t->line.text + t->at, n);
    t->at += n;
    return (ssize_t)n;
}

/* ---- one of them */

static enum status task_copy_words(struct page_task *t, const char *const *word, size_t n)
{
    PASS(ARENA_NEW(&t->texts, t->words, n + 2));
    t->words[0] = t->all->foreline;
    for (size_t i = 0; i < n; i++) {
        t->json = t->json || !strcmp(word[i], "--json");
        if (!(t->words[i + 1] = arena_text(&t->texts, word[i])))
            return STATUS_NOMEM;
    }
    return STATUS_OK;
}

enum status task_new(struct page_tasks *all, const char *const *word, size_t n, int client,
                     struct page_task **out)
{
    PASS(words_check(word, n));
    struct page_task *t = calloc(1, sizeof *t);
    if (!t)
        return error_set(STATUS_NOMEM, "out of memory");
    t->all = all;
    t->client = client;
    t->child = subprocess_none;
    enum status st = task_copy_words(t, word, n);
    pthread_mutex_lock(&all->lock);
    snprintf(t->id, sizeof t->id, "%" PRIu64, ++all->begun);
    t->next = all->first;
    all->first = t;
    pthread_mutex_unlock(&all->lock);
    if (st == STATUS_OK)
        *out = t;
    else
        task_free(t);
    return st;
}

const char *task_output(const struct page_task *t)
{
    return t->state == TASK_ENDED && t->status == 0 ? t->out.text : NULL;
}

void task_free(struct page_task *t)
{
    if (!t)
        return;
    if (t->child.pid > 0)
        (void)task_end_child(t);
    pthread_mutex_lock(&t->all->lock);
    struct page_task **at = &t->all->first;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    pthread_mutex_unlock(&t->all->lock);
    if (t->has_slot)
        tasks_add_one(t->all->slots);
    arena_free(&t->texts);
    free(t->out.text);
    free(t->err.text);
    free(t->line.text);
    free(t);
}
