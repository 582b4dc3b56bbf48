package main

import (
	"github.com/pilotlight/pilotlight/discovery/acme/client"
	"github.com/pilotlight/pilotlight/discovery/plane"
	"github.com/pilotlight/pilotlight/internal/setting"
)

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
