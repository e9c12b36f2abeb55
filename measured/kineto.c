/* Traces of PyTorch's profiler (Kineto; on GPUs of NVIDIA and AMD): Chrome's trace events, of one
 * process.
 *
 * Taken are complete events ("ph": "X") of the categories kernel, gpu_memcpy and gpu_memset, in
 * older traces Kernel, Memcpy and Memset; the annotations ProfilerStep#N of the host; and launches,
 * with what they are launched from (launches.h). The rest is passed over. Also the traces that
 * foreline writes itself (core/data/trace.h). */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "measured/layers.h"
#include "measured/reader.h"
#include "measured/tokens.h"

enum { DEVICES = 1024, SHORT = 64 };

/* Keys of an event and of its args, and where they go. */
enum key {
    KEY_PHASE,
    KEY_CATEGORY,
    KEY_NAME,
    KEY_PID,
    KEY_TID,
    KEY_TS,
    KEY_DUR,
    KEY_DEVICE,
    KEY_STREAM,
    KEY_CORRELATION,
    KEY_BYTES,
    KEY_COLLECTIVE,
    KEY_IN,
    KEY_OUT,
    KEY_GROUP_SIZE,
    KEY_GROUP,
    KEY_DTYPE,
    KEY_FOR,
    KEY_SEQUENCE,
    KEYS
};
static const struct {
    const char *name;
    bool in_args;
} keys[KEYS] = {
    [KEY_PHASE] = {"ph", false},
    [KEY_CATEGORY] = {"cat", false},
    [KEY_NAME] = {"name", false},
    [KEY_PID] = {"pid", false},
    [KEY_TID] = {"tid", false},
    [KEY_TS] = {"ts", false},
    [KEY_DUR] = {"dur", false},
    [KEY_DEVICE] = {"device", true},
    [KEY_STREAM] = {"stream", true},
    [KEY_CORRELATION] = {"correlation", true},
    [KEY_BYTES] = {"bytes", true},
    [KEY_COLLECTIVE] = {"Collective name", true},
    [KEY_IN] = {"In msg nelems", true},
    [KEY_OUT] = {"Out msg nelems", true},
    [KEY_GROUP_SIZE] = {"Group size", true},
    [KEY_GROUP] = {"Process Group Description", true},
    [KEY_DTYPE] = {"dtype", true},
    [KEY_FOR] = {"for", true},
    [KEY_SEQUENCE] = {"Sequence number", true},
};

struct kineto_event {
    bool has[KEYS];
    char name[TOKEN_LETTERS];
    char value[KEYS][SHORT]; /* all but the name, cut off */
};

struct file {
    struct tokens tokens;
    const char *path;
    struct measured_run *run;
    size_t first; /* index of the file's first rank; its GPUs in their order */
    struct interner devices;
    struct run_rank cpu; /* its steps, which all its GPUs have */
    struct interner steps;
    struct launches launches;
    struct layers layers;
    int64_t rank, world; /* as distributedInfo says; -1, 0: it does not */
    size_t host_events;
};

/* ---- one event */

static int key_of(const char *text, bool in_args)
{
    for (int k = 0; k < KEYS; k++)
        if (keys[k].name[0] == text[0] && keys[k].name[1] == text[1] &&
            keys[k].in_args == in_args && strcmp(keys[k].name, text) == 0)
            return k;
    return -1;
}

/* What is longer than a value is cut off. */
static void kineto_copy_value(char value[SHORT], const struct tokens *s)
{
    size_t n = s->length < SHORT ? s->length : SHORT - 1;
    memcpy(value, s->text, n);
    value[n] = '\0';
}

/* The members of an object that is open, and of `args` within. */
static enum status kineto_read_members(struct tokens *s, struct kineto_event *e, bool in_args)
{
    enum token t;
    for (;;) {
        PASS(tokens_next(s, &t));
        if (t == TOKEN_OBJECT_END)
            return STATUS_OK;
        int k = key_of(s->text, in_args);
        bool args = !in_args && k < 0 && strcmp(s->text, "args") == 0;
        PASS(tokens_next(s, &t));
        if (args && t == TOKEN_OBJECT) {
            PASS(kineto_read_members(s, e, true));
        } else if (k >= 0 && (t == TOKEN_TEXT || t == TOKEN_NUMBER)) {
            e->has[k] = true;
            if (k == KEY_NAME)
                memcpy(e->name, s->text, s->length + 1);
            else
                kineto_copy_value(e->value[k], s);
        } else {
            PASS(tokens_skip(s, t));
        }
    }
}

/* A whole number of an event; `otherwise` where it has none. */
static int64_t kineto_whole_number(const struct kineto_event *e, enum key k, int64_t otherwise)
{
    char *end;
    if (!e->has[k])
        return otherwise;
    long long v = strtoll(e->value[k], &end, 10);
    return end == e->value[k] || v < -1 || v > INT64_C(1) << 60 ? otherwise : v;
}

/* When it was; false: it has no time that can be used, and is counted. */
static bool kineto_event_times(struct file *f, const struct kineto_event *e, int64_t *start_ns,
                               int64_t *end_ns)
{
    int64_t duration = 0;
    if (!e->has[KEY_TS] || !e->has[KEY_DUR] || !reader_ns(e->value[KEY_TS], 1000, start_ns) ||
        !reader_ns(e->value[KEY_DUR], 1000, &duration)) {
        f->run->without_time++;
        return false;
    }
    if (*start_ns > INT64_MAX / 2 || *start_ns < -INT64_MAX / 2 || duration > INT64_MAX / 2) {
        f->run->without_time++;
        return false;
    }
    *end_ns = *start_ns + duration; /* a negative one is counted by run_add_span() */
    return true;
}

/* Categories are said in lower case. */
static bool kineto_is_category(const struct kineto_event *e, const char *category)
{
    const char *text = e->value[KEY_CATEGORY];
    return (text[0] | 0x20) == category[0] && (text[1] | 0x20) == category[1] &&
           strcasecmp(text, category) == 0;
}

static enum status kineto_rank_of(struct file *f, int64_t device, size_t *rank)
{
    uint32_t known;
    bool fresh;
    PASS(intern(&f->devices, &device, sizeof device, &known, &fresh));
    if (known == DEVICES)
        return tokens_error(&f->tokens, "more than %d GPUs in one trace", DEVICES);
    *rank = f->first + known;
    return fresh ? run_add_rank(f->run, f->path, -1, device, rank) : STATUS_OK;
}

/* What a collective moves by nccl-tests' rules: the whole result of a gather, else the input. */
static int64_t bytes_of(const struct kineto_event *e, enum span_kind kind)
{
    int64_t each = e->has[KEY_DTYPE] ? span_type_bytes(e->value[KEY_DTYPE]) : 0;
    int64_t n = kineto_whole_number(e, kind == SPAN_ALLGATHER ? KEY_OUT : KEY_IN, 0);
    return each > 0 && n > 0 && n <= INT64_MAX / each ? n * each : 0;
}

static void describe_kernel(const struct kineto_event *e, struct span *s)
{
    if (!span_communicates(e->name))
        return;
    s->what = SPAN_COMMUNICATION;
    s->kind = (uint8_t)span_kind_of(e->name);
    if (e->has[KEY_COLLECTIVE] && span_kind_of(e->value[KEY_COLLECTIVE]) != SPAN_OTHER)
        s->kind = (uint8_t)span_kind_of(e->value[KEY_COLLECTIVE]);
    s->bytes = bytes_of(e, s->kind);
    int64_t members = kineto_whole_number(e, KEY_GROUP_SIZE, 0);
    s->members = members > 0 && members < UINT32_MAX ? (uint32_t)members : 0;
    if (e->has[KEY_GROUP])
        s->purpose = span_purpose_of(e->value[KEY_GROUP]);
}

/* What categories of foreline's own traces (core/data/trace.h) are. */
static const struct {
    const char *category;
    uint8_t what, phase;
} own[] = {
    {"forward", SPAN_COMPUTE, PHASE_FORWARD},
    {"backward", SPAN_COMPUTE, PHASE_BACKWARD},
    {"weight", SPAN_COMPUTE, PHASE_BACKWARD},
    {"update", SPAN_COMPUTE, PHASE_UPDATE},
    {"compute", SPAN_COMPUTE, PHASE_UNKNOWN},
    {"send", SPAN_COMMUNICATION, PHASE_UNKNOWN},
    {"receive", SPAN_COMMUNICATION, PHASE_UNKNOWN},
    {"collective", SPAN_COMMUNICATION, PHASE_UNKNOWN},
};

/* An op of such a trace, whose processes are ranks. */
static enum status take_own(struct file *f, const struct kineto_event *e, size_t k)
{
    size_t rank;
    struct span s = {.launch = -1,
                     .op = RUN_NO_OP,
                     .layer = RUN_NO_OP,
                     .what = own[k].what,
                     .phase = own[k].phase};
    if (!kineto_event_times(f, e, &s.start_ns, &s.end_ns))
        return STATUS_OK;
    s.kind = SPAN_ALLREDUCE;
    if (s.what == SPAN_COMMUNICATION)
        s.kind = (uint8_t)(strcmp(own[k].category, "collective") != 0 ? SPAN_SENDRECV
                                                                      : span_kind_of(e->name));
    s.purpose = OP_PURPOSES;
    for (uint8_t p = 0; p < OP_PURPOSES; p++)
        if (strcmp(e->value[KEY_FOR], op_purpose_names[p]) == 0)
            s.purpose = p;
    s.bytes = kineto_whole_number(e, KEY_BYTES, 0);
    PASS(kineto_rank_of(f, kineto_whole_number(e, KEY_PID, 0), &rank));
    return run_add_span(f->run, f->path, rank, e->name, &s);
}

static enum status kineto_take_activity(struct file *f, const struct kineto_event *e, bool kernel)
{
    size_t rank;
    struct span s = {.launch = kineto_whole_number(e, KEY_CORRELATION, -1),
                     .stream = (uint32_t)kineto_whole_number(e, KEY_STREAM, 0),
                     .op = RUN_NO_OP,
                     .layer = RUN_NO_OP,
                     .purpose = OP_PURPOSES};
    if (!kineto_event_times(f, e, &s.start_ns, &s.end_ns))
        return STATUS_OK;
    if (kernel) {
        describe_kernel(e, &s);
    } else {
        s.what = SPAN_COPY;
        s.kind = (uint8_t)span_copy_of(e->name);
        s.bytes = kineto_whole_number(e, KEY_BYTES, 0);
    }
    PASS(kineto_rank_of(f, kineto_whole_number(e, KEY_DEVICE, kineto_whole_number(e, KEY_PID, 0)),
                        &rank));
    return run_add_span(f->run, f->path, rank, e->name, &s);
}

static enum status take_step(struct file *f, const struct kineto_event *e)
{
    struct run_step s;
    uint32_t known;
    bool fresh;
    char *end;
    const char *digits = e->name + strlen("ProfilerStep#");
    s.number = strtoll(digits, &end, 10);
    if (end == digits || !kineto_event_times(f, e, &s.start_ns, &s.end_ns) ||
        s.end_ns <= s.start_ns)
        return STATUS_OK;
    PASS(intern(&f->steps, &s.number, sizeof s.number, &known, &fresh));
    if (fresh)
        return run_add_step(f->run, f->path, &f->cpu, &s);
    f->run->repeated++; /* on another thread too */
    return STATUS_OK;
}

/* Modules are calls of Python when stacks are recorded. */
static bool is_range(const struct kineto_event *e)
{
    static const char module[] = "nn.Module: ";
    if (kineto_is_category(e, "python_function"))
        return strncmp(e->name, module, strlen(module)) == 0;
    return kineto_is_category(e, "user_annotation") && layers_marks(e->name);
}

/* An op of the host, or a range; of a node of the backward its own name. */
static enum status kineto_take_part(struct file *f, const struct kineto_event *e, bool range,
                                    const struct layer_op *o)
{
    uint32_t name;
    const char *text = strstr(e->name, "evaluate_function: ");
    text = text ? text + strlen("evaluate_function: ") : e->name;
    PASS(run_add_name(f->run, f->path, text, &name));
    if (range)
        return layers_add_range(&f->layers, o->thread, o->start_ns, o->end_ns, name);
    if (f->run->layers != LAYERS_NONE)
        PASS(layers_add_op(&f->layers, e->name, o));
    return launches_add_part(&f->launches, o->thread, o->start_ns, o->end_ns, ABOUT_OP, name);
}

static enum status kineto_take_event(struct file *f, const struct kineto_event *e)
{
    int64_t start_ns, end_ns;
    if (strcmp(e->value[KEY_PHASE], "X") != 0)
        return STATUS_OK;
    bool kernel = kineto_is_category(e, "kernel");
    if (kernel || kineto_is_category(e, "gpu_memcpy") || kineto_is_category(e, "gpu_memset") ||
        kineto_is_category(e, "memcpy") || kineto_is_category(e, "memset"))
        return kineto_take_activity(f, e, kernel);
    for (size_t k = 0; k < sizeof own / sizeof *own; k++)
        if (kineto_is_category(e, own[k].category))
            return take_own(f, e, k);
    if (strncmp(e->name, "ProfilerStep#", strlen("ProfilerStep#")) == 0 &&
        !kineto_is_category(e, "gpu_user_annotation"))
        return take_step(f, e);
    f->host_events++;
    enum launch_about about;
    uint32_t meaning;
    bool part = launches_means(e->name, &about, &meaning);
    bool launch = kineto_is_category(e, "cuda_runtime") || kineto_is_category(e, "cuda_driver") ||
                  kineto_is_category(e, "runtime");
    bool op = kineto_is_category(e, "cpu_op") || kineto_is_category(e, "operator");
    bool range = f->run->layers == LAYERS_RANGES && is_range(e);
    if ((!launch && !part && !op && !range) || kineto_is_category(e, "gpu_user_annotation") ||
        !kineto_event_times(f, e, &start_ns, &end_ns))
        return STATUS_OK;
    int64_t thread = kineto_whole_number(e, KEY_TID, 0);
    if (op || range)
        PASS(kineto_take_part(f, e, range,
                              &(struct layer_op){kineto_whole_number(e, KEY_SEQUENCE, -1), thread,
                                                 start_ns, end_ns, 0}));
    if (part)
        return launches_add_part(&f->launches, thread, start_ns, end_ns, about, meaning);
    int64_t number = kineto_whole_number(e, KEY_CORRELATION, -1);
    return number < 0 || !launch ? STATUS_OK : launches_add(&f->launches, number, thread, start_ns);
}

static enum status kineto_read_events(struct file *f)
{
    enum token t;
    for (;;) {
        struct kineto_event e;
        memset(e.has, 0, sizeof e.has);
        *e.name = '\0';
        for (int k = 0; k < KEYS; k++)
            *e.value[k] = '\0';
        f->tokens.tokens = 0;
        PASS(tokens_next(&f->tokens, &t));
        if (t == TOKEN_ARRAY_END)
            return STATUS_OK;
        if (t != TOKEN_OBJECT)
            return tokens_error(&f->tokens, "event is not an object");
        PASS(run_count(f->run, f->path));
        PASS(kineto_read_members(&f->tokens, &e, false));
        PASS(kineto_take_event(f, &e));
    }
}

/* ---- the file */

static enum status read_distributed(struct file *f)
{
    struct tokens *s = &f->tokens;
    enum token t;
    for (;;) {
        PASS(tokens_next(s, &t));
        if (t == TOKEN_OBJECT_END)
            return STATUS_OK;
        int64_t *into = strcmp(s->text, "rank") == 0         ? &f->rank
                        : strcmp(s->text, "world_size") == 0 ? &f->world
                                                             : NULL;
        PASS(tokens_next(s, &t));
        if (into && t == TOKEN_NUMBER) {
            *into = strtoll(s->text, NULL, 10);
            if (*into < 0 || *into > INT32_MAX)
                return tokens_error(s, "expected a rank or a number of ranks, got %.20s", s->text);
        } else {
            PASS(tokens_skip(s, t));
        }
    }
}

static enum status kineto_read_root(struct file *f)
{
    struct tokens *s = &f->tokens;
    bool found = false;
    enum token t;
    PASS(tokens_next(s, &t));
    if (t == TOKEN_ARRAY) { /* the events alone */
        PASS(kineto_read_events(f));
        return tokens_next(s, &t);
    }
    if (t != TOKEN_OBJECT)
        return tokens_error(s, "expected an object or a list of events");
    for (;;) {
        PASS(tokens_next(s, &t));
        if (t == TOKEN_OBJECT_END)
            break;
        bool events = strcmp(s->text, "traceEvents") == 0;
        bool info = strcmp(s->text, "distributedInfo") == 0;
        PASS(tokens_next(s, &t));
        if (events && t == TOKEN_ARRAY) {
            found = true;
            PASS(kineto_read_events(f));
        } else if (info && t == TOKEN_OBJECT) {
            PASS(read_distributed(f));
        } else {
            PASS(tokens_skip(s, t));
        }
    }
    if (!found)
        return tokens_error(s, "traceEvents is missing: not a trace of PyTorch's profiler");
    return tokens_next(s, &t); /* nothing may come behind */
}

static int by_time(const void *a, const void *b)
{
    const struct run_step *x = a, *y = b;
    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* Of a trace of a CPU alone the outermost ops of the host are what computes. */
static enum status take_host(struct file *f)
{
    size_t rank;
    if (f->launches.about[ABOUT_OP].n == 0)
        return STATUS_OK;
    PASS(kineto_rank_of(f, 0, &rank));
    return launches_to_spans(&f->launches, f->run, f->path, rank);
}

/* The GPUs of the file get its rank, its steps and what its launches say. */
static enum status kineto_finish(struct file *f)
{
    struct measured_run *run = f->run;
    if (run->ranks == f->first && run->layers != LAYERS_NONE)
        PASS(take_host(f));
    if (run->ranks == f->first)
        return error_set(STATUS_INVALID,
                         "%s: trace has no GPU activity (%zu other events). Record it with "
                         "ProfilerActivity.CUDA",
                         f->path, f->host_events);
    if (f->cpu.steps > 0)
        qsort(f->cpu.step, f->cpu.steps, sizeof *f->cpu.step, by_time);
    for (size_t r = f->first; r < run->ranks; r++) {
        struct run_rank *rank = &run->rank[r];
        rank->rank = f->rank;
        rank->world = f->world;
        for (size_t i = 0; i < f->cpu.steps; i++)
            PASS(run_add_step(run, f->path, rank, &f->cpu.step[i]));
        PASS(launches_find(&f->launches, rank->span, rank->spans));
        if (run->layers != LAYERS_NONE)
            PASS(layers_find(&f->layers, &f->launches, run, f->path, rank->step, rank->steps,
                             rank->span, rank->spans));
    }
    return STATUS_OK;
}

static enum status kineto_read(const char *path, struct bytes *b, struct measured_run *run)
{
    enum status st;
    struct file f = {.tokens.bytes = b, .path = path, .run = run, .first = run->ranks, .rank = -1};
    f.devices.size = f.steps.size = sizeof(int64_t);
    TRY(kineto_read_root(&f));
    TRY(kineto_finish(&f));
out:
    launches_free(&f.launches);
    layers_free(&f.layers);
    interner_free(&f.devices);
    interner_free(&f.steps);
    free(f.cpu.step);
    return st;
}

/* Logs may begin with a bracket, too. */
static bool kineto_recognises(const char *head, size_t length)
{
    size_t k = strspn(head, " \t\r\n");
    char first = k < length ? head[k] : '\0';
    size_t next = k + 1 + (first ? strspn(head + k + 1, " \t\r\n") : 0);
    return (first == '{' && (head[next] == '"' || head[next] == '}')) ||
           (first == '[' && (head[next] == '{' || head[next] == ']'));
}

static bool recognises_own(const char *head, size_t length)
{
    return kineto_recognises(head, length) && strstr(head, "\"otherData\"") &&
           strstr(head, "\"version\": \"foreline");
}

const struct reader reader_trace = {
    .name = "trace",
    .summary = "foreline's own: simulate --trace, run --trace",
    .recognises = recognises_own,
    .read = kineto_read,
};

const struct reader reader_kineto = {
    .name = "kineto",
    .summary = "PyTorch's profiler: .json or .json.gz, a file for each rank",
    .recognises = kineto_recognises,
    .read = kineto_read,
};
