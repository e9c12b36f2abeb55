/* What library/example.c does not call, on the plan that it wrote: library_use PLAN DEVICES prints
 * the time by the analytic engine. Exit status 1 with a line: something is not as
 * library/foreline.h says. */
#include <foreline.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int expect(int right, const char *what)
{
    if (!right)
        printf("not so: %s\n", what);
    return !right;
}

/* What a thread finds: the time of a plan that it makes and predicts by itself, and of the file. */
struct finds {
    const char *path;
    double made_s, read_s;
    struct foreline_error error; /* of what failed last */
};

static void *find(void *argument)
{
    struct finds *f = argument;
    const struct foreline_setting settings[] = {
        {"algorithm", "balanced"}, {"stages", "2"}, {"microbatches", "4"}};
    struct foreline_prediction p;
    foreline_model *model = NULL;
    foreline_platform *platform = NULL;
    foreline_plan *made = NULL, *read = NULL;
    if (foreline_model_load("gpt-tiny", &model, &f->error) == FORELINE_OK &&
        foreline_platform_load("node:gpus=2,type=A100", &platform, &f->error) == FORELINE_OK &&
        foreline_plan_make(model, platform, settings, 3, &made, &f->error) == FORELINE_OK &&
        foreline_predict(made, "analytic", &p, &f->error) == FORELINE_OK)
        f->made_s = p.iteration_s;
    if (f->made_s > 0 && foreline_plan_read(f->path, &read, &f->error) == FORELINE_OK &&
        foreline_predict(read, "analytic", &p, &f->error) == FORELINE_OK)
        f->read_s = p.iteration_s;
    foreline_plan_free(made);
    foreline_plan_free(read);
    foreline_platform_free(platform);
    foreline_model_free(model);
    return NULL;
}

static int ask_from_threads(const char *path)
{
    enum { THREADS = 8 };
    struct finds f[THREADS];
    pthread_t thread[THREADS];
    int wrong = 0;
    for (int i = 0; i < THREADS; i++) {
        f[i] = (struct finds){.path = path};
        if (pthread_create(&thread[i], NULL, find, &f[i]) != 0)
            return expect(0, "a thread");
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < THREADS; i++)
        wrong += expect(f[i].made_s > 0 && f[i].made_s == f[0].made_s && f[i].read_s > 0 &&
                            f[i].read_s == f[0].read_s,
                        *f[i].error.message ? f[i].error.message : "threads find the same");
    return wrong;
}

/* Stops at the second call. */
static int stop_second(void *context, double done, double all)
{
    int *calls = context;
    (void)done;
    (void)all;
    return ++*calls == 2;
}

/* Options, progress and a stop. */
static int ask_long(const foreline_plan *read)
{
    enum { OPTIONS = 2 };
    int wrong = 0, calls = 0;
    char *json = NULL;
    struct foreline_error e = {FORELINE_OK, ""};
    foreline_model *model = NULL;
    foreline_platform *platform = NULL;
    foreline_plan *plan = NULL;
    const struct foreline_setting settings[OPTIONS] = {{"engine", "analytic"}, {"jitter", "5%"}},
                                  wrong_one = {"export", "goal:x"}, batch = {"batch", "64"};
    struct foreline_options o = {settings, OPTIONS, NULL, NULL};
    wrong += expect(foreline_simulate(read, &o, &json, &e) == FORELINE_OK && json &&
                        strstr(json, "\"engine\": \"analytic\"") && !foreline_plan_json(read),
                    "a simulation with options is a document");
    foreline_text_free(json);
    json = NULL;
    o = (struct foreline_options){&wrong_one, 1, NULL, NULL};
    wrong += expect(foreline_simulate(read, &o, &json, &e) == FORELINE_USAGE && !json,
                    "what writes other files is refused");
    o = (struct foreline_options){&batch, 1, stop_second, &calls};
    if (foreline_model_load("gpt2-medium", &model, &e) != FORELINE_OK ||
        foreline_platform_load("rail:nodes=4,gpus=8,type=H100", &platform, &e) != FORELINE_OK)
        return expect(0, e.message);
    enum foreline_status st = foreline_plan_find(model, platform, &o, &plan, &e);
    wrong += expect(calls == 2, "after the stop nobody is told");
    wrong += expect(st == FORELINE_OK ? plan && strstr(foreline_plan_json(plan), "candidates")
                                      : st == FORELINE_STOPPED && !plan && *e.message,
                    "a search that is stopped has its best plan, or none");
    foreline_plan_free(plan);
    foreline_platform_free(platform);
    foreline_model_free(model);
    return wrong;
}

int main(int argc, char **argv)
{
    int wrong = argc != 3;
    const char *told = setlocale(LC_ALL, "");
    char number[16], name[64];
    snprintf(name, sizeof name, "%s", told ? told : "a locale that is not there");
    struct foreline_error e = {FORELINE_NOMEM, "before"};
    struct foreline_prediction exact, quick;
    foreline_plan *plan = NULL, *none = NULL;
    foreline_model *model = NULL;
    foreline_platform *platform = NULL;
    if (wrong || foreline_plan_read(argv[1], &plan, &e) != FORELINE_OK)
        return 1;
    wrong += expect(e.status == FORELINE_OK && !*e.message, "success leaves no message");
    wrong += expect(foreline_predict(plan, NULL, &exact, NULL) == FORELINE_OK, "NULL is simgrid");
    wrong += expect(foreline_predict(plan, "analytic", &quick, NULL) == FORELINE_OK, "analytic");
    wrong += expect(foreline_predict(plan, "abacus", &quick, &e) != FORELINE_OK && *e.message &&
                        !strchr(e.message, '\n'),
                    "an unknown engine is one line");
    wrong += expect(exact.busy + exact.exposed + exact.idle > 0.999 &&
                        exact.busy + exact.exposed + exact.idle < 1.001,
                    "shares are of the whole");
    wrong += expect(foreline_plan_read("nowhere.json", &none, &e) == FORELINE_IO && !none,
                    "no file is no plan");
    setenv("FORELINE_LIMITS", "size=1e-9", 1);
    wrong += expect(foreline_plan_read(argv[1], &none, &e) == FORELINE_IO && !none &&
                        strstr(e.message, "larger than") != NULL,
                    "the environment says limits");
    setenv("FORELINE_LIMITS", "size=2", 1);
    wrong += expect(foreline_model_load("gpt-tiny", &model, NULL) == FORELINE_OK &&
                        foreline_model_describe(model).ops > 0 &&
                        foreline_model_describe(model).parameters > 0,
                    "a model has ops and parameters");
    wrong += expect(foreline_platform_load("two-racks", &platform, NULL) == FORELINE_OK &&
                        foreline_platform_devices(platform) == strtoul(argv[2], NULL, 10) &&
                        foreline_platform_device(platform, 0) &&
                        !foreline_platform_device(platform, foreline_platform_devices(platform)),
                    "a platform names its devices");
    const struct foreline_setting twice[] = {{"stages", "2"}, {"seed", "7"}, {"stagse", "2"}};
    wrong += expect(foreline_plan_make(model, platform, twice, 3, &none, &e) == FORELINE_USAGE &&
                        strstr(e.message, "stages"),
                    "a setting that is none, with the nearest");
    wrong += expect(foreline_plan_make(model, platform, twice, 2, &none, &e) == FORELINE_OK && none,
                    "two settings");
    wrong += expect(strstr(foreline_library_version(), "foreline") != NULL, "the version");
    wrong += ask_from_threads(argv[1]);
    wrong += ask_long(plan);
    wrong += expect(strcmp(name, setlocale(LC_ALL, NULL)) == 0, "the locale stays the program's");
    snprintf(number, sizeof number, "%.1f", 0.5);
    wrong += expect(number[1] == *localeconv()->decimal_point, "numbers stay the program's");
    (void)setlocale(LC_ALL, "C");
    printf("%.17g\n", quick.iteration_s);
    foreline_plan_free(none);
    foreline_plan_free(plan);
    foreline_plan_free(NULL);
    foreline_model_free(model);
    foreline_model_free(NULL);
    foreline_platform_free(platform);
    foreline_platform_free(NULL);
    return wrong > 0;
}
