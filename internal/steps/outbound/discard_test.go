package outbound

import (
	"io"
	"log"
)

// discard is the log of servers whose handshakes are meant to fail.
var discard = log.New(io.Discard, "", 0)
