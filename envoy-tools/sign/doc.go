// Command sign signs the files of a release, and attests the contents of its images.
//
//	sign KEY.pem FILE...          FILE.sig for each, and NAME.att.json for an image archive NAME.tar that has NAME.spdx.json
//	sign -verify PUB.pem FILE...  checks both; every archive must have its attestation
//
// A signature is that of ECDSA over SHA-256, as base64, which OpenSSL and cosign verify as well. An attestation is an
// envelope (DSSE) of an in-toto statement: the digest of the image's manifest, by which registries know it, and the list of
// contents as its predicate. Keys are PEM, of the curve P-256. The command keeps no key, asks no service, and leaves it to its caller to build and to publish.
package main
