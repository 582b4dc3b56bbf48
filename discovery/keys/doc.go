// Package keys fetches the JSON Web Key Sets that RequestAuthentications name by jwksUri, or by an issuer that has a
// document with their address.
//
//	URIs that policies name ──▶ Plan: which one now ──▶ Fetcher ──▶ Know: what is served of each, and when it is next asked
//	                                                      │ resolve ▶ judge each address ▶ dial the one that was judged
//	                                                      └ a bounded answer, a bounded time, no redirection to elsewhere
//
// Who may write a policy decides where discovery sends a request. So no request goes to addresses inside: loopback, private,
// link-local and the like, unless the operator allows it; a name is resolved once, and what was judged is dialled. What was
// fetched last is served until there is something better, however long that takes. The package does not say what a policy means
// without its keys.
package keys
