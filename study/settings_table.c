/* The table of settings: one row per thing that can be set, grouped by what it is about.
 *
 * To add an option --patience of `foreline run`, which is to be a key of `run --config` too: a
 * field `double patience_s` in struct run_arguments, and the row
 *
 *     {"patience", SECONDS(run.patience_s), RUN_KEYS, "TIME", "3s", .help = "before a worker is
 *     asked"},
 *
 * The command reads in->a.run.patience_s; help, man page, default, key, the nearest-name hint and
 * the refusal in every other command follow from the row. An option that means something in one
 * way of calling a command only gets only that taker: T(RUN_REAL), say. Two commands that mean
 * different things by one name have a row each, of the same field if type and unit are the
 * same. */
#include <stddef.h>

#include "core/base/limit.h"
#include "core/collective/collective.h"
#include "core/data/paths.h"
#include "core/schedule/schedule.h"
#include "core/strategy/framework.h"
#include "core/strategy/optimizer.h"
#include "exec/learning_rate.h"
#include "partition/device_order.h"
#include "sim/network_models.h"
#include "sim/ns3.h"
#include "study/jobs.h"
#include "study/settings_columns.h"
#include "study/settings_words.h"

enum { MOST = 10000000 };

/* Rows of the knobs of plans: core/strategy/strategy.def. */
#define TAKERS_OF_IMPORT T(PLAN_IMPORT)
#define NO_OPTION(...)
#define OPTION(field, name, type, also, unit, from, to, text, ...)                                 \
    {name,                                                                                         \
     SETTING_##type,                                                                               \
     offsetof(struct arguments, field),                                                            \
     PLAN_KEYS | (also),                                                                           \
     unit,                                                                                         \
     NULL,                                                                                         \
     .help = text,                                                                                 \
     .least = from,                                                                                \
     .most = (double)(to),                                                                         \
     .knob = &strategy_knobs[KNOB_##field]},
#define PLAN_KNOB(type, name, has, ...)  has(name, __VA_ARGS__)
#define STAGE_KNOB(type, name, has, ...) has(name, __VA_ARGS__)

const struct setting settings_table[] = {
    /* ---- what is planned. A model and a platform are names or files everywhere; validation takes
     * several platforms, objectives of published tools mostly none. */
    {"model", TEXT(model),
     PLANS | T(PLAN_IMPORT) | SCORED | T(VALIDATE) | KEYS | T(BENCH_TRADEOFF) | T(BENCH_SHARDS),
     "M", NULL, .help = "zoo name with overrides, or model file"},
    {"tokens", COUNT(tokens), PLANS, "N", NULL,
     .help = "tokens per sample, where the model is a zoo transformer or a configuration",
     .least = 1, .most = 1 << 24},
    {"train-tokens", REAL(train_tokens), PLANS | T(SIMULATE), "N", NULL,
     .help = "say how long training with so many tokens (1e12 or 1T) takes, and, where the "
             "platform has watts "
             "and price_per_hour, energy and money",
     .least = 1},
    {"tokens", REAL(train_tokens), CAMPAIGNS, "N", NULL,
     .help = "that the training has in all: 15T", .least = 1},
    {"platform", TEXT(platform), PLANS | T(PLAN_IMPORT) | SCORED | KEYS, "P", NULL,
     .help = "shipped name, or SimGrid XML file"},
    {"platform", LIST(platforms), T(VALIDATE), "P", NULL,
     .help = "shipped name, or SimGrid XML file of this machine; several times: all of them"},
    {"algorithm", TEXT(algorithm), PLAN_KEYS | SOLVED | T(PLAN_LIST), "A", "auto",
     .help = "auto, balanced, uniform, ...: --algorithm list has them all"},
    {"objective", WORD(objective), PLANS | SCORED, "O", "pipeline",
     .help = "what is minimised; besides pipeline those of published tools "
             "(docs/reference/partitioners.md)",
     .word = settings_objective_word},

    /* ---- constraints on plans: kept by every algorithm that takes them, or refused
     * (plan_check_given(), plan_breaks()). 0 stands for "not given", so counts begin with 1.
     * Most of them are knobs, whose rows come from core/strategy/strategy.def. */
    {"pipeline-parallel", COUNT(pipeline), PLAN_KEYS, "N", NULL,
     .help = "ranks of a pipeline, each with --chunks stages (also --pp; auto: searched)",
     .least = 1, .most = MOST},
    {"data-parallel", COUNT(data_parallel), PLAN_KEYS, "N", NULL,
     .help = "replicas as Megatron counts them: N x --context-parallel are --replicas (also --dp)",
     .least = 1, .most = MOST},
    {"stages", COUNT(stages), PLAN_KEYS | T(PLAN_PIPPY) | T(PLAN_SCORE), "N", NULL,
     .help = "pipeline stages (auto: searched; else all devices)", .least = 1, .most = MOST},
    {"split-at", TEXT(split_at), T(PLAN_CUT) | T(PLAN_IMPORT) | T(KEY_PLAN), "OP,OP", NULL,
     .help = "cut by hand: a stage (import: a module) begins at each of these ops of a model"},
    {"no-input-pipelining", FLAG(port.no_input_pipelining), T(PLAN_IMPORT) | T(KEY_PLAN), NULL,
     NULL,
     .help = "import of PipeDream: warm-up 0 in every stage, so one minibatch is under way per "
             "replica of the first"},
    {"layers-per-stage", COUNT(layers_per_stage), T(PLAN_CUT) | T(KEY_PLAN), "N", NULL,
     .help = "cut by hand: a stage begins at every N-th transformer layer, the last has the rest "
             "(else as many as layers / stages)",
     .least = 1, .most = MOST},
    {"chunks", COUNT(chunks), PLAN_KEYS, "N", NULL,
     .help = "stages on each device, for --schedule interleaved and breadth-first; in a V (zb-v, "
             "dualpipe-v, dualpipe) always 2 (auto: searched; else 1)",
     .least = 1, .most = MOST},
#include "core/strategy/strategy.def"
    {"granularity", WORD(search.granularity), PLAN_KEYS, "layer|op", NULL,
     .help = "stages begin at layers (names that share their block, such as h3.) or at any op "
             "(auto: layer; else op)"},
    {"placement", WORD(search.placement), PLAN_KEYS, "NAME", NULL,
     .help = "order of devices: near (racks are filled one after another), framework (ranks as "
             "launchers number them), spread (over racks), optimised (auto: near, then nodes are "
             "exchanged)",
     .word = device_placement_word},
    {"reserve", TEXT(reserve), T(PLAN_AUTO) | T(KEY_PLAN), "SIZE|SHARE", NULL,
     .help = "auto: memory that stays free on every device, 2GiB or 5% (the platform's "
             "framework_memory; else 5%)"},
    {"allow-oom", FLAG(allow_oom), T(PLAN_AUTO), NULL, NULL,
     .help = "auto: when no plan fits into memory, take the nearest all the same"},
    {"wide", FLAG(wide), PLANS | T(PLAN_EXPLAIN), NULL, NULL,
     .help = "whole names of ops and devices; auto: the ranking with what takes the time of its "
             "plans"},
    {"executable", FLAG(search.executable), PLAN_KEYS, NULL, NULL,
     .help = "auto: only plans that foreline run can execute"},
    {"launchable", FLAG(search.launchable), PLAN_KEYS, NULL, NULL,
     .help = "auto: only plans that plan export can write for the launcher of --framework and "
             "that it does not warn against (usual where --framework names one; --no-launchable: "
             "others, too)",
     .negatable = true},
    {"microbatches", COUNT(microbatches), PLAN_KEYS | OBJECTIVES | T(PLAN_IMPORT), "N", NULL,
     .help = "per iteration, over all replicas (auto: searched; else 8)", .least = 1, .most = MOST},
    {"microbatch-size", COUNT(microbatch_size), PLAN_KEYS | OBJECTIVES | T(PLAN_IMPORT), "N", NULL,
     .help = "samples per microbatch (auto: searched; else 1)", .least = 1, .most = MOST},
    {"batch", COUNT(batch), PLAN_KEYS | T(PLAN_PIPER) | T(PLAN_HIDUP) | T(PLAN_SCORE), "N", NULL,
     .help = "samples per iteration (default: microbatches x microbatch-size when both are given; "
             "else auto: 8 per device, hidup: the model's); piper: microbatches per batch",
     .least = 1, .most = MOST},
    {"schedule", WORD(schedule), PLAN_KEYS | OBJECTIVES | T(PLAN_IMPORT), "NAME", NULL,
     .help = "order of microbatches (auto: searched; else 1f1b)", .word = schedule_name},
    {"optimizer", TEXT(optimizer), PLAN_KEYS | SOLVED | T(VALIDATE) | T(PLAN_IMPORT),
     "adam|sgd[:KEY=X,...]", "adam", .help = "of the update (docs/reference/numerics.md)",
     .word = optimizer_name, .check = optimizer_check},
    {"framework", TEXT(framework),
     PLAN_KEYS | T(PLAN_IMPORT) | SIMULATIONS | T(KEY_POINT) | T(LAB_SCOREBOARD) |
         T(BENCH_TRADEOFF) | T(COMPARE_PLANS),
     "NAME[:KEY=X,...]", NULL,
     .help =
         "training framework whose kernels and overhead are predicted (simulate: the plan's; "
         "plan: compiled on GPUs of the catalogue, unless ops have measured times or the plan is "
         "--executable; else foreline)",
     .word = framework_name},
    {"finalists", COUNT(search.finalists), PLAN_KEYS, "N", "12",
     .help = "auto: plans that SimGrid looks at, at a time", .least = 1, .most = MOST},
    {"top", COUNT(search.top), T(PLAN_AUTO), "N", "1",
     .help = "auto: with -o plan.json, the best plans of other designs too: plan.2.json, ...",
     .least = 1, .most = 9},
    {"candidates", TEXT(search.candidates), T(PLAN_AUTO), "FILE", NULL,
     .help = "auto: the cuts of the model's graph that were scored, a line each, with proposer"},
    {"time-limit", SECONDS(search.time_limit_s), PLAN_KEYS | SOLVED, "TIME", NULL,
     .help = "0: the algorithm's own (auto: none, its work is limited)"},
    {"seed", COUNT(seed), PLANS | SOLVED | T(KEY_POINT), "N", "1",
     .help = "seed of parameters and data; with --jitter of its first sample, with --paths ecmp of "
             "the hash, too"},
    {"seed", COUNT(seed), VALIDATE_ON | T(LAB_SCOREBOARD), "N", "1",
     .help = "of parameters and data, and of the order of runs; of which runs --layers takes"},

/* ---- published objectives */
#define PAPERS_OPTION(type, member, name, kind, ...) {name, kind(papers.member), __VA_ARGS__},
#define PAPERS_NAME(field, name, kind, ...)          {name, kind(field), __VA_ARGS__},
#include "model/papers_options.def"
    {"devices", COUNT(devices), T(KEY_POINT), "N", NULL,
     .help = "only the platform's first so many", .least = 1},
    {"explain", TEXT(search.explain), T(PLAN_EXPLAIN), "PLAN", NULL,
     .help = "where the time of this plan file goes, and what would have to change"},

    /* ---- plans from and to files of other frameworks */
    {"to", WORD(port.to), T(PLAN_EXPORT), "NAME", NULL,
     .help = "export: for which framework the plan's arguments are written",
     .word = settings_export_word, .alias = settings_export_alias},
    {"set", LIST(port.sets), T(PLAN_IMPORT), "NAME=VALUE", NULL,
     .help = "import: a variable, a placeholder, or a key instead of the file's; several times"},
    {"gpus", COUNT(devices), T(PLAN_IMPORT), "N", NULL,
     .help = "import: how many devices there are, instead of what the file says", .least = 1},

    /* ---- simulations, and keys of experiments about them */
    {"engine", WORD(sim.engine), PREDICT_ALL, "NAME", "simgrid",
     .help = "analytic is quick, simgrid an independent simulator: both share links fairly; ns3 "
             "has packets, for small cases",
     .word = settings_simulator_word},
    {"engine", WORD(sim.engine), T(BENCH) | T(BENCH_ALGORITHMS) | T(BENCH_TRADEOFF), "NAME",
     "analytic",
     .help = "analytic is quick, simgrid an independent simulator: both share links fairly; ns3 "
             "has packets, for small cases",
     .word = settings_simulator_word},
    {"engines", TEXT(sim.engines), T(BENCH_NETWORK), "NAME,...", "analytic,ns3",
     .help = "of simulations, and netns, the emulated network; ratios are to the first"},
    {"engine", WORD(sim.engine), T(KEY_POINT), "NAME", "analytic",
     .help = "what predicts the plan or runs it", .word = settings_engine_word},
    {"network-model", WORD(sim.network_model), PREDICT_ANY | T(BENCH) | T(BENCH_NETWORK), "MODEL",
     "cm02",
     .help = "of --engine simgrid: cm02 adds nothing, lv08 is TCP, smpi MPI over "
             "it (docs/reference/networks.md)",
     .word = network_model_word},
    {"ns3", TEXT(sim.ns3), PREDICT_ANY | T(BENCH) | T(BENCH_NETWORK), "NAME=VALUE,...", NULL,
     .help = "of --engine ns3: tcp=reno, window=1GiB, mtu=9000, queue=PACKETS, rto=200ms "
             "(docs/reference/networks.md)",
     .check = ns3_settings_check},
    {"collective", WORD(sim.collective), PREDICT_ALL | T(KEY_POINT), "NAME", "auto",
     .help = "auto: NCCL's choice; fastest: what takes least here; another, for collectives it can "
             "do",
     .word = collective_name},
    {"algorithm-file", TEXT(sim.algorithm_file), SIMULATIONS | T(BENCH_ALGORITHMS), "FILE", NULL,
     .help =
         "an algorithm of MSCCL (XML), SCCL or TACCL (JSON) for collectives of its kind among as "
         "many members"},
    {"nccl-protocols", FLAG(sim.nccl_protocols), PREDICT_ALL | T(KEY_POINT), NULL, NULL,
     .help = "NCCL's latencies and efficiencies (LL, LL128, Simple) instead of the platform's"},
    {"paths", WORD(sim.paths),
     PREDICT_ALL | PLANS | T(BENCH) | T(BENCH_NETWORK) | T(BENCH_TRADEOFF) | T(KEY_POINT), "POLICY",
     NULL,
     .help = "how flows choose among paths: ideal, ecmp (hashed, by --seed), spray, adaptive, "
             "valiant, ugal (else as the platform says; docs/reference/networks.md)",
     .word = paths_word},
    {"queue-pairs", COUNT(sim.queue_pairs),
     PREDICT_ALL | PLANS | T(BENCH) | T(BENCH_NETWORK) | T(BENCH_TRADEOFF) | T(KEY_POINT), "N", "1",
     .help = "flows of a connection over parallel paths, which share its bytes", .least = 1,
     .most = 64},
    {"seeds", COUNT(sim.seeds), SIMULATIONS, "N", "1",
     .help =
         "with hashed --paths: predict with the hashes of --seed, --seed + 1, ...; the iteration "
         "is their median",
     .least = 1, .most = 10000},
    {"seed", COUNT(seed), T(BENCH) | T(BENCH_NETWORK) | T(BENCH_TRADEOFF), "N", "0",
     .help = "of hashed --paths; network: of its short flows and of ns-3 too"},
    {"jitter", SHARE(sim.jitter), T(PLAN_AUTO), "SHARE", NULL,
     .help = "auto: rank the finalists by simulations with so much jitter, as simulate --jitter"},
    {"samples", COUNT(search.samples), T(PLAN_AUTO) | T(PLAN_HIDUP), "N", "16",
     .help =
         "hidup: searches with --noise; else of --jitter, with the seeds --seed, --seed + 1, ...",
     .least = 1, .most = 1000},
    {"rank-by", WORD(search.rank_by), T(PLAN_AUTO), "mean|worst|quiet", "mean",
     .help = "of the iterations with --jitter the mean or the worst, or the one without"},
    {"jitter", SHARE(sim.jitter), PREDICT_ANY | T(KEY_POINT), "SHARE", NULL,
     .help = "standard deviation of every compute time, such as 5% of it"},
    {"equal", WORD(sim.equal), T(KEY_POINT), "cost|bisection", NULL,
     .help = "what platforms have in common whose platform.KEY is equal "
             "(docs/reference/topologies.md)"},
    {"noise", SHARE(sim.noise), T(KEY_POINT), "SHARE", NULL,
     .help = "plans are made on a model and platform that are off by up to so much"},
    {"slow", TEXT(sim.slow), PREDICT_ANY | T(EMULATE_NETNS) | T(KEY_POINT), "NAME=X,...", NULL,
     .help = "takes X times as long: compute of a device (r0n0g1), a rank (3) or a stage "
             "(stage:1), from time T on the messages of a link (link:NAME=X@T)"},
    {"fail", TEXT(sim.fail), SIMULATE_ANY | T(EMULATE_NETNS), "LINK@T,...", NULL,
     .help = "from T on nothing passes a link of the platform (emulate: 0 is when the measured "
             "iteration starts)"},
    {"kill", TEXT(sim.kill), SIMULATE_ANY | T(EMULATE_NETNS), "RANK@T,...", NULL,
     .help = "a rank or device of the plan ends at T"},
    {"engine", WORD(sim.engine), CAMPAIGNS, "NAME", "analytic",
     .help = "what predicts an iteration", .word = settings_simulator_word},
    {"seed", COUNT(seed), CAMPAIGNS, "N", "1", .help = "of the failures that are drawn"},
    {"seed", COUNT(seed), PREDICT_ALL, "N", "0",
     .help = "of the jitter, of hashed --paths and of --place search; same seed, same result"},
    {"fail-on-oom", FLAG(sim.fail_on_oom), SIMULATE_ANY, NULL, NULL,
     .help = "exit status 1 when a rank needs more memory than its device has"},
    {"no-fold", FLAG(sim.no_fold), SIMULATIONS, NULL, NULL,
     .help = "simulate every microbatch of every rank, also where the rest would follow"},
    {"export", TEXT(sim.export), SIMULATE_ANY | T(BENCH), "FORMAT=PATH", NULL,
     .help = "write the program too: goal=FILE for LogGOPSim, atlahs=FILE, chakra=DIR (execution "
             "traces)"},
    {"ranks", COUNT(sim.rank_rows), T(SIMULATE) | T(SIMULATE_CAPTURE), "N", "4",
     .help = "rows of the tables of ranks; 0: no such tables"},
    {"links", COUNT(sim.link_rows), T(SIMULATE) | T(SIMULATE_CAPTURE) | JOBS, "N", "5",
     .help = "rows of the table of links; 0: no such table"},

    /* ---- trainings of weeks */
    {"failures", TEXT(campaign.failures), CAMPAIGNS, "WHAT", "llama3",
     .help = "published rates, with changes as llama3:gpu=50000h,repair=12h",
     .word = settings_failures_word},
    {"storage", TEXT(campaign.storage), CAMPAIGNS, "WHERE", "shared",
     .help = "of checkpoints: shared:rate=2TBps,node=25GBps, disk:node=5GBps or peer"},
    {"checkpoint", WORD(campaign.checkpoint), CAMPAIGNS, "beside|blocking", "beside",
     .help = "written beside the training, which stops only for a copy to the host, or while it "
             "waits"},
    {"every", SECONDS(campaign.every_s), CAMPAIGNS, "TIME", NULL,
     .help = "of work between checkpoints (default: the best)"},
    {"checkpoint-bytes", BYTES(campaign.bytes), CAMPAIGNS, "BYTES", NULL,
     .help = "of one (default: parameters and optimizer's state, once)"},
    {"checkpoint-stop", SECONDS(campaign.stop_s), CAMPAIGNS, "TIME", "2s",
     .help = "that a checkpoint stops the training besides the bytes: planning, metadata, waiting "
             "for all ranks"},
    {"interference", SHARE(campaign.interference), CAMPAIGNS, "SHARE", "2%",
     .help = "by which iterations are longer while a checkpoint is written beside them"},
    {"recovery", WORD(campaign.recovery), CAMPAIGNS, "POLICY", "spares", .help = "after a failure",
     .word = settings_recovery_word},
    {"spares", COUNT(campaign.spares), CAMPAIGNS, "N", NULL,
     .help = "nodes that wait for one to fail (default: as many as make days times nodes least)",
     .most = 100000},
    {"swap", SECONDS(campaign.swap_s), CAMPAIGNS, "TIME", "1min",
     .help = "--recovery hot: until a spare has joined"},
    {"iteration-time", SECONDS(campaign.iteration_s), CAMPAIGNS, "TIME", NULL,
     .help = "measured, instead of the prediction"},
    {"over", WORD(campaign.over), T(CAMPAIGN_OVER), "interval|spares|size", NULL,
     .help = "a table instead: what other values of it give; size: of the same iteration on more "
             "or fewer devices"},

    /* ---- captures of training scripts (docs/how-to/capture.md) */
    {"platform", TEXT(platform), T(SIMULATE_CAPTURE), "P", NULL,
     .help = "of a capture: shipped name, or SimGrid XML file; rank N is on its device N"},
    {"operators", TEXT(capture.operators), T(SIMULATE_CAPTURE), "model|dry|FILE", "model",
     .help = "of a capture: times of operators by shapes and bytes, by the dry run of the capture, "
             "or by a table that foreline capture --profile has measured"},
    {"serial", FLAG(capture.serial), T(SIMULATE_CAPTURE), NULL, NULL,
     .help = "of a capture: collectives do not run beside compute, as where one core does both "
             "(gloo)"},
    {"world-size", COUNT(capture.world_size), T(CAPTURE), "N", NULL,
     .help = "ranks that the script is told there are", .least = 1, .most = 65536},
    {"ranks", TEXT(capture.ranks), T(CAPTURE), "N,N", NULL,
     .help = "capture these; each of the others is taken to be like the nearest below (else: all "
             "up to 8, of more those that tell which are alike)"},
    {"steps", COUNT(capture.steps), T(CAPTURE), "N", "4",
     .help = "run the script for so many, and on until the last two are equal", .least = 3,
     .most = 24},
    {"node", COUNT(capture.node), T(CAPTURE), "N", NULL,
     .help = "ranks of a node, LOCAL_WORLD_SIZE (else 8, or all)", .least = 1, .most = 65536},
    {"device", WORD(capture.device), T(CAPTURE), "cpu|cuda", "cpu",
     .help = "cuda: the script finds GPUs, which do nothing; what it asks of them is captured on "
             "the CPU"},
    {"real", FLAG(capture.real), T(CAPTURE), NULL, NULL,
     .help = "tensors hold numbers, for scripts that depend on them: takes their memory and time"},
    {"dry", FLAG(capture.dry), T(CAPTURE), NULL, NULL,
     .help = "run a rank of each class alone, too, and keep the CPU seconds between its "
             "communications"},
    {"profile", FLAG(capture.profile), T(CAPTURE), NULL, NULL,
     .help = "measure every distinct operator on this machine, too: DIR/operators.json"},
    {"timeout", SECONDS(capture.patience_s), T(CAPTURE), "TIME", "600s", .help = "a rank may take"},

    /* ---- several jobs on one platform */
    {"start", LIST(jobs.starts), JOBS, "JOB=TIME", NULL,
     .help = "when a job starts (default: 0s); a job is called as its plan file, without folder "
             "and .json; several times"},
    {"iterations", COUNT(jobs.iterations), JOBS, "N", "10",
     .help = "of each job that are counted, all while all jobs run", .least = 1, .most = 100000},
    {"place", WORD(jobs.place), JOBS, "NAME", NULL,
     .help = "put the jobs on other devices than the plans': packed, spread (all devices dealt in "
             "turn), search (least slowdown by exchanging devices)",
     .word = jobs_place_word},
    {"repeats", COUNT(run.repeats), T(EMULATE_JOBS), "N", "5",
     .help = "how often the jobs run alone and together", .least = 1, .most = 1000},
    {"background", TEXT(jobs.background), JOBS, "FILE", NULL,
     .help = "traffic beside the jobs: a table with columns from, to, rate, or a matrix of "
             "devices in bytes per second"},

    /* ---- runs, and keys of `run --config`. Numerics mean nothing to paced compute. */
    {"config", TEXT(run.config), RUNS, "FILE", NULL,
     .help = "the run as a YAML file, instead of a plan: results, logs and what they come from go "
             "to a folder (docs/reference/run.md)"},
    {"dry-run", FLAG(run.dry_run), RUNS, NULL, NULL,
     .help = "with --config: say what would be done"},
    {"plan", TEXT(plan_file), KEYS, "PLAN", NULL, .help = "a plan file instead of planning"},
    {"plan", TEXT(plan_file), T(MEASUREMENT), "PLAN", NULL, .help = "what was run, for compare"},
    {"import", TEXT(import_file), T(KEY_RUN), "FILE", NULL,
     .help = "a file of another framework that the plan is made of, by foreline plan import"},
    {"folder", TEXT(run.folder), T(KEY_RUN), "DIR", ".", .help = "where the run's folder is made"},
    {"log", TEXT(launch.log), RUN_KEYS, "PREFIX", NULL,
     .help = "what worker R prints goes to PREFIX.R (default: to stderr)"},
    {"compute", WORD(run.compute), RUN_KEYS | VALIDATE_ON | T(KEY_POINT), "real|paced", NULL,
     .help = "real: numerics; paced: ops take their predicted time, messages are real; with "
             "--device cuda a GPU's (default: real when the device can compute all ops)"},
    {"device", WORD(launch.device), T(PLAN_AUTO), "cpu|cuda", "cpu",
     .help = "with --executable: what foreline run is to compute on"},
    {"device", WORD(launch.device), RUN_KEYS | VALIDATE_ON | T(KEY_POINT), "cpu|cuda", "cpu",
     .help = "what computes; cuda needs foreline-worker-cuda (docs/reference/cuda.md)"},
    {"cuda-graphs", FLAG(launch.cuda_graphs), REAL_KEYS, NULL, NULL,
     .help = "with --device cuda: a pass of a microbatch is one launch (docs/reference/cuda.md "
             "says of which "
             "plans)"},
    {"cudnn", FLAG(launch.cudnn), REAL_KEYS | T(CALIBRATE_CUDA) | T(MODEL_PROFILE), NULL, NULL,
     .help =
         "with --device cuda: attention in bf16 by cuDNN where that can (docs/reference/cuda.md)"},
    {"unbound", FLAG(launch.unbound), REAL_KEYS, NULL, NULL,
     .help =
         "ranks use whichever core is free; else each CPU rank that is started here has its own, "
         "where there are as many"},
    {"transport", WORD(launch.transport), RUN_KEYS, "tcp|mpi|local|nccl", NULL,
     .help = "what carries messages; local: ranks are threads of one process; nccl: GPU to GPU, "
             "needs --device cuda (default: tcp; nccl with --device cuda)"},
    {"collective", WORD(launch.collective), RUN_KEYS | EMULATIONS | T(EMULATE_JOBS), "NAME", "auto",
     .help = "algorithm of the collectives that it serves, one that real runs can do; the others "
             "go around the ring, as all do with auto; over nccl auto is NCCL's own",
     .word = settings_real_collective},
    {"hosts", TEXT(launch.hosts), RUN_KEYS, "FILE|HOST:N,...", NULL,
     .help = "machines that run the ranks, in rank order: a hostfile of mpirun, or a list; mpirun "
             "or ssh starts the workers there (default: all on this machine)"},
    {"launcher", TEXT(launch.launcher), RUN_KEYS, "WORDS", NULL,
     .help =
         "what starts the workers instead, \"srun -n 4\"; env: this is one of several processes "
         "that torchrun, srun, mpirun or you start alike, and RANK, WORLD_SIZE, MASTER_ADDR and "
         "MASTER_PORT say which; none: you start them, as a line on stderr says"},
    {"local-ranks", COUNT(launch.local_ranks), RUNS, "N", NULL,
     .help = "with --launcher env: this process has so many ranks, from RANK on (else 1)",
     .least = 1, .most = 1 << 20},
    {"address", TEXT(launch.address), RUN_KEYS, "A.B.C.D|NAME", NULL,
     .help = "where workers on other machines reach this one (default: they are all here)"},
    {"steps", COUNT(launch.steps), RUN_KEYS | VALIDATE_ON | T(KEY_POINT), "N", "10",
     .help = "training steps that are measured", .least = 1},
    {"warmup", COUNT(launch.warmup), RUN_KEYS | VALIDATE_ON | T(KEY_POINT), "N", "2",
     .help = "training steps before those"},
    {"learning-rate", REAL(launch.learning_rate), REAL_KEYS, "X", "0.001",
     .help = "of the optimizer", .most = 1e9},
    {"learning-rate-policy", TEXT(launch.learning_rate_policy), REAL_KEYS, "NAME[:KEY=X,...]", NULL,
     .help = "from step to step", .word = learning_rate_name, .check = learning_rate_check},
    {"dtype", WORD(run.dtype), REAL_KEYS, "fp32|bf16|fp16", NULL,
     .help = "of activations and messages: what the plan's model says"},
    {"loss-every", COUNT(launch.progress_every), REAL_KEYS, "N", NULL,
     .help = "time and loss of every N-th step on stderr (default: of every step, on a terminal)"},
    {"batch-tokens", TEXT(launch.batch_tokens), REAL_KEYS, "FILE", NULL,
     .help = "write tokens and targets of all steps, for other programs (docs/reference/run.md)"},
    {"text", TEXT(launch.text), REAL_KEYS, "FILE", NULL,
     .help = "training text (default: the one shipped)"},
    {"timeout", SECONDS(launch.timeout_s), RUN_KEYS, "TIME", NULL,
     .help = "a worker that sends nothing for so long counts as hung (default: 8 s or 20 "
             "predicted iterations, whichever is longer)"},
    {"limit", TEXT(limits), WAITS, "NAME=VALUE,...", NULL,
     .help = "override a timeout or an input-size limit (docs/limits.md)", .word = limit_name,
     .check = limits_check, .hidden = true},
    {"timeout", SECONDS(launch.timeout_s), VALIDATE_ON | T(VALIDATE_EXPERIMENT), "TIME", "30s",
     .help = "a worker that sends nothing for so long counts as hung"},
    {"checkpoint", TEXT(launch.checkpoint), REAL_KEYS, "DIRECTORY", NULL,
     .help = "keep the state of all ranks there, after the last step"},
    {"checkpoint-every", COUNT(launch.checkpoint_every), REAL_KEYS, "N", NULL,
     .help = "and after every N steps of the training (0: not)"},
    {"resume", TEXT(launch.resume), REAL_KEYS, "DIRECTORY", NULL,
     .help = "go on from the newest checkpoint there"},
    {"inject-failures", TEXT(run.inject_failures), T(RUN_REAL), "SEED,TIME", NULL,
     .help = "kill ranks at drawn times, one every TIME on average, go on from --checkpoint, and "
             "compare with the prediction"},
    {"forward-only", FLAG(run.forward_only), SIMULATIONS | REAL_KEYS | T(COMPARE_PLANS), NULL, NULL,
     .help = "inference: forward passes only, no gradients and optimizer in memory (run: prints "
             "the mean loss, top-1 and top-5 accuracy; with --resume and --text: validation)"},

    /* ---- emulation: four ways of calling one command, see takers.def */
    {"engine", WORD(sim.engine), EMULATIONS | T(EMULATE_JOBS), "smpi|netns", "smpi",
     .help = "smpi: on SimGrid's MPI; netns: over TCP in namespaces"},
    {"platform", TEXT(platform), T(EMULATE_COMMAND) | T(EMULATE_SHELL) | T(EMULATE_CHECK), "P",
     NULL, .help = "run a command instead: a shipped one, or XML"},
    {"shell", TEXT(emulation.shell), T(EMULATE_SHELL) | T(EMULATE_JOIN), "HOST", NULL,
     .help = "a shell in the node of this device or rank: with --platform in a network of its own, "
             "else in one that runs"},
    {"pid", COUNT(emulation.pid), T(EMULATE_JOIN), "N", NULL,
     .help = "with --shell: which one, by its process; 0: there is just one", .most = INT32_MAX},
    {"ranks", COUNT(run.ranks), T(EMULATE_COMMAND) | T(EMULATE_SHELL) | T(EMULATE_CHECK), "N", NULL,
     .help = "of the command; 0: one per device of the platform"},
    {"dilate", TEXT(emulation.dilate),
     T(EMULATE_NETNS) | T(EMULATE_JOBS) | T(EMULATE_COMMAND) | T(EMULATE_SHELL) | T(EMULATE_CHECK) |
         T(BENCH_NETWORK),
     "F|auto", "1",
     .help = "netns: divide bandwidths, multiply latencies and a plan's compute times; its results "
             "are in the platform's seconds again; auto: what this machine carries well"},
    {"compute", WORD(run.compute), EMULATIONS, "paced|real", "paced",
     .help = "of a plan on netns: its predicted time, or numerics on this CPU"},
    {"steps", COUNT(launch.steps), T(EMULATE_NETNS), "N", "5",
     .help = "measured iterations of netns", .least = 1},
    {"profile", WORD(measure.profile), T(MEASUREMENT_PROFILE), "ranges|ops", NULL,
     .help = "write a model with the times of the run's layers instead: ranges that it marks "
             "(record_function, NVTX, modules), or ops of the host in their order"},
    {"model", TEXT(model), T(MEASUREMENT_PROFILE), "M", NULL,
     .help = "whose ops are called as ranges are (default: the chain of the run's layers)"},
    {"microbatches", COUNT(microbatches), T(MEASUREMENT_PROFILE), "N", "1",
     .help = "that a step of the run has", .least = 1, .most = MOST},
    {"microbatch-size", COUNT(microbatch_size), T(MEASUREMENT_PROFILE), "N", "1",
     .help = "samples of each", .least = 1, .most = MOST},
    {"tensor-parallel", COUNT(measure.shards), T(MEASUREMENT_PROFILE), "N", "1",
     .help = "devices that shared each op of the run", .least = 1, .most = 65536},
    {"device", TEXT(measure.device), T(MEASUREMENT_PROFILE), "NAME", NULL,
     .help = "type of the run's devices (default: any)"},
    {"warmup", COUNT(launch.warmup), T(MEASUREMENT) | T(MEASUREMENT_PROFILE), "N", "0",
     .help = "steps left out at the beginning"},
    {"warmup", COUNT(launch.warmup), T(EMULATE_NETNS), "N", "1",
     .help = "iterations of netns before these"},
    {"check", FLAG(emulation.check), T(EMULATE_CHECK), NULL, NULL,
     .help = "say what this machine can emulate; with --platform, how exactly each of its links' "
             "rates"},

/* ---- measuring this machine: calibrate, model profile, bench */
#include "study/settings_measuring.def"

    /* ---- validation: lists of constraints, and what runs the plans */
    {"stages", TEXT(grid.stage_list), T(VALIDATE), "N,N", NULL,
     .help = "pipeline stages (default: all devices)"},
    {"replicas", TEXT(grid.replica_list), T(VALIDATE), "N,N", NULL,
     .help = "data-parallel replicas (default: 1)"},
    {"tensor-parallel", TEXT(grid.tensor_list), T(VALIDATE), "N,N", NULL,
     .help = "devices that share each op (default: 1)"},
    {"chunks", TEXT(grid.chunk_list), T(VALIDATE), "N,N", NULL,
     .help = "stages on each device (default: 1)"},
    {"schedules", TEXT(grid.schedule_list), T(VALIDATE), "NAME,NAME", NULL,
     .help = "orders of microbatches (default: 1f1b)"},
    {"microbatches", TEXT(grid.microbatch_list), T(VALIDATE), "N,N", NULL,
     .help = "per iteration (default: 8)"},
    {"microbatch-size", TEXT(grid.size_list), T(VALIDATE), "N,N", NULL,
     .help = "samples (default: 1)"},
    {"algorithm", TEXT(grid.algorithm_list), T(VALIDATE), "A,A", "balanced",
     .help = "what cuts the model: foreline plan"},
    {"measurements", FLAG(fits.measurements), T(VALIDATE_MEASUREMENTS), NULL, NULL,
     .help = "operands are measurement files of runs; their plans are predicted now"},
    {"cross-validate", FLAG(fits.cross_validate), T(LAB_SCOREBOARD), NULL, NULL,
     .help = "constants fitted without each set, and without each generation of GPUs"},
    {"layers", COUNT(fits.layers), T(LAB_SCOREBOARD), "N", "0",
     .help = "fit what layers take to N random runs of each set, and predict the others"},
    {"plans", TEXT(fits.plans), T(LAB_SCOREBOARD), "DIR", NULL,
     .help = "write plan files of rows with a time, and runs.tsv: what calibrate --from reads"},
    {"fit", FLAG(fits.fit_constants), T(LAB_FIT), NULL, NULL,
     .help = "print the table of constants, fitted to the rows, and nothing else"},
    {"engine", WORD(sim.engine), VALIDATE_ON, "NAME", NULL,
     .help = "what runs the plans: workers here, in network namespaces, or on SimGrid's MPI "
             "(default: tcp; nccl with --device cuda)",
     .word = settings_runner_word},
    {"repeats", COUNT(run.repeats), VALIDATE_ON, "N", "3", .help = "runs of each plan", .least = 1},
    {"fail-above", SHARE(fits.fail_above), VALIDATIONS, "SHARE", NULL,
     .help = "exit status 1 when SimGrid's worst error is above, such as 10%"},

    /* ---- sweeps, pictures, pages: what is done with results, no part of what they depend on */
    {"list", FLAG(grid.list), T(SWEEP_LIST), NULL, NULL,
     .help = "print the points, compute nothing"},
    {"export", WORD(sim.export), T(SWEEP), "csv|tsv", NULL,
     .help = "print every point instead of the best ones"},
    {"workers", COUNT(grid.workers), T(SWEEP), "N", NULL,
     .help = "processes (0: as many as cores; one under mpirun and srun, and where plans are run)"},
    {"workers", COUNT(grid.workers), T(PLAN_AUTO), "N", NULL,
     .help = "processes that simulate finalists (0: as many as cores); the answer is the same"},
    {"shard", TEXT(grid.shard), T(SWEEP), "I/N", NULL,
     .help = "only each N-th point, from the I-th on (1/N to N/N), into a database of its own"},
    {"retry", FLAG(grid.retry), T(SWEEP), NULL, NULL, .help = "retry failed points"},
    {"add", FLAG(grid.add), T(SWEEP), NULL, NULL,
     .help = "also into a database of other experiments, which it becomes one more of"},
    {"x", TEXT(picture.x), PLOTS, "COLUMN", NULL,
     .help = "of a table; default: the first that varies and is no result; heatmap needs it"},
    {"y", TEXT(picture.y), PLOTS, "COLUMN", NULL,
     .help =
         "default: samples_per_s, tokens_per_s, iteration_s, the first there is; heatmap needs it"},
    {"by", TEXT(picture.by), T(PLOT_LINES), "COLUMN", NULL,
     .help = "a line for each of its values; default: plan, algorithm, schedule or engine, the "
             "first that "
             "has several rows a value"},
    {"value", TEXT(picture.value), T(PLOT_HEATMAP), "COLUMN", NULL,
     .help = "heatmap: what the colour says"},
    {"where", TEXT(picture.where), PLOTS, "COLUMN=VALUE[,...]", NULL,
     .help = "rows of a table to keep"},
    {"title", TEXT(picture.title), PICTURES, "TEXT", NULL, .help = "title above the picture"},
    {"xlabel", TEXT(picture.xlabel), PICTURES, "TEXT", NULL, .help = "name of the x axis"},
    {"ylabel", TEXT(picture.ylabel), PICTURES, "TEXT", NULL, .help = "name of the y axis"},
    {"size", TEXT(picture.size), PICTURES, "WIDTHxHEIGHT", NULL,
     .help = "size in pixels, or 8.5x6cm as a PDF has it (default: 480 wide, as high as needed)"},
    {"log", TEXT(picture.log), PICTURES, "x|y|xy", NULL, .help = "logarithmic axes"},
    {"from", SECONDS(picture.window.from_s), T(PLOT_TRACES), "TIME", NULL,
     .help = "where a timeline begins"},
    {"to", SECONDS(picture.window.to_s), T(PLOT_TRACES), "TIME", NULL,
     .help = "where it ends (default: with the last op)"},
    {"ranks", TEXT(picture.window.ranks), T(PLOT_TRACES), "N,N-N", NULL,
     .help = "rows of a timeline: numbers and ranges of ranks (default: all)"},
    {"question", TEXT(question), T(REPORT), "TEXT", NULL,
     .help = "what the page answers, as its title"},

    /* ---- outputs, of all commands: the same fields with other help */
    {"output", TEXT(output), PLANS | SOLVED | T(PLAN_IMPORT) | T(PLAN_EXPORT), "FILE", NULL,
     .help = "write the plan (also -o); export: the arguments"},
    {"output", TEXT(output),
     SIMULATE_ANY | JOBS | RUN_KEYS | EMULATIONS | T(MEASUREMENT) | T(MEASUREMENT_PROFILE), "FILE",
     NULL, .help = "write the measurement as JSON (also -o); measurement --profile: the model"},
    {"output", TEXT(output), CALIBRATIONS | T(LAB_KERNELS) | T(CALIBRATE_FROM), "FILE", NULL,
     .help = "write the platform as SimGrid XML (also -o)"},
    {"output", TEXT(output), T(MODEL_IMPORT) | T(MODEL_PROFILE), "FILE", NULL,
     .help = "import, profile: where the model goes ('-': stdout)"},
    {"output", TEXT(output), T(TOPOLOGY_DRAW) | T(TOPOLOGY_GENERATE) | IMPORTS | T(TOPOLOGY_CURVES),
     "FILE", NULL,
     .help = "generate, import, discover: where the file goes (also -o); draw: picture, .svg, .png "
             "or .pdf"},
    {"output", TEXT(output), T(CAPTURE), "DIR", "capture",
     .help = "the folder of the capture (also -o)"},
    {"output", TEXT(output), VALIDATIONS, "DIR", NULL, .help = "write everything there (also -o)"},
    {"output", TEXT(output), T(SWEEP), "FILE", NULL,
     .help = "the database (also -o; default: the experiment's name with .db, here)"},
    {"output", TEXT(output), PICTURES, "FILE", NULL,
     .help = "picture: .svg, .png or .pdf (also -o FILE)"},
    {"output", TEXT(output), T(REPORT), "FILE", NULL,
     .help = "the page (also -o); default: DIR/report.html, or the database's name with .html"},
    {"trace", TEXT(trace), SIMULATE_ALL | RUN_KEYS | EMULATIONS | T(MEASUREMENT), "FILE", NULL,
     .help = "write a timeline for ui.perfetto.dev (run: of the median step; simulate: of all ops, "
             "which takes longer)"},
    {"json", FLAG(json),
     PLANS | SOLVED | SIMULATE_ANY | JOBS | RUNS | EMULATIONS | T(MEASUREMENT) | CALIBRATIONS |
         T(BENCH) | T(BENCH_NETWORK) | T(CAMPAIGN) | T(COMPARE) | T(COMPARE_PLANS) |
         T(LAB_SCOREBOARD) | T(MODEL_LIST) | T(MODEL_SHOW) | T(TOPOLOGY_LIST) | T(TOPOLOGY_SHOW) |
         IMPORTS | T(CALIBRATE_FROM),
     NULL, NULL, .help = "print JSON in SI units instead of text"},
};
const size_t settings_table_n = sizeof settings_table / sizeof *settings_table;
_Static_assert(sizeof settings_table / sizeof *settings_table <= SETTINGS_MOST,
               "struct arguments has a bit for each setting that was given");
