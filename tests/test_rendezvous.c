/* The rendezvous: a worker joins a launcher that is played by the test. */
#include "exec/rendezvous.h"

#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec/transport/tcp/socket.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/put.h"

/* A worker that joins in its own thread. */
struct joining {
    char address[64];
    double timeout_s;
    struct rendezvous r;
    enum status st;
    char message[512];
    pthread_t thread;
};

static void *join_main(void *argument)
{
    struct joining *j = argument;
    const struct frame_hello hello = {.rank = 1, .ranks = 2, .token = {7}, .settings = "seed\t8\n"};
    j->r = RENDEZVOUS_NONE;
    j->st = rendezvous_join(j->address, &hello, true, j->timeout_s, &j->r);
    if (j->st != STATUS_OK)
        snprintf(j->message, sizeof j->message, "%s", error_message());
    return NULL;
}

/* Start the worker and take its hello; *fd is the connection. */
static void meet(struct joining *j, int *fd, struct frame_hello *h)
{
    int listener = -1;
    uint16_t port;
    assert_int_equal(socket_listen(&listener, &port), STATUS_OK);
    *j = (struct joining){.timeout_s = 60};
    snprintf(j->address, sizeof j->address, "127.0.0.1:%u", port);
    assert_int_equal(pthread_create(&j->thread, NULL, join_main, j), 0);
    assert_int_equal(socket_poll(listener, POLLIN, INFINITY), STATUS_OK);
    assert_int_equal(socket_accept_now(listener, fd), STATUS_OK);
    assert_int_equal(socket_read(*fd, h, sizeof *h, INFINITY), STATUS_OK);
    assert_int_equal(frame_check(&h->head), STATUS_OK);
    assert_int_equal(h->head.type, FRAME_HELLO);
    assert_int_equal(h->head.bytes, sizeof *h - TOKEN - sizeof h->head);
    socket_close(&listener);
}

static void a_worker_says_who_it_is_and_learns_the_ports(void **state)
{
    struct joining j;
    struct frame_hello h;
    int fd = -1, data = -1;
    const struct frame_peer peers[2] = {{"10.0.0.1", 1111, 5}, {"10.0.0.2", 2222, 6}};
    char host[RENDEZVOUS_HOST];
    meet(&j, &fd, &h);
    assert_int_equal(h.rank, 1);
    assert_int_equal(h.ranks, 2);
    assert_int_equal(h.token[0], 7);
    assert_string_equal(h.settings, "seed\t8\n");
    /* the port that it tells is open already */
    assert_int_equal(socket_connect("127.0.0.1", h.port, INFINITY, &data), STATUS_OK);
    assert_int_equal(frame_write(fd, FRAME_WELCOME, peers, sizeof peers, NULL, 0, INFINITY),
                     STATUS_OK);
    pthread_join(j.thread, NULL);
    assert_int_equal(j.st, STATUS_OK);
    assert_int_equal(j.r.rank, 1);
    assert_int_equal(j.r.ranks, 2);
    assert_int_equal(j.r.port[0], 1111);
    assert_int_equal(j.r.port[1], 2222);
    assert_true(j.r.clocks_differ);
    assert_string_equal(rendezvous_host(&j.r, 0, host), "10.0.0.1");
    assert_string_equal(rendezvous_host(&j.r, 1, host), "10.0.0.2");
    rendezvous_free(&j.r);
    rendezvous_free(&j.r); /* {none} is fine */
    socket_close(&data);
    socket_close(&fd);
}

/* The worker must fail and say `reason` when the launcher answers with these bytes and hangs up. */
static void answer_with(const void *bytes, size_t n, const char *reason)
{
    struct joining j;
    struct frame_hello h;
    int fd = -1;
    meet(&j, &fd, &h);
    assert_int_equal(socket_write(fd, bytes, n, INFINITY), STATUS_OK);
    socket_close(&fd);
    pthread_join(j.thread, NULL);
    assert_int_equal(j.st, STATUS_IO);
    if (!message_says(j.message, reason))
        fail_msg("'%s' does not say '%s'", j.message, reason);
}

static void strange_answers_are_refused(void **state)
{
    struct frame_head head = frame_head(FRAME_WELCOME, 2 * sizeof(struct frame_peer));
    answer_with(NULL, 0, "1 launcher 127.0.0.1");
    answer_with(&head, sizeof head - 1, "connection closed");
    answer_with(&head, sizeof head, "connection closed");
    head.bytes = UINT64_MAX;
    answer_with(&head, sizeof head, "this run");
    head = frame_head(FRAME_DONE, 2 * sizeof(struct frame_peer));
    answer_with(&head, sizeof head, "this run");
    head.type = FRAME_TYPES;
    answer_with(&head, sizeof head, "control unknown");
    head = frame_head(FRAME_WELCOME, 2 * sizeof(struct frame_peer));
    head.version = 99;
    answer_with(&head, sizeof head, "control protocol 99");
    head = frame_head(FRAME_WELCOME, 2 * sizeof(struct frame_peer));
    head.magic = 0x12345678;
    answer_with(&head, sizeof head, "control protocol 0x12345678");
}

/* Instead of a welcome; the text is the launcher's, and the terminal is not. */
static void a_refusal_says_why(void **state)
{
    struct {
        struct frame_head head;
        int32_t code;
        char text[16];
    } said = {.code = 1, .text = "rank 0: \033[31mno"};
    said.head = frame_head(FRAME_ERROR, sizeof said.code + strlen(said.text));
    size_t n = sizeof said.head + (size_t)said.head.bytes;
    answer_with(&said, n, "1 launcher 127.0.0.1");
    answer_with(&said, n, ": rank 0: ?[31mno");
    answer_with(&said, n - 1, "connection closed");
    said.head.bytes = sizeof said.code + ERROR_TEXT + 1;
    answer_with(&said, sizeof said, "this run");
    said.head.bytes = sizeof said.code - 1;
    answer_with(&said, sizeof said, "this run");
}

static void an_absent_or_silent_launcher_is_given_up_in_time(void **state)
{
    struct rendezvous r = RENDEZVOUS_NONE;
    const struct frame_hello hello = {.rank = 0, .ranks = 1};
    char address[64];
    int listener = -1;
    uint16_t port;
    assert_int_equal(socket_listen(&listener, &port), STATUS_OK);
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    assert_int_equal(rendezvous_join(address, &hello, true, 0.1, &r), STATUS_EXTERNAL);
    assert_message(error_message(), "timeout no answer");
    socket_close(&listener);
    assert_int_equal(rendezvous_join(address, &hello, true, 0.1, &r), STATUS_IO);
    assert_message(error_message(), "Connection refused");
    assert_int_equal(rendezvous_join(address, &hello, false, INFINITY, &r), STATUS_IO);
    assert_message(error_message(), "Connection refused");
    assert_int_equal(r.control, -1);
}

static void malformed_addresses_are_refused(void **state)
{
    static const char *const wrong[] = {
        "",        "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:80x",
        "host:80", ":80"};
    struct rendezvous r = RENDEZVOUS_NONE;
    const struct frame_hello hello = {.rank = 0, .ranks = 1};
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++)
        assert_int_equal(rendezvous_join(wrong[k], &hello, true, 1, &r), STATUS_INVALID);
}

static void one_address_is_everyones_and_several_are_each_ranks(void **state)
{
    char text[RENDEZVOUS_HOST];
    struct rendezvous r = {.host = "127.0.0.1"};
    assert_string_equal(rendezvous_host(&r, 0, text), "127.0.0.1");
    assert_string_equal(rendezvous_host(&r, 7, text), "127.0.0.1");
    r.host = "10.99.0.1,10.99.0.250,255.255.255.255";
    assert_string_equal(rendezvous_host(&r, 0, text), "10.99.0.1");
    assert_string_equal(rendezvous_host(&r, 1, text), "10.99.0.250");
    assert_string_equal(rendezvous_host(&r, 2, text), "255.255.255.255");
    assert_string_equal(rendezvous_host(&r, 3, text), "");
}

static void hexadecimal_goes_both_ways(void **state)
{
    const uint8_t bytes[] = {0x00, 0x1f, 0xa5, 0xff};
    uint8_t back[4];
    char text[9];
    hex_print(bytes, 4, text);
    assert_string_equal(text, "001fa5ff");
    assert_int_equal(hex_parse(text, back, 4), STATUS_OK);
    assert_memory_equal(back, bytes, 4);
    assert_int_equal(hex_parse("001fa5f", back, 4), STATUS_INVALID);
    assert_int_equal(hex_parse("001fa5fg", back, 4), STATUS_INVALID);
    assert_int_equal(hex_parse("001FA5FF", back, 4), STATUS_INVALID);
}

static void digests_of_files_are_sha256(void **state)
{
    static const char path[] = BINARY_DIR "/test_rendezvous.txt";
    char text[2 * DIGEST + 1];
    uint8_t digest[DIGEST];
    put_text(path, "abc");
    assert_int_equal(file_digest(path, digest), STATUS_OK);
    hex_print(digest, DIGEST, text); /* FIPS 180-2, appendix B.1 */
    assert_string_equal(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    FOR_EACH_ALLOC_FAILURE(file_digest(path, digest));
    unlink(path);
    assert_int_equal(file_digest(path, digest), STATUS_IO);
}

/* ---- who we are */

static void clear_environment(void)
{
    static const char *const name[] = {"RANK",
                                       "WORLD_SIZE",
                                       "LOCAL_RANK",
                                       "OMPI_COMM_WORLD_RANK",
                                       "OMPI_COMM_WORLD_SIZE",
                                       "OMPI_COMM_WORLD_LOCAL_RANK",
                                       "SLURM_PROCID",
                                       "SLURM_NTASKS",
                                       "SLURM_LOCALID"};
    for (size_t k = 0; k < sizeof name / sizeof *name; k++)
        unsetenv(name[k]);
}

static void check_rank(uint32_t expected, uint32_t of, uint32_t expected_local)
{
    uint32_t rank = 99, ranks = 99, local = 99;
    assert_int_equal(rendezvous_rank(&rank, &ranks), STATUS_OK);
    assert_int_equal(rendezvous_local_rank(&local), STATUS_OK);
    assert_int_equal(rank, expected);
    assert_int_equal(ranks, of);
    assert_int_equal(local, expected_local);
}

static void ranks_are_torchruns_else_mpiruns_else_slurms(void **state)
{
    clear_environment();
    setenv("SLURM_PROCID", "5", 1);
    setenv("SLURM_NTASKS", "8", 1);
    check_rank(5, 8, 0);
    setenv("SLURM_LOCALID", "1", 1);
    check_rank(5, 8, 1);
    setenv("OMPI_COMM_WORLD_RANK", "2", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", "0", 1);
    check_rank(2, 4, 0);
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "3", 1);
    setenv("LOCAL_RANK", "2", 1);
    check_rank(0, 3, 2);
    clear_environment();
}

static void bad_rank(const char *rank, const char *ranks, const char *message)
{
    uint32_t r = 99, n = 99;
    setenv("RANK", rank, 1);
    setenv("WORLD_SIZE", ranks, 1);
    assert_int_equal(rendezvous_rank(&r, &n), STATUS_USAGE);
    assert_message(error_message(), message);
    assert_true(r == 99 && n == 99);
}

static void ranks_that_make_no_sense_are_refused(void **state)
{
    uint32_t r = 99, n = 99;
    clear_environment();
    assert_int_equal(rendezvous_rank(&r, &n), STATUS_USAGE);
    assert_message(error_message(), "WORLD_SIZE is");
    bad_rank("4", "4", "RANK '4' number 0 3");
    bad_rank("-1", "4", "RANK '-1' number 0 3");
    bad_rank("1x", "4", "RANK '1x' number 0 3");
    bad_rank("", "4", "RANK number 0 3");
    bad_rank("0", "0", "WORLD_SIZE '0' number 1 1048576");
    setenv("LOCAL_RANK", "many", 1);
    assert_int_equal(rendezvous_local_rank(&r), STATUS_USAGE);
    clear_environment();
}

static void delays_are_one_of_each_rank_or_refused(void **state)
{
    struct delay *d = NULL;
    assert_int_equal(rendezvous_delays(NULL, 2, &d), STATUS_OK);
    assert_null(d);
    FOR_EACH_ALLOC_FAILURE((free(d), d = NULL, rendezvous_delays("0:0,0.5:1e-9", 2, &d)));
    assert_true(d[0].latency_s == 0 && d[0].per_byte_s == 0);
    assert_true(d[1].latency_s == 0.5 && d[1].per_byte_s == 1e-9);
    free(d);
    static const char *const bad[] = {
        "",         "0:0",     "0:0,0:0,0:0", "0:0,",     "0:0,x",     "0:0,0:",  "0:0;0:0",
        "-1:0,0:0", "0:2,0:0", "nan:0,0:0",   "0:0,0:0 ", "0:inf,0:0", "0:0,,0:0"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        d = NULL;
        assert_int_equal(rendezvous_delays(bad[k], 2, &d), STATUS_USAGE);
        assert_null(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_says_who_it_is_and_learns_the_ports),
        cmocka_unit_test(strange_answers_are_refused),
        cmocka_unit_test(a_refusal_says_why),
        cmocka_unit_test(ranks_are_torchruns_else_mpiruns_else_slurms),
        cmocka_unit_test(ranks_that_make_no_sense_are_refused),
        cmocka_unit_test(delays_are_one_of_each_rank_or_refused),
        cmocka_unit_test(an_absent_or_silent_launcher_is_given_up_in_time),
        cmocka_unit_test(malformed_addresses_are_refused),
        cmocka_unit_test(one_address_is_everyones_and_several_are_each_ranks),
        cmocka_unit_test(hexadecimal_goes_both_ways),
        cmocka_unit_test(digests_of_files_are_sha256),
    };
    return cmocka_run_group_tests_name("rendezvous", tests, NULL, NULL);
}
