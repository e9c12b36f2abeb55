#!/bin/sh
# A wheel in an empty virtual environment: libraries are its own, its licences are there, the command and the notebooks work.
# Usage: python_wheel.sh SOURCE BUILD
set -u
source=$1 build=$2
skip() {
    echo "skipped: $*"
    exit 77
}
fail() {
    echo "$*"
    exit 1
}
command -v patchelf >/dev/null || skip "patchelf is not installed"
/usr/bin/python3 -c 'import venv, ensurepip' 2>/dev/null || skip "python3-venv is not installed"
[ -e "$source/.git" ] || skip "no git checkout, so no version"
! readelf -d "$build"/bin/foreline | grep -q libasan || skip "a build with sanitizers is for nobody's wheel"
dir=$(mktemp -d -p /var/tmp) && trap 'rm -rf "$dir"' EXIT
unset PYTHONPATH FORELINE_PREFIX LD_LIBRARY_PATH

for out in one two; do
    "$source/package/wheel" "$dir/$out" "$build" >"$dir/said" 2>&1 || fail "$(tail -n 5 "$dir/said")"
done
wheel=$(cat "$dir/said")
cmp "$wheel" "$dir/one/${wheel##*/}" || fail "two wheels of one build differ"
/usr/bin/python3 -m venv "$dir/venv" || fail "no virtual environment"
"$dir/venv/bin/pip" -q install --no-index --disable-pip-version-check "$wheel" || fail "pip refuses $wheel"
"$dir/venv/bin/pip" -q check || fail "pip check"

cd "$dir" || exit 1
"$dir/venv/bin/python" - <<'END' || fail "the package does not work"
import pathlib, foreline as fl
plan = fl.plan("gpt-tiny", "laptop", algorithm="balanced", stages=2)
fl.simulate(plan)
home = pathlib.Path(fl.__file__).parent
mapped = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
ours = [m for m in mapped if m.startswith(str(home))]
assert any("libforeline.so" in m for m in ours) and any("libsimgrid" in m for m in ours), mapped
names = {pathlib.Path(p).name for p in (home / "_native/lib/bundled").iterdir()}
assert len(names) > 5
foreign = [m for m in mapped if m not in ours and pathlib.Path(m).name.startswith(
    ("libsimgrid", "libns3", "libjansson", "libmetis", "libgsl", "libyaml", "libsqlite3", "libnettle", "libgfortran"))]
assert not foreign, foreign
info = next(home.parent.glob("foreline-*.dist-info"))
notice = (info / "licenses/NOTICE").read_text()
assert all(name in notice for name in names) and (info / "licenses/GPL-3").exists(), notice
END
# As on a machine that has none of these libraries.
if unshare -m true 2>/dev/null; then
    # shellcheck disable=SC2016 # the inner shell's
    unshare -m sh -c 'for f in $(find /usr/lib -name "lib*.so.*" | grep -E "/lib(simgrid|ns3|jansson|metis|gsl|yaml|sqlite3|nettle|gfortran|igraph|glpk|hwloc|openblas|dnnl|boost|xml2|icu|microhttpd|gnutls)"); do
        mount --bind /dev/null "$f" || exit 2
    done
    ! "$2/bin/foreline" --version 2>/dev/null || exit 3 # they are hidden
    "$1/bin/python" -c "import foreline as fl; p = fl.plan(\"gpt2-small\", \"two-racks\", batch=16, finalists=2)
fl.run(fl.plan(\"gpt-tiny:layers=2\", \"laptop\", algorithm=\"balanced\", stages=2), steps=1)"' sh "$dir/venv" "$build" >said 2>&1 ||
        fail "without the libraries of Debian: $(tail -n 5 said)"
else
    echo "libraries of Debian are not hidden: no mount namespaces"
fi
"$dir/venv/bin/foreline" plan --model gpt-tiny:layers=2 --platform laptop --algorithm balanced --stages 2 -o p.json >said 2>&1 || fail "$(cat said)"
"$dir/venv/bin/foreline" run p.json --steps 2 >said 2>&1 || fail "run: $(cat said)"
if ! [ -e "$build/bin/foreline-explore" ]; then
    echo "foreline explore is not tried: built without it"
else
    "$dir/venv/bin/python" - "$dir/venv/bin/foreline" <<'END' || fail "the page of foreline explore does not work"
import http.client, json, re, signal, subprocess, sys
page = subprocess.Popen([sys.argv[1], "explore", "--no-browser", "p.json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
port, key = re.search(r":(\d+)/\?key=(\w+)", page.stdout.readline()).groups()
def ask(method, path, body=None):
    c = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)
    c.request(method, path, body, {"Cookie": f"foreline_{port}={key}", "X-Foreline": "1"})
    r = c.getresponse()
    assert r.status == 200, (path, r.status)
    return r.read()
assert b"<title>foreline explore" in ask("GET", "/")
said = ask("POST", "/run", json.dumps({"command": ["simulate", "p.json", "--json"]}))
assert json.loads(said.splitlines()[-1])["json"]["iteration_s"] > 0, said
mapped = {line.split()[-1] for line in open(f"/proc/{page.pid}/maps") if ".so" in line}
assert any("/bundled/libmicrohttpd" in m for m in mapped), mapped
page.send_signal(signal.SIGINT)
assert page.wait(timeout=60) == 0
END
fi
"$dir/venv/bin/python" "$source/tests/python_notebooks.py" - "$source"/examples/notebooks/*.ipynb >said 2>&1 || fail "$(tail -n 5 said)"
cat said
