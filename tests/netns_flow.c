/* netns_flow - one stream from each rank of the upper half to its partner in the lower half, under
 * `foreline emulate`. Receivers print "flow RANK BYTES BEGIN_S END_S", counted after the first MiB.
 * With "echo" a byte there and back, and "echo RANK LEAST_S" of 21 such.
 * With "MIB both" the partners send, too. Usage: netns_flow MIB [both] | echo */
#define _DEFAULT_SOURCE
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char piece[64 << 10];

static void fail(const char *what)
{
    perror(what);
    exit(3);
}

static size_t number(const char *name)
{
    const char *text = getenv(name);
    if (!text)
        fail(name);
    return strtoul(text, NULL, 10);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Of a rank that is alone on its node: its line of the hosts file. */
static struct sockaddr_in address_of(size_t rank)
{
    char word[64];
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)(number("MASTER_PORT") + rank))};
    FILE *f = fopen(getenv("FORELINE_HOSTS"), "r");
    for (size_t i = 0; f && i <= rank; i++)
        if (fscanf(f, "%63s slots=%*d", word) != 1)
            fail("FORELINE_HOSTS");
    if (!f || inet_pton(AF_INET, word, &a.sin_addr) != 1)
        fail("FORELINE_HOSTS");
    fclose(f);
    return a;
}

static int connect_to(size_t rank)
{
    struct sockaddr_in to = address_of(rank);
    int fd = -1;
    for (int tries = 0; tries < 500; tries++) { /* the partner may start later */
        fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
            break;
        close(fd);
        fd = -1;
        usleep(20000);
    }
    return fd;
}

static int accept_at(size_t rank)
{
    struct sockaddr_in here = address_of(rank);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&here, sizeof here) != 0 || listen(listener, 1) != 0)
        fail("bind");
    return accept(listener, NULL, NULL);
}

static void send_to(size_t rank, size_t bytes)
{
    int fd = connect_to(rank);
    for (size_t n = 0; n < bytes; n += sizeof piece)
        for (size_t k = 0; k < sizeof piece;) {
            ssize_t sent = send(fd, piece + k, sizeof piece - k, MSG_NOSIGNAL);
            if (sent <= 0)
                fail("send");
            k += (size_t)sent;
        }
}

static void receive(size_t rank, size_t bytes)
{
    int fd = accept_at(rank);
    size_t n = 0, skipped = 0;
    double begin = 0;
    while (n < bytes) {
        ssize_t got = recv(fd, piece, sizeof piece, 0);
        if (got <= 0)
            fail("recv");
        n += (size_t)got;
        if (!skipped && n >= 1 << 20) {
            skipped = n;
            begin = now_s();
        }
    }
    printf("flow %zu %zu %.6f %.6f\n", rank, n - skipped, begin, now_s());
}

static void echo(int fd)
{
    char byte;
    while (read(fd, &byte, 1) == 1 && write(fd, &byte, 1) == 1)
        ;
}

static void measure_echo(size_t rank, int fd)
{
    double least_s = 1e9;
    for (int i = 0; i < 21; i++) {
        char byte = 0;
        double begin = now_s(), took_s;
        if (write(fd, &byte, 1) != 1 || read(fd, &byte, 1) != 1)
            fail("echo");
        took_s = now_s() - begin;
        least_s = took_s < least_s ? took_s : least_s;
    }
    printf("echo %zu %.6f\n", rank, least_s);
}

int main(int argc, char **argv)
{
    size_t rank = number("RANK"), half = number("WORLD_SIZE") / 2;
    size_t bytes = argc >= 2 ? strtoul(argv[1], NULL, 10) << 20 : 0;
    bool both = argc == 3 && !strcmp(argv[2], "both");
    if (argc == 2 && !strcmp(argv[1], "echo")) {
        if (rank < half)
            echo(accept_at(rank));
        else
            measure_echo(rank, connect_to(rank - half));
        return 0;
    }
    if (bytes < 2 << 20 || (argc > 2 && !both))
        return 2;
    if (both) {
        pid_t sender = fork();
        if (sender == 0)
            send_to((rank + half) % (2 * half), bytes);
        else
            receive(rank, bytes);
        return sender > 0 && waitpid(sender, NULL, 0) != sender;
    }
    if (rank < half)
        receive(rank, bytes);
    else
        send_to(rank - half, bytes);
    return 0;
}
