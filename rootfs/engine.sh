# Queries of the engine, for install and uninstall. Sourced, not executed.

plugin=helmdeck/repos

die() { echo "${0##*/}: $*" >&2; exit 1; }

docker version >/dev/null || die "no Docker engine answers this user (root, or a member of the group docker, has access)"

installed() { docker plugin inspect "$plugin" >/dev/null 2>&1; }

enabled() { [ "$(docker plugin inspect -f '{{.Enabled}}' "$plugin")" = true ]; }

# volumes prints the names of the plugin's volumes. It prints none while the plugin is disabled. The engine's
# name for the driver includes the tag.
volumes() {
	docker volume ls --format '{{.Driver}} {{.Name}}' | awk -v plugin="$plugin" '$1 == plugin || $1 == plugin ":latest" { print $2 }'
}

# containers [-a] prints the running (with -a: all) containers that use a volume of the plugin.
containers() {
	docker ps "$@" -q --no-trunc | while read -r id; do
		docker inspect -f '{{$c := .}}{{range .Mounts}}{{.Driver}} {{$c.Name}} ({{$c.State.Status}}): {{.Name}} at {{.Destination}}{{"\n"}}{{end}}' "$id" 2>/dev/null || true # it has just ended
	done | awk -v plugin="$plugin" '$1 == plugin || $1 == plugin ":latest" { $1 = " "; print }'
}
