/* Strangers at the door cost who belongs there nothing. */
#include "exec/door.h"

#include <math.h>
#include <string.h>
#include <sys/socket.h>

#include "core/base/clock.h"
#include "core/base/limit.h"
#include "core/base/random.h"
#include "exec/transport/tcp/socket.h"
#include "tests/cmocka.h"
#include "tests/fault.h"

enum { HELLO = 100, STRANGERS = 50 };
static const uint8_t token[TOKEN] = {5, 4, 3, 2, 1};

static void fill(char hello[HELLO], int number)
{
    memset(hello, number, HELLO);
    memcpy(hello, token, TOKEN);
}

static int call(uint16_t port)
{
    int fd = -1;
    assert_int_equal(socket_connect("127.0.0.1", port, clock_now() + 20, &fd), STATUS_OK);
    return fd;
}

static int say(uint16_t port, const void *text, size_t n)
{
    int fd = call(port);
    if (n > 0)
        assert_int_equal(socket_write(fd, text, n, clock_now() + 20), STATUS_OK);
    return fd;
}

static void begin(struct door *d, int *listener, uint16_t *port)
{
    *listener = -1;
    assert_int_equal(socket_listen(listener, port), STATUS_OK);
    assert_int_equal(door_open(*listener, token, HELLO, d), STATUS_OK);
}

/* The next that is let in has this number. */
static void expect(struct door *d, int number)
{
    char want[HELLO], got[HELLO];
    int fd = -1;
    fill(want, number);
    assert_int_equal(door_answer(d, clock_now() + 20, got, &fd), STATUS_OK);
    assert_memory_equal(got, want, HELLO);
    socket_close(&fd);
}

/* One garbage differs from the token in its last byte only; others are anything, of any length. */
static void strangers_hold_nobody_up(void **state)
{
    struct door d;
    int listener, fd[2 * STRANGERS], own;
    uint16_t port;
    uint64_t random = 3;
    char text[HELLO];
    begin(&d, &listener, &port);
    for (int k = 0; k < STRANGERS; k++)
        fd[k] = call(port);
    for (int k = STRANGERS; k < 2 * STRANGERS; k++) {
        fill(text, k);
        for (size_t i = 0; k % 2 && i < HELLO; i++)
            text[i] = (char)random_next(&random);
        text[TOKEN - 1] ^= 1;
        fd[k] = say(port, text, 1 + random_next(&random) % HELLO);
    }
    fill(text, 77);
    own = say(port, text, HELLO);
    double began_s = clock_now();
    expect(&d, 77);
    assert_true(clock_now() - began_s <
                limit_wait(DOOR_PATIENCE) / 2); /* before: 3 s for each silent one */
    for (int k = 0; k < 2 * STRANGERS; k++)
        socket_close(&fd[k]);
    socket_close(&own);
    door_close(&d);
    socket_close(&listener);
}

/* More than there are places; all of a run come after them. */
static void a_flood_leaves_room(void **state)
{
    enum { FLOOD = 3 * DOOR_CALLERS };
    struct door d;
    int listener, fd[FLOOD], own[4];
    uint16_t port;
    char text[HELLO];
    begin(&d, &listener, &port);
    for (int k = 0; k < FLOOD; k++) {
        fd[k] = call(port);
        if (k % DOOR_CALLERS == 0) {
            fill(text, k / DOOR_CALLERS);
            own[k / DOOR_CALLERS] = say(port, text, HELLO);
        }
        int none;
        if (k % 50 == 49)
            assert_int_equal(door_step(&d, text, &none), STATUS_OK);
        if (k % 50 == 49 && none >= 0) {
            assert_memory_equal(text, token, TOKEN);
            socket_close(&none);
        }
    }
    fill(text, 9);
    own[3] = say(port, text, HELLO);
    for (char got[HELLO] = ""; got[HELLO - 1] != 9;) {
        int in = -1;
        assert_int_equal(door_answer(&d, clock_now() + 20, got, &in), STATUS_OK);
        socket_close(&in);
    }
    for (int k = 0; k < FLOOD; k++)
        socket_close(&fd[k]);
    for (int k = 0; k < 4; k++)
        socket_close(&own[k]);
    door_close(&d);
    socket_close(&listener);
}

/* Byte by byte is fine while it comes; who stops is dropped, and so is one whose token is wrong,
 * before its hello is whole. */
static void a_hello_may_come_in_pieces_but_not_stop(void **state)
{
    struct door d;
    int listener, in = -1;
    uint16_t port;
    char text[HELLO], got[HELLO], end;
    begin(&d, &listener, &port);
    fill(text, 8);
    int slow = call(port), stuck = say(port, text, HELLO - 1);
    for (size_t i = 0; i < HELLO; i++) {
        assert_int_equal(door_step(&d, got, &in), STATUS_OK);
        assert_int_equal(in, -1);
        assert_int_equal(socket_write(slow, text + i, 1, INFINITY), STATUS_OK);
    }
    expect(&d, 8);
    text[0] ^= 1;
    int wrong = say(port, text, TOKEN);
    assert_int_equal(door_answer(&d, clock_now() + 0.1, got, &in), STATUS_EXTERNAL);
    assert_int_equal(recv(wrong, &end, 1, MSG_DONTWAIT), 0);
    assert_int_equal(recv(stuck, &end, 1, MSG_DONTWAIT), -1); /* still has time */
    for (struct caller *c = d.caller; c < d.caller + DOOR_CALLERS; c++)
        c->since_s -= limit_wait(DOOR_PATIENCE);
    assert_int_equal(door_answer(&d, clock_now() + 0.05, got, &in), STATUS_EXTERNAL);
    assert_int_equal(recv(stuck, &end, 1, MSG_DONTWAIT), 0);
    socket_close(&slow);
    socket_close(&stuck);
    socket_close(&wrong);
    door_close(&d);
    door_close(&d);
    socket_close(&listener);
}

/* One of ours with another token is told so when its hello is whole; a stranger is dropped as
 * before. */
static void another_token_is_told_so(void **state)
{
    struct door d;
    int listener, in = -1;
    uint16_t port;
    char text[HELLO], got[HELLO], told[8] = "";
    const struct frame_head head = frame_head(FRAME_HELLO, HELLO - TOKEN - sizeof head);
    begin(&d, &listener, &port);
    d.refusal = "another";
    d.refusal_bytes = 7;
    fill(text, 8);
    text[0] ^= 1;
    int stranger = say(port, text, TOKEN + sizeof head);
    memcpy(text + TOKEN, &head, sizeof head);
    int ours = say(port, text, HELLO - 1);
    assert_int_equal(door_answer(&d, clock_now() + 0.1, got, &in), STATUS_EXTERNAL);
    assert_int_equal(recv(stranger, told, 7, MSG_DONTWAIT), 0);
    assert_int_equal(recv(ours, told, 7, MSG_DONTWAIT), -1); /* may go on */
    assert_int_equal(d.refused, 0);
    assert_int_equal(socket_write(ours, text + HELLO - 1, 1, INFINITY), STATUS_OK);
    assert_int_equal(door_answer(&d, clock_now() + 0.1, got, &in), STATUS_EXTERNAL);
    assert_int_equal(socket_read(ours, told, 7, clock_now() + 20), STATUS_OK);
    assert_string_equal(told, "another");
    assert_int_equal(recv(ours, told, 7, 0), 0);
    assert_int_equal(d.refused, 1);
    socket_close(&ours);
    socket_close(&stranger);
    door_close(&d);
    socket_close(&listener);
}

static enum status open_and_close(int listener)
{
    struct door d = {0};
    enum status st = door_open(listener, token, HELLO, &d);
    door_close(&d);
    return st;
}

static void survives_failing_allocations(void **state)
{
    FOR_EACH_ALLOC_FAILURE(open_and_close(-1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_hold_nobody_up),
        cmocka_unit_test(a_flood_leaves_room),
        cmocka_unit_test(a_hello_may_come_in_pieces_but_not_stop),
        cmocka_unit_test(another_token_is_told_so),
        cmocka_unit_test(survives_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
