"""InfraGraph: devices with components and "a.0.link.b.1" connections, instances of devices and connections between
those. A file of one device is a machine; one of instances a network, whose switches are the devices of ports that reach
several others."""
import json

import machine
from machine import BRIDGE, CPU, GPU, NIC, NODE, NVSWITCH, SWITCH, Bad, cut, entries, get, items, text_at, text_of

PATH_WORDS, COPIES = 12, 1 << 16


def kind_of(component):
    """Custom ones are told by their names."""
    kinds = {"xpu": GPU, "gpu": GPU, "cpu": CPU, "nic": NIC}
    usual = NVSWITCH if text_at(component, "name")[:3] in ("nvl", "nvs") else BRIDGE
    return kinds.get(text_at(component, "type"), usual)


def has_xpu(device):
    return any(kind_of(c) == GPU for c in items(get(device, "components")))


def split(text):
    """The words of "server.0.nic.1.eth1.leaf.0.port.3"; none where there are too many."""
    words = [word for word in text.split(".") if word]
    return words if len(words) <= PATH_WORDS else []


def bandwidth_of(links, name):
    """Bytes per second of a link: gigabytes, gigabits or transfers (of 16 lanes of PCIe) a second; 0: not said."""
    for link in items(links):
        if text_at(link, "name") != name:
            continue
        for key, value in entries(get(link, "bandwidth")):
            said = machine.real(text_of(value) or "")
            if said is None or not 0 < said <= 1e7:
                continue
            if "transfer" in key:
                return said * 16 / 8 * 128 / 130 * 1e9
            return said * 1e9 / 8 if "bits" in key else said * 1e9
    return 0


def component(listed, name):
    for c in items(listed):
        found = component(get(c, "components"), name)
        if found or text_at(c, "name") == name:
            return found or c
    return None


class Device:
    """A device as a machine."""

    def __init__(self, m, device, gpus):
        self.m, self.device, self.gpus, self.named = m, device, gpus, machine.Names()
        self.components, self.found, self.rates, self.known = get(device, "components"), {}, {}, {}
        m.nodes = 1
        self.add_components(self.components, 1)
        for c in items(get(device, "connections")):
            word = split(text_of(c) or "")
            if len(word) != 5:
                raise Bad("got '%s', expected a.0.link.b.0" % cut(text_of(c) or "", 60), c[0])
            a, b = self.end(word[0], word[1], c[0]), self.end(word[3], word[4], c[0])
            if a is not None and b is not None and a != b:
                self.connect(word[2], a, b)

    def add_one(self, c, name):
        said = text_at(c, "description")
        kind = kind_of(c)
        if said not in self.known:
            self.known[said] = machine.is_gpu(said, self.gpus)
        self.named[name] = self.m.part(kind, name, 0, said if kind == GPU and self.known[said] else None)
        return self.named[name]

    def add_components(self, listed, copies):
        for c in items(listed):
            said = text_at(c, "count")
            n = machine.count(said, COPIES) if said else 0  # 0: as many as the connections name
            if n is None or n * copies > COPIES:
                raise Bad("invalid count '%s'" % cut(said, 20), c[0])
            inside = get(c, "components")
            if inside:
                self.add_components(inside, copies * (n or 1))
                continue
            for k in range(n * copies):
                self.add_one(c, "%s.%d" % (cut(text_at(c, "name"), 60), k))

    def end(self, name, index, line):
        """The part "xpu.3", made when the components give no count; None: of something without parts."""
        if name not in self.found:
            self.found[name] = component(self.components, name)
        c, k = self.found[name], machine.count(index, COPIES)
        if c is None or k is None:
            raise Bad("unknown component '%s.%s'" % (cut(name, 40), cut(index, 20)), line)
        key = "%s.%d" % (cut(name, 60), k)
        if key in self.named or get(c, "components"):
            return self.named.get(key)
        if text_at(c, "count"):
            raise Bad("'%s' does not exist: there are only %s" % (key, text_at(c, "count")), line)
        return self.add_one(c, key)

    def connect(self, link, a, b):
        m, kinds = self.m, (self.m.kind(a), self.m.kind(b))
        if link not in self.rates:
            self.rates[link] = bandwidth_of(get(self.device, "links"), link)
        if link[:3].lower() == "nvl" or link[:4].lower() == "xgmi" or NVSWITCH in kinds:
            gpu, other = (b, a) if kinds[0] == NVSWITCH else (a, b)
            if m.kind(gpu) == GPU:
                m.link("nvlink", gpu, other, 1, self.rates[link])
            return
        height = {CPU: 2, BRIDGE: 1}  # what is nearer to the CPU
        upper, lower = (a, b) if height.get(kinds[0], 0) >= height.get(kinds[1], 0) else (b, a)
        up = upper
        while up is not None and up != lower:
            up = m.parts[up][m.UP]
        if kinds[0] != kinds[1] and m.parts[lower][m.UP] is None and up is None:  # else a circle
            m.parts[lower][m.UP:m.UP_BPS + 1] = [upper, self.rates[link]]

    def add_cards(self, connections):
        """Cards that are devices of their own: "server.0.pciesw.0.pcie.server-nic.0.port.0"."""
        for c in items(connections):
            word = split(text_of(c) or "")
            if len(word) != 9:
                continue
            bridge = self.end(word[2], word[3], c[0])
            name = "%s.%s" % (cut(word[5], 60), cut(word[6], 20))
            if bridge is not None and name not in self.named:
                self.named[name] = self.m.part(NIC, name, 0, up=bridge)


class Infrastructure:
    def __init__(self, root, m):
        self.m, self.named = m, machine.Names()
        self.devices = get(root, "devices") or get(root, "device")
        self.instances, self.links, self.connections = (get(root, k) for k in ("instances", "links", "connections"))
        self.first = {}  # device of each name
        for device in reversed(items(self.devices)):
            self.first[text_at(device, "name")] = device
        self.device = {text_at(i, "name"): text_at(i, "device") for i in items(self.instances)}

    def device_of(self, instance):
        return self.first.get(self.device.get(instance, ""))

    def part(self, instance, index, through):
        """An end "leaf.0": a node when its device has GPUs, or nothing is known of it and a "nic" is what is joined."""
        device = self.device_of(instance)
        node = has_xpu(device) if device else through == "nic"
        key = "%s.%s" % (cut(instance, 60), cut(index, 20))
        if key not in self.named:
            self.named[key] = self.m.part(NODE if node else SWITCH, key)
        return self.named[key]

    def read_network(self):
        m, rates = self.m, {}
        for c in items(self.connections):
            word = split(text_of(c) or "")
            if len(word) != 9:
                raise Bad("got '%s', expected server.0.nic.0.link.leaf.0.port.0" % cut(text_of(c) or "", 60), c[0])
            a, b = self.part(*word[:3]), self.part(*word[5:8])
            if a == b or m.kind(a) == m.kind(b) == NODE:
                raise Bad("nodes without a switch between them", c[0])
            if word[4] not in rates:
                rates[word[4]] = bandwidth_of(self.links, word[4])
            if m.kind(a) == NODE or m.kind(b) == SWITCH:
                a, b = b, a
            m.link("net", a, b, 1, rates[word[4]])


def read(data, gpus):
    m, file = machine.Machine(), json.loads(data)
    root = get(file, "infrastructure") or file
    whole = Infrastructure(root, m)
    device = next((d for d in items(whole.devices) if has_xpu(d)), None)
    joins = any(device is None or whole.device_of(text_at(i, "name")) is device for i in items(whole.instances))
    if whole.connections and joins:  # instances of machines, more than cards of one
        if device:
            m.inside = machine.Machine()
            Device(m.inside, device, gpus)
        whole.read_network()
    elif device:
        Device(m, device, gpus).add_cards(whole.connections)
    else:
        raise Bad("devices without an xpu: part of an infrastructure, not a machine or a network")
    return m


if __name__ == "__main__":
    machine.main(read)
