/* socket.h - TCP sockets with a deadline on everything that waits.
 *
 * Deadlines are absolute clock_now() seconds; INFINITY waits until the socket is shut down by
 * another thread. Failures are STATUS_IO with the reason (a peer that closed its end is "connection
 * closed"), missed deadlines STATUS_EXTERNAL; callers add who the peer is. */
#ifndef EXEC_TRANSPORT_TCP_SOCKET_H
#define EXEC_TRANSPORT_TCP_SOCKET_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

/* Listen on the loopback interface, on a port that the system chooses. */
enum status socket_listen(int *fd, uint16_t *port) MUST_CHECK;
/* The same on the interface with the dotted address `host`. STATUS_INVALID: it is no address. */
enum status socket_listen_at(const char *host, int *fd, uint16_t *port) MUST_CHECK;
/* The same on a port that others know already. */
enum status socket_listen_on(const char *host, uint16_t port, int *fd) MUST_CHECK;
/* The address of this end of a connection, or of the other one. STATUS_IO. */
enum { SOCKET_HOST = 16 };
enum status socket_own(int fd, char host[SOCKET_HOST]) MUST_CHECK;
enum status socket_peer(int fd, char host[SOCKET_HOST]) MUST_CHECK;
/* Connect to `port` of the dotted address `host`, retrying while nobody listens there: peers
 * start at different times. STATUS_INVALID: it is no address; STATUS_IO, STATUS_EXTERNAL: the
 * deadline. */
enum status socket_connect(const char *host, uint16_t port, double deadline_s, int *fd) MUST_CHECK;
/* The same where somebody listens before we are started, so that nobody does is STATUS_IO at
 * once. */
enum status socket_connect_once(const char *host, uint16_t port, double deadline_s,
                                int *fd) MUST_CHECK;
/* Without waiting: *fd is -1 when nobody is there, or no descriptor is left for them. */
enum status socket_accept_now(int listener, int *fd) MUST_CHECK;

/* All n bytes or a failure. */
enum status socket_write(int fd, const void *data, size_t n, double deadline_s) MUST_CHECK;
enum status socket_read(int fd, void *data, size_t n, double deadline_s) MUST_CHECK;
/* What the other machine has not taken for so long ends the connection. STATUS_IO. */
enum status socket_give_up(int fd, double after_s) MUST_CHECK;
/* Wake every thread that is blocked on the socket, for good; -1 is ignored. */
void socket_shutdown(int fd);
/* Close and set to -1; -1 is ignored. */
void socket_close(int *fd);

/* Wait until fd is ready for `events` (poll flags). */
enum status socket_poll(int fd, short events, double deadline_s) MUST_CHECK;
/* Milliseconds for poll() until the deadline, rounded up; -1 for INFINITY. */
int socket_poll_ms(double deadline_s);

#endif
