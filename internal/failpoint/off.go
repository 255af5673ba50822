//go:build !failpoints

package failpoint

// Hit says that the process has come to a point.
func Hit(string) {}

// Boot returns the boot ID that the program is to go by: the kernel's.
func Boot(kernel string) string { return kernel }
