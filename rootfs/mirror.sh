# Sets main and security, the URLs of Debian's archives. Sourced, not executed; the caller defines die.
#
#   MIRROR=URL            the archive; default: the one in this machine's own apt sources
#   MIRROR_SECURITY=URL   the archive of security updates; default: likewise

# uri_of prints the URL of the archive with a label in this machine's apt sources, which may have any format.
uri_of() { # LABEL
	apt-get indextargets --format '$(LABEL)|$(REPO_URI)' 'Created-By: Packages' |
		awk -F'|' -v label="$1" '$1 == label && !found { print $2; found = 1 }'
}
main=${MIRROR:-$(uri_of Debian)}
main=${main%/}
[ -n "$main" ] || die "the apt sources of this machine name no Debian archive (after apt-get update): set MIRROR=URL"
security=${MIRROR_SECURITY:-$(uri_of Debian-Security)}
security=${security%/}
