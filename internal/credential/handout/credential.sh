# git reads this as a credential helper, see gitcredentials(7): .git/config names it. It asks the
# volume plugin, on the socket beside it, for the credential of the volume's repository. The socket
# answers while the mount lasts. `git credential-cache` sends its input to a socket.
case $1 in
get | erase) ;;
*) exit 0 ;; # nothing is stored here
esac
answer=$(git credential-cache --socket "${0%/*}/socket" "$1")
case $1$answer in
get) echo 'helmdeck/repos: no credential, because the plugin does not answer' >&2 ;;
getproblem=*) echo "helmdeck/repos: ${answer#problem=}" >&2 ;;
get*) printf '%s\n' "$answer" ;;
esac
