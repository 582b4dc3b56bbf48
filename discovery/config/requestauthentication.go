package config

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	security "istio.io/api/security/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// maxTokenRules is how many rules an object may have: each is looked at for each request.
const maxTokenRules = 64

// plainHeader is a header that is none of HTTP/2's own.
var (
	plainHeader  = regexp.MustCompile("^[-!#$%&'*+.^_`|~0-9a-zA-Z]+$")
	outputHeader = regexp.MustCompile("^[-_0-9a-zA-Z]+$")
)

func requestAuthentication(f field, p *security.RequestAuthentication) {
	f.selector(p.GetSelector())
	policyTargets(f, p.TargetRef, p.TargetRefs)
	if len(p.JwtRules) > maxTokenRules {
		f.at("jwtRules").errorf("has %d rules, want at most %d", len(p.JwtRules), maxTokenRules)
	}
	if len(p.JwtRules) == 0 {
		f.at("jwtRules").warnf("is missing: no token is looked at")
	}
	for i, r := range p.JwtRules {
		f.at("jwtRules").item(i).tokenRule(r)
	}
}

func (f field) tokenRule(r *security.JWTRule) {
	f.at("issuer").required(len(r.GetIssuer()))
	tokenRuleKeys(f, r)
	for name, list := range inOrder(map[string][]string{
		"audiences": r.GetAudiences(), "fromParams": r.GetFromParams(), "fromCookies": r.GetFromCookies(), "spaceDelimitedClaims": r.GetSpaceDelimitedClaims(),
	}) {
		for i, v := range list {
			if at := f.at(name).item(i); at.required(len(v)) {
				at.text(v)
			}
		}
	}
	for i, h := range r.GetFromHeaders() {
		at := f.at("fromHeaders").item(i)
		at.at("name").plainHeader(h.GetName())
		at.at("prefix").text(h.GetPrefix())
	}
	if r.GetOutputPayloadToHeader() != "" {
		f.at("outputPayloadToHeader").outputHeader(r.OutputPayloadToHeader)
	}
	seen := map[string]bool{}
	for i, c := range r.GetOutputClaimToHeaders() {
		at := f.at("outputClaimToHeaders").item(i)
		at.at("header").outputHeader(c.GetHeader())
		if at.at("claim").required(len(c.GetClaim())) {
			at.at("claim").text(c.Claim)
		}
		name := strings.ToLower(c.GetHeader())
		if seen[name] {
			at.at("header").errorf("is %q again, want each header once", c.GetHeader())
		}
		seen[name] = true
	}
}

// tokenRuleKeys requires keys that can be used.
func tokenRuleKeys(f field, r *security.JWTRule) {
	f.at("timeout").duration(r.GetTimeout())
	if t := r.GetTimeout().AsDuration(); t > model.MaxKeyTimeout {
		f.at("timeout").warnf("is %v, and discovery waits for keys %v at most", t, model.MaxKeyTimeout)
	}
	switch {
	case r.GetJwks() != "" && r.GetJwksUri() != "":
		f.at("jwks").errorf("is given beside jwksUri, want one of them")
	case r.GetJwksUri() != "":
		if u, err := url.Parse(r.JwksUri); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			f.at("jwksUri").errorf("is %q, want http://HOST/… or https://HOST/…", r.JwksUri)
			return
		}
	case r.GetJwks() == "":
		if model.KeyURI(r) == "" {
			f.at("jwks").errorf("is missing, and so is jwksUri: want one of them, or as issuer http://HOST/… or https://HOST/…, where they are looked for")
		}
	default:
		_, fault, doubt := model.ReadKeySet(r.Jwks)
		if fault != "" {
			f.at("jwks").errorf("%s", fault)
		} else if doubt != "" {
			f.at("jwks").warnf("%s", doubt)
		}
	}
}

// outputHeader requires a name that Istio takes too.
func (f field) outputHeader(name string) {
	if f.required(len(name)) && !outputHeader.MatchString(name) {
		f.errorf("is %q, want letters, digits, - and _", name)
	}
}

func (f field) plainHeader(name string) {
	if f.required(len(name)) && !plainHeader.MatchString(name) {
		f.errorf("is %q, want the name of a header", name)
	}
}

var (
	ruleFault = regexp.MustCompile(`^spec\.jwtRules\[(\d+)\]\.`)
	keyFault  = regexp.MustCompile(`^spec\.jwtRules\[\d+\]\.(jwks|jwksUri|timeout)$`)
)

// emptyJWKS stand for keys that cannot be read: a rule without any would get those of its issuer's address.
const emptyJWKS = "{}"

// failClosedRequestAuthentication closes an object that was read but for these faults. A rule whose keys are not known
// takes no token of its issuer; one that cannot be read otherwise takes no token at all, and loses its issuer.
func failClosedRequestAuthentication(
	p *security.RequestAuthentication, faults []Problem,
) *security.RequestAuthentication {
	unread := &security.RequestAuthentication{JwtRules: []*security.JWTRule{{}}}
	seen := map[string]bool{}
	for _, f := range faults {
		top, _, _ := strings.Cut(f.Path, ".")
		if f.Severity == Warning || top == "metadata" || top == "apiVersion" || top == "kind" {
			continue
		}
		m := ruleFault.FindStringSubmatch(f.Path)
		i := len(p.JwtRules)
		if m != nil {
			i = indexOf(m[1])
		}
		switch {
		case strings.HasPrefix(f.Path, "spec.selector"), strings.HasPrefix(f.Path, "spec.targetRef"):
			p.Selector = nil
		case i >= len(p.JwtRules), seen[f.Path]:
			return unread
		case keyFault.MatchString(f.Path):
			p.JwtRules[i].Jwks, p.JwtRules[i].JwksUri = emptyJWKS, ""
		default:
			p.JwtRules[i] = unreadableRule(p.JwtRules[i])
		}
		seen[f.Path] = true
	}
	for i, rule := range p.JwtRules { // nobody has judged the rules of an object of which a part cannot be read
		r := newPlaceless()
		r.root().at("jwtRules").item(i).tokenRule(rule)
		for _, f := range r.named {
			switch {
			case f.Severity == Warning:
			case keyFault.MatchString(f.Path):
				rule.Jwks, rule.JwksUri = emptyJWKS, ""
			default:
				p.JwtRules[i] = unreadableRule(rule)
			}
		}
	}
	r := newPlaceless()
	r.root().selector(p.Selector)
	if r.counts[Error] > 0 || p.TargetRef != nil || len(p.TargetRefs) > 0 {
		p.Selector, p.TargetRef, p.TargetRefs = nil, nil, nil
	}
	return p
}

// unreadableRule returns what stands for a rule that cannot be read: its places, as far as Envoy takes them.
func unreadableRule(was *security.JWTRule) *security.JWTRule {
	out := &security.JWTRule{
		FromParams:  slices.DeleteFunc(slices.Clone(was.GetFromParams()), func(s string) bool { return s == "" }),
		FromCookies: slices.DeleteFunc(slices.Clone(was.GetFromCookies()), func(s string) bool { return s == "" }),
	}
	for _, h := range was.GetFromHeaders() {
		if !plainHeader.MatchString(h.GetName()) {
			continue
		}
		at := &security.JWTHeader{Name: h.Name, Prefix: h.Prefix}
		if strings.ContainsAny(at.Prefix, "\x00\r\n") { // no request has it: whatever the header has counts
			at.Prefix = ""
		}
		out.FromHeaders = append(out.FromHeaders, at)
	}
	return out
}

// indexOf reads the digits of an index.
func indexOf(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 1 << 30
	}
	return n
}
