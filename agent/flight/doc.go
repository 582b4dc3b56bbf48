// Package flight writes the record of a crash, a hang or a failed handover: what an engineer asks for the next morning.
//
//	Record ──▶ Mask, cut ──▶ dir/20261121T182508.577000000Z-epoch3.json (0600) ──▶ the oldest but keep are removed
//
// A record holds no secret that Mask knows, and is bounded whatever goes into it. The package refuses to watch
// anything: it reads /proc when it is asked to, from any fs.FS, and what it is given for the rest.
package flight
