/* wire.h - frames between the members of a communicator: a socket per pair, of an abstract name, so
 * that nothing stays behind. Nothing blocks. */
#ifndef DOUBLE_WIRE_H
#define DOUBLE_WIRE_H

#include <deque>
#include <stdint.h>
#include <string>
#include <vector>

namespace dbl
{

enum frame_kind { HELLO, SPLIT, CONNECT, CREDIT, DATA, PART, BYE };

struct frame {
    uint32_t kind, tag; /* tag: number of the message, of the call, ... */
    std::string body;
};

/* Who a member is. */
struct identity {
    int32_t rank, gpu, global; /* global: $RANK, or -1 */
    uint64_t machine;
};

struct peer_end {
    int fd = -1;
    bool has_said, is_gone; /* hello; and is no more, without a farewell */
    bool has_left;
    identity who;
    std::string in, out;
    std::deque<frame> inbox;
};

struct wire {
    std::string name;
    int me, n, listener = -1;
    identity self;
    std::vector<peer_end> member;    /* [n], that of `me` is not used */
    std::vector<peer_end> strangers; /* accepted, and have not said who they are */
};

bool wire_open(wire *w);
void wire_close(wire *w, bool orderly);
/* Connect, accept, read and write as far as possible; true: all members have said who they are. */
bool wire_progress(wire *w);
void wire_send(wire *w, int to, uint32_t kind, uint32_t tag, const std::string &body);
bool wire_take(wire *w, int from, uint32_t kind, uint32_t tag, std::string *body);
bool wire_is_flushed(const wire *w);

template <typename T> std::string as_bytes(const T &x)
{
    return std::string((const char *)&x, sizeof x);
}

} // namespace dbl

#endif
