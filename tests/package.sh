#!/bin/sh
# The packages: what is in which, no error of lintian, whole SBOMs, nothing of the machine that built them; and two builds in two folders
# are the same bytes. Leaves them in OUT. Usage: package.sh SOURCE OUT
set -u
source=$(realpath "$1") out=$(realpath -m "$2") missing=''
for tool in lintian dpkg-shlibdeps readelf git file; do
    command -v $tool >/dev/null || missing="$missing $tool"
done
[ -z "$missing" ] || { echo "skipped: not installed:$missing" && exit 77; }
[ -e "$source/.git" ] || { echo "skipped: no git checkout, so no version" && exit 77; }
dir=$(mktemp -d -p /var/tmp) && trap 'rm -rf "$dir"' EXIT
failed=0
fail() {
    echo "$*"
    failed=1
}

# The checkout as it is now, uncommitted changes included, at two depths; objects are compiled twice, too.
mkdir "$dir/source" && (cd "$source" && git ls-files -z | xargs -0 cp --parents -t "$dir/source" 2>/dev/null
    git clone -q --no-checkout . "$dir/clone") && mv "$dir/clone/.git" "$dir/source/.git" &&
    git -C "$dir/source" reset -q || exit 1
build() { # build FOLDER OUT
    mkdir -p "${1%/*}" && cp -r "$dir/source" "$1" || return 1
    (cd "$1" && cmake --preset package >/dev/null && CCACHE_DISABLE=1 cmake --build --preset package -j "$(nproc)" -- -s &&
        cpack --config build/package/CPackConfig.cmake -B "$2") >"$dir/log" 2>&1
}
build "$dir/one" "$dir/debs" || { tail -n 20 "$dir/log" && exit 1; }
build "$dir/deeper/folder/two" "$dir/again" || { tail -n 20 "$dir/log" && exit 1; }
rm -rf "$out" && mkdir -p "$out" && cp "$dir"/debs/*.deb "$out/" || exit 1
for deb in "$out"/*.deb; do
    cmp "$deb" "$dir/again/${deb##*/}" || fail "${deb##*/} is not reproducible"
done

lintian --allow-root "$out"/*.deb >"$dir/lintian" 2>&1
grep -q '^[EW]:' "$dir/lintian" || [ ! -s "$dir/lintian" ] || fail "lintian says: $(cat "$dir/lintian")"
grep '^E:' "$dir/lintian" && failed=1

has() { # has PACKAGE FILE...
    name=$1
    shift
    dpkg-deb -x "$out/${name}_"*.deb "$dir/x.$name" || fail "no package $name"
    for file in "$@" "usr/share/doc/$name/copyright" "usr/share/doc/$name/changelog.gz"; do
        [ -s "$dir/x.$name/$file" ] || fail "$name: no $file"
    done
    grep -rlF -e "$dir" -e "$source" "$dir/x.$name" && fail "$name: names folders of the machine"
}
library=usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
has foreline usr/bin/foreline usr/bin/foreline-explore usr/bin/foreline-lab usr/share/man/man1/foreline-lab-scoreboard.1.gz usr/share/man/man1/foreline-plan.1.gz usr/share/man/man1/foreline.1.gz \
    usr/share/bash-completion/completions/foreline usr/share/doc/foreline/NOTICE
has foreline-worker usr/bin/foreline-worker
has foreline-worker-mpi usr/bin/foreline-worker-mpi
has libforeline0 "$library/libforeline.so.0" "$library/foreline/simgrid.so" usr/share/foreline/platforms/two-racks.xml
has foreline-papers "$library/foreline/papers.so"
has libforeline-dev usr/include/foreline.h "$library/pkgconfig/foreline.pc"
has python3-foreline usr/lib/python3/dist-packages/foreline/__init__.py
has foreline-doc usr/share/doc/foreline/docs/reference/run.md
for name in foreline foreline-worker foreline-worker-mpi foreline-papers libforeline0; do
    python3 - "$dir/x.$name/usr/share/doc/$name/$name.spdx.json" "$name" <<'END' || fail "$name: SBOM"
import json, sys
d, name = json.load(open(sys.argv[1])), sys.argv[2]
ids = [p["SPDXID"] for p in d["packages"]]
names = {p["name"] for p in d["packages"]}
assert d["spdxVersion"] == "SPDX-2.3" and d["dataLicense"] == "CC0-1.0" and len(set(ids)) == len(ids) > 2
assert all(p["versionInfo"] and p["downloadLocation"] for p in d["packages"])
assert all(r["relatedSpdxElement"] in ids for r in d["relationships"])
assert len(d["relationships"]) == len(ids) and {name, "libc6", "libjansson4"} <= names
END
done
grep -q '^libigraph' "$dir/x.libforeline0/usr/share/doc/libforeline0/NOTICE" || fail "NOTICE has no igraph"
exit $failed
