#define _GNU_SOURCE /* getrandom */
/* HTTP by libmicrohttpd, a thread for each connection. */
#include "explore/server.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/json.h"
#include "core/base/limit.h"
#include "core/base/path.h"
#include "core/base/text.h"
#include "explore/parts.h"
#include "explore/words.h"

static const double mute_s = 30; /* with a client that neither sends nor reads */
enum {
    BODY = 64 << 10,
    HEADERS = 32 << 10, /* memory of a connection */
    CONNECTIONS = 64,
    STACK = 1 << 20,
    PIECE = 64 << 10 /* of an answer */
};

/* ---- answers */

static const char *const headers[][2] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
     "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Referrer-Policy", "no-referrer"},
    {"Cache-Control", "no-store"},
};

/* Takes the response, which may be NULL: without memory. */
static enum MHD_Result server_send(struct MHD_Connection *c, unsigned status, const char *type,
                                   struct MHD_Response *r)
{
    enum MHD_Result sent = MHD_NO;
    bool whole = r && MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type) == MHD_YES;
    for (size_t i = 0; whole && i < sizeof headers / sizeof *headers; i++)
        whole = MHD_add_response_header(r, headers[i][0], headers[i][1]) == MHD_YES;
    if (whole)
        sent = MHD_queue_response(c, status, r);
    if (r)
        MHD_destroy_response(r);
    return sent;
}

static enum MHD_Result server_say(struct MHD_Connection *c, unsigned status, const char *sentence)
{
    char line[1200];
    snprintf(line, sizeof line, "%s\n", sentence);
    return server_send(c, status, "text/plain; charset=utf-8",
                       MHD_create_response_from_buffer(strlen(line), line, MHD_RESPMEM_MUST_COPY));
}

static enum MHD_Result server_fail(struct MHD_Connection *c, enum status st)
{
    return server_say(c,
                      st == STATUS_USAGE || st == STATUS_PARSE ? MHD_HTTP_BAD_REQUEST
                                                               : MHD_HTTP_INTERNAL_SERVER_ERROR,
                      error_message());
}

static int server_client(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info ? info->connect_fd : -1;
}

/* ---- who may ask */

/* In a time that does not say how much of it is right. An empty key is no one's. */
static bool server_same_key(const char *given, const char key[SERVER_KEY])
{
    unsigned char differs = 0;
    if (!*key || strlen(given) != SERVER_KEY - 1)
        return false;
    for (size_t i = 0; i < SERVER_KEY - 1; i++)
        differs |= (unsigned char)(given[i] ^ key[i]);
    return !differs;
}

/* The second key opens the page once. */
static bool server_takes_key(struct server *s, const char *given)
{
    pthread_mutex_lock(&s->tasks->lock);
    bool once = server_same_key(given, s->once);
    if (once)
        s->once[0] = '\0';
    pthread_mutex_unlock(&s->tasks->lock);
    return once || server_same_key(given, s->key);
}

static bool server_is_own(const struct server *s, const char *host)
{
    char own[2][32];
    snprintf(own[0], sizeof own[0], "127.0.0.1:%u", s->port);
    snprintf(own[1], sizeof own[1], "localhost:%u", s->port);
    return !strcmp(host, own[0]) || !strcmp(host, own[1]);
}

static const char *server_cookie(const struct server *s, struct MHD_Connection *c)
{
    char name[32];
    snprintf(name, sizeof name, "foreline_%u", s->port);
    const char *value = MHD_lookup_connection_value(c, MHD_COOKIE_KIND, name);
    return value ? value : "";
}

static const struct page_part *server_part(const char *url)
{
    for (size_t i = 0; i < page_parts_n; i++)
        if (*url == '/' && !strcmp(url + 1, i == 0 ? "" : page_parts[i].name))
            return &page_parts[i];
    return NULL;
}

static const char *server_header(struct MHD_Connection *c, const char *name)
{
    return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

/* Of GET /?key=KEY, else NULL. */
static const char *server_key(struct MHD_Connection *c, const char *url)
{
    return strcmp(url, "/") ? NULL : MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "key");
}

/* Why a request is refused; NULL: it is not. */
static const char *server_refusal_of_host(const struct server *s, struct MHD_Connection *c)
{
    const char *host = server_header(c, MHD_HTTP_HEADER_HOST);
    return host && server_is_own(s, host) ? NULL : "this page is at 127.0.0.1 and localhost only";
}

static const char *server_refusal(const struct server *s, struct MHD_Connection *c, const char *url)
{
    const char *origin = server_header(c, MHD_HTTP_HEADER_ORIGIN);
    const char *refusal = server_refusal_of_host(s, c);
    if (refusal)
        return refusal;
    if (origin &&
        (!text_begins(origin, "http://") || !server_is_own(s, origin + strlen("http://"))))
        return "other sites may not ask this page";
    if (!server_same_key(server_cookie(s, c), s->key))
        return "open the address that foreline explore has printed, with its key";
    if (!server_part(url) && !server_header(c, "X-Foreline"))
        return "the header X-Foreline is missing";
    return NULL;
}

/* ---- requests */

static enum MHD_Result server_let_in(struct server *s, struct MHD_Connection *c, const char *key)
{
    char cookie[SERVER_KEY + 96];
    if (!server_takes_key(s, key))
        return server_say(c, MHD_HTTP_FORBIDDEN, "this key is not the one of foreline explore");
    snprintf(cookie, sizeof cookie, "foreline_%u=%s; Path=/; HttpOnly; SameSite=Strict", s->port,
             s->key);
    struct MHD_Response *r = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    if (r && (MHD_add_response_header(r, MHD_HTTP_HEADER_SET_COOKIE, cookie) != MHD_YES ||
              MHD_add_response_header(r, MHD_HTTP_HEADER_LOCATION, "/") != MHD_YES)) {
        MHD_destroy_response(r);
        r = NULL;
    }
    return server_send(c, MHD_HTTP_SEE_OTHER, "text/plain; charset=utf-8", r);
}

static enum MHD_Result server_send_part(struct MHD_Connection *c, const struct page_part *p)
{
    const char *dot = strrchr(p->name, '.');
    const char *type = !strcmp(dot, ".css")  ? "text/css; charset=utf-8"
                       : !strcmp(dot, ".js") ? "text/javascript; charset=utf-8"
                                             : "text/html; charset=utf-8";
    return server_send(
        c, MHD_HTTP_OK, type,
        MHD_create_response_from_buffer(p->n, (void *)p->bytes, MHD_RESPMEM_PERSISTENT));
}

static enum MHD_Result server_start(const struct server *s, struct MHD_Connection *c)
{
    char *text = NULL;
    enum status st = start_write(s->tasks, server_client(c), s->files, &text);
    if (st != STATUS_OK)
        return server_fail(c, st);
    struct MHD_Response *r =
        MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
    if (!r)
        free(text);
    return server_send(c, MHD_HTTP_OK, "application/json", r);
}

/* A regular file of the folder, through no link, whatever has put it there. */
static enum MHD_Result server_send_file(const struct server *s, struct MHD_Connection *c,
                                        const char *name)
{
    struct stat found;
    int fd = -1, folder = -1;
    if (path_is_name(name))
        folder = open(s->tasks->at.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
        fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        close(folder);
    }
    if (fd < 0 || fstat(fd, &found) != 0 || !S_ISREG(found.st_mode)) {
        if (fd >= 0)
            close(fd);
        return server_say(c, MHD_HTTP_NOT_FOUND, "the page's folder has no such file");
    }
    struct MHD_Response *r = MHD_create_response_from_fd64((uint64_t)found.st_size, fd);
    if (!r)
        close(fd);
    if (r && MHD_add_response_header(r, "Content-Disposition", "attachment") != MHD_YES) {
        MHD_destroy_response(r);
        r = NULL;
    }
    return server_send(c, MHD_HTTP_OK, "application/octet-stream", r);
}

static ssize_t server_read_task(void *task, uint64_t at, char *to, size_t most)
{
    (void)at;
    ssize_t n = task_read(task, to, most);
    return n > 0    ? n
           : n == 0 ? MHD_CONTENT_READER_END_OF_STREAM
                    : MHD_CONTENT_READER_END_WITH_ERROR;
}

static void server_free_task(void *task)
{
    task_free(task);
}

static enum status server_parse_words(const struct json_document *d, struct arena *texts,
                                      const char ***word, size_t *n)
{
    struct json_at root = json_root(d), list;
    PASS(json_field(&root, "command", &list));
    PASS(json_get_array(&list, WORDS_MOST, n));
    PASS(ARENA_NEW(texts, *word, *n + 1));
    for (size_t i = 0; i < *n; i++) {
        struct json_at item = json_item(&list, i);
        PASS(json_get_string(&item, &(*word)[i]));
    }
    return STATUS_OK;
}

static enum MHD_Result server_run(const struct server *s, struct MHD_Connection *c,
                                  const struct json_document *d)
{
    struct arena texts = {0};
    const char **word = NULL;
    struct page_task *t = NULL;
    size_t n = 0;
    enum status st = server_parse_words(d, &texts, &word, &n);
    if (st == STATUS_OK)
        st = task_new(s->tasks, word, n, server_client(c), &t);
    arena_free(&texts);
    if (st != STATUS_OK)
        return server_fail(c, st);
    struct MHD_Response *r = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, PIECE, server_read_task, t, server_free_task);
    if (!r)
        task_free(t);
    return server_send(c, MHD_HTTP_OK, "application/x-ndjson", r);
}

static enum MHD_Result server_stop(const struct server *s, struct MHD_Connection *c,
                                   const struct json_document *d)
{
    struct json_at root = json_root(d), id;
    const char *text = NULL;
    enum status st = json_field(&root, "id", &id);
    if (st == STATUS_OK)
        st = json_get_string(&id, &text);
    if (st != STATUS_OK)
        return server_fail(c, st);
    return tasks_stop(s->tasks, text) ? server_say(c, MHD_HTTP_OK, "stopped")
                                      : server_say(c, MHD_HTTP_NOT_FOUND, "no such command runs");
}

static enum MHD_Result server_post(const struct server *s, struct MHD_Connection *c,
                                   const char *url, const char *body, size_t n)
{
    enum MHD_Result (*answer)(const struct server *, struct MHD_Connection *,
                              const struct json_document *) = !strcmp(url, "/run")    ? server_run
                                                              : !strcmp(url, "/stop") ? server_stop
                                                                                      : NULL;
    struct json_document d = {0};
    if (!answer)
        return server_say(c, MHD_HTTP_NOT_FOUND, "there is no such page");
    enum status st = json_parse("request", body, n, NULL, 0, &d);
    enum MHD_Result sent = st == STATUS_OK ? answer(s, c, &d) : server_fail(c, st);
    json_document_free(&d);
    return sent;
}

static enum MHD_Result server_get(struct server *s, struct MHD_Connection *c, const char *url)
{
    static const char file[] = "/file/";
    const char *key = server_key(c, url);
    const struct page_part *part = server_part(url);
    if (key)
        return server_let_in(s, c, key);
    if (part)
        return server_send_part(c, part);
    if (!strcmp(url, "/start"))
        return server_start(s, c);
    if (text_begins(url, file))
        return server_send_file(s, c, url + strlen(file));
    return server_say(c, MHD_HTTP_NOT_FOUND, "there is no such page");
}

/* ---- a request as it comes */

struct page_request {
    size_t n;
    char body[BODY + 1];
};

/* Before its body: is it refused? Else it gets room for a body. */
static enum MHD_Result server_begin(const struct server *s, struct MHD_Connection *c,
                                    const char *url, const char *method,
                                    struct page_request **request)
{
    bool get = !strcmp(method, MHD_HTTP_METHOD_GET);
    const char *refusal =
        get && server_key(c, url) ? server_refusal_of_host(s, c) : server_refusal(s, c, url);
    const char *length = server_header(c, MHD_HTTP_HEADER_CONTENT_LENGTH);
    uint64_t bytes;
    if (refusal)
        return server_say(c, MHD_HTTP_FORBIDDEN, refusal);
    if (!get && strcmp(method, MHD_HTTP_METHOD_POST) != 0)
        return server_say(c, MHD_HTTP_METHOD_NOT_ALLOWED, "expected GET or POST");
    if (length && !text_count(length, BODY, &bytes))
        return server_say(c, MHD_HTTP_CONTENT_TOO_LARGE, "a request may have 64 KiB");
    *request = malloc(sizeof **request);
    if (!*request)
        return MHD_NO;
    (*request)->n = 0;
    return MHD_YES;
}

/* A body without a length that becomes too long closes the connection. */
static enum MHD_Result server_answer(void *server, struct MHD_Connection *c, const char *url,
                                     const char *method, const char *version, const char *data,
                                     size_t *n, void **context)
{
    struct page_request *r = *context;
    (void)version;
    if (!r)
        return server_begin(server, c, url, method, (struct page_request **)context);
    if (*n == 0) {
        r->body[r->n] = '\0';
        return !strcmp(method, MHD_HTTP_METHOD_GET) ? server_get(server, c, url)
                                                    : server_post(server, c, url, r->body, r->n);
    }
    if (*n > BODY - r->n)
        return MHD_NO;
    memcpy(r->body + r->n, data, *n);
    r->n += *n;
    *n = 0;
    return MHD_YES;
}

static void server_completed(void *server, struct MHD_Connection *c, void **context,
                             enum MHD_RequestTerminationCode code)
{
    (void)server;
    (void)c;
    (void)code;
    free(*context);
    *context = NULL;
}

/* ---- the whole */

static enum status server_draw_key(char key[SERVER_KEY])
{
    unsigned char bytes[(SERVER_KEY - 1) / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return error_set(STATUS_IO, "getrandom: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(key + 2 * i, 3, "%02x", bytes[i]);
    return STATUS_OK;
}

/* The socket, and the port that it has got, before anybody can be answered. */
static enum status server_listen(unsigned *port, int *fd)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)*port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int yes = 1, s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s >= 0 && setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
        bind(s, (struct sockaddr *)&at, size) == 0 && listen(s, CONNECTIONS) == 0 &&
        getsockname(s, (struct sockaddr *)&at, &size) == 0) {
        *port = ntohs(at.sin_port);
        *fd = s;
        return STATUS_OK;
    }
    int cause = errno;
    if (s >= 0)
        close(s);
    return error_set(STATUS_IO, "cannot listen on port %u of 127.0.0.1: %s", *port,
                     strerror(cause));
}

enum status server_open(struct server *s, unsigned port, struct page_tasks *tasks,
                        const struct start_files *files)
{
    int fd = -1;
    *s = (struct server){.tasks = tasks, .files = files, .port = port};
    PASS(server_draw_key(s->key));
    PASS(server_draw_key(s->once));
    PASS(server_listen(&s->port, &fd));
    s->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL |
            MHD_USE_ITC,
        0, NULL, NULL, server_answer, s, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)fmax(2, limit_wait(mute_s)),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADERS, MHD_OPTION_THREAD_STACK_SIZE,
        (size_t)STACK, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_COMPLETED,
        server_completed, NULL, MHD_OPTION_END);
    if (s->daemon)
        return STATUS_OK;
    close(fd);
    return error_set(STATUS_EXTERNAL, "libmicrohttpd cannot start");
}

const char *server_url(const struct server *s, const char *key, char url[SERVER_URL])
{
    snprintf(url, SERVER_URL, "http://127.0.0.1:%u/?key=%s", s->port, key);
    return url;
}

void server_close(struct server *s)
{
    if (s->daemon)
        MHD_stop_daemon(s->daemon);
    *s = (struct server){0};
}
