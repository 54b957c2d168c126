package bench

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"
)

// The measurement itself works: every number is there, and a store of settled calls
// stays small. What the numbers are is for whoever runs it on a quiet machine.
func TestEffects(t *testing.T) {
	d := 200 * time.Millisecond
	if text := os.Getenv("BENCH_EFFECTS_FOR"); text != "" {
		var err error
		if d, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Effects(context.Background(), EffectsConfig{Dir: t.TempDir(), For: d, Keys: 20_000})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Callers) != 3 || r.Callers[2].Callers != 64 || r.RatioToRaw != r.Callers[2].RatioToRaw || r.P99 == 0 {
		t.Errorf("report %+v", r)
	}
	for _, c := range r.Callers {
		if c.EffectsPS <= 0 || c.RawPS <= 0 || c.P99 < c.P50 || c.CPU <= 0 || c.RawCPU <= 0 {
			t.Errorf("at %d callers: %+v", c.Callers, c)
		}
	}
	if r.Disk.SyncP50 <= 0 || r.Disk.SyncP99 < r.Disk.SyncP50 {
		t.Errorf("disk %+v", r.Disk)
	}
	if s := r.Store; s.Keys != 20_000 || s.BytesPerKey <= 0 || s.BytesPerKey > 300 || s.LookupP99 <= 0 || s.StartMS <= 0 {
		t.Errorf("store %+v", s)
	}
	var out strings.Builder
	r.Print(&out)
	t.Log("\n" + out.String())
}
