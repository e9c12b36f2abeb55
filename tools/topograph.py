"""NVIDIA topograph's models of clusters: switches with those below them, and blocks of nodes below a switch, perhaps
in one domain of NVLink."""
import json

import machine
from machine import NODE, SWITCH, Bad, entries, get, items, text_of


class Fabric:
    """Switches and nodes by name."""

    def __init__(self):
        self.m = machine.Machine()
        self.named = {SWITCH: machine.Names(), NODE: machine.Names()}
        self.defined = machine.Names()  # of which the file says more than the name

    def part(self, kind, name):
        if name not in self.named[kind]:
            self.named[kind][name] = self.m.part(kind, name)
        return self.named[kind][name]

    def below(self, above, value, kind, domain=None):
        """Each name of the lists such as "leaf[1-4],x" goes below a switch; None: is only added."""
        for item in items(value):
            text = text_of(item)
            if text is None:
                raise Bad("expected a name", item[0])
            try:
                for name in machine.hostlist(text):
                    self.put(above, name, kind, domain)
            except Bad as bad:
                raise Bad(str(bad), item[0])

    def put(self, above, name, kind, domain):
        part = self.part(kind, name)
        if kind == NODE and domain is not None:
            self.m.parts[part][self.m.DOMAIN] = domain
        if above == part:
            raise Bad("switch '%s' is below itself" % machine.cut(name, 60))
        if above is not None:
            self.m.link("net", above, part)


def read(data, gpus):
    root, f = json.loads(data), Fabric()
    for name, value in entries(get(root, "switches")):
        above = f.part(SWITCH, name)
        f.defined[name] = 1
        f.below(above, get(value, "switches"), SWITCH)
    for block in items(get(root, "blocks")):
        above, domain = None, None
        switch = text_of(get(block, "switch"))
        if switch is not None:
            above = f.part(SWITCH, switch)
            f.defined[switch] = 1
        for key, value in entries(get(block, "annotations")):
            if "domain" in key:
                domain = text_of(value)
        f.below(above, get(block, "nodes"), NODE, domain)
    for name in f.named[SWITCH]:
        if name not in f.defined:
            f.m.warn("switch %s is mentioned but not described" % machine.cut(name, 60))
    if not f.named[NODE]:
        raise Bad("no nodes")
    return f.m


if __name__ == "__main__":
    machine.main(read)
