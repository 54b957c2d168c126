package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/turnfold/turnfold/cmd/internal/stage"
	"github.com/turnfold/turnfold/subjects"
	"github.com/turnfold/turnfold/subjects/embed"
	"github.com/turnfold/turnfold/subjects/jet"
)

const (
	ownedPartitions = 4
	// ownerTTL is so long that what a busy machine adds shows as little.
	ownerTTL = 5 * time.Second
	// deadMax and stoppedMax are what docs/cluster.md promises of a take-over.
	deadMax    = ownerTTL + time.Second
	stoppedMax = 300 * time.Millisecond
)

// TestOwnerDies kills the process that owns a partition, and stops it as an operator
// does, with one replica. From the moment of either until the new owner's first output,
// a turn that is opened in the partition waits within what is promised.
func TestOwnerDies(t *testing.T) {
	f := newFleet(t)
	var killed, stopped []time.Duration
	for len(killed) == 0 || len(killed) < 3 && slices.Min(killed) > deadMax { // another: the machine may have been busy
		killed = append(killed, f.without(f.reducers[len(killed)%2], (*stage.Product).Kill))
	}
	fmt.Printf("owner killed: first output of the new one after %s, lease %s, at most %s\n", list(killed), ownerTTL, deadMax)
	if best := slices.Min(killed); best > deadMax {
		t.Errorf("owner killed: took %s, more than %s", best, deadMax)
	}
	if best := slices.Min(killed); best < ownerTTL/2 {
		t.Errorf("owner killed: took %s; its lease of %s cannot have been over", best, ownerTTL)
	}
	for len(stopped) < 5 || len(stopped) < 15 && median(stopped) > stoppedMax && slices.Max(stopped) < ownerTTL/2 {
		stopped = append(stopped, f.without(f.reducers[len(stopped)%2], func(p *stage.Product) {
			if err := p.Stop(); err != nil {
				t.Errorf("reducer did not stop cleanly: %v", err)
			}
		}))
	}
	fmt.Printf("owner stopped: first output of the new one after %s; median %s, at most %s\n", list(stopped), median(stopped), stoppedMax)
	if m := median(stopped); m > stoppedMax {
		t.Errorf("owner stopped: took %s, more than %s", m, stoppedMax)
	}
	if worst := slices.Max(stopped); worst > ownerTTL/2 {
		t.Errorf("owner stopped: took %s, as if the lease of %s had to run out", worst, ownerTTL)
	}
}

func list(all []time.Duration) string {
	var out []string
	for _, d := range all {
		out = append(out, d.Round(time.Millisecond).String())
	}
	return strings.Join(out, ", ")
}

func median(all []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// fleet is two reducers and a gateway over one server.
type fleet struct {
	t        *testing.T
	conn     *jet.Conn
	gateway  *stage.Product
	reducers []*stage.Product
	turns    int
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	srv, err := embed.Start(embed.Config{StoreDir: t.TempDir(), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	f := &fleet{t: t}
	config := map[string]any{"partitions": ownedPartitions, "replicas": 1, "lease": map[string]any{"ttl": ownerTTL.String()},
		"nats": map[string]any{"store_dir": "store", "url": srv.URL(), "user": srv.User(), "password_env": "TURNFOLD_NATS_PASSWORD"}}
	launch := func(role string) *stage.Product {
		p, err := stage.NewProduct(binary, t.TempDir(), "http://127.0.0.1:1/v1", config)
		if err != nil {
			t.Fatal(err)
		}
		p.Args, p.Env = []string{"--roles", role}, []string{"TURNFOLD_NATS_PASSWORD=" + srv.Password()}
		if err := p.Launch(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		return p
	}
	f.gateway = launch("gateway")
	f.reducers = []*stage.Product{launch("reducer"), launch("reducer")}
	f.conn, err = jet.Connect(t.Context(), jet.Config{URL: srv.URL(), User: srv.User(), Password: srv.Password(), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.conn.Close(context.Background()) })
	f.shared()
	return f
}

// owned are the partitions of a process.
func (f *fleet) owned(p *stage.Product) (mine []int) {
	id, err := os.ReadFile(filepath.Join(p.Dir, "store", "instance"))
	if err != nil {
		return nil // it has not come so far
	}
	for n := range ownedPartitions {
		val, _, ok, err := f.conn.Bucket(subjects.BucketLeases).Get(context.Background(), fmt.Sprint("partition.", n))
		var holder struct{ Owner string }
		if err == nil && ok && json.Unmarshal(val, &holder) == nil && holder.Owner == strings.TrimSpace(string(id)) {
			mine = append(mine, n)
		}
	}
	return mine
}

// shared waits until both processes have their share, and every partition answers.
func (f *fleet) shared() {
	f.t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		a, b := len(f.owned(f.reducers[0])), len(f.owned(f.reducers[1]))
		if a == b && a+b == ownedPartitions {
			break
		}
		if time.Now().After(until) {
			f.t.Fatalf("the reducers have %d and %d of %d partitions", a, b, ownedPartitions)
		}
	}
	var all []int
	for p := range ownedPartitions {
		all = append(all, p)
	}
	f.answered(all)
}

// without takes a process away, and gives the time from then to the first output of the
// turn that waited longest for it: the new owner's first. Afterwards the process is there
// again.
func (f *fleet) without(p *stage.Product, end func(*stage.Product)) time.Duration {
	f.t.Helper()
	mine := f.owned(p)
	if len(mine) == 0 {
		f.t.Fatal("the process owns nothing")
	}
	gone := make(chan struct{})
	began := time.Now()
	go func() { end(p); close(gone) }()
	longest, at := f.answered(mine)
	for open := true; open; { // until it is gone it may answer itself
		select {
		case <-gone:
			open = false
		default:
		}
		if took, t := f.answered(mine); took > longest {
			longest, at = took, t
		}
	}
	if err := p.Launch(); err != nil {
		f.t.Fatal(err)
	}
	f.shared()
	return at.Sub(began)
}

// answered opens a turn in each of some partitions, and gives the longest time that one
// waited for its first output, and when that came.
func (f *fleet) answered(partitions []int) (longest time.Duration, at time.Time) {
	f.t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, p := range partitions {
		name := ""
		for ; name == "" || (subjects.Turn{Tenant: subjects.LocalTenant, ID: name}).Partition(ownedPartitions) != p; f.turns++ {
			name = fmt.Sprint("owned-", f.turns)
		}
		all.Go(func() {
			began := time.Now()
			came := f.accepted(name)
			mu.Lock()
			defer mu.Unlock()
			if took := came.Sub(began); took > longest {
				longest, at = took, came
			}
		})
	}
	all.Wait()
	return longest, at
}

// accepted is when a turn's first item came.
func (f *fleet) accepted(name string) (at time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	turn := stage.NewFollower(f.gateway, name)
	turn.Seen = func(stage.Item) {
		if at.IsZero() {
			at = time.Now()
			cancel()
		}
	}
	err := turn.Post(ctx, question)
	for ; at.IsZero() && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) { // not ready yet
		err = turn.Post(ctx, question)
	}
	if at.IsZero() {
		f.t.Errorf("%s has no item after a minute: %v", name, err)
	}
	return at
}
