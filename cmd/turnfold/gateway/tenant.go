package gateway

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/turnfold/turnfold/subjects"
)

// tenants knows which token is whose. It keeps digests: they have one length, which
// is what makes the comparison take the same time for every token.
type tenants struct {
	list []tenantToken
}

type tenantToken struct {
	digest [sha256.Size]byte
	tenant string
}

func newTenants(tokens map[string]string) *tenants {
	t := &tenants{}
	for token, tenant := range tokens {
		t.list = append(t.list, tenantToken{sha256.Sum256([]byte(token)), tenant})
	}
	return t
}

// of gives the tenant of a request, looking at every token whatever it finds.
func (t *tenants) of(r *http.Request) (string, bool) {
	if len(t.list) == 0 {
		return subjects.LocalTenant, true
	}
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	digest := sha256.Sum256([]byte(strings.TrimSpace(token)))
	tenant, found := "", false
	for _, known := range t.list {
		if subtle.ConstantTimeCompare(digest[:], known.digest[:]) == 1 {
			tenant, found = known.tenant, true
		}
	}
	return tenant, found
}

// require lets through only requests of a tenant.
func (t *tenants) require(h func(http.ResponseWriter, *http.Request, string)) http.Handler {
	return t.requireOr(refuse, h)
}

// requireOr is require for protocols that have refusals of their own.
func (t *tenants) requireOr(refuse func(http.ResponseWriter, fault), h func(http.ResponseWriter, *http.Request, string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tenant, ok := t.of(r)
		if !ok {
			w.Header().Set("WWW-Authenticate", `Bearer realm="turnfold"`)
			refuse(w, fault{http.StatusUnauthorized, "", "Send a token: Authorization: Bearer …"})
			return
		}
		h(w, r, tenant)
	})
}
