/* The forms of tensors as tables: conversions, conjugates, names. */
#include "core/data/form.h"

#include <stddef.h>
#include <string.h>

const char *const form_step_names[STEPS] = {
#define STEP(id, name, conjugate) name,
#include "core/data/form_steps.def"
#undef STEP
};

static const enum form_step conjugates[STEPS] = {
#define STEP(id, name, conjugate) STEP_##conjugate,
#include "core/data/form_steps.def"
#undef STEP
};

/* By the kinds of both forms; a missing entry, which is {STEP_NONE, STEP_NONE}, is no conversion
 * unless both forms are the same. */
static const struct form_conversion conversions[FORM_GATHER + 1][FORM_GATHER + 1] = {
    [FORM_FULL][FORM_GATHER] = {{STEP_SLICE}},
    [FORM_GATHER][FORM_FULL] = {{STEP_ALLGATHER}},
    [FORM_GATHER][FORM_GATHER] = {{STEP_ALLTOALL}},
    [FORM_REDUCE][FORM_FULL] = {{STEP_ALLREDUCE}},
    [FORM_REDUCE][FORM_GATHER] = {{STEP_REDUCESCATTER}},
    [FORM_REPLICATE][FORM_FULL] = {{STEP_REPLICATE}},
    [FORM_REPLICATE][FORM_GATHER] = {{STEP_REPLICATE, STEP_SLICE}},
};

static size_t kind(uint8_t form)
{
    return form_is_gather(form) ? FORM_GATHER : form;
}

bool form_convert(uint8_t from, uint8_t to, struct form_conversion *out)
{
    if (from >= FORMS || to >= FORMS)
        return false;
    *out = from == to ? (struct form_conversion){{STEP_NONE}} : conversions[kind(from)][kind(to)];
    return from == to || out->step[0] != STEP_NONE;
}

enum form_step form_conjugate(enum form_step step)
{
    return conjugates[step];
}

static const struct {
    char letter;
    const char *name;
} forms[FORMS] = {
    [FORM_FULL] = {'F', "full"},           [FORM_REDUCE] = {'R', "reduce"},
    [FORM_REPLICATE] = {'P', "replicate"}, [FORM_GATHER] = {'0', "gather 0"},
    [FORM_GATHER + 1] = {'1', "gather 1"}, [FORM_GATHER + 2] = {'2', "gather 2"},
    [FORM_GATHER + 3] = {'3', "gather 3"}, [FORM_GATHER + 4] = {'4', "gather 4"},
    [FORM_GATHER + 5] = {'5', "gather 5"},
};

char form_letter(uint8_t form)
{
    return forms[form].letter;
}

uint8_t form_of_letter(char letter)
{
    for (uint8_t f = 0; f < FORMS; f++)
        if (forms[f].letter == letter)
            return f;
    return FORM_NONE;
}

const char *form_name(uint8_t form)
{
    return forms[form].name;
}

uint8_t form_of_name(const char *name)
{
    for (uint8_t f = 0; f < FORMS; f++)
        if (!strcmp(forms[f].name, name))
            return f;
    return FORM_NONE;
}
