package githttp

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// LoadCA returns the system's certificates and those of a PEM file, or nil if path is empty.
func LoadCA(path string) (*tls.Config, error) {
	if path == "" {
		return nil, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, err
	}
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s contains no certificate in PEM format", path)
	}
	return &tls.Config{RootCAs: pool}, nil
}
