#!/bin/sh
# What the programs below a folder are linked with, by what dpkg knows of this machine: NOTICE and an SBOM
# (SPDX 2.3) among the documents of the package. Nothing where there are no programs. The same commit and
# libraries give the same bytes. Usage: SOURCE_DATE_EPOCH=SECONDS sbom.sh ROOT PACKAGE VERSION
set -eu
root=$1 name=$2 version=$3
doc=$root/usr/share/doc/$name
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT

# file, library; then library, package; then file, package
find "$root" -type f -exec sh -c 'readelf -d "$1" 2>/dev/null |
    sed -n "s|.*(NEEDED).*\[\(.*\)\]|$1 \1|p"
    readelf -h "$1" >/dev/null 2>&1 && grep -aoE "lib(dnnl|openblas)\.so\.[0-9]+" "$1" | sed "s|^|$1 |"' - '{}' ';' |
    grep -v ' libforeline\.so' | sort -u >"$work/needed"
[ -s "$work/needed" ] || exit 0
/sbin/ldconfig -p | awk '$NF ~ "^/" && !($1 in seen) { seen[$1] = 1; print $1, $NF }' | sort >"$work/cache"
cut -d' ' -f2 "$work/needed" | sort -u | while read -r library; do
    path=$(awk -v l="$library" '$1 == l { print $2 }' "$work/cache")
    real=$(readlink -f "${path:-/none/$library}" || echo "$library")
    owner=$(dpkg -S "$real" "${real#/usr}" 2>/dev/null | head -n 1 | cut -d: -f1) # /lib is /usr/lib
    [ -n "$owner" ] || { echo "sbom.sh: no package has $library" >&2 && exit 1; }
    echo "$library $owner"
done >"$work/owners"

# Licences as Debian's machine-readable copyright files name them; older files do not.
licences() {
    sed -n 's/^License: *//p' "/usr/share/doc/$1/copyright" 2>/dev/null | sed 's/[",\\]//g' | sort -u | paste -sd, | sed 's/,/, /g'
}
{
    echo "$name $version is under the Apache License 2.0. Its programs are linked with, or load, these packages of Debian,"
    echo "whose licences are in /usr/share/doc/PACKAGE/copyright:"
    echo
} >"$doc/NOTICE"
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
{
    printf '{\n "spdxVersion": "SPDX-2.3",\n "dataLicense": "CC0-1.0",\n "SPDXID": "SPDXRef-DOCUMENT",\n'
    printf ' "name": "%s-%s",\n' "$name" "$version"
    printf ' "documentNamespace": "https://spdx.org/spdxdocs/%s-%s",\n' "$name" "$version"
    printf ' "creationInfo": {"created": "%s", "creators": ["Tool: foreline-package-sbom.sh"]},\n "packages": [\n' "$created"
    printf '  {"SPDXID": "SPDXRef-%s", "name": "%s", "versionInfo": "%s", "downloadLocation": "NOASSERTION", ' "$name" "$name" "$version"
    printf '"filesAnalyzed": false, "licenseConcluded": "NOASSERTION", "licenseDeclared": "Apache-2.0", '
    printf '"copyrightText": "NOASSERTION"}'
    cut -d' ' -f2 "$work/owners" | sort -u | while read -r owner; do
        is=$(dpkg-query -W -f '${Version} ${Architecture} ${source:Package}' "$owner" | head -n 1)
        of=$(licences "$owner")
        printf '%-28s %-28s %s\n' "$owner" "${is%% *}" "${of:-see its copyright file}" >>"$doc/NOTICE"
        printf ',\n  {"SPDXID": "SPDXRef-deb-%s", "name": "%s", "versionInfo": "%s", ' \
            "$(echo "$owner" | tr -c 'A-Za-z0-9.\n-' -)" "$owner" "${is%% *}"
        arch=${is#* }
        printf '"sourceInfo": "Debian source package %s", ' "${is##* }"
        printf '"downloadLocation": "NOASSERTION", "filesAnalyzed": false, "licenseConcluded": "NOASSERTION", '
        printf '"licenseDeclared": "NOASSERTION", "licenseComments": "Debian: %s", ' "${of:-see its copyright file}"
        printf '"copyrightText": "NOASSERTION", "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", '
        printf '"referenceType": "purl", "referenceLocator": "pkg:deb/debian/%s@%s?arch=%s"}]}' \
            "$owner" "${is%% *}" "${arch%% *}"
    done
    printf '\n ],\n "relationships": [\n'
    printf '  {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-%s"}' "$name"
    cut -d' ' -f2 "$work/owners" | sort -u | tr -c 'A-Za-z0-9.\n-' - | while read -r owner; do
        printf ',\n  {"spdxElementId": "SPDXRef-%s", "relationshipType": "DYNAMIC_LINK", ' "$name"
        printf '"relatedSpdxElement": "SPDXRef-deb-%s"}' "$owner"
    done
    printf '\n ]\n}\n'
} >"$doc/$name.spdx.json"
