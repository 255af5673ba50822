# Keeps built root filesystems in the user's cache, so that all checkouts build each once. Sourced, not executed; the
# caller sets arch and key.
#
# An entry is a directory named by its key. It has rootfs-$arch.tar, rootfs-$arch.files, and in SHA256SUMS their sums.
# The six entries that were used last stay.
#
#   FORCE=1, FRESH=1   neither take from the cache nor keep anything there

# cache_dir prints the directory of the cache, or nothing if there is none.
cache_dir() {
	local base=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
	[ -z "${FORCE:-}${FRESH:-}" ] || return 0
	case $base in /*) echo "$base/helmdeck-repos/rootfs" ;; esac
}

sums() { # DIR
	(cd "$1" && sha256sum "rootfs-$arch.tar" "rootfs-$arch.files")
}

# take copies the entry of the key into a directory. It fails if there is none, and removes one that is damaged.
take() { # DIR
	local cache entry
	cache=$(cache_dir)
	entry=$cache/$key
	[ -n "$cache" ] && [ -d "$entry" ] || return 1
	if cp "$entry/rootfs-$arch.tar" "$entry/rootfs-$arch.files" "$1" &&
		[ "$(sums "$1")" = "$(cat "$entry/SHA256SUMS")" ]; then
		touch "$entry" || true
		echo "rootfs: $arch: taken from $entry"
		return
	fi
	echo "rootfs: $entry is damaged and is not used" >&2
	rm -rf "$entry"
	return 1
}

# keep_built copies the files in a directory into the cache. An error is only reported, because the build itself is good.
keep_built() { # DIR
	local cache new
	cache=$(cache_dir)
	[ -n "$cache" ] || return 0
	if ! new=$(mkdir -p "$cache" && mktemp -d "$cache/new.XXXXXX"); then
		echo "rootfs: the build is not kept in $cache" >&2
		return
	fi
	# mv fails if another build of the same key was faster.
	if ! { cp "$1/rootfs-$arch.tar" "$1/rootfs-$arch.files" "$new" && sums "$1" >"$new/SHA256SUMS" &&
		mv -T "$new" "$cache/$key" 2>/dev/null; }; then
		rm -rf "$new"
	fi
	find "$cache" -mindepth 1 -maxdepth 1 -printf '%T@\t%p\0' | sort -zrn | tail -zn +7 | cut -zf2- | xargs -0r rm -rf || true
}
