# Unpacks Debian packages for the tests. Sourced, not executed; the caller defines fail.

update() { # ignores errors: the source may not be needed, and if it is, the installation fails
	apt-get update -qq || echo "needs: apt-get update failed for some sources, continuing" >&2
}

# unpack extracts Debian packages into build/tools. It does not install them, because that would start services, but
# installs the libraries that they need.
work=''
trap 'rm -rf "$work"' EXIT
unpack() { # PROGRAM WHAT-FOR PACKAGE...
	local program=$1 what=$2 libraries
	shift 2
	command -v apt-get >/dev/null || fail "$program is missing, and this machine has no apt to fetch it ($*): it $what"
	[ "$(id -u)" = 0 ] || fail "$program is missing, and fetching it needs root: it $what"
	echo "needs: fetching $* into build/tools, for the tests"
	work=$(mktemp -d)
	(cd "$work" && { apt-get download -qq -o APT::Sandbox::User=root "$@" || { update && apt-get download -qq -o APT::Sandbox::User=root "$@"; }; })
	mapfile -t libraries < <(for deb in "$work"/*.deb; do dpkg-deb -f "$deb" Depends; done | tr ',|' '\n\n' | grep -o '^ *lib[a-z0-9.+-]*' | grep -v '^ *lib\(pam\|js\)-' | tr -d ' ' | sort -u)
	apt-get install -o DPkg::Lock::Timeout=300 -y -qq --no-install-recommends "${libraries[@]}" >/dev/null
	mkdir -p build/tools
	for deb in "$work"/*.deb; do dpkg -x "$deb" build/tools; done
	rm -rf "$work"
}

# unpack_all extracts Debian packages, and what they need that is not installed here, into build/tools/DIR. The tests
# use it over this machine's directories, because programs of such packages find each other by absolute paths.
unpack_all() { # DIR WHAT PACKAGE...
	local dir=build/tools/$1 what=$2
	shift 2
	command -v apt-get >/dev/null || fail "$what are missing, and this machine has no apt to fetch them ($*)"
	[ "$(id -u)" = 0 ] || fail "$what are missing, and fetching them needs root"
	echo "needs: fetching $what into $dir, for the tests"
	work=$(mktemp -d)
	mkdir -p "$work/partial" "$work/root"
	fetch() {
		apt-get install --download-only -o APT::Sandbox::User=root -o Dir::Cache::archives="$work" -o DPkg::Lock::Timeout=300 \
			-y -qq --no-install-recommends --reinstall "$@" >/dev/null
	}
	fetch "$@" || { update && fetch "$@"; }
	for deb in "$work"/*.deb; do dpkg -x "$deb" "$work/root"; done
	mkdir -p build/tools
	rm -rf "$dir"
	mv "$work/root" "$dir"
	rm -rf "$work"
}
