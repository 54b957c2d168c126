package tool

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// secretPrefix marks a Standard Webhooks secret; base64 follows.
const secretPrefix = "whsec_"

// secretBytesMin and secretBytesMax bound a secret, as the specification does.
const (
	secretBytesMin = 24
	secretBytesMax = 64
)

// signer puts the three Standard Webhooks headers on a request.
type signer func(h http.Header, id string, at time.Time, body string)

// newSigner makes a signer of a secret. Its error never shows the secret.
func newSigner(secret string) (signer, error) {
	if secret == "" {
		return nil, errors.New("is not set; set it to whsec_ and the base64 of 24 to 64 random bytes")
	}
	text, ok := strings.CutPrefix(secret, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(key) < secretBytesMin || len(key) > secretBytesMax {
		return nil, errors.New("is not a Standard Webhooks secret; set it to whsec_ and the base64 of 24 to 64 random bytes")
	}
	return func(h http.Header, id string, at time.Time, body string) {
		seconds := strconv.FormatInt(at.Unix(), 10)
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + seconds + "." + body)) // never fails
		h.Set("Webhook-Id", id)
		h.Set("Webhook-Timestamp", seconds)
		h.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}, nil
}
