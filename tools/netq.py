"""NetQ's topologyGraph JSON: devices in tiers, switches and what LLDP found below them, and bundles of links."""
import json

import machine
from machine import NODE, SWITCH, At, Bad

ITEMS = 1 << 16


def read_tier(tier, m, named):
    for device in tier.field("compounded_nodes").array(ITEMS):
        name = device.field("id").string()
        kind = device.field("device_type").string()
        named[name] = m.part(SWITCH if kind == "switch" else NODE, name)


def read_link(link, m, named):
    ends = []
    for key in ("src", "target"):
        at = link.field(key)
        name = at.string()
        if name not in named:
            raise at.bad("unknown device '%s'" % machine.cut(name, 60))
        ends.append(named[name])
    size = link.optional("size")
    size = 1 if size is None else size.integer(1, 1 << 16)
    if m.kind(ends[0]) == NODE:
        ends.reverse()
    if m.kind(ends[0]) == NODE:
        m.warn("ignored: cables between nodes")
    else:
        m.link("net", ends[0], ends[1], size)


def read(data, gpus):
    m, named = machine.Machine(), machine.Names()
    graphs = At(json.loads(data)).array(1)
    if not graphs:
        raise Bad("list is empty", 1)
    for key, each in (("nodes", read_tier), ("links", read_link)):
        for item in graphs[0].field(key).array(ITEMS):
            each(item, m, named)
    if all(part[m.KIND] != NODE for part in m.parts):
        raise Bad("no nodes below the switches")
    return m


if __name__ == "__main__":
    machine.main(read)
