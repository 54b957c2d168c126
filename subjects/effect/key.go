package effect

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// KeyPrefix starts every key and names the rules that made it. Other rules for
// meaning or spelling need another prefix, never another hash under this one.
const KeyPrefix = "tfk1_"

// keyEncoding spells digests in [a-z2-7], so that a key is one plain token of a
// subject and no part of it needs an escape anywhere.
var keyEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// ErrInvalidKey marks text that is not an effect key.
var ErrInvalidKey = errors.New("effect: invalid key")

// Identity says which arguments name the effect, as declared beside the tool.
// The rest only describes it, and a reworded description is the same effect.
type Identity struct {
	All    bool     // every argument names it; Fields is ignored
	Fields []string // names of top-level members
}

// IdentityOf returns the canonical JSON object of the members of args that name
// the effect. An absent member stays absent and an explicit null stays null,
// because the target may tell them apart.
func IdentityOf(args string, id Identity) (string, error) {
	root, err := parse(args, false)
	if err != nil {
		return "", err
	}
	if !id.All {
		names := make([]string, len(id.Fields))
		for i, f := range id.Fields {
			names[i] = nfc(f)
		}
		root.members = slices.DeleteFunc(root.members, func(m member) bool { return !slices.Contains(names, m.name) })
	}
	return string(root.append(make([]byte, 0, len(args)))), nil
}

// Meaning is all that an effect key depends on. Provider ids, attempts,
// processes and clocks are not in it. Source: docs/invariants.md, I6.
type Meaning struct {
	// Tenant, Scope and Tool are valid UTF-8; whoever reads them in checks that.
	// Scope is what the effect is unique within, for example the turn.
	Tenant, Scope, Tool string
	// Identity is the text that IdentityOf returned. Empty means {}.
	Identity string
	// Ordinal tells equal effects that are meant to repeat apart. It is counted by
	// the fold, never by the model. The first one is 0.
	Ordinal int
}

// Preimage returns the canonical JSON array whose hash is the key.
func (m Meaning) Preimage() string {
	b := make([]byte, 0, len(m.Identity)+128)
	b = append(b, '[')
	for _, s := range []string{m.Tenant, m.Scope, m.Tool} {
		b = append(quote(b, nfc(s)), ',')
	}
	identity := m.Identity
	if identity == "" {
		identity = "{}"
	}
	b = append(append(b, identity...), ',')
	b = strconv.AppendInt(b, int64(m.Ordinal), 10)
	return string(append(b, ']'))
}

// Key returns the effect key: KeyPrefix and the SHA-256 digest of the preimage
// in lower-case base32, 57 characters of [a-z0-9_].
func (m Meaning) Key() string {
	return FormatKey(sha256.Sum256([]byte(m.Preimage())))
}

// FormatKey spells a digest as a key.
func FormatKey(sum [sha256.Size]byte) string {
	return KeyPrefix + keyEncoding.EncodeToString(sum[:])
}

// ParseKey returns the digest that key spells. Any text but the exact spelling
// of FormatKey is refused.
func ParseKey(key string) (sum [sha256.Size]byte, err error) {
	text, ok := strings.CutPrefix(key, KeyPrefix)
	if ok && len(text) == keyEncoding.EncodedLen(len(sum)) && spelt(&sum, text) {
		return sum, nil
	}
	return [sha256.Size]byte{}, fmt.Errorf("%w: %q", ErrInvalidKey, key)
}

// spelt reads the letters of a digest. The last letter has bits to spare, which must be 0
// in the one spelling that counts.
func spelt(sum *[sha256.Size]byte, text string) bool {
	bits, have, n := uint32(0), 0, 0
	for i := range len(text) {
		c := text[i]
		switch {
		case 'a' <= c && c <= 'z':
			c -= 'a'
		case '2' <= c && c <= '7':
			c = c - '2' + 26
		default:
			return false
		}
		bits, have = bits<<5|uint32(c), have+5
		if have >= 8 {
			have -= 8
			sum[n] = byte(bits >> have)
			n++
		}
	}
	return bits&(1<<have-1) == 0
}
