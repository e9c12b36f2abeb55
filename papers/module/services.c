/* Functions of study/, by way of the program that loaded the module. */
#include "papers/module/services.h"

#include <stdarg.h>

#include "study/load.h"
#include "study/point.h"
#include "study/warn.h"

static const struct papers_services *program;
static enum status (*add_note)(struct setup *s, enum setup_note_kind kind, const char *fmt, ...);

void services_take(const struct papers_services *services)
{
    program = services;
}

void services_take_note(enum status (*note)(struct setup *s, enum setup_note_kind kind,
                                            const char *fmt, ...))
{
    add_note = note;
}

bool arguments_given(const struct arguments *a, const char *name)
{
    return program->arguments_given(a, name);
}

FILE *arguments_prose(const struct arguments *a)
{
    return program->arguments_prose(a);
}

enum status load_model(const char *spec, struct model *out)
{
    return program->load_model(spec, out);
}

enum status load_model_apart(const char *spec, struct model *out)
{
    return program->load_model_apart(spec, out);
}

enum status load_model_members(const char *spec, struct model *out, struct import_members *members)
{
    return program->load_model_members(spec, out, members);
}

enum status load_topology(const char *name, struct topology *out, char **path)
{
    return program->load_topology(name, out, path);
}

enum status evaluate_once(const struct evaluation_context *context, const struct plan *plan,
                          struct evaluation *out)
{
    return program->evaluate_once(context, plan, out);
}

const struct model_op *point_without_numerics(const struct model *m, const struct plan *p)
{
    return program->point_without_numerics(m, p);
}

void warn_of_platform(const struct model *m, const struct topology *t, FILE *to)
{
    program->warn_of_platform(m, t, to);
}

enum status setup_add_note(struct setup *s, enum setup_note_kind kind, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return add_note(s, kind, "%s", text);
}
