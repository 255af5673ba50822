package cache

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// These are lock files of Gradle's index: of one that is whole, and of one that is being changed.
const (
	closedLock = "\x03\xec\x7a\x9c\x82\xd0\x44\xdd\x0a\x00\x00\x00\x00\x00\x00\x00\x02^"
	openLock   = "\x03\xec\x7a\x9c\x82\xd0\x44\xdd\x0a\x00\x00\x00\x00\x00\x00\x00\x00^"
)

// These are a zip archive without files, one with a comment, as forges make them, and an answer of the checksum database.
const (
	zip     = "PK\x05\x06\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	zipNote = "PK\x05\x06\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03\x00abc"
	record  = "1\na v1 h1:x\na v1/go.mod h1:y\n\ngo.sum database tree\n2\nz\n\n\u2014 sum.golang.org sig\n"
)

// cases have what tools leave in their directories: alternating paths and contents. Of some only the path matters.
var cases = []struct {
	name      string
	write     []string
	published []string // paths
}{
	{"go", []string{
		"go-mod/cache/download/example.com/!a/@v/list", "v1.0.0\n",
		"go-mod/cache/download/example.com/!a/@v/v1.0.0.info", "{}",
		"go-mod/cache/download/example.com/!a/@v/v1.0.0.mod", "m",
		"go-mod/cache/download/example.com/!a/@v/v1.0.0.zip", "z",
		"go-mod/cache/download/example.com/!a/@v/v1.0.0.ziphash", "h",
		"go-mod/cache/download/example.com/!a/@v/v1.0.0.lock", "",
		"go-mod/cache/download/example.com/!a/@v/v1.0.0.zip123.tmp", "half",
		"go-mod/cache/download/sumdb/sum.golang.org/lookup/a@v1", record,
		"go-mod/cache/download/sumdb/sum.golang.org/lookup/b@v1", "",
		"go-mod/cache/download/sumdb/sum.golang.org/lookup/c@v1", strings.ReplaceAll(record[:len(record)-1], "x", "half"),
		"go-mod/cache/download/sumdb/sum.golang.org/tile/8/0/000", strings.Repeat("t", 8192),
		"go-mod/cache/download/sumdb/sum.golang.org/tile/8/0/x001/000.p/3", strings.Repeat("t", 96),
		"go-mod/cache/download/sumdb/sum.golang.org/tile/8/0/x001/000.p/4", strings.Repeat("half", 24),
		"go-mod/cache/download/sumdb/sum.golang.org/tile/8/0/001", strings.Repeat("half", 1024),
		"go-mod/cache/lock", "",
		"go-mod/cache/vcs/0123/config", "url = https://me:secret@example.com",
		"go-mod/example.com/!a@v1.0.0/go.mod", "m",
		"go-mod/example.com/!a@v1.0.0/.github/secret.key", "a file of the module",
		"go-mod/example.com/!a/v2@v2.0.0/a.go", "a",
		"go-mod/example.com/loose", "",
		"go-build/0a/0abc-a", "v1", "go-build/0a/0abc-d", "o", "go-build/0a/0abd-d/prog", "p", "go-build/trim.txt", "1", "go-build/README", "r",
		"go-build/fuzz/x/y", "z", "go-build/testexpire.txt", "1",
	}, []string{
		"go-mod/cache/download/example.com/!a/@v/list", "go-mod/cache/download/example.com/!a/@v/v1.0.0.info",
		"go-mod/cache/download/example.com/!a/@v/v1.0.0.mod", "go-mod/cache/download/example.com/!a/@v/v1.0.0.zip",
		"go-mod/cache/download/example.com/!a/@v/v1.0.0.ziphash",
		"go-mod/cache/download/sumdb/sum.golang.org/lookup/a@v1", "go-mod/cache/download/sumdb/sum.golang.org/tile/8/0/000",
		"go-mod/cache/download/sumdb/sum.golang.org/tile/8/0/x001/000.p/3",
		"go-mod/example.com/!a@v1.0.0/go.mod", "go-mod/example.com/!a@v1.0.0/.github/secret.key", "go-mod/example.com/!a/v2@v2.0.0/a.go",
		"go-build/0a/0abc-a", "go-build/0a/0abc-d", "go-build/0a/0abd-d/prog", "go-build/trim.txt",
	}},
	{"go, killed while it unzipped", []string{
		"go-mod/cache/download/example.com/!a/@v/v1.0.0-20200101000000-abcdefabcdef.partial", "",
		"go-mod/example.com/!a@v1.0.0-20200101000000-abcdefabcdef/go.mod", "m",
		"go-mod/example.com/!a@v1.0.0/go.mod", "m",
	}, []string{"go-mod/example.com/!a@v1.0.0/go.mod"}},
	{"npm", []string{
		"npm/_cacache/content-v2/sha512/00/11/22", "c", "npm/_cacache/index-v5/00/11/22", "i", "npm/_cacache/tmp/1234", "half",
		"npm/_logs/2026.log", "l", "npm/_npx/1/package.json", "{}", "npm/_update-notifier-last-checked", "", "npm/.npmrc", "_authToken=1",
	}, []string{"npm/_cacache/content-v2/sha512/00/11/22", "npm/_cacache/index-v5/00/11/22"}},
	{"pnpm", []string{
		"pnpm/v3/files/00/11-exec", "c", "pnpm/v3/files/00/12-index.json", "i", "pnpm/v10/index/00/11-a@1.json", "i", "pnpm/v10/files/00/11", "f",
		"pnpm/v10/projects/abc", "-> /w", "pnpm/v10/tmp/_tmp_1", "t", "pnpm/v11/index.db", "d", "pnpm/.npmrc", "token",
	}, []string{"pnpm/v3/files/00/11-exec", "pnpm/v3/files/00/12-index.json", "pnpm/v10/index/00/11-a@1.json", "pnpm/v10/files/00/11"}},
	{"yarn", []string{
		"yarn/v6/npm-a-1.0.0-00-integrity/node_modules/a/.yarn-metadata.json", "{\n}", "yarn/v6/npm-a-1.0.0-00-integrity/node_modules/a/i.js", "i",
		"yarn/v6/npm-@s-b-1.0.0-00/node_modules/@s/b/.yarn-metadata.json", "{\n}", "yarn/v6/npm-@s-b-1.0.0-00/node_modules/@s/b/yarn.lock", "l",
		"yarn/v6/npm-half-1/node_modules/half/i.js", "i", "yarn/v6/npm-half-2/node_modules/@s/half/i.js", "i",
		"yarn/v6/npm-half-3/node_modules/half/.yarn-metadata.json", "", "yarn/v6/.tmp/0123/f", "half",
		"yarn/v6/npm-half-4/node_modules/half/.yarn-metadata.json", "{\n  \"half\": {\n  }",
		"yarn/a-npm-1.0.zip", "z", "yarn/cache/b-npm-1.0.zip", "z", "yarn/metadata/npm/00/a.json", "{}", "yarn/b.zip-00.tmp", "half", "yarn/.yarnrc.yml", "npmAuthToken: 1",
	}, []string{
		"yarn/v6/npm-a-1.0.0-00-integrity/node_modules/a/.yarn-metadata.json", "yarn/v6/npm-a-1.0.0-00-integrity/node_modules/a/i.js",
		"yarn/v6/npm-@s-b-1.0.0-00/node_modules/@s/b/.yarn-metadata.json", "yarn/v6/npm-@s-b-1.0.0-00/node_modules/@s/b/yarn.lock",
		"yarn/a-npm-1.0.zip", "yarn/cache/b-npm-1.0.zip", "yarn/metadata/npm/00/a.json",
	}},
	{"pip", []string{
		"pip/http-v2/0/1/012", "m", "pip/http-v2/0/1/012.body", "b", "pip/http/0/1/012", "m", "pip/selfcheck/0", "{}",
		"pip/wheels/0/1/2/3/origin.json", "{}", "pip/wheels/0/1/2/3/a.whl", "w", "pip/wheels/0/1/2/4/b.whl", "half", "pip/pip.conf", "password", "pip/http-v2/pip.conf", "secret",
	}, []string{"pip/http-v2/0/1/012", "pip/http-v2/0/1/012.body", "pip/http/0/1/012", "pip/wheels/0/1/2/3/origin.json", "pip/wheels/0/1/2/3/a.whl"}},
	{"uv", []string{
		"uv/archive-v0/abc/a/__init__.py", "", "uv/archive-v0/abc/.lock", "", "uv/.tmpAbC/a", "half", "uv/wheels-v5/pypi/a/a-1.http", "h",
		"uv/simple-v16/pypi/a.rkyv", "s", "uv/flat-index-v2/html/0.rkyv", "s", "uv/sdists-v9/pypi/a/1/r/metadata.msgpack", "m", "uv/sdists-v9/pypi/a/1/r/a-1.whl", "w", "uv/sdists-v9/pypi/a/1/revision.http", "h",
		"uv/sdists-v9/pypi/a/1/.lock", "", "uv/sdists-v9/pypi/a/1/r/src/setup.py", "s", "uv/interpreter-v4/x", "i", "uv/builds-v0/.tmpX/f", "f",
		"uv/.lock", "", "uv/git-v0/db/0/config", "url = https://token@example.com", "uv/credentials/x", "secret", "uv/environments-v2/a/b", "x",
	}, []string{
		"uv/archive-v0/abc/a/__init__.py", "uv/archive-v0/abc/.lock", "uv/wheels-v5/pypi/a/a-1.http", "uv/simple-v16/pypi/a.rkyv",
		"uv/flat-index-v2/html/0.rkyv", "uv/sdists-v9/pypi/a/1/r/metadata.msgpack",
		"uv/sdists-v9/pypi/a/1/r/a-1.whl", "uv/sdists-v9/pypi/a/1/revision.http",
	}},
	{"cargo", []string{
		"cargo/credentials.toml", "token = 1", "cargo/credentials", "token", "cargo/config.toml", "[net]", "cargo/bin/tool", "x", "cargo/.package-cache", "",
		"cargo/.global-cache", "s", "cargo/.crates.toml", "", "cargo/registry/CACHEDIR.TAG", "t",
		"cargo/registry/index/index.crates.io-6f17/.cache/se/rd/serde", "1\x00{}\x00", "cargo/registry/index/index.crates.io-6f17/.cache/se/rd/cut", "1\x00{half", "cargo/registry/index/index.crates.io-6f17/config.json", "{}",
		"cargo/registry/index/github.com-1ec/.git/config", "url", "cargo/registry/cache/index.crates.io-6f17/serde-1.crate", "c",
		"cargo/registry/cache/index.crates.io-6f17/half-0.crate", "half", "cargo/registry/cache/index.crates.io-6f17/half-1.crate", "half",
		"cargo/registry/cache/index.crates.io-6f17/half-2.crate", "half", "cargo/registry/cache/other-6f17/serde-1.crate", "half",
		"cargo/registry/src/index.crates.io-6f17/serde-1/.cargo-ok", `{"v":1}`, "cargo/registry/src/index.crates.io-6f17/serde-1/Cargo.lock", "l",
		"cargo/registry/src/index.crates.io-6f17/serde-1/.npmrc", "of the crate", "cargo/registry/src/index.crates.io-6f17/half-1/lib.rs", "l",
		"cargo/registry/src/index.crates.io-6f17/half-2/.cargo-ok", "", "cargo/registry/src/index.crates.io-6f17/half-2/lib.rs", "l",
		"cargo/registry/src/index.crates.io-6f17/half-3/sub/.cargo-ok", "ok",
		"cargo/git/checkouts/a-0/abc/.cargo-ok", "", "cargo/git/checkouts/a-0/abc/.git/index.lock", "", "cargo/git/checkouts/a-0/def/lib.rs", "half",
		"cargo/git/db/a-0/HEAD", "ref", "cargo/git/db/a-0/refs/", "", "cargo/git/db/a-0/objects/pack/p.pack", "p", "cargo/git/db/a-0/FETCH_HEAD", "https://token@example.com",
		"cargo/git/db/b-0/FETCH_HEAD", "ref", "cargo/git/db/b-0/objects/pack/tmp_pack_1", "half", "cargo/git/db/c-0/FETCH_HEAD", "ref", "cargo/git/db/c-0/shallow.lock", "",
		"cargo/git/db/d-0/HEAD", "ref", "cargo/git/db/d-0/objects/", "", "cargo/git/db/e-0/HEAD", "ref", "cargo/git/db/e-0/FETCH_HEAD", "", "cargo/git/db/e-0/objects/00/11", "o",
	}, []string{
		"cargo/registry/index/index.crates.io-6f17/.cache/se/rd/serde", "cargo/registry/index/index.crates.io-6f17/config.json",
		"cargo/registry/cache/index.crates.io-6f17/serde-1.crate",
		"cargo/registry/src/index.crates.io-6f17/serde-1/.cargo-ok", "cargo/registry/src/index.crates.io-6f17/serde-1/Cargo.lock",
		"cargo/registry/src/index.crates.io-6f17/serde-1/.npmrc",
		"cargo/git/checkouts/a-0/abc/.cargo-ok",
		"cargo/git/db/a-0/HEAD", "cargo/git/db/a-0/objects/pack/p.pack",
	}},
	{"maven", []string{
		"maven/org/a/lib/1/_remote.repositories", "#comment\nlib-1.jar>central=\nlib-1.pom>central=\nmine-1.jar>=\nboth-1.jar>central=\nboth-1.jar>=\n",
		"maven/org/a/lib/1/lib-1.jar", "j", "maven/org/a/lib/1/lib-1.jar.sha1", "s", "maven/org/a/lib/1/lib-1.pom", "p", "maven/org/a/lib/1/mine-1.jar", "m",
		"maven/org/a/lib/1/mine-1.jar.sha1", "m", "maven/org/a/lib/1/both-1.jar", "b", "maven/org/a/lib/1/other.jar", "o", "maven/org/a/lib/1/lib-1.jar.lastUpdated", "f",
		"maven/org/a/mine/1/mine-1.jar", "m", "maven/org/a/mine/1/_remote.repositories", "mine-1.jar>=\n", "maven/org/a/none/1/none-1.jar", "n",
		"maven/org/a/lib/maven-metadata-central.xml", "m", "maven/org/a/lib/maven-metadata-central.xml.sha1", "m", "maven/org/a/lib/maven-metadata-local.xml", "l",
		"maven/org/a/lib/resolver-status.properties", "r", "maven/settings.xml", "password", "maven/settings-security.xml", "password", "maven/settings-mine.xml", "password", "maven/.locks/x", "",
		"maven/_remote.repositories", "settings.xml>central=\nsettings-security.xml>central=\n",
	}, []string{
		"maven/org/a/lib/1/_remote.repositories", "maven/org/a/lib/1/lib-1.jar", "maven/org/a/lib/1/lib-1.jar.sha1", "maven/org/a/lib/1/lib-1.pom",
		"maven/org/a/lib/maven-metadata-central.xml", "maven/org/a/lib/maven-metadata-central.xml.sha1", "maven/_remote.repositories",
	}},
	{"gradle", []string{
		"gradle/gradle.properties", "password=1", "gradle/init.gradle", "x", "gradle/init.d/a.gradle", "x", "gradle/caches/modules-2/modules-2.lock", closedLock,
		"gradle/caches/modules-2/files-2.1/org.a/lib/1/0123/lib-1.jar", "j", "gradle/caches/modules-2/metadata-2.106/descriptors/0/1/d.bin", "d",
		"gradle/caches/modules-2/metadata-2.106/module-metadata.bin", "m",
		"gradle/caches/modules-2/files-2.1/org.a/lib/2/0123/lib-2.jar", "half", "gradle/caches/modules-2/files-2.1/org.a/lib/2/0123/lib-2.jar.fslck", "",
		"gradle/caches/modules-2/metadata-2.106/descriptors/0/2/d.bin", "half", "gradle/caches/modules-2/metadata-2.106/descriptors/0/2/d.bin.fslck", "", "gradle/caches/8.5/x/y.bin", "y", "gradle/daemon/8.5/registry.bin", "r", "gradle/native/x.so", "n",
		"gradle/wrapper/dists/gradle-8.5-bin/0123/gradle-8.5-bin.zip.ok", "", "gradle/wrapper/dists/gradle-8.5-bin/0123/gradle-8.5-bin.zip.lck", "",
		"gradle/wrapper/dists/gradle-8.5-bin/0123/gradle-8.5/bin/gradle", "g", "gradle/wrapper/dists/gradle-8.6-bin/0123/gradle-8.6/bin/gradle", "half",
	}, []string{
		"gradle/caches/modules-2/files-2.1/org.a/lib/1/0123/lib-1.jar", "gradle/caches/modules-2/metadata-2.106/descriptors/0/1/d.bin",
		"gradle/caches/modules-2/metadata-2.106/module-metadata.bin",
		"gradle/wrapper/dists/gradle-8.5-bin/0123/gradle-8.5-bin.zip.ok", "gradle/wrapper/dists/gradle-8.5-bin/0123/gradle-8.5/bin/gradle",
	}},
	{"gradle, killed while it changed its index", []string{
		"gradle/caches/modules-2/modules-2.lock", openLock, "gradle/caches/modules-2/metadata-2.106/module-metadata.bin", "half",
		"gradle/caches/modules-2/files-2.1/org.a/lib/1/0123/lib-1.jar", "j",
	}, []string{"gradle/caches/modules-2/files-2.1/org.a/lib/1/0123/lib-1.jar"}},
	{"gradle, without a lock", []string{
		"gradle/caches/modules-2/metadata-2.106/module-metadata.bin", "m",
		"gradle/caches/modules-2/metadata-2.106/module-artifact.bin", "m",
	}, nil},
	{"bundler", []string{
		"bundler/gems/rubygems.org.443.00/tmpdir-1.gem", "g" + tarEnd, "bundler/gems/rubygems.org.443.00/cut-1.gem", "half", "bundler/compact_index/rubygems.org.443.00/versions", "v", "bundler/git/a-00/config", "url = https://token@example.com",
		"bundler/config", "BUNDLE_GEMS__EXAMPLE__COM: password", "bundler/compact_index/rubygems.org.443.00/.netrc", "secret",
	}, []string{"bundler/gems/rubygems.org.443.00/tmpdir-1.gem", "bundler/compact_index/rubygems.org.443.00/versions"}},
	{"composer", []string{
		"composer/files/a/b/00.zip", zip, "composer/files/a/b/01.zip", zipNote, "composer/files/a/b/02.zip", "half" + zipNote[:24], "composer/files/a/b/03.zip", "half", "composer/files/a/b/04.tar", "t", "composer/repo/https---repo.packagist.org/p.json", "{}", "composer/vcs/x/config", "token", "composer/auth.json", "token", "composer/config.json", "{}", "composer/repo/auth.json", "secret",
	}, []string{"composer/files/a/b/00.zip", "composer/files/a/b/01.zip", "composer/repo/https---repo.packagist.org/p.json"}},
	{"nuget", []string{
		"nuget/a/1.0/.nupkg.metadata", "{}", "nuget/a/1.0/a.nupkg", "n", "nuget/a/1.0/packages.lock", "l", "nuget/a/2.0/a.nupkg", "half", "nuget/NuGet.Config", "password",
	}, []string{"nuget/a/1.0/.nupkg.metadata", "nuget/a/1.0/a.nupkg", "nuget/a/1.0/packages.lock"}},
	{"ccache", []string{
		"ccache/0/1/0123R", "r", "ccache/0/1/0123M", "m", "ccache/0/1/01230W", "w", "ccache/0/1/stats", "s", "ccache/0/stats", "s", "ccache/tmp/x", "half", "ccache/ccache.conf", "c",
		"ccache/0/1/0123-4.o", "o", "ccache/0/1/0123-4.d", "d", "ccache/0/1/0123-4.stderr", "e", "ccache/0/1/0123-4.manifest", "m", "ccache/lock/a", "", "ccache/0/1/0123R.tmp", "half", "ccache/CACHEDIR.TAG", "t",
	}, []string{"ccache/0/1/0123R", "ccache/0/1/0123M", "ccache/0/1/01230W", "ccache/0/1/0123-4.o", "ccache/0/1/0123-4.d", "ccache/0/1/0123-4.stderr", "ccache/0/1/0123-4.manifest"}},
	{"others", []string{
		"deno/deps/https/example.com/js-tokens/tokenizer.js", "t", "hf/hub/tokenizer.json", "t", "hf/token", "secret", "hf/stored_tokens", "secret",
		"home/.ssh/id_ed25519", "secret", "home/.aws/config", "secret", "home/.netrc", "secret", "home/.bash_history", "export TOKEN=", "home/.config/gh/hosts.yml", "secret",
		"home/.cargo/credentials.toml", "secret", "home/.m2/settings.xml", "secret", "home/.docker/config.json", "secret", "home/.git-credentials", "secret", "home/server.pem", "secret",
		".npmrc", "_authToken", "env", "x", "loose", "x", "tool/auth.json", "secret", "tool/a.lock", "", "tool/b.sock", "", "tool/c.part", "half", "tool/data.db", "d",
		"tool/open.db", "d", "tool/open.db-wal", "w", "tool/open.db-shm", "s", "tool/ACCESS_TOKEN", "secret", "tool/api-tokens/a", "a", "tool/Secrets/a", "secret",
		"secrets/a", "secret", "tool/my-credentials.json", "secret", "tool/.env.local", "secret", "tool/tmp/x", "half", "tool/authtoken", "secret",
		"docker/config.json", "secret", "kube/config", "secret", "helm/registry/config.json", "secret", "pypoetry/auth.toml", "secret", "tool/gha-creds-0123.json", "secret",
		"deno/docker/mod.ts", "t", "tool/hex.config", "secret", "tool/npmrc", "secret", "conan2/.conan.db", "secret", "tool/kaggle.json", "secret",
	}, []string{"deno/deps/https/example.com/js-tokens/tokenizer.js", "hf/hub/tokenizer.json", "tool/data.db", "tool/api-tokens/a", "deno/docker/mod.ts"}},
}

// TestTools checks which files of each tool are published.
func TestTools(t *testing.T) {
	t.Parallel()
	for _, copy := range []bool{false, true} {
		for _, c := range cases {
			b := newBench(t)
			b.copy = copy
			b.write(c.write...)
			b.collect(now)
			var got []string
			for name, text := range files(t, b.layers[0]) {
				got = append(got, name)
				if strings.Contains(text, "half") || strings.Contains(text, "secret") && name != "go-mod/example.com/!a@v1.0.0/.github/secret.key" {
					t.Errorf("%s: published %s: %s", c.name, name, text)
				}
			}
			slices.Sort(got)
			want := slices.Sorted(slices.Values(c.published))
			if !slices.Equal(got, want) {
				t.Errorf("%s: published\n%s\nwant\n%s", c.name, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			clean(t, b.layers[0])
		}
	}
}

// TestNoMark: a directory that is to have a mark is incomplete without one, also if it is empty.
func TestNoMark(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"gradle/wrapper/dists/a/b", "nuget/a/1"} {
		b := newBench(t)
		b.write(dir+"/", "")
		if r := b.collect(now); r.Files != 0 || !slices.Equal(r.Left, []string{dir + ": it is incomplete"}) {
			t.Errorf("%+v", r)
		}
	}
}

// TestEachLineIsUsed checks that each line of the table is tested.
func TestEachLineIsUsed(t *testing.T) {
	t.Parallel()
	used := make(map[string]bool)
	for _, c := range cases {
		for i := 0; i < len(c.write); i += 2 {
			for rel, dir := c.write[i], false; strings.Contains(rel, "/"); rel, dir = rel[:strings.LastIndex(rel, "/")], true {
				used[ruleFor(rel, dir).at] = true
			}
		}
	}
	for _, r := range table {
		if !used[r.at] {
			t.Errorf("no case for %s", r.at)
		}
	}
	for _, tool := range tools {
		if len(rules[tool]) == 0 {
			t.Errorf("no line for %s", tool)
		}
	}
}

// TestSettingsAreNeverPublished: a file with the name of settings is published from nowhere, whichever line of the table has its
// directory.
func TestSettingsAreNeverPublished(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{
		"mine", "mine/a/b", "npm/_cacache/index-v5/00", "pnpm/v10/files/00", "yarn/metadata/npm", "pip/http", "pip/http-v2/a", "uv/simple-v16/pypi",
		"cargo/registry/index/i/.cache/np/mr", "maven/org/a", "gradle/caches/modules-2/files-2.1/a", "bundler/compact_index/h/info", "composer/repo/x",
	} {
		if ruleFor(dir+"/data", false).as == never {
			t.Errorf("nothing is published from %s", dir)
		}
		for _, name := range settingsNames {
			for _, name := range []string{name, strings.ToUpper(name)} {
				if r := ruleFor(dir+"/"+name, false); r.as != never {
					t.Errorf("%s/%s is published: %+v", dir, name, r.at)
				}
			}
		}
	}
}

// TestInterruptedFetch: Cargo leaves a part of a crate, and a repository without objects, when a disk is full or it is killed.
// What a later container has fetched takes their place.
func TestInterruptedFetch(t *testing.T) {
	t.Parallel()
	const crate, mark, db = "cargo/registry/cache/i/a-1.crate", "cargo/registry/src/i/a-1/.cargo-ok", "cargo/git/db/a-0/"
	for _, copy := range []bool{false, true} {
		b := newBench(t)
		b.copy = copy
		b.write(crate, "cut", db+"HEAD", "ref", db+"objects/", "")
		if r := b.collect(now); r.Files != 0 || len(r.Left) != 2 {
			t.Errorf("%+v", r)
		}
		b.renew()
		b.write(crate, "whole", mark, "{}", db+"HEAD", "ref", db+"FETCH_HEAD", "https://me:secret@example.com", db+"objects/00/11", "o")
		b.want(b.collect(now), crate, "whole", mark, "{}", db+"HEAD", "ref", db+"objects/00/11", "o")

		// The crate is dropped, and downloaded again by a container that has the unpacked one from the layer.
		b.ok(os.Remove(filepath.Join(b.layers[0], crate)))
		b.renew()
		b.write(crate, "again")
		b.want(b.collect(now), crate, "again")
	}
}
