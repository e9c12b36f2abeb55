/* op_kind.h - what an op of a program does: the words of schedules and of programs. */
#ifndef CORE_SCHEDULE_OP_KIND_H
#define CORE_SCHEDULE_OP_KIND_H

enum op_kind {
    OP_FORWARD,
    OP_BACKWARD,
    OP_BACKWARD_INPUT,  /* BACKWARD in two: what the stage before waits for, */
    OP_BACKWARD_WEIGHT, /* and what only UPDATE waits for */
    OP_UPDATE,
    OP_COMPUTE, /* of a captured program: operators in a row, of one phase */
    OP_SEND,
    OP_RECV,
    OP_ALLREDUCE,
    OP_ALLGATHER,
    OP_REDUCESCATTER,
    OP_ALLTOALL,
    OP_BROADCAST, /* from the group's first member, and so on: core/collective/collective.h */
    OP_REDUCE,
    OP_GATHER,
    OP_SCATTER,
    OP_COPY, /* between a rank and its host's memory: a collective of one */
    OP_KINDS
};

#endif
