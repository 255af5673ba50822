// Package volume holds the nouns that a volume is made of and the only parser of what users say about them.
//
// A caller may rely on this: an Options that Parse returned is valid as a whole, its URL, Ref and Subject can be
// handed to git and used in a path through their methods without another check, it carries no secret, it compares
// with ==, and Parse(o.Map(), nil, AllSchemes()) gives it back. No error text of this package repeats the user part,
// the query or the fragment of a URL, in whatever option it was written.
//
// Nothing here does I/O or keeps state; every function may be called concurrently.
package volume
