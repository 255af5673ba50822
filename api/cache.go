package api

// Variable is an environment variable.
type Variable struct{ Name, Value string }

// CacheDir is where a volume has its caches, below its mount point, unless its option cache is off.
const CacheDir = ".git/hdcache"

// CacheVariables returns the variables that lead package managers to the caches of a volume that is
// mounted at target, an absolute path.
func CacheVariables(target string) []Variable {
	dir := target + "/" + CacheDir
	if target == "/" {
		dir = "/" + CacheDir
	}
	return []Variable{
		{"GOMODCACHE", dir + "/go-mod"},
		{"GOCACHE", dir + "/go-build"},
		{"npm_config_cache", dir + "/npm"},
		{"npm_config_store_dir", dir + "/pnpm"},
		{"pnpm_config_store_dir", dir + "/pnpm"}, // since pnpm 11, which does not read the other one
		{"YARN_CACHE_FOLDER", dir + "/yarn"},
		{"YARN_GLOBAL_FOLDER", dir + "/yarn"},
		{"PIP_CACHE_DIR", dir + "/pip"},
		{"UV_CACHE_DIR", dir + "/uv"},
		{"UV_LINK_MODE", "copy"}, // so that a file of .venv is no other name of the store's file
		{"CARGO_HOME", dir + "/cargo"},
		{"MAVEN_ARGS", "-Dmaven.repo.local=" + dir + "/maven"},
		{"GRADLE_USER_HOME", dir + "/gradle"},
		{"BUNDLE_USER_CACHE", dir + "/bundler"},
		{"BUNDLE_GLOBAL_GEM_CACHE", "true"},
		{"COMPOSER_CACHE_DIR", dir + "/composer"},
		{"NUGET_PACKAGES", dir + "/nuget"},
		{"CCACHE_DIR", dir + "/ccache"},
	}
}
