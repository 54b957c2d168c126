package jet

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/nats-io/nats.go"
)

// identity is how a connection shows who it is, and whom it trusts. Files are read
// here, so that a wrong path is told at once instead of being retried for ever.
func (cfg Config) identity() ([]nats.Option, error) {
	var opts []nats.Option
	if cfg.User != "" {
		opts = append(opts, nats.UserInfo(cfg.User, cfg.Password))
	}
	if cfg.CredsFile != "" {
		if _, err := os.Stat(cfg.CredsFile); err != nil {
			return nil, fmt.Errorf("%w: credentials: %w", ErrIdentity, err)
		}
		opts = append(opts, nats.UserCredentials(cfg.CredsFile))
	}
	if cfg.NKeyFile != "" {
		o, err := nats.NkeyOptionFromSeed(cfg.NKeyFile)
		if err != nil {
			return nil, fmt.Errorf("%w: nkey: %w", ErrIdentity, err)
		}
		opts = append(opts, o)
	}
	secure, err := cfg.tls()
	if err != nil {
		return nil, fmt.Errorf("%w: TLS: %w", ErrIdentity, err)
	}
	if secure != nil {
		opts = append(opts, nats.Secure(secure))
	}
	return opts, nil
}

// tls is nil if nothing of it is configured; the client then follows the address and
// the server.
func (cfg Config) tls() (*tls.Config, error) {
	if cfg.CAFile == "" && cfg.CertFile == "" {
		return nil, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, err
		}
		if out.RootCAs = x509.NewCertPool(); !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New(cfg.CAFile + " holds no certificate")
		}
	}
	if cfg.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(cfg.CertFile, cfg.KeyFile)
		if err != nil {
			return nil, err
		}
		out.Certificates = []tls.Certificate{cert}
	}
	return out, nil
}
