package chaos

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// network is what lies between the processes and their servers.
type network interface {
	name() string
	// host is where servers listen.
	host() string
	// within is the command that runs a process where it can be silenced; nil: as it is.
	within(process string) []string
	// silence lets nothing through to a process and from it, and tells neither side,
	// until mend.
	silence(process string) (mend func())
}

// newNetwork gives every worker a network of its own where the machine allows that:
// then silence is what it is between hosts. Elsewhere the NATS servers' proxies swallow
// what they get.
func newNetwork(t *testing.T) network {
	t.Helper()
	if *chaosNet == "auto" {
		if n, err := newSpaces(t); err == nil {
			return n
		} else {
			t.Logf("no networks of their own: %v", err)
		}
	}
	return &loopback{}
}

// loopback is this host's own network.
type loopback struct{ nodes []*node }

func (*loopback) name() string           { return "proxies" }
func (*loopback) host() string           { return "127.0.0.1" }
func (*loopback) within(string) []string { return nil }

// silence concerns everybody who is connected to the server.
func (l *loopback) silence(process string) (mend func()) {
	sum := 0
	for _, b := range []byte(process) {
		sum += int(b)
	}
	n := l.nodes[sum%len(l.nodes)]
	n.proxy.set(silent)
	return func() { n.proxy.set(whole) }
}

// spaces are network namespaces, one for each worker, on one bridge.
type spaces struct {
	id     string
	bridge string
	subnet string // a.b.c of a /24
	mu     sync.Mutex
	all    map[string]*space // by process
}

type space struct{ name, outer string }

// newSpaces needs root and the ip command. It leaves nothing behind.
func newSpaces(t *testing.T) (*spaces, error) {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("needs root")
	}
	pid := os.Getpid()
	id := fmt.Sprint(pid % 100_000)
	s := &spaces{id: id, bridge: "tfb" + id, subnet: fmt.Sprintf("10.%d.%d", 100+pid/250%100, pid%250), all: map[string]*space{}}
	t.Cleanup(s.remove)
	if err := s.ip("link add", s.bridge, "type bridge"); err != nil {
		return nil, err
	}
	if err := s.ip("addr add", s.host()+"/24 dev", s.bridge); err != nil {
		return nil, err
	}
	if err := s.ip("link set", s.bridge, "up"); err != nil {
		return nil, err
	}
	for _, role := range roles[:len(roles)-1] {
		for i := range instances {
			if err := s.add(fmt.Sprintf("%s-%d", role, i)); err != nil {
				return nil, err
			}
		}
	}
	return s, s.probe(t)
}

func (s *spaces) name() string { return "namespaces" }
func (s *spaces) host() string { return s.subnet + ".1" }

// add makes the network of a process: one cable to the bridge.
func (s *spaces) add(process string) error {
	n := len(s.all)
	x := &space{name: fmt.Sprintf("tf%s-%d", s.id, n), outer: fmt.Sprintf("tfv%s-%d", s.id, n)}
	s.all[process] = x
	for _, line := range []string{
		"netns add " + x.name,
		fmt.Sprintf("link add %s type veth peer name eth0 netns %s", x.outer, x.name),
		fmt.Sprintf("link set %s master %s up", x.outer, s.bridge),
		fmt.Sprintf("-n %s addr add %s.%d/24 dev eth0", x.name, s.subnet, 10+n),
		fmt.Sprintf("-n %s link set eth0 up", x.name),
		fmt.Sprintf("-n %s link set lo up", x.name),
	} {
		if err := s.ip(line); err != nil {
			return err
		}
	}
	return nil
}

// probe sees whether a server here can be reached from there.
func (s *spaces) probe(t *testing.T) error {
	t.Helper()
	l, err := net.Listen("tcp", s.host()+":0")
	if err != nil {
		return err
	}
	defer l.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	line := append(s.within(roles[0]+"-0"), self)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = append(os.Environ(), dialAddress+"="+l.Addr().String())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nothing gets through: %w: %s", err, out)
	}
	return nil
}

func (s *spaces) within(process string) []string {
	x, ok := s.all[process]
	if !ok {
		return nil
	}
	return []string{"ip", "netns", "exec", x.name}
}

// silence pulls the cable.
func (s *spaces) silence(process string) (mend func()) {
	x := s.all[process]
	_ = s.ip("link set", x.outer, "down") // it was there when it was made
	return func() { _ = s.ip("link set", x.outer, "up") }
}

func (s *spaces) ip(words ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	out, err := exec.Command("ip", strings.Fields(strings.Join(words, " "))...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(words, " "), err, out)
	}
	return nil
}

// remove takes away what there is; what is missing was never made.
func (s *spaces) remove() {
	for _, x := range s.all {
		_ = s.ip("link del", x.outer)
		_ = s.ip("netns del", x.name)
	}
	_ = s.ip("link del", s.bridge)
}

// dialAddress names, in the environment of a child of this test, what it is to connect to.
const dialAddress = "TURNFOLD_CHAOS_DIAL"

// beDialler connects if this process is such a child.
func beDialler() bool {
	address := os.Getenv(dialAddress)
	if address == "" {
		return false
	}
	conn, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = conn.Close()
	return true
}
