/* What strangers' names look like where people read them. */
#include "host/screen.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/random.h"
#include "tests/cmocka.h"

enum { ROOM = 4096 };

static size_t random_below(uint64_t *random, size_t n)
{
    return (size_t)(random_next(random) % n);
}

static void expect(const char *text, const char *escaped)
{
    char out[ROOM];
    assert_int_equal(screen_escape(text, strlen(text), out, sizeof out), strlen(text));
    assert_string_equal(out, escaped);
}

static void what_a_terminal_obeys_is_spelled_out(void **state)
{
    expect("two racks\t1\n", "two racks\t1\n");
    expect("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m");
    expect("fine\rgood", "fine\\x0dgood");
    expect("\x7f\x01", "\\x7f\\x01");
    expect("a\xc2\x9b"
           "31mb",
           "a\\u009b31mb");
    expect("\xc3\xa4\xe2\x82\xac\xe2\x80\x99\xc2\xb5", "\xc3\xa4\xe2\x82\xac\xe2\x80\x99\xc2\xb5");
    expect("x\xe2\x80\xaey\xe2\x81\xa6z", "x\\u202ey\\u2066z");
}

static bool obeys(const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        if ((*c < 0x20 && *c != '\n' && *c != '\t') || *c == 0x7f ||
            (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0))
            return true;
    return false;
}

/* Bytes that begin escapes are frequent; however a text is cut, the parts give the same. */
static void random_bytes_come_out_harmless_in_any_pieces(void **state)
{
    static const unsigned char often[] = {0x1b, 0xc2, 0x9b, 0xe2, 0x80,
                                          0x81, 0xae, 0xa6, '\n', 'a'};
    uint64_t random = 7;
    for (int round = 0; round < 2000; round++) {
        char text[32], whole[ROOM], parts[ROOM] = "";
        size_t n = random_below(&random, sizeof text), cut = n > 0 ? random_below(&random, n) : 0;
        for (size_t i = 0; i < n; i++)
            text[i] = (char)(random_below(&random, 3) ? often[random_below(&random, sizeof often)]
                                                      : random_below(&random, 256));
        size_t taken = screen_escape(text, n, whole, sizeof whole);
        assert_true(n - taken < 3);
        assert_false(obeys(whole));
        size_t first = screen_escape(text, cut, parts, sizeof parts), length = strlen(parts);
        assert_int_equal(
            first + screen_escape(text + first, n - first, parts + length, sizeof parts - length),
            taken);
        assert_string_equal(parts, whole);
    }
}

/* In a child, whose streams are pipes; a character that comes in two writes is one. */
static void streams_escape_what_is_printed(void **state)
{
    int end[2];
    char out[ROOM] = "";
    assert_int_equal(pipe(end), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(end[1], STDOUT_FILENO);
        dup2(end[1], STDERR_FILENO);
        screen_protect();
        printf("\x1b[2Jplan %s\n\xc2", "two");
        fflush(stdout);
        printf("\x9b.");
        fflush(stdout);
        fprintf(stderr, "%s", "evil\a");
        exit(0);
    }
    close(end[1]);
    for (size_t n = 0; n < sizeof out - 1;) {
        ssize_t k = read(end[0], out + n, sizeof out - 1 - n);
        if (k <= 0)
            break;
        n += (size_t)k;
    }
    close(end[0]);
    waitpid(child, NULL, 0);
    assert_string_equal(out, "\\x1b[2Jplan two\n\\u009b.evil\\x07");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_terminal_obeys_is_spelled_out),
        cmocka_unit_test(random_bytes_come_out_harmless_in_any_pieces),
        cmocka_unit_test(streams_escape_what_is_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
