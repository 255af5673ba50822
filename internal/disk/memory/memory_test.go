package memory

import (
	"testing"
	"testing/fstest"
)

// meminfo is of a machine with 8 GB.
const meminfo = "MemTotal:        7812500 kB\nMemFree:          123456 kB\nHugePages_Total:       0\n"

const machineBytes = 7812500 << 10

func TestLimit(t *testing.T) {
	const (
		v1none = "9223372036854771712\n" // version 1 has no word for it
		gib    = 1 << 30
	)
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"no control groups", nil, machineBytes},
		{"v2, no limit", map[string]string{
			"proc/self/cgroup":                          "0::/user.slice/a\n",
			"sys/fs/cgroup/user.slice/a/memory.max":     "max\n",
			"sys/fs/cgroup/user.slice/a/memory.current": "5\n",
		}, machineBytes},
		{"v2, the group's own", map[string]string{
			"proc/self/cgroup":                      "0::/user.slice/a\n",
			"sys/fs/cgroup/user.slice/a/memory.max": "1073741824\n",
			"sys/fs/cgroup/user.slice/memory.max":   "2147483648\n",
		}, gib},
		{"v2, one above it", map[string]string{
			"proc/self/cgroup":                      "0::/user.slice/a\n",
			"sys/fs/cgroup/user.slice/a/memory.max": "max\n",
			"sys/fs/cgroup/user.slice/memory.max":   "2147483648\n",
		}, 2 * gib},
		{"v2, a namespace of its own", map[string]string{
			"proc/self/cgroup":         "0::/\n",
			"sys/fs/cgroup/memory.max": "1073741824\n",
		}, gib},
		{"v2, the host's path, and the root is the container's", map[string]string{
			"proc/self/cgroup":         "0::/system.slice/docker-1.scope\n",
			"sys/fs/cgroup/memory.max": "1073741824\n",
		}, gib},
		{"v2, a path above the namespace", map[string]string{
			"proc/self/cgroup":         "0::/../other\n",
			"sys/fs/cgroup/memory.max": "1073741824\n",
		}, gib},
		{"more than the machine has", map[string]string{
			"proc/self/cgroup":         "0::/\n",
			"sys/fs/cgroup/memory.max": "109951162777600\n",
		}, machineBytes},
		{"v1", map[string]string{
			"proc/self/cgroup": "3:cpu,cpuacct:/x\n4:memory:/docker/1\n0::/\n",
			"sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": "1073741824\n",
			"sys/fs/cgroup/memory/docker/memory.limit_in_bytes":   v1none,
			"sys/fs/cgroup/memory/memory.limit_in_bytes":          v1none,
		}, gib},
		{"v1, the host's path, and the root is the container's", map[string]string{
			"proc/self/cgroup":                           "4:cpu,memory:/docker/1\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "1073741824\n",
		}, gib},
		{"v1, no limit", map[string]string{
			"proc/self/cgroup":                           "4:memory:/\n1:name=systemd:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": v1none,
		}, machineBytes},
		{"both, with memory in v2", map[string]string{
			"proc/self/cgroup":                   "1:name=systemd:/a\n0::/a\n",
			"sys/fs/cgroup/unified/a/memory.max": "1073741824\n",
		}, gib},
	} {
		root := fstest.MapFS{"proc/meminfo": {Data: []byte(meminfo)}}
		for name, text := range tt.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got, err := limit(root); got != tt.want || err != nil {
			t.Errorf("%s: %d, %v, want %d", tt.name, got, err, int64(tt.want))
		}
	}
}

func TestLimitRefusesInvalid(t *testing.T) {
	for name, files := range map[string]fstest.MapFS{
		"no memory":    {"proc/meminfo": {Data: []byte("MemFree: 5 kB\n")}},
		"no number":    {"proc/meminfo": {Data: []byte("MemTotal: x kB\n")}},
		"a limit":      {"proc/meminfo": {Data: []byte(meminfo)}, "proc/self/cgroup": {Data: []byte("0::/\n")}, "sys/fs/cgroup/memory.max": {Data: []byte("much\n")}},
		"a group line": {"proc/meminfo": {Data: []byte(meminfo)}, "proc/self/cgroup": {Data: []byte("0\n")}},
	} {
		if got, err := limit(files); err == nil {
			t.Errorf("%s: %d, want an error", name, got)
		}
	}
}

func TestLimitOfThisMachine(t *testing.T) {
	if got, err := Limit(); err != nil || got < 64<<20 {
		t.Errorf("%d, %v", got, err)
	}
}
