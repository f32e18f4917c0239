// Package tenants holds the tests of the walls between organisations: three of them on
// one server, each with everything that a tenant can have, and every route of the
// published document asked by each of them about the things of the others
// (reliability S-7, S-8, S-9, S-23).
package tenants
