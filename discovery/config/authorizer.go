package config

import (
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	security "istio.io/api/security/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// headerPattern is the name of a header, with * before or behind it for any further text.
var headerPattern = regexp.MustCompile("^([-!#$%&'+.^_`|~0-9a-zA-Z]+\\*?|\\*[-!#$%&'+.^_`|~0-9a-zA-Z]+)$")

// authorizer requires a provider for authorization that Envoy can ask.
func (f field) authorizer(p *meshconfig.MeshConfig_ExtensionProvider) {
	if h := p.GetEnvoyExtAuthzHttp(); h != nil {
		at := f.at("envoyExtAuthzHttp")
		older := h.IncludeHeadersInCheck //lint:ignore SA1019 it is the older name of includeRequestHeadersInCheck
		at.asked(h.Service, h.Port, h.Timeout, h.StatusOnError, h.IncludeRequestBodyInCheck)
		if h.PathPrefix != "" && !strings.HasPrefix(h.PathPrefix, "/") {
			at.at("pathPrefix").errorf("is %q, want / before it", h.PathPrefix)
		}
		at.at("pathPrefix").text(h.PathPrefix)
		for name, list := range inOrder(map[string][]string{
			"includeHeadersInCheck": older, "includeRequestHeadersInCheck": h.IncludeRequestHeadersInCheck,
			"headersToUpstreamOnAllow": h.HeadersToUpstreamOnAllow, "headersToDownstreamOnDeny": h.HeadersToDownstreamOnDeny,
			"headersToDownstreamOnAllow": h.HeadersToDownstreamOnAllow,
		}) {
			for i, v := range list {
				if !headerPattern.MatchString(v) {
					at.at(name).item(i).errorf("is %q, want the name of a header, the prefix X* or the suffix *X of names", v)
				}
			}
		}
		if len(older) > 0 && len(h.IncludeRequestHeadersInCheck) > 0 {
			at.at("includeHeadersInCheck").warnf("is ignored beside includeRequestHeadersInCheck, its newer name")
		}
		for name, value := range inOrder(h.IncludeAdditionalHeadersInCheck) {
			to := at.at("includeAdditionalHeadersInCheck").key(name)
			to.plainHeader(name)
			to.text(value)
		}
	}
	if g := p.GetEnvoyExtAuthzGrpc(); g != nil {
		f.at("envoyExtAuthzGrpc").asked(g.Service, g.Port, g.Timeout, g.StatusOnError, g.IncludeRequestBodyInCheck)
	}
}

// asked requires what providers of HTTP and of gRPC have.
func (f field) asked(service string, port uint32, timeout *durationpb.Duration, status string,
	body *meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationRequestBody,
) {
	namespace, host, both := strings.Cut(service, "/")
	if !both {
		host = service
	} else {
		f.at("service").label(namespace)
	}
	f.at("service").host(host, false)
	f.at("port").port(port)
	f.at("timeout").duration(timeout)
	if _, fault := model.ParseErrorStatus(status); fault != "" {
		f.at("statusOnError").errorf("%s", fault)
	}
	if body != nil && body.MaxRequestBytes == 0 {
		f.at("includeRequestBodyInCheck").at("maxRequestBytes").errorf("is 0, want 1 or more")
	}
}

// ofCertificates are the conditions that Istio does not take in CUSTOM policies: those about who the client or its token is.
var ofCertificates = []model.Attribute{
	model.SourcePrincipal, model.SourceNamespace, model.SourceAccount, model.SourceDomain,
	model.RequestPrincipal, model.RequestAudiences, model.RequestPresenter, model.RequestClaims,
}

// customPolicy requires what a CUSTOM policy has beside its rules.
func (f field) customPolicy(p *security.AuthorizationPolicy) {
	if p.GetProvider().GetName() == "" {
		f.at("provider").at("name").errorf("is missing: want the name of an extension provider of MeshConfig, which is asked")
	}
	if f.report.dryRun {
		f.at("action").warnf("is CUSTOM under the annotation %s: nobody is asked, and nobody is kept out", dryRunAnnotation)
	}
	for i, r := range p.Rules {
		at := f.at("rules").item(i)
		for j, from := range r.GetFrom() {
			s := from.GetSource().ProtoReflect()
			for k := range s.Descriptor().Fields().Len() {
				fd := s.Descriptor().Fields().Get(k)
				if s.Get(fd).List().Len() > 0 && slices.Contains(ofCertificates, attributeOf(fd.JSONName(), sourceFields)) {
					at.at("from").item(j).at("source").at(fd.JSONName()).errorf("is about the client's identity or token, which CUSTOM does not take: want ipBlocks or remoteIpBlocks, or leave it to the provider")
				}
			}
		}
		for j, w := range r.GetWhen() {
			if c, known := model.ParseCondition(w.GetKey()); known && slices.Contains(ofCertificates, c.Attribute) {
				at.at("when").item(j).at("key").errorf("is %s, about the client's identity or token, which CUSTOM does not take: leave it to the provider", w.Key)
			}
		}
	}
}
