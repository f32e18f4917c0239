package folder

import (
	"path"
	"strings"
)

// languages are the names that Markdown knows a language by, by file extension.
var languages = map[string]string{
	".adoc": "asciidoc", ".bash": "bash", ".c": "c", ".cc": "cpp", ".cpp": "cpp", ".cs": "csharp", ".css": "css",
	".csv": "csv", ".dart": "dart", ".ex": "elixir", ".exs": "elixir", ".go": "go", ".graphql": "graphql",
	".groovy": "groovy", ".h": "c", ".hpp": "cpp", ".hs": "haskell", ".html": "html", ".java": "java",
	".js": "javascript", ".json": "json", ".jsx": "jsx", ".kt": "kotlin", ".lua": "lua", ".m": "objectivec",
	".md": "markdown", ".mjs": "javascript", ".php": "php", ".pl": "perl", ".proto": "protobuf", ".ps1": "powershell",
	".py": "python", ".r": "r", ".rb": "ruby", ".rs": "rust", ".rst": "rst", ".scala": "scala", ".scss": "scss",
	".sh": "bash", ".sql": "sql", ".svelte": "svelte", ".swift": "swift", ".tf": "hcl", ".toml": "toml",
	".ts": "typescript", ".tsx": "tsx", ".txt": "text", ".vue": "vue", ".xml": "xml", ".yaml": "yaml", ".yml": "yaml",
	".zig": "zig",
}

// names are the files whose language no extension tells.
var names = map[string]string{"dockerfile": "dockerfile", "makefile": "makefile", "go.mod": "go.mod", "cmakelists.txt": "cmake"}

// Language returns the language of a file by its name, "" when that does not tell.
func Language(name string) string {
	base := strings.ToLower(path.Base(name))
	if l, ok := names[base]; ok {
		return l
	}
	return languages[path.Ext(base)]
}
