// Package kube asks the API server of a Kubernetes cluster, by client-go.
//
//	Access.Client ──▶ Election.Run ──▶ functions that run in one of several replicas, while it holds a Lease
//
//	Client.SetCondition, Client.Tell ──▶ what is said of an object, in its status and as an Event
//
//	Access.Client ──▶ Client.Follow(Watch) ──▶ Event: all objects, then each that changes
//	                            │
//	                            └── an error, when the server refuses, or is away for longer than Patience
//
// A watch that ends is begun again where it ended. One that is too old (410) makes a list of everything, as an Event of its own;
// what it does not have was deleted. Lists are streamed where the server streams them (WatchList).
//
// Objects are stripped before they are kept or handed on. The package keeps none of them, does not know what they mean, and
// leaves a second attempt after an error to its caller.
package kube
