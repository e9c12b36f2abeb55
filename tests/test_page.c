/* Reports in a real browser: Chromium without a window, asked over its debugging pipe. */
#include "plots/page.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/file.h"
#include "plots/kind.h"
#include "tests/cmocka.h"
#include "tests/put.h"

static const char page[] = BINARY_DIR "/test_page.html", trace[] = BINARY_DIR "/test_page.json",
                  profile[] = BINARY_DIR "/test_page.profile";

static const char trace_text[] =
    "{\"traceEvents\": [\n"
    "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 0, \"args\": {\"name\": \"rank 0 "
    "</script>\"}},\n"
    "{\"name\": \"0F0\", \"cat\": \"forward\", \"ph\": \"X\", \"ts\": 0, \"dur\": 1000, \"pid\": 0,"
    " \"args\": {\"microbatch\": 0}},\n"
    "{\"name\": \"1B7\", \"cat\": \"backward\", \"ph\": \"X\", \"ts\": 1500, \"dur\": 2500, "
    "\"pid\": "
    "1, \"args\": {\"microbatch\": 7}}]}\n";

static void write_page(void)
{
    put_text(trace, trace_text);
    put_text(BINARY_DIR "/test_page.svg",
             "<?xml version=\"1.0\"?>\n<svg width=\"200\" height=\"100\" "
             "xmlns=\"http://www.w3.org/2000/svg\"><rect width=\"200\" height=\"100\"/></svg>\n");
    FILE *f = fopen(page, "w");
    assert_non_null(f);
    page_open(f, "What <b>now</b> & \"then\"?");
    assert_int_equal(page_picture(f, BINARY_DIR "/test_page.svg", "a picture"), STATUS_OK);
    assert_int_equal(page_timeline(f, trace, "a timeline"), STATUS_OK);
    page_close(f);
    assert_int_equal(fclose(f), 0);
}

static void text_is_escaped_and_nothing_is_fetched(void **state)
{
    char *text = NULL;
    size_t length;
    write_page();
    assert_int_equal(file_read(page, &text, &length), STATUS_OK);
    assert_non_null(strstr(text, "<title>What &lt;b&gt;now&lt;/b&gt; &amp; &quot;then&quot;?<"));
    assert_non_null(strstr(text, "\"rank 0 \\u003c/script>\""));
    assert_non_null(strstr(text, "[1,4,7,1500,4000,\"1B7\"]"));
    assert_null(strstr(text, "src="));
    assert_null(strstr(text, "@import"));
    assert_null(strstr(text, "href=\"http"));
    free(text);
    assert_int_equal(page_picture(stderr, trace, ""), STATUS_PARSE);
}

/* A long cell takes several lines, or it would push the last column out of sight. */
static void long_cells_wrap(void **state)
{
    char *text = NULL;
    size_t length;
    static const char *const cell[] = {"short",
                                       "fifty letters that say where the time of all ranks went"};
    FILE *f = open_memstream(&text, &length);
    assert_non_null(f);
    page_row(f, "td", cell, 2);
    fclose(f);
    assert_non_null(strstr(text, "<td>short</td><td class=\"long\">fifty letters"));
    free(text);
}

static void tables_are_cut_and_say_so(void **state)
{
    struct plot_table t = {0};
    char *text = NULL;
    size_t length;
    static const char rows[] = "a\tb\n1\t<2>\n3\t4\n5\t6\n";
    assert_int_equal(table_parse("t", rows, strlen(rows), &t), STATUS_OK);
    FILE *f = open_memstream(&text, &length);
    assert_non_null(f);
    page_table(f, &t, 2);
    fclose(f);
    assert_non_null(strstr(text, "<tr><th>a</th><th>b</th></tr>"));
    assert_non_null(strstr(text, "<tr><td>1</td><td>&lt;2&gt;</td></tr>"));
    assert_null(strstr(text, "<td>5</td>"));
    assert_non_null(strstr(text, "The first 2 of 3 rows."));
    free(text);
    table_free(&t);
}

/* ---- browser: messages are JSON with a NUL behind each, in by file 3, out by file 4 */

struct browser {
    pid_t pid;
    int to, from;
    int number; /* of the last request */
    char session[80];
    size_t used;
    char room[1 << 20];
    bool complained;
};

static void start_browser(struct browser *b)
{
    int in[2], out[2];
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    b->pid = fork();
    assert_true(b->pid >= 0);
    if (b->pid == 0) {
        char where[300];
        int quiet = open("/dev/null", O_RDWR), read_end = fcntl(in[0], F_DUPFD, 10),
            write_end = fcntl(out[1], F_DUPFD, 10);
        dup2(quiet, 0);
        dup2(quiet, 1);
        dup2(quiet, 2);
        dup2(read_end, 3);
        dup2(write_end, 4);
        for (int fd = 5; fd < 32; fd++)
            close(fd);
        setpgid(0, 0);
        snprintf(where, sizeof where, "--user-data-dir=%s", profile);
        execlp("chromium", "chromium", "--headless", "--no-sandbox", "--disable-gpu",
               "--disable-dev-shm-usage", "--remote-debugging-pipe", "--window-size=1200,800",
               where, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    b->to = in[1];
    b->from = out[0];
}

static void stop_browser(struct browser *b)
{
    close(b->to);
    close(b->from);
    kill(-b->pid, SIGKILL);
    kill(b->pid, SIGKILL);
    waitpid(b->pid, NULL, 0);
}

/* The next message; what the page complains about is noted. Points into the buffer until the next
 * call; fails after half a minute of silence. */
static const char *next_message(struct browser *b)
{
    static char message[1 << 20];
    for (;;) {
        char *end = memchr(b->room, '\0', b->used);
        if (end) {
            size_t n = (size_t)(end - b->room) + 1;
            memcpy(message, b->room, n);
            memmove(b->room, b->room + n, b->used - n);
            b->used -= n;
            if (strstr(message, "\"Runtime.exceptionThrown\"") ||
                strstr(message, "\"Log.entryAdded\"") ||
                strstr(message, "\"Runtime.consoleAPICalled\"")) {
                print_message("browser: %.500s\n", message);
                b->complained = true;
            }
            return message;
        }
        struct pollfd p = {.fd = b->from, .events = POLLIN};
        assert_true(b->used < sizeof b->room);
        if (poll(&p, 1, 30000) != 1)
            fail_msg("the browser says nothing");
        ssize_t n = read(b->from, b->room + b->used, sizeof b->room - b->used);
        if (n <= 0)
            fail_msg("the browser has gone");
        b->used += (size_t)n;
    }
}

/* Send a request and return its answer. */
static const char *ask(struct browser *b, const char *method, const char *parameters)
{
    char text[2048], answer[32];
    int n = snprintf(text, sizeof text, "{\"id\":%d,\"method\":\"%s\",\"params\":{%s}%s%s%s}",
                     ++b->number, method, parameters, *b->session ? ",\"sessionId\":\"" : "",
                     b->session, *b->session ? "\"" : "");
    assert_true(n > 0 && (size_t)n < sizeof text);
    assert_int_equal(write(b->to, text, (size_t)n + 1), n + 1);
    snprintf(answer, sizeof answer, "{\"id\":%d,", b->number);
    for (;;) {
        const char *message = next_message(b);
        if (strncmp(message, answer, strlen(answer)) == 0)
            return message;
    }
}

/* The text after "key":" in a message. */
static void field(const char *message, const char *key, char *out, size_t room)
{
    char start[64];
    snprintf(start, sizeof start, "\"%s\":\"", key);
    const char *at = strstr(message, start);
    if (!at)
        fail_msg("no %s in %.300s", key, message);
    at += strlen(start);
    snprintf(out, room, "%.*s", (int)strcspn(at, "\""), at);
}

static void open_page(struct browser *b)
{
    char target[80], text[600];
    field(ask(b, "Target.createTarget", "\"url\":\"about:blank\""), "targetId", target,
          sizeof target);
    snprintf(text, sizeof text, "\"targetId\":\"%s\",\"flatten\":true", target);
    field(ask(b, "Target.attachToTarget", text), "sessionId", text, sizeof b->session);
    snprintf(b->session, sizeof b->session, "%.79s", text);
    ask(b, "Runtime.enable", "");
    ask(b, "Log.enable", "");
    ask(b, "Page.enable", "");
    snprintf(text, sizeof text, "\"url\":\"file://%s\"", page);
    ask(b, "Page.navigate", text);
    while (!strstr(next_message(b), "\"Page.loadEventFired\""))
        ;
}

static const char *evaluate(struct browser *b, const char *expression)
{
    char text[1000];
    snprintf(text, sizeof text, "\"expression\":\"%s\",\"returnByValue\":true", expression);
    return ask(b, "Runtime.evaluate", text);
}

static void move_mouse(struct browser *b, int x, int y)
{
    char text[200];
    snprintf(text, sizeof text, "\"type\":\"mouseMoved\",\"x\":%d,\"y\":%d", x, y);
    ask(b, "Input.dispatchMouseEvent", text);
}

/* Viewport pixels of a time (share of the axis) on a rank's compute lane, as the page lays out. */
static void hover(struct browser *b, int rank, double share)
{
    char value[64];
    int left, top, width;
    field(evaluate(b, "(r => Math.round(r.left) + ' ' + Math.round(r.top) + ' ' + "
                      "Math.round(r.width))(document.querySelector('canvas')"
                      ".getBoundingClientRect())"),
          "value", value, sizeof value);
    assert_int_equal(sscanf(value, "%d %d %d", &left, &top, &width), 3);
    move_mouse(b, left + 130 + (int)(share * (width - 140)), top + 4 + rank * 34 + 10);
}

static void a_report_loads_without_complaint_and_tells_an_op_under_the_mouse(void **state)
{
    static struct browser b;
    char tip[300];
    if (system("command -v chromium >/dev/null 2>&1") != 0) {
        print_message("chromium is not installed\n");
        skip();
    }
    signal(SIGPIPE, SIG_IGN);
    write_page();
    start_browser(&b);
    open_page(&b);
    field(evaluate(&b, "(r => r.width + 'x' + r.height)(document.querySelector('figure svg')"
                       ".getBoundingClientRect())"),
          "value", tip, sizeof tip);
    assert_string_equal(tip, "200x100");

    field(evaluate(&b, "(p => { const old = p.fillText, said = []; p.fillText = t => said.push(t); "
                       "window.dispatchEvent(new Event('resize')); p.fillText = old; "
                       "return said.filter(t => t.endsWith(' ms')).join('|'); })"
                       "(CanvasRenderingContext2D.prototype)"),
          "value", tip, sizeof tip);
    assert_string_equal(tip, "0 ms|0.5 ms|1 ms|1.5 ms|2 ms|2.5 ms|3 ms|3.5 ms|4 ms");

    hover(&b, 1, 0.6); /* 2.4 of 4 ms */
    field(evaluate(&b, "document.getElementById('tip').textContent.replaceAll('\\\\n', '|')"),
          "value", tip, sizeof tip);
    assert_string_equal(tip,
                        "1B7  backward|rank 1  microbatch 7|1.5000 ms to 4.0000 ms  (2.5000 ms)");
    hover(&b, 0, 0.6); /* idle there */
    field(evaluate(&b, "document.getElementById('tip').style.display"), "value", tip, sizeof tip);
    assert_string_equal(tip, "none");

    /* zoomed out of sight: what was at the left end has left */
    hover(&b, 0, 0.1);
    field(evaluate(&b, "document.getElementById('tip').textContent.slice(0, 3)"), "value", tip,
          sizeof tip);
    assert_string_equal(tip, "0F0");
    evaluate(&b, "(c => c.dispatchEvent(new WheelEvent('wheel', {deltaY: -2000, clientX: "
                 "c.getBoundingClientRect().right - 12, cancelable: true})))"
                 "(document.querySelector('canvas'))");
    hover(&b, 0, 0.11);
    field(evaluate(&b, "document.getElementById('tip').style.display"), "value", tip, sizeof tip);
    assert_string_equal(tip, "none");
    stop_browser(&b);
    assert_false(b.complained);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_escaped_and_nothing_is_fetched),
        cmocka_unit_test(long_cells_wrap),
        cmocka_unit_test(tables_are_cut_and_say_so),
        cmocka_unit_test(a_report_loads_without_complaint_and_tells_an_op_under_the_mouse),
    };
    return cmocka_run_group_tests_name("page", tests, NULL, NULL);
}
