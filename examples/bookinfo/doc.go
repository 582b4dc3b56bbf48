// Bookinfo is four small services in one program, for the demo and the tests with a real Envoy: productpage asks details
// and reviews, and reviews v2 asks ratings. Each is an ordinary HTTP program that knows nothing of the mesh but
// http_proxy, its sidecar's door for outbound calls.
//
//	browser ─▶ productpage ─┬─▶ details
//	                        └─▶ reviews v1
//	                            reviews v2 ─▶ ratings
//
// The services call each other by short names on port 9080; who answers is the mesh's business. What belongs to one
// request (end-user, request id, trace headers) is handed on, as every program in a mesh must. A failing upstream is
// shown, with its status, and never brings the page down.
package main
