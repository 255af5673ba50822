// Package origin says on whose behalf something is done: which request asked for it, who
// made that request, and for which volume. A context carries that from a front end through
// all layers, also into work in the background, and Hook adds it to log lines.
//
// Callers may rely on this: an ID is unique, a claim is short and valid UTF-8, and a
// context without an origin is work of the plugin itself.
//
// A front end gives each request an ID and the time when it came, and a verb adds the ID of the volume: that of the
// request that created it, which is in its record and in those of its workspaces. work.Share and Bind carry both into
// the background; work that serves several requests has the ID of the one that began it. Log lines have them as
// request and volume_id; a rule in arch_test.go asks for a context. What nobody asked for (garbage collection,
// measurements, the janitor's own sweeps) has no request.
package origin
