/* Prints the options of all commands, out of the table of settings, for walk_options.sh: a line
 * each of command, name, type, default ("-": none), and the words or the unit of the value. */
#include <stdio.h>
#include <string.h>

#include "study/settings.h"

static const char *const commands[] = {
#define TAKER(name, command, words) command,
#include "study/takers.def"
#undef TAKER
};

static const char *const types[] = {
    [SETTING_FLAG] = "flag",   [SETTING_COUNT] = "count",  [SETTING_REAL] = "real",
    [SETTING_SHARE] = "share", [SETTING_SECONDS] = "time", [SETTING_BYTES] = "bytes",
    [SETTING_TEXT] = "text",   [SETTING_WORD] = "word",    [SETTING_NUMBER] = "number",
    [SETTING_LIST] = "list"};

static void print(const char *command, const struct setting *s)
{
    const char *word;
    printf("%s %s %s %s ", command, s->name, types[s->type], s->standard ? s->standard : "-");
    for (size_t i = 0; s->word && (word = s->word(i)); i++)
        printf("%s%s", i ? "|" : "", word);
    printf("%s\n", s->word ? "" : s->unit ? s->unit : "");
}

int main(void)
{
    for (int k = 0; k < TAKERS; k++) {
        bool known = false, keys = k >= TAKER_KEY_PLAN;
        for (int i = 0; i < k; i++)
            known = known || !strcmp(commands[i], commands[k]);
        for (size_t i = 0; i < settings_table_n && !known && !keys; i++)
            if (settings_table[i].takers & settings_takers(commands[k]))
                print(commands[k], &settings_table[i]);
    }
    return 0;
}
