/* foreline.h - libforeline: load a model and a platform, plan, predict.
 *
 * The functions behind `foreline plan` and `foreline simulate`: the same inputs give the same plan
 * files and the same figures (test library.example). Link with `pkg-config --cflags --libs
 * foreline`.
 *
 * Errors are values: what can fail returns a status and, where `error` is not NULL, fills in the
 * line that the command would print. Objects are opaque; release each with its _free(), which takes
 * NULL. Nothing is printed. FORELINE_LIMITS says what is waited for and taken in at most, as of the
 * command. From the first file that is written, or folder that a simulation needs, on, SIGINT,
 * SIGTERM, SIGHUP, SIGQUIT and SIGPIPE remove what is half done and then end the program as they
 * would have; one that the program catches or ignores by then stays its own. Any thread may call at
 * any time; calls run one after another. An object may be used by several threads, but is released
 * once and by nobody who still uses it. The program's locale does not matter and is not changed.
 * Simulations run in child processes (fork): in programs with other threads, know what fork() does
 * to them.
 *
 * Version 0: functions may change with the second number of the version, as the soname does. */
#ifndef FORELINE_H
#define FORELINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum foreline_status {
    FORELINE_OK = 0,
    FORELINE_NOMEM,       /* allocation failed */
    FORELINE_INVALID,     /* an object or argument breaks its contract */
    FORELINE_PARSE,       /* malformed file: "path:line:column: reason" */
    FORELINE_IO,          /* the system said no */
    FORELINE_INFEASIBLE,  /* nothing fits, or no such plan */
    FORELINE_UNSUPPORTED, /* not built with it, or not implemented */
    FORELINE_EXTERNAL,    /* a library below failed */
    FORELINE_USAGE,       /* an unknown name or setting, with the nearest one */
    FORELINE_STOPPED,     /* as progress() asked for */
};

enum { FORELINE_MESSAGE = 1024 };
struct foreline_error {
    enum foreline_status status;
    char message[FORELINE_MESSAGE]; /* one line; longer ones are cut */
};

/* "foreline 0.1.0 (git abc1234)"; static. */
const char *foreline_library_version(void);

/* ---- models: a zoo name ("gpt2-small:layers=6") or a file in any format that --model takes */

typedef struct foreline_model foreline_model;
enum foreline_status foreline_model_load(const char *name, foreline_model **out,
                                         struct foreline_error *error);
void foreline_model_free(foreline_model *m);

struct foreline_model_facts {
    size_t ops;
    double parameters;        /* numbers, shared ones once */
    double tokens_per_sample; /* 0: it has none */
    double flop_per_sample;   /* forward and backward */
};
struct foreline_model_facts foreline_model_describe(const foreline_model *m);

/* ---- platforms: a shipped or generated name ("rail:nodes=8,gpus=8,type=H100"), or a SimGrid
 * file */

typedef struct foreline_platform foreline_platform;
enum foreline_status foreline_platform_load(const char *name, foreline_platform **out,
                                            struct foreline_error *error);
void foreline_platform_free(foreline_platform *p);
size_t foreline_platform_devices(const foreline_platform *p);
/* Name of a device, for i < foreline_platform_devices(); borrowed. */
const char *foreline_platform_device(const foreline_platform *p, size_t i);

/* ---- plans */

/* An option of `foreline plan` without its dashes: {"batch", "512"}, {"algorithm", "balanced"},
 * flags are {"sequence-parallel", "true"}. */
struct foreline_setting {
    const char *name, *value;
};

/* A plan borrows its model and platform, which must outlive it. */
typedef struct foreline_plan foreline_plan;

/* Search, or plan by the named algorithm: what `foreline plan` writes for the same settings.
 *
 *   setting  [settings], may be NULL where there are none
 *
 * FORELINE_INFEASIBLE: nothing fits; FORELINE_USAGE: no such setting, or they contradict each
 * other. */
enum foreline_status foreline_plan_make(const foreline_model *m, const foreline_platform *p,
                                        const struct foreline_setting *setting, size_t settings,
                                        foreline_plan **out, struct foreline_error *error);
/* A plan file; it brings its own model and platform. */
enum foreline_status foreline_plan_read(const char *path, foreline_plan **out,
                                        struct foreline_error *error);
/* Write a plan file, as -o does: it appears when it is complete. */
enum foreline_status foreline_plan_write(const foreline_plan *plan, const char *path,
                                         struct foreline_error *error);
void foreline_plan_free(foreline_plan *plan);

/* How a call that may take long is made; {0}: no settings, and nobody is told. */
struct foreline_options {
    const struct foreline_setting *setting; /* [settings] */
    size_t settings;
    /* Told how far the call is, in its thread, at most every 50 ms: plans scored, or ops done; of
     * `all`, 0 where that is not known. Non-zero stops the call. It must not call the library. */
    int (*progress)(void *context, double done, double all);
    void *context;
};

/* foreline_plan_make() that tells how far it is, and can be stopped: then the best plan so far is
 * the result, and FORELINE_STOPPED means that there was none. `options` may be NULL. */
enum foreline_status foreline_plan_find(const foreline_model *m, const foreline_platform *p,
                                        const struct foreline_options *options, foreline_plan **out,
                                        struct foreline_error *error);
/* What `foreline plan --json` prints about a plan that was made here, its ranking among it;
 * borrowed. NULL: it was read. */
const char *foreline_plan_json(const foreline_plan *plan);

/* ---- predictions */

struct foreline_prediction {
    double iteration_s, samples_per_s, tokens_per_s; /* tokens 0: the model has none */
    double mfu; /* model FLOP/s over the devices' nominal peak; 0: not known */
    double busy, exposed,
        idle; /* shares of the ranks' time: compute, waiting for messages, bubbles */
    int64_t peak_bytes, memory_bytes; /* of the rank with the least room; memory 0: not known */
    int fits;                         /* is there room on every rank whose memory is known? */
};

/* What `foreline simulate --engine ENGINE` says of the plan: "simgrid" or "analytic"; NULL:
 * simgrid. */
enum foreline_status foreline_predict(const foreline_plan *plan, const char *engine,
                                      struct foreline_prediction *out,
                                      struct foreline_error *error);

/* What `foreline simulate --json` prints of the plan, whose options are the settings, "output" and
 * "trace" among them; "export" and "limit" are refused. With "platform", "model" or "batch" it is
 * the plan's strategy on these: FORELINE_PARSE or FORELINE_INVALID where it does not fit them.
 *
 *   json  out: the document; release it with foreline_text_free() */
enum foreline_status foreline_simulate(const foreline_plan *plan,
                                       const struct foreline_options *options, char **json,
                                       struct foreline_error *error);
void foreline_text_free(char *text); /* takes NULL */

#ifdef __cplusplus
}
#endif
#endif
