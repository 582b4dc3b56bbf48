// Package ads holds the tests of discovery's protocol with real clients, in both variants of ADS: a real Envoy behind a relay
// that counts bytes and cuts connections, proxyless gRPC, and crowds of connections. They show that a change is pushed alone,
// that a refused resource is isolated, and what a restart costs.
//
// It leaves to e2e/lab how programs are started, to e2e/traffic what the configuration does to requests, and to e2e/wire
// software of others.
package ads
