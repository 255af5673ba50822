// Package intake bounds what this process reads of containers, remotes and clients, on both sides: what goes in,
// and what comes of it.
//
// A limit of what comes out does not bound the work. A stream of empty deflate blocks, packets without data, and
// frames that belong to no request have a cost in the bytes that go in, and nothing comes of them. So a Meter
// compares the two, for a reader or for a connection, and a reader of Until ends with a context. Whatever is
// decoded as a whole is bounded by its bytes and by its elements before that, and few large bodies are in memory at
// a time.
package intake
