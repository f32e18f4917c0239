// Package embedding turns texts into vectors, for retrieval: offline by hashing, or with
// the embeddings API of a provider. The indexer embeds passages with it, and a turn its
// question, before the model is asked.
package embedding
