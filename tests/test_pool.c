/* Workers that take one item after another: every answer arrives, and a death costs one item. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "study/pool.h"
#include "tests/cmocka.h"

enum { ITEMS = 50 };

struct answer {
    size_t square;
    pid_t worker;
};

struct heard {
    size_t times[ITEMS], deaths, total, workers;
    pid_t worker[ITEMS];
    char message[64];
    int stop;
    size_t stop_after, fail_after; /* 0: never */
};

/* Item 13 is deadly. */
static void work(void *context, size_t item, void *slot)
{
    struct answer *a = slot;
    (void)context;
    if (item == 13)
        raise(SIGKILL);
    *a = (struct answer){item * item, getpid()};
}

static enum status done(void *context, size_t item, const void *slot)
{
    struct heard *h = context;
    const struct answer *a = slot;
    assert_true(item < ITEMS);
    h->times[item]++;
    h->total++;
    if (!a) {
        h->deaths++;
        strncpy(h->message, error_message(), sizeof h->message - 1);
    } else {
        assert_int_equal(a->square, item * item);
        h->worker[item] = a->worker;
    }
    h->stop = h->stop_after && h->total >= h->stop_after;
    return h->total == h->fail_after ? error_set(STATUS_IO, "the disk is full") : STATUS_OK;
}

static enum status run(struct heard *h, size_t workers, const size_t *item, size_t n)
{
    const struct pool_job job = {.workers = workers,
                                 .size = sizeof(struct answer),
                                 .work = work,
                                 .done = done,
                                 .stop = &h->stop,
                                 .context = h};
    return pool_run(&job, item, n);
}

static void hears_of_every_item_once(void **state)
{
    size_t item[ITEMS];
    for (size_t i = 0; i < ITEMS; i++)
        item[i] = i;
    for (size_t workers = 1; workers <= 4; workers++) {
        struct heard h = {0};
        assert_int_equal(run(&h, workers, item, ITEMS), STATUS_OK);
        for (size_t i = 0; i < ITEMS; i++) {
            assert_int_equal(h.times[i], 1);
            assert_int_not_equal(h.worker[i], getpid());
        }
        assert_int_equal(h.deaths, 1);
        assert_message(h.message, "the process that computed this point died: Killed");
    }
}

static void stops_when_told(void **state)
{
    const size_t item[] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct heard h = {.stop_after = 3};
    assert_int_equal(run(&h, 1, item, 8), STATUS_OK);
    assert_int_equal(h.total, 3);
}

/* Item 2 never ends. */
static enum status endless(void *context, size_t i, void *slot)
{
    while (i == 2)
        pause();
    *(size_t *)slot = (i + 1) * (size_t)(uintptr_t)context;
    return STATUS_OK;
}

static void what_is_given_up_stays_zero(void **state)
{
    const int stop = 1;
    size_t slot[4] = {0};
    const struct pool_items items = {.workers = 2,
                                     .n = 4,
                                     .size = sizeof *slot,
                                     .slots = slot,
                                     .work = endless,
                                     .context = (void *)(uintptr_t)7,
                                     .stop = &stop};
    assert_int_equal(pool_for_watched(&items), STATUS_OK);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(slot[i], i == 2 ? 0 : 7 * (i + 1));
}

static void ends_with_the_first_error(void **state)
{
    const size_t item[] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct heard h = {.fail_after = 2};
    assert_int_equal(run(&h, 1, item, 8), STATUS_IO);
    assert_message(error_message(), "the disk is full");
    assert_int_equal(h.total, 2);
}

static void does_nothing_without_items(void **state)
{
    struct heard h = {0};
    assert_int_equal(run(&h, 2, NULL, 0), STATUS_OK);
    assert_int_equal(h.total, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hears_of_every_item_once),    cmocka_unit_test(stops_when_told),
        cmocka_unit_test(what_is_given_up_stays_zero), cmocka_unit_test(ends_with_the_first_error),
        cmocka_unit_test(does_nothing_without_items),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
