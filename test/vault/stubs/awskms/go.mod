module github.com/hashicorp/go-kms-wrapping/wrappers/awskms/v2

go 1.20
