package gemini

import (
	"strings"

	"github.com/turnfold/turnfold/streamer/provider"
)

// kept is what goes back with a call: quoted strings, as they came. The log keeps it as
// ["gemini",{"id":…,"thoughtSignature":…}], so that it cannot be taken for another API's.
type kept struct {
	own           bool // the call came from this API
	id, signature string
}

const keptHead, keptTail = `["` + Name + `",{`, `}]`

func (k kept) String() string {
	var members []string
	if k.id != "" {
		members = append(members, `"id":`+k.id)
	}
	if k.signature != "" {
		members = append(members, `"thoughtSignature":`+k.signature)
	}
	return keptHead + strings.Join(members, ",") + keptTail
}

func readKept(opaque string) kept {
	var k kept
	if !strings.HasPrefix(opaque, keptHead) || !strings.HasSuffix(opaque, keptTail) {
		return k
	}
	s := provider.NewScan()
	s.Reset([]byte(opaque[len(keptHead)-1 : len(opaque)-1]))
	for ok := s.Open('{'); ok && s.Member(); {
		switch string(s.Name()) {
		case "id":
			k.id = string(s.Text())
		case "thoughtSignature":
			k.signature = string(s.Text())
		default:
			s.Skip()
		}
	}
	if s.Err() != nil {
		return kept{}
	}
	k.own = true
	return k
}

// signedText is the answer text of a part that was kept whole.
func signedText(data string) string {
	s := provider.NewScan()
	s.Reset([]byte(data))
	var p part
	p.read(s)
	if s.Err() != nil || p.thought {
		return ""
	}
	return provider.Word(p.text)
}
