package subjects

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestLayoutValidate(t *testing.T) {
	const day = 24 * time.Hour
	for _, l := range []Layout{
		{Partitions: 1, Replicas: 1},
		{Partitions: 256, Replicas: 5},
		{Partitions: 4, Replicas: 3, EventsAge: 30 * day, OutputsAge: 31 * day, EffectsAge: 32 * day},
		{Partitions: 4, Replicas: 3, EventsAge: 30 * day, OutputsAge: 31 * day},
		{Partitions: 4, Replicas: 3, EventsAge: 30 * day},
	} {
		if err := l.Validate(); err != nil {
			t.Errorf("%+v is refused: %v", l, err)
		}
	}
	for _, c := range []struct {
		layout Layout
		faults []string // all of them are reported at once
	}{
		{Layout{}, []string{"partitions is 0", "replicas is 0"}},
		{Layout{Partitions: 257, Replicas: 2}, []string{"partitions is 257", "replicas is 2"}},
		{Layout{Partitions: -1, Replicas: 4}, []string{"partitions is -1", "replicas is 4"}},
		{Layout{Partitions: 1, Replicas: 1, OutputsAge: day}, []string{"outputs are kept 24h0m0s"}},
		{Layout{Partitions: 1, Replicas: 1, EffectsAge: day}, []string{"effects are kept 24h0m0s"}},
		{Layout{Partitions: 1, Replicas: 1, EventsAge: 2 * day, OutputsAge: 3*day - 1, EffectsAge: 3 * day},
			[]string{"outputs are kept", "effects are kept"}},
		{Layout{Partitions: 0, Replicas: 1, EventsAge: 2 * day, OutputsAge: day, EffectsAge: 2 * day}, []string{"partitions is 0", "outputs are kept"}},
	} {
		err := c.layout.Validate()
		if err == nil {
			t.Errorf("%+v is taken", c.layout)
			continue
		}
		if n := strings.Count(err.Error(), "\n") + 1; n != len(c.faults) {
			t.Errorf("%+v: %d faults, want %d:\n%v", c.layout, n, len(c.faults), err)
		}
		for _, f := range c.faults {
			if !strings.Contains(err.Error(), f) {
				t.Errorf("%+v: no %q in %v", c.layout, f, err)
			}
		}
	}
}

func TestStreams(t *testing.T) {
	l := Layout{Partitions: 3, Replicas: 3, EventsAge: time.Hour, OutputsAge: 2 * time.Hour, EffectsAge: 3 * time.Hour}
	streams := l.Streams()
	if len(streams) != 9 {
		t.Fatalf("%d streams, want 9", len(streams))
	}
	want := map[string]struct {
		subject string
		age     time.Duration
	}{
		"TF_EV_": {"tf.ev.", time.Hour}, "TF_OUT_": {"tf.out.", 2 * time.Hour}, "TF_FX_": {"tf.fx.", 3 * time.Hour},
	}
	seen := map[string]bool{}
	for _, s := range streams {
		prefix, p := s.Name[:strings.LastIndex(s.Name, "_")+1], s.Name[strings.LastIndex(s.Name, "_")+1:]
		w, ok := want[prefix]
		if n, err := strconv.Atoi(p); !ok || err != nil || n < 0 || n > 2 || seen[s.Name] {
			t.Errorf("stream %s", s.Name)
		}
		seen[s.Name] = true
		if len(s.Subjects) != 1 || s.Subjects[0] != w.subject+p+".>" || s.MaxAge != w.age || s.Replicas != 3 ||
			s.Metadata[MetadataPartitions] != "3" {
			t.Errorf("%+v", s)
		}
	}
}

// Every subject of a partition is held by its stream and by no other.
func TestStreamsHoldTheSubjects(t *testing.T) {
	turn := Turn{"acme", "t-1"}
	streams := Layout{Partitions: 12, Replicas: 1}.Streams()
	for _, p := range []int{0, 1, 11} {
		for subject, name := range map[string]string{
			Events(p, turn): EventsStream(p), Out(p, turn, LaneFeed): OutputsStream(p), OutPosition(p): OutputsStream(p),
			Effect(p, "tfk1_x"): EffectsStream(p), EffectBody(p, "tfk1_x"): EffectsStream(p),
		} {
			var holders []string
			for _, s := range streams {
				if strings.HasPrefix(subject, strings.TrimSuffix(s.Subjects[0], ">")) {
					holders = append(holders, s.Name)
				}
			}
			if len(holders) != 1 || holders[0] != name {
				t.Errorf("%s is held by %v, want %s", subject, holders, name)
			}
		}
	}
}
