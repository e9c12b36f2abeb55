/* settings_words.h - words of settings_table.c that other tables know: word i, NULL behind the
 * last. */
#ifndef STUDY_SETTINGS_WORDS_H
#define STUDY_SETTINGS_WORDS_H

#include <stddef.h>

const char *settings_objective_word(size_t i);
const char *settings_profile_word(size_t i);
const char *settings_simulator_word(size_t i);
const char *settings_real_collective(size_t i);
const char *settings_runner_word(size_t i);
const char *settings_engine_word(size_t i);
const char *
settings_export_word(size_t i); /* plan export --to: frameworks, then formats of graphs */
/* Its word for another name of the framework: "megatron-lm", "compiled", "mcore"; NULL: none. */
const char *settings_export_alias(const char *name);
/* What other frameworks and papers call a setting ("mbs"), row i, and its name, or that of another
 * command's; NULL behind the last one. */
const char *settings_alias(size_t i, const char **means);

/* Of campaigns: published rates, policies of recovery. */
const char *settings_failures_word(size_t i);
const char *settings_recovery_word(size_t i);

#endif
