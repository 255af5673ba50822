// Package driver is the volume protocol: the engine's requests in, volumes and
// leases out.
//
// A caller may rely on this: Get, List, Path and Capabilities answer from memory
// and wait for nobody; a request that fails, or whose client hangs up, leaves
// nothing behind; the same request again has the same result. A Mount answers
// before its client gives up, with what is going on if it is not done.
package driver
