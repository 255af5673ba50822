# Resolves Debian packages with an apt that knows nothing of this machine's packages. Sourced, not executed; the
# caller defines die.

release=trixie
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# private_apt makes the apt commands that follow use a directory of their own: its lists, fetched now and verified with
# Debian's keys, and a status without any package. The way to the mirror is the machine's. It sets main and security.
private_apt() { # DIR ARCH
	local netrc netrcparts
	[ -f "$keyring" ] || die "$keyring is missing: run make needs"
	. rootfs/mirror.sh
	mkdir -p "$1"/state/lists/partial "$1"/cache/archives/partial "$1"/etc/apt.conf.d "$1"/etc/preferences.d
	: >"$1/status"
	{
		apt-config dump | grep -E '^Acquire::(http|https|ftp|Retries|ForceIPv[46]|Check-Date|Check-Valid-Until|Max-ValidTime)\b' || true
		eval "$(apt-config shell netrc Dir::Etc::netrc/f netrcparts Dir::Etc::netrcparts/d)"
		[ ! -f "${netrc:-}" ] || echo "Dir::Etc::netrc \"$netrc\";"
		[ ! -d "${netrcparts:-}" ] || echo "Dir::Etc::netrcparts \"$netrcparts\";"
		echo "Dir::State \"$1/state\"; Dir::State::status \"$1/status\"; Dir::Cache \"$1/cache\";"
		echo "Dir::Etc::sourcelist \"$1/sources.list\"; Dir::Etc::sourceparts \"-\"; Dir::Etc::main \"-\";"
		echo "Dir::Etc::parts \"$1/etc/apt.conf.d\"; Dir::Etc::preferencesparts \"$1/etc/preferences.d\"; Dir::Etc::preferences \"-\";"
		echo "APT::Architecture \"$2\"; APT::Architectures:: \"$2\"; APT::Sandbox::User \"root\"; Acquire::Languages \"none\";"
	} >"$1/apt.conf"
	local from="deb [signed-by=$keyring]"
	echo "$from $main $release main" >"$1/sources.list"
	if offers "$1" "$main" "$release-updates"; then
		echo "$from $main $release-updates main" >>"$1/sources.list"
	fi
	if [ -n "$security" ] && offers "$1" "$security" "$release-security"; then
		echo "$from $security $release-security main" >>"$1/sources.list"
	else
		echo "rootfs: the mirror has no $release-security: security updates arrive only with the next point release" >&2
	fi
	export APT_CONFIG=$1/apt.conf
	apt-get -qq -o APT::Update::Error-Mode=any update || die "no verified package lists of $release for $2 from $main"
}

# offers succeeds if a mirror has a suite.
offers() { # DIR URI SUITE
	/usr/lib/apt/apt-helper download-file "$2/dists/$3/InRelease" "$1/InRelease" >/dev/null 2>&1
}

# lock_lines prints the lines of a lock for the current versions of packages.
lock_lines() { # PACKAGE...
	apt-cache show --no-all-versions "$@" | awk -v OFS='\t' '
		/^Package: /  { name = source = $2 }
		/^Version: /  { version = $2 }
		/^Source: /   { source = $2 } # without the version that may follow
		/^Filename: / { path = $2 }
		/^SHA256: /   { sum = $2 }
		/^$/ && name  { print name, version, source, sum, path, path ~ "^pool/updates/" ? "security" : "main"; name = "" }'
}
