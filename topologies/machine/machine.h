/* machine.h - what a file of another program says of a machine or a cluster, as one small graph.
 *
 *   part   a GPU, CPU, PCIe switch, NVSwitch, network port, switch, or a node of which only the
 *          name is known. PCIe is a forest: `up` is the part nearer to the CPU, none for a CPU
 *          itself
 *   link   NVLink (xGMI) between GPUs or from a GPU to an NVSwitch, or a cable of the network
 *
 * Importers fill in what their file says and leave 0 or NULL where it says nothing;
 * machine_complete() takes that from options and the catalogue, and notes it. Texts and notes are
 * in the machine's arena. */
#ifndef TOPOLOGIES_MACHINE_MACHINE_H
#define TOPOLOGIES_MACHINE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/array.h"
#include "core/base/intern.h"
#include "topologies/catalogue.h"

struct provenance;

enum machine_kind {
    MACHINE_GPU,
    MACHINE_CPU,
    MACHINE_BRIDGE, /* PCIe switch */
    MACHINE_NVSWITCH,
    MACHINE_NIC,      /* a port of the fabric */
    MACHINE_SWITCH,   /* of the network */
    MACHINE_NODE,     /* a node without anything inside */
    MACHINE_LEFT_OUT, /* a port that counts for nothing */
};

#define MACHINE_NONE UINT32_MAX

enum machine_rdma { MACHINE_UNSAID, MACHINE_PLAIN, MACHINE_RDMA };

struct machine_part {
    enum machine_kind kind;
    uint32_t node;          /* MACHINE_NONE: of no node, as switches */
    uint32_t up;            /* MACHINE_NONE: not below anything */
    double up_Bps;          /* nominal, of the PCIe lanes to `up`; 0: not said */
    double Bps;             /* of a port; 0: not said */
    enum machine_rdma rdma; /* has a port an RDMA device? */
    const char *numa;       /* of a GPU or port, the NUMA node: "1", "0-1"; NULL: not said */
    const char *name;       /* never NULL */
    const char *model;      /* of a GPU, as the file has it; NULL: not said */
    const char *type;   /* of a GPU, the catalogue's row by its ids; NULL: by the model's words */
    bool by_id;         /* ids said which product it is: its words do not count */
    size_t line;        /* where the file says it; 0: nowhere */
    const char *bus;    /* PCI address; NULL: not said */
    const char *domain; /* of a node: what shares NVLink; NULL: not said */
    const struct gpu *gpu; /* of a GPU, once complete */
};

struct machine_link {
    bool net;         /* a cable of the network; else NVLink */
    uint32_t a, b;    /* parts */
    uint32_t count;   /* bonded lanes of NVLink; cables */
    double Bps;       /* of each of them, one direction; 0: not said */
    double latency_s; /* 0: not said */
};

struct machine_notes {
    size_t n;
    const char **text; /* [n] */
};

/* Fuzzers, which define this word, spend no time on large machines. */
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
enum { MACHINE_PARTS = 1 << 9, MACHINE_NAMES = 1 << 5 };
#else
enum { MACHINE_PARTS = 1 << 21, MACHINE_NAMES = 1 << 18 };
#endif
enum { MACHINE_LINKS = MACHINE_PARTS, MACHINE_NOTES = 64 };

/* Tables of names, for importers: each uses those that it needs. */
enum machine_names {
    NAMES_PARTS, /* by the file's own ids: PCI addresses, objects, "xpu.0" */
    NAMES_HOSTS,
    NAMES_NODES,
    NAMES_SWITCHES,
    NAMES_DEFINED, /* of which the file says more than the name */
    NAMES_CABLES,
    NAMES_KINDS,
    NAMES_DOMAINS, /* what shares NVLink */
    NAMES
};

struct machine {
    struct arena arena;
    const char *format, *path;
    size_t nodes, parts, links;
    struct machine_part *part; /* [parts] */
    struct machine_link *link; /* [links] */
    struct machine_notes assumed, warnings;
    struct interner name[NAMES]; /* of each table, */
    uint32_t *named[NAMES];      /* [name[k].n] and what its names stand for */
    struct machine
        *inside; /* what the file says of the inside of its nodes, malloc'd; NULL: nothing */
    bool no_nvlink_seen; /* the file cannot show NVLink */
    bool no_gpus_seen;   /* its GPUs are PCI devices without more */
    bool cores;          /* its GPUs are cores, its one NVSwitch is their memory */
};

/* A file to import; the text is NUL-terminated, without other NULs. */
struct machine_source {
    const char *path, *text;
    size_t length;
};

struct machine_format {
    const char *name, *summary;
    /* Is it this format, whole or damaged, or a relative that is refused by name? Looks at the text
     * only. */
    bool (*recognises)(const struct machine_source *s);
    /* Into an empty machine that has its format and path already. STATUS_PARSE "path:line:
     * what". */
    enum status (*parse)(const struct machine_source *s, struct machine *m);
    /* Instead of parse(): a program of tools/ (program.h), what it is given, and why the file is
     * refused before (NULL: it is not; refuses NULL: never). */
    const char *program;
    enum machine_input { MACHINE_INPUT_TEXT, MACHINE_INPUT_JSON, MACHINE_INPUT_YAML } input;
    const char *(*refuses)(const struct machine_source *s);
};

#define MEASURED(name)
#define MACHINE(name) extern const struct machine_format machine_##name;
#include "topologies/importers.def"
#undef MACHINE
#undef MEASURED
extern const struct machine_format *const machine_formats[]; /* [machine_formats_n] */
extern const size_t machine_formats_n;

/* The first format that recognises the file; NULL: none. */
const struct machine_format *machine_recognise(const struct machine_source *s);
/* Read a file by it. STATUS_IO, STATUS_PARSE (one line),
 * STATUS_NOMEM. */
enum status machine_read(const char *path, struct machine *out) MUST_CHECK;
enum status machine_parse(const char *path, const char *text, size_t length,
                          struct machine *out) MUST_CHECK;
void machine_free(struct machine *m); /* accepts {0}; leaves {0} */

/* ---- for importers */

/* A new part or link; *index may be NULL. STATUS_PARSE beyond the limits. */
enum status machine_add_part(struct machine *m, enum machine_kind kind, uint32_t node, uint32_t up,
                             const char *name, uint32_t *index) MUST_CHECK;
enum status machine_join(struct machine *m, const struct machine_link *link) MUST_CHECK;
/* A note; beyond MACHINE_NOTES the last one says that there are more. */
enum status machine_assume(struct machine *m, const char *format, ...) PRINTF_LIKE(2, 3) MUST_CHECK;
enum status machine_warn(struct machine *m, const char *format, ...) PRINTF_LIKE(2, 3) MUST_CHECK;
/* The next line of a text, without its end, in the arena; "" where there is none. *line counts. */
enum status machine_line(struct machine *m, const char **text, size_t *line, char **out) MUST_CHECK;
/* "path:line" for messages, "path" for line 0; returns `out`. */
enum { MACHINE_AT = 300 };
const char *machine_at(const struct machine *m, size_t line, char out[MACHINE_AT]);
/* The NUMA node of a part, as a file writes it: numbers, lists and ranges; anything else ("N/A",
 * NULL) is none. */
enum status machine_set_numa(struct machine *m, uint32_t part, const char *text) MUST_CHECK;
/* Does one of the first `lines` lines begin with this, blanks skipped? */
bool machine_begins(const struct machine_source *s, const char *word, size_t lines);
/* What a name stands for in one of the tables; MACHINE_NONE: it is not there. */
uint32_t machine_name_find(const struct machine *m, enum machine_names in, const char *name);
/* From now on this; a name that is there stands for something else. STATUS_PARSE beyond
 * MACHINE_NAMES. */
enum status machine_name_put(struct machine *m, enum machine_names in, const char *name,
                             uint32_t value) MUST_CHECK;
/* "node[01-04,7],x3": each name in turn to `each`. STATUS_PARSE "what". At most MACHINE_NAMES. */
enum status machine_hostlist(const char *text, enum status (*each)(void *to, const char *name),
                             void *to) MUST_CHECK;

/* ---- what follows import */

struct machine_options {
    const struct gpu *gpu; /* NULL: as the file says, or a guess */
    double nic_Bps;        /* 0: as the file says, or the catalogue's */
    /* the ports of the fabric, up to an @: "all" or globs "mlx5_[0-3],ib0"; NULL: a rule */
    const char *nics;
    size_t nodes; /* 0: as many as there are */
    size_t gpus;  /* of a node that only has a name; 0: as the vendor's server */
};

/* Nodes of a fabric get what `node` has inside (NULL: the vendor's server of the GPU type), and
 * --nodes copies of a node one switch. *m is replaced. STATUS_INVALID. */
enum status machine_combine(struct machine *m, struct machine *node,
                            const struct machine_options *o) MUST_CHECK;
/* GPU types, speeds and ports that are not said. STATUS_INVALID: no GPU at all. */
enum status machine_complete(struct machine *m, const struct machine_options *o) MUST_CHECK;

size_t machine_count(const struct machine *m, enum machine_kind kind);
/* NVLinks between two GPUs, directly or through NVSwitches; 0: none. */
uint32_t machine_nvlinks(const struct machine *m, uint32_t a, uint32_t b);

/* Steps between two parts; those of different CPUs are 1000 further. *a and *b: steps of each to
 * where they meet. */
size_t machine_distance(const struct machine *m, uint32_t x, uint32_t y, size_t *a, size_t *b);

/* The machine as a platform of SimGrid. STATUS_INVALID: too many devices, a network in several
 * pieces. */
enum status machine_write(const struct machine *m, const struct provenance *by,
                          const char *path) MUST_CHECK;

#endif
