// Serves Pub/Sub's own fake on a port of the loopback interface, until it is killed: fake_pubsub PORT
package main

import (
	"log"
	"os"
	"strconv"

	"cloud.google.com/go/pubsub/pstest"
)

func main() {
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	server := pstest.NewServerWithPort(port)
	defer server.Close()
	select {}
}
