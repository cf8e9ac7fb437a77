// hclfmt FILE...: name the files that HCL's own parser refuses, and those that its own formatter would change.
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

func main() {
	failed := false
	for _, name := range os.Args[1:] {
		content, err := os.ReadFile(name)
		if err != nil {
			fmt.Println(err)
			os.Exit(2)
		}
		if _, problems := hclsyntax.ParseConfig(content, name, hcl.InitialPos); problems.HasErrors() {
			fmt.Println(problems)
			failed = true
		} else if !bytes.Equal(hclwrite.Format(content), content) {
			fmt.Printf("%s: not formatted as terraform fmt does\n", name)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}
