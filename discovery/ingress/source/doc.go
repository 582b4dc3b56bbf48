// Package source is the source of the Gateways and VirtualServices that are made from the Ingresses of all stores.
//
//	API server ─▶ Feed ─┐                        ┌─▶ Update
//	directory ──▶ Feed ─┴▶ ingress.Table ────────┤
//	Secrets.Known ──────────────┘                └─▶ Secrets.Want; Feed.Served: the Ingresses of the store that are served
//
// It lives as long as the process: while a store cannot be read, its last objects stay. It does not read anything
// itself.
package source
