"""Traces of other programs as a capture: all ranks of a step, with what they communicate.

    capture_import.py -o DIR --from FILE|FOLDER [-- FILE|FOLDER ...]

Called by `foreline capture --from`; docs/how-to/capture.md is about it. READERS tells formats by how a file begins; a reader makes a
Rank (capture_trace.py) of a file."""
import argparse
import json
import os
import resource
import sys

from capture_alone import Unsuited
from capture_chakra import read_chakra
from capture_trace import build, load

MEMORY = 16 << 30                                          # of the process, bytes


def begins_as_json(data):
    return data.lstrip()[:1] in (b'{', b'[')


READERS = (                                                # name, does a file begin so?, reader of one file
    ('Chakra', lambda path, data: path.endswith('.et'), read_chakra),
)
ENDINGS = ('.et',)


def files_of(paths):
    out = []
    for path in paths:
        if os.path.isdir(path):
            inside = [os.path.join(path, name) for name in sorted(os.listdir(path)) if name.endswith(ENDINGS)]
            if not inside:
                raise Unsuited(f'{path}: no trace, expected files that end in {", ".join(ENDINGS)}')
            out += inside
        else:
            out.append(path)
    return out


def read_files(paths):
    ranks, names = [], {}
    for path in files_of(paths):
        if os.path.basename(path) == 'comm_group.json':
            continue
        data = load(path)
        for name, is_it, reader in READERS:
            if is_it(path, data):
                ranks.append(reader(path, data))
                names[name] = True
                break
        else:
            raise Unsuited(f'{path}: none of the formats {", ".join(row[0] for row in READERS)}')
    return ranks, ' and '.join(names)


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
