# a hook of git-lfs: git-lfs runs it or, where it is not installed, a push of commits with files of git-lfs fails, and
# everything else goes on. git runs a hook without a first line that names a program with sh. The lines above are blank
# because git-lfs takes a hook for its own, and replaces it, if the first 1024 bytes are: with any other hook in its
# place, `git lfs install` fails.

if command -v git-lfs >/dev/null 2>&1; then
	exec git-lfs "${0##*/}" "$@"
fi
[ "${0##*/}" = pre-push ] || exit 0
LC_ALL=C
export LC_ALL

# The remote has what its tracking branches have. Without a name for it, what it answered counts alone.
commits=$(
	while read -r ref new other old; do
		case $new in *[!0]*) echo "$new" ;; esac
		git cat-file -e "$old" 2>/dev/null && echo "^$old"
	done
	git for-each-ref --format='^%(objectname)' "refs/remotes/$1/"
)
nl='
'
case $nl$commits in
*"$nl"[0-9a-f]*) ;;
*) exit 0 ;; # branches are only deleted
esac
for program in cut grep tr; do
	command -v "$program" >/dev/null 2>&1 || {
		echo "helmdeck-lfs: $program is missing, so it can't be seen whether the push has files of git-lfs: install git-lfs or $program" >&2
		exit 1
	}
done
# A pointer has 100 to 1023 bytes, and begins with its version.
if echo "$commits" | git rev-list --objects --stdin |
	git cat-file --batch-check='%(objecttype) %(objectsize) %(objectname) %(rest)' |
	grep -E '^blob ([1-9][0-9][0-9]|10[01][0-9]|102[0-3]) ' | cut -d ' ' -f 3 | git cat-file --batch | tr -d '\000' |
	grep -A 1 -E '^[0-9a-f]+ blob [0-9]+$' |
	grep -q -x -E 'version (https://git-lfs\.github\.com/spec/v1|https://hawser\.github\.com/spec/v1|http://git-media\.io/v/2)'; then
	echo "helmdeck-lfs: the push has files of git-lfs, and only git-lfs can upload their contents: install it in this image" \
		"(the package git-lfs), or push without the contents: git push --no-verify" >&2
	exit 1
fi
