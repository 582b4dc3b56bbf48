// Adsbench measures what the ADS server costs beside the floor: a server that sends the same captured bytes with nothing
// to compute. Each runs in a process of its own, and so does a fleet of simulated Envoys, one connection each.
//
//	go run ./e2e/adsbench -services 1000 -endpoints 10 -proxies 1000
//
//	            commands on stdin, JSON lines on stdout
//	adsbench ──┬──▶ server: the real discovery loop and ADS server over a directory of YAML
//	           ├──▶ floor:  captured responses
//	           └──▶ fleet:  CDS → EDS → LDS → RDS and ACKs, state of the world or delta
//
//	go run ./e2e/adsbench ca
//
// measures what certificates cost a discovery that is an authority: 10,000 renewals at a pace, then all at once.
//
// It does not measure Envoy. A change is a file that is written, so its time includes the 50 ms in which the store waits for
// further writes.
package main
