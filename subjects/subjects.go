// Package subjects is the grammar of turnfold's logs: ids, subjects, partitions
// and stream configurations as data.
//
// Invariant: equal addresses give equal subjects and partitions in every process
// and every version, because where a turn lies must be found again in ten years.
// Nothing here does I/O.
package subjects

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// LocalTenant is the tenant of every request that comes without a token.
const LocalTenant = "local"

// idLenMax bounds a tenant or turn id, in bytes.
const idLenMax = 64

// ErrBadID: a tenant or turn id that does not match [A-Za-z0-9_-]{1,64}.
var ErrBadID = errors.New("subjects: bad id")

// ErrBadSubject: a subject that is not of turnfold's grammar.
var ErrBadSubject = errors.New("subjects: bad subject")

// CheckID says what is wrong with a tenant or turn id, naming the member `field`
// it was given in; nil if nothing is.
func CheckID(field, id string) error {
	if id == "" {
		return fmt.Errorf("%w: %s is empty", ErrBadID, field)
	}
	if len(id) > idLenMax {
		return fmt.Errorf("%w: %s has %d bytes, %d are allowed", ErrBadID, field, len(id), idLenMax)
	}
	for i := 0; i < len(id); i++ {
		if !idByte(id[i]) {
			return fmt.Errorf("%w: %s has %q at byte %d; allowed are A-Z a-z 0-9 _ -", ErrBadID, field, id[i], i)
		}
	}
	return nil
}

func idByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// Turn is the address of a turn. Both parts have passed CheckID.
type Turn struct {
	Tenant string
	ID     string
}

func (t Turn) String() string { return t.Tenant + "/" + t.ID }

// ParseTurn reads what String writes.
func ParseTurn(text string) (Turn, error) {
	tenant, id, _ := strings.Cut(text, "/")
	t := Turn{Tenant: tenant, ID: id}
	return t, errors.Join(CheckID("tenant", t.Tenant), CheckID("turn", t.ID))
}

// Partition is where the turn's events and outputs lie: FNV-1a-32 of "tenant/turn"
// modulo n, the same function as the server's subject transform.
func (t Turn) Partition(n int) int { return fnvMod(t.String(), n) }

// KeyPartition is where the facts of an effect key lie.
func KeyPartition(key string, n int) int { return fnvMod(key, n) }

func fnvMod(s string, n int) int {
	h := fnv.New32a()
	h.Write([]byte(s)) // never fails
	return int(h.Sum32() % uint32(n))
}

// Lane is the kind of output on a turn's OUT subjects.
type Lane string

// The lanes of OUT: items for renderers, commands for streamers, commands for executors.
const (
	LaneFeed Lane = "feed"
	LaneStep Lane = "step"
	LaneCall Lane = "call"
)

// Events is the one literal subject of a turn's facts. Attempt and kind stay out of
// it on purpose: subjects cost server memory (docs/architecture.md, "Subjects").
func Events(p int, t Turn) string {
	return "tf.ev." + strconv.Itoa(p) + "." + t.Tenant + "." + t.ID
}

// EventsOf matches the facts of every turn of a tenant.
func EventsOf(p int, tenant string) string { return "tf.ev." + strconv.Itoa(p) + "." + tenant + ".*" }

// OutOf matches the outputs of every turn of a tenant.
func OutOf(p int, tenant string) string { return "tf.out." + strconv.Itoa(p) + "." + tenant + ".*.*" }

// Out is the subject of one lane of a turn's outputs.
func Out(p int, t Turn, lane Lane) string {
	return "tf.out." + strconv.Itoa(p) + "." + t.Tenant + "." + t.ID + "." + string(lane)
}

// OutTurn matches every lane of a turn's outputs.
func OutTurn(p int, t Turn) string {
	return "tf.out." + strconv.Itoa(p) + "." + t.Tenant + "." + t.ID + ".*"
}

// OutLane matches one lane of every turn of a partition.
func OutLane(p int, lane Lane) string {
	return "tf.out." + strconv.Itoa(p) + ".*.*." + string(lane)
}

// OutPosition is where a partition's owner writes about the partition itself:
// rewinds, and markers of its position.
func OutPosition(p int) string { return "tf.out." + strconv.Itoa(p) + ".position" }

// Effect is the subject of a key's facts; EffectBody of its result bodies.
func Effect(p int, key string) string { return "tf.fx." + strconv.Itoa(p) + "." + key }

// EffectBody is the subject of the result bodies of an effect key.
func EffectBody(p int, key string) string { return Effect(p, key) + ".body" }

// ParseEvents takes a subject of Events apart.
func ParseEvents(subject string) (int, Turn, error) {
	p, tenant, id, ok := address(subject, "tf.ev.")
	if !ok || strings.Contains(id, ".") {
		return 0, Turn{}, fmt.Errorf("%w: %q is not tf.ev.<partition>.<tenant>.<turn>", ErrBadSubject, subject)
	}
	return parseAddress(subject, p, Turn{tenant, id})
}

// ParseOut takes a subject of Out apart.
func ParseOut(subject string) (int, Turn, Lane, error) {
	part, tenant, rest, ok := address(subject, "tf.out.")
	id, last, ok2 := strings.Cut(rest, ".")
	if !ok || !ok2 || strings.Contains(last, ".") {
		return 0, Turn{}, "", fmt.Errorf("%w: %q is not tf.out.<partition>.<tenant>.<turn>.<lane>", ErrBadSubject, subject)
	}
	p, t, err := parseAddress(subject, part, Turn{tenant, id})
	lane := Lane(last)
	if err == nil && lane != LaneFeed && lane != LaneStep && lane != LaneCall {
		err = fmt.Errorf("%w: %q has lane %q", ErrBadSubject, subject, lane)
	}
	return p, t, lane, err
}

// address cuts <prefix><partition>.<tenant>.<rest>.
func address(subject, prefix string) (partition, tenant, rest string, ok bool) {
	rest, ok = strings.CutPrefix(subject, prefix)
	partition, rest, ok2 := strings.Cut(rest, ".")
	tenant, rest, ok3 := strings.Cut(rest, ".")
	return partition, tenant, rest, ok && ok2 && ok3
}

func parseAddress(subject, partition string, t Turn) (int, Turn, error) {
	p, err := strconv.Atoi(partition)
	if err != nil || p < 0 {
		return 0, Turn{}, fmt.Errorf("%w: %q has partition %q", ErrBadSubject, subject, partition)
	}
	if err := errors.Join(CheckID("tenant", t.Tenant), CheckID("turn", t.ID)); err != nil {
		return 0, Turn{}, fmt.Errorf("%w: %q: %w", ErrBadSubject, subject, err)
	}
	return p, t, nil
}
