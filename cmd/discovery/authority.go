package main

import (
	"time"

	"github.com/pilotlight/pilotlight/discovery/acme/client"
	"github.com/pilotlight/pilotlight/discovery/plane"
	"github.com/pilotlight/pilotlight/internal/setting"
)

const (
	shortestTTL = time.Second
	longestTTL  = 90 * 24 * time.Hour

	longestOverlap = 4 * longestTTL
)

// authority returns the settings of the authority that signs certificates of workloads.
func (s *settings) authority() []setting.Setting {
	a := &s.Authority
	return []setting.Setting{
		{
			Name: "ca", Default: "false", Kind: setting.Bool(&a.Used),
			Help: "sign certificates of workloads, by POST /v1/certificates over HTTPS at --secureGRPCAddr, for callers with a join token, a certificate of this " +
				"authority, or with --registries Kubernetes a Pod's token of its service account with the audience istio-ca; without --tlsCertFile the server's own certificate comes from it too",
		},
		{
			Name: "caDir", Default: plane.AuthorityDir, Kind: setting.Path(&a.Dir),
			Help: "directory of the authority: ca-cert.pem, ca-key.pem, root-cert.pem and cert-chain.pem, as Istio names them, and join tokens. If it has none " +
				"of these, a root is made there; a directory that lacks one of them is refused",
		},
		{
			Name: "caSecret", Kind: object(&a.Secret),
			Help: "Secret that all replicas share instead of the files of --caDir, as NAMESPACE/NAME, Istio's istio-system/cacerts; it is made if there is none, and its " +
				"roots are written into the ConfigMap istio-ca-root-cert of each namespace by the leader. Join tokens are in the Secret NAME-join-tokens beside it, and --caDir is not used",
		},
		{
			Name: "caTTL", Default: plane.AuthorityTTL.String(), Kind: setting.Duration(&a.Terms.Default, shortestTTL, longestTTL),
			Help: "how long a certificate is valid whose caller does not say",
		},
		{
			Name: "caMaxTTL", Default: plane.AuthorityTTL.String(), Kind: setting.Duration(&a.Terms.Most, shortestTTL, longestTTL),
			Help: "how long one is valid at most; what is asked beyond is cut, and the answer says so",
		},
		{
			Name: "rootOverlap", Default: "0s", Kind: setting.Duration(&a.Overlap, 0, longestOverlap),
			Help: "how long both roots are trusted at least while discovery ca rotate replaces one, before the new one signs; what the lives of certificates need is never cut",
		},
		{
			Name: "caHosts", Kind: setting.List(&a.Hosts),
			Help: "further names and addresses of the server's own certificate, beside those of its Service, its host's name and localhost",
		},
		{
			Name: "caIssuers", Kind: setting.Path(&a.Issuers),
			Help: "YAML file of the issuers whose tokens (JWT) prove an identity, each with the file of its keys, a JWKS, and the claims that give namespace and service account",
		},
	}
}

// issuers returns the settings of issuers of certificates of Gateways.
func (s *settings) issuers() []setting.Setting {
	return []setting.Setting{
		{
			Name: "acmeIssuer", Kind: setting.Parsed(&s.Issuers.Of, "issuers", "NAME=https://HOST/…[,email=ADDRESS][,roots=FILE], with semicolons between several", client.ParseIssuers),
			Help: "ACME servers that give the certificates of Gateways' servers with credentialName acme://NAME, by the directory's URL; roots are those of the server's " +
				"own certificate, PEM. Its terms of service are accepted. Keys and certificates are kept in --stateDir by one discovery alone, or in --acmeSecret",
		},
		{
			Name: "acmeGateways", Kind: setting.Parsed(&s.Issuers.Gateways, "names", "NAMESPACE/ACCOUNT, with commas between several", plane.ParseNames),
			Help: "service accounts of the gateways that answer the questions of --acmeIssuer, and get its certificates with their keys, over mutual TLS",
		},
		{
			Name: "acmeSecret", Kind: object(&s.Issuers.Secret),
			Help: "NAMESPACE/NAME of the Secret with the accounts' keys of --acmeIssuer, which replicas share; each certificate is in one of its own beside it, NAME-…, and what " +
				"replicas say of their gateways in NAME-replicas. The replica that holds the Lease orders; all serve certificates, and their gateways answer",
		},
		{
			Name: "acmeInside", Default: "false", Kind: setting.Bool(&s.Issuers.Inside),
			Help: "ask --acmeIssuer also at addresses that are not of the Internet: loopback, private, link-local and the like",
		},
	}
}
