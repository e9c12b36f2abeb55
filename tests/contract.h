/* contract.h - what the parts of test_transport_contract.c share. */
#ifndef TESTS_CONTRACT_H
#define TESTS_CONTRACT_H

#include <stdbool.h>
#include <stdint.h>

#include "exec/transport.h"
#include "tests/mesh.h"

enum { MAX_RANKS = 4, MIB = 1 << 20 };

/* The transport, and for how many ranks programs are made: [low, high]. With `alone`, this process
 * is rank `self`. */
extern const struct transport *transport;
extern uint32_t low, high, self;
extern bool alone;

struct mesh new_mesh(void);
/* Ranks that do nothing, up to n. */
void idle(struct program *p, uint32_t n);

/* contract_collectives.c */
void collectives_are_their_serial_reference_bit_for_bit(void **state);
void averages_minima_and_maxima_are_those_of_a_plain_loop(void **state);
void every_algorithm_gives_the_sums_on_all_members(void **state);
void collectives_of_64_mib_are_their_serial_reference(void **state);
void reduce_scatter_and_all_gather_are_an_all_reduce_bit_for_bit(void **state);
void an_op_may_be_called_as_often_as_its_count(void **state);
void calls_in_one_are_calls_and_end_in_time(void **state);
void wrong_calls_and_a_step_without_any_are_misuse(void **state);
void collectives_of_overlapping_groups_run_in_list_order(void **state);
void messages_and_collectives_do_not_disturb_each_other(void **state);
void a_dead_peer_ends_a_collective_on_all_members(void **state);

#endif
