package xds

// made counts what a build made anew, because an input had changed or there was nothing to reuse.
type made struct{ clusters, hosts, listeners int } // clusters: services whose clusters were made; hosts: virtual hosts

// clustered holds the clusters of each service with their inputs, by the service's host.
type clustered struct {
	view     *Outbound // with the fields that clusters depend on
	services []*serviceClusters
}

// serviceClusters holds the clusters and endpoints of one service. Views with the same inputs share it.
type serviceClusters struct {
	inputs clusterInputs
	made   *Resources
}

// serviceClusters adds the clusters of each service: those of last or of sibling where the inputs are the same. All lists are
// sorted by host.
func (b *builder) serviceClusters() {
	view := b.view.ofClusters()
	last, sibling := clusteredOf(b.last), clusteredOf(b.sibling)
	b.out.clustered.view = &view
	for _, known := range []*Outbound{sibling.view, last.view} {
		if known != nil && *known == view {
			b.out.clustered.view = known // so that a comparison of inputs is one of pointers
		}
	}
	services := b.scope.Services()
	b.out.clustered.services = make([]*serviceClusters, 0, len(services))
	for _, s := range services {
		in := inputsOf(b.mesh, s, b.scope.DestinationRule(s), b.out.clustered.view, b.view.sameIn(b.mesh, s))
		known := last.next(in)
		if known == nil {
			known = sibling.next(in)
		}
		if known == nil {
			b.out.made.clusters++
			known = &serviceClusters{in, in.clusters()}
			known.made.reuseEqualOf(b.last)
			known.made.reuseEqualOf(b.sibling)
		}
		b.out.clustered.services = append(b.out.clustered.services, known)
		b.out.add(known.made)
	}
}

func clusteredOf(r *Resources) clustered {
	if r == nil {
		return clustered{}
	}
	return r.clustered
}

// next returns the clusters that were made of the same inputs, nil if there are none. It drops the services before this one
// from the list.
func (c *clustered) next(in clusterInputs) *serviceClusters {
	for len(c.services) > 0 && c.services[0].inputs.service.Host < in.service.Host {
		c.services = c.services[1:]
	}
	if len(c.services) > 0 && c.services[0].inputs.Same(in) {
		return c.services[0]
	}
	return nil
}
