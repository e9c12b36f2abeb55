/* settings.h - everything that can be set, in one table: options of commands, keys of experiments
 * and of `run --config`, axes of grids.
 *
 * A row says a setting's name, type, default, help, which field of `struct arguments` it fills and
 * who takes it (takers.def). Two rows may have one name when nobody takes both. Parsing remembers
 * which settings were given, so that a setting that means nothing where it stands is refused.
 * To add a setting: a field in the struct of its subject and a row in settings_table.c. Knobs of
 * plans need neither: their settings follow from the rows of core/strategy/strategy.def. */
#ifndef STUDY_SETTINGS_H
#define STUDY_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/error.h"
#include "core/strategy/strategy.h"
#include "exec/launch/launch.h"
#include "plots/kind.h"

/* ---- who takes a setting */

enum taker {
#define TAKER(name, command, words) TAKER_##name,
#include "study/takers.def"
#undef TAKER
    TAKERS
};

/* A set of takers: TAKES(RUN_REAL) | TAKES(RUN_PACED). */
__extension__ typedef unsigned __int128 taker_set;
_Static_assert(TAKERS <= 8 * sizeof(taker_set), "takers.def: a set has a bit for each");
#define TAKES(name) ((taker_set)1 << TAKER_##name)

/* All takers of one command ("plan", "run --config"); 0: there are none. */
taker_set settings_takers(const char *command);
/* One of them, by its words in takers.def; 0: there is none. */
taker_set settings_taker(const char *command, const char *words);

/* ---- what is set */

enum { SETTINGS_MOST = 320 };

/* ---- settings by subject: texts are parsed where used, for what they mean may depend on the plan
 * (names of links, ranks and stages). Those of pictures are struct plot_request, those of launches
 * struct launch_options. */

/* The search for plans, and what is told of it. */
struct search_arguments {
    const char *explain, *granularity, *placement, *rank_order, *candidates;
    size_t finalists, top;
    double time_limit_s;
    bool executable, launchable, all_rows;
    size_t samples;      /* of jitter, in the ranking of plans */
    const char *rank_by; /* what of them counts */
};

/* Options of published objectives; lists as typed. */
struct papers_arguments {
#define PAPERS_OPTION(type, member, ...) type member;
#define PAPERS_NAME(...)
#include "model/papers_options.def"
};

/* Plans from and to files of other frameworks. */
struct port_arguments {
    const char *to;
    struct text_list sets; /* NAME=VALUE */
    bool no_input_pipelining;
};

/* Simulations, and what runs the plans of experiments. */
struct simulation_arguments {
    const char *engine, *collective, *algorithm_file, *slow, *fail, *kill, *export, *equal;
    double jitter, noise; /* shares */
    bool nccl_protocols, no_fold, fail_on_oom;
    const char *engines, *network_model, *ns3;
    const char *paths; /* of a platform with bundles: core/data/paths.h */
    size_t queue_pairs, seeds;
    size_t rank_rows, link_rows; /* of tables */
};

/* Runs and measurements, besides how their ranks are launched. */
struct run_arguments {
    const char *config, *folder, *compute, *dtype;
    size_t repeats, ranks;
    bool dry_run, forward_only;
    const char *inject_failures;
};

/* Emulated networks. */
struct emulation_arguments {
    const char *dilate, *shell;
    size_t pid;
    bool check;
};

/* Several jobs at once. */
struct jobs_arguments {
    struct text_list starts; /* JOB=TIME */
    size_t iterations;
    const char *place, *background;
};

/* A training of weeks. */
struct campaign_arguments {
    const char *failures, *storage, *checkpoint, *recovery, *over;
    double every_s, iteration_s, bytes, stop_s, interference, swap_s;
    size_t spares;
};

/* Measurements of this machine, and profiles of models. */
struct measuring_arguments {
    const char *matrix, *prices, *graph, *flows;
    const char *from, *fit;       /* measured iterations, constants */
    const char *profile, *device; /* of a run: whose times; type of its devices */
    size_t shards;                /* that had each op of it */
    double largest_bytes, minibatch_size;
    bool table, force, curves;
};

/* Captures of training scripts. */
struct capture_arguments {
    size_t world_size, steps, node;
    const char *ranks, *device, *operators, *from;
    const char *script, *folder; /* of experiments: what is run; or a capture that is there */
    bool real, dry, profile, serial;
    double patience_s;
};

/* Machines and networks that are imported. */
struct machine_arguments {
    const char *gpu, *nic, *node, *fabric;
    size_t nodes;
};

/* Sweeps and grids of validation; lists as typed: "1,2,4". */
struct grid_arguments {
    const char *shard;
    size_t workers;
    bool list, retry, add;
    const char *stage_list, *replica_list, *tensor_list, *chunk_list, *schedule_list,
        *microbatch_list, *size_list, *algorithm_list;
};

/* A page in the browser. */
struct explore_arguments {
    size_t port; /* 0: any that is free */
    bool no_browser;
};

/* Predictions against measurements. */
struct fit_arguments {
    size_t layers; /* scoreboard: runs of a set that are fitted to; 0: none */
    bool measurements, cross_validate, fit_constants;
    double fail_above; /* share; 0: nothing fails */
    const char *plans; /* scoreboard: a folder for plan files of the rows */
};

/* What a command line, an experiment's point or a file says; 0 or NULL where it says nothing and
 * there is no default. Texts are borrowed from whoever gave them. Plain data: copy at will. */
struct arguments {
    /* A bit per row of the table: was it given? A value alone cannot say, for 0 may be a default, a
     * value that was asked for (--zero 0), or nothing at all. */
    uint64_t given[SETTINGS_MOST / 64];

    /* model and platform */
    const char *model, *platform, *plan_file, *import_file; /* *_file: as keys */
    struct text_list platforms;
    size_t tokens, devices;
    double train_tokens; /* of a whole training run; 0: not asked */
    double price;        /* of a GPU-hour; 0: not known */

    /* plans: constraints that algorithms keep or refuse; 0 or NULL leaves the choice to them */
#include "core/strategy/strategy_plan.def"
#include "core/strategy/strategy_stage.def"
    uint64_t chosen; /* knobs that were given, KNOB_BIT() */
    size_t pipeline, data_parallel, stages, layers_per_stage;
    const char *split_at;
    const char *schedule, *optimizer, *framework;
    size_t chunks, microbatches, microbatch_size, batch;
    const char *reserve; /* bytes, or a share */
    bool allow_oom;
    const char *objective, *algorithm;

    struct search_arguments search;
    size_t seed;
    struct simulation_arguments sim;
    struct launch_options launch;
    struct run_arguments run;
    struct emulation_arguments emulation;
    struct jobs_arguments jobs;
    struct campaign_arguments campaign;
    struct measuring_arguments measure;
    struct machine_arguments machine;
    struct capture_arguments capture;
    struct grid_arguments grid;
    struct fit_arguments fits;
    struct explore_arguments explore;
    struct plot_request picture;
    struct port_arguments port;
    struct papers_arguments papers;

    /* output */
    const char *output, *trace, *timeline, *question;
    bool json, wide;

    const char *limits;
};

/* ---- rows */

enum setting_type {
    SETTING_FLAG,    /* bool: "true", "false"; as an option it has no value */
    SETTING_COUNT,   /* size_t, within least and most */
    SETTING_REAL,    /* double, finite, at least `least` */
    SETTING_SHARE,   /* double, 0 to 1: "5%" or "0.05" */
    SETTING_SECONDS, /* double: "1.5us" */
    SETTING_BYTES,   /* double: "16MiB" */
    SETTING_TEXT,    /* const char * */
    SETTING_WORD,    /* const char *: one of the names of `word`, or of those in `unit` */
    SETTING_NUMBER,  /* size_t: one of the numbers in `unit`, "0|1|2|3" */
    SETTING_LIST,    /* struct text_list: may be given several times */
};

struct setting {
    const char *name; /* "microbatch-size"; as an option "--microbatch-size" */
    enum setting_type type;
    size_t offset;        /* of its field in struct arguments */
    taker_set takers;     /* TAKES(...) | ... */
    const char *unit;     /* what stands for the value in help: "N", "FILE", "real|paced" */
    const char *standard; /* the default, as it would be given; NULL: 0 or nothing */
    const char *help;     /* says the unit when there is one; names of `word` are added to it */
    double least, most;   /* of counts and reals; most 0: any */
    const char *(*word)(size_t i);          /* known words, NULL behind the last one */
    const char *(*alias)(const char *text); /* the known word of another one; NULL: none */
    enum status (*check)(const char *text); /* of texts: may it be this one? NULL: any */
    const struct strategy_knob *knob;       /* whose member the field is, of its type; NULL: none */
    bool negatable; /* a flag that --no-NAME says is off; those of knobs all are */
    bool hidden;    /* in no help text or man page: docs/limits.md has it */
};

extern const struct setting settings_table[];
extern const size_t settings_table_n;

/* The row of that name that one of the takers takes, or NULL. Knobs also have the names that
 * users of frameworks know (core/strategy/strategy.def). */
const struct setting *setting_find(const char *name, taker_set takers);
/* Is the setting of this name about a file or folder that is read? */
bool setting_names_file(const char *key);
/* What the key of a file says, as seen from the current directory: where a key is about a file that
 * is read, path_find() looks beside `file` first. *out is `value`, or in `texts`. STATUS_NOMEM. */
struct arena;
enum status setting_seen(const char *key, const char *value, const char *file, struct arena *texts,
                         const char **out) MUST_CHECK;
/* The known name that is nearest to a word by edit distance, NULL when none is near. */
const char *setting_nearest(const char *word, taker_set takers);
/* "a, b, c": the names of all rows that the takers take. Returns `text`. */
const char *setting_names(taker_set takers, char *text, size_t size);

/* Word i that the value may be: of "real|paced", or what the row's own function says; NULL behind
 * the last one. Only of rows that have words; the result lives as long as `text`. */
enum { SETTING_WORD_SIZE = 64 };
const char *setting_word(const struct setting *row, size_t i, char text[SETTING_WORD_SIZE]);

/* Set the field of one row from a text, and mark it as given. STATUS_USAGE with what was expected,
 * without the setting's name, which the caller puts before it as it was written. */
enum status setting_set(const struct setting *row, const char *text,
                        struct arguments *a) MUST_CHECK;

/* ---- arguments as a whole */

/* The defaults of all settings that the takers take. */
struct arguments arguments_defaults(taker_set takers);

/* Was a setting of this name given, on the command line or in a file? Not for fields that a caller
 * has set by itself. */
bool arguments_given(const struct arguments *a, const char *name);

/* What was given of what the takers take, each as " --name=value" quoted for a shell, in the
 * table's order; a flag without its value, and not when it is false; no text that is NULL. Files
 * that exist (settings that setting_seen() knows) are absolute, so that the words mean the same
 * from any folder. */
enum status arguments_put(const struct arguments *a, taker_set takers, FILE *out) MUST_CHECK;

/* Set by name: "no setting is called 'stagse'; did you mean 'stages'?" or "stages: ...", both
 * STATUS_USAGE. A name that begins with "plan." or "capture." is one of KEY_PLAN or
 * KEY_CAPTURE when the takers have that. */
enum status arguments_set(struct arguments *a, taker_set takers, const char *name,
                          const char *text) MUST_CHECK;

/* Options anywhere among the operands ("--" ends them; "--name=value" and "--name value"; "-o" is
 * "--output"), of all takers of a command. Operands are moved to argv[0 .. *argc).
 * STATUS_USAGE: an unknown option, with the nearest one, a malformed value, or an option twice that
 * is no list. */
enum status arguments_parse(struct arguments *a, taker_set takers, int *argc,
                            char **argv) MUST_CHECK;

/* What was given, and the command takes, must mean something to each of these takers, which are how
 * the command was called: else STATUS_USAGE, "--json has no effect with --score, only with ...". */
enum status arguments_check(const struct arguments *a, taker_set takers) MUST_CHECK;

/* The options of a command with their help, for --help: the text of one of them; all under headings
 * of their subjects; and some, in the order of their names, "model platform", which must be known
 * and at most SETTINGS_SOME. */
enum { SETTINGS_SOME = 32 };
void setting_describe(const struct setting *row, char *text, size_t size);
/* "--tensor-parallel, --tp N", with the alias of at most three letters that the takers know. */
void setting_print_name(const struct setting *row, taker_set takers, char *text, size_t size);
void settings_print(taker_set takers, FILE *out);
void settings_print_some(taker_set takers, const char *names, FILE *out);
/* Where a command prints what people read: standard output, or standard error when a file that was
 * asked for ("-o -", "--trace -") goes to standard output. */
FILE *arguments_prose(const struct arguments *a);
/* Is no file that an option or operand says is read one that an option says is written, and no file
 * written by two of them? STATUS_USAGE. Operands that are plan files are opened: their models and
 * platforms are read, too. */
enum status arguments_keep_inputs(const struct arguments *a, char *const *operand,
                                  int operands) MUST_CHECK;
/* Can the files be written that options name, where they name files? Better known before an hour's
 * work. Leaves nothing. STATUS_IO, STATUS_NOMEM. */
enum status arguments_try_files(const struct arguments *a) MUST_CHECK;

#endif
