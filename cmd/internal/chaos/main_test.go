package chaos

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnfold/turnfold/cmd/internal/built"
	"github.com/turnfold/turnfold/cmd/internal/stage"
)

// binary is the turnfold that the tests run.
var binary string

func TestMain(m *testing.M) {
	if beNATS() || beDialler() {
		return
	}
	os.Exit(built.Main(m, &binary))
}

const (
	partitions = 2
	leaseTTL   = 3 * time.Second
	instances  = 2
	natsNodes  = 3
)

var roles = []string{"reducer", "streamer", "executor", "gateway"}

// deployment is three NATS servers, two processes of each role, and their world.
type deployment struct {
	t       *testing.T
	net     network
	nodes   []*node
	procs   map[string][]*stage.Product // by role
	model   *stage.Model
	refunds *stage.Ledger
	mail    *stage.Ledger
	pace    time.Duration // of the model's words
}

// deploy starts everything. Members of more replace those of the configuration.
func deploy(t *testing.T, more map[string]any) *deployment {
	t.Helper()
	d := &deployment{t: t, net: newNetwork(t), procs: map[string][]*stage.Product{},
		refunds: stage.NewLedger(`{"refund":"ok"}`, 40*time.Millisecond), mail: stage.NewLedger(`{"sent":true}`, 20*time.Millisecond)}
	d.nodes = startNATS(t, d.net.host(), natsNodes)
	t.Cleanup(d.tellNATS)
	if l, ok := d.net.(*loopback); ok {
		l.nodes = d.nodes
	}
	d.model = stage.NewModel(d.script)
	t.Cleanup(func() { d.model.Close(); d.refunds.Close(); d.mail.Close() })
	config := map[string]any{"partitions": partitions, "replicas": 3, "lease": map[string]any{"ttl": leaseTTL.String()},
		"alive": "1s", "patience": "3s", "shutdown_grace": "5s", "turn": map[string]any{"deadline": "10m"},
		"nats":  map[string]any{"store_dir": "store", "url": urls(d.nodes)},
		"retry": map[string]any{"attempts_per_step": 400, "attempts_per_turn": 400, "backoff": map[string]any{"base": "50ms", "max": "200ms"}}}
	maps.Copy(config, more)
	for _, role := range roles {
		for i := range instances {
			p, err := stage.NewProduct(binary, t.TempDir(), d.reach(d.model.API()), config, d.tools()...)
			if err != nil {
				t.Fatal(err)
			}
			p.Args, p.Within = []string{"--roles", role}, d.net.within(fmt.Sprintf("%s-%d", role, i))
			if err := p.Launch(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { p.Kill(); d.tell(p, role) })
			d.procs[role] = append(d.procs[role], p)
		}
	}
	d.ready()
	return d
}

// reach is a server of this test as the processes reach it.
func (d *deployment) reach(url string) string {
	if d.net.host() == "127.0.0.1" {
		return url
	}
	rest := strings.TrimPrefix(url, "http://")
	address, path, _ := strings.Cut(rest, "/")
	return strings.TrimSuffix("http://"+newProxy(d.t, d.net.host(), address).addr()+"/"+path, "/")
}

func (d *deployment) tools() []stage.Tool {
	return []stage.Tool{
		{Name: "refund", URL: d.reach(d.refunds.URL()), Identity: []string{"order"}, Timeout: 10 * time.Second,
			Members: map[string]string{"order": "string", "note": "string"}},
		{Name: "mail", URL: d.reach(d.mail.URL()), Effect: "once", Identity: []string{"to"}, Timeout: 10 * time.Second,
			Members: map[string]string{"to": "string", "text": "string"}},
	}
}

// script words everything anew at each request, and calls two tools.
func (d *deployment) script(n int, r stage.Request, w *stage.Reply) {
	w.Pace = cmp.Or(d.pace, 8*time.Millisecond)
	if r.Answered() {
		w.Text(fmt.Sprintf("It is refunded (try %d), have a good day (try %d). ", n, n))
		w.Finish()
		return
	}
	w.Text(fmt.Sprintf("Refunding it (try %d), one moment (try %d). ", n, n))
	w.Call(fmt.Sprintf("a%d", n), "refund", fmt.Sprintf(`{"order":"ORD","note":"try %d"}`, n))
	w.Call(fmt.Sprintf("c%d", n), "mail", fmt.Sprintf(`{"to":"customer","text":"try %d"}`, n))
	w.Finish()
}

// ready waits until every gateway says that turns can be run.
func (d *deployment) ready() {
	d.t.Helper()
	for _, p := range d.procs["gateway"] {
		for until := time.Now().Add(endTimeout); ; time.Sleep(100 * time.Millisecond) {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			_, err := p.Get(ctx, "/readyz?verbose")
			cancel()
			if err == nil {
				break
			}
			if time.Now().After(until) {
				d.t.Fatalf("gateway is not ready: %v", err)
			}
		}
	}
}

// tellNATS shows the end of the servers' logs if the test has failed.
func (d *deployment) tellNATS() {
	for i, n := range d.nodes {
		if log, _ := os.ReadFile(filepath.Join(n.dir, "nats.log")); d.t.Failed() {
			d.t.Logf("NATS server %d, log ends with:\n%s", i, log[max(0, len(log)-2500):])
		}
	}
}

// tell shows the end of a process's log if the test has failed.
func (d *deployment) tell(p *stage.Product, role string) {
	if !d.t.Failed() {
		return
	}
	log, _ := os.ReadFile(filepath.Join(p.Dir, "turnfold.log"))
	d.t.Logf("%s, log ends with:\n%s", role, log[max(0, len(log)-2500):])
}

const question = "Refund it."

// turn posts a turn and follows it to its end, at whichever gateway answers.
func (d *deployment) turn(ctx context.Context, name string) *stage.Follower {
	gateways := d.procs["gateway"]
	f := stage.NewFollower(gateways[0], name)
	for n := 0; !f.Over && ctx.Err() == nil; n++ {
		f.Move(gateways[n%len(gateways)])
		var err error
		once, cancel := context.WithTimeout(ctx, 15*time.Second) // a stopped gateway says nothing
		if len(f.Items) == 0 {
			err = f.Post(once, question)
		} else {
			err = f.Resume(once)
		}
		cancel()
		if n := len(f.Items); n > 0 && f.Over && f.Items[n-1].Type == "error" && strings.HasPrefix(f.Items[n-1].ID, "error.") {
			f.Items, f.Over = f.Items[:n-1], false // the gateway could not store the turn: post it again
		}
		if !f.Over {
			_ = err // the reason matters only if the turn never ends
			time.Sleep(100 * time.Millisecond)
		}
	}
	return f
}

// check holds a turn that has ended against what its reader saw.
func (d *deployment) check(f *stage.Follower, name string) (stale int) {
	for _, fault := range f.Faults() {
		d.t.Errorf("%s: %s", name, fault)
	}
	var a, b, c, e int
	if n, err := fmt.Sscanf(f.Text(), "Refunding it (try %d), one moment (try %d). It is refunded (try %d), have a good day (try %d). ",
		&a, &b, &c, &e); n != 4 || a != b || c != e {
		d.t.Errorf("%s: spliced or cut text %q: %v", name, f.Text(), err)
		stale++
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	whole := stage.NewFollower(d.procs["gateway"][0], name)
	if err := whole.Resume(ctx); err != nil || whole.Text() != f.Text() {
		d.t.Errorf("%s: the follower shows %q, the feed from its start %q: %v", name, f.Text(), whole.Text(), err)
		stale++
	}
	return stale
}

// audit gives what is wrong with a turn on the log.
func (d *deployment) audit(name string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	verdict, err := d.procs["gateway"][1].Audit(ctx, name)
	if err != nil {
		return err.Error()
	}
	return verdict
}
