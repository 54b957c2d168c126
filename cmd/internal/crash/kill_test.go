package crash

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/turnfold/turnfold/cmd/internal/stage"
)

var (
	killSeed   = flag.Uint64("kill.seed", 0, "seed of the kill moments; 0 draws one")
	killStores = flag.Int("kill.stores", 5, "stores, each of a process of its own")
	killsEach  = flag.Int("kill.each", 20, "kills per store")
)

// TestRandomKill kills the whole process at random moments of running turns, again and
// again, and starts it on the same store: every turn ends, with one effect per key, and
// a feed that is consistent from its start. A kill counts only while a turn runs.
func TestRandomKill(t *testing.T) {
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	fmt.Printf("TestRandomKill: seed %d (-kill.seed), %d stores of %d kills\n", seed, *killStores, *killsEach)
	var mu sync.Mutex
	kills, duplicates, lost, turns := 0, 0, 0, 0
	t.Run("stores", func(t *testing.T) {
		for n := range *killStores {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				k := &killer{shop: newShop(t), rng: rand.New(rand.NewPCG(seed, uint64(n)))}
				k.run(t)
				mu.Lock()
				defer mu.Unlock()
				kills, duplicates, lost, turns = kills+k.kills, duplicates+k.duplicates, lost+k.lost, turns+len(k.turns)
			})
		}
	})
	fmt.Printf("kills %d, duplicate effects %d, lost turns %d (%d turns)\n", kills, duplicates, lost, turns)
	if want := *killStores * *killsEach; kills != want || duplicates != 0 || lost != 0 {
		t.Errorf("kills %d (want %d), duplicate effects %d, lost turns %d; seed %d", kills, want, duplicates, lost, seed)
	}
}

// killer kills one store's process while it runs one turn after the other.
type killer struct {
	*shop
	rng                     *rand.Rand
	turns                   []string
	kills, duplicates, lost int
}

func (k *killer) run(t *testing.T) {
	k.start(t)
	for k.kills < *killsEach {
		name := fmt.Sprintf("kill-%d", len(k.turns))
		k.turns = append(k.turns, name)
		k.lost++ // until it has ended
		f := stage.NewFollower(k.p, name)
		for k.kills < *killsEach && !f.Over {
			k.killOnce(t, f)
		}
		k.finish(t, f)
		k.lost--
		k.checkTurn(t, f, name)
	}
	k.duplicates = k.checkWorld(t, len(k.turns))
	if err := k.p.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// killOnce reads the feed until a random moment, and kills the process then, unless the
// turn has come to its end. Early moments hit the recovery of the process, later ones
// the model's stream, the tools, or the end of the turn.
func (k *killer) killOnce(t *testing.T, f *stage.Follower) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if len(f.Items) == 0 {
			_ = f.Post(ctx, question) // ends with the process
		} else {
			_ = f.Resume(ctx)
		}
	}()
	select {
	case <-ended: // the turn is over, or a moment too short for a connection
		if f.Over {
			return
		}
	case <-time.After(time.Duration(k.rng.Int64N(int64(600 * time.Millisecond)))):
	}
	k.p.Kill()
	k.kills++
	cancel()
	<-ended
	k.start(t)
}
