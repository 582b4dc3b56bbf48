// Package debugclient asks a running discovery for the commands beside serve: on its host over HTTP, from elsewhere at the secure port with a certificate.
//
// It does not print, and it does not start or find a discovery: commands own flags and output, discovery/status the pages.
package debugclient
