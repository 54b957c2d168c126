// Package embed runs the log's server inside this process, for deployments of one
// host that should need nothing beside one binary.
//
// Invariant: one process per store directory, reachable on the configured host
// only (loopback by default), and only with credentials that lie in that
// directory, readable by its owner alone.
package embed

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"
)

var (
	// ErrLocked: another process serves this store directory. Stop it, connect to it
	// by its URL, or choose another directory.
	ErrLocked = errors.New("embed: store directory is in use")
	// ErrNotReady: the server did not come up in time. The log says why; starting
	// again is safe.
	ErrNotReady = errors.New("embed: server is not ready")
)

const (
	defaultHost         = "127.0.0.1"
	defaultPayloadBytes = 8 << 20 // the server warns above it
	defaultReadyTimeout = 30 * time.Second

	// memoryStoreBytes caps memory streams and consumers. Everything of ours lies in
	// files; only the state of tails is kept in memory.
	memoryStoreBytes = 64 << 20
)

// Config says where the server keeps its files and where it listens.
type Config struct {
	// StoreDir holds streams, credentials and the lock file. Required.
	StoreDir string
	// Host to listen on. Empty means 127.0.0.1.
	Host string
	// Port to listen on. Zero means a free one.
	Port int
	// SyncAlways syncs every write before it is acknowledged. Without it a power cut
	// may lose the last two minutes (the server's sync_interval); a crash of the
	// process loses nothing either way.
	SyncAlways bool
	// MaxPayload bounds a message, in bytes. Zero means 8 MiB.
	MaxPayload int
	// MaxStore bounds the files of all streams, in bytes. Zero leaves it to the server:
	// three quarters of the free disk.
	MaxStore int64
	// ReadyTimeout bounds the start, which includes reading the store's indexes.
	// Zero means 30s.
	ReadyTimeout time.Duration
	// Log receives the server's warnings and errors.
	Log zerolog.Logger
}

func (c Config) withDefaults() Config {
	if c.Host == "" {
		c.Host = defaultHost
	}
	if c.MaxPayload == 0 {
		c.MaxPayload = defaultPayloadBytes
	}
	if c.ReadyTimeout == 0 {
		c.ReadyTimeout = defaultReadyTimeout
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.StoreDir == "" {
		errs = append(errs, errors.New("StoreDir is empty"))
	}
	if c.Port < 0 || c.Port > 65535 {
		errs = append(errs, fmt.Errorf("port %d is not 0 to 65535", c.Port))
	}
	if c.MaxPayload < 1024 || c.MaxPayload > 64<<20 {
		errs = append(errs, fmt.Errorf("MaxPayload %d is not 1 KiB to 64 MiB", c.MaxPayload))
	}
	return errors.Join(errs...)
}

// Server is a running server.
type Server struct {
	srv         *server.Server
	dir         string
	credentials credentials
	lock        *os.File
	stop        sync.Once
}

// Start locks the store directory and returns when the server accepts clients and
// has recovered its streams.
func Start(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("embed: %w", err)
	}
	if err := os.MkdirAll(cfg.StoreDir, 0o700); err != nil {
		return nil, fmt.Errorf("embed: %w", err)
	}
	lock, err := lockDir(cfg.StoreDir)
	if err != nil {
		return nil, err
	}
	cred, err := loadCredentials(cfg.StoreDir)
	if err != nil {
		unlock(lock)
		return nil, err
	}
	s := &Server{dir: cfg.StoreDir, credentials: cred, lock: lock}
	if s.srv, err = run(s.options(cfg), cfg); err != nil {
		unlock(lock)
		return nil, err
	}
	if err := s.announce(); err != nil {
		s.Shutdown()
		return nil, err
	}
	return s, nil
}

func (s *Server) options(cfg Config) *server.Options {
	port := cfg.Port
	if port == 0 {
		port = server.RANDOM_PORT
	}
	o := &server.Options{
		ServerName:         "turnfold",
		Host:               cfg.Host,
		Port:               port,
		Username:           s.credentials.User,
		Password:           s.credentials.Password,
		JetStream:          true,
		StoreDir:           cfg.StoreDir,
		JetStreamMaxMemory: memoryStoreBytes,
		SyncAlways:         cfg.SyncAlways,
		MaxPayload:         int32(cfg.MaxPayload),
		NoSigs:             true, // only cmd handles signals
		NoLog:              false,
	}
	if cfg.MaxStore > 0 {
		o.JetStreamMaxStore = cfg.MaxStore
	}
	return o
}

// run starts a server with these options and waits until it is of use.
func run(o *server.Options, cfg Config) (*server.Server, error) {
	srv, err := server.NewServer(o)
	if err != nil {
		return nil, fmt.Errorf("embed: %w", err)
	}
	srv.SetLoggerV2(serverLog{cfg.Log}, false, false, false)
	srv.Start()
	if srv.ReadyForConnections(cfg.ReadyTimeout) {
		return srv, nil
	}
	srv.Shutdown()
	srv.WaitForShutdown()
	return nil, fmt.Errorf("%w after %s (store %s, listening on %s)",
		ErrNotReady, cfg.ReadyTimeout, cfg.StoreDir, net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.Port)))
}

// URL is where clients connect; it holds no credentials.
func (s *Server) URL() string { return s.srv.ClientURL() }

// Port is the port clients connect to.
func (s *Server) Port() int {
	if a, ok := s.srv.Addr().(*net.TCPAddr); ok {
		return a.Port
	}
	return 0
}

// User is the only user's name.
func (s *Server) User() string { return s.credentials.User }

// Password is the only user's password.
func (s *Server) Password() string { return s.credentials.Password }

// CredentialsHint is a command line that shows everything the server carries. The
// credentials are given by the file they lie in, so that the line may be logged.
func (s *Server) CredentialsHint() string {
	u := url.URL{Scheme: "nats", Host: net.JoinHostPort(hostOf(s.URL()), strconv.Itoa(s.Port()))}
	file := quote(credentialsPath(s.dir))
	return fmt.Sprintf(`nats --server %s --user "$(jq -r .user %s)" --password "$(jq -r .password %s)" sub 'tf.>'`,
		u.String(), file, file)
}

func hostOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return defaultHost
	}
	return u.Hostname()
}

// Shutdown stops the server, waits until its files are closed, and gives up the
// store directory. Further calls do nothing.
func (s *Server) Shutdown() {
	s.stop.Do(func() {
		s.srv.Shutdown()
		s.srv.WaitForShutdown()
		_ = os.Remove(addressPath(s.dir)) // a stale one is of no harm: nobody answers there
		unlock(s.lock)
	})
}
