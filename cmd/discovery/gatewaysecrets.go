package main

import (
	"github.com/pilotlight/pilotlight/internal/setting"
)

func (s *settings) gatewayIdentities() []setting.Setting {
	return []setting.Setting{{
		Name: "gatewaySecrets", Kind: setting.List(&s.gatewaySecrets),
		Help: "namespaces and service accounts of gateways, as NAMESPACE/ACCOUNT, that get the Secrets which Gateways of that namespace name by " +
			"credentialName: of type kubernetes.io/tls, or with the keys cert, key and cacert; if empty, no Secret is read for Gateways",
	}}
}

// gatewayFaults returns the faults of these settings.
func (s *settings) gatewayFaults() (faults []error) {
	for _, identity := range s.gatewaySecrets {
		if !twoNames(identity) {
			faults = append(faults, s.origins.Fault("gatewaySecrets", identity, "NAMESPACE/ACCOUNT, with commas between several"))
		}
	}
	return faults
}
