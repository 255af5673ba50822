package volume

import "cmp"

// Cache says what containers see of the clone's dependency caches.
type Cache string

const (
	// CacheShared shows what is published.
	CacheShared Cache = "shared"
	// CacheOff shows none.
	CacheOff Cache = "off"
)

// Publish says when later containers get what a workspace leaves in its cache and in its warm directories.
type Publish string

const (
	PublishAlways Publish = "always"
	// PublishMarked asks for a mark that a container makes.
	PublishMarked Publish = "marked"
	PublishNever  Publish = "never"
)

// PublishOf returns the option publish of a workspace whose options are as Map returned them.
func PublishOf(options map[string]string) Publish {
	return cmp.Or(Publish(options[optPublish]), PublishAlways)
}

// HasCacheLink reports whether the options of a workspace, as Map returned them, ask for a link to the cache at the
// top of the work tree.
func HasCacheLink(options map[string]string) bool {
	return options[optCache] != string(CacheOff) && options[optLink] == "true"
}
