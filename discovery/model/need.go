package model

import "slices"

// need is a part of the mesh that the notes of an object depend on, beside the object itself and the settings: they stay the same
// until one of these changes.
type need struct {
	about about
	name  string // a host, or NAMESPACE/NAME; "" where there is one part only
}

type about uint8

const (
	needServices  about = iota + 1 // the services of a host, without their endpoints
	needEndpoints                  // the same, with them
	needPolicies                   // the DestinationRules for a host
	needGateway                    // a Gateway
	needDelegate                   // a VirtualService without hosts
	needHosts                      // which hosts have services, and by what right
	needNamespaces
	needTemplates
	needWorkloads
	needProxies // the connected ones
	needInbound // what sidecars take at their ports, as Sidecars and PeerAuthentications say
)

// maxNeeded is how many parts are remembered for one object. An object that asks for more is examined each time.
const maxNeeded = 100

// needs records that the object under examination depends on a part of the mesh. The functions that examine VirtualServices,
// DestinationRules, ServiceEntries and WorkloadEntries record what they read; objects of the other kinds are examined each time.
func (j *judge) needs(about about, name string) {
	one := need{about, name}
	switch {
	case slices.Contains(j.needed, one):
	case len(j.needed) == maxNeeded:
		j.fleeting = true
	default:
		j.needed = append(j.needed, one)
	}
}

func (j *judge) service(host string) *Service {
	j.needs(needServices, host)
	return j.mesh.Service(host)
}

func (j *judge) claims(host string) []*Service {
	j.needs(needServices, host)
	return j.mesh.claims(host)
}

// backed is claims, for whatever reads their endpoints too.
func (j *judge) backed(host string) []*Service {
	j.needs(needEndpoints, host)
	return j.mesh.claims(host)
}

// noServices reports whether the mesh has no service: the configuration is then checked without the services that it is for.
func (j *judge) noServices() bool {
	if len(j.mesh.services) > 0 {
		return false
	}
	j.needs(needHosts, "")
	return true
}

// needsTemplates records that templates are read, and which services select them.
func (j *judge) needsTemplates() {
	j.needs(needTemplates, "")
	j.fleeting = j.fleeting || j.started
}
