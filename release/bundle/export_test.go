package bundle

// WriteSums writes the checksums of a release that a test has made.
func WriteSums(dir string) error { return writeSums(dir) }
