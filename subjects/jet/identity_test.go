package jet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/subjects"
)

// The pair that the server's documentation shows; it opens nothing anywhere.
const (
	examplePublic = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"
	exampleSeed   = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
)

// secureServer asks for TLS with client certificates, and an nkey.
func secureServer(t *testing.T) (url, dir string) {
	t.Helper()
	dir = t.TempDir()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true,
		BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der := must(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	keyDER := must(x509.MarshalECPrivateKey(key))(t)
	for name, data := range map[string][]byte{
		"cert.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		"key.pem":  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
		"user.nk":  []byte(exampleSeed),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pair := must(tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")))(t)
	pool := x509.NewCertPool()
	pool.AddCert(must(x509.ParseCertificate(der))(t))
	srv := must(server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: filepath.Join(dir, "js"), Nkeys: []*server.NkeyUser{{Nkey: examplePublic}}, TLSTimeout: 5,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}}))(t)
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("server is not ready")
	}
	return srv.ClientURL(), dir
}

// TestIdentity connects with TLS, a client certificate and an nkey, and is told at
// once what is wrong with its files.
func TestIdentity(t *testing.T) {
	url, dir := secureServer(t)
	file := func(name string) string { return filepath.Join(dir, name) }
	good := Config{URL: url, NKeyFile: file("user.nk"), CAFile: file("cert.pem"), CertFile: file("cert.pem"), KeyFile: file("key.pem"), Log: zerolog.Nop()}
	c := connect(t, good)
	if err := c.Ensure(testContext(t), subjects.Layout{Partitions: 1, Replicas: 1}); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Config){
		"no such ca":          func(c *Config) { c.CAFile = file("none.pem") },
		"ca is no pem":        func(c *Config) { c.CAFile = file("user.nk") },
		"no such certificate": func(c *Config) { c.CertFile = file("none.pem") },
		"no such nkey":        func(c *Config) { c.NKeyFile = file("none.nk") },
		"no such credentials": func(c *Config) { c.NKeyFile, c.CredsFile = "", file("none.creds") },
	} {
		cfg := good
		spoil(&cfg)
		if _, err := Connect(testContext(t), cfg); !errors.Is(err, ErrIdentity) {
			t.Errorf("%s: %v, want ErrIdentity", name, err)
		}
	}
}

// TestCheckChangesNothing: a deployment that others look after is only looked at, and
// every difference is told at once.
func TestCheckChangesNothing(t *testing.T) {
	c := startHost(t).connect()
	ctx := testContext(t)
	layout := subjects.Layout{Partitions: 2, Replicas: 1}
	err := c.Check(ctx, layout)
	if !errors.Is(err, ErrLayout) || !strings.Contains(err.Error(), "TF_OUT_1 does not exist") || !strings.Contains(err.Error(), "KV_TF_MEMBERS does not exist") {
		t.Fatalf("nothing exists: %v", err)
	}
	if err := c.Ensure(ctx, layout); err != nil {
		t.Fatal(err)
	}
	if err := c.Check(ctx, layout); err != nil {
		t.Errorf("what Ensure made differs: %v", err)
	}
	err = c.Check(ctx, subjects.Layout{Partitions: 1, Replicas: 1, EventsAge: 24 * time.Hour, OutputsAge: 48 * time.Hour, EffectsAge: 72 * time.Hour})
	for _, want := range []string{"TF_EV_0 has metadata turnfold-partitions 2, not 1", "TF_EV_0 has max_age 0s, not 24h0m0s"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("another layout: %v, want %q in it", err, want)
		}
	}
	if err := c.Check(ctx, layout); err != nil {
		t.Errorf("a check changed something: %v", err)
	}
}
