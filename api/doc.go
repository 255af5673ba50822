// Package api has the types of the plugin's admin API, and a client.
//
// The API is HTTP with JSON below /v1, on the socket admin.sock beside that of the volume
// protocol. openapi.yaml (Document) describes each route. Everyone who can open the socket
// may do everything.
//
// A list is sorted by the key of its records and comes in pages; the methods of Client
// fetch all of them. A record that is added or removed between two pages may be missing
// or present; every other record is listed exactly once. An answer may have fields that
// this version does not know, so clients ignore those. Secrets are in requests only.
//
// A long operation answers with JSON lines: each is a Progress, except the last, which has
// the result or the error.
//
// The package imports nothing of the plugin, so docker repos inherits none of its dependencies, and the plugin's own
// types can change without the API. Tests hold the three together: the document has exactly the registered routes,
// each schema has the fields of its Go type, and what the handlers and a running plugin answer is as the document
// says.
package api

import _ "embed"

// Document is the OpenAPI description of the API, in YAML.
//
//go:embed openapi.yaml
var Document []byte
