// Bookinfo is four small services in one program, for the demo and the tests with a real Envoy: productpage asks details
// and reviews, and reviews v2 asks ratings. Each is an ordinary HTTP program: of the mesh it knows only http_proxy, the
// address of its sidecar's outbound listener.
//
//	browser ─▶ productpage ─┬─▶ details
//	                        └─▶ reviews v1
//	                            reviews v2 ─▶ ratings
//
// The services call each other by short names on port 9080. They leave it to the mesh which instance answers. Headers that
// belong to one request (end-user, request id, trace headers) are copied to the calls that it causes, as every program in a
// mesh must. A failing upstream is shown with its status; the page itself is still served.
package main
