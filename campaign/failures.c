/* Rates of failures by name. */
#include "campaign/failures.h"

#include "core/base/keyed.h"

const struct cause causes[CAUSES] = {
#define CAUSE(id, name, takes_node) {name, takes_node},
#include "campaign/causes.def"
#undef CAUSE
};

struct preset {
    struct keyed_name named;
    const char *text, *source;
    double failures[CAUSES], pieces[CAUSES], days[CAUSES];
};

#define FAILED(cause, n, of, in)                                                                   \
    .failures[CAUSE_##cause] = (n), .pieces[CAUSE_##cause] = (of), .days[CAUSE_##cause] = (in)
#define PRESET(id, name, text, source, ...)                                                        \
    static const struct preset preset_##id = {{name}, text, source, __VA_ARGS__};
#include "campaign/presets.def"
#undef PRESET

static const struct preset *const presets[] = {
#define PRESET(id, ...) &preset_##id,
#include "campaign/presets.def"
#undef PRESET
};
enum { PRESETS = sizeof presets / sizeof *presets, ALL = (1 << PRESETS) - 1 };

/* A century; nothing that is measured in seconds is longer. */
#define CENTURY 3.2e9
#define TIME(key, member)                                                                          \
    KEYED_QUANTITY(UNIT_SECONDS, key, ALL, struct failures, member, 0, CENTURY)
#define SHARE(key, member, most) KEYED_NUMBER(key, ALL, struct failures, member, 0, most)

static const struct keyed_field fields[] = {
#define CAUSE(id, name, ...) TIME(name, between_s[CAUSE_##id]),
#include "campaign/causes.def"
#undef CAUSE
    SHARE("scale", scale, 1e6), TIME("detect", detect_s),     SHARE("hang", hang, 1),
    TIME("timeout", timeout_s), TIME("restart", restart_s),   TIME("repair", repair_s),
    TIME("slow", slow_s),       SHARE("slower", slower, 100), TIME("slow-found", slow_found_s),
};

/* What no source states: some minutes to notice and to start again, the watchdog of NCCL under
 * PyTorch (10 minutes), a day for a repair. */
static const struct failures usual = {
    .scale = 1,
    .detect_s = 120,
    .timeout_s = 600,
    .restart_s = 300,
    .repair_s = DAY_S,
    .slower = 0.2,
    .slow_found_s = 3600,
};

enum status failures_read(const char *text, struct failures *out)
{
    const struct keyed_name *name[PRESETS];
    struct failures f = usual;
    size_t which;
    for (size_t i = 0; i < PRESETS; i++)
        name[i] = &presets[i]->named;
    for (size_t c = 0; c < CAUSES; c++)
        f.between_s[c] = -1;
    PASS(keyed_read("rate of failures", text, name, PRESETS, fields, sizeof fields / sizeof *fields,
                    &which, &f));
    const struct preset *p = presets[which];
    f.text = p->text;
    f.source = p->source;
    for (size_t c = 0; c < CAUSES; c++) {
        if (f.between_s[c] < 0)
            f.between_s[c] =
                p->failures[c] > 0 ? p->pieces[c] * p->days[c] * DAY_S / p->failures[c] : 0;
        f.between_s[c] = f.scale > 0 ? f.between_s[c] / f.scale : 0;
    }
    *out = f;
    return STATUS_OK;
}

enum status failures_check(const char *text)
{
    struct failures f;
    return failures_read(text, &f);
}

const char *failures_preset(size_t i, const char **text)
{
    if (i >= PRESETS)
        return NULL;
    *text = presets[i]->text;
    return presets[i]->named.name;
}

double failures_rate(const struct failures *f, const double pieces[CAUSES])
{
    double rate = 0;
    for (size_t c = 0; c < CAUSES; c++)
        if (f->between_s[c] > 0)
            rate += pieces[c] / f->between_s[c];
    return rate;
}
