module github.com/hashicorp/go-discover/provider/k8s

go 1.20
