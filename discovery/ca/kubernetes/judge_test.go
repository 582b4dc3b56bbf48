package kubernetes

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"

	"github.com/pilotlight/pilotlight/discovery/ca/server"
	"github.com/pilotlight/pilotlight/discovery/kube"
)

func tokenOf(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

// An API server gets tokens of service accounts for Istio's audience, and no others.
func TestShown(t *testing.T) {
	for _, row := range []struct{ name, token, want string }{
		{"ours", tokenOf(`{"sub": "system:serviceaccount:shop:web", "aud": ["istio-ca"]}`), ""},
		{"one audience", tokenOf(`{"sub": "system:serviceaccount:shop:web", "aud": "istio-ca"}`), ""},
		{"several audiences", tokenOf(`{"sub": "system:serviceaccount:shop:web", "aud": ["vault", "istio-ca"]}`), ""},
		{"the API server's", tokenOf(`{"sub": "system:serviceaccount:shop:web", "aud": ["https://kubernetes.default.svc"]}`), "want \"istio-ca\""},
		{"no audience", tokenOf(`{"sub": "system:serviceaccount:shop:web"}`), "want \"istio-ca\""},
		{"another issuer's", tokenOf(`{"sub": "web", "aud": "istio-ca"}`), server.ErrForeign.Error()},
		{"no claims", tokenOf(`[]`), server.ErrForeign.Error()},
		{"an audience that is none", tokenOf(`{"sub": "system:serviceaccount:shop:web", "aud": 7}`), server.ErrForeign.Error()},
		{"no base64", "e30.!.c2ln", server.ErrForeign.Error()},
		{"opaque", "0123", server.ErrForeign.Error()},
		{"empty", "", server.ErrForeign.Error()},
	} {
		switch err := shown(row.token); {
		case row.want == "" && err != nil, row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)):
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
	}
}

func reviewed() authenticationv1.TokenReviewStatus {
	return authenticationv1.TokenReviewStatus{
		Authenticated: true, Audiences: []string{Audience},
		User: authenticationv1.UserInfo{
			Username: "system:serviceaccount:shop:web", UID: "1", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"},
			Extra: map[string]authenticationv1.ExtraValue{podName: {"web-1"}, podUID: {"2"}},
		},
	}
}

// ours returns a status as it is read from an API server.
func ours(t *testing.T, s authenticationv1.TokenReviewStatus) (out kube.TokenReviewStatus) {
	t.Helper()
	text, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestJudge(t *testing.T) {
	id, err := judge(ours(t, reviewed()), "example.org")
	if err != nil || id.String() != "spiffe://example.org/ns/shop/sa/web" {
		t.Fatalf("%s, %v", id, err)
	}
	for _, row := range []struct {
		name   string
		change func(*authenticationv1.TokenReviewStatus)
		want   string
	}{
		{"refused", func(s *authenticationv1.TokenReviewStatus) { s.Authenticated, s.Error = false, "token has expired" }, "token has expired"},
		{"refused without a reason", func(s *authenticationv1.TokenReviewStatus) { s.Authenticated = false }, "has expired, its Pod is gone"},
		{"an API server that knows no audiences", func(s *authenticationv1.TokenReviewStatus) { s.Audiences = nil }, `want "istio-ca"`},
		{"another audience", func(s *authenticationv1.TokenReviewStatus) { s.Audiences = []string{"vault"} }, `want "istio-ca"`},
		{"a user", func(s *authenticationv1.TokenReviewStatus) { s.User.Username = "ann" }, "want a service account"},
		{"a name without an account", func(s *authenticationv1.TokenReviewStatus) { s.User.Username = "system:serviceaccount:shop" }, "want a service account"},
		{"a user who is called like one", func(s *authenticationv1.TokenReviewStatus) { s.User.Groups = []string{"system:authenticated"} }, "want a service account"},
		{"groups of another namespace", func(s *authenticationv1.TokenReviewStatus) { s.User.Username = "system:serviceaccount:kube-system:web" }, "want a service account"},
		{"no Pod", func(s *authenticationv1.TokenReviewStatus) { s.User.Extra = nil }, "not bound to a Pod"},
		{"no Pod's uid", func(s *authenticationv1.TokenReviewStatus) { delete(s.User.Extra, podUID) }, "not bound to a Pod"},
		{"a Pod without a name", func(s *authenticationv1.TokenReviewStatus) { s.User.Extra[podName] = []string{""} }, "not bound to a Pod"},
		{"a path", func(s *authenticationv1.TokenReviewStatus) {
			s.User.Username, s.User.Groups = "system:serviceaccount:shop/../kube-system:web", []string{"system:serviceaccounts:shop/../kube-system"}
		}, "not a name of Kubernetes"},
	} {
		s := reviewed()
		row.change(&s)
		if id, err := judge(ours(t, s), "example.org"); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %s, %v, want %q", row.name, id, err, row.want)
		}
	}
}

func FuzzShown(f *testing.F) {
	f.Add(tokenOf(`{"sub": "system:serviceaccount:shop:web", "aud": ["istio-ca"]}`))
	f.Fuzz(func(t *testing.T, token string) {
		if err := shown(token); err == nil && strings.Count(token, ".") != 2 {
			t.Errorf("%q is shown", token)
		}
	})
}

// An API server that is away or gives no right is no refusal; one that finds fault with the token is.
func TestReviewer(t *testing.T) {
	code, body := http.StatusCreated, ""
	asked := 0
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || r.URL.Path != "/apis/authentication.k8s.io/v1/tokenreviews" ||
			len(review.Spec.Audiences) != 1 || review.Spec.Audiences[0] != Audience {
			t.Errorf("it asks %s %+v, %v", r.URL, review, err)
		}
		asked++
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}))
	defer api.Close()
	connected := 0
	r := NewReviewer(func() (*kube.Client, error) {
		connected++
		return kube.New(&rest.Config{Host: api.URL}, "test")
	})
	defer r.Close()
	token := tokenOf(`{"sub": "system:serviceaccount:shop:web", "aud": ["istio-ca"]}`)
	text, err := json.Marshal(authenticationv1.TokenReview{Status: reviewed()})
	if err != nil {
		t.Fatal(err)
	}
	status := func(code, reason string) string {
		return `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "` + reason + `", "code": ` + code + `}`
	}
	for _, row := range []struct {
		name string
		code int
		body string
		busy bool
		ok   bool
	}{
		{"good", http.StatusCreated, string(text), false, true},
		{"no right", http.StatusForbidden, status("403", "Forbidden"), true, false},
		{"overloaded", http.StatusTooManyRequests, status("429", "TooManyRequests"), true, false},
		{"broken", http.StatusInternalServerError, status("500", "InternalError"), true, false},
		{"half an answer", http.StatusCreated, "{", true, false},
		{"a token that is none", http.StatusUnprocessableEntity, status("422", "Invalid"), false, false},
		{"refused", http.StatusCreated, `{"status": {"error": "no"}}`, false, false},
		{"good again", http.StatusCreated, string(text), false, true},
	} {
		code, body = row.code, row.body
		id, err := r.Identify(context.Background(), token, "cluster.local")
		var busy *server.Busy
		if errors.As(err, &busy) != row.busy || (err == nil) != row.ok || row.ok && id.ServiceAccount != "web" {
			t.Errorf("%s: %v, %v", row.name, id, err)
		}
	}
	if connected != 5 {
		t.Errorf("it has connected %d times, want once, and after each of 4 failures", connected)
	}
	before := asked
	if _, err := r.Identify(context.Background(), "opaque", "cluster.local"); !errors.Is(err, server.ErrForeign) || asked != before {
		t.Errorf("a foreign token: %v, asked %d times", err, asked-before)
	}
}
