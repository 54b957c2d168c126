package fold

import (
	"encoding/base64"
	"iter"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnfold/turnfold/subjects/feed"
)

// picturesMax bounds the pictures of one result. What is beyond stays in the result.
const picturesMax = 16

// part is a content part in the form that MCP gives tool results, revision 2025-11-25.
type part struct {
	Type     string `json:"type"`
	Mime     string `json:"mimeType"`
	Data     string `json:"data"` // of an image, base64
	URI      string `json:"uri"`  // of a resource link
	Resource struct {
		Mime string `json:"mimeType"`
		Blob string `json:"blob"` // base64
	} `json:"resource"`
}

// picture is the image that a part holds or links to; nil if it is none that a client
// could show.
func (p *part) picture() *feed.Image {
	mime, data := p.Mime, p.Data
	switch p.Type {
	case "image":
	case "resource":
		mime, data = p.Resource.Mime, p.Resource.Blob
	case "resource_link":
		if isImage(mime) && (strings.HasPrefix(p.URI, "https://") || strings.HasPrefix(p.URI, "http://")) {
			return &feed.Image{Mime: mime, URL: p.URI}
		}
		return nil
	default:
		return nil
	}
	if _, err := base64.StdEncoding.DecodeString(data); err != nil || data == "" || !isImage(mime) {
		return nil
	}
	return &feed.Image{Mime: mime, Data: data}
}

// isImage holds a media type to what can stand in a data URL as it is.
func isImage(mime string) bool {
	name, ok := strings.CutPrefix(mime, "image/")
	return ok && name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+-") == ""
}

// pictures are the images that a result carries, and the result's text for the model,
// where each image whose bytes are in the result is replaced by a note: to a model that
// reads text, base64 is some hundred thousand tokens of noise. A result carries images
// if it is a JSON object whose member "content" is a list of parts, whoever gave it.
func pictures(result string) (images []*feed.Image, told string) {
	if !strings.Contains(result, "image/") {
		return nil, result // nearly all results end here
	}
	var text strings.Builder
	done := 0
	for at, raw := range parts(result) {
		var p part
		if json.Unmarshal([]byte(raw), &p) != nil {
			continue
		}
		image := p.picture()
		if image == nil || len(images) == picturesMax {
			continue
		}
		images = append(images, image)
		if image.Data != "" {
			text.WriteString(result[done:at])
			text.WriteString(`{"type":"text","text":"[a picture, ` + image.Mime + `, that is shown to the user]"}`)
			done = at + len(raw)
		}
	}
	return images, text.String() + result[done:]
}

// parts are the elements of the member "content" of a JSON object, each with its place
// in the text. A text that is not such an object has none.
func parts(text string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		if !jsontext.Value(text).IsValid() {
			return
		}
		dec := jsontext.NewDecoder(strings.NewReader(text))
		if t, err := dec.ReadToken(); err != nil || t.Kind() != '{' {
			return
		}
		for dec.PeekKind() == '"' {
			name, err := dec.ReadToken()
			if err != nil {
				return
			}
			if name.String() != "content" || dec.PeekKind() != '[' {
				if dec.SkipValue() != nil {
					return
				}
				continue
			}
			_, _ = dec.ReadToken() // [
			for dec.PeekKind() != ']' {
				raw, err := dec.ReadValue()
				if err != nil || !yield(int(dec.InputOffset())-len(raw), string(raw)) {
					return
				}
			}
			return
		}
	}
}
