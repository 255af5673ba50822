# git's filter "lfs" of this repository (see its config): git-lfs or, where it is not installed, the same with programs
# that every image has. Without git-lfs, and with --skip, nothing is downloaded: a file whose object is not in .git/lfs
# stays a pointer.
#
# usage: sh helmdeck-lfs clean|smudge [--skip] -- PATH

if [ "$2" != --skip ] && command -v git-lfs >/dev/null 2>&1; then # its own --skip does not look into .git/lfs
	exec git-lfs "$@"
fi
set -u
LC_ALL=C
export LC_ALL
nl='
'
cr=$(printf '\r')
blank=" $nl$cr$(printf '\t\v\f')"

fail() {
	echo "helmdeck-lfs: $1" >&2
	exit 1
}

# temp DIR... makes the directory $tmp in the first DIR where it can.
temp() {
	for dir; do
		mkdir -p "$dir" 2>/dev/null && tmp=$(mktemp -d "$dir/filter.XXXXXX" 2>/dev/null) && return
	done
	fail "no temporary file can be made in $1"
}

size_of() { echo "$(($(wc -c <"$1")))"; }

# pointer FILE reads a pointer by git-lfs's rules, and sets oid, size and extended. It fails if FILE is none.
pointer() {
	size=$(size_of "$1")
	[ "$size" -ge 100 ] && [ "$size" -lt 1024 ] || return 1
	text=$(tr -d '\000' <"$1" && echo .)
	text=${text%.}
	[ ${#text} -eq "$size" ] || return 1
	while :; do
		case $text in
		[$blank]*) text=${text#?} ;;
		*[$blank]) text=${text%?} ;;
		*) break ;;
		esac
	done
	after=0 oid='' size='' extended=''
	while [ -n "$text" ]; do
		line=${text%%"$nl"*}
		text=${text#"$line"}
		text=${text#"$nl"}
		line=${line%"$cr"}
		case $after:$line in
		[0-3]:) ;;
		0:"version https://git-lfs.github.com/spec/v1" | 0:"version https://hawser.github.com/spec/v1" | 0:"version http://git-media.io/v/2")
			after=1
			;;
		1:ext-[0-9]-*) extended=yes ;;
		1:"oid sha256:"*) after=2 oid=${line#oid sha256:} ;;
		2:"size "*) after=3 size=${line#size } ;;
		*) return 1 ;;
		esac
	done
	size=${size#+}
	case $after:$oid:$size in
	3:*[!0-9a-f]*:* | 3:*:*[!0-9]* | 3:*: | [012]:*) return 1 ;;
	esac
	[ ${#oid} -eq 64 ]
}

# object OID prints the path of an object.
object() {
	rest=${1#??}
	rest2=${rest#??}
	echo "$lfs/objects/${1%"$rest"}/${rest%"$rest2"}/$1"
}

clean() {
	temp "$lfs/tmp"
	cat >"$tmp/new" || fail "$tmp/new can't be written"
	if [ ! -s "$tmp/new" ] || pointer "$tmp/new"; then
		cat "$tmp/new"
		return
	fi
	oid=$(sha256sum <"$tmp/new") || fail "neither git-lfs nor sha256sum can be run: install git-lfs"
	oid=${oid%% *}
	size=$(size_of "$tmp/new")
	to=$(object "$oid")
	if [ ! -f "$to" ] || [ "$(size_of "$to")" != "$size" ]; then
		mkdir -p "${to%/*}" && mv -f "$tmp/new" "$to" || fail "$to can't be written"
	fi
	printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %s\n' "$oid" "$size"
}

smudge() {
	temp "$lfs/tmp" "${TMPDIR:-/tmp}" # the repository may be read-only
	# Byte for byte, because what follows must stay in the pipe.
	dd bs=1 count=1024 >"$tmp/head" 2>/dev/null || fail "$tmp/head can't be written"
	if ! pointer "$tmp/head"; then
		cat "$tmp/head" && cat
		return
	fi
	from=$(object "$oid")
	case $extended:$size in
	:*[!0]*)
		if [ -f "$from" ] && [ "$(size_of "$from")" = "$size" ]; then
			cat "$from"
		else
			cat "$tmp/head"
		fi
		;;
	:*) ;; # an empty file, whatever its ID
	*) cat "$tmp/head" ;;
	esac
}

tmp=''
trap '[ -z "$tmp" ] || rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT PIPE TERM
lfs=$(git rev-parse --git-common-dir) || exit
lfs=$lfs/lfs
case $1 in
clean | smudge) "$1" ;;
*) fail "unknown command $1" ;;
esac
