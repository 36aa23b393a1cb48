module github.com/redoubt-go/redoubt/valkeyconn

go 1.26.0

replace github.com/redoubt-go/redoubt => ../

require (
	github.com/redoubt-go/redoubt v0.1.0
	github.com/valkey-io/valkey-go v1.0.79
	go.uber.org/goleak v1.3.0
)

require golang.org/x/sys v0.48.0 // indirect
