package cache

// tools are the directories of the cache, one for each tool.
var tools = []string{
	"go-mod", "go-build", "npm", "pnpm", "yarn", "pip", "uv", "cargo", "maven",
	"gradle", "bundler", "composer", "nuget", "ccache",
}

// table has a line for each path that is published, in the order in which they are tried. A path without a line in a
// tool's directory is not published: the tool may keep anything there, and what is missing is downloaded again. The
// comments say what makes a file or unit whole. Most tools rename it into place; else there is a check.
var table = []rule{
	// Go renames these into place, but for lists, which it makes again from the other names, and sums, of which it sees that
	// they are cut off. The names have the version, and go.sum the hashes.
	{at: "go-mod/cache/download/**/@v/list", as: replace}, // the known versions, asked for again by each go get
	{at: "go-mod/cache/download/**/@v/*.info", as: keep},
	{at: "go-mod/cache/download/**/@v/*.mod", as: keep},
	{at: "go-mod/cache/download/**/@v/*.zip", as: keep},
	{at: "go-mod/cache/download/**/@v/*.ziphash", as: keep},
	// It writes these under their final names, trusts them, and does not fail if the disk is full.
	{at: "go-mod/cache/download/sumdb/*/lookup/**", as: keep, check: tail(signed)}, // a module's lines of the checksum database
	{at: "go-mod/cache/download/sumdb/*/tile/**", as: keep, check: fullTile},       // hashes: never change
	{at: "go-mod/cache/**", as: never},                                             // locks, .partial, and repositories that Go fetches into
	// An unzipped module, into which Go never looks again. Its .partial is there before and until it is whole.
	{at: "go-mod/**/*@v*", as: unit, unitRule: unitRule{partial: true}},
	{at: "go-build/[0-9a-f][0-9a-f]/*-[ad]", as: keep, again: true, ever: true}, // named by hashes; one that was cut off is made again
	{at: "go-build/[0-9a-f][0-9a-f]/*-d/*", as: keep, again: true, ever: true},  // the programs of go run and go tool
	{at: "go-build/trim.txt", as: replace},                                      // when Go last looked for old entries

	// npm renames a content into place, and checks its hash at each use. Only the index says what is current: npm adds lines
	// to its files, each with its hash, and skips one that is cut off.
	{at: "npm/_cacache/content-v[0-9]*/**", as: keep},
	{at: "npm/_cacache/index-v[0-9]*/**", as: replace},

	// pnpm's store: files are named by their hash, indexes by that of the package. projects has links to work trees. pnpm
	// renames them into place, but for files from version 11 on: it checks those, and writes one that was cut off again. A
	// longer one is no better, because a work tree may have links to it.
	{at: "pnpm/v[0-9]*/files/**", as: keep},
	{at: "pnpm/v[0-9]*/index/**", as: keep},

	// Yarn 1 unpacks a package into v6/*/node_modules, and writes its metadata last: these can be long, and Yarn fails if they
	// are cut off. Later ones rename archives and metadata into place.
	{at: "yarn/v[0-9]*/*/node_modules/@*/*", as: unit, check: ends("\n}"), unitRule: unitRule{mark: ".yarn-metadata.json"}},
	{at: "yarn/v[0-9]*/*/node_modules/[^@]*", as: unit, check: ends("\n}"), unitRule: unitRule{mark: ".yarn-metadata.json"}},
	{at: "yarn/*.zip", as: keep},
	{at: "yarn/cache/*.zip", as: keep},
	{at: "yarn/metadata/**", as: replace},

	// pip renames pages and downloads into place, by the hash of the URL. Of a wheel that it built, origin.json is what it
	// writes last: the wheel itself may be cut off after a crash, and pip has no way back from that.
	{at: "pip/http/**", as: replace},
	{at: "pip/http-v[0-9]*/**", as: replace},
	{at: "pip/wheels/*/*/*/*", as: unit, unitRule: unitRule{mark: "origin.json", filled: true}},

	// uv renames all into place: unpacked archives, what it builds, and what says which archive a package or page has.
	{at: "uv/archive-v[0-9]*/*", as: unit},
	{at: "uv/wheels-v[0-9]*/**", as: replace},
	{at: "uv/simple-v[0-9]*/**", as: replace},
	{at: "uv/flat-index-v[0-9]*/**", as: replace},
	{at: "uv/sdists-v[0-9]*/**/*.whl", as: keep},
	{at: "uv/sdists-v[0-9]*/**/revision.*", as: replace},
	{at: "uv/sdists-v[0-9]*/**/metadata.msgpack", as: replace},

	// Cargo writes .cargo-ok last, and then trusts the directory. The one of a crate has content since half directories
	// with an empty one were found. It writes crates and the index under their final names: any crate that is not empty it
	// takes for whole, and of an index it skips a version that is cut off, while the server says that nothing is new. What
	// it reads from config.json has to be JSON. A repository is fetched into, so all of it or nothing: git and libgit2 empty
	// FETCH_HEAD, and fill it when they have the objects. gitoxide makes none, so what it fetches is not published.
	{at: "cargo/registry/index/*/.cache/**", as: replace, check: ends("}\x00")},
	{at: "cargo/registry/index/*/config.json", as: replace},
	{at: "cargo/registry/cache/*/*.crate", as: keep, check: unpacked},
	{at: "cargo/registry/src/*/*", as: unit, unitRule: unitRule{mark: ".cargo-ok", filled: true}},
	{at: "cargo/git/checkouts/*/*", as: unit, unitRule: unitRule{mark: ".cargo-ok", drop: []string{"FETCH_HEAD", "index.lock"}}},
	{at: "cargo/git/db/*", as: unit, unitRule: unitRule{mark: "FETCH_HEAD", filled: true, torn: gitTorn, drop: []string{"FETCH_HEAD"}}},

	// Maven: what came from a repository, and was renamed into place. What install has put there is of one branch.
	{at: "maven/.*/**", as: never}, // locks
	{at: "maven/**/settings*.xml", as: never},
	{at: "maven/**/maven-metadata-local.xml*", as: never},
	{at: "maven/**/maven-metadata-*.xml", as: replace},
	{at: "maven/**/maven-metadata-*.xml.sha1", as: replace},
	{at: "maven/**/resolver-status.properties", as: never}, // failures
	{at: "maven/**/*.lastUpdated", as: never},              // failures
	{at: "maven/**", as: remote},

	// Gradle makes a mark beside each file that it moves or writes, and removes it when that is whole. The directories are
	// named by hashes. Its indexes say what is current: without them nothing is found offline. Two can't be merged, so of two
	// workspaces that download at the same time only the files of both are shared, and Gradle asks for their hashes once
	// more. The wrapper makes .ok last.
	{at: "gradle/caches/modules-2/files-2.*/**", as: keep, check: unmarked},
	{at: "gradle/caches/modules-2/metadata-2.*/descriptors/**", as: replace, check: unmarked}, // another one for each snapshot
	{at: "gradle/caches/modules-2/metadata-2.*/*.bin", as: replace, check: closed},
	{at: "gradle/wrapper/dists/*/*", as: unit, unitRule: unitRule{mark: "*.ok", drop: []string{"*.lck", "*.part"}}},

	// Bundler: gems by version; its index has a file for each gem. It writes a gem under its final name, and takes any that
	// is there; files of the index it renames into place.
	{at: "bundler/gems/*/*.gem", as: keep, check: ends(tarEnd)},
	{at: "bundler/compact_index/**", as: replace},

	// Composer: archives by version or hash; its index has a file for each package. It copies an archive to its final name,
	// and takes any that is there, unless it has a checksum; files of the index it renames into place. Other kinds of archives
	// than zip are rare.
	{at: "composer/files/**/*.zip", as: keep, check: tail(zipEnd)},
	{at: "composer/repo/**", as: replace},

	// NuGet renames .nupkg.metadata into place last.
	{at: "nuget/[^.]*/*", as: unit, unitRule: unitRule{mark: ".nupkg.metadata", filled: true}},

	// ccache renames all into place. Results are named by the hash of what was compiled, and manifests have what they
	// include. Its statistics would let it delete what others have published.
	{at: "ccache/[0-9a-f]/**/*[RW]", as: keep},
	{at: "ccache/[0-9a-f]/**/*M", as: replace},
	{at: "ccache/[0-9a-f]/**/*.manifest", as: replace}, // before version 4, as the next ones
	{at: "ccache/[0-9a-f]/**/*.o", as: keep},
	{at: "ccache/[0-9a-f]/**/*.d", as: keep},
	{at: "ccache/[0-9a-f]/**/*.stderr", as: keep},
}

// gitTorn are files that exist only while git, libgit2 or gitoxide change a repository.
var gitTorn = []string{"*.lock", "tmp_*", "pack_git2_*", ".tmp*"}

// litterNames are the names of locks, sockets, unfinished downloads, and of what belongs to an open database.
var litterNames = []string{
	"*.lock", "*.lck", "*" + gradleMark, ".lock*", "lock", "*.pid", "*.sock", "*.socket", "*.tmp", "*.temp", ".tmp*", "*.part", "*.partial",
	"*.crdownload", "*.download", "*.swp", "*~", ".nfs*", "*-wal", "*-shm", "*-journal", "*.journal",
}

// otherLitter are more of them, for directories of which it is not known what is in them.
var otherLitter = []string{"tmp", "tmp*", "temp", "*.log", "logs", "*.old", "*.bak"}

// settingsNames are names of files with settings and credentials, in lower case, which no download has. They are published of
// no tool, wherever it keeps them, but in the units: what a package has its author has put there.
var settingsNames = []string{
	".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmrc", ".bunfig.toml", "bunfig.toml", ".netrc", "_netrc", ".wgetrc", ".curlrc",
	".pypirc", "pip.conf", "pip.ini", "uv.toml", ".pydistutils.cfg", ".condarc", "credentials.toml", ".credentials",
	"gradle.properties", "settings.xml", "settings-security.xml", "nuget.config", ".gemrc", "auth.json", "hex.config", ".conan.db",
	"conan.conf", ".gitconfig", ".git-credentials", ".hgrc", ".dockercfg", ".dockerconfigjson", ".sentryclirc", ".databrickscfg",
	".edgerc", "kaggle.json", "pgpass.conf", ".mylogin.cnf", "ccache.conf",
}

// secretNames are more names of credentials, settings and homes, in lower case, for directories of which it is not known what
// is in them. Those of directories count for all in them.
var secretNames = []string{
	"npmrc", ".yarnrc*", ".pip", ".authinfo*",
	".env", ".env.*", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config", ".gcloud", "gcloud", ".terraformrc", ".m2",
	".gem", ".bundle", ".s3cfg", ".boto", "rclone*.conf", "auth.toml", "auth.y*ml",
	".pgpass", ".my.cnf", ".vault*", "*history", "id_rsa*", "id_ed25519*", "id_ecdsa*", "id_dsa*",
	"known_hosts", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.gpg", "*.asc", "*.ovpn", "*.crt.key",
	"credentials*", "settings*.xml", "init.gradle*", "config*.toml", "hosts.yml", "kubeconfig*",
	"service-account*.json", "service_account*.json", "application_default_credentials*",
}

// homes are the names of directories of programs with credentials, in lower case. They count only at the top of the cache, as in
// DOCKER_CONFIG=$HDCACHE/docker: below, packages have them too.
var homes = []string{"docker", "kube", "helm", "aws", "azure", "gh", "ssh", "gnupg", "config", "home"}

// secretWords end a word of a name of credentials.
var secretWords = []string{"token", "secret", "password", "passwd", "passphrase", "credential", "creds", "apikey", "cookie"}

// sourceExts are endings of programs, which may be about tokens without having one.
var sourceExts = []string{
	".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".map", ".py", ".pyc", ".pyi", ".go", ".rs", ".c", ".h", ".cc", ".cpp",
	".hpp", ".java", ".class", ".kt", ".scala", ".rb", ".php", ".o", ".a", ".so", ".html", ".css", ".md",
}
