package kubernetes

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/ca"
	"github.com/pilotlight/pilotlight/discovery/ca/server"
	"github.com/pilotlight/pilotlight/discovery/kube"
)

// Audience is that of the tokens, as Istio's agents have it.
const Audience = "istio-ca"

const (
	accountPrefix = "system:serviceaccount:"
	groupPrefix   = "system:serviceaccounts:"
	podName       = "authentication.kubernetes.io/pod-name"
	podUID        = "authentication.kubernetes.io/pod-uid"
)

// claims are what a token says of itself.
type claims struct {
	Subject  string    `json:"sub"`
	Audience audiences `json:"aud"`
}

// audiences are one text, or a list.
type audiences []string

// UnmarshalJSON reads either form.
func (a *audiences) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*a = audiences{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(a))
}

// shown returns an error for a token that an API server need not be asked about: ErrForeign for one that is of no
// service account. An API server does not get tokens of others, or for others.
func shown(token string) error {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return server.ErrForeign
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return server.ErrForeign
	}
	var c claims
	if json.Unmarshal(text, &c) != nil || !strings.HasPrefix(c.Subject, accountPrefix) {
		return server.ErrForeign
	}
	if !slices.Contains(c.Audience, Audience) {
		return fmt.Errorf("the token is for the audience %q, want %q", []string(c.Audience), Audience)
	}
	return nil
}

// judge returns the identity of a token that an API server has reviewed.
func judge(s kube.TokenReviewStatus, trustDomain string) (ca.Identity, error) {
	name, isAccount := strings.CutPrefix(s.User.Username, accountPrefix)
	namespace, account, whole := strings.Cut(name, ":")
	switch {
	case !s.Authenticated && s.Error != "":
		return ca.Identity{}, fmt.Errorf("the API server refuses the token: %s", s.Error)
	case !s.Authenticated:
		return ca.Identity{}, errors.New("the API server refuses the token: it has expired, its Pod is gone, or another API server has signed it")
	case !slices.Contains(s.Audiences, Audience):
		return ca.Identity{}, fmt.Errorf("the API server takes the token for the audiences %q, want %q", s.Audiences, Audience)
	case !isAccount || !whole || !slices.Contains(s.User.Groups, groupPrefix+namespace):
		return ca.Identity{}, fmt.Errorf("the token is of %q with the groups %q, want a service account", s.User.Username, s.User.Groups)
	case !one(s.User.Extra[podName]) || !one(s.User.Extra[podUID]):
		return ca.Identity{}, fmt.Errorf("the token of %s is not bound to a Pod, want one of a projected volume", s.User.Username)
	}
	return ca.NewIdentity(trustDomain, namespace, account)
}

func one(values []string) bool { return len(values) == 1 && values[0] != "" }
