// Package mode holds the catalogue of modes: what each mode is for, which server
// tools it brings and what it tells the model. Modes are design-time data. They are
// read when the server starts, from one YAML file each, and any fault in them stops the
// start with every problem listed (decision 31).
//
// A turn meets the package twice: the tools of its session's mode are looked up
// before the tools are frozen (AGN-011 §4.2), and Layer writes the text that tells
// the model, on every call, which mode it is in and which others there are.
//
// A Catalog never changes after it was built, so it is safe for concurrent use. A server
// may be given another one while it runs: Live has the one in force and, for turns that
// began earlier, those before it (D78).
package mode
