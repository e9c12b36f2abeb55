/* server.h - the page over HTTP, to one user of this machine.
 *
 * Listens on 127.0.0.1 alone. A request is answered if its Host is 127.0.0.1:PORT or
 * localhost:PORT (a name that somebody else's DNS turns into this address is not), its Origin,
 * where it has one, is that page, and it has the cookie, which GET /?key=KEY sets; all but the
 * page's own files also need the header X-Foreline, which other sites cannot send. Bodies,
 * headers, connections and times are bounded.
 *
 *   GET /?key=KEY, /, /NAME   the page and its files (parts.h)
 *   GET /start                explore/start.h
 *   GET /file/NAME            a file of the tasks' folder
 *   POST /run, /stop          {"command": ["plan", ...]}: lines of explore/task.h; {"id": "17"} */
#ifndef EXPLORE_SERVER_H
#define EXPLORE_SERVER_H

#include <stdint.h>

#include "core/base/error.h"
#include "explore/start.h"
#include "explore/task.h"

enum { SERVER_KEY = 65, SERVER_URL = 128 };

/* Not moved while it is open; {0} before. */
struct server {
    struct page_tasks *tasks;
    const struct start_files *files;
    struct MHD_Daemon *daemon;
    unsigned port;
    char key[SERVER_KEY]; /* hexadecimal */
    /* The same for one call, because command lines of browsers are no secret; tasks->lock. */
    char once[SERVER_KEY];
};

/* Listen on the port (0: any that is free), for these tasks, with new keys. STATUS_IO. */
enum status server_open(struct server *s, unsigned port, struct page_tasks *tasks,
                        const struct start_files *files) MUST_CHECK;
/* Where the page is, "http://127.0.0.1:8080/?key=..." with either key. Returns `url`. */
const char *server_url(const struct server *s, const char *key, char url[SERVER_URL]);
/* After tasks_end(): all requests have ended then. */
void server_close(struct server *s);

#endif
