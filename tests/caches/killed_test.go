package caches

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"
)

// tool builds something in a container, in the round $ROUND, of which nothing was built before. The script
// prints RESULT and what it built.
type tool struct {
	name, script string
	prefix       string // of the container's shell
	env          []string
	// offline means that it works without a network after it has worked with one. Others ask for each page again.
	offline bool
}

// needProgram fails the test if a program is missing.
func needProgram(t *testing.T, name, debian string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Fatalf("%v: this test runs this machine's %s (Debian: %s)", err, name, debian)
	}
}

// killed kills a tool at random moments, and publishes what it left. The next builds, with and without a network, must
// give what a build without a cache gives. One without a network may fail until one with a network has ended.
func killed(t *testing.T, tool tool, kills int) {
	w := newWorld(t)
	w.prefix = tool.prefix
	random := rand.New(rand.NewPCG(*seed, 1))
	t.Logf("-rounds %d -seed %d", *rounds, *seed)
	run := func(options ...string) (result string, took time.Duration) {
		c := w.start(options...)
		began := time.Now()
		got, out, err := c.run(false, tool.script, append(tool.env, "ROUND=0")...)
		if err != nil || got == "" {
			t.Fatalf("%s without a cache: %v\n%s", tool.name, err, out)
		}
		took = time.Since(began)
		c.end()
		w.published()
		return got, took
	}
	run() // what all rounds use, such as Go's own packages
	for round := 1; round <= *rounds; round++ {
		env := append(tool.env, fmt.Sprint("ROUND=", round))
		plain := w.start("publish", "never") // it has nothing of this round
		files := plain.files()
		began := time.Now()
		want, out, err := plain.run(false, tool.script, env...)
		took := time.Since(began)
		if err != nil {
			t.Fatalf("%s without a cache: %v\n%s", tool.name, err, out)
		}
		files = plain.files() - files
		plain.end()

		for kill := range kills {
			c := w.start()
			ctx, stop := context.WithCancel(t.Context())
			cmd, _ := c.command(ctx, false, tool.script, env...)
			when, counted := "", make(chan struct{})
			if kill%2 == 0 { // it writes nothing for most of the time
				n := random.IntN(files)
				when = fmt.Sprintf("when it had written %d of %d files", n, files)
				all := c.files() + n
				go func() {
					defer close(counted)
					for ctx.Err() == nil && c.files() < all {
					}
					stop()
				}()
			} else {
				after := time.Duration(random.Int64N(int64(took)))
				when = fmt.Sprintf("after %v of %v", after, took)
				time.AfterFunc(after, stop)
				close(counted)
			}
			err := cmd.Run()
			stop()
			<-counted
			c.end()
			w.published()
			t.Logf("round %d: killed %s: %v", round, when, err)

			c = w.start("publish", "never")
			if got, out, err := c.run(true, tool.script, env...); err == nil && got != want {
				t.Errorf("round %d: a build without a network after the kill: got %q, want %q\n%s", round, got, want, out)
			}
			c.end()
			c = w.start("publish", "never")
			c.want(fmt.Sprintf("round %d: a build after the kill", round), false, want, tool.script, env...)
			c.end()
		}
		c := w.start()
		c.want(fmt.Sprintf("round %d: the build after all kills", round), false, want, tool.script, env...)
		c.end()
		w.published()
		c = w.start()
		if tool.offline {
			c.want(fmt.Sprintf("round %d: the build without a network", round), true, want, tool.script, env...)
		}
		c.want(fmt.Sprintf("round %d: the last build", round), false, want, tool.script, env...)
		c.end()
		if t.Failed() {
			return
		}
	}
}

func TestGoKilled(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		killed(t, goDownload(t), 2)
		return
	}
	killed(t, goTool(t), 2)
}

func TestRecipeNpmKilled(t *testing.T) {
	t.Parallel()
	killed(t, npmTool(t), 3)
}

func TestRecipeCargoKilled(t *testing.T) {
	t.Parallel()
	killed(t, cargoTool(t), 3)
}

func TestRecipePipKilled(t *testing.T) {
	t.Parallel()
	killed(t, pipTool(t), 3)
}

// goEnv is the environment of Go, with some modules.
func goEnv(t *testing.T) []string {
	return []string{
		"GOPROXY=" + goProxy(t), "GONOSUMDB=*", "GOFLAGS=-mod=mod -modcacherw", "GOTOOLCHAIN=local", "CGO_ENABLED=0", "GOTELEMETRY=off",
	}
}

// goDownload downloads some modules with many files.
func goDownload(t *testing.T) tool {
	return tool{name: "go mod download", offline: true, env: goEnv(t), script: `
[ $OFFLINE = false ] || export GOPROXY=off
mkdir -p app; cd app; rm -f go.sum
{ echo 'module app'; echo 'go 1.21'; for m in a b c; do echo "require example.com/r$ROUND/$m v1.0.0"; done; } >go.mod
go mod download
echo "RESULT $(go mod verify)"
cd "$GOMODCACHE/example.com"
echo "RESULT $(find r$ROUND -type f | sort | xargs sha256sum | sha256sum)"
`}
}

// goTool builds a program of some modules with many files.
func goTool(t *testing.T) tool {
	return tool{name: "go", offline: true, env: goEnv(t), script: `
[ $OFFLINE = false ] || export GOPROXY=off
mkdir -p app; cd app
echo 'module app' >go.mod; echo 'go 1.21' >>go.mod
{
	echo 'package main'
	for m in a b c; do
		echo "import $m \"example.com/r$ROUND/$m\""
		echo "require example.com/r$ROUND/$m v1.0.0" >>go.mod
	done
	echo 'func main() { println("RESULT", a.Sum(), b.Sum(), c.Sum()) }'
} >main.go
go run .
echo "RESULT $(go mod verify)"
`}
}

// npmTool installs some packages with many files.
func npmTool(t *testing.T) tool {
	needProgram(t, "npm", "npm")
	return tool{name: "npm", offline: true, env: []string{"REGISTRY=" + npmRegistry(t)}, script: `
[ $OFFLINE = false ] || offline=--offline
mkdir -p app; cd app; rm -rf node_modules; echo '{}' >package.json
npm install ${offline:-} --no-audit --no-fund --no-update-notifier --registry "$REGISTRY" r$ROUND-a r$ROUND-b r$ROUND-c
rm node_modules/.package-lock.json
echo "RESULT $(find node_modules -type f | sort | xargs sha256sum | sha256sum)"
`}
}

// cargoTool builds a program of some crates with many files.
func cargoTool(t *testing.T) tool {
	needProgram(t, "cargo", "cargo")
	needProgram(t, "gcc", "gcc")
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"REGISTRY=" + crateRegistry(t), "RUSTUP_HOME=" + home + "/.rustup"}
	return tool{name: "cargo", offline: true, env: env, script: `
[ $OFFLINE = false ] || offline=--offline
mkdir -p app/src app/.cargo; cd app; rm -f Cargo.lock
printf '[source.crates-io]\nreplace-with = "local"\n[source.local]\nregistry = "sparse+%s/"\n' "$REGISTRY" \
	>.cargo/config.toml
printf '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\n' >Cargo.toml
for c in a b c; do echo "r$ROUND-$c = \"1\"" >>Cargo.toml; done
for c in a b c; do sums="${sums:-}r${ROUND}_$c::sum(), "; done
echo "fn main() { println!(\"RESULT {} {} {}\", $sums); }" >src/main.rs
CARGO_TARGET_DIR=/tmp/target cargo run ${offline:-}
`}
}

// pipTool installs a wheel, and a package that it builds a wheel of.
func pipTool(t *testing.T) tool {
	needProgram(t, "pip", "python3-pip")
	return tool{name: "pip", env: []string{"INDEX=" + pipIndex(t)}, script: `
python3 -m pip install --disable-pip-version-check --root-user-action=ignore --no-deps --no-compile \
	--index-url "$INDEX/simple/" --target /tmp/packages "r${ROUND}_a" "r${ROUND}_b"
cd /tmp/packages
for m in a b; do echo "RESULT $(python3 -c "import r${ROUND}_$m as m; print(m.total())")"; done
`}
}
