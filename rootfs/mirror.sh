# Sets main and security, the URLs of Debian's archives. Sourced, not executed; the caller defines die.

keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# uri_of prints the URL of the archive with a label in this machine's apt sources, which may have any format.
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
