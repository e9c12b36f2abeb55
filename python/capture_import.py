"""Traces of other programs as a capture: all ranks of a step, with what they communicate.

    capture_import.py -o DIR --from FILE|FOLDER [-- FILE|FOLDER ...]

Called by `foreline capture --from`; docs/how-to/capture.md is about it. Each of READERS takes the
files of its format and makes a Rank (capture_trace.py) of each."""
import argparse
import os
import resource
import sys

from capture_alone import Unsuited
from capture_chakra import read_chakra
from capture_kineto import Kineto, finish_kineto
from capture_trace import build, load, parse

MEMORY = 16 << 30                                          # of the process, bytes


class ChakraFiles:
    """Each is a rank."""
    name, endings = 'Chakra', ('.et',)

    def __init__(self):
        self.ranks = []

    def takes(self, path, data):
        if not path.endswith('.et'):
            return False
        self.ranks.append(read_chakra(path, data))
        return True

    def finish(self):
        return self.ranks


class KinetoFiles:
    """Each is a rank; their clocks may agree."""
    name, endings = 'Kineto', ('.json', '.json.gz')

    def __init__(self):
        self.traces = []

    def takes(self, path, data):
        document = parse(data, path) if data.lstrip()[:1] in (b'{', b'[') else None
        document = {'traceEvents': document} if isinstance(document, list) else document
        if not document or 'traceEvents' not in document:
            return False
        self.traces.append(Kineto(path, document, self.traces[0].base if self.traces else None))
        return True

    def finish(self):
        return finish_kineto(self.traces)


READERS = (ChakraFiles, KinetoFiles)


def files_of(paths):
    endings = tuple(e for reader in READERS for e in reader.endings)
    out = []
    for path in paths:
        names = sorted(os.listdir(path)) if os.path.isdir(path) else []
        inside = [os.path.join(path, name) for name in names if name.endswith(endings)]
        if os.path.isdir(path) and not inside:
            raise Unsuited(f'{path}: no trace, expected files that end in {", ".join(endings)}')
        out += inside or [path]
    return [path for path in out if os.path.basename(path) != 'comm_group.json']


def read_files(paths):
    """Ranks, and of what formats."""
    readers = [reader() for reader in READERS]
    for path in files_of(paths):
        data = load(path)
        if not any(reader.takes(path, data) for reader in readers):
            raise Unsuited(f'{path}: not a trace of the formats {", ".join(reader.name for reader in READERS)}')
    used = [(reader.name, reader.finish()) for reader in readers]
    return [r for _, ranks in used for r in ranks], ' and '.join(name for name, ranks in used if ranks)


def main(argv):
    p = argparse.ArgumentParser(prog='foreline capture')
    p.add_argument('-o', '--output', default='capture')
    p.add_argument('--from', dest='paths', required=True)
    p.add_argument('more', nargs='*')
    o = p.parse_args(argv)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    try:
        ranks, what = read_files([o.paths, *o.more])
        lines, notes = build(ranks, o.output, f'{what} traces')
    except Unsuited as e:
        print(f'foreline: {e}', file=sys.stderr)
        return 1
    except (OSError, MemoryError) as e:
        print(f'foreline: {o.output}: {e.strerror if isinstance(e, OSError) else "out of memory"}', file=sys.stderr)
        return 1
    print('\n'.join(lines))
    for note in notes:
        print(f'note: {note}', file=sys.stderr)
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
