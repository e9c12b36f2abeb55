/* Machines of ranks, against lists of names written out, from a seed; what is refused. */
#include "exec/launch/hosts.h"

#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/random.h"
#include "tests/cmocka.h"
#include "tests/fault.h"

enum { ENTRIES = 8, SLOTS = 4 };
static const char path[] = BINARY_DIR "/test_hosts.txt";

static void write_file(const char *text)
{
    struct file_out f;
    assert_int_equal(file_create(path, &f), STATUS_OK);
    fputs(text, f.stream);
    assert_int_equal(file_commit(&f), STATUS_OK);
}

/* The rank's host is the rank's in a list with a line for each slot; its number there is how often
 * its host stood before. */
static void check(const char *spec, char name[][8], size_t ranks)
{
    struct hosts h = {0};
    size_t local = 0;
    if (hosts_read(spec, &h) != STATUS_OK)
        fail_msg("%s: %s", spec, error_message());
    for (size_t r = 0; r < ranks; r++) {
        size_t before = 0;
        for (size_t k = 0; k < r; k++)
            before += !strcmp(name[k], name[r]);
        assert_string_equal(hosts_of(&h, r, &local), name[r]);
        assert_int_equal(local, before);
    }
    assert_null(hosts_of(&h, ranks, &local));
    hosts_free(&h);
}

static void ranks_are_where_lists_and_files_say(void **state)
{
    for (uint64_t seed = 1; seed <= 100; seed++) {
        char list[256] = "", lines[512] = "# machines\n\n", name[ENTRIES * SLOTS][8];
        size_t ranks = 0, entries = 1 + random_key(seed, 0) % ENTRIES;
        for (size_t i = 0; i < entries; i++) {
            size_t host = random_key(seed, 2 * i + 1) % 3,
                   slots = 1 + random_key(seed, 2 * i + 2) % SLOTS;
            size_t n = strlen(list), m = strlen(lines);
            snprintf(list + n, sizeof list - n, "%sn%zu:%zu", i ? "," : "", host, slots);
            snprintf(lines + m, sizeof lines - m,
                     i % 2 ? "n%zu:%zu # some\n" : "  n%zu slots=%zu max_slots=9\n", host, slots);
            for (size_t k = 0; k < slots; k++)
                snprintf(name[ranks++], sizeof *name, "n%zu", host);
        }
        check(list, name, ranks);
        write_file(lines);
        check(path, name, ranks);
    }
}

static void what_is_no_host_is_refused(void **state)
{
    static const char *const bad[] = {
        "-x:2,n1", "n1:0,n2", "n1:,n2",       "n1:2,",      "n1:two,n2",
        ":2",      "a b,c",   "n1;ls,n2",     "$(ls):2,n1", "n1:99999999999,n2",
        "",        "nowhere", "localhost:two"};
    static const char *const wanted = "expected HOST:RANKS,... such as localhost:2, or a file";
    struct hosts h = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (hosts_read(bad[i], &h) != STATUS_PARSE || !message_says(error_message(), wanted))
            fail_msg("%s is taken, or: %s", bad[i], error_message());
    write_file("# nobody\n\n");
    assert_int_equal(hosts_read(path, &h), STATUS_INVALID);
    write_file("n1\nn2 slots=-1\n");
    assert_int_equal(hosts_read(path, &h), STATUS_PARSE);
    assert_message(error_message(), "test_hosts.txt:2: ");
    assert_int_equal(hosts_read("/nowhere/hosts", &h), STATUS_IO);
}

static enum status read_and_free(const char *spec)
{
    struct hosts h = {0};
    enum status st = hosts_read(spec, &h);
    hosts_free(&h);
    return st;
}

static void survives_every_failing_allocation(void **state)
{
    write_file("# machines\nn1 slots=2\nn2:3\nn1\n");
    FOR_EACH_ALLOC_FAILURE(read_and_free(path));
    FOR_EACH_ALLOC_FAILURE(read_and_free("n1:2,n2:3,n1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_where_lists_and_files_say),
        cmocka_unit_test(what_is_no_host_is_refused),
        cmocka_unit_test(survives_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
