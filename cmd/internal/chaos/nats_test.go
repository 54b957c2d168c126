package chaos

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/subjects/embed"
	"github.com/turnfold/turnfold/subjects/jet"
)

// natsFile names, in the environment of a child of this test, the configuration of the
// NATS server that it is to be.
const natsFile = "TURNFOLD_CHAOS_NATS"

// beNATS runs the server if this process is such a child.
func beNATS() bool {
	file := os.Getenv(natsFile)
	if file == "" {
		return false
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := embed.ServeFile(ctx, file); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// node is one NATS server process, and the way to it.
type node struct {
	dir   string
	proxy *proxy
	mu    sync.Mutex
	cmd   *exec.Cmd
}

// startNATS starts n servers whose clients come through proxies on a host's address.
func startNATS(t *testing.T, host string, n int) []*node {
	t.Helper()
	var routes, clients []string
	for range n {
		routes, clients = append(routes, freeAddress(t)), append(clients, freeAddress(t))
	}
	var nodes []*node
	for i := range n {
		d := &node{dir: t.TempDir(), proxy: newProxy(t, host, clients[i])}
		conf := fmt.Sprintf(`server_name: n%d
listen: %q
client_advertise: %q
max_payload: 8MB
log_file: %q
jetstream { store_dir: %q }
cluster { name: chaos, listen: %q, no_advertise: true, routes: [%s] }
`, i, clients[i], d.proxy.addr(), filepath.Join(d.dir, "nats.log"), filepath.Join(d.dir, "js"), routes[i], "nats://"+strings.Join(routes, ", nats://"))
		if err := os.WriteFile(filepath.Join(d.dir, "nats.conf"), []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
		d.start(t)
		t.Cleanup(d.kill)
		nodes = append(nodes, d)
	}
	return nodes
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := embed.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func (d *node) start(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), natsFile+"="+filepath.Join(d.dir, "nats.conf"))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	d.cmd = cmd
	d.mu.Unlock()
}

// kill ends the server as kill -9 does.
func (d *node) kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cmd == nil {
		return
	}
	_ = d.cmd.Process.Kill() // it may have ended by itself
	_ = d.cmd.Wait()         // says that it was killed
	d.cmd = nil
}

// urls is the list of all servers as their clients reach them.
func urls(nodes []*node) string {
	var list []string
	for _, d := range nodes {
		list = append(list, "nats://"+d.proxy.addr())
	}
	return strings.Join(list, ",")
}

// stepDown has a stream elect another leader.
func stepDown(conn *jet.Conn, stream string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	m, err := conn.Ask(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+stream, nil, nil)
	return err == nil && strings.Contains(string(m.Data), `"success":true`)
}

func connect(t *testing.T, url string) *jet.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := jet.Connect(ctx, jet.Config{URL: url, Name: "chaos", Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		end, done := context.WithTimeout(context.Background(), time.Second)
		defer done()
		_ = conn.Close(end)
	})
	return conn
}
