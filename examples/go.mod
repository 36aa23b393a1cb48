module github.com/redoubt-go/redoubt/examples

go 1.26.0

replace github.com/redoubt-go/redoubt => ../

require github.com/redoubt-go/redoubt v0.1.0
