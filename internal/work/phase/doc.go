// Package phase measures which part of a request takes how long, and for what it waits.
//
// A Watch belongs to one request, and its context carries it to the packages that do the
// parts. Work that several requests share runs with a context of its own, without a Watch:
// a request is charged for the time that it waits for such work.
//
// So the phases never overlap, and what only a build fetches counts as build.
package phase
