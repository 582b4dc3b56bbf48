// Package kube reads from and writes to the API server of a Kubernetes cluster, with client-go.
//
//	Access.Client ──▶ Election.Run ──▶ functions that run in one of several replicas, while it holds a Lease
//
//	Client.SetCondition, Client.Tell ──▶ the verdict on an object, in its status and as an Event
//
//	Run(connect) ──▶ Session.Start(Watch) … ──▶ Event: all objects, then each that changes ──▶ Outbox ──▶ updates
//	  ▲                   │
//	 Keep: again          └── an error, when the server refuses, or is away for longer than Patience
//
// A watch that ends is started again at the resourceVersion where it ended. After a watch that is too old (410) all
// objects are listed again, as one Event; objects that are not in the list were deleted. Lists are streamed where the
// server supports it (WatchList).
//
// Objects are stripped before they are passed on. The package does not keep or interpret them. Only Keep makes a second
// attempt after an error.
package kube
