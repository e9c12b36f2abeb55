#include "tests/mesh.h"

#include <stdio.h>

#include "exec/transport.h"
#include "exec/transport/tcp/socket.h"
#include "tests/cmocka.h"

static bool is_here(const struct mesh *m, size_t rank)
{
    return !m->alone || m->self == rank;
}

static const struct transport *transport_of(const struct actor *a)
{
    return a->mesh->transport ? a->mesh->transport : &transport_tcp;
}

void mesh_open(struct mesh *m)
{
    if (m->transport && m->transport->share)
        assert_int_equal(m->transport->share(&m->program, &m->shared), STATUS_OK);
    for (uint32_t k = 0; k < m->program.ranks; k++) {
        m->r[k] = (struct rendezvous){.rank = k,
                                      .ranks = (uint32_t)m->program.ranks,
                                      .host = "127.0.0.1",
                                      .port = m->port,
                                      .listener = -1,
                                      .control = -1,
                                      .algorithm = m->algorithm,
                                      .shared = m->shared,
                                      .token = {1, 2, 3},
                                      .timeout_s = patience_s};
        if (is_here(m, k))
            assert_int_equal(socket_listen(&m->r[k].listener, &m->port[k]), STATUS_OK);
    }
}

void mesh_close(struct mesh *m)
{
    for (size_t k = 0; k < m->program.ranks; k++)
        socket_close(&m->r[k].listener);
    if (m->shared)
        m->transport->unshare(m->shared);
    program_free(&m->program);
}

void *actor_main(void *argument)
{
    struct actor *a = argument;
    void *t = NULL;
    const struct transport *how = transport_of(a);
    a->st = a->mesh->prepare ? a->mesh->prepare(a) : STATUS_OK;
    if (a->st == STATUS_OK)
        a->st = how->open(&a->mesh->program, a->rank, &a->mesh->r[a->rank], &t);
    if (a->st == STATUS_OK)
        a->st = a->act(a, t);
    if (a->st != STATUS_OK)
        snprintf(a->message, sizeof a->message, "%s", error_message());
    how->close(t);
    return NULL;
}

void play(struct actor *a, size_t n)
{
    if (n > 0 && a->mesh->alone) {
        actor_main(&a[a->mesh->self]);
        return;
    }
    for (size_t k = 0; k < n; k++)
        assert_int_equal(pthread_create(&a[k].thread, NULL, actor_main, &a[k]), 0);
    for (size_t k = 0; k < n; k++)
        pthread_join(a[k].thread, NULL);
}

void play_all(struct mesh *m, struct actor *a, enum status (*act)(struct actor *, void *),
              size_t steps)
{
    mesh_open(m);
    for (uint32_t k = 0; k < m->program.ranks; k++) {
        a[k].mesh = m;
        a[k].rank = k;
        a[k].act = act;
        a[k].steps = steps;
    }
    play(a, m->program.ranks);
    bool failed = false; /* which of them was the first is for the reader to say */
    for (size_t k = 0; k < m->program.ranks; k++)
        if (is_here(m, k) && a[k].st != STATUS_OK) {
            print_error("rank %zu: %s\n", k, a[k].message);
            failed = true;
        }
    assert_false(failed);
}

static unsigned char pattern(uint32_t send, size_t step, size_t i)
{
    return (unsigned char)(send * 31 + step * 7 + i * 13 + (i >> 8));
}

static enum status post_sends(struct actor *a, void *t, size_t step)
{
    enum status st = STATUS_OK;
    const struct transport *how = transport_of(a);
    const struct program *p = &a->mesh->program;
    for (uint32_t i = (uint32_t)p->op_start[a->rank]; i < p->op_start[a->rank + 1]; i++) {
        void *data;
        if (p->op[i].kind != OP_SEND)
            continue;
        TRY(how->send_buffer(t, i, &data));
        for (size_t k = 0; k < (size_t)p->op[i].bytes; k++)
            ((unsigned char *)data)[k] = pattern(i, step, k);
        TRY(how->send(t, i));
    }
out:
    return st;
}

static enum status check_recv(struct actor *a, void *t, size_t step, uint32_t op)
{
    enum status st = STATUS_OK;
    const struct transport *how = transport_of(a);
    const struct program *p = &a->mesh->program;
    const void *data;
    double start_s, end_s;
    TRY(how->wait(t, op, patience_s, &data));
    for (size_t k = 0; k < (size_t)p->op[op].bytes; k++)
        if (((const unsigned char *)data)[k] != pattern(p->op[op].match, step, k))
            return error_set(STATUS_INVALID, "op %u step %zu: byte %zu is wrong", op, step, k);
    how->release(t, op);
    how->times(t, op, &start_s, &end_s);
    if (!(start_s > 0 && end_s >= start_s))
        return error_set(STATUS_INVALID, "op %u: from %g to %g", op, start_s, end_s);
out:
    return st;
}

enum status exchange_messages(struct actor *a, void *t)
{
    enum status st = STATUS_OK;
    const struct transport *how = transport_of(a);
    const struct program *p = &a->mesh->program;
    size_t first = p->op_start[a->rank], n = p->op_start[a->rank + 1] - first;
    double start_s;
    for (size_t step = 0; step < a->steps; step++) {
        TRY(how->barrier(t, patience_s, &start_s));
        TRY(post_sends(a, t, step));
        for (size_t k = 0; k < n; k++) {
            uint32_t op = (uint32_t)(first + (a->order ? a->order[k] : k));
            if (p->op[op].kind == OP_RECV)
                TRY(check_recv(a, t, step, op));
        }
        for (size_t k = first; k < first + n; k++)
            if (p->op[k].kind == OP_SEND)
                TRY(how->wait(t, (uint32_t)k, patience_s, NULL));
    }
    TRY(how->barrier(t, patience_s, &start_s));
out:
    return st;
}
