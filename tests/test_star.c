/* How ranks meet rank 0 for barriers and identities: on one machine, and as torchrun says. */
#include "exec/star.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "exec/transport/tcp/socket.h"
#include "tests/cmocka.h"

enum { RANKS = 3 };

struct member {
    struct rendezvous r;
    double patience_s;
    enum status st;
    bool one_clock;
    int told;
    char message[512];
    pthread_t thread;
};

/* Meet, arrive, and hear rank 0's number. */
static enum status meet(struct member *m)
{
    enum status st;
    struct star s = {0};
    double deadline_s = clock_now() + m->patience_s;
    TRY(star_open(&m->r, deadline_s, &s));
    TRY(star_gather(&s, 0, deadline_s));
    TRY(star_spread(&s, &m->told, sizeof m->told, deadline_s));
    m->one_clock = s.one_clock;
out:
    star_close(&s);
    return st;
}

static void *member_main(void *argument)
{
    struct member *m = argument;
    m->st = meet(m);
    if (m->st != STATUS_OK)
        snprintf(m->message, sizeof m->message, "%s", error_message());
    return NULL;
}

static void play(struct member *m, uint32_t n, double patience_s)
{
    static uint16_t port[RANKS];
    for (uint32_t k = 0; k < n; k++) {
        m[k] = (struct member){.patience_s = patience_s, .told = k == 0 ? 42 : 0};
        m[k].r = (struct rendezvous){.rank = k,
                                     .ranks = RANKS,
                                     .host = "127.0.0.1",
                                     .port = port,
                                     .listener = -1,
                                     .control = -1,
                                     .token = {1, 2, 3}};
    }
    assert_int_equal(socket_listen(&m[0].r.listener, &port[0]), STATUS_OK);
    for (uint32_t k = 0; k < n; k++)
        assert_int_equal(pthread_create(&m[k].thread, NULL, member_main, &m[k]), 0);
    for (uint32_t k = 0; k < n; k++)
        pthread_join(m[k].thread, NULL);
    socket_close(&m[0].r.listener);
}

static void check_met(const struct member *m)
{
    for (uint32_t k = 0; k < RANKS; k++) {
        if (m[k].st != STATUS_OK)
            fail_msg("rank %u: %s", k, m[k].message);
        assert_int_equal(m[k].told, 42);
        assert_true(m[k].one_clock);
    }
}

static void ranks_of_a_machine_meet_at_the_rendezvous(void **state)
{
    struct member m[RANKS];
    play(m, RANKS, 60);
    check_met(m);
}

static int forget(void **state)
{
    unsetenv("MASTER_ADDR");
    unsetenv("MASTER_PORT");
    unsetenv("TORCHELASTIC_USE_AGENT_STORE");
    return 0;
}

static void a_port_or_name_that_is_none_is_refused(void **state)
{
    char host[RENDEZVOUS_HOST] = "untouched";
    uint16_t port = 7;
    bool given = true;
    assert_int_equal(rendezvous_master(host, &port, &given), STATUS_OK);
    assert_true(!given && port == 29500);
    assert_string_equal(host, "127.0.0.1");
    setenv("MASTER_PORT", "29951", 1); /* obeyed on one machine, too */
    assert_int_equal(rendezvous_master(host, &port, &given), STATUS_OK);
    assert_true(!given && port == 29951);
    unsetenv("MASTER_PORT");
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    assert_int_equal(rendezvous_master(host, &port, &given), STATUS_OK);
    assert_true(given && port == 29500);
    assert_string_equal(host, "127.0.0.1");
    setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1); /* torchrun's agent has that port itself */
    assert_int_equal(rendezvous_master(host, &port, &given), STATUS_OK);
    assert_int_equal(port, 29501);
    setenv("MASTER_PORT", "65536", 1);
    assert_int_equal(rendezvous_master(host, &port, &given), STATUS_USAGE);
    setenv("MASTER_PORT", "29500", 1);
    setenv("MASTER_ADDR", "no such name", 1);
    assert_int_equal(rendezvous_master(host, &port, &given), STATUS_IO);
}

static void a_rank_that_does_not_come_ends_the_wait(void **state)
{
    struct member m[RANKS];
    play(m, 2, 0.2);
    for (uint32_t k = 0; k < 2; k++)
        assert_true(m[k].st == STATUS_EXTERNAL || m[k].st == STATUS_IO);
    assert_non_null(strstr(m[0].message, "timeout: no answer"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_a_machine_meet_at_the_rendezvous),
        cmocka_unit_test_setup_teardown(a_port_or_name_that_is_none_is_refused, forget, forget),
        cmocka_unit_test(a_rank_that_does_not_come_ends_the_wait),
    };
    forget(NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
