package main

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/helmdeck/repos/internal/disk/durable"
)

// systemCertificates is the bundle of the root filesystem.
const systemCertificates = "/etc/ssl/certs/ca-certificates.crt"

// parseCABundle parses the setting CA_BUNDLE: PEM certificates, possibly in base64, for
// `docker plugin set` in a script.
func parseCABundle(text string) ([]byte, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	data := []byte(text)
	if !strings.Contains(text, "-----BEGIN") {
		var err error
		if data, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), "")); err != nil {
			return nil, errors.New("is neither PEM nor base64 of PEM")
		}
	}
	n := 0
	for rest := data; ; n++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if _, err := x509.ParseCertificate(block.Bytes); block.Type != "CERTIFICATE" || err != nil {
			return nil, errors.New("contains something other than certificates; allowed are PEM certificates of authorities")
		}
	}
	if n == 0 {
		return nil, errors.New("holds no certificate")
	}
	return data, nil
}

// writeCABundle writes the trusted certificates, the system's and the setting's, and
// returns the file's path. Without the setting it returns an empty path.
func writeCABundle(data string, bundle []byte) (string, error) {
	path := filepath.Join(data, "ca-bundle.pem")
	if len(bundle) == 0 {
		err := os.Remove(path)
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return "", err
	}
	system, err := os.ReadFile(systemCertificates)
	if err != nil {
		return "", err
	}
	want := bytes.Join([][]byte{system, bundle}, []byte("\n"))
	if got, err := os.ReadFile(path); err == nil && bytes.Equal(got, want) {
		return path, nil // also works on a full disk
	}
	return path, durable.WriteFile(path, want, 0o644)
}
