package embed

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"
)

// Cluster is several servers in one process, for tests of replicated logs.
type Cluster struct {
	mu      sync.Mutex
	cfgs    []*server.Options
	servers []*server.Server // nil while stopped
	faults  lastLine
}

// lastLine keeps what was written to it last.
type lastLine struct{ atomic.Value }

func (l *lastLine) Write(b []byte) (int, error) {
	l.Store(string(b))
	return len(b), nil
}

// clusterTimeout bounds elections and joins. An election takes up to 9 s, and a
// busy machine may need more than one.
const clusterTimeout = 60 * time.Second

// StartCluster runs n servers with routes between them, their stores below dir, and
// waits for a meta leader that sees all of them. It has no credentials: for tests.
func StartCluster(n int, dir string) (*Cluster, error) {
	ports := make([]int, 2*n) // of routes, then of clients
	for i := range ports {
		address, err := FreeAddress()
		if err != nil {
			return nil, err
		}
		_, port, _ := net.SplitHostPort(address)
		ports[i], _ = strconv.Atoi(port)
	}
	var routes []*url.URL
	for i := range n {
		routes = append(routes, &url.URL{Scheme: "nats", Host: net.JoinHostPort(defaultHost, strconv.Itoa(ports[i]))})
	}
	c := &Cluster{servers: make([]*server.Server, n)}
	for i := range n {
		name := "s" + strconv.Itoa(i)
		c.cfgs = append(c.cfgs, &server.Options{
			ServerName: name,
			Host:       defaultHost, Port: ports[n+i],
			Cluster:   server.ClusterOpts{Name: "turnfold", Host: defaultHost, Port: ports[i]},
			Routes:    routes,
			JetStream: true, StoreDir: filepath.Join(dir, name),
			JetStreamMaxMemory: memoryStoreBytes,
			JetStreamMaxStore:  10 << 30,
			MaxPayload:         defaultPayloadBytes,
			NoSigs:             true,
		})
	}
	for i := range n {
		if err := c.launch(i); err != nil {
			c.Shutdown()
			return nil, err
		}
	}
	if err := c.waitReady(); err != nil {
		c.Shutdown()
		return nil, err
	}
	return c, nil
}

// URL is a list of all servers, for clients.
func (c *Cluster) URL() string {
	var list string
	for i, o := range c.cfgs {
		if i > 0 {
			list += ","
		}
		list += "nats://" + net.JoinHostPort(o.Host, strconv.Itoa(o.Port))
	}
	return list
}

// Stop shuts server i down and waits for it.
func (c *Cluster) Stop(i int) {
	c.mu.Lock()
	srv := c.servers[i]
	c.servers[i] = nil
	c.mu.Unlock()
	if srv != nil {
		srv.Shutdown()
		srv.WaitForShutdown()
	}
}

// Restart starts server i again after Stop, with the same store and port, and waits
// until the whole cluster is ready.
func (c *Cluster) Restart(i int) error {
	if err := c.launch(i); err != nil {
		return err
	}
	return c.waitReady()
}

// Shutdown stops every server.
func (c *Cluster) Shutdown() {
	for i := range c.servers {
		c.Stop(i)
	}
}

func (c *Cluster) launch(i int) error {
	srv, err := server.NewServer(c.cfgs[i].Clone())
	if err != nil {
		return fmt.Errorf("embed: %w", err)
	}
	srv.SetLoggerV2(serverLog{zerolog.New(&c.faults).Level(zerolog.ErrorLevel)}, false, false, false)
	srv.Start()
	c.mu.Lock()
	c.servers[i] = srv
	c.mu.Unlock()
	return nil
}

// waitReady polls, because the server has no signal for it.
func (c *Cluster) waitReady() error {
	deadline := time.Now().Add(clusterTimeout)
	for time.Now().Before(deadline) {
		if c.ready() {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("%w: no leader that sees all servers after %s (last error: %v)", ErrNotReady, clusterTimeout, c.faults.Load())
}

func (c *Cluster) ready() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	leaders, running := 0, 0
	for _, srv := range c.servers {
		if srv == nil {
			continue
		}
		running++
		if !srv.ReadyForConnections(time.Millisecond) || !srv.JetStreamIsCurrent() {
			return false
		}
		if srv.JetStreamIsLeader() {
			leaders++
			if len(srv.JetStreamClusterPeers()) < len(c.servers) {
				return false
			}
		}
	}
	return leaders == 1 && running > 0
}
