// Package eureka is the registry of Netflix's Eureka, by its REST API.
//
//	/apps        whole, at the start and when the hash code differs ─┐
//	/apps/delta  every few seconds ──────────────────────────────────┼─▶ registry: records ─▶ groupsOf ─▶ Update
//	             of the first server that answers                    └── lacking: kept until its lease is over
//
// A vipAddress is a host: reviews is reviews.service.eureka. docs/design/014-consul-eureka.md describes the use of the
// other fields.
//
// A Eureka server keeps everything in memory, and is empty after a restart until the instances have renewed. So a
// Source keeps its records between its runs. The package does not register anything.
package eureka
