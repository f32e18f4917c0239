package main

import (
	"fmt"

	"github.com/aptixhq/aptix/internal/config"
)

// notAFile is what a command says that works on the data file where there is none.
func notAFile(cfg config.Config, instead string) error {
	return fmt.Errorf("the data is in %s, not in a file: %s", cfg.Store(), instead)
}
