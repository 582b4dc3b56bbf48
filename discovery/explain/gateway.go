package explain

import (
	"strings"

	jwtv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	"google.golang.org/protobuf/proto"
)

// guard takes a request through a filter of tokens or policies of a gateway. judged is false for another filter; refuses reports whether the request
// ends there, with left of all.
func (j *judge) guard(name string, config proto.Message, r Request, left float64) (judged, refuses bool) {
	switch p := config.(type) {
	case *jwtv3.JwtAuthentication:
		a := authenticate(p, r)
		if a.text != "" {
			j.step(Step{Kind: "filter", Name: name, Text: a.text, Unmade: notTraced})
		}
		if a.unless != "" {
			j.unjudged = append(j.unjudged, a.unless)
		}
		if a.status != 0 {
			j.end(Outcome{Share: left, Status: a.status, Reason: a.text})
		}
		j.token = a.token
		return true, a.status != 0
	case *httprbacv3.RBAC:
		refuses, by, passed, unjudged := refused(p.Rules, call{Request: r, secure: j.secure, token: j.token})
		for i := range passed {
			passed[i].Origins = j.origins(Part{Policy: passed[i].Name}).By
		}
		step, reason := verdictOf(refuses, by, func(p Part) []Place { return j.origins(p).By }, passed, unjudged, "gateway")
		if step.Text != "" {
			j.step(step)
		}
		j.unjudged = append(j.unjudged, unjudged...)
		if refuses {
			j.end(Outcome{Share: left, Status: 403, Reason: reason})
		}
		return true, refuses
	}
	return false, false
}

// verdictOf says what a filter of policies does, as refused has found it; the text is "" if it has no policy.
func verdictOf(refuses bool, name string, origins func(Part) []Place, passed []Passed, unjudged []string, whose string) (step Step, reason string) {
	step = Step{Kind: whose + " policy", Name: name, Passed: passed}
	if name != "" {
		step.Origins = origins(Part{Policy: name})
	}
	if len(step.Origins) == 0 {
		step.Unmade = "no rule of a policy is met"
	}
	switch {
	case refuses && name != "":
		step.Text, reason = "denies it", "denied by "+name+by(step.Origins)
	case refuses:
		step.Text, reason = "none allows it", "no policy of the "+whose+" allows it"
	case name != "":
		step.Text = "allows it"
	case len(unjudged) > 0:
		step.Name, step.Text = strings.Join(unjudged, ", "), "explain does not judge it"
	case len(passed) > 0:
		step.Text = "none denies it"
	}
	return step, reason
}
