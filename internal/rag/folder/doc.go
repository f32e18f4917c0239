// Package folder brings the files of a folder into an index: it walks the folder as git
// would see it, cuts files into passages by lines, and brings an index up to date with
// what changed. No turn waits for it; 'aptix index' runs it.
package folder
