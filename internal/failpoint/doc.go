// Package failpoint names the moments between two durable steps at which a test kills the
// plugin.
//
// Without the build tag "failpoints" Hit is empty, so no environment can kill the shipped
// program. With it,
//
//	HELMDECK_FAILPOINT=name[:n]  kills the process, as a crash would, at the n-th
//	                             hit of the point (the first without n); * means all
//	                             points together
//	HELMDECK_FAILPOINT_LOG=file  gets a line with the name of each point that was
//	                             hit, the one that kills among them
//	HELMDECK_BOOT=id             is what the program takes for the kernel's boot ID
//
// Every name is in Names, and used in one place.
package failpoint
