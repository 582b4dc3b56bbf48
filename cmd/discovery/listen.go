package main

import (
	"errors"
	"fmt"
	"net"

	"github.com/pilotlight/pilotlight/discovery/ads"
)

// listeners are the listeners of the served addresses; secure, monitoring and webhooks are nil if they are not
// configured.
type listeners struct {
	grpc, web, secure, monitoring, webhooks net.Listener

	tls *ads.TLS
}

// open opens all of them, or none, and returns every error.
func (c *settings) open() (d listeners, err error) {
	var faults []error
	listen := func(wanted bool, flag, address string) net.Listener {
		if !wanted {
			return nil
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", flag, err))
			return nil
		}
		return l
	}
	d.grpc = listen(true, "--grpcAddr", c.grpcAddr)
	d.web = listen(true, "--httpAddr", c.httpAddr)
	d.monitoring = listen(c.monitoringAddr != "", "--monitoringAddr", c.monitoringAddr)
	d.secure = listen(c.secure(), "--secureGRPCAddr", c.secureGRPCAddr)
	d.webhooks = listen(c.webhooks.used(), "--webhookAddr", c.webhooks.address)
	if c.secure() {
		if d.tls, err = ads.NewTLS(c.certificates); err != nil {
			faults = append(faults, err)
		}
	}
	if err := errors.Join(faults...); err != nil {
		d.close()
		return listeners{}, err
	}
	return d, nil
}

// close closes the open listeners. No connection has been accepted by then.
func (d listeners) close() {
	for _, l := range []net.Listener{d.grpc, d.web, d.monitoring, d.secure, d.webhooks} {
		if l != nil {
			_ = l.Close()
		}
	}
}

func addressOf(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}
