// Package volume has the types that describe a volume, and the only parser of what users say about them.
//
// An Options that Parse returned is valid as a whole: its URL, Ref and Subject can be passed to git and used in a
// path through their methods without another check, it contains no secret, it can be compared with ==, and
// Parse(o.Map(), nil, AllSchemes()) returns it again. No error text of this package repeats the user part, the
// query or the fragment of a URL, in whatever option it was written.
//
// Nothing here does I/O or keeps state; every function may be called concurrently.
package volume
