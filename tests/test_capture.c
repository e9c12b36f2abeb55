/* Captured scripts: random ones against a replay by hand, what is refused, and files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/provenance.h"
#include "core/base/random.h"
#include "core/data/program_check.h"
#include "core/engine/engine.h"
#include "core/lower/captured.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/put.h"
#include "tests/sample.h"

static const double latency_s = 3e-6, bandwidth_Bps = 1e9;

static uint64_t seed;
static uint32_t below(uint32_t n)
{
    return (uint32_t)(random_mix(++seed) % n);
}

/* ---- random scripts: events in one global order, which every rank's list is a part of */

enum { RANKS = 6, GROUPS = 5, EVENTS = 60, LIST = 4 * EVENTS, CALLS = 4, MODULES = 3 };

struct script {
    struct capture c;
    struct capture_class class[RANKS];
    struct capture_op op[RANKS][LIST];
    struct capture_operator operation[CALLS];
    char *module[MODULES];
    uint32_t rank[RANKS], class_of[RANKS], member[GROUPS * RANKS], ids[RANKS];
    size_t group_start[GROUPS + 1];
    /* by hand */
    double host_s[RANKS], group_free_s[GROUPS], channel_free_s[RANKS][RANKS], end_s;
    double done_s[RANKS][LIST]; /* of each id */
};

static void make_groups(struct script *s, uint32_t ranks)
{
    size_t n = 0;
    for (size_t g = 0; g < GROUPS; g++) {
        uint32_t first = below(ranks), step = 1 + below(2);
        for (uint32_t r = 0; r < ranks; r++) /* any order but the first group's */
            if (g == 0 || below(2) || r == first)
                s->member[n++] =
                    g == 0 ? r : (first + r * (ranks % 2 || step == 1 ? 1 : step - 1)) % ranks;
        s->group_start[g + 1] = n;
    }
}

/* Which of a rank's groups is g? */
static uint32_t own_number(const struct script *s, uint32_t rank, size_t g)
{
    uint32_t n = 0;
    for (size_t k = 0; k < g; k++)
        for (size_t m = s->group_start[k]; m < s->group_start[k + 1]; m++)
            n += s->member[m] == rank;
    return n;
}

static void add(struct script *s, uint32_t rank, struct capture_op o)
{
    struct capture_class *c = &s->class[rank];
    if (o.kind != CAPTURE_COMPUTE && o.kind != CAPTURE_WAIT)
        o.id = s->ids[rank]++;
    s->op[rank][c->ops++] = o;
}

static void wait_for(struct script *s, uint32_t rank, uint32_t id)
{
    add(s, rank, (struct capture_op){.kind = CAPTURE_WAIT, .id = id});
    s->host_s[rank] = fmax(s->host_s[rank], s->done_s[rank][id]);
}

static void compute(struct script *s, uint32_t rank)
{
    uint32_t k = below(CALLS);
    add(s, rank,
        (struct capture_op){.kind = CAPTURE_COMPUTE,
                            .operation = k,
                            .module = below(MODULES),
                            .phase = (uint8_t)below(OP_PHASES),
                            .bytes = below(1000)});
    s->host_s[rank] += s->operation[k].flop / 1e12;
}

/* A ring of n: 2 (n - 1) steps of a latency and an n-th of the bytes. */
static void collective(struct script *s, size_t g, bool serial)
{
    size_t first = s->group_start[g], n = s->group_start[g + 1] - first;
    int64_t bytes = 1 + below(1000000);
    double start_s = n > 1 ? s->group_free_s[g] : 0;
    for (size_t k = 0; k < n; k++)
        start_s = fmax(start_s, s->host_s[s->member[first + k]]);
    double steps = 2 * (double)(n - 1);
    double end_s = start_s + steps * (latency_s + (double)bytes / (double)n / bandwidth_Bps);
    for (size_t k = 0; k < n; k++) {
        uint32_t r = s->member[first + k];
        add(s, r,
            (struct capture_op){.kind = CAPTURE_COLLECTIVE,
                                .op_kind = OP_ALLREDUCE,
                                .group = own_number(s, r, g),
                                .bytes = bytes});
        s->done_s[r][s->ids[r] - 1] = n > 1 ? end_s : 0;
        if (n > 1 && serial)
            s->host_s[r] = fmax(s->host_s[r], end_s);
        if (below(2))
            wait_for(s, r, s->ids[r] - 1);
    }
    s->group_free_s[g] = end_s;
    s->end_s = n > 1 ? fmax(s->end_s, end_s) : s->end_s;
}

/* Nobody sends before the receiver is there. */
static void message(struct script *s, size_t g)
{
    size_t first = s->group_start[g], n = s->group_start[g + 1] - first;
    if (n < 2)
        return;
    uint32_t at = below((uint32_t)n), distance = 1 + below((uint32_t)n - 1);
    uint32_t from = s->member[first + at], to = s->member[first + (at + distance) % n];
    struct capture_op o = {.kind = CAPTURE_SEND, .op_kind = OP_SEND, .tag = below(2)};
    o.bytes = 1 + below(1000000);
    o.group = own_number(s, from, g);
    o.distance = distance;
    add(s, from, o);
    o.kind = CAPTURE_RECV;
    o.op_kind = OP_RECV;
    o.group = own_number(s, to, g);
    o.distance = (uint32_t)n - distance;
    add(s, to, o);
    double start_s = fmax(s->channel_free_s[from][to], fmax(s->host_s[from], s->host_s[to]));
    double sent_s = start_s + (double)o.bytes / bandwidth_Bps;
    s->channel_free_s[from][to] = sent_s;
    s->done_s[from][s->ids[from] - 1] = sent_s;
    s->done_s[to][s->ids[to] - 1] = sent_s + latency_s;
    s->end_s = fmax(s->end_s, sent_s + latency_s);
    if (below(2))
        wait_for(s, from, s->ids[from] - 1);
    if (below(2))
        wait_for(s, to, s->ids[to] - 1);
}

static void make_script(struct script *s, uint32_t ranks, bool serial)
{
    memset(s, 0, sizeof *s);
    s->module[0] = "";
    s->module[1] = "blocks.0.up";
    s->module[2] = "blocks.17.up";
    for (size_t k = 0; k < CALLS; k++)
        s->operation[k] = (struct capture_operator){
            .name = "aten.x", .key = "x", .times = 1, .flop = 1e7 * (double)below(100)};
    make_groups(s, ranks);
    for (uint32_t r = 0; r < ranks; r++) {
        s->rank[r] = s->class_of[r] = r;
        s->class[r] = (struct capture_class){.file = "c",
                                             .ranks = 1,
                                             .rank = &s->rank[r],
                                             .steps = 1,
                                             .weight_bytes = 100,
                                             .operators = CALLS,
                                             .modules = MODULES,
                                             .operation = s->operation,
                                             .module = s->module,
                                             .op = s->op[r]};
    }
    s->c = (struct capture){.ranks = ranks,
                            .groups = GROUPS,
                            .group_start = s->group_start,
                            .member = s->member,
                            .classes = ranks,
                            .class = s->class,
                            .class_of = s->class_of};
    for (int e = 0; e < EVENTS; e++) {
        uint32_t what = below(4), r = below(ranks);
        if (what < 2)
            compute(s, r);
        else if (what == 2)
            collective(s, below(GROUPS), serial);
        else if (!serial)
            message(s, below(GROUPS));
        if (s->ids[r] > 0 && below(3) == 0)
            wait_for(s, r, below(s->ids[r]));
    }
    for (uint32_t r = 0; r < ranks; r++)
        s->end_s = fmax(s->end_s, s->host_s[r]);
}

static double simulate(const struct program *p, const struct topology *t)
{
    struct simulation sim = {0};
    const struct simulation_options o = {.collective.algorithm = "ring"};
    double end_s = 0;
    assert_int_equal(engine_analytic.run(p, t, NULL, &o, &sim), STATUS_OK);
    for (size_t i = 0; i < p->ops; i++) {
        assert_true(isfinite(sim.timeline.end_s[i]));
        end_s = fmax(end_s, sim.timeline.end_s[i]);
    }
    simulation_free(&sim);
    return end_s;
}

static void random_scripts_take_what_a_replay_by_hand_says(void **state)
{
    static struct script s;
    for (int k = 0; k < 600; k++) {
        bool serial = k % 3 == 0;
        uint32_t ranks = 2 + below(RANKS - 1);
        struct topology t = sample_clique(ranks, latency_s, bandwidth_Bps);
        struct program p = {0};
        struct captured_tally tally;
        const struct captured_options o = {.serial = serial};
        make_script(&s, ranks, serial);
        assert_int_equal(capture_lower(&s.c, &t, &o, &p, &tally, NULL), STATUS_OK);
        double end_s = simulate(&p, &t);
        if (fabs(end_s - s.end_s) > 1e-9 * s.end_s)
            fail_msg("script %d: %.12g s, by hand %.12g s", k, end_s, s.end_s);
        program_free(&p);
        topology_free(&t);
    }
}

/* ---- modules, and what waits where */

/* Seconds of a rank's operators in numbered blocks, but for updates. */
static double in_blocks(const struct script *s, uint32_t rank)
{
    double sum = 0;
    for (size_t i = 0; i < s->class[rank].ops; i++) {
        const struct capture_op *o = &s->op[rank][i];
        if (o->kind == CAPTURE_COMPUTE && o->module > 0 && o->phase != IN_UPDATE)
            sum += s->operation[o->operation].flop / 1e12;
    }
    return sum;
}

static void check_sites(const struct script *s, const struct measurement *m)
{
    double busy = 0, exposed = 0, blocks = 0, n = (double)m->ranks;
    for (uint32_t r = 0; r < m->ranks; r++) {
        busy += m->rank[r].busy_s;
        exposed += m->rank[r].exposed_comm_s;
        blocks += in_blocks(s, r);
    }
    for (size_t k = 0; k < m->sites; k++) {
        const struct measured_site *x = &m->site[k];
        double *sum = x->kind == OP_COMPUTE ? &busy : &exposed;
        *sum -= n * x->seconds;
        assert_true(k == 0 || x->seconds <= m->site[k - 1].seconds);
        assert_true(!strcmp(x->module, "") || !strcmp(x->module, "blocks.*.up"));
        if (x->kind == OP_COMPUTE && *x->module)
            blocks -= n * x->seconds;
    }
    assert_true(fabs(busy) + fabs(exposed) + fabs(blocks) < 1e-9 * n * m->iteration_s);
}

static void sites_add_up_to_what_ranks_do_and_wait_for(void **state)
{
    static struct script s;
    const struct simulation_options o = {.collective.algorithm = "ring"};
    for (int k = 0; k < 200; k++) {
        uint32_t ranks = 2 + below(RANKS - 1);
        struct topology t = sample_clique(ranks, latency_s, bandwidth_Bps);
        struct program p = {0};
        struct captured_tally tally;
        struct captured_map map = {0};
        struct simulation sim = {0};
        struct measurement m = {0};
        make_script(&s, ranks, k % 2);
        assert_int_equal(
            capture_lower(&s.c, &t, &(struct captured_options){.serial = k % 2}, &p, &tally, &map),
            STATUS_OK);
        assert_int_equal(engine_analytic.run(&p, &t, NULL, &o, &sim), STATUS_OK);
        assert_int_equal(measurement_from_timeline(&p, &sim.timeline, &m), STATUS_OK);
        assert_int_equal(captured_sites(&s.c, &t, &p, &map, &sim.timeline, &m), STATUS_OK);
        check_sites(&s, &m);
        measurement_free(&m);
        simulation_free(&sim);
        captured_map_free(&map);
        program_free(&p);
        topology_free(&t);
    }
}

/* ---- memory, order, folding of ranks */

static struct script two_ranks(void)
{
    static struct script s;
    make_script(&s, 2, false);
    for (uint32_t r = 0; r < 2; r++)
        s.class[r].ops = 0;
    s.ids[0] = s.ids[1] = 0;
    s.group_start[1] = 2;
    s.c.groups = 1;
    s.member[0] = 0;
    s.member[1] = 1;
    return s;
}

/* Rank r does with its peer what `kind` says, and waits. */
static void exchange(struct script *s, uint32_t r, uint8_t kind)
{
    add(s, r,
        (struct capture_op){.kind = kind,
                            .op_kind = kind == CAPTURE_SEND ? OP_SEND : OP_RECV,
                            .distance = 1,
                            .bytes = 8});
    wait_for(s, r, s->ids[r] - 1);
}

static enum status lower(struct script *s, struct program *p)
{
    struct captured_tally tally;
    struct topology t = sample_clique(2, latency_s, bandwidth_Bps);
    s->c.group_start = s->group_start;
    s->c.member = s->member;
    s->c.class = s->class;
    s->c.class_of = s->class_of;
    for (uint32_t r = 0; r < 2; r++)
        s->class[r].op = s->op[r];
    enum status st = capture_lower(&s->c, &t, &(struct captured_options){0}, p, &tally, NULL);
    topology_free(&t);
    return st;
}

static void ranks_that_wait_for_each_other_are_named(void **state)
{
    struct program p = {0};
    struct script s = two_ranks();
    for (uint32_t r = 0; r < 2; r++) {
        exchange(&s, r, CAPTURE_RECV);
        exchange(&s, r, CAPTURE_SEND);
    }
    assert_int_equal(lower(&s, &p), STATUS_INVALID);
    assert_message(error_message(), "deadlock rank 0 0RECV rank 1");
}

static void a_message_that_nobody_takes_is_named(void **state)
{
    struct program p = {0};
    struct script s = two_ranks();
    exchange(&s, 0, CAPTURE_SEND);
    assert_int_equal(lower(&s, &p), STATUS_INVALID);
    assert_message(error_message(), "rank 0 0SEND rank 1 RECV");
}

static void the_peak_is_that_of_the_capture(void **state)
{
    struct program p = {0};
    struct script s = two_ranks();
    add(&s, 0, (struct capture_op){.kind = CAPTURE_COMPUTE, .bytes = 1100});
    exchange(&s, 0, CAPTURE_SEND);
    add(&s, 0, (struct capture_op){.kind = CAPTURE_COMPUTE, .bytes = 1500});
    add(&s, 0, (struct capture_op){.kind = CAPTURE_COMPUTE, .bytes = 700});
    exchange(&s, 1, CAPTURE_RECV);
    assert_int_equal(lower(&s, &p), STATUS_OK);
    uint32_t at;
    assert_int_equal(program_peak(&p, 0, &at), 1500);
    assert_int_equal(at, 2);
    assert_int_equal(program_peak(&p, 1, &at), 100);
    program_free(&p);
}

static void a_program_is_read_back_as_it_was(void **state)
{
    static struct script s;
    static const char path[] = BINARY_DIR "/test_capture_program.json";
    struct topology t = sample_clique(4, latency_s, bandwidth_Bps);
    struct program p = {0}, again = {0};
    struct captured_tally tally;
    const struct provenance by = {.version = "x", .command = "y"};
    seed = 77;
    make_script(&s, 4, false);
    assert_int_equal(capture_lower(&s.c, &t, &(struct captured_options){0}, &p, &tally, NULL),
                     STATUS_OK);
    assert_int_equal(program_write(&p, path, &by), STATUS_OK);
    assert_int_equal(program_read(path, &again), STATUS_OK);
    assert_true(again.captured);
    assert_int_equal(again.ops, p.ops);
    assert_true(simulate(&again, &t) == simulate(&p, &t));
    program_free(&again);
    program_free(&p);
    topology_free(&t);
}

/* ---- files */

static const char folder[] = BINARY_DIR "/test_capture";
static const char head[] =
    "{\"format\":\"foreline-capture\",\"version\":1,\"command\":\"t.py\",\"torch\":\"2\","
    "\"device\":"
    "\"cpu\",\"fake\":true,\"world_size\":2,\"node\":2,\"groups\":[[0,1]],\"classes\":[{\"file\":"
    "\"class-0.json\",\"captured\":0,\"ranks\":[0,1]}],\"notes\":[]}";
static const char class[] =
    "{\"format\":\"foreline-capture-class\",\"version\":1,\"steps\":1,\"weight_bytes\":8,"
    "\"gradient_bytes\":8,\"state_bytes\":0,\"peak_bytes\":64,\"modules\":[\"\"],\"operators\":[{"
    "\"op\":\"aten.mm.default\",\"key\":\"a\",\"kernel\":\"product\",\"dims\":[1,8,8,8],\"times\":"
    "1,"
    "\"flop\":1024,\"bytes\":768,\"type\":\"fp32\"}],\"ops\":[{\"op\":\"compute\",\"operator\":0,"
    "\"phase\":\"backward\",\"held\":64},{\"op\":\"allreduce\",\"group\":0,\"bytes\":8,\"id\":0},"
    "{\"op\":\"wait\",\"id\":0}],\"dry_s\":[0.5,0.25]}";

/* The text with `with` instead of `what`, which is in it. */
static void put_changed(const char *name, const char *text, const char *what, const char *with)
{
    char path[1024], changed[4096];
    const char *at = strstr(text, what);
    assert_non_null(at);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, with, at + strlen(what));
    put_text(path, changed);
}

static void put_both(void)
{
    mkdir(folder, 0777);
    put_changed("capture.json", head, "{", "{");
    put_changed("class-0.json", class, "{", "{");
}

static void a_folder_becomes_a_program(void **state)
{
    struct capture c = {0};
    struct program p = {0};
    struct captured_tally tally;
    struct topology t = sample_clique(2, latency_s, bandwidth_Bps);
    put_both();
    assert_true(capture_is(folder));
    assert_int_equal(capture_read(folder, &c), STATUS_OK);
    assert_int_equal(c.class[0].ops, 3);
    assert_int_equal(
        capture_lower(&c, &t, &(struct captured_options){.dry = true}, &p, &tally, NULL),
        STATUS_OK);
    double sum = 2 * (latency_s + 4 / bandwidth_Bps);
    assert_true(fabs(simulate(&p, &t) - (0.5 + sum)) < 1e-12);
    assert_int_equal(tally.shaped, 1);
    program_free(&p);
    capture_free(&c);
    topology_free(&t);
}

static void what_is_wrong_in_a_file_is_named(void **state)
{
    static const struct {
        const char *name, *what, *with, *words;
    } cases[] = {
        {"capture.json", "[[0,1]]", "[[0,2]]", "capture.json 2"},
        {"capture.json", "[[0,1]]", "[[]]", "capture.json list of ranks is empty"},
        {"capture.json", "\"ranks\":[0,1]", "\"ranks\":[0]", "capture.json rank 1 class"},
        {"capture.json", "\"ranks\":[0,1]", "\"ranks\":[0,0]", "capture.json rank 0 two"},
        {"capture.json", "class-0.json", "../x", "capture.json '../x'"},
        {"capture.json", "\"world_size\":2", "\"world_size\":0", "capture.json world_size"},
        {"class-0.json", "\"operator\":0", "\"operator\":1", "class-0.json operator 1"},
        {"class-0.json", "\"wait\",\"id\":0", "\"wait\",\"id\":1",
         "class-0.json communication 1 no earlier"},
        {"class-0.json", "\"bytes\":8,\"id\":0", "\"bytes\":8,\"id\":3", "class-0.json id 3 0"},
        {"class-0.json", "allreduce", "allgrind", "class-0.json 'allgrind'"},
        {"class-0.json", "[1,8,8,8]", "[1,8,8]", "class-0.json product 4"},
        {"class-0.json", "[0.5,0.25]", "[0.5]", "class-0.json dry_s 1 2"},
        {"class-0.json", "\"held\":64", "\"held\":-1", "class-0.json held"},
        {"class-0.json", "\"steps\":1", "\"steps\":0", "class-0.json steps"},
        {"class-0.json", "\"phase\"", "\"phrase\"", "class-0.json phrase"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct capture c = {0};
        put_both();
        put_changed(cases[k].name, cases[k].name[1] == 'a' ? head : class, cases[k].what,
                    cases[k].with);
        assert_int_equal(capture_read(folder, &c), STATUS_PARSE);
        assert_message(error_message(), cases[k].words);
    }
}

static enum status read_and_lower(const struct topology *t)
{
    enum status st;
    struct capture c = {0};
    struct program p = {0};
    struct captured_tally tally;
    struct captured_map map = {0};
    struct simulation sim = {0};
    struct measurement m = {0};
    TRY(capture_read(folder, &c));
    TRY(capture_lower(&c, t, &(struct captured_options){0}, &p, &tally, &map));
    TRY(engine_analytic.run(&p, t, NULL, NULL, &sim));
    TRY(captured_sites(&c, t, &p, &map, &sim.timeline, &m));
out:
    measurement_free(&m);
    simulation_free(&sim);
    captured_map_free(&map);
    program_free(&p);
    capture_free(&c);
    return st;
}

static void every_allocation_may_fail(void **state)
{
    struct topology t = sample_clique(2, latency_s, bandwidth_Bps);
    put_both();
    FOR_EACH_ALLOC_FAILURE(read_and_lower(&t));
    topology_free(&t);
}

/* ---- times */

static void a_table_is_asked_before_shapes(void **state)
{
    static const char path[] = BINARY_DIR "/test_capture_times.json";
    struct operator_times times = {0};
    put_text(
        path,
        "{\"format\":\"foreline-operators\",\"version\":1,\"device\":\"cpu\",\"torch\":\"2\","
        "\"operators\":[{\"key\":\"b\",\"op\":\"x\",\"seconds\":2},{\"key\":\"a\",\"op\":\"x\","
        "\"seconds\":1}]}");
    assert_int_equal(operator_times_read(path, &times), STATUS_OK);
    assert_true(operator_times_find(&times, "a")->seconds == 1);
    assert_true(operator_times_find(&times, "b")->seconds == 2);
    assert_null(operator_times_find(&times, "c"));
    operator_times_free(&times);
    put_text(path, "{\"format\":\"foreline-operators\",\"version\":1,\"operators\":[{\"key\":\"a\","
                   "\"seconds\":2},{\"key\":\"a\",\"seconds\":1}]}");
    assert_int_equal(operator_times_read(path, &times), STATUS_PARSE);
    assert_message(error_message(), "'a' twice");
}

/* Where kernels are not known: FLOP or bytes, whichever takes longer. */
static void operators_take_what_flop_or_bytes_do(void **state)
{
    const struct device_type type = {.flops = 1e12, .memory_Bps = 1e11, .launch_s = 1e-6};
    const struct capture_operator product = {.flop = 1e9, .bytes = 1000},
                                  pass = {.flop = 0, .bytes = 1000000000}, nothing = {0};
    assert_true(fabs(operator_seconds(&product, &type) - 1.001e-3) < 1e-12);
    assert_true(fabs(operator_seconds(&pass, &type) - (1e-2 + 1e-6)) < 1e-12);
    assert_true(operator_seconds(&nothing, &type) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_scripts_take_what_a_replay_by_hand_says),
        cmocka_unit_test(sites_add_up_to_what_ranks_do_and_wait_for),
        cmocka_unit_test(ranks_that_wait_for_each_other_are_named),
        cmocka_unit_test(a_message_that_nobody_takes_is_named),
        cmocka_unit_test(the_peak_is_that_of_the_capture),
        cmocka_unit_test(a_program_is_read_back_as_it_was),
        cmocka_unit_test(a_folder_becomes_a_program),
        cmocka_unit_test(what_is_wrong_in_a_file_is_named),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_table_is_asked_before_shapes),
        cmocka_unit_test(operators_take_what_flop_or_bytes_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
