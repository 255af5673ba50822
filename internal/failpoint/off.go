//go:build !failpoints

package failpoint

// Hit marks a failpoint.
func Hit(string) {}

// Boot returns the boot ID that the program should use: the kernel's.
func Boot(kernel string) string { return kernel }
