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

#include "campaign/failures.h"
#include "campaign/storage.h"
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
     "M", NULL, .help = "model name with overrides (foreline model list), or model file"},
    {"tokens", COUNT(tokens), PLANS, "N", NULL,
     .help = "tokens per sample, for transformers of model list and Hugging Face configurations",
     .least = 1, .most = 1 << 24},
    {"train-tokens", REAL(train_tokens), PLANS | T(SIMULATE) | T(KEY_POINT), "N", NULL,
     .help = "predict the time to train on N tokens (1e12 or 1T), and energy and price if the "
             "platform has watts and price_per_hour",
     .least = 1},
    {"tokens", REAL(train_tokens), CAMPAIGNS, "N", NULL,
     .help = "tokens of the whole training, such as 15T", .least = 1},
    {"platform", TEXT(platform), PLANS | T(PLAN_IMPORT) | SCORED | KEYS, "P", NULL,
     .help = "shipped platform name, or SimGrid XML file"},
    {"platform", LIST(platforms), T(VALIDATE), "P", NULL,
     .help =
         "shipped name, or SimGrid XML file of this machine; may be repeated to validate several"},
    {"algorithm", TEXT(algorithm), PLAN_KEYS | SOLVED | T(PLAN_LIST), "A", "auto",
     .help = "partitioning algorithm: auto, balanced, uniform, ... (all: --algorithm list)"},
    {"objective", WORD(objective), PLANS | SCORED, "O", "pipeline",
     .help = "objective to minimise: pipeline (the iteration), campaign (the days to "
             "--train-tokens), or that of a published tool (docs/reference/partitioners.md)",
     .word = settings_objective_word},

    /* ---- constraints on plans: kept by every algorithm that takes them, or refused
     * (plan_check_given(), plan_breaks()). 0 stands for "not given", so counts begin with 1.
     * Most of them are knobs, whose rows come from core/strategy/strategy.def. */
    {"pipeline-parallel", COUNT(pipeline), PLAN_KEYS, "N", NULL,
     .help = "pipeline-parallel ranks, each with --chunks stages (auto: searched)", .least = 1,
     .most = MOST},
    {"data-parallel", COUNT(data_parallel), PLAN_KEYS, "N", NULL,
     .help = "data-parallel size as Megatron counts it: --replicas is N x --context-parallel",
     .least = 1, .most = MOST},
    {"stages", COUNT(stages), PLAN_KEYS | T(PLAN_PIPPY) | T(PLAN_SCORE), "N", NULL,
     .help = "pipeline stages (auto: searched; else to fill all devices)", .least = 1,
     .most = MOST},
    {"split-at", TEXT(split_at), T(PLAN_CUT) | T(PLAN_IMPORT) | T(KEY_PLAN), "OP,OP", NULL,
     .help = "start a new stage (import: a module) at each of these ops of the model"},
    {"no-input-pipelining", FLAG(port.no_input_pipelining), T(PLAN_IMPORT) | T(KEY_PLAN), NULL,
     NULL,
     .help = "import of PipeDream: no warm-up, so one minibatch is in flight per replica of the "
             "first stage"},
    {"layers-per-stage", COUNT(layers_per_stage), T(PLAN_CUT) | T(KEY_PLAN), "N", NULL,
     .help = "start a new stage every N transformer layers; the last stage gets the rest (else "
             "layers / stages)",
     .least = 1, .most = MOST},
    {"chunks", COUNT(chunks), PLAN_KEYS, "N", NULL,
     .help = "stages per device for --schedule interleaved and breadth-first; 2 for zb-v, "
             "dualpipe-v, dualpipe (auto: searched; else 1)",
     .least = 1, .most = MOST},
#include "core/strategy/strategy.def"
    {"granularity", WORD(search.granularity), PLAN_KEYS, "layer|op", NULL,
     .help = "cut stages only between layers (ops that share a name prefix such as h3.), or "
             "between any two ops (auto: layer; else op)"},
    {"placement", WORD(search.placement), PLAN_KEYS, "NAME", NULL,
     .help = "order of devices: near (fills rack after rack), framework (as launchers number "
             "ranks), spread (over racks), optimised (auto: near, then improved by swapping nodes)",
     .word = device_placement_word},
    {"rank-order", WORD(search.rank_order), PLAN_KEYS, "tp-pp-dp|tp-dp-pp", NULL,
     .help = "devices side by side hold the stages of a replica (tp-pp-dp), or the replicas of a "
             "stage (tp-dp-pp) (auto: searched; else tp-pp-dp; --placement framework: tp-dp-pp)"},
    {"reserve", TEXT(reserve), SEARCHES | T(KEY_PLAN), "SIZE|SHARE", NULL,
     .help = "auto: memory to keep free on every device, such as 2GiB or 5% (default: the "
             "platform's framework_memory, else 5%)"},
    {"allow-oom", FLAG(allow_oom), SEARCHES, NULL, NULL,
     .help = "auto: if no plan fits into memory, accept the plan that comes closest"},
    {"wide", FLAG(wide), PLANS | T(PLAN_EXPLAIN), NULL, NULL,
     .help = "print full names of ops and devices; auto: also rank the plans with a breakdown of "
             "their time"},
    {"executable", FLAG(search.executable), PLAN_KEYS, NULL, NULL,
     .help = "auto: search only plans that foreline run can execute"},
    {"launchable", FLAG(search.launchable), PLAN_KEYS, NULL, NULL,
     .help = "auto: search only plans that plan export can write for --framework without a warning "
             "(default if --framework has a launcher; --no-launchable: all plans)",
     .negatable = true},
    {"microbatches", COUNT(microbatches), PLAN_KEYS | OBJECTIVES | T(PLAN_IMPORT), "N", NULL,
     .help = "microbatches per iteration, over all replicas (auto: searched; else 8)", .least = 1,
     .most = MOST},
    {"microbatch-size", COUNT(microbatch_size), PLAN_KEYS | OBJECTIVES | T(PLAN_IMPORT), "N", NULL,
     .help = "samples per microbatch (auto: searched; else 1)", .least = 1, .most = MOST},
    {"batch", COUNT(batch), PLAN_KEYS | T(PLAN_PIPER) | T(PLAN_HIDUP) | T(PLAN_SCORE), "N", NULL,
     .help = "global batch in samples (default: --microbatches x --microbatch-size, else auto: 8 "
             "per device, hidup: the model's); piper: in microbatches",
     .least = 1, .most = MOST},
    {"schedule", WORD(schedule), PLAN_KEYS | OBJECTIVES | T(PLAN_IMPORT), "NAME", NULL,
     .help = "pipeline schedule (auto: searched; else 1f1b)", .word = schedule_name},
    {"optimizer", TEXT(optimizer), PLAN_KEYS | SOLVED | T(VALIDATE) | T(PLAN_IMPORT),
     "adam|sgd[:KEY=X,...]", "adam",
     .help = "optimizer and its parameters (docs/reference/numerics.md)", .word = optimizer_name,
     .check = optimizer_check},
    {"framework", TEXT(framework),
     PLAN_KEYS | T(PLAN_IMPORT) | SIMULATIONS | T(KEY_POINT) | T(LAB_SCOREBOARD) |
         T(BENCH_TRADEOFF) | T(COMPARE_PLANS),
     "NAME[:KEY=X,...]", NULL,
     .help = "training framework whose kernels and overhead are predicted (simulate: default is "
             "the plan's; plan: compiled on GPUs of the catalogue, but foreline with measured op "
             "times or --executable)",
     .word = framework_name},
    {"finalists", COUNT(search.finalists), PLAN_KEYS, "N", "12",
     .help = "auto: number of best plans to simulate with SimGrid in each round", .least = 1,
     .most = MOST},
    {"top", COUNT(search.top), SEARCHES, "N", "1",
     .help =
         "auto: write the N best plans of different designs: -o plan.json, then plan.2.json, ...",
     .least = 1, .most = 9},
    {"all-rows", FLAG(search.all_rows), SEARCHES, NULL, NULL,
     .help =
         "auto: write the plan of each row of the ranking: -o plan.json, then plan.2.json, ..."},
    {"candidates", TEXT(search.candidates), SEARCHES, "FILE", NULL,
     .help = "auto: write the scored cuts of the model graph to FILE, one per line"},
    {"time-limit", SECONDS(search.time_limit_s), PLAN_KEYS | SOLVED, "TIME", NULL,
     .help = "stop the search after TIME; 0: the algorithm's own limit (auto: limits its work "
             "instead)"},
    {"seed", COUNT(seed), PLANS | SOLVED | T(KEY_POINT), "N", "1",
     .help = "random seed of parameters and data, of the first --jitter sample, and of the --paths "
             "ecmp hash"},
    {"seed", COUNT(seed), VALIDATE_ON | T(LAB_SCOREBOARD), "N", "1",
     .help =
         "random seed of parameters, data and the order of runs; of the runs that --layers picks"},

/* ---- published objectives */
#define PAPERS_OPTION(type, member, name, kind, ...) {name, kind(papers.member), __VA_ARGS__},
#define PAPERS_NAME(field, name, kind, ...)          {name, kind(field), __VA_ARGS__},
#include "model/papers_options.def"
    {"devices", COUNT(devices), T(KEY_POINT), "N", NULL,
     .help = "use only the first N devices of the platform", .least = 1},
    {"explain", TEXT(search.explain), T(PLAN_EXPLAIN), "PLAN", NULL,
     .help = "explain where the time of this plan file goes, and what would make it faster"},

    /* ---- plans from and to files of other frameworks */
    {"to", WORD(port.to), T(PLAN_EXPORT), "NAME", NULL,
     .help = "export: framework to write launch arguments for", .word = settings_export_word,
     .alias = settings_export_alias},
    {"set", LIST(port.sets), T(PLAN_IMPORT), "NAME=VALUE", NULL,
     .help =
         "import: set a variable, a placeholder or a key of the file to VALUE; may be repeated"},
    {"gpus", COUNT(devices), T(PLAN_IMPORT), "N", NULL,
     .help = "import: number of GPUs, overriding the file", .least = 1},

    /* ---- simulations, and keys of experiments about them */
    {"engine", WORD(sim.engine), PREDICT_ALL, "NAME", "simgrid",
     .help = "analytic: fast; simgrid: independent flow-level simulator; ns3: packet-level, for "
             "small cases",
     .word = settings_simulator_word},
    {"engine", WORD(sim.engine), T(BENCH) | T(BENCH_ALGORITHMS) | T(BENCH_TRADEOFF), "NAME",
     "analytic",
     .help = "analytic: fast; simgrid: independent flow-level simulator; ns3: packet-level, for "
             "small cases",
     .word = settings_simulator_word},
    {"engines", TEXT(sim.engines), T(BENCH_NETWORK), "NAME,...", "analytic,ns3",
     .help = "simulation engines, and netns for the emulated network; ratios are to the first"},
    {"engine", WORD(sim.engine), T(KEY_POINT), "NAME", "analytic",
     .help = "engine that predicts the plan or runs it", .word = settings_engine_word},
    {"network-model", WORD(sim.network_model), PREDICT_ANY | T(BENCH) | T(BENCH_NETWORK), "MODEL",
     "cm02",
     .help = "network model of --engine simgrid: cm02 (no corrections), lv08 (TCP), smpi (MPI over "
             "TCP) (docs/reference/networks.md)",
     .word = network_model_word},
    {"ns3", TEXT(sim.ns3), PREDICT_ANY | T(BENCH) | T(BENCH_NETWORK), "NAME=VALUE,...", NULL,
     .help = "settings of --engine ns3: tcp=reno, window=1GiB, mtu=9000, queue=PACKETS, rto=200ms "
             "(docs/reference/networks.md)",
     .check = ns3_settings_check},
    {"collective", WORD(sim.collective), PREDICT_ALL | T(KEY_POINT), "NAME", "auto",
     .help = "collective algorithm; auto: what NCCL would choose; fastest: the fastest in the "
             "simulation; NAME: wherever it applies",
     .word = collective_name},
    {"algorithm-file", TEXT(sim.algorithm_file), SIMULATIONS | T(BENCH_ALGORITHMS), "FILE", NULL,
     .help = "algorithm file of MSCCL (XML), SCCL or TACCL (JSON), used for collectives of its "
             "type and number of ranks"},
    {"nccl-protocols", FLAG(sim.nccl_protocols), PREDICT_ALL | T(KEY_POINT), NULL, NULL,
     .help = "use latencies and efficiencies of NCCL's protocols (LL, LL128, Simple) instead of "
             "the platform's"},
    {"paths", WORD(sim.paths),
     PREDICT_ALL | PLANS | T(BENCH) | T(BENCH_NETWORK) | T(BENCH_TRADEOFF) | T(KEY_POINT), "POLICY",
     NULL,
     .help = "routing policy: ideal, ecmp (hashed by --seed), spray, adaptive, valiant, ugal "
             "(default: the platform's; docs/reference/networks.md)",
     .word = paths_word},
    {"queue-pairs", COUNT(sim.queue_pairs),
     PREDICT_ALL | PLANS | T(BENCH) | T(BENCH_NETWORK) | T(BENCH_TRADEOFF) | T(KEY_POINT), "N", "1",
     .help = "queue pairs per connection; its bytes are split over their paths", .least = 1,
     .most = 64},
    {"seeds", COUNT(sim.seeds), SIMULATIONS, "N", "1",
     .help = "with hashed --paths: simulate N hash seeds from --seed on and report the median "
             "iteration time",
     .least = 1, .most = 10000},
    {"seed", COUNT(seed), T(BENCH) | T(BENCH_NETWORK) | T(BENCH_TRADEOFF), "N", "0",
     .help = "random seed of hashed --paths; network: also of its short flows and of ns-3"},
    {"jitter", SHARE(sim.jitter), T(PLAN_AUTO), "SHARE", NULL,
     .help = "auto: rank the finalists by simulations with this jitter of compute times (as "
             "simulate --jitter)"},
    {"samples", COUNT(search.samples), T(PLAN_AUTO) | T(PLAN_HIDUP), "N", "16",
     .help = "number of --jitter samples, with seeds from --seed on; hidup: number of searches "
             "with --noise",
     .least = 1, .most = 1000},
    {"rank-by", WORD(search.rank_by), T(PLAN_AUTO), "mean|worst|quiet", "mean",
     .help = "with --jitter, rank plans by their mean or worst sample, or by the iteration without "
             "jitter"},
    {"jitter", SHARE(sim.jitter), PREDICT_ANY | T(KEY_POINT), "SHARE", NULL,
     .help = "standard deviation of compute times, as a share of each, such as 5%"},
    {"equal", WORD(sim.equal), T(KEY_POINT), "cost|bisection", NULL,
     .help =
         "quantity that platforms with platform.KEY 'equal' share (docs/reference/topologies.md)"},
    {"noise", SHARE(sim.noise), T(KEY_POINT), "SHARE", NULL,
     .help = "make plans with model and platform figures perturbed by up to SHARE"},
    {"slow", TEXT(sim.slow), PREDICT_ANY | T(EMULATE_NETNS) | T(KEY_POINT), "NAME=X,...", NULL,
     .help = "slow down by a factor X: compute of a device (r0n0g1), rank (3) or stage (stage:1), "
             "or a link from time T on (link:NAME=X@T)"},
    {"fail", TEXT(sim.fail), SIMULATE_ANY | T(EMULATE_NETNS), "LINK@T,...", NULL,
     .help = "fail a link of the platform at time T (emulate: counted from the start of the "
             "measured iteration)"},
    {"kill", TEXT(sim.kill), SIMULATE_ANY | T(EMULATE_NETNS), "RANK@T,...", NULL,
     .help = "kill a rank or device of the plan at time T"},
    {"engine", WORD(sim.engine), CAMPAIGNS, "NAME", "analytic",
     .help = "engine that predicts an iteration", .word = settings_simulator_word},
    {"seed", COUNT(seed), CAMPAIGNS, "N", "1", .help = "random seed of the failures"},
    {"seed", COUNT(seed), PREDICT_ALL, "N", "0",
     .help = "random seed of --jitter, hashed --paths and --place search; same seed, same result"},
    {"fail-on-oom", FLAG(sim.fail_on_oom), SIMULATE_ANY, NULL, NULL,
     .help = "exit with status 1 when a rank needs more memory than its device has"},
    {"no-fold", FLAG(sim.no_fold), SIMULATIONS, NULL, NULL,
     .help = "simulate every microbatch of every rank instead of extrapolating repeated ones"},
    {"export", TEXT(sim.export), SIMULATE_ANY | T(BENCH), "FORMAT=PATH", NULL,
     .help = "also write the simulated ops: goal=FILE for LogGOPSim, atlahs=FILE, chakra=DIR "
             "(Chakra traces)"},
    {"ranks", COUNT(sim.rank_rows), T(SIMULATE) | T(SIMULATE_CAPTURE), "N", "4",
     .help = "rows of the per-rank tables; 0: omit them"},
    {"links", COUNT(sim.link_rows), T(SIMULATE) | T(SIMULATE_CAPTURE) | JOBS, "N", "5",
     .help = "rows of the link table; 0: omit it"},

    /* ---- trainings of weeks */
    {"failures", TEXT(campaign.failures), SITES, "WHAT", "llama3",
     .help = "published failure rates, with overrides as in llama3:gpu=50000h,repair=12h",
     .word = settings_failures_word, .check = failures_check},
    {"storage", TEXT(campaign.storage), SITES, "WHERE", "shared",
     .help = "checkpoint storage: shared:rate=2TBps,node=25GBps, disk:node=5GBps, peer, or host, "
             "hosts of the platform",
     .check = storage_check},
    {"checkpoint", WORD(campaign.checkpoint), TRAININGS, "beside|blocking", "beside",
     .help = "beside: asynchronous, training stops only for the copy to host memory; blocking: it "
             "waits for the write"},
    {"every", SECONDS(campaign.every_s), TRAININGS, "TIME", NULL,
     .help = "checkpoint interval, in training time (default: the best)"},
    {"checkpoint-bytes", BYTES(campaign.bytes), TRAININGS, "BYTES", NULL,
     .help = "size of a checkpoint (default: parameters and optimizer state, once)"},
    {"checkpoint-stop", SECONDS(campaign.stop_s), TRAININGS, "TIME", "2s",
     .help = "pause per checkpoint besides copying bytes: planning, metadata, barrier"},
    {"interference", SHARE(campaign.interference), TRAININGS, "SHARE", "2%",
     .help = "slowdown of iterations while a checkpoint is written beside them"},
    {"recovery", WORD(campaign.recovery), TRAININGS, "POLICY", "spares",
     .help = "how training continues after a failure", .word = settings_recovery_word},
    {"spares", COUNT(campaign.spares), SITES, "N", NULL,
     .help = "spare nodes (default: the number that minimises days x nodes)", .most = 100000},
    {"swap", SECONDS(campaign.swap_s), TRAININGS, "TIME", "1min",
     .help = "with --recovery hot: time until a spare node has joined"},
    {"iteration-time", SECONDS(campaign.iteration_s), CAMPAIGNS, "TIME", NULL,
     .help = "use this measured iteration time instead of the prediction"},
    {"over", WORD(campaign.over), T(CAMPAIGN_OVER), "interval|spares|size", NULL,
     .help = "print a table over other checkpoint intervals, numbers of spares, or (size) numbers "
             "of devices at the same iteration time"},

    /* ---- captures of training scripts (docs/how-to/capture.md) */
    {"platform", TEXT(platform), SIMULATE_ANY, "P", NULL,
     .help = "platform instead of the plan's, with the same device names; of a capture: its device "
             "N runs rank N"},
    {"model", TEXT(model), SIMULATIONS, "M", NULL,
     .help = "model instead of the plan's, with the same op names, such as longer sequences"},
    {"batch", COUNT(batch), SIMULATIONS, "N", NULL, .help = "global batch instead of the plan's",
     .least = 1, .most = MOST},
    {"operators", TEXT(capture.operators), T(SIMULATE_CAPTURE) | T(KEY_POINT),
     "trace|model|dry|FILE", "trace",
     .help =
         "operator times of a capture: of the trace that it was imported from, else from shapes "
         "and bytes (model), from capture --dry, or from a file of capture --profile"},
    {"serial", FLAG(capture.serial), T(SIMULATE_CAPTURE) | T(KEY_POINT), NULL, NULL,
     .help = "of a capture: collectives do not overlap compute, as with gloo on one core"},
    {"capture", TEXT(capture.folder), T(KEY_POINT), "DIR", NULL,
     .help = "capture to use instead of a model and a plan"},
    {"script", TEXT(capture.script), T(KEY_CAPTURE), "WORDS", NULL,
     .help = "script to capture, such as python3 train.py --batch 8; kept in captures/"},
    {"from", TEXT(capture.from), T(CAPTURE), "PATH", NULL,
     .help = "import traces of all ranks (a file each, or folders) instead of running a script"},
    {"world-size", COUNT(capture.world_size), CAPTURES, "N", NULL,
     .help = "WORLD_SIZE that the script sees", .least = 1, .most = 65536},
    {"ranks", TEXT(capture.ranks), CAPTURES, "N,N", NULL,
     .help = "capture only these ranks; others copy the nearest lower one (default: all up to 8, "
             "else enough to tell which are alike)"},
    {"ranks", TEXT(capture.ranks), T(VALIDATE_SCRIPT), "N,N", NULL,
     .help = "validate a PyTorch script, given behind --, on N ranks of this machine's cores"},
    {"steps", COUNT(capture.steps), CAPTURES, "N", "4",
     .help = "run the script for N training steps, then on until two consecutive steps are equal",
     .least = 3, .most = 24},
    {"node", COUNT(capture.node), CAPTURES, "N", NULL,
     .help = "ranks per node, LOCAL_WORLD_SIZE (default: 8, or all if fewer)", .least = 1,
     .most = 65536},
    {"device", WORD(capture.device), CAPTURES, "cpu|cuda", "cpu",
     .help = "cuda: the script sees fake GPUs, whose operators are captured on the CPU"},
    {"real", FLAG(capture.real), CAPTURES, NULL, NULL,
     .help = "compute real tensor values, for scripts that depend on them (needs their memory and "
             "time)"},
    {"dry", FLAG(capture.dry), CAPTURES, NULL, NULL,
     .help =
         "also run one rank of each class alone and record the CPU time between communications"},
    {"profile", FLAG(capture.profile), T(CAPTURE) | T(VALIDATE_SCRIPT), NULL, NULL,
     .help = "also measure every distinct operator on this machine, into DIR/operators.json"},
    {"timeout", SECONDS(capture.patience_s), T(CAPTURE) | T(VALIDATE_SCRIPT), "TIME", "600s",
     .help = "time that capturing a rank, or a real run of a script, may take"},

    /* ---- several jobs on one platform */
    {"start", LIST(jobs.starts), JOBS, "JOB=TIME", NULL,
     .help = "start time of a job, named like its plan file without folder and .json (default: "
             "0s); may be repeated"},
    {"iterations", COUNT(jobs.iterations), JOBS, "N", "10",
     .help = "iterations of each job to measure, all of them while all jobs run", .least = 1,
     .most = 100000},
    {"place", WORD(jobs.place), JOBS, "NAME", NULL,
     .help = "place the jobs on other devices than in their plans: packed, spread (round-robin), "
             "search (swaps devices for the least slowdown)",
     .word = jobs_place_word},
    {"repeats", COUNT(run.repeats), T(EMULATE_JOBS), "N", "5",
     .help = "number of runs of each job alone and of all jobs together", .least = 1, .most = 1000},
    {"background", TEXT(jobs.background), JOBS, "FILE", NULL,
     .help = "background traffic: a table with columns from, to, rate, or a device matrix in bytes "
             "per second"},

    /* ---- runs, and keys of `run --config`. Numerics mean nothing to paced compute. */
    {"config", TEXT(run.config), RUNS, "FILE", NULL,
     .help = "YAML file that describes the run, instead of a plan; results and logs go to a folder "
             "(docs/reference/run.md)"},
    {"dry-run", FLAG(run.dry_run), RUNS, NULL, NULL,
     .help = "with --config: print what would be done, without running"},
    {"plan", TEXT(plan_file), KEYS, "PLAN", NULL, .help = "plan file to use instead of planning"},
    {"plan", TEXT(plan_file), T(MEASUREMENT), "PLAN", NULL,
     .help = "plan file of the recorded run, which foreline compare needs"},
    {"import", TEXT(import_file), T(KEY_RUN), "FILE", NULL,
     .help =
         "configuration of another framework to make the plan from, as foreline plan import does"},
    {"folder", TEXT(run.folder), T(KEY_RUN), "DIR", ".",
     .help = "directory in which to create the run's folder"},
    {"log", TEXT(launch.log), RUN_KEYS, "PREFIX", NULL,
     .help = "write the output of worker R to PREFIX.R (default: to stderr)"},
    {"compute", WORD(run.compute), RUN_KEYS | VALIDATE_ON | T(KEY_POINT), "real|paced", NULL,
     .help = "real: compute tensors; paced: ops only take their predicted time, messages are real "
             "(default: real if the device supports all ops)"},
    {"device", WORD(launch.device), SEARCHES, "cpu|cuda", "cpu",
     .help = "with --executable: device that foreline run will compute on"},
    {"device", WORD(launch.device), RUN_KEYS | VALIDATE_ON | T(KEY_POINT), "cpu|cuda", "cpu",
     .help = "device that computes; cuda needs foreline-worker-cuda (docs/reference/cuda.md)"},
    {"cuda-graphs", FLAG(launch.cuda_graphs), REAL_KEYS, NULL, NULL,
     .help = "with --device cuda: launch each pass of a microbatch as a CUDA graph (for which "
             "plans: docs/reference/cuda.md)"},
    {"cudnn", FLAG(launch.cudnn), REAL_KEYS | T(CALIBRATE_CUDA) | T(MODEL_PROFILE), NULL, NULL,
     .help =
         "with --device cuda: attention in bf16 by cuDNN where that can (docs/reference/cuda.md)"},
    {"unbound", FLAG(launch.unbound), REAL_KEYS, NULL, NULL,
     .help =
         "ranks use whichever core is free; else each CPU rank that is started here has its own, "
         "where there are as many"},
    {"transport", WORD(launch.transport), RUN_KEYS, "tcp|mpi|local|nccl", NULL,
     .help = "transport of messages; local: ranks are threads of one process; nccl needs --device "
             "cuda (default: tcp; nccl with --device cuda)"},
    {"collective", WORD(launch.collective), RUN_KEYS | EMULATIONS | T(EMULATE_JOBS), "NAME", "auto",
     .help = "collective algorithm, used wherever real runs support it, ring elsewhere; auto: "
             "ring, or NCCL's own choice over nccl",
     .word = settings_real_collective},
    {"hosts", TEXT(launch.hosts), RUN_KEYS, "FILE|HOST:N,...", NULL,
     .help = "hosts in rank order: an mpirun hostfile or a list; mpirun or ssh starts the workers "
             "(default: this machine only)"},
    {"launcher", TEXT(launch.launcher), RUN_KEYS, "WORDS", NULL,
     .help = "command that starts the workers, such as \"srun -n 4\"; env: torchrun, srun or "
             "mpirun starts several foreline processes and sets RANK, WORLD_SIZE, MASTER_ADDR, "
             "MASTER_PORT; none: start them by hand, as a line on stderr says"},
    {"local-ranks", COUNT(launch.local_ranks), RUNS, "N", NULL,
     .help = "with --launcher env: ranks of this process, from RANK on (default: 1)", .least = 1,
     .most = 1 << 20},
    {"address", TEXT(launch.address), RUN_KEYS, "A.B.C.D|NAME", NULL,
     .help = "address at which workers on other machines reach this one (default: all workers are "
             "local)"},
    {"steps", COUNT(launch.steps), RUN_KEYS | VALIDATE_ON | T(VALIDATE_SCRIPT) | T(KEY_POINT), "N",
     "10", .help = "training steps to measure", .least = 1},
    {"warmup", COUNT(launch.warmup), RUN_KEYS | VALIDATE_ON | T(VALIDATE_SCRIPT) | T(KEY_POINT),
     "N", "2", .help = "training steps before the measured ones"},
    {"learning-rate", REAL(launch.learning_rate), REAL_KEYS, "X", "0.001",
     .help = "learning rate of the optimizer", .most = 1e9},
    {"learning-rate-policy", TEXT(launch.learning_rate_policy), REAL_KEYS, "NAME[:KEY=X,...]", NULL,
     .help = "learning-rate schedule over the steps", .word = learning_rate_name,
     .check = learning_rate_check},
    {"dtype", WORD(run.dtype), REAL_KEYS, "fp32|bf16|fp16", NULL,
     .help = "data type of activations and messages (default: the model's)"},
    {"loss-every", COUNT(launch.progress_every), REAL_KEYS, "N", NULL,
     .help =
         "print time and loss of every N-th step to stderr (default: every step, on a terminal)"},
    {"batch-tokens", TEXT(launch.batch_tokens), REAL_KEYS, "FILE", NULL,
     .help = "write tokens and targets of all steps, for other programs (docs/reference/run.md)"},
    {"text", TEXT(launch.text), REAL_KEYS, "FILE", NULL,
     .help = "training text (default: the one shipped)"},
    {"timeout", SECONDS(launch.timeout_s), RUN_KEYS, "TIME", NULL,
     .help = "treat a worker that is silent for TIME as hung (default: 8 s or 20 predicted "
             "iterations, whichever is longer)"},
    {"limit", TEXT(limits), WAITS, "NAME=VALUE,...", NULL,
     .help = "override a timeout or an input-size limit (docs/limits.md)", .word = limit_name,
     .check = limits_check, .hidden = true},
    {"timeout", SECONDS(launch.timeout_s), VALIDATE_ON | T(VALIDATE_EXPERIMENT), "TIME", "30s",
     .help = "treat a worker that is silent for TIME as hung"},
    {"checkpoint", TEXT(launch.checkpoint), REAL_KEYS, "DIRECTORY", NULL,
     .help = "save a checkpoint of all ranks there after the last step"},
    {"checkpoint-every", COUNT(launch.checkpoint_every), REAL_KEYS, "N", NULL,
     .help = "also save a checkpoint every N training steps (0: never)"},
    {"resume", TEXT(launch.resume), REAL_KEYS, "DIRECTORY", NULL,
     .help = "resume from the newest checkpoint there"},
    {"inject-failures", TEXT(run.inject_failures), T(RUN_REAL), "SEED,TIME", NULL,
     .help = "kill ranks at random times, one every TIME on average, resume from --checkpoint, and "
             "compare with the prediction; after a colon hang=SHARE, slow=TIME, slower=FACTOR, "
             "slow-found=TIME: some hang, and ranks become slow"},
    {"forward-only", FLAG(run.forward_only), SIMULATIONS | REAL_KEYS | T(COMPARE_PLANS), NULL, NULL,
     .help = "inference: forward passes only, without gradients and optimizer (run: prints mean "
             "loss, top-1 and top-5 accuracy, such as validation with --resume and --text)"},

    /* ---- emulation: four ways of calling one command, see takers.def */
    {"engine", WORD(sim.engine), EMULATIONS | T(EMULATE_JOBS), "smpi|netns", "smpi",
     .help = "smpi: on SimGrid's simulated MPI; netns: over real TCP in network namespaces"},
    {"platform", TEXT(platform), T(EMULATE_COMMAND) | T(EMULATE_SHELL) | T(EMULATE_CHECK), "P",
     NULL,
     .help = "platform whose network to emulate for a command or shell: shipped name, or SimGrid "
             "XML file"},
    {"shell", TEXT(emulation.shell), T(EMULATE_SHELL) | T(EMULATE_JOIN), "HOST", NULL,
     .help = "open a shell on the node of this device or rank, in a new network (--platform) or in "
             "a running one"},
    {"pid", COUNT(emulation.pid), T(EMULATE_JOIN), "N", NULL,
     .help = "with --shell: process id of the running emulation to join; 0: the only one",
     .most = INT32_MAX},
    {"ranks", COUNT(run.ranks), T(EMULATE_COMMAND) | T(EMULATE_SHELL) | T(EMULATE_CHECK), "N", NULL,
     .help = "ranks of the command; 0: one per device of the platform"},
    {"dilate", TEXT(emulation.dilate),
     T(EMULATE_NETNS) | T(EMULATE_JOBS) | T(EMULATE_COMMAND) | T(EMULATE_SHELL) | T(EMULATE_CHECK) |
         T(BENCH_NETWORK),
     "F|auto", "1",
     .help = "netns: stretch emulated time by a factor F so that this machine keeps up; results "
             "are scaled back; auto: the smallest such F"},
    {"compute", WORD(run.compute), EMULATIONS, "paced|real", "paced",
     .help = "netns: ops sleep for their predicted time (paced), or compute on this CPU (real)"},
    {"steps", COUNT(launch.steps), T(EMULATE_NETNS), "N", "5",
     .help = "netns: iterations to measure", .least = 1},
    {"profile", WORD(measure.profile), T(MEASUREMENT_PROFILE), "ranges|ops", NULL,
     .help = "write a model with the run's layer times instead: from marked ranges "
             "(record_function, NVTX, modules), or from host ops in order"},
    {"model", TEXT(model), T(MEASUREMENT_PROFILE), "M", NULL,
     .help = "model whose op names match the ranges (default: a chain of the run's layers)"},
    {"microbatches", COUNT(microbatches), T(MEASUREMENT_PROFILE), "N", "1",
     .help = "microbatches per step of the run", .least = 1, .most = MOST},
    {"microbatch-size", COUNT(microbatch_size), T(MEASUREMENT_PROFILE), "N", "1",
     .help = "samples per microbatch of the run", .least = 1, .most = MOST},
    {"tensor-parallel", COUNT(measure.shards), T(MEASUREMENT_PROFILE), "N", "1",
     .help = "tensor-parallel devices that shared each op of the run", .least = 1, .most = 65536},
    {"device", TEXT(measure.device), T(MEASUREMENT_PROFILE), "NAME", NULL,
     .help = "device type of the run (default: any)"},
    {"warmup", COUNT(launch.warmup), T(MEASUREMENT) | T(MEASUREMENT_PROFILE), "N", "0",
     .help = "steps to skip at the beginning"},
    {"warmup", COUNT(launch.warmup), T(EMULATE_NETNS), "N", "1",
     .help = "netns: iterations before the measured ones"},
    {"check", FLAG(emulation.check), T(EMULATE_CHECK), NULL, NULL,
     .help = "check what this machine can emulate; with --platform, how exactly it meets each link "
             "rate"},

/* ---- measuring this machine: calibrate, model profile, bench */
#include "study/settings_measuring.def"

    /* ---- validation: lists of constraints, and what runs the plans */
    {"stages", TEXT(grid.stage_list), T(VALIDATE), "N,N", NULL,
     .help = "numbers of pipeline stages (default: one per device)"},
    {"replicas", TEXT(grid.replica_list), T(VALIDATE), "N,N", NULL,
     .help = "numbers of data-parallel replicas (default: 1)"},
    {"tensor-parallel", TEXT(grid.tensor_list), T(VALIDATE), "N,N", NULL,
     .help = "tensor-parallel degrees (default: 1)"},
    {"chunks", TEXT(grid.chunk_list), T(VALIDATE), "N,N", NULL,
     .help = "numbers of stages per device (default: 1)"},
    {"schedules", TEXT(grid.schedule_list), T(VALIDATE), "NAME,NAME", NULL,
     .help = "pipeline schedules (default: 1f1b)"},
    {"microbatches", TEXT(grid.microbatch_list), T(VALIDATE), "N,N", NULL,
     .help = "numbers of microbatches per iteration (default: 8)"},
    {"microbatch-size", TEXT(grid.size_list), T(VALIDATE), "N,N", NULL,
     .help = "microbatch sizes in samples (default: 1)"},
    {"algorithm", TEXT(grid.algorithm_list), T(VALIDATE), "A,A", "balanced",
     .help = "partitioning algorithms (see foreline plan --algorithm list)"},
    {"measurements", FLAG(fits.measurements), T(VALIDATE_MEASUREMENTS), NULL, NULL,
     .help = "the operands are measurement files; predict the plans that they name"},
    {"cross-validate", FLAG(fits.cross_validate), T(LAB_SCOREBOARD), NULL, NULL,
     .help = "also score constants fitted without each data set, and without each GPU generation"},
    {"layers", COUNT(fits.layers), T(LAB_SCOREBOARD), "N", "0",
     .help = "fit layer times to N random runs of each data set, and predict the other runs"},
    {"plans", TEXT(fits.plans), T(LAB_SCOREBOARD), "DIR", NULL,
     .help =
         "write a plan file of each run with a measured time, and runs.tsv for calibrate --from"},
    {"fit", FLAG(fits.fit_constants), T(LAB_FIT), NULL, NULL,
     .help = "print only the table of constants fitted to the published runs"},
    {"engine", WORD(sim.engine), VALIDATE_ON, "NAME", NULL,
     .help = "engine that runs the plans: local workers, network namespaces, or SimGrid's MPI "
             "(default: tcp; nccl with --device cuda)",
     .word = settings_runner_word},
    {"repeats", COUNT(run.repeats), VALIDATE_ON, "N", "3", .help = "number of runs of each plan",
     .least = 1},
    {"fail-above", SHARE(fits.fail_above), VALIDATIONS | T(VALIDATE_SCRIPT), "SHARE", NULL,
     .help = "exit with status 1 when the worst error (of plans: SimGrid's) exceeds SHARE, such as "
             "10%"},

    /* ---- sweeps, pictures, pages: what is done with results, no part of what they depend on */
    {"list", FLAG(grid.list), T(SWEEP_LIST), NULL, NULL,
     .help = "print the points without computing them"},
    {"export", WORD(sim.export), T(SWEEP), "csv|tsv", NULL,
     .help = "print every point instead of the best ones"},
    {"workers", COUNT(grid.workers), T(SWEEP), "N", NULL,
     .help =
         "worker processes (0: one per core; only one under mpirun or srun, or if plans are run)"},
    {"workers", COUNT(grid.workers), SEARCHES, "N", NULL,
     .help =
         "processes that simulate finalists (0: one per core); the result does not depend on N"},
    {"shard", TEXT(grid.shard), T(SWEEP), "I/N", NULL,
     .help =
         "compute only every N-th point from the I-th on (1/N to N/N), into a separate database"},
    {"retry", FLAG(grid.retry), T(SWEEP), NULL, NULL, .help = "retry failed points"},
    {"add", FLAG(grid.add), T(SWEEP), NULL, NULL,
     .help = "add this experiment to a database that holds other experiments"},
    {"x", TEXT(picture.x), PLOTS, "COLUMN", NULL,
     .help = "table column of the x axis (default: the first that varies and is no result); "
             "required by heatmap"},
    {"y", TEXT(picture.y), PLOTS, "COLUMN", NULL,
     .help = "column of the y axis (default: samples_per_s, else tokens_per_s, else iteration_s); "
             "required by heatmap"},
    {"by", TEXT(picture.by), T(PLOT_LINES), "COLUMN[,...]", NULL,
     .help = "column that makes one line per value, or several columns (default: plan, algorithm, "
             "schedule or engine, the first with several rows per value)"},
    {"value", TEXT(picture.value), T(PLOT_HEATMAP), "COLUMN", NULL,
     .help = "heatmap: column shown as colour"},
    {"where", TEXT(picture.where), PLOTS, "COLUMN=VALUE[,...]", NULL,
     .help = "keep only the table rows with these values (a value with a comma in double quotes)"},
    {"facet", TEXT(picture.look.facet), T(PLOT_LINES), "COLUMN[,...]", NULL,
     .help = "draw a small figure for each value of a column, on common axes"},
    {"order", TEXT(picture.look.order), PLOTS | T(PLOT_FILES), "value|NAME,...", NULL,
     .help = "order of lines and bars: the best first, or by name"},
    {"error-bars", TEXT(picture.look.errors), T(PLOT_LINES) | T(PLOT_FILES),
     "none|range|iqr|p5-p95|ci", NULL,
     .help = "what error bars of repeats show; ci: 95 % confidence interval of the median "
             "(default: range; bars: none)"},
    {"style", TEXT(picture.look.style), DRAWN, "paper|slide|web", NULL,
     .help = "size of figure and letters: a column of 8.5 cm, a slide of 25.4 cm, a page of 720 "
             "pixels (default: 480 pixels)"},
    {"font", TEXT(picture.look.font), DRAWN, "NAME[:SIZE]", NULL,
     .help = "font family, and size of letters in points, such as Times:9"},
    {"label", LIST(picture.look.labels), PICTURES, "OLD=NEW", NULL,
     .help = "show NEW for a line, category or column named OLD; may be repeated"},
    {"legend", TEXT(picture.look.legend), PICTURES, "top|bottom|right|none", NULL,
     .help = "where the legend stands (default: top)"},
    {"note", TEXT(picture.look.note), PICTURES, "below|none", NULL,
     .help = "none: leave out the grey note below the figure; put it into the caption"},
    {"title", TEXT(picture.look.title), DRAWN, "TEXT", NULL, .help = "title above the figure"},
    {"xlabel", TEXT(picture.look.xlabel), PICTURES, "TEXT", NULL, .help = "label of the x axis"},
    {"ylabel", TEXT(picture.look.ylabel), PICTURES, "TEXT", NULL, .help = "label of the y axis"},
    {"size", TEXT(picture.look.size), PICTURES, "WIDTHxHEIGHT", NULL,
     .help = "size in pixels, or as 8.5x6cm (default: as wide as --style, as high as needed)"},
    {"log", TEXT(picture.look.log), PICTURES, "x|y|xy", NULL, .help = "logarithmic axes"},
    {"from", SECONDS(picture.window.from_s), T(PLOT_TRACES), "TIME", NULL,
     .help = "timeline: first time to show"},
    {"to", SECONDS(picture.window.to_s), T(PLOT_TRACES), "TIME", NULL,
     .help = "timeline: last time to show (default: end of the last op)"},
    {"ranks", TEXT(picture.window.ranks), T(PLOT_TRACES), "N,N-N", NULL,
     .help = "timeline: ranks and ranges of ranks to show (default: all)"},
    {"port", COUNT(explore.port), T(EXPLORE), "N", "0",
     .help = "port of 127.0.0.1 to listen on; 0: any that is free", .most = 65535},
    {"no-browser", FLAG(explore.no_browser), T(EXPLORE), NULL, NULL,
     .help = "print the address, but open no browser"},
    {"tokens", REAL(train_tokens), T(REPORT), "N", NULL,
     .help = "tokens of the whole training, such as 15T: the page says days, and money by --price",
     .least = 1},
    {"price", REAL(price), T(REPORT), "PRICE", NULL,
     .help = "price of a GPU for an hour, in any currency", .least = 0},
    {"question", TEXT(question), T(REPORT), "TEXT", NULL,
     .help = "question that the page answers, shown as its title"},

    /* ---- outputs, of all commands: the same fields with other help */
    {"output", TEXT(output), PLANS | SOLVED | T(PLAN_IMPORT) | T(PLAN_EXPORT), "FILE", NULL,
     .help = "write the plan (export: the arguments) to FILE (also -o)"},
    {"output", TEXT(output),
     SIMULATE_ANY | JOBS | RUN_KEYS | EMULATIONS | T(MEASUREMENT) | T(MEASUREMENT_PROFILE), "FILE",
     NULL, .help = "write the measurement as JSON (also -o); measurement --profile: the model"},
    {"output", TEXT(output), CALIBRATIONS | T(LAB_KERNELS) | T(CALIBRATE_FROM), "FILE", NULL,
     .help = "write the platform as SimGrid XML (also -o)"},
    {"output", TEXT(output), T(MODEL_IMPORT) | T(MODEL_PROFILE), "FILE", NULL,
     .help = "import, profile: write the model to FILE ('-': stdout)"},
    {"output", TEXT(output),
     T(TOPOLOGY_DRAW) | T(TOPOLOGY_GENERATE) | T(TOPOLOGY_MATCH) | IMPORTS | T(TOPOLOGY_CURVES),
     "FILE", NULL,
     .help = "generate, import, discover: write the platform to FILE (also -o); draw: figure as "
             ".svg, .png or .pdf; match: the plan"},
    {"output", TEXT(output), T(CAPTURE), "DIR", "capture",
     .help = "write the capture to this folder (also -o)"},
    {"output", TEXT(output), VALIDATIONS | T(VALIDATE_SCRIPT), "DIR", NULL,
     .help = "write all results to this folder (also -o)"},
    {"output", TEXT(output), T(SWEEP), "FILE", NULL,
     .help =
         "database to write (also -o; default: the experiment's name with .db, in this folder)"},
    {"output", TEXT(output), PICTURES, "FILE", NULL,
     .help = "figure: .svg, .png, .pdf; .tsv: data alone (also -o)"},
    {"output", TEXT(output), T(REPORT), "FILE", NULL,
     .help =
         "page to write (also -o; default: DIR/report.html, or the database's name with .html)"},
    {"trace", TEXT(trace), SIMULATE_ALL | RUN_KEYS | EMULATIONS | T(MEASUREMENT), "FILE", NULL,
     .help = "write a timeline for ui.perfetto.dev (run: of the median step; simulate: of all ops, "
             "slower)"},
    {"timeline", TEXT(timeline), T(SIMULATE) | T(SIMULATE_JSON), "FILE", NULL,
     .help = "write when each op ran as JSON columns, on more than 256 devices of one rank for "
             "those alike: what foreline explore draws"},
    {"json", FLAG(json),
     PLANS | SOLVED | SIMULATE_ANY | JOBS | RUNS | EMULATIONS | T(MEASUREMENT) | CALIBRATIONS |
         T(BENCH) | T(BENCH_NETWORK) | T(CAMPAIGN) | T(COMPARE) | T(COMPARE_PLANS) |
         T(LAB_SCOREBOARD) | T(MODEL_LIST) | T(MODEL_SHOW) | T(TOPOLOGY_LIST) | T(TOPOLOGY_SHOW) |
         T(TOPOLOGY_MATCH) | IMPORTS | T(CALIBRATE_FROM) | T(VALIDATE_SCRIPT),
     NULL, NULL, .help = "print JSON in SI units instead of text"},
};
const size_t settings_table_n = sizeof settings_table / sizeof *settings_table;
_Static_assert(sizeof settings_table / sizeof *settings_table <= SETTINGS_MOST,
               "struct arguments has a bit for each setting that was given");
