package gitserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"slices"
	"time"
)

// Flaw is a flaw of a server's certificate.
type Flaw int

const (
	WrongName Flaw = iota // it is for another host
	Expired               // it expired an hour ago
)

// StartTLS is Start with https and without HTTP/2. The server's certificate, for 127.0.0.1 and localhost, is signed by
// a new authority, so clients without CA do not trust it.
func StartTLS(dir string, flaws ...Flaw) (*Server, error) { return startTLS(dir, false, flaws) }

// StartHTTP2 is StartTLS with HTTP/2 besides HTTP/1.1. With HTTP/2 a fault ends only a stream, not
// the connection.
func StartHTTP2(dir string) (*Server, error) { return startTLS(dir, true, nil) }

func startTLS(dir string, http2 bool, flaws []Flaw) (*Server, error) {
	certificate, ca, err := certify(flaws)
	if err != nil {
		return nil, fmt.Errorf("git server: %w", err)
	}
	s, listener, err := listen(dir)
	if err != nil {
		return nil, err
	}
	s.base = "https://" + listener.Addr().String()
	s.ca = ca
	s.http.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}, VerifyConnection: func(tls.ConnectionState) error {
		s.handshakes.Add(1)
		return nil
	}}
	s.http.Protocols = new(http.Protocols)
	s.http.Protocols.SetHTTP1(true)
	s.http.Protocols.SetHTTP2(http2)
	s.serving.Go(func() { s.http.ServeTLS(listener, "", "") })
	return s, nil
}

// CA returns the authority's certificate of a StartTLS server as PEM, nil for a server without TLS.
func (s *Server) CA() []byte { return s.ca }

// Handshakes returns how many connections have agreed on TLS since the start.
func (s *Server) Handshakes() int { return int(s.handshakes.Load()) }

func certify(flaws []Flaw) (leaf tls.Certificate, ca []byte, err error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	now := time.Now()
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "Trial Authority"},
		NotBefore: now.Add(-48 * time.Hour), NotAfter: now.Add(48 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	host := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano() + 1), Subject: pkix.Name{CommonName: "git server"},
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
	}
	if slices.Contains(flaws, WrongName) {
		host.IPAddresses, host.DNSNames = nil, []string{"elsewhere.example"}
	}
	if slices.Contains(flaws, Expired) {
		host.NotAfter = now.Add(-time.Hour)
	}
	caDER, err := x509.CreateCertificate(rand.Reader, authority, authority, caKey.Public(), caKey)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, host, authority, key.Public(), caKey)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, ca, nil
}
