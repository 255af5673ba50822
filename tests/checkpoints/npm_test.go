package checkpoints

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestRecipeNpm is TestPrograms for an installer, which needs this machine's npm: make test-recipes.
func TestRecipeNpm(t *testing.T) {
	onEach(t, func(w *world) {
		random := rand.New(rand.NewPCG(*seed, 3))
		w.Logf("-rounds %d -seed %d", *rounds, *seed)
		for round := range max(2, *rounds/20) {
			w.killed(fmt.Sprintf("npm, round %d", round), tool{name: "npm", loop: npm + npmLoop, check: npm + npmCheck, uid: 1000}, random)
		}
	})
}

// npm works offline, with all that it writes in the checkout.
const npm = `
export HOME="$PWD/home"
npm() { command npm --offline --no-audit --no-fund --no-update-notifier --loglevel=error "$@" >/dev/null; }
`

// npmLoop installs packages of 100 files. It says that a step is done before and after each file tree is removed, and when
// all are installed, so that pauses are at all times.
const npmLoop = `
mkdir -p home
for p in a b c; do
	mkdir package
	i=0
	while [ $i -lt 100 ]; do
		echo "$p $i" >package/f$i.js
		i=$((i + 1))
	done
	echo "{\"name\": \"$p\", \"version\": \"1.0.0\"}" >package/package.json
	tar -czf $p.tgz package
	rm -r package
done
echo '{"name": "app", "version": "1.0.0"}' >package.json
n=0
acked() { n=$((n + 1)); /usr/bin/python3 -c "import os; os.pwrite(3, b'%8d' % $n, 0)"; }
while :; do
	acked
	rm -rf node_modules package-lock.json
	acked
	npm install ./a.tgz ./b.tgz ./c.tgz
	for p in a b c; do test -f node_modules/$p/f99.js; done
	acked
done`

// npmCheck installs anew, because npm itself does not mend a package that a kill left half unpacked.
const npmCheck = `
rm -rf node_modules package-lock.json
npm install ./a.tgz ./b.tgz ./c.tgz
for p in a b c; do
	test "$(ls node_modules/$p | wc -l)" = 101
done
echo installed`
