#!/bin/sh
# Copyright The Tripod Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Installs the programs of Tripod {{.Version}} on Linux, after it has compared the download with the SHA-256 below. With cosign, it also verifies that the
# workflow of the project signed the release. Without --dir, programs go to /usr/local/bin, or to ~/.local/bin if you may not write there.

set -eu

version={{.Version}}
download=${TRIPOD_DOWNLOAD:-{{.Download}}}
identity={{.Identity}}
issuer=https://token.actions.githubusercontent.com
{{range .Platforms}}sum_{{.Architecture}}={{.Sum}}
{{end}}programs="{{range $i, $p := .Programs}}{{if $i}} {{end}}{{$p}}{{end}}"

usage() {
	cat <<END
Installs Tripod $version.

  --dir DIRECTORY    directory for the programs (default: /usr/local/bin, or ~/.local/bin if you may not write there)
  --checksum-only    verify no signature, even if cosign is installed

TRIPOD_KEY is a public key, for a release that the owner of this key signed in place of the project (it needs cosign).
TRIPOD_DOWNLOAD is the URL of a directory with the files of the release (default: $download).
END
}

fail() {
	echo "install.sh: $*; nothing was installed" >&2
	exit 1
}

fetch() { # fetch FILE: from the release into $work
	case $download in
	https://*) protocols='=https' ;;
	*) protocols='=https,http' ;;
	esac
	if command -v curl >/dev/null 2>&1; then
		curl --fail --silent --show-error --location --proto "$protocols" --connect-timeout 30 --max-filesize 1073741824 \
			--output "$work/$1" "$download/$1" || fail "cannot download $download/$1"
	elif command -v wget >/dev/null 2>&1; then
		wget --quiet --timeout=30 --output-document="$work/$1" "$download/$1" || fail "cannot download $download/$1"
	else
		fail "it needs curl or wget"
	fi
}

sum_of() {
	if command -v sha256sum >/dev/null 2>&1; then
		sha256sum "$1" | cut -d ' ' -f 1
	elif command -v shasum >/dev/null 2>&1; then
		shasum -a 256 "$1" | cut -d ' ' -f 1
	else
		fail "it needs sha256sum or shasum"
	fi
}

verify_signature() { # verify_signature FILE SUM
	fetch checksums.txt
	fetch checksums.txt.sigstore.json
	if [ -n "${TRIPOD_KEY:-}" ]; then
		set -- "$1" "$2" --key "$TRIPOD_KEY" --insecure-ignore-tlog
	else
		set -- "$1" "$2" --certificate-identity "$identity" --certificate-oidc-issuer "$issuer"
	fi
	file=$1 sum=$2
	shift 2
	cosign verify-blob "$work/checksums.txt" --bundle "$work/checksums.txt.sigstore.json" "$@" >"$work/cosign" 2>&1 || {
		cat "$work/cosign" >&2
		fail "the release is not signed by the one that should have signed it"
	}
	grep -qxF "$sum  $file" "$work/checksums.txt" || fail "the signed checksums do not have $file with the SHA-256 $sum"
	echo "verified the signature of the release"
}

main() {
	directory='' signature=yes
	while [ $# -gt 0 ]; do
		case $1 in
		--dir)
			[ $# -gt 1 ] || fail "--dir needs a directory"
			directory=$2
			shift
			;;
		--checksum-only) signature=no ;;
		-h | --help)
			usage
			exit 0
			;;
		*) fail "unknown argument $1, see --help" ;;
		esac
		shift
	done

	[ "$(uname -s)" = Linux ] || fail "the programs of a release run on Linux, and this is $(uname -s)"
	case $(uname -m) in
{{range .Platforms}}	{{.Machine}}) platform={{.Name}} want=$sum_{{.Architecture}} ;;
{{end}}	*) fail "a release has no programs for $(uname -m)" ;;
	esac
	if [ -z "$directory" ]; then
		directory=/usr/local/bin
		[ -w "$directory" ] || directory=$HOME/.local/bin
	fi
	if [ "$signature" = yes ] && ! command -v cosign >/dev/null 2>&1; then
		[ -z "${TRIPOD_KEY:-}" ] || fail "TRIPOD_KEY needs cosign, which is not installed"
		signature=no
		echo "cosign is not installed: only the checksum is verified"
	fi

	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	trap 'exit 1' HUP INT TERM
	base=tripod-$version-$platform
	fetch "$base.tar.gz"
	have=$(sum_of "$work/$base.tar.gz")
	[ "$have" = "$want" ] || fail "$base.tar.gz is not the file of the release: its SHA-256 is $have, and not $want"
	echo "verified the checksum of $base.tar.gz"
	[ "$signature" = no ] || verify_signature "$base.tar.gz" "$want"

	tar -xzf "$work/$base.tar.gz" -C "$work"
	mkdir -p "$directory" || fail "cannot create $directory"
	[ -w "$directory" ] || fail "you may not write to $directory: choose another with --dir, or run this as root"
	# All programs are there before the first takes its name.
	trap 'rm -rf "$work"; for program in $programs; do rm -f "$directory/.$program.new"; done' EXIT
	for program in $programs; do
		cp -P "$work/$base/$program" "$directory/.$program.new" || fail "cannot write to $directory"
	done
	for program in $programs; do
		mv -f "$directory/.$program.new" "$directory/$program"
	done
	echo "installed Tripod $version in $directory"
	case :$PATH: in
	*":$directory:"*) echo "run it: tripod up" ;;
	*) echo "run it: $directory/tripod up" ;;
	esac
}

main "$@"
