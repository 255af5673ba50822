# Where Debian's packages come from: main and security. Sourced, not executed; the caller has die.

keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# uri_of prints the address of an archive that this machine already uses, found through its label, whatever format the
# sources are written in.
uri_of() { # LABEL
	apt-get indextargets --format '$(LABEL)|$(REPO_URI)' 'Created-By: Packages' |
		awk -F'|' -v label="$1" '$1 == label && !found { print $2; found = 1 }'
}
if [ -n "${MIRROR:-}" ]; then
	main=${MIRROR%/} security=$(uri_of Debian-Security 2>/dev/null || true)
else
	main=$(uri_of Debian) security=$(uri_of Debian-Security)
	main=${main%/}
	[ -n "$main" ] || die "the apt sources of this machine name no Debian archive (after apt-get update): set MIRROR=URL"
fi
