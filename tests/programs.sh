#!/bin/sh
# Programs of tools/ that go wrong: each is one line, and none keeps foreline waiting. Usage: programs.sh FORELINE
set -u
foreline=$1
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
failed=0
mkdir -p bin share/foreline/tools && cp "$foreline" bin/foreline && ln -s "${foreline%/*/*}/share/foreline/platforms" share/foreline
tool=share/foreline/tools/ns3.py
printf '3 1 2\n2\n0 2 1Gbps 1us 0\n1 2 1Gbps 1us 0\n' >net.txt

path=/usr/bin:/bin
says() { # says STATUS "WORDS" [LIMIT]
    PATH=$path bin/foreline topology import net.txt ${3:+--limit "$3"} >out 2>err </dev/null
    status=$?
    if [ $status != "$1" ] || [ "$(wc -l <err)" != 1 ] || ! grep -q -- "$(pattern "$2")" err; then
        echo "expected '$2', status $1; got $status: $(cat err)"
        failed=1
    fi
}
says 1 "part missing"
echo 'while True: pass' >$tool && says 1 "python3 took longer than 0.6 s" wait=0.01
echo 'while True: print("x" * 65536)' >$tool && says 1 "its machine takes more than 0.48 MiB of JSON" size=0.01
echo 'raise ValueError("a\nb")' >$tool && says 1 "ns3.py of tools/ failed with status 1"
echo 'import os; os.kill(os.getpid(), 9)' >$tool && says 1 "failed with status 137"
echo 'print("nonsense")' >$tool && says 1 "net.txt: answer of ns3.py:1:"
echo 'print("{}")' >$tool && says 1 'net.txt: answer of ns3.py:1:1: "format" is missing'
echo 'print("""{"error": {"text": "a\\\\nb", "line": 7}}""")' >$tool && says 1 "foreline topology: net.txt:7: a b"
echo 'print("""{"error": {"text": "a", "at": ["x"]}}""")' >$tool && says 1 "foreline topology: net.txt: a"
echo 'print("""{"format": "foreline-machine", "version": 1, "nodes": 1, "parts": [["gpu", "a", 5]], "links": []}""")' >$tool &&
    says 1 "5 is out of range"

# Nothing of our environment but what programs need; no file is left beside the program.
cat >$tool <<'END'
import json, os
known = {"PATH", "HOME", "TMPDIR", "XDG_CACHE_HOME", "LD_LIBRARY_PATH", "FONTCONFIG_FILE", "FONTCONFIG_PATH", "LC_ALL", "LC_CTYPE"}
print(json.dumps({"error": {"text": "kept: %s" % sorted(set(os.environ) - known), "line": 0}}))
END
PYTHONPATH=$dir SECRET=1 says 1 "net.txt: kept: []"
# The limit on memory is the program's own (tools/machine.py).
cp "${foreline%/*/*}/share/foreline/tools/machine.py" share/foreline/tools/
printf 'import machine\nmachine.main(lambda data, gpus: bytearray(1 << 40))\n' >$tool
says 1 "net.txt machine 2 GiB"
[ ! -e share/foreline/tools/__pycache__ ] || { echo "python left __pycache__" && failed=1; }

mkdir empty && cp "${foreline%/*/*}/share/foreline/tools/ns3.py" $tool
path=$dir/empty
says 1 "net.txt 'ns-3 topology' python3 installed"
PATH=/usr/bin:/bin bin/foreline topology import net.txt 2>/dev/null | grep -q '^ns-3 topology: 2 devices on 2 nodes' || { echo "not read" && failed=1; }
exit $failed
