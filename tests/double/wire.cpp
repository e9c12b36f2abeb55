/* Sockets between the members of a communicator. A member connects to those below it. */
#include "tests/double/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace dbl
{

namespace
{

struct header {
    uint32_t kind, tag;
    uint64_t bytes;
};

socklen_t address_of(const wire *w, int rank, sockaddr_un *a)
{
    memset(a, 0, sizeof *a);
    a->sun_family = AF_UNIX;
    int n =
        snprintf(a->sun_path + 1, sizeof a->sun_path - 1, "double-%s-%d", w->name.c_str(), rank);
    return (socklen_t)(offsetof(sockaddr_un, sun_path) + 1 + (size_t)n);
}

void connect_to(wire *w, int rank)
{
    sockaddr_un a;
    socklen_t length = address_of(w, rank, &a);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (sockaddr *)&a, length)) {
        close(fd);
        return; /* not there yet */
    }
    fcntl(fd, F_SETFL, O_NONBLOCK);
    w->member[(size_t)rank].fd = fd;
    wire_send(w, rank, HELLO, 0, as_bytes(w->self));
}

void flush(peer_end &m)
{
    while (!m.out.empty() && m.fd >= 0) {
        ssize_t n = send(m.fd, m.out.data(), m.out.size(), MSG_NOSIGNAL);
        if (n > 0)
            m.out.erase(0, (size_t)n);
        else if (errno == EPIPE || errno == ECONNRESET)
            m.is_gone = !m.has_left, m.out.clear();
        else
            return;
    }
}

void take_frames(peer_end &m)
{
    size_t at = 0;
    header h;
    while (m.in.size() - at >= sizeof h) {
        memcpy(&h, m.in.data() + at, sizeof h);
        if (m.in.size() - at - sizeof h < h.bytes)
            break;
        frame f = {h.kind, h.tag, m.in.substr(at + sizeof h, h.bytes)};
        at += sizeof h + h.bytes;
        if (h.kind == HELLO) {
            memcpy(&m.who, f.body.data(), sizeof m.who);
            m.has_said = true;
        } else if (h.kind == BYE) {
            m.has_left = true;
        } else {
            m.inbox.push_back(f);
        }
    }
    m.in.erase(0, at);
}

void read_all(peer_end &m)
{
    static thread_local char buffer[1 << 16];
    while (m.fd >= 0 && !m.is_gone) {
        ssize_t n = recv(m.fd, buffer, sizeof buffer, 0);
        if (n > 0)
            m.in.append(buffer, (size_t)n);
        else if (n == 0 || errno == ECONNRESET)
            m.is_gone = true;
        else
            break;
    }
    take_frames(m);
    if (m.has_left)
        m.is_gone = false;
    if (m.has_left && m.fd >= 0) {
        close(m.fd);
        m.fd = -1;
        m.out.clear();
    }
}

/* The first frame of who has been accepted says who it is; it may come in pieces. */
void recognise(wire *w)
{
    for (size_t k = w->strangers.size(); k-- > 0;) {
        peer_end &stranger = w->strangers[k];
        read_all(stranger);
        if (!stranger.has_said)
            continue;
        int rank = stranger.who.rank;
        w->member[(size_t)rank] = std::move(stranger);
        w->strangers.erase(w->strangers.begin() + (ptrdiff_t)k);
        wire_send(w, rank, HELLO, 0, as_bytes(w->self));
    }
}

} // namespace

bool wire_open(wire *w)
{
    sockaddr_un a;
    socklen_t length = address_of(w, w->me, &a);
    w->self.rank = w->me;
    w->member.resize((size_t)w->n);
    w->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return w->listener >= 0 && !bind(w->listener, (sockaddr *)&a, length) &&
           !listen(w->listener, 256);
}

void wire_close(wire *w, bool orderly)
{
    for (int k = 0; k < w->n; k++) {
        peer_end &m = w->member[(size_t)k];
        if (m.fd < 0)
            continue;
        if (orderly) {
            wire_send(w, k, BYE, 0, "");
            flush(m);
        }
        close(m.fd);
        m.fd = -1;
    }
    for (const peer_end &stranger : w->strangers)
        if (stranger.fd >= 0)
            close(stranger.fd);
    if (w->listener >= 0)
        close(w->listener);
    w->listener = -1;
}

bool wire_progress(wire *w)
{
    bool all = true;
    int fd;
    while (w->listener >= 0 &&
           (fd = accept4(w->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
        w->strangers.emplace_back(), w->strangers.back().fd = fd;
    recognise(w);
    for (int k = 0; k < w->n; k++) {
        peer_end &m = w->member[(size_t)k];
        if (k == w->me)
            continue;
        if (m.fd < 0 && k < w->me && !m.has_said)
            connect_to(w, k);
        flush(m);
        read_all(m);
        all = all && m.has_said;
    }
    return all;
}

void wire_send(wire *w, int to, uint32_t kind, uint32_t tag, const std::string &body)
{
    peer_end &m = w->member[(size_t)to];
    if (to == w->me) {
        m.inbox.push_back(frame{kind, tag, body});
        return;
    }
    m.out += as_bytes(header{kind, tag, body.size()});
    m.out += body;
    flush(m);
}

bool wire_take(wire *w, int from, uint32_t kind, uint32_t tag, std::string *body)
{
    std::deque<frame> &inbox = w->member[(size_t)from].inbox;
    for (auto f = inbox.begin(); f != inbox.end(); ++f)
        if (f->kind == kind && f->tag == tag) {
            *body = std::move(f->body);
            inbox.erase(f);
            return true;
        }
    return false;
}

bool wire_is_flushed(const wire *w)
{
    for (const peer_end &m : w->member)
        if (!m.out.empty() && !m.is_gone)
            return false;
    return true;
}

} // namespace dbl
