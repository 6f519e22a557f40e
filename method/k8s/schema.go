package k8s

import _ "embed"

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema (draft 2020-12) of group files. It says all
// that such a schema can say: Parse also refuses duplicate keys and nodes, a
// duration or a volume of 0, and requests that are more than their limits.
func Schema() []byte { return append([]byte(nil), schema...) }
