// Package driver is Docker's volume plugin protocol: the engine's requests in, verbs out
// (internal/verbs). It has what is Docker's alone: the engine counts its Mounts, waits
// for an answer only so long, and takes errors for the end of a container.
//
// A caller may rely on this: Get, List, Path and Capabilities answer from memory and wait
// for nobody; a request that fails, or whose client hangs up, leaves nothing behind; the
// same request again has the same result. A Mount answers before its client gives up,
// with what is going on if it is not done.
package driver
